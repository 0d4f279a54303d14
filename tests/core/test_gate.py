"""The gate: what a proposal may change, what it takes over, what it can never bring about; told in words that help."""

import json

import pytest

from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Replan
from fsm_agent.core.plans import planning
from fsm_agent.core.replanning import strategy
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import simulate
from tests.core.kit import ANN, Lab, lab, tool

READ = {"effect": "read"}
NO = {"raise": {"code": "not_found", "message": "no such thing"}}
LOST = {"raise": {"code": "validation_failed", "message": "wrong total", "applied": "yes"}, "commit": True}
FAILS = {"effect": "read", "calls": [NO]}
PAY = {"effect": "write", "reconcile": "truth", "calls": [{"return": {"n": 1}}]}
BAD_PAY = {"effect": "write", "reconcile": "truth", "calls": [LOST]}
WORLD = {"look": READ, "gone": FAILS, "pay": PAY, "more": READ}


def play(plan, *answers, tools=WORLD, operator=(), **more):
    """Simulate *plan* with a planner that gives *answers*; everything must audit clean."""
    document = {
        "plan": plan,
        "tools": tools,
        "planner": list(answers),
        "operator": list(operator),
        "expect": {},
        **more,
    }
    result = simulate(parse(document, "a case"))
    assert result.ok, result.failures
    return result


def refused(result):
    """Return the first refusal as (gate, why)."""
    data = next(e.data for e in result.events if e.type == "replan_refused")
    return data["gate"], data["why"]


def adopted(result):
    """Return what the log says of the first plan that took another one's place."""
    return [e.data for e in result.events if e.type == "plan_adopted"][1]


def started(result):
    return [e.task for e in result.events if e.type == "task_moved" and e.data["trigger"] == "start"]


def step(name, tool="look", *needs, **more):
    return {"id": name, "tool": tool, **({"depends_on": list(needs)} if needs else {}), **more}


APPROVES = [{"when": {"task": "w", "state": "awaiting-confirmation"}, "do": {"approve": "w", "by": "ann"}}]


# ── what is the same ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("other", [True, 1.0, "1"])
def test_an_argument_of_another_type_is_another_argument_and_a_write_with_it_asks(other):
    plan = [step("c", "gone"), step("w", "pay", "c", args={"n": 1})]
    new = [step("c", "more"), step("w", "pay", "c", args={"n": other})]
    result = play(plan, new, operator=APPROVES)
    assert adopted(result)["diff"]["changed"] == ["c", "w"]
    assert type(adopted(result)["plan"]["steps"][1]["args"]["n"]) is type(other)
    assert [e.task for e in result.events if e.type == "approval_requested"] == ["w"]


def test_a_done_write_that_stands_as_it_stood_is_no_other_call_while_what_it_read_is_done_again():
    plan = [
        step("a", args={"x": "$inputs.x"}),
        step("w", "pay", "a", args={"n": "$a.n"}),
        step("o", "look", args={"o": 1}),
    ]
    with lab(plan, inputs={"x": 1}) as it:
        it.returns("a", {"n": 1})
        it.returns("w", 1)
        it.set(x=2)
        assert it.states["a"] == "running"  # so nobody can tell what w would be called with
        it.feed(Replan(document=[*plan, step("more", "look", "w")], who=ANN))
        assert it.states["w"] == "done"
        it.returns("a", {"n": 1})
        it.returns("o", 1)
        it.returns("more", 1)
        assert (it.run.state, len(it.starts("w"))) == ("done", 1)


# ── faults, told where the proposal has them ──────────────────────────────────────────────────────────────────


def test_faults_point_into_the_proposal_although_finished_steps_stand_before_it():
    plan = [step("a"), step("b", "look", args={"x": 1}), step("c", "gone", "a", "b")]
    gate, why = refused(play(plan, [step("d"), step("e", "fly", "d")]))
    assert gate == "validate"
    assert why.startswith("/steps/1/tool: there is no tool 'fly'")


@pytest.mark.parametrize("odd", [["x"], {"a": 1}, [], 5, True], ids=str)
def test_a_name_that_is_no_text_is_refused_wherever_it_stands(odd):
    steps = [step("a"), step("g", "gone", "a")]
    inner = {"id": "n", "plan": {"steps": [{"id": odd, "tool": "look"}]}}
    for proposed in (
        [{"id": odd, "tool": "more"}],
        [step("b", "more"), {**step("c"), "replaces": odd}],
        [inner],
    ):
        gate, why = refused(
            play({"steps": steps}, json.dumps({"steps": proposed}), {"steps": [step("z", "more")]})
        )
        assert gate == "validate"
        assert "/steps/" in why


def test_a_fault_of_a_finished_step_names_it():
    plan = [step("a"), step("c", "gone", "a")]
    gate, why = refused(play(plan, [step("a2"), step("a", "look", "c"), step("c", "gone", "a")]))
    assert gate == "validate"
    assert "a → c → a" in why or "c → a → c" in why
    kept = [
        step("a", "look", args={"x": 1}),
        step("b", "look", "a", args={"x": "$a.n"}),
        step("c", "gone", "b"),
    ]
    gate, why = refused(play(kept, [step("z", replaces="a"), step("c2", "more", "b")]))
    assert gate in ("validate", "scope")
    assert why


@pytest.mark.parametrize("args", ["[1]", "{", "3", '{"x": 1e999}', '{"x": 123456789012345678901}'])
def test_arguments_in_text_that_are_no_object_are_refused(args):
    gate, why = refused(play([step("c", "gone")], [step("d", args=args)]))
    assert (gate, "/steps/0/args" in why) == ("validate", True), why


def test_arguments_in_text_are_those_that_they_say():
    result = play([step("c", "gone")], [step("d", args='{"x": [1]}'), step("e", "look", "d", args="")])
    assert result.run == "done"
    call = next(e.data for e in result.events if e.task == "d" and e.data.get("trigger") == "start")
    assert call["args"] == {"x": [1]}


# ── scope ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_in_local_scope_a_finished_read_is_not_called_otherwise():
    plan = [step("a", args={"x": 1}), step("c", "gone", "a")]
    gate, why = refused(play(plan, [step("a", args={"x": 2}), step("d", "more", "a")]))
    assert gate == "scope"
    assert why == "a is done, leave it as it is; use another id for another call"


def test_in_global_scope_a_finished_read_may_be_called_otherwise_and_what_follows_with_it():
    plan = [step("a", args={"x": 1}), step("c", "gone", "a")]
    result = play(
        plan,
        [step("a", args={"x": 2}), step("d", "more", "a")],
        rules={"base": "default", "params": {"local_replans": 0}},
    )
    assert adopted(result)["diff"]["changed"] == ["a"]
    assert started(result) == ["a", "c", "a", "d"]


# ── reuse ─────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_finished_step_that_is_worded_otherwise_is_kept():
    plan = [step("a", done_when="1 == 1", description="find it"), step("c", "gone", "a")]
    result = play(plan, [step("a", description="found"), step("d", "more", "a")])
    assert adopted(result)["diff"] == {"kept": ["a"], "changed": [], "added": ["d"], "removed": ["c"]}
    assert started(result) == ["a", "c", "d"]


def test_a_call_is_recognised_under_a_new_name_also_through_other_new_names():
    look = {"effect": "read", "calls": [{"return": {"n": 4}}]}
    plan = [step("a"), step("b", "more", "a", args={"x": ["$a.n"]}), step("c", "gone", "b")]
    new = [
        step("a9"),
        step("b9", "more", "a9", args={"x": ["$a9.n"]}),
        step("d", "look", "b9", args={"y": 1}),
    ]
    result = play(plan, new, tools={**WORLD, "look": look})
    assert adopted(result)["diff"]["reused"] == {"a9": "a", "b9": "b"}
    assert started(result) == ["a", "b", "c", "d"]


def test_a_second_call_that_was_meant_is_made_although_the_plan_changes():
    """Two equal letters were planned; one is out when the plan changes."""
    mail = {"effect": "write", "calls": [{"return": {}}]}
    plan = [step("m1", "mail"), step("c", "gone", "m1"), step("m2", "mail", "c")]
    new = [
        step("d", "more", "m1"),
        {**step("m2", "mail", "c"), "depends_on": ["c2"]},
        step("c2", "look", "d"),
    ]
    result = play(
        [*plan[:2], step("m2", "mail", "m1")],
        [step("d", "more", "m1"), step("m2", "mail", "m1")],
        tools={**WORLD, "mail": mail},
        workers=1,
    )
    assert result.effects["mail"] == 2
    moved = play(plan, new, tools={**WORLD, "mail": mail}, workers=1)
    assert adopted(moved)["diff"]["reused"] == {"m2": "m1"}


def test_a_read_after_a_write_looks_again_although_it_was_made_before():
    plan = [step("before"), step("c", "gone", "before")]
    new = [step("p", "pay", "before"), step("after", "look", "p"), step("again", "look", "before")]
    operator = [
        {"when": {"task": "p", "state": "awaiting-confirmation"}, "do": {"approve": "p", "by": "ann"}}
    ]
    result = play(plan, new, operator=operator)
    assert adopted(result)["diff"]["reused"] == {"again": "before"}
    assert started(result) == ["before", "c", "p", "after"]


def test_a_finished_write_is_not_called_otherwise_and_nothing_takes_its_place():
    plan = [step("p", "pay", args={"x": 1}), step("c", "gone", "p")]
    gate, why = refused(play(plan, [step("p", "pay", args={"x": 2}), step("d", "more", "p")]))
    assert gate == "reuse"
    assert "a write call is never made again" in why
    gate, why = refused(play(plan, [step("p2", "pay", args={"x": 2}, replaces="p"), step("d", "more", "p2")]))
    assert (gate, why) == ("laws", "p is done and had an effect; p2 cannot take its place")


def test_a_finished_write_whose_arguments_a_person_edited_is_kept_as_planned():
    waits = {"task": "p", "state": "awaiting-confirmation"}
    operator = [
        {"when": waits, "do": {"edit": "p", "args": {"x": 2}, "by": "ann"}},
        {"when": waits, "do": {"approve": "p", "by": "ann"}},
    ]
    pay = step("p", "pay", args={"x": 1}, requires_confirmation=True)
    result = play([pay, step("c", "gone", "p")], [pay, step("d", "more", "p")], operator=operator)
    assert result.run == "done", refused(result)
    assert started(result) == ["p", "c", "d"]


def test_an_answer_of_a_person_is_not_asked_for_again():
    plan = [{"id": "q", "description": "how many?"}, step("c", "gone", "q")]
    operator = [
        {
            "when": {"task": "q", "state": "awaiting-confirmation"},
            "do": {"answer": "q", "value": 3, "by": "ann"},
        }
    ]
    result = play(plan, [{"id": "q", "description": "how many?"}, step("d", "more", "q")], operator=operator)
    assert result.run == "done"
    assert adopted(result)["diff"]["kept"] == ["q"]


def test_steps_of_the_default_tool_are_told_apart_by_their_words():
    """The shape {id, description, depends_on}: words are what is done, results of what was done go in."""
    do = {"effect": "read", "calls": [{"match": {}, "return": "x"}]}
    plan = [
        {"id": "retrieve", "description": "find papers"},
        {"id": "extract_b", "tool": "gone", "depends_on": ["retrieve"]},
        {"id": "synthesize", "description": "conclude", "depends_on": ["retrieve", "extract_b"]},
    ]
    new = [
        {"id": "retrieve", "description": "find papers"},
        {"id": "widen", "description": "find more"},
        {"id": "extract_b2", "description": "points of B", "depends_on": ["widen"]},
        {"id": "synthesize", "description": "conclude", "depends_on": ["retrieve", "extract_b2"]},
    ]
    result = play(plan, new, tools={"do": do, "gone": FAILS}, default_tool="do")
    assert result.run == "done"
    assert sorted(started(result)) == ["extract_b", "extract_b2", "retrieve", "synthesize", "widen"]
    call = next(e.data for e in result.events if e.task == "extract_b2" and e.data.get("trigger") == "start")
    assert call["args"] == {"id": "extract_b2", "description": "points of B", "results": {"widen": "x"}}


def test_a_cancelled_step_that_comes_back_with_a_finished_call_takes_its_result():
    plan = [
        step("a", args={"x": 1}),
        step("o", "more", "a", when="1 == 2", args={"x": 7}),
        step("c", "gone", "a", {"id": "o", "optional": True}),
    ]
    new = [step("a", args={"x": 1}), step("o", "look", "a", args={"x": 1}), step("d", "more", "o")]
    result = play(plan, new, rules={"base": "default", "params": {"local_replans": 0}})
    assert adopted(result)["diff"]["reused"] == {"o": "a"}
    assert result.tasks["o"] == "done"
    assert started(result) == ["a", "c", "d"]


# ── laws ──────────────────────────────────────────────────────────────────────────────────────────────────────

PAID = [step("p", "pay", args={"x": 1}), step("c", "gone"), step("z", "look", "p", "c")]


def test_what_was_given_up_stays_so_whether_a_proposal_repeats_it_or_leaves_it_out():
    """A person said no to one step, another was skipped, a third had a false condition: the rest is planned anew."""
    plan = [
        step("p", "pay", requires_confirmation=True),
        step("s", "gone", args={"x": 1}, optional=True, on_failure={"*": "skip"}),
        step("w", "more", when="1 == 2"),
        step("a", "look"),
        step("c", "gone", "a", args={"x": 2}),
        step("z", "look", "c", {"id": "s", "optional": True}, {"id": "p", "optional": True}),
    ]
    operator = [{"when": {"task": "p", "state": "awaiting-confirmation"}, "do": {"reject": "p", "by": "ann"}}]
    detour = [step("d", "more", "a", args={"y": 1}, replaces="c")]
    last = {**plan[5], "depends_on": ["d", *plan[5]["depends_on"][1:]]}
    repeated = play(plan, [*plan[:4], *detour, last], operator=operator, workers=1)
    assert repeated.tasks["z"] == "done"
    assert [repeated.tasks[name] for name in "psw"] == ["cancelled"] * 3
    assert [
        e.task for e in repeated.events if e.task in tuple("psw") and e.data.get("trigger") == "invalidate"
    ] == []
    left = {**last, "depends_on": ["d"]}
    without = play(plan, [*detour, left], operator=operator, workers=1)
    assert without.tasks["z"] == "done"


def test_what_was_lost_along_with_a_step_comes_back_with_it():
    plan = [
        step("w", "more", when="1 == 2"),
        step("v", "look", "w"),
        step("c", "gone"),
        step("z", "look", "c"),
    ]
    new = [step("w", "more"), plan[1], step("d", "look"), step("z", "look", "d")]
    result = play(plan, new, rules={"base": "default", "params": {"local_replans": 0}}, workers=1)
    assert (result.run, result.tasks["w"], result.tasks["v"]) == ("done", "done", "done")


def test_an_effect_that_is_not_settled_stays_in_sight():
    gate, why = refused(
        play(
            PAID,
            [step("d", "more")],
            tools={**WORLD, "pay": BAD_PAY},
            workers=1,
            rules={"base": "default", "params": {"local_replans": 0}},
        )
    )
    assert gate == "laws"
    assert why.startswith("p had an effect that is not settled")


def test_an_effect_that_is_not_settled_is_not_made_again_under_another_name():
    again = [PAID[0], step("d", "more"), step("p2", "pay", "d", args={"x": 1}), step("z", "look", "p", "d")]
    gate, why = refused(play(PAID, again, tools={**WORLD, "pay": BAD_PAY}, workers=1))
    assert (gate, why) == (
        "laws",
        "p2 makes the call of p again, whose effect is or may be there; leave it out",
    )


def test_what_a_person_rejected_does_not_come_back():
    plan = [step("p", "pay", requires_confirmation=True), step("c", "gone", {"id": "p", "optional": True})]
    operator = [{"when": {"task": "p", "state": "awaiting-confirmation"}, "do": {"reject": "p", "by": "ann"}}]
    gate, why = refused(
        play(
            plan,
            [step("p", "pay", args={"x": 2}), step("d", "more")],
            operator=operator,
            rules={"base": "default", "params": {"local_replans": 0}},
        )
    )
    assert gate == "laws"
    assert why.startswith("a person rejected p")


def test_a_call_that_was_given_up_with_an_effect_does_not_come_back():
    lost = {"effect": "write", "calls": [LOST]}
    plan = [
        step("p", "pay", optional=True),
        step("q", "more"),
        {"id": "w", "description": "go on?", "depends_on": ["q"]},
    ]
    operator = [
        {
            "when": {"task": "p", "decision": "escalate"},
            "do": {"answer": "p", "value": {"decide": "skip"}, "by": "ann"},
        },
        {
            "when": {"task": "p", "state": "cancelled"},
            "do": {"replan": [step("p", "pay", args={"x": 1}), step("d", "look")], "by": "ann"},
        },
    ]
    result = play(plan, tools={**WORLD, "pay": lost}, operator=operator)
    (why,) = result.refused
    assert "p was given up, and its effect is or may be there; use another id" in why
    assert result.effects["pay"] == 1


def test_a_prepared_fall_back_that_would_make_an_effect_twice_is_a_question():
    plan = [
        step("p", "pay", args={"x": 1}),
        step("c", "gone", alternatives=[{"tool": "pay", "args": {"x": 1}}]),
    ]
    result = play(plan, tools={**WORLD, "pay": BAD_PAY}, workers=1)
    gate, why = refused(result)
    assert gate == "laws"
    assert why.startswith("the prepared alternative cannot be used: c makes the call of p again")
    assert result.effects["pay"] == 1


@pytest.mark.parametrize(
    "hidden",
    [
        step("w", "pay"),
        step("w", "look", alternatives=[{"tool": "pay", "args": {}}]),
        step("w", "pay", optional=True, requires_confirmation=False),
    ],
    ids=["plainly", "as a fall-back", "as optional"],
)
def test_a_write_that_a_proposal_adds_asks_a_person_first(hidden):
    result = play([step("c", "gone")], [step("d", "more"), hidden])
    assert result.tasks["w"] == "awaiting-confirmation"
    assert result.effects["pay"] == 0


def test_whoever_approves_is_told_that_the_same_call_was_made_already():
    """Its arguments are known only later, so nobody could tell when the plan was proposed."""
    look = {"effect": "read", "calls": [{"return": {"n": 1}}]}
    plan = [step("p", "pay", args={"x": 1}), step("c", "gone", "p")]
    new = [step("d", "look", "p"), step("p2", "pay", "d", args={"x": "$d.n"})]
    result = play(plan, new, tools={**WORLD, "look": look})
    asked = next(e.data for e in result.events if e.type == "approval_requested")
    assert asked["same_as"] == ["p"]
    assert asked["say"] == "may pay be called? (the same call was made by p already)"
    assert result.effects["pay"] == 1


# ── strategies ────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_same_again_in_other_words_or_under_other_ids_is_refused():
    plan = [step("a", args={"x": 1}), step("c", "gone", "a", args={"y": {"z": ["$a.n"]}})]
    look = {"effect": "read", "calls": [{"return": {"n": 1}}]}
    for again in (
        [step("c", "gone", "a", args={"y": {"z": ["$a.n"]}}, description="please")],
        [step("c9", "gone", "a", args={"y": {"z": ["$a.n"]}})],
    ):
        gate, why = refused(play(plan, again, tools={**WORLD, "look": look}))
        assert gate == "strategy"
        assert "tried before" in why


def test_a_proposal_of_nothing_new_is_refused():
    plan = [step("a"), step("c", "gone", "a"), step("z", "look", "c")]
    for nothing in (plan, [step("a")], json.dumps([step("a", description="done, and so is the rest")])):
        result = play(plan, nothing, [step("d", "more", "a")])
        assert refused(result)[0] == "strategy"
        assert result.tasks["d"] == "done"
    assert "leaves nothing to do" in refused(result)[1]


def test_steps_that_make_the_same_call_under_another_id_are_found_without_a_run():
    old = planning.load(
        [step("a"), step("b", "more", "a", args={"x": "$a.n"}), {"id": "q", "description": "?"}]
    )
    new = planning.load(
        [
            step("a2"),
            step("b", "more", "a2", args={"x": "$a2.n"}),
            step("c", "more", "a2"),
            {"id": "r", "description": "?"},
        ]
    )
    assert strategy.same_calls(old, new) == {"a2": "a"}
    assert strategy.diff(old, new).changed == ("b",)


# ── done reads that are wanted anew ───────────────────────────────────────────────────────────────────────────

WHOLE = {"rules": {"params": {"local_replans": 0}}}


def test_a_finished_read_with_other_arguments_makes_another_strategy_of_the_same_rest():
    plan = [step("a", args={"x": 1}), step("b", "gone", "a", args={"n": "$a"})]
    tools = {
        **WORLD,
        "look": {"effect": "read", "calls": [{"return": 1}, {"return": 2}]},
        "gone": {"effect": "read", "calls": [NO, {"return": 3}]},
    }
    result = play(
        plan, [step("a", args={"x": 2}), step("b", "gone", "a", args={"n": "$a"})], tools=tools, **WHOLE
    )
    assert adopted(result)["diff"]["changed"] == ["a"]
    assert started(result) == ["a", "b", "a", "b"]


def test_its_old_call_is_still_taken_over_under_a_new_name():
    plan = [step("a", args={"x": 1}), step("b", "gone", "a", args={"n": "$a"})]
    tools = {
        **WORLD,
        "look": {"effect": "read", "calls": [{"return": 1}, {"return": 2}]},
        "gone": {"effect": "read", "calls": [NO, {"return": 3}]},
    }
    proposal = [
        step("old", args={"x": 1}),
        step("a", args={"x": 2}),
        step("b", "gone", "a", "old", args={"n": "$a", "m": "$old"}),
    ]
    result = play(plan, proposal, tools=tools, **WHOLE)
    assert adopted(result)["diff"]["reused"] == {"old": "a"}
    assert (result.results["old"], result.results["a"]) == (1, 2)
    assert started(result) == ["a", "b", "a", "b"]


# ── tools that have become others ─────────────────────────────────────────────────────────────────────────────


def retooled(**parameters):
    """A run whose ``a`` and ``w`` are done, taken over with a tool ``look`` of another signature."""
    old = [tool("look", parameters={"x": ("integer",)}), tool("pay", "write", reconcile=True)]
    steps = [
        step("a", args={"x": 1}),
        step("w", "pay", "a"),
        {"id": "q", "description": "go on?", "depends_on": ["w"]},
    ]
    it = Lab(steps, tools=old)
    it.returns("a", 7)
    it.returns("w", 8)
    it.crash(tools=(tool("look", parameters=parameters), old[1]))
    return it


def test_a_result_of_a_tool_that_has_another_signature_is_not_taken_over():
    it = retooled(x=("integer",), y=())
    it.feed(
        Replan(
            document=[
                step("b", args={"x": 1, "y": 2}),
                {"id": "q", "description": "go on?", "depends_on": ["b"]},
            ],
            who=ANN,
        )
    )
    assert [c.task for c in it.calls()] == ["b"]
    it.check()
    again = retooled(x=("integer", "null"))
    again.feed(Replan(document=[step("b", args={"x": 1}), {"id": "q", "description": "go on?"}], who=ANN))
    assert [c.task for c in again.calls()] == ["b"]
    again.check()


def test_such_a_read_runs_again_under_its_own_name_and_a_write_never():
    it = retooled(x=("integer", "null"))
    it.feed(
        Replan(
            document=[
                step("a", args={"x": 1}),
                step("w", "pay", "a"),
                {"id": "q", "description": "go on?", "depends_on": ["w"]},
            ],
            who=ANN,
        )
    )
    assert [c.task for c in it.calls()] == ["a"]
    assert it.states["w"] == "done"
    assert it.events("plan_adopted")[-1].data["diff"]["changed"] == ["a"]
    it.check()


def test_the_fault_names_the_argument_that_the_tool_wants_now():
    it = retooled(x=("integer",), y=())
    with pytest.raises(RefusedError, match="'look' needs the argument 'y'"):
        it.feed(Replan(document=[step("b", args={"x": 1})], who=ANN))
    it.check()


def test_a_tool_that_stayed_what_it_was_keeps_its_results():
    it = retooled(x=("integer",))
    it.feed(
        Replan(
            document=[step("b", args={"x": 1}), {"id": "q", "description": "go on?", "depends_on": ["b"]}],
            who=ANN,
        )
    )
    assert it.calls() == []
    assert it.task("b").result == 7
    it.check()


# ── what a proposal may not touch ─────────────────────────────────────────────────────────────────────────────


def test_in_local_scope_what_does_not_hang_on_the_failed_step_stays():
    plan = [step("a", "gone"), {"id": "q", "description": "how many?"}, step("b", "look", "q")]
    gate, why = refused(play(plan, [step("c", "more", replaces="a"), plan[1], step("b", "more", "q")]))
    assert gate == "scope"
    assert why == "only a and what depends on it may change; b must stay exactly as it is"


def test_a_call_that_is_out_is_left_as_it_is_whatever_the_scope():
    tools = {**WORLD, "look": {"effect": "read", "calls": [{"delay_s": 60, "return": 1}]}}
    plan = [step("a", "gone"), step("b", "look", args={"x": 1})]
    gate, why = refused(
        play(plan, [step("c", "more", replaces="a"), step("b", "look", args={"x": 2})], tools=tools, **WHOLE)
    )
    assert (gate, why) == ("scope", "b is running; leave it exactly as it is")


def test_without_a_planner_call_left_a_person_is_asked():
    plan = {"budgets": {"planner_calls": 0}, "steps": [step("a", "gone")]}
    result = play(plan, [step("c", "more")])
    assert refused(result) == ("budget", "no planner call is left")
    assert (result.run, result.planner_calls) == ("awaiting-confirmation", 0)


def test_while_a_result_is_unknown_a_person_s_plan_waits_too():
    lost = {"effect": "write", "calls": [{"timeout": True, "commit": True}]}
    operator = [
        {"when": {"task": "p", "state": "unknown-result"}, "do": {"replan": [step("x", "more")], "by": "ann"}}
    ]
    result = play([step("p", "mail")], tools={**WORLD, "mail": lost}, operator=operator)
    assert "the result of p is unknown; the plan changes when it is known" in result.refused[0]
