"""The simulated world: what a call will do, what the ledger holds, what a probe finds, how an error reads."""

from hypothesis import given, settings
from hypothesis import strategies as st

from fsm_agent.core.inputs import Call, Probe, Usage
from fsm_agent.core.signals import Applied, Signal
from fsm_agent.runtime.classifying import load_classifier
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.runtime.tools.context import Reconciled
from fsm_agent.runtime.tools.endings import Judge
from fsm_agent.testing import replies
from fsm_agent.testing.scenario import parse
from fsm_agent.testing.world import Kind, World

S = 1_000_000
JUDGE = Judge(load_classifier(), Vault())


def world(effect="write", **tool):
    document = {"plan": [], "tools": {"t": {"effect": effect, "timeout_s": 10, **tool}}}
    return World(parse(document, "w").tools)


def call(key="k", at=0, **args):
    return Call(task="a", attempt=1, tool="t", args=args, key=key, deadline_at=at + 10 * S)


def probe(key="k", at=0, repeat=False, **args):
    return Probe(task="a", attempt=1, tool="t", args=args, key=key, repeat=repeat, deadline_at=at + 10 * S)


def timeline(world, at=0, **args):
    return [(h.at_us, h.kind) for h in world.call(call(at=at, **args), at)]


def play(world, at=0, key="k", **args):
    """Let a whole call happen; return what it returns."""
    returned = None
    for happening in world.call(call(key=key, at=at, **args), at):
        if happening.kind is Kind.COMMIT:
            world.happened(happening)
        if happening.kind is Kind.REPLY:
            returned = happening.script.returned
    return returned


def outcome(effect="read", **script):
    w = world(effect, calls=[script])
    reply = [h for h in w.call(call(), 0) if h.kind is Kind.REPLY][-1]
    return replies.outcome(JUDGE, w.tools["t"].spec, reply)


# ── what will happen when ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_call_that_returns_has_its_effect_when_it_ends():
    assert timeline(world(calls=[{"return": 1, "delay_s": 3}]), at=5 * S) == [
        (8 * S, Kind.COMMIT),
        (8 * S, Kind.REPLY),
    ]


def test_a_call_that_hangs_has_its_effect_at_the_start_and_no_reply():
    assert timeline(world(calls=[{"timeout": True, "commit": True}])) == [(0, Kind.COMMIT)]
    assert timeline(world(calls=[{"timeout": True}])) == []


def test_a_late_reply_comes_after_the_deadline():
    late = world(calls=[{"timeout": True, "commit": True, "return": 1, "late_s": 2}])
    assert timeline(late, at=S) == [(S, Kind.COMMIT), (13 * S, Kind.REPLY)]
    assert timeline(world(calls=[{"timeout": True, "late_s": 0}])) == [(10 * S + 1, Kind.REPLY)]


def test_a_slow_call_outlives_its_deadline_and_then_has_its_effect():
    assert timeline(world(calls=[{"delay_s": 30}])) == [(30 * S, Kind.COMMIT), (30 * S, Kind.REPLY)]


def test_a_crash_comes_just_before_or_just_after_the_effect():
    before = timeline(world(calls=[{"crash": "before", "delay_s": 1}]))
    assert before == [(S, Kind.CRASH_BEFORE), (S, Kind.COMMIT), (S, Kind.REPLY)]
    after = timeline(world(calls=[{"crash": "after", "delay_s": 1}]))
    assert after == [(S, Kind.COMMIT), (S, Kind.CRASH_AFTER), (S, Kind.REPLY)]


def test_reports_are_spread_evenly_over_the_call():
    w = world("read", calls=[{"delay_s": 4, "progress": [True, False, True]}])
    reports = [(h.at_us, h.advanced) for h in w.call(call(), 0) if h.kind is Kind.REPORT]
    assert reports == [(S, True), (2 * S, False), (3 * S, True)]


def test_reports_of_a_hanging_call_come_before_its_deadline():
    w = world("read", calls=[{"timeout": True, "progress": [False] * 4}])
    assert [h.at_us for h in w.call(call(), 0)] == [2 * S, 4 * S, 6 * S, 8 * S]


@settings(deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "commit": st.booleans(),
            "timeout": st.booleans(),
            "delay_s": st.integers(0, 30),
            "crash": st.sampled_from(["before", "after"]),
            "progress": st.lists(st.booleans(), max_size=4),
            "return": st.none(),
        },
    ),
    st.integers(0, 100),
)
def test_nothing_happens_before_the_call_or_out_of_order(script, at):
    happenings = world(calls=[script]).call(call(at=at), at)
    times = [(h.at_us, h.kind) for h in happenings]
    assert times == sorted(times)
    assert all(h.at_us >= at for h in happenings)
    assert sum(h.kind is Kind.COMMIT for h in happenings) <= 1
    assert [h.advanced for h in happenings if h.kind is Kind.REPORT] == script.get("progress", [])


# ── which script is taken ─────────────────────────────────────────────────────────────────────────────────────────


def test_the_first_unused_fitting_call_is_taken_and_the_last_fitting_one_repeats():
    w = world(
        "read",
        calls=[{"match": {"n": 1}, "return": "one"}, {"return": "any"}, {"match": {"n": 2}, "return": "two"}],
    )
    assert [play(w, n=2), play(w, n=2), play(w, n=2)] == ["any", "two", "two"]
    assert [play(w, n=1), play(w, n=1)] == ["one", "any"]
    assert w.calls == {"t": 5}
    assert not w.gaps


def test_a_match_is_a_subset_of_the_arguments_with_equal_values():
    w = world("read", calls=[{"match": {"n": 1}, "return": "one"}, {"match": {"n": True}, "return": "true"}])
    assert play(w, n=True, m=5) == "true"
    assert play(w, n=1, m=5) == "one"


def test_a_tool_without_calls_returns_null_and_a_write_has_its_effect():
    w = world()
    assert play(w) is None
    assert w.effect_counts() == {"t": 1}
    assert play(world("read")) is None


def test_a_call_that_the_scenario_says_nothing_about_fails_and_is_named():
    w = world(calls=[{"match": {"n": 1}}])
    assert timeline(w, n=2) == [(0, Kind.REPLY)]
    assert w.gaps == [
        "no call of tool t fits the arguments {'n': 2}; add a call without match, or one that matches"
    ]
    assert w.effect_counts() == {"t": 0}


# ── the ledger and its probes ─────────────────────────────────────────────────────────────────────────────────────


def test_every_commit_of_a_write_is_an_effect_and_of_an_idempotent_tool_every_key():
    for effect, expected in [("write", 3), ("irreversible", 3), ("idempotent", 2)]:
        w = world(effect)
        for key in ("k", "k", "j"):
            play(w, key=key)
        assert w.effect_counts() == {"t": expected}, effect


def test_the_truth_is_told_by_key_and_only_once_the_effect_shows():
    w = world(reconcile="truth", lag_s=2, calls=[{"return": {"id": 1}, "delay_s": 1}])
    assert w.probe(probe(), 0).verdict == "absent"
    play(w)
    assert w.probe(probe(), 3 * S - 1).verdict == "absent"
    found = w.probe(probe(), 3 * S)
    assert (found.verdict, found.result) == ("applied", {"id": 1})
    assert w.probe(probe(key="other"), 9 * S).verdict == "absent"


def test_the_truth_about_an_error_or_a_time_out_is_what_it_would_have_returned():
    w = world(reconcile="truth", calls=[{"raise": {"status": 500}, "commit": True, "return": {"id": 2}}])
    play(w)
    assert w.probe(probe(), 0).result == {"id": 2}


def test_listed_findings_are_taken_like_calls():
    w = world(reconcile=[{"inconclusive": True}, {"absent": True}, {"match": {"n": 1}, "applied": 7}])
    found = [w.probe(probe(n=1), 0) for _ in range(4)]
    assert [f.verdict for f in found] == ["inconclusive", "absent", "applied", "applied"]
    assert found[2].result == 7
    assert w.probe(probe(n=2), 0).verdict == "absent"


def test_without_a_fitting_finding_nothing_is_known():
    assert world().probe(probe(), 0).verdict == "inconclusive"
    assert (
        world(reconcile=[{"match": {"n": 1}, "absent": True}]).probe(probe(n=2), 0).verdict == "inconclusive"
    )


# ── what the engine is told ───────────────────────────────────────────────────────────────────────────────────────


def test_a_value_is_a_value_and_carries_what_it_cost():
    told = outcome(**{"return": {"x": 1}, "usage": {"tokens": 3, "cost": "0.5"}, "delay_s": 2})
    assert (told.kind, told.value, told.usage) == ("value", {"x": 1}, Usage(tokens=3, cost_micros=500_000))
    assert told.duration_us == 2 * S


def test_a_value_that_is_an_error_or_cannot_be_stored_is_no_success():
    assert outcome(**{"return": {"ok": False, "error": "channel_not_found"}}).kind == "error"
    told = outcome("write", **{"return": "a\x00b"})
    assert (told.signal, told.applied) == (Signal.UNVERIFIED, Applied.YES)


def test_errors_are_classified_as_those_of_real_tools():
    for sign, signal, applied in [
        ({"class": "TimeoutError"}, Signal.TRANSIENT_ERROR, Applied.MAYBE),
        ({"class": "ConnectionRefusedError"}, Signal.TRANSIENT_ERROR, Applied.NO),
        ({"class": "httpx.ReadTimeout"}, Signal.TRANSIENT_ERROR, Applied.MAYBE),
        ({"status": 429}, Signal.RATE_LIMITED, Applied.NO),
        ({"status": 404}, Signal.NOT_FOUND, Applied.NO),
        ({"class": "acme.OddError"}, Signal.UNCLASSIFIED_ERROR, Applied.MAYBE),
        ({"code": "not_found", "applied": "no"}, Signal.NOT_FOUND, Applied.NO),
        ({"code": "house_rule", "applied": "yes"}, Signal.UNCLASSIFIED_ERROR, Applied.YES),
        ({"status": 403, "applied": "no"}, Signal.AUTH_DENIED, Applied.NO),
    ]:
        told = outcome("write", **{"raise": {**sign, "message": "m", "retry_after_s": 2}})
        assert (told.kind, told.signal, told.applied) == ("error", signal, applied), sign
        assert told.error["message"] == "m"
        assert told.retry_after_us == 2 * S


def test_a_code_beside_a_class_is_a_code_of_the_reply():
    told = outcome(**{"raise": {"class": "acme.ApiError", "code": "insufficient_quota"}})
    assert told.signal is Signal.QUOTA_EXHAUSTED


def test_absent_proves_nothing_while_the_call_itself_is_still_out():
    spec = world().tools["t"].spec
    found = Reconciled.absent("nothing there")
    assert replies.finding(JUDGE, spec, probe(), found, still_out=False).verdict == "absent"
    told = replies.finding(JUDGE, spec, probe(), found, still_out=True)
    assert told.verdict == "inconclusive"
    assert "still under way" in told.evidence
    assert replies.finding(JUDGE, spec, probe(), Reconciled.applied(1), still_out=True).result == 1


def test_a_repetition_that_returns_says_applied_and_a_silent_one_nothing():
    w = world("idempotent", calls=[{"return": {"id": 1}, "usage": {"tokens": 2}}])
    command = probe(repeat=True)
    reply = next(h for h in w.call(command, 0) if h.kind is Kind.REPLY)
    told = replies.repeated(JUDGE, w.tools["t"].spec, command, reply)
    assert (told.verdict, told.result, told.usage.tokens) == ("applied", {"id": 1}, 2)
    assert replies.silence(command).verdict == "inconclusive"
