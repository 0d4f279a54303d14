"""``why`` from logs as they lie around, and from a run in one's hands."""

import pytest

from fsm_agent import Plan, RunController, Toolbox, ToolError, why
from fsm_agent.core.errors import NotFoundError
from fsm_agent.core.rules.table import from_canonical
from fsm_agent.runtime.configs import load_rules, with_lines
from fsm_agent.stores.memory import MemoryStore


@pytest.fixture
def tools():
    box = Toolbox()

    @box.read
    async def fetch() -> int:
        raise ToolError("auth_denied", "no access")

    return box


PLAN = {"steps": [{"id": "a", "tool": "fetch"}]}


async def run_it(tools, store, **more) -> None:
    async with await RunController.start(Plan.make(PLAN), tools, store=store, run_id="r", **more) as run:
        await run.wait()
        assert run.why("a").decision.rule == "ask-for-access"
        assert run.why().state == "awaiting-confirmation"
        assert run.why(1).subject == "event 1"
        with pytest.raises(NotFoundError):
            run.why("b")


def run(coroutine) -> None:
    import asyncio

    asyncio.run(coroutine)


def test_a_log_says_why_with_the_line_of_the_row(tools, tmp_path):
    run(run_it(tools, tmp_path / "runs.db"))
    found = why(tmp_path / "runs.db", "a")
    (row,) = [r for r in load_rules("default").rows if r.id == "ask-for-access"]
    assert found.decision.where == f"default:{row.line}"
    (command,) = found.commands
    assert command.startswith('fsm-agent answer r a \'{"decide": "retry"}\' --digest ')


def test_an_open_store_says_why_too(tools):
    store = MemoryStore()
    run(run_it(tools, store))
    assert why(store, run="r").waits == "a person's word about a"


def test_a_table_of_ones_own_is_found_where_it_lies_and_is_still_the_same(tools, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text('\nschema = 1\nextends = "default"\n[params]\nretries = 1\n')
    store = MemoryStore()
    run(run_it(tools, store, rules="mine.toml"))
    assert why(store, "a").decision.where.startswith("default:")
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nextends = "default"\n[[row]]\nid = "nobody-answered"\nstate = "failed"\n'
        'signal = "approval_expired"\ndecide = "escalate"\nwhy = "in other words"\n'
    )
    assert why(store, "a").decision.where == "mine"
    (tmp_path / "mine.toml").write_text("no table")
    assert why(store, "a").decision.where == "mine"
    (tmp_path / "mine.toml").unlink()
    assert why(store, "a").decision.where == "mine"


def test_params_that_were_set_for_a_run_do_not_hide_the_lines():
    table = load_rules("default", {"retries": 7})
    assert all(row.line for row in with_lines(from_canonical(table.canonical)).rows)
