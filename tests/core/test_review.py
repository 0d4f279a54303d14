"""A plan that is to be reviewed: nothing starts before a person has approved exactly it."""

import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.audit.hints import for_question
from fsm_agent.core.engine.decide import apply
from fsm_agent.core.engine.state import Run
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import RUN_ID, simulate
from tests.core.kit import reseal

STEPS = [
    {"id": "a", "tool": "look", "args": {"w": "$inputs.week"}},
    {"id": "b", "tool": "pay", "args": {"n": 1}, "depends_on": ["a"]},
]
PLAN = {"inputs": {"week": 1}, "steps": STEPS}
TOOLS = {
    "look": {"effect": "read"},
    "pay": {"effect": "write", "reconcile": "truth"},
    "more": {"effect": "read"},
}
ASKED = {"run": "awaiting-confirmation"}


def play(*operator, plan=PLAN, **more):
    """Simulate a plan that is reviewed; everything must audit clean."""
    document = {
        "plan": plan,
        "tools": TOOLS,
        "review": True,
        "operator": list(operator),
        "expect": {},
        **more,
    }
    result = simulate(parse(document, "a case"))
    assert result.ok, result.failures
    return result


def asked(result):
    return [e.data for e in result.events if e.type == "approval_requested" and e.task is None]


def started(result):
    return [e.task for e in result.events if e.type == "task_moved" and e.data["trigger"] == "start"]


def when(*do):
    return {"when": ASKED, "do": list(do)}


YES = {"approve": "run", "by": "ann"}


def test_nothing_starts_before_a_person_has_approved_the_plan():
    result = play()
    assert result.run == "awaiting-confirmation"
    assert started(result) == []
    question = asked(result)[0]
    assert question["answers"] == ["approve", "reject"]
    assert question["say"] == "may plan 1 be carried out? It has 2 steps; b may change something"
    adopted = next(e for e in result.events if e.type == "plan_adopted")
    assert question["args"] == {"plan": adopted.data["digest"]}


def test_after_the_approval_it_runs_to_its_end():
    result = play(when(YES))
    assert (result.run, result.effects["pay"]) == ("done", 1)
    answer = next(e for e in result.events if e.type == "approval_answered")
    assert (answer.data["verdict"], answer.data["by"], answer.task) == ("approved", "ann", None)


def test_a_no_ends_the_run_and_nothing_was_called():
    result = play(when({"reject": "run", "by": "ann", "note": "not this week"}))
    assert (result.run, started(result)) == ("cancelled", [])
    assert set(result.tasks.values()) == {"cancelled"}
    assert len(asked(result)) == 1
    assert next(e.data["reason"] for e in result.events if e.type == "run_asked") == "not this week"


def test_another_plan_is_asked_about_anew():
    other = [{"id": "a", "tool": "more"}]
    result = play(when({"replan": other, "by": "ann"}))
    assert started(result) == []
    first, second = asked(result)
    assert first["args_digest"] != second["args_digest"]
    assert second["changed"]
    assert second["say"] == "may plan 2 be carried out? It has one step; none of them changes anything"
    assert play(when({"replan": other, "by": "ann"}, YES)).calls == {"look": 0, "pay": 0, "more": 1}


def test_another_plan_that_is_none_leaves_the_question_as_it_is():
    result = play(when({"replan": [{"id": "a", "tool": "fly"}], "by": "ann"}))
    assert len(asked(result)) == 1
    assert "there is no tool 'fly'" in result.refused[0]


def test_other_inputs_void_what_was_shown():
    result = play(when({"set_input": {"week": 2}}))
    assert [q["args_digest"] for q in asked(result)] == list(
        dict.fromkeys(q["args_digest"] for q in asked(result))
    )
    assert len(asked(result)) == 2
    assert started(result) == []


@pytest.mark.parametrize(
    ("word", "words"),
    [
        ({"approve": "run", "digest": "0" * 8}, "the request is"),
        ({"approve": "run", "args": {"plan": "another one"}}, "the request is"),
        (
            {"edit": "run", "args": {"x": 1}},
            "it asks about its plan, which has no arguments; give another plan with",
        ),
        ({"answer": "run", "value": {"decide": "continue"}}, "use approve, reject or edit"),
        ({"approve": "a"}, "it asks for nothing now"),
    ],
)
def test_other_words_are_refused_and_start_nothing(word, words):
    result = play(when(word))
    assert words in result.refused[0]
    assert started(result) == []


def test_a_script_can_state_the_plan_that_it_approves():
    digest = asked(play())[0]["args"]["plan"]
    assert play(when({"approve": "run", "args": {"plan": digest}})).run == "done"


@pytest.mark.parametrize("state", ["before", "after"])
def test_a_crash_asks_no_second_time_and_forgets_no_yes(state):
    steps = ["crash", YES] if state == "before" else [YES, "crash"]
    result = play(when(*steps), {"at_s": 5, "do": "crash"})
    assert result.run == "done"
    assert len(asked(result)) == 1


def test_a_pause_and_a_resume_do_not_answer_for_anybody():
    result = play(when("pause", "resume"))
    assert started(result) == []
    assert result.run == "awaiting-confirmation"


def test_the_calls_of_an_approved_plan_still_ask_for_themselves():
    plan = [{"id": "b", "tool": "pay", "args": {"n": 1}, "requires_confirmation": True}]
    result = play(when(YES), plan=plan)
    assert result.tasks["b"] == "awaiting-confirmation"


def test_a_plan_of_a_planner_needs_no_second_review():
    world = {
        "look": {"effect": "read", "calls": [{"raise": {"status": 404, "message": "no"}}]},
        **{k: TOOLS[k] for k in ("pay", "more")},
    }
    result = play(
        when(YES),
        plan=[{"id": "a", "tool": "look"}],
        tools=world,
        planner=[[{"id": "c", "tool": "more", "replaces": "a"}]],
    )
    assert (result.run, len(asked(result))) == ("done", 1)


def test_many_changing_steps_are_counted_nested_ones_and_fall_backs_too():
    plan = [
        {"id": f"s{n}", "tool": "look", "alternatives": [{"tool": "pay", "args": {"n": n}}]}
        for n in range(10)
    ]
    assert asked(play(plan=plan))[0]["say"].endswith("s6, s7 and 2 more may change something")


def test_a_limit_that_is_broken_meanwhile_is_settled_first_and_the_plan_is_asked_about_as_it_is_then():
    plan = {**PLAN, "constraints": [{"key": "most", "value": 9, "check": "$inputs.week <= value"}]}
    broken = [{"set_input": {"week": 12}}, {"answer": "run", "value": {"decide": "continue"}}]
    result = play(when(*broken), plan=plan)
    assert (result.run, started(result)) == ("awaiting-confirmation", [])
    assert len({q["args_digest"] for q in asked(result) if q["kind"] == "approval"}) == 2
    assert asked(result)[-1]["kind"] == "approval"
    assert play(when(*broken, YES), plan=plan, expect={"moves": [["b", "done"]]}).effects["pay"] == 1


def test_a_planner_s_answer_to_that_is_asked_about_anew_too():
    plan = {**PLAN, "constraints": [{"key": "most", "value": 9, "check": "$inputs.week <= value"}]}
    result = play(when({"set_input": {"week": 12}}, YES), plan=plan, planner=[[{"id": "a", "tool": "more"}]])
    assert (result.run, started(result)) == ("awaiting-confirmation", [])
    assert asked(result)[-1]["say"].startswith("may plan 2 be carried out?")
    assert "the plan that was shown is being changed" in result.refused[0]


def folded(events):
    run = Run(RUN_ID)
    for event in events:
        apply(run, event)
    return run


def test_the_commands_that_answer_it_are_named():
    run = folded(play().events)
    commands = for_question(run, run.questions["run"])
    assert [c.split()[1] for c in commands] == ["approve", "reject", "replan"]
    assert " run --digest " in commands[0]


def found(events):
    records, head = reseal(RUN_ID, events)
    return {f.check for f in audit(RUN_ID, records, lambda digest: None, head=head).findings}


def test_an_audit_sees_that_nobody_was_asked_that_the_question_was_another_or_that_it_started_all_the_same():
    events = list(play(when(YES)).events)
    place = next(n for n, e in enumerate(events) if e.type == "approval_requested")
    forged = events[place]._replace(data={**events[place].data, "args_digest": "0" * 64})
    assert "request-shows-the-call" in found([*events[:place], forged, *events[place + 1 :]])
    created = events[0]._replace(data={k: v for k, v in events[0].data.items() if k != "review"})
    assert "request-was-due" in found([created, *events[1:]])
    answer = next(n for n, e in enumerate(events) if e.type == "approval_answered")
    note = events[answer]._replace(type="note_added", data={"text": "yes", "by": "ann"})
    assert "run-lets-it-start" in found([*events[:answer], note, *events[answer + 1 :]])
    silent = events[place]._replace(type="note_added", data={"text": "asked"})
    assert "carried-out" in found([*events[:place], silent, *events[place + 1 :]])


def test_an_audit_sees_an_approval_of_a_plan_that_is_another_one_by_now():
    events = list(play(when({"set_input": {"week": 2}}, YES)).events)
    first, second = (n for n, e in enumerate(events) if e.type == "approval_requested")
    answer = next(n for n, e in enumerate(events) if e.type == "approval_answered")
    old = events[first].data["args_digest"]
    stale = events[answer]._replace(data={**events[answer].data, "args_digest": old})
    note = events[second]._replace(type="note_added", data={"text": "asked"})
    assert "answers-the-question" in found(
        [*events[:second], note, *events[second + 1 : answer], stale, *events[answer + 1 :]]
    )
