"""Each check of the audit finds what it is for, in logs that a forger who knows the hash has sealed anew."""

import copy

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fsm_agent.core import canon
from fsm_agent.core.audit.audit import CHECKS, audit
from fsm_agent.core.events import Event, Head, Record, chain, from_body, genesis
from fsm_agent.core.inputs import Note, Usage
from tests.core.kit import ANN, BOB, Lab, error, reseal


def until(it, happens):
    """Let timers go off until something has happened."""
    for _ in range(20):
        if happens():
            return
        it.until_due()
    raise AssertionError(it.states)


def full():
    """A run in which most things happen: approval, edit, time-out, probe, late reply, retry, crash, budget, notes."""
    steps = [
        {"id": "r", "tool": "look", "args": {"w": "$inputs.w"}},
        {"id": "b", "tool": "burn", "args": {"x": "$r.n"}, "depends_on": ["r"], "approvers": 2},
        {"id": "p", "tool": "pay", "args": {"x": 1}},
        {"id": "m", "tool": "mail", "args": {"x": 2}, "optional": True},
        {"id": "q", "description": "how many?", "depends_on": ["p"]},
        {"id": "o", "tool": "look", "args": {"o": 1}, "when": "$q == 0", "depends_on": ["q"]},
        {"id": "z", "tool": "look", "args": {"z": 1}, "depends_on": ["o"]},
    ]
    it = Lab(steps, inputs={"w": 1}, checked=False, budgets={"tool_calls": 40, "tokens": 1000})
    it.ends("r", error("transient_error"))
    it.until_due()
    it.feed(Note(text="go on", who=ANN))
    it.returns("r", {"n": 5}, usage=Usage(tokens=3))
    it.edit("b", x=6)
    it.approve("b", ANN)
    it.approve("b", BOB)
    it.returns("b", {"burnt": 1})
    until(it, lambda: it.task("p").probing)
    it.finds("p", "inconclusive")
    until(it, lambda: it.task("p").probing)
    it.crash()
    until(it, lambda: it.task("p").probing)
    it.finds("p", "applied", {"id": 1})
    it.reconcile("m", "absent", evidence="nothing in the outbox")
    it.ask("pause")
    it.resume()
    it.answer("q", 7)
    it.set(**{"budgets.tool_calls": 50})
    until(it, lambda: it.states["m"] == "running")
    it.fails("m", "auth_denied", "no")
    it.decide("m", "skip")
    it.check()
    assert it.run.state == "done", it.states
    return it


def aborted():
    """A run that is aborted over an accepted unknown result, resumed, and done in the end."""
    steps = [{"id": "m", "tool": "mail"}, {"id": "r", "tool": "look", "on_failure": {"auth_denied": "abort"}}]
    it = Lab(steps, checked=False)
    it.times_out("m")
    it.fails("r", "auth_denied")
    it.ask("abort", "m")
    it.resume()
    it.decide("m", "absent", evidence="nothing there")
    until(it, lambda: it.states == {"m": "running", "r": "running"})
    it.returns("r", 1)
    it.returns("m", 2)
    it.check()
    assert it.run.state == "done"
    return it


def rejected():
    """A run that a rejection leaves nothing to do, closed; then a late word."""
    it = Lab([{"id": "b", "tool": "burn"}, {"id": "c", "tool": "look", "depends_on": ["b"]}], checked=False)
    it.reject("b")
    it.feed(Note(text="a pity", who=ANN))
    it.check()
    return it


def expiring():
    """An approval that expires."""
    it = Lab([{"id": "b", "tool": "burn", "confirm_within_s": 60}], checked=False)
    it.until_due()
    it.check()
    return it


def stopped():
    """A broken constraint, a person who goes on, two approvals, a pause over a probe."""
    steps = [
        {"id": "a", "tool": "look"},
        {"id": "c", "tool": "look", "args": {"c": 1}, "depends_on": ["a"]},
        {"id": "p", "tool": "pay", "args": {"p": 1}, "timeout_s": 30},
        *(
            {"id": n, "tool": "burn", "args": {n: 1}, "confirm_within_s": 100, "depends_on": ["c"]}
            for n in "xy"
        ),
    ]
    it = Lab(steps, checked=False, constraints=[{"key": "k", "value": 1, "check": "$a.n == value"}])
    it.returns("a", {"n": 2})
    it.decide("run", "continue")
    it.returns("c", 1)
    it.approve("x")
    it.approve("y")
    it.returns("x", 1)
    it.returns("y", 1)
    until(it, lambda: it.states["p"] == "unknown-result")
    it.ask("pause")
    until(it, lambda: it.task("p").probing)
    it.finds("p", "applied", 3)
    it.resume()
    it.check()
    assert it.run.state == "done", it.states
    return it


RUNS = {make.__name__: make() for make in (full, aborted, rejected, expiring, stopped)}
LOGS = {name: it.events() for name, it in RUNS.items()}


def blob_of(name):
    return RUNS[name].store.blob


def judged(name, events, **more):
    """Audit *events*, sealed anew; return the ids of the checks that found something."""
    records, _ = reseal("r", events)
    found = audit("r", records, blob_of(name), **more)
    assert {f.check for f in found.findings} <= set(CHECKS)
    assert (found.verdict == "violations") == bool(found.findings)
    return {f.check for f in found.findings}


@pytest.mark.parametrize("name", LOGS)
def test_a_log_of_ours_is_clean_and_sealing_it_anew_changes_nothing(name):
    assert judged(name, LOGS[name]) == set()
    records, head = reseal("r", LOGS[name])
    assert records == RUNS[name].records
    assert head == RUNS[name].engine.head
    found = RUNS[name].audit()
    assert found.verdict == ("open" if name == "expiring" else "clean")
    assert found.events == len(records)
    assert found.transitions == sum(e.type.endswith("_moved") for e in LOGS[name])
    assert found.decisions == sum(e.type == "decided" for e in LOGS[name])


# ── one forgery per row ───────────────────────────────────────────────────────────────────────────────────────


def where(name, type_, nth=0, **data):
    """Return the index of the nth event of a type whose data has these members."""
    fits = [
        i
        for i, e in enumerate(LOGS[name])
        if e.type == type_ and all((e.task if k == "task" else e.data.get(k)) == v for k, v in data.items())
    ]
    return fits[nth]


def changed(name, index, path, value):
    """Return the log with one member of one event's data changed (``path`` with dots), or removed for ``...``."""
    events = list(LOGS[name])
    data = copy.deepcopy(events[index].data)
    *way, last = path.split(".")
    place = data
    for part in way:
        place = place[part]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    events[index] = events[index]._replace(data=data)
    return events


def row(check, name, type_, path, value, nth=0, **data):
    words = f"{check}: {type_} {path}={value}"
    return pytest.param(check, name, (type_, nth, data), path, value, id=words[:70].replace("...", "gone"))


FORGED = [
    row("rules-digest", "full", "run_created", "run", "another"),
    row("rules-digest", "full", "run_created", "rules_digest", "0" * 64),
    row("rules-digest", "full", "run_created", "rules.params.retries", 9),
    row("same-machines", "full", "run_created", "machines_digest", "0" * 64),
    row("plan-digest", "full", "plan_adopted", "digest", "0" * 64),
    row("plan-digest", "full", "plan_adopted", "plan.goal", "another goal"),
    row("plan-versions", "full", "plan_adopted", "plan_version", 2),
    row("owners-in-turn", "full", "owner_changed", "epoch", 1),
    row("legal-task-move", "full", "task_moved", "source", "failed", trigger="start"),
    row("legal-task-move", "full", "task_moved", "dest", "done", trigger="start"),
    row("legal-run-move", "full", "run_moved", "dest", "failed", trigger="hold"),
    row("legal-run-move", "full", "run_moved", "source", "running", trigger="start"),
    row("evidence-for-the-move", "full", "task_moved", "outcome.kind", "error", trigger="succeed"),
    row("evidence-for-the-move", "full", "task_moved", "outcome.applied", "no", trigger="lose"),
    row("result-digest", "full", "task_moved", "result_digest", "0" * 64, trigger="succeed"),
    row("result-digest", "full", "task_moved", "result", 8, trigger="answer"),
    row("cited-evidence", "full", "task_moved", "evidence.seq", 3, trigger="settle"),
    row("cited-evidence", "full", "task_moved", "evidence.seq", "x", trigger="settle"),
    row("cited-evidence", "full", "task_moved", "applied", "yes", trigger="clear"),
    row("cited-evidence", "full", "reconciled", "verdict", "inconclusive", verdict="applied"),
    row("cited-evidence", "full", "reconciled", "result", {"id": 2}, verdict="applied", by="probe"),
    row("verdict-has-a-source", "full", "reconciled", "evidence", "", verdict="applied", by="probe"),
    row("evidence-for-the-move", "full", "task_moved", "delay_ms", 0, trigger="retry"),
    row("digest-and-key", "full", "task_moved", "args", {"w": 2}, trigger="start"),
    row("digest-and-key", "full", "task_moved", "args_digest", "0" * 64, trigger="start"),
    row("digest-and-key", "full", "task_moved", "key", "0" * 32, trigger="start"),
    row("attempt-of-the-call", "full", "task_moved", "attempt", 7, trigger="start"),
    row("evidence-for-the-move", "full", "task_moved", "effect", "read", trigger="start", task="p"),
    row("digest-and-key", "full", "task_moved", "tool", "mail", trigger="start", task="p"),
    row("retry-as-decided", "full", "task_moved", "delay_ms", 10**9, trigger="retry"),
    row("plan-digest", "full", "plan_adopted", "plan.budgets.tool_calls", 1),
    row("within-budget", "full", "budget_changed", "budgets", {"tool_calls": 1}),
    row("probe-by-the-policy", "full", "decided", "params.probe_at", 1, decide="reconcile"),
    row("deadline-of-the-tool", "full", "task_moved", "deadline_at", 10**17, trigger="start", task="p"),
    row("probe-by-the-policy", "full", "run_created", "tools.1.settle_us", 10**12),
    row("request-shows-the-call", "full", "approval_requested", "args", {"x": 99}, kind="approval"),
    row("request-shows-the-call", "full", "approval_requested", "args_digest", "0" * 64, kind="approval"),
    row("answers-the-question", "full", "approval_answered", "args_digest", "0" * 64, verdict="approved"),
    row("nobody-approves-twice", "full", "approval_answered", "by", "ann", nth=1, verdict="approved"),
    row("answers-the-question", "full", "approval_answered", "kind", "decide", verdict="approved"),
    row("approved-before", "full", "task_moved", "approval", ..., trigger="start", task="b"),
    row("approved-before", "full", "task_moved", "approval", 3, trigger="start", task="b"),
    row("answered-in-time", "expiring", "approval_answered", "verdict", "approved"),
    row("request-wants-enough", "expiring", "approval_requested", "expires_at", 10**18),
    row("decision-by-the-table", "full", "decided", "rule", "accept", decide="retry"),
    row("decision-by-the-table", "full", "decided", "decide", "escalate", decide="retry"),
    row("facts-recomputed", "full", "decided", "facts", {"effect": "write"}, decide="retry"),
    row("decision-for-a-signal", "full", "decided", "signal", "rate_limited", signal="transient_error"),
    row("decision-for-a-signal", "full", "decided", "signal", "success", signal="transient_error"),
    row("signal-at-home", "full", "decided", "state", "failed", signal="success"),
    row("decision-for-a-signal", "full", "decided", "task", "p", decide="accept"),
    row("brought-about", "full", "task_moved", "code", "aborted", trigger="cancel", code="condition"),
    row("brought-about", "full", "task_moved", "origin", "r", trigger="cancel", task="z"),
    row("brought-about", "full", "task_moved", "code", "optional", trigger="cancel", task="z"),
    row(
        "answered-in-its-batch",
        "full",
        "approval_answered",
        "verdict",
        "rejected",
        verdict="answered",
        kind="answer",
    ),
    row("wish-in-rank", "aborted", "run_asked", "acknowledged", ["r"]),
    row("run-fits-its-tasks", "aborted", "run_asked", "acknowledged", [], nth=1),
    row("wish-in-rank", "aborted", "run_asked", "wish", "pause", nth=1, wish="abort"),
    row("true-report", "full", "run_closed", "report.state", "failed"),
    row("brought-about", "rejected", "task_moved", "code", "condition", trigger="cancel"),
    row("legal-task-move", "full", "task_moved", "trigger", "fly", trigger="succeed"),
    row("evidence-for-the-move", "full", "task_moved", "outcome", ..., trigger="succeed"),
    row("plan-digest", "full", "plan_adopted", "plan", {"steps": 5}),
]


@pytest.mark.parametrize(("check", "name", "place", "path", "value"), FORGED)
def test_a_forged_member_is_found_by_the_check_that_is_for_it(check, name, place, path, value):
    type_, nth, data = place
    index = where(name, type_, nth, **data)
    if path == "task":
        events = list(LOGS[name])
        events[index] = events[index]._replace(task=value)
    elif path.startswith("tools."):
        events = list(LOGS[name])
        made = copy.deepcopy(events[index].data)
        made["tools"][1]["settle_us"] = value
        events[index] = events[index]._replace(data=made)
    else:
        events = changed(name, index, path, value)
    assert check in judged(name, events)


def added(name, after, **fields):
    """Return the log with one more event in the batch of the one at index *after*."""
    log = LOGS[name]
    before = log[after]
    event = Event(before.seq, before.at + 1, tx=before.tx or [before.seq, 1], **fields)
    later = [e._replace(at=e.at + 2) for e in log[after + 1 :]]
    return renumbered([*log[: after + 1], event, *later])


def test_a_start_while_a_question_about_the_whole_run_is_open_is_found():
    index = where("stopped", "approval_answered", kind="decide")
    assert "run-lets-it-start" in judged(
        "stopped", renumbered(LOGS["stopped"][:index] + LOGS["stopped"][index + 1 :])
    )


def test_a_start_of_a_step_that_the_plan_in_force_does_without_is_found():
    log = LOGS["stopped"]
    plan = copy.deepcopy(log[where("stopped", "plan_adopted")].data)
    plan["plan"]["steps"] = [s for s in plan["plan"]["steps"] if s["id"] not in "xy"]
    plan |= {"digest": canon.value_digest("plan", plan["plan"]), "plan_version": 2, "answers": "run"}
    index = where("stopped", "task_moved", trigger="start", task="x") - 1
    assert "call-of-the-plan" in judged("stopped", added("stopped", index, type="plan_adopted", data=plan))


def test_an_approval_of_another_call_or_after_its_time_is_found():
    index = where("stopped", "task_moved", trigger="start", task="y")
    other = log_of(where("stopped", "approval_answered", task="x", verdict="approved"))
    assert "approved-before" in judged("stopped", changed("stopped", index, "approval", other.seq))
    log = list(LOGS["stopped"])
    late = [e._replace(at=e.at + (200_000_000 if i >= index else 0)) for i, e in enumerate(log)]
    assert "approval-in-time" in judged("stopped", late)


def log_of(index):
    return LOGS["stopped"][index]


def test_a_call_that_is_sent_again_after_a_wish_is_found():
    index = where("stopped", "probe_sent")
    assert "probe-in-time" in judged("stopped", changed("stopped", index, "repeat", True))


@pytest.mark.parametrize("attempt", [0, 1, 2])
def test_a_late_result_of_a_call_that_was_never_made_or_still_runs_is_found(attempt):
    index = where("stopped", "task_moved", trigger="start", task="x")
    data = {"attempt": attempt, "outcome": {"kind": "value", "value": 1}}
    assert "late-result-of-a-call" in judged(
        "stopped", added("stopped", index, type="late_result", data=data, task="x")
    )


@pytest.mark.parametrize("said", ["hold", "lose", "resume"])
def test_a_run_that_waits_or_goes_on_without_a_reason_is_found(said):
    source, dest = {
        "hold": ("running", "awaiting-confirmation"),
        "lose": ("running", "unknown-result"),
        "resume": ("awaiting-confirmation", "running"),
    }[said]
    name = "stopped"
    index = (
        where(name, "run_moved", trigger="start")
        if said != "resume"
        else where(name, "run_moved", trigger="hold", paused=True)
    )
    data = {"trigger": said, "source": source, "dest": dest, "reason": "r"}
    assert "run-moved-for-a-reason" in judged(name, added(name, index, type="run_moved", data=data))


def renumbered(events):
    """Give a log without gaps, as a careful forger would: seqs, causes, batches and times fitted."""
    out = []
    new = {e.seq: i for i, e in enumerate(events, 1)}
    groups = {}
    for i, e in enumerate(events, 1):
        groups.setdefault(e.tx[0] if e.tx else e.seq, []).append(i)
    for i, e in enumerate(events, 1):
        group = groups[e.tx[0] if e.tx else e.seq]
        cause = e.cause if e.cause is None else new.get(e.cause, max(1, i - 1))
        if cause is not None and cause >= i:
            cause = None
        out.append(e._replace(seq=i, cause=cause, tx=[group[0], len(group)]))
    return out


WORDS = {
    "note_added",
    "input_changed",
    "budget_changed",
    "move_refused",
    "owner_changed",
    "late_result",
    "progressed",
}
"""What can be left out of a log without anything else in it becoming wrong: found only against a head kept outside."""


LOOSE = {"run_asked", "reconciled"}
"""What may be said twice: a wish with nothing new, a verdict that nothing cites, a question that replaces itself."""


@pytest.mark.parametrize("name", LOGS)
def test_whatever_is_left_out_is_missed_by_what_follows_or_was_mere_words(name):
    log = LOGS[name]
    for index, event in enumerate(log[:-1]):
        left = renumbered(log[:index] + log[index + 1 :])
        found = judged(name, left)
        waits = (
            event.data.get("trigger") == "hold"
        )  # a run that waits is as still as one that does not say so
        assert found or event.type in WORDS or waits, (
            f"nobody misses event {event.seq}: {event.type} {event.data}"
        )


@pytest.mark.parametrize("name", LOGS)
def test_whatever_is_said_twice_is_noticed_unless_it_was_mere_words(name):
    log = LOGS[name]
    for index, event in enumerate(log):
        later = [e._replace(at=e.at + 1) for e in (event, *log[index + 1 :])]
        found = judged(name, renumbered([*log[: index + 1], *later]))
        loose = event.type in WORDS | LOOSE or event.data.get("kind") == "decide"
        assert found or loose, f"nobody minds event {event.seq} twice: {event.type}"


@pytest.mark.parametrize("name", LOGS)
def test_neighbours_cannot_change_places(name):
    log = LOGS[name]
    for index in range(1, len(log) - 1):
        first, second = log[index], log[index + 1]
        swapped = [
            *log[:index],
            second._replace(at=first.at),
            first._replace(at=second.at),
            *log[index + 2 :],
        ]
        found = judged(name, renumbered(swapped))
        free = {first.type, second.type} & WORDS or first.task != second.task or first.type == "run_asked"
        assert found or free, f"{first.seq} and {second.seq} changed places"


# ── bytes, batches, heads ─────────────────────────────────────────────────────────────────────────────────────


def audit_records(records, **more):
    return audit("r", records, blob_of("full"), **more)


def checks(found):
    return {f.check for f in found.findings}


def test_a_byte_that_was_changed_breaks_the_chain_at_its_event():
    records = list(RUNS["full"].records)
    old = records[9]
    records[9] = old._replace(body=old.body.replace(b'"at":1', b'"at":2', 1))
    found = audit_records(records)
    assert "hash-chain" in checks(found)
    assert min(f.seq for f in found.findings) == old.seq


def test_bytes_that_are_not_canonical_or_no_event_are_found():
    records = list(RUNS["full"].records)
    spaced = orjson.dumps(orjson.loads(records[-1].body), option=orjson.OPT_INDENT_2)
    sealed = records[-1]._replace(body=spaced, hash=chain(records[-2].hash, spaced))
    assert checks(audit_records([*records[:-1], sealed])) == {"canonical-bytes"}
    broken = records[-1]._replace(body=b"{}", hash=chain(records[-2].hash, b"{}"))
    assert "readable" in checks(audit_records([*records[:-1], broken]))
    odd = LOGS["full"][-1]._replace(type="run_sang")
    assert "known-type" in judged("full", [*LOGS["full"][:-1], odd])
    other = records[-1]._replace(seq=99)
    assert "stored-number" in checks(audit_records([*records[:-1], other]))


def test_a_cut_tail_shows_only_against_a_head_and_a_cut_batch_by_itself():
    records = RUNS["full"].records
    head = RUNS["full"].engine.head
    last = from_body(records[-1].body)
    whole = [r for r in records if r.seq < last.tx[0]]
    assert checks(audit_records(whole)) == set()
    assert checks(audit_records(whole, head=head)) == {"head"}
    assert "last-batch" in checks(audit_records(records[:-1]))
    assert checks(audit_records(records, head=head)) == set()


def test_another_history_of_the_same_length_shows_against_a_head():
    head = RUNS["full"].engine.head
    index = where("full", "note_added", text="go on")
    events = changed("full", index, "text", "stop")
    records, _ = reseal("r", events)
    assert checks(audit_records(records)) == set()
    assert checks(audit_records(records, head=head)) == {"head"}
    middle = Head(records[10].seq, bytes(32))
    assert checks(audit_records(RUNS["full"].records, head=middle)) == {"head"}


def test_an_empty_log_is_no_run():
    found = audit_records([])
    assert checks(found) == {"last-batch"}
    assert found.head == genesis("r")


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"seq": 40}, "numbered"),
        ({"at": 5}, "times-rise"),
        ({"cause": 9999}, "causes-before"),
        ({"cause": 0}, "causes-before"),
        ({"tx": [1, 99]}, "whole-batches"),
        ({"tx": [3, 2]}, "whole-batches"),
    ],
)
def test_the_envelope_is_held_to_its_order(change, check):
    events = list(LOGS["full"])
    events[20] = events[20]._replace(**change)
    assert check in judged("full", events)


def test_a_run_is_created_once_and_first():
    log = LOGS["full"]
    assert "created-first" in judged("full", [log[1]._replace(seq=1, tx=None), *log[2:]])
    again = log[0]._replace(seq=len(log) + 1, at=log[-1].at + 1, tx=None)
    assert {"created-first", "after-the-end"} <= judged("full", [*log, again])


def test_after_the_end_nothing_but_words_and_evidence_may_follow():
    log = LOGS["full"]

    def added(**fields):
        event = Event(len(log) + 1, log[-1].at + 1, **fields)
        return judged("full", [*log, event])

    assert added(type="note_added", data={"text": "x"}) == set()
    decided = log[where("full", "decided", decide="accept")]
    assert "after-the-end" in added(type="decided", data=decided.data, task=decided.task)
    assert "after-the-end" in added(type="task_moved", data={"trigger": "start"}, task="r")
    assert "after-the-end" in added(type="run_moved", data={"trigger": "hold"})
    assert "after-the-end" not in added(type="run_moved", data={"trigger": "resume"})


def test_a_large_value_that_is_missing_or_another_is_found():
    it = Lab([{"id": "a", "tool": "look"}])
    it.returns("a", "x" * 9000)
    it.check()

    def missing(name):
        raise canon.ValueRefusedError("gone", path="$")

    assert checks(audit("r", it.records, missing)) == {"large-values"}
    assert checks(audit("r", it.records, lambda name: b'"y"')) == {"large-values"}


# ── a forger who throws anything at it ────────────────────────────────────────────────────────────────────────

JUNK = (
    st.none()
    | st.booleans()
    | st.integers(-5, 5)
    | st.sampled_from(["", "run", "p", "x" * 70])
    | st.just([])
    | st.just({})
)


def places(value, path=()):
    """Yield the path of every part of a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from places(item, (*path, index))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_log_however_forged_brings_the_audit_down(data):
    name = data.draw(st.sampled_from(sorted(LOGS)))
    bodies = [orjson.loads(r.body) for r in RUNS[name].records]
    for _ in range(data.draw(st.integers(1, 3))):
        body = data.draw(st.sampled_from(bodies))
        path = data.draw(st.sampled_from([p for p in places(body) if p]))
        place = body
        for part in path[:-1]:
            place = place[part]
        if data.draw(st.booleans()):
            place[path[-1]] = data.draw(JUNK)
        elif isinstance(place, dict):
            del place[path[-1]]
    previous, records = genesis("r").hash, []
    for number, body in enumerate(bodies, 1):
        raw = orjson.dumps(body, option=orjson.OPT_SORT_KEYS)
        previous = chain(previous, raw)
        records.append(Record(number, raw, previous))
    found = audit("r", records, blob_of(name))
    assert found.verdict in ("clean", "open", "violations")
