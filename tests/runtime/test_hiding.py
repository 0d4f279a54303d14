"""What people say holds secrets too: none of them reaches the log or the inbox, whatever kind of word carries it."""

import asyncio
import base64
import functools
import json
from pathlib import Path

import pytest

from fsm_agent import Plan, RunController, Toolbox, ToolError
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Person, Replan, Usage
from fsm_agent.core.tools import is_secret
from fsm_agent.runtime.planning.planner import Proposal
from fsm_agent.runtime.secrets.hiding import hidden, hide_document, refuse_secrets
from fsm_agent.runtime.secrets.proposals import discreet, without_literals
from fsm_agent.runtime.secrets.vault import Vault

GIVEN = "c4n-given-8c1f0e7a"
SAID = "c4n-said-55aa0b1c"
ANN = Person(by="ann", channel="api", note="")
LOGIN = {"id": "a", "tool": "login", "args": {"token": "$inputs.t", "pin": 90412873655}}
PAY = {"id": "b", "tool": "pay", "args": {"token": "$inputs.t", "amount": 1}, "depends_on": ["a"]}


def box(calls):
    tools = Toolbox()

    @tools.read(secret=["token", "pin"])
    async def login(token: str, pin: int) -> dict:
        basic = base64.b64encode(f"user:{token}".encode()).decode()
        return {"number": pin, "header": f"Basic {basic}", "hex": token.encode().hex()}

    @tools.write(secret=["token", "session"], confirm=True, timeout_s=5, settle_s=0)
    async def pay(token: str, amount: int) -> dict:
        calls.append(token)
        if len(calls) == 1:
            raise RuntimeError("the connection was lost")
        return {"session": "x"}

    return tools


def in_a_loop(test):
    """Run an async test in a loop of its own."""

    @functools.wraps(test)
    def run(**given):
        asyncio.run(test(**given))

    return run


async def begun(store, calls, *, approve):
    plan = Plan.make({"goal": "g", "inputs": {"t": ""}, "steps": [LOGIN, PAY]})
    run = await RunController.start(plan, box(calls), store=store, inputs={"t": GIVEN}, run_id="r1")
    await run.wait()
    if approve:
        await run.questions[0].approve(by="ann")
        await run.wait()
    return run


def written(place: Path) -> bytes:
    return b"".join(file.read_bytes() for file in place.rglob("*") if file.is_file())


def forms(text):
    raw = text.encode()
    return [raw, raw.hex().encode(), base64.b64encode(raw), base64.b64encode(b"user:" + raw)]


@in_a_loop
async def test_a_number_and_an_encoded_secret_in_a_result_are_hidden_where_nobody_declared_them(tmp_path):
    async with await begun(str(tmp_path / "runs.db"), [], approve=False) as run:
        result = run.run.tasks["a"].result
    assert all(is_secret(part) for part in result.values())
    data = written(tmp_path)
    assert b"90412873655" not in data
    assert [form for form in forms(GIVEN) if form in data] == []


@pytest.mark.parametrize("said", ["reconcile", "answer"])
@in_a_loop
async def test_a_result_that_a_person_gives_is_hidden_like_the_tools_own(tmp_path, said):
    async with await begun(str(tmp_path / "runs.db"), [], approve=True) as run:
        assert run.run.tasks["b"].state.value == "unknown-result"
        result = {"session": SAID}
        if said == "reconcile":
            await run.reconcile("b", verdict="applied", evidence="seen", result=result, by="ann")
        else:
            await run.answer("b", {"result": result, "evidence": f"seen with {GIVEN}"}, by="ann")
        await run.wait()
        assert run.run.tasks["b"].state.value == "done"
    data = written(tmp_path)
    assert SAID.encode() not in data
    assert GIVEN.encode() not in data


@in_a_loop
async def test_a_plan_that_a_person_gives_is_hidden_and_its_call_gets_the_secret(tmp_path):
    calls = [""]
    async with await begun(str(tmp_path / "runs.db"), calls, approve=False) as run:
        other = {**PAY, "id": "c", "args": {"token": SAID, "amount": 2}}
        await run.replan({"goal": "g", "inputs": {"t": ""}, "steps": [LOGIN, other]}, by="ann")
        await run.wait()
        await run.questions[0].approve(by="ann")
        await run.wait()
        assert run.run.tasks["c"].state.value == "done"
    assert calls[1:] == [SAID]
    assert SAID.encode() not in written(tmp_path)


@pytest.mark.parametrize("kind", ["runs.db", "runs.jsonl"])
@in_a_loop
async def test_a_word_with_a_secret_is_refused_before_it_lies_in_the_inbox(tmp_path, kind):
    store = str(tmp_path / kind)
    async with await begun(store, [], approve=True):
        pass
    away = await RunController.attach(store, "r1")
    plan = {"goal": "g", "steps": [LOGIN, {**PAY, "args": {"token": SAID, "amount": 2}}]}
    words = [
        lambda: away.edit("b", {"token": SAID}, by="ann"),
        lambda: away.edit("mistyped", {"token": SAID}, by="ann"),
        lambda: away.set_input(t=SAID),
        lambda: away.set_input(mistyped=SAID),
        lambda: away.replan(plan, by="ann"),
        lambda: away.reconcile("b", verdict="applied", evidence="e", result={"session": SAID}, by="ann"),
        lambda: away.answer("b", {"session": SAID}, by="ann"),
        lambda: away.answer("b", {"result": {"session": SAID}, "evidence": "seen"}, by="ann"),
    ]
    for word in words:
        with pytest.raises(RefusedError) as refused:
            await word()
        assert refused.value.code == "E-SECRET"
        assert SAID not in str(refused.value)
    await away.reconcile("b", verdict="applied", evidence="seen", result={"ok": True}, by="ann")
    await away.close()
    assert SAID.encode() not in written(tmp_path)


async def refusals(tmp_path, planner):
    """Return what was refused of a planner in a run whose first step fails, and which has a secret input."""
    tools = Toolbox()

    @tools.read(secret=["token", "pin"])
    async def login(token: str, pin: int) -> dict:
        raise ToolError("not_found", "no such user")

    plan = Plan.make({"goal": "g", "inputs": {"t": ""}, "steps": [LOGIN]})
    given = {"inputs": {"t": GIVEN}, "planner": planner}
    async with await RunController.start(plan, tools, store=str(tmp_path / "runs.db"), **given) as run:
        await run.wait()
        return [event async for event in run.events() if event.type == "replan_refused"]


NEW = {"id": "z", "tool": "login", "args": {"token": "$inputs.t", "pin": SAID}}
PLACED = [
    ({"steps": [NEW]}, "/steps/0/args/pin"),
    ({"steps": [{**NEW, "args": {"token": [SAID], "pin": 1}}]}, "/steps/0/args/token, /steps/0/args/pin"),
    ([{"action": "login", "params": {"token": SAID, "pin": "$inputs.t"}}], "/0/params/token"),
    (
        {
            "steps": [
                {
                    "id": "n",
                    "plan": {
                        "steps": [{**NEW, "alternatives": [{"tool": "login", "args": {"token": SAID}}]}]
                    },
                }
            ]
        },
        "/steps/0/plan/steps/0/alternatives/0/args/token, /steps/0/plan/steps/0/args/pin",
    ),
    (
        {"steps": [{**NEW, "args": {"token": "$inputs.new", "pin": "$inputs.t"}}], "inputs": {"new": SAID}},
        "/inputs/new",
    ),
    (
        {"steps": [NEW | {"id": f"z{n}", "description": SAID} for n in range(5)]},
        "/steps/2/args/pin and 2 more",
    ),
]


@pytest.mark.parametrize(("document", "places"), PLACED)
@pytest.mark.parametrize("around", ["{}", "```json\n{}\n```\nThe pin is " + SAID])
@in_a_loop
async def test_a_planners_own_literal_in_a_secret_place_is_refused_by_its_place_and_not_logged(
    tmp_path, document, places, around
):
    class Inventive:
        async def propose(self, briefing):
            assert SAID not in str(briefing)
            return Proposal(
                text=around.format(json.dumps(document)), model="m", usage=Usage(tokens=7, cost_micros=1)
            )

    refused = await refusals(tmp_path, Inventive())
    assert refused
    for event in refused:
        assert event.data["gate"] == "planner"
        assert f"{places}: a literal stands where a tool declares a secret" in event.data["why"]
        assert "$secret" in event.data["answer"]
        assert (event.data["model"], event.data["usage"]["tokens"]) == ("m", 7)
    assert SAID.encode() not in written(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps({"steps": [{**NEW, "args": {"token": "Bearer $inputs.t", "pin": "$inputs.t"}}]}),
        json.dumps({"steps": [{**NEW, "args": json.dumps({"token": "$inputs.t", "pin": "$inputs.t"})}]}),
        json.dumps({"infeasible": "nobody knows the pin"}),
        "no plan at all",
    ],
)
def test_an_answer_that_says_no_secret_stays_as_it_came(state: Run, text):
    assert without_literals(text, state) == ("", text)


def test_a_plan_that_only_refers_to_secrets_may_lie_in_the_inbox_whatever_its_shape(state: Run):
    args = {"token": "$inputs.t", "amount": 1}
    for given in (args, json.dumps(args)):
        refuse_secrets(Replan(document=[{"action": "pay", "params": given}], who=ANN), state)
    with pytest.raises(RefusedError, match="it holds a secret that a tool declares"):
        args["token"] = SAID
        refuse_secrets(Replan(document=[{"action": "pay", "params": json.dumps(args)}], who=ANN), state)


def test_in_a_run_without_secrets_a_literal_is_an_argument_like_another():
    text = json.dumps({"steps": [NEW]})
    assert without_literals(text, Run("r")) == ("", text)


@in_a_loop
async def test_what_is_no_proposal_at_all_is_refused_as_that(tmp_path):
    class Silent:
        async def propose(self, briefing):
            return None

    refused = await refusals(tmp_path, Silent())
    assert {event.data["why"] for event in refused} == {
        "the planner failed: it returned a value of type NoneType; a Proposal with a text is wanted"
    }
    assert discreet(None, Run) is None


@pytest.mark.parametrize("raises", [False, True])
@in_a_loop
async def test_a_planner_that_says_a_secret_has_given_no_plan_and_its_words_are_hidden(tmp_path, raises):
    class Careless:
        async def propose(self, briefing):
            if raises:
                raise RuntimeError(f"GET /?token={GIVEN}")
            step = {**LOGIN, "id": "z", "description": f"log in with {GIVEN}"}
            return Proposal(
                text=json.dumps({"steps": [{**step, "args": {"token": "$inputs.t", "pin": "$inputs.t"}}]})
            )

    refused = [event.data["why"] for event in await refusals(tmp_path, Careless())]
    assert refused
    assert all(
        ("token=«secret:inputs.t»" if raises else "its answer says a secret") in why for why in refused
    )
    assert GIVEN.encode() not in written(tmp_path)


@pytest.fixture
def state(tmp_path):
    async def waiting():
        async with await begun(str(tmp_path / "runs.db"), [], approve=False) as run:
            return run.run

    return asyncio.run(waiting())


@pytest.mark.parametrize(
    "document",
    [
        [{"action": "pay", "params": {"token": SAID, "amount": 1}}],
        [{"tool": "nobody knows it", "args": {"token": SAID}}],
        [{"args": {"token": SAID}, "tool": ["no", "name"]}],
        {"steps": [{"tool": "pay", "args": f'{{"token":"{SAID}"}}'}]},
        {"steps": [{"id": "n", "plan": {"steps": [{"tool": "pay", "args": {"token": SAID}}]}}]},
        {
            "steps": [
                {
                    "tool": "free",
                    "args": {"token": SAID},
                    "alternatives": [{"tool": "pay", "args": {"token": SAID}}],
                }
            ]
        },
        {"inputs": {"new": SAID}, "steps": [{"tool": "pay", "args": {"token": "$inputs.new", "amount": 1}}]},
    ],
)
def test_a_plan_of_any_shape_and_with_any_fault_is_hidden(state: Run, document):
    assert SAID in str(document)
    assert SAID not in str(hidden(Replan(document=document, who=ANN), state, Vault()).document)


@pytest.mark.parametrize(
    "document",
    [
        None,
        7,
        "text",
        [None],
        {"steps": 3},
        [{"tool": "pay", "args": "no object"}],
        [{"tool": "pay", "alternatives": [1]}],
        float("nan"),
    ],
)
def test_what_holds_no_secret_stays_as_it_is(state: Run, document):
    assert (
        hide_document(document, state, Vault()) is document
        or hide_document(document, state, Vault()) == document
    )
