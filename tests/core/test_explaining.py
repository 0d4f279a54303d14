"""Every change of a plan is explained to an end user in one paragraph, in English and in Chinese."""

import pytest

from fsm_agent.core.audit.historian import history
from fsm_agent.core.audit.why import why
from fsm_agent.core.replanning import explaining
from fsm_agent.core.replanning.explaining import LANGUAGES
from fsm_agent.core.signals import HOME, Signal
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import RUN_ID, simulate
from tests.audits import clean

MISSING = {"raise": {"status": 404, "message": "order 77 is not known."}}
PLAN = [
    {"id": "who", "tool": "look", "description": "find the customer"},
    {"id": "order", "tool": "find", "description": "look up the order.", "depends_on": ["who"]},
    {"id": "mail", "tool": "send", "description": "write to the customer", "depends_on": ["order"]},
]
BY_PHONE = [
    PLAN[0],
    {
        "id": "phone",
        "tool": "look",
        "args": {"by": "phone"},
        "description": "look up the order by phone",
        "replaces": "order",
        "depends_on": ["who"],
    },
    {"id": "mail", "tool": "send", "description": "write to the customer", "depends_on": ["phone"]},
]
TOOLS = {
    "look": {"effect": "read"},
    "find": {"effect": "read", "calls": [MISSING]},
    "send": {"effect": "write", "reconcile": "truth"},
}


def play(plan=PLAN, *answers, tools=TOOLS, **more):
    document = {"plan": plan, "tools": tools, "planner": list(answers), "expect": {}, **more}
    result = simulate(parse(document, "a case"))
    assert result.ok, result.failures
    return result


def told(result):
    """Return both paragraphs of the last change of the plan."""
    data = [e.data for e in result.events if e.type == "plan_adopted"][-1]
    return data["explanation"], data["explanation_zh"]


def test_it_says_why_what_changed_what_stays_and_what_somebody_is_asked_about():
    english, chinese = told(play(PLAN, BY_PHONE))
    assert english == (
        'The plan was changed because "look up the order" found nothing (order 77 is not known). '
        "New: look up the order by phone; Changed: write to the customer; No longer needed: look up the order. "
        "Already done and kept: find the customer. Somebody is asked before: write to the customer."
    )
    assert chinese == (
        "计划已调整，原因：“look up the order”没有找到所需内容（order 77 is not known）。"
        "新增：look up the order by phone；改动：write to the customer；不再需要：look up the order。"
        "已完成并保留：find the customer。执行前会先征求确认：write to the customer。"
    )


def test_a_step_without_words_is_called_by_its_name_and_a_person_s_words_stand_as_they_are():
    plan = [{"id": "a", "tool": "find"}]
    operator = [
        {
            "when": {"run": "awaiting-confirmation"},
            "do": {"replan": [{"id": "b", "tool": "look"}], "by": "ann", "note": "the order was moved."},
        }
    ]
    english, chinese = told(simulated(plan, operator))
    assert english == (
        "The plan was changed because the order was moved. New: b; No longer needed: a. "
        "Nothing of the earlier plan stays."
    )
    assert chinese == "计划已调整，原因：the order was moved。新增：b；不再需要：a。原计划没有保留的步骤。"


def simulated(plan, operator):
    return clean(
        simulate(parse({"plan": plan, "tools": TOOLS, "operator": operator, "expect": {}}, "a case"))
    )


def test_a_person_who_says_nothing_gave_another_plan():
    operator = [{"when": {"run": "awaiting-confirmation"}, "do": {"replan": [{"id": "b", "tool": "look"}]}}]
    english, chinese = told(simulated([{"id": "a", "tool": "find"}], operator))
    assert english.startswith("The plan was changed because a person gave another one. ")
    assert chinese.startswith("计划已调整，原因：有人给出了另一份计划。")


def test_work_that_is_taken_over_is_said_and_the_same_plan_again_too():
    again = [
        {"id": "who2", "tool": "look", "description": "the customer"},
        {"id": "x", "tool": "look", "args": {"n": 2}, "depends_on": ["who2"]},
    ]
    english, _ = told(play(PLAN[:2], again))
    assert "Taken over from finished work: the customer." in english
    same = [{"id": "a", "tool": "find"}]
    operator = [{"when": {"run": "awaiting-confirmation"}, "do": {"replan": same, "by": "ann"}}]
    assert "The steps are the same. Unchanged: a." in told(simulated(same, operator))[0]


def test_a_limit_that_is_exceeded_is_named():
    plan = {
        "constraints": [
            {"key": "budget", "value": 10, "check": "sum(costs) <= value", "say": "no more than 10"}
        ],
        "steps": [{"id": "a", "tool": "dear"}, {"id": "b", "tool": "look", "depends_on": ["a"]}],
    }
    tools = {**TOOLS, "dear": {"effect": "read", "calls": [{"return": {"cost": 12}}]}}
    english, chinese = told(play(plan, [{"id": "c", "tool": "look", "args": {"n": 1}}], tools=tools))
    assert "because a limit is exceeded (no more than 10). " in english
    assert "原因：超出了限制（no more than 10）。" in chinese


def test_a_repair_says_why_it_helps_in_both_languages():
    tools = {**TOOLS, "find_mirror": {"effect": "read"}}
    english, chinese = told(play([PLAN[0], PLAN[1]], tools=tools))
    assert "(order 77 is not known); another source is asked the same. Changed: look up the order." in english
    assert "（order 77 is not known）；改问另一个来源。" in chinese


def test_of_many_steps_some_are_named_and_long_words_are_cut_to_one_line():
    many = [{"id": f"s{n}", "tool": "look", "args": {"n": n}} for n in range(12)]
    english, chinese = told(play([{"id": "a", "tool": "find", "description": "x\n" * 300}], many))
    assert "New: s0, s1, s2, s3, s4, s5, s6, s7 and 4 more;" in english
    assert "s7等，另有 4 步" in chinese
    assert len(english.splitlines()) == 1
    assert "x x" in english
    assert "…" in english
    assert len(english) < 700


@pytest.mark.parametrize("signal", [s.value for s in HOME["task", "failed"]])
@pytest.mark.parametrize("lang", LANGUAGES)
def test_there_are_words_for_every_failure_of_a_step(signal, lang):
    frame = explaining._TASK[lang].get(signal, explaining._TASK[lang][""])
    assert frame.format("X").count("X") == 1


def test_signals_of_the_run_without_words_of_their_own_are_named():
    assert (
        set(explaining._RUN["en"]) == set(explaining._RUN["zh"]) <= {s.value for s in HOME["run", "running"]}
    )
    assert Signal.INPUT_CHANGED.value not in explaining._RUN["en"]


def test_history_and_why_tell_it():
    result = play(PLAN, BY_PHONE)
    english, chinese = told(result)
    (replan,) = history(RUN_ID, result.events).replans
    assert (replan.explanation, replan.explanation_zh, replan.repair) == (english, chinese, "")
    assert why(RUN_ID, result.events, None).changes == (english,)
    assert why(RUN_ID, result.events, "phone").changes == (english,)
    assert why(RUN_ID, result.events, "who").changes == ()
    seq = [e.seq for e in result.events if e.type == "plan_adopted"][1]
    assert why(RUN_ID, result.events, seq).changes == (english,)
    assert why(RUN_ID, result.events, 1).changes == ()
