"""The simulation itself: order of things at one instant, crashes, time, secrets, and that it can fail."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.errors import NotFoundError, PlanError, StoreDeadError, UsageError
from fsm_agent.core.events import Event, genesis, seal, to_body
from fsm_agent.core.signals import Applied, Effect
from fsm_agent.runtime.classifying import load_classifier
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.runtime.tools.endings import Judge
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.testing import replies
from fsm_agent.testing.clock import FakeClock
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.simulate import simulate
from fsm_agent.testing.volatile import VolatileStore
from tests.audits import clean


def run(steps, tools, *operator, seed=0, store=None, **parts):
    if isinstance(steps, list):
        steps = {"steps": steps}
    document = {"plan": steps, "tools": tools, "operator": list(operator), **parts}
    return clean(simulate(parse(document, "case"), seed=seed, store=store))


def read(*calls, **tool):
    return {"effect": "read", "calls": list(calls), **tool}


def write(*calls, **tool):
    return {"effect": "write", "calls": list(calls), **tool}


def step(name, tool="t", **parts):
    return {"id": name, "tool": tool, **parts}


def moves(result, task):
    return [e.data["dest"] for e in result.events if e.type == "task_moved" and e.task == task]


def types(result):
    return [e.type for e in result.events]


# ── it can fail ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_an_expectation_that_is_not_met_makes_it_fail_in_words():
    result = run([step("a")], {"t": read()}, expect={"run": "failed", "tasks": {"a": "failed"}})
    assert not result.ok
    assert result.failures == ("run: expected failed, was done", "task a: expected 'failed', was 'done'")


def test_a_call_that_the_scenario_does_not_foresee_makes_it_fail():
    result = run(
        [step("a", args={"n": 1})], {"t": read({"match": {"n": 2}})}, expect={"run": "awaiting-confirmation"}
    )
    assert not result.ok
    assert result.failures[0].startswith("scenario: no call of tool t fits the arguments {'n': 1}")


def test_a_plan_that_cannot_run_is_an_error_unless_it_is_expected():
    with pytest.raises(PlanError):
        run([step("a", tool="ghost")], {"t": read()})
    result = run(
        [step("a", tool="ghost")], {"t": read()}, expect={"refused": ["unknown-tool"], "calls": {"t": 0}}
    )
    assert result.ok
    assert (result.run, result.tasks, result.events) == ("pending", {}, ())


def test_an_unknown_table_is_an_error():
    with pytest.raises(NotFoundError):
        run([step("a")], {"t": read()}, rules="reckless")


def test_a_person_who_repeats_the_same_word_for_ever_is_stopped():
    again = {"when": {"task": "a", "state": "failed"}, "every": True, "do": {"retry": "a"}}
    result = run([step("a")], {"t": read({"raise": {"status": 403}})}, again)
    assert not result.ok
    assert "did not come to rest within" in result.failures[-1]


# ── what is counted and reported ──────────────────────────────────────────────────────────────────────────────────


def test_the_result_is_one_json_object_with_the_names_of_the_interface():
    result = run([step("a")], {"t": write({"return": 1, "delay_s": 1.5})}, name="n")
    data = json.loads(json.dumps(result.to_data()))
    assert data == {
        "name": "n",
        "ok": True,
        "failures": [],
        "run": "done",
        "tasks": {"a": "done"},
        "effects": {"t": 1},
        "calls": {"t": 1},
        "planner_calls": 0,
        "virtual_s": 1.5,
    }


def test_a_plan_may_be_the_text_of_a_model():
    text = 'Here it is:\n```json\n{"steps": [{"id": "a", "tool": "t"},]}\n```'
    assert run(text, {"t": read({"return": 7})}).results == {"a": 7}


def test_equal_seeds_give_equal_logs_and_other_seeds_other_delays():
    def log(seed):
        tools = {"t": read({"raise": {"status": 503}}, {"raise": {"status": 503}}, {"return": 1})}
        return b"\n".join(to_body(e) for e in run([step("a")], tools, seed=seed).events)

    assert log(1) == log(1)
    assert log(1) != log(2)


def test_inputs_of_the_scenario_go_before_those_of_the_plan():
    plan = {"inputs": {"week": 1}, "steps": [step("a", args={"w": "$inputs.week"})]}
    assert run(plan, {"t": read({"match": {"w": 2}, "return": "two"})}, inputs={"week": 2}).results == {
        "a": "two"
    }


def test_a_step_without_a_tool_goes_to_the_default_tool():
    plan = [{"id": "a", "description": "think"}]
    assert run(plan, {"mind": read({"return": "thought"})}, default_tool="mind").results == {"a": "thought"}


def test_no_more_calls_are_out_at_once_than_there_are_workers():
    plan = [step(f"s{i}") for i in range(6)]
    assert run(plan, {"t": read({"delay_s": 10})}, workers=2).virtual_s == 30
    assert run(plan, {"t": read({"delay_s": 10})}, workers=6).virtual_s == 10


# ── people ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_at_one_instant_people_speak_in_the_order_of_the_file_and_before_anything_is_called():
    asks = {"task": "a", "state": "awaiting-confirmation"}
    result = run(
        [step("a")],
        {"t": write(confirm=True)},
        {"when": asks, "do": {"approve": "a", "by": "ann"}},
        {"when": asks, "do": "cancel"},
    )
    assert (result.run, result.calls) == ("cancelled", {"t": 1})
    first_come = run(
        [step("a")],
        {"t": write(confirm=True)},
        {"when": asks, "do": "cancel"},
        {"when": asks, "do": {"approve": "a", "by": "ann"}},
    )
    assert (first_come.run, first_come.calls) == ("cancelled", {"t": 0})


def test_a_refused_word_is_logged_and_the_simulation_goes_on():
    result = run([step("a")], {"t": read({"delay_s": 5})}, {"at_s": 1, "do": {"approve": "a"}})
    assert result.run == "done"
    assert types(result).count("move_refused") == 1
    assert "asks for nothing now" in result.refused[0]


def test_a_word_for_later_is_waited_for_while_the_run_is_only_waiting_or_failed_but_not_when_it_is_over():
    tools = {"t": read({"raise": {"status": 403}}, {"return": 1})}
    asked = run([step("a")], tools, {"at_s": 3600, "do": {"retry": "a"}})
    assert (asked.run, int(asked.virtual_s)) == ("done", 3600)
    abort = [step("a", on_failure={"*": "abort"})]
    failed = run(abort, tools, {"at_s": 3600, "do": "resume"})
    assert (failed.run, int(failed.virtual_s)) == ("done", 3600)
    assert run([step("a")], {"t": read()}, {"at_s": 3600, "do": "cancel"}).virtual_s == 0


def test_a_person_cannot_say_absent_while_the_call_is_still_out():
    slow = {"t": write({"delay_s": 60}, timeout_s=10, settle_s=1)}
    verdict = {"reconcile": "a", "as": "absent", "evidence": "I looked"}
    early = run([step("a")], slow, {"at_s": 20, "do": verdict})
    assert (early.run, early.effects, early.calls) == ("done", {"t": 1}, {"t": 1})
    assert "still running here" in early.refused[0]
    dead = {"t": write({"timeout": True}, {"return": 1}, timeout_s=10, settle_s=1)}
    late = run([step("a")], dead, {"at_s": 20, "do": verdict})
    assert (late.run, late.effects, late.calls) == ("done", {"t": 1}, {"t": 2})


def test_no_repetition_while_a_probe_misses_an_effect_that_is_still_to_come():
    tools = {
        "t": write(
            {"delay_s": 30, "return": {"id": 1}},
            {"return": {"id": 2}},
            timeout_s=10,
            settle_s=2,
            reconcile="truth",
        )
    }
    result = run([step("a")], tools)
    assert (result.run, result.effects, result.results) == ("done", {"t": 1}, {"a": {"id": 1}})


def test_a_lagging_world_is_asked_again():
    tools = {
        "t": write(
            {"timeout": True, "commit": True, "return": 5},
            timeout_s=10,
            settle_s=20,
            lag_s=15,
            reconcile="truth",
        )
    }
    result = run([step("a")], tools)
    assert (result.run, result.effects, result.calls, result.results) == (
        "done",
        {"t": 1},
        {"t": 1},
        {"a": 5},
    )


def test_a_repetition_of_an_idempotent_call_is_the_probe_and_counts_as_a_call():
    hangs = {"timeout": True, "commit": True}
    tools = {
        "t": {
            "effect": "idempotent",
            "timeout_s": 10,
            "settle_s": 1,
            "calls": [hangs, hangs, {"return": "there"}],
        }
    }
    result = run([step("a")], tools)
    assert (result.run, result.effects, result.calls, result.results) == (
        "done",
        {"t": 1},
        {"t": 3},
        {"a": "there"},
    )
    assert "failed" not in moves(result, "a")


def test_reports_without_progress_stop_a_read():
    result = run(
        [step("a")],
        {"t": read({"timeout": True, "progress": [False] * 6})},
        rules={"params": {"stall_threshold": 3}},
    )
    signals = [e.data["signal"] for e in result.events if e.type == "decided"]
    assert signals[0] == "progress_stall"


# ── crashes ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_crash_loses_what_was_not_durable_and_every_call_that_is_out():
    chain = [step("a"), step("b", "u", depends_on=["a"])]
    tools = {"t": read({"return": 1}), "u": read({"crash": "before"}, {"return": 2})}
    result = run(chain, tools)
    assert (result.run, result.calls) == ("done", {"t": 2, "u": 2})
    slow = run([step("a")], {"t": write({"delay_s": 5})}, {"at_s": 2, "do": "crash"})
    assert (slow.effects, slow.calls) == ({"t": 0}, {"t": 1})
    assert moves(slow, "a")[:2] == ["running", "unknown-result"]


def test_a_run_that_was_idle_before_the_crash_keeps_what_it_knew():
    chain = [step("a"), step("b", "u", depends_on=["a"])]
    tools = {"t": read({"return": 1}), "u": read({"delay_s": 1, "crash": "before"}, {"return": 2})}
    assert run(chain, tools).calls == {"t": 1, "u": 2}


def test_a_reaction_comes_after_its_batch_is_durable():
    chain = [step("a"), step("b", "u", depends_on=["a"])]
    crash = {"when": {"task": "a", "state": "done"}, "do": "crash"}
    result = run(chain, {"t": read({"return": 1}), "u": read()}, crash)
    assert (result.run, result.calls) == ("done", {"t": 1, "u": 1})


@pytest.mark.parametrize("seq", range(1, 25))
def test_a_crash_at_any_seq_makes_no_effect_twice(seq):
    plan = [step("a"), step("b", "u", depends_on=["a"]), step("c", "u", args={"n": 2}, depends_on=["b"])]
    tools = {"t": read({"return": 1}), "u": write({"return": 1}, reconcile="truth", timeout_s=5, settle_s=1)}
    result = run(plan, tools, {"at_seq": seq, "do": "crash"}, expect={"run": "done", "effects": {"u": 2}})
    assert result.ok, result.failures


def test_a_store_of_ones_own_keeps_the_log_and_survives_the_simulation():
    store = VolatileStore()
    result = run([step("a")], {"t": read()}, {"at_s": 0, "do": "crash"}, store=store)
    assert [r.seq for r in store.read("simulation")] == [e.seq for e in result.events]


# ── secrets ───────────────────────────────────────────────────────────────────────────────────────────────────────


def test_secrets_reach_the_world_and_never_the_log():
    plan = {
        "inputs": {"token": "hunter2-hunter2"},
        "steps": [step("a", args={"token": "$inputs.token", "n": 1})],
    }
    tools = {
        "t": write(
            {"match": {"token": "hunter2-hunter2"}, "return": {"ok": True}}, secret=["token"], confirm=True
        )
    }
    yes = {"at_s": 1, "do": {"approve": "a", "args": {"token": "hunter2-hunter2", "n": 1}, "by": "ann"}}
    result = run(plan, tools, {"at_s": 0.5, "do": "crash"}, yes, expect={"run": "done", "effects": {"t": 1}})
    assert result.ok, result.failures
    assert b"hunter2" not in b"".join(to_body(e) for e in result.events)


def test_a_planner_that_makes_a_secret_up_is_refused_as_it_would_be_in_a_real_run():
    plan = {"inputs": {"token": "hunter2-hunter2"}, "steps": [step("a", args={"token": "$inputs.token"})]}
    tools = {
        "t": {
            "effect": "read",
            "secret": ["token"],
            "calls": [{"raise": {"status": 404}}, {"return": {"ok": True}}],
        }
    }
    made_up = [step("b", args={"token": "letmein-letmein"})]
    right = [step("b", args={"token": "$inputs.token", "n": 1})]
    result = run(
        plan,
        tools,
        planner=[{"steps": made_up}, {"steps": right}],
        expect={"run": "done", "planner_calls": 2},
    )
    assert result.ok, result.failures
    refused = [event.data for event in result.events if event.type == "replan_refused"]
    assert [data["gate"] for data in refused] == ["planner"]
    assert refused[0]["why"].startswith(
        "/steps/0/args/token: a literal stands where a tool declares a secret"
    )
    assert b"letmein" not in b"".join(to_body(e) for e in result.events)


# ── anything ──────────────────────────────────────────────────────────────────────────────────────────────────────

CALLS = (
    st.fixed_dictionaries(
        {},
        optional={
            "return": st.sampled_from([None, 1, {"ok": False}, {"x": 2}]),
            "raise": st.sampled_from(
                [
                    {"status": 503},
                    {"status": 403},
                    {"class": "ConnectionRefusedError"},
                    {"class": "acme.OddError"},
                    {"code": "x", "applied": "no"},
                    {"code": "x", "applied": "yes"},
                ]
            ),
            "timeout": st.just(True),
            "commit": st.booleans(),
            "delay_s": st.sampled_from([0, 1, 8, 30]),
            "late_s": st.sampled_from([1, 5, 40]),
            "crash": st.sampled_from(["before", "after"]),
            "progress": st.lists(st.booleans(), max_size=6),
        },
    )
    .filter(lambda c: c.get("timeout") or "late_s" not in c)
    .filter(lambda c: not (c.get("timeout") and "raise" in c and "late_s" not in c))
)
TOOLS = st.fixed_dictionaries(
    {
        "effect": st.sampled_from(["read", "idempotent", "write", "irreversible"]),
        "calls": st.lists(CALLS, max_size=3),
    },
    optional={
        "reconcile": st.sampled_from(["truth", "none", [{"inconclusive": True}]]),
        "lag_s": st.sampled_from([0, 3]),
        "timeout_s": st.just(10),
        "settle_s": st.sampled_from([0, 5]),
        "confirm": st.booleans(),
    },
)
NAMES = ["a", "b", "c", "d"]
WORDS = st.sampled_from(NAMES).flatmap(
    lambda t: st.sampled_from(
        [
            {"approve": t},
            {"reject": t},
            {"retry": t},
            {"answer": t, "value": {"decide": "skip"}},
            {"answer": t, "value": {"decide": "retry"}},
            {"answer": t, "value": {"decide": "abort", "acknowledge": [t]}},
            {"answer": "run", "value": {"decide": "abort"}},
            {"answer": t, "value": {"result": {"x": 3}, "evidence": "seen"}},
            {"reconcile": t},
            {"reconcile": t, "as": "absent", "evidence": "looked"},
            {"reconcile": t, "as": "applied", "evidence": "looked", "result": 4},
            {"set_input": {"n": 2}},
            {"cancel": True, "acknowledge": [t]},
            "cancel",
            "pause",
            "resume",
            "crash",
        ]
    )
)
REACTIONS = st.one_of(
    st.fixed_dictionaries({"at_s": st.sampled_from([0, 1, 5, 10, 11, 20, 60, 600]), "do": WORDS}),
    st.fixed_dictionaries({"at_seq": st.integers(1, 40), "do": WORDS}),
    st.fixed_dictionaries(
        {
            "when": st.fixed_dictionaries(
                {
                    "task": st.sampled_from(NAMES),
                    "state": st.sampled_from(
                        ["running", "awaiting-confirmation", "unknown-result", "failed", "done"]
                    ),
                }
            ),
            "do": WORDS,
        }
    ),
)


def _survivable(tool):
    last = {k: v for call in tool["calls"][-1:] for k, v in call.items() if k != "crash"}
    return {**tool, "calls": [*tool["calls"][:-1], *([last] if tool["calls"] else [])]}


@st.composite
def scenarios(draw):
    """Scenarios that come to rest: the last call of a tool, which repeats, kills nobody."""
    steps = []
    for index, name in enumerate(NAMES[: draw(st.integers(1, 4))]):
        before = draw(st.lists(st.sampled_from(NAMES[:index]), unique=True, max_size=2)) if index else []
        one = {
            "id": name,
            "tool": f"t{index}",
            "depends_on": [{"id": b, "optional": draw(st.booleans())} for b in before],
        }
        if draw(st.booleans()):
            one["optional"] = True
        if draw(st.integers(0, 3)) == 0:
            one["on_failure"] = {"*": draw(st.sampled_from(["abort", "escalate"]))}
        if draw(st.integers(0, 3)) == 0:
            one["args"] = {"n": "$inputs.n"}
        steps.append(one)
    return {
        "plan": {"inputs": {"n": 1}, "steps": steps},
        "workers": draw(st.integers(1, 4)),
        "tools": {f"t{i}": _survivable(draw(TOOLS)) for i in range(len(steps))},
        "operator": draw(st.lists(REACTIONS, max_size=6)),
    }


JUDGE = Judge(load_classifier(), Vault())
RULES = load_rules()


def _lies(tool):
    """Whether a tool hides an effect: as a read, by denying it, or from its probe for longer than it promises.

    While the process lives that has sent a call, a call that goes on is no secret; after that only the promise counts.
    """
    if tool.spec.effect is Effect.READ:
        return True
    denies = any(
        call.commit and call.raised and JUDGE.outcome(tool.spec, replies.ending(call)).applied is Applied.NO
        for call in tool.calls
    )
    promised = tool.spec.timeout_us + tool.spec.settle_us
    late = any(call.commit and call.crash and call.delay_us + tool.lag_us > promised for call in tool.calls)
    return denies or late or tool.lag_us > tool.spec.settle_us


@settings(max_examples=200, deadline=None)
@given(scenarios())
def test_whatever_happens_the_audit_is_clean_and_no_effect_is_made_twice(document):
    scenario = parse(document, "any")
    result = clean(simulate(scenario, rules=RULES))
    assert result.ok, result.failures
    if result.run in ("done", "failed", "cancelled"):
        assert "running" not in result.tasks.values()
    said = str(document["operator"])
    if (
        "'absent'" in said or "set_input" in said
    ):  # a person may be wrong, and other arguments are another effect
        return
    for name, tool in scenario.tools.items():
        if not _lies(tool):
            assert result.effects[name] <= 1


# ── the clock and the store of the kit ────────────────────────────────────────────────────────────────────────────


def test_a_fake_clock_moves_only_when_told_and_only_forward():
    clock = FakeClock(1_000, seed=3)
    assert (clock.now_us(), clock.elapsed_us) == (1_000, 0)
    clock.advance(1.5)
    clock.move_to(5)
    assert (clock.now_us(), clock.elapsed_us) == (1_501_000, 1_500_000)
    with pytest.raises(UsageError, match="time moves forward only"):
        clock.advance(-1)


def test_equal_seeds_give_equal_chance():
    numbers = [[FakeClock(seed=seed).jitter() for _ in range(1)] for seed in (1, 1, 2)]
    assert numbers[0] == numbers[1] != numbers[2]
    assert all(0 <= n < 1 for row in numbers for n in row)


def test_a_store_that_fails_ends_the_simulation_loudly():
    class Full(VolatileStore):
        def append(self, lease, expected, records, **rest):
            if expected.seq:
                raise StoreDeadError("store: the disk is full; make room")
            return super().append(lease, expected, records, **rest)

    with pytest.raises(StoreDeadError):
        run([step("a")], {"t": write(confirm=True)}, {"at_s": 1, "do": {"approve": "a"}}, store=Full())
    with pytest.raises(StoreDeadError):
        run([step("a")], {"t": read()}, store=Full())


def test_a_volatile_store_keeps_what_a_barrier_or_a_flush_made_durable():
    store = VolatileStore()
    lease = store.create("r", "o", now_us=1, ttl_us=1)
    head = genesis("r")
    for seq, barrier in [(1, True), (2, False), (3, False)]:
        records, blobs = seal(head, [Event(seq, seq, "note_added", {"text": "t"})])
        head = store.append(lease, head, records, blobs=blobs, barrier=barrier, state="running", now_us=seq)
        if seq == 2:
            store.flush()
    store.crash()
    assert [r.seq for r in store.read("r")] == [1, 2]
    assert store.head("r").seq == 2
    empty = VolatileStore()
    empty.create("r", "o", now_us=1, ttl_us=1)
    empty.crash()
    assert empty.head("r") == genesis("r")


def test_a_repetition_that_answers_too_late_to_be_a_probe_is_still_an_answer():
    hangs = {"timeout": True, "commit": True}
    late = {"timeout": True, "return": "late", "late_s": 1}
    tools = {"t": {"effect": "idempotent", "timeout_s": 10, "settle_s": 5, "calls": [hangs, late]}}
    result = run([step("a")], tools)
    assert (result.run, result.calls, result.results) == ("done", {"t": 2}, {"a": "late"})
    assert types(result).count("late_result") == 1


def test_another_store_keeps_at_a_crash_whatever_it_has():
    chain = [step("a"), step("b", "u", depends_on=["a"])]
    tools = {"t": read({"return": 1}), "u": read({"crash": "before"}, {"return": 2})}
    assert run(chain, tools, store=MemoryStore()).calls == {"t": 1, "u": 2}


def test_a_persons_own_plan_passes_the_gate_or_is_refused_with_a_reason():
    empty = run([step("a")], {"t": read({"delay_s": 1})}, {"at_s": 0.5, "do": {"replan": {"steps": []}}})
    assert empty.run == "done"
    assert "no steps" in empty.refused[0]
    more = run(
        [step("a")],
        {"t": read({"delay_s": 1})},
        {"at_s": 0.5, "do": {"replan": [step("a"), step("b")], "by": "ann"}},
    )
    assert (more.run, more.tasks["b"], more.refused) == ("done", "done", ())
