"""``docs/tables.md`` says what the shipped tables do today."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def tables():
    spec = importlib.util.spec_from_file_location("tools_tables", ROOT / "tools" / "tables.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def page(tables):
    return tables.page()


def test_the_page_is_what_the_tables_do_today(tables, page):
    differ = [
        f"- {was}\n+ {now}"
        for was, now in zip(
            tables.PAGE.read_text(encoding="utf-8").splitlines(), page.splitlines(), strict=False
        )
        if was != now
    ]
    assert tables.PAGE.read_text(encoding="utf-8") == page, "python tools/tables.py\n" + "\n".join(differ[:5])


def test_every_scenario_made_for_it_is_shown_and_every_two_tables_differ_in_some(tables, page):
    made = sorted((tables.SCENARIOS / tables.MADE).glob("*.json"))
    assert len(made) >= 10
    assert [file for file in made if f"`tables/{file.stem}`" not in page] == []
    shown = [
        line.split(" | ")[-3:]
        for line in page.splitlines()
        if line.startswith("| ") and line.count(" | ") >= 3
    ]
    assert all(any(cells[a] != cells[b] for cells in shown) for a, b in ((0, 1), (0, 2), (1, 2)))


def test_what_the_laws_fix_comes_out_alike(page):
    for name in (
        "a-payment-that-may-have-happened",
        "a-payment-that-nobody-can-look-up",
        "a-write-that-failed-for-good",
    ):
        row = page.partition(f"`tables/{name}`")[2].splitlines()[2]
        assert row.startswith("| all alike | ")


def test_a_run_that_breaks_an_invariant_is_not_shown(tables, monkeypatch):
    file = next(iter(sorted((tables.SCENARIOS / tables.MADE).glob("*.json"))))
    broken = tables.Result(
        name="x",
        ok=False,
        failures=("audit: event 3, chain: torn",),
        run="done",
        tasks={},
        effects={},
        calls={},
        planner_calls=0,
        virtual_s=0,
    )
    monkeypatch.setattr(tables, "simulate", lambda *_, **__: broken)
    monkeypatch.setattr(tables, "SCENARIOS", file.parent)
    with pytest.raises(SystemExit, match="event 3, chain: torn; mend that before it is shown"):
        tables.compared({"default": None})
