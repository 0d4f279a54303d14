"""A fork has its parent's past and none of its permissions, and no effect of the family is ever made a second time."""

import subprocess
import sys
from pathlib import Path

import attrs
import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.engine.decide import state_digest
from fsm_agent.core.errors import NotFoundError, RefusedError
from fsm_agent.core.events import Event, Record, chain, from_body, genesis, to_body
from fsm_agent.core.inputs import Create, Env, Replan
from fsm_agent.core.replay import fork as forks
from fsm_agent.core.replay.player import Replay
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.driving.forking import fork_run
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import export_run
from tests.core.kit import ANN, BOB, READ, Lab, lab, refused, value

PLAN = [
    {"id": "a", "tool": "look"},
    {"id": "w", "tool": "pay", "args": {"n": "$a.n"}, "depends_on": ["a"]},
    {"id": "z", "tool": "look", "depends_on": ["w"]},
]


def boundaries(it):
    """The numbers at which a batch ends."""
    return [e.seq for e in it.events() if e.seq == (e.tx or [e.seq, 1])[0] + (e.tx or [e.seq, 1])[1] - 1]


def at(it, trigger, task):
    """The end of the batch in which a task was last moved by a trigger."""
    move = [e for e in it.events("task_moved", task=task) if e.data["trigger"] == trigger][-1]
    return next(seq for seq in boundaries(it) if seq >= move.seq)


def forked(it, seq, **more):
    it.engine.flush()
    it.ports.clock.advance(1)
    return fork_run(it.store, it.run.id, seq, who=more.pop("who", ANN), ports=it.ports, **more)


class Branch(Lab):
    """A fork that somebody has taken up."""

    def __init__(self, parent, made):
        parent.ports.clock.advance(1)
        self.ports, self.store, self.tools = parent.ports, parent.store, parent.tools
        self.default_tool, self.checked, self.owners = None, True, 1
        self.create = attrs.evolve(parent.create, run=made.run)
        self.engine, commands = Engine.open(
            self.store, made.run, "branch", self.ports, tools=self.tools, slots=4
        )
        self.commands = list(commands)


def done(result=7):
    """A run whose steps are all done, the write too."""
    with lab(PLAN) as it:
        it.returns("a", {"n": 1})
        it.returns("w", result)
        it.returns("z")
    return it


# ── what is kept ──────────────────────────────────────────────────────────────────────────────────────────────


def test_results_are_kept_and_the_rest_goes_on():
    it = done()
    made = forked(it, at(it, "succeed", "a"))
    assert (made.run, made.parent, made.done) == ("r.f1", "r", ("a", "w"))
    branch = Branch(it, made)
    assert branch.task("a").result == {"n": 1}
    assert branch.states == {"a": "done", "w": "done", "z": "running"}
    branch.returns("z")
    assert branch.run.state == "done"
    branch.check()


def long_run():
    """A run with a question, an approval, a lost result, failures of reads and writes, and a repeatable call."""
    with lab(
        [
            {"id": "a", "tool": "look"},
            {"id": "q", "description": "which?"},
            {"id": "w", "tool": "pay", "args": {"n": 1}, "depends_on": ["a"]},
            {"id": "m", "tool": "mail", "depends_on": ["q"], "requires_confirmation": True},
            {"id": "p", "tool": "put", "depends_on": ["m"]},
            {"id": "z", "tool": "look", "depends_on": ["w", "p"]},
        ]
    ) as it:
        it.fails("a")
        it.answer("q", "x")
        it.until_due()
        it.approve("m")
        it.returns("a", {"n": 1})
        it.times_out("w")
        it.fails("m", "transient_error")
        it.until_due()
        it.approve("m")
        it.returns("m", 3)
        if not it.task("w").probing:
            it.until_due()
        it.finds("w", "applied", {"id": 1})
        it.returns("p", 4)
        it.returns("z", 5)
    return it


PLACES = boundaries(long_run())


@pytest.mark.parametrize("seq", PLACES)
def test_wherever_it_is_cut_the_fork_audits_clean_and_makes_no_effect_again(seq):
    it = long_run()
    assert it.run.state == "done", it.states
    keys = {
        e.data["key"] for e in it.events("task_moved") if e.data.get("effect") in ("write", "irreversible")
    }
    if seq == PLACES[-1]:
        with refused("E-FORK"):
            forked(it, seq)
        return
    made = forked(it, seq)
    branch = Branch(it, made)
    for _ in range(40):
        if branch.run.closed:
            break
        if branch.run.questions:
            name, question = next(iter(branch.run.questions.items()))
            branch.approve(name) if question.kind == "approval" else branch.answer(name, "x")
        elif branch.run.running:
            name = next(iter(branch.run.running))
            branch.returns(name, {"n": 1})
        elif any(t.probing for t in branch.run.tasks.values()):
            name = next(t.id for t in branch.run.tasks.values() if t.probing)
            branch.finds(name, "absent")
        else:
            branch.until_due()
    assert branch.run.state == "done", branch.states
    branch.check()
    again = [
        e.data["key"]
        for e in branch.events("task_moved")
        if e.seq > seq and e.data["trigger"] == "start" and e.data["effect"] in ("write", "irreversible")
    ]
    assert not set(again) & keys


def test_the_time_between_the_cut_and_the_fork_is_nobodys_active_time():
    it = done()
    seq = at(it, "succeed", "a")
    before = forks.folded("r", it.events()[:seq]).account.active_us
    it.ports.clock.advance(5000)
    forked(it, seq)
    fork = it.store.read("r.f1")
    run = Replay("r.f1", fork, it.store.blob).at(seq + 1)
    assert run.state == "running"
    assert run.account.active_us == before


def test_the_events_up_to_the_cut_are_the_parents_byte_for_byte_but_for_the_first():
    it = done()
    seq = at(it, "succeed", "a")
    forked(it, seq)
    own, theirs = list(it.store.read("r.f1")), list(it.store.read("r"))
    assert [r.body for r in own[1:seq]] == [r.body for r in theirs[1:seq]]
    first = from_body(own[0].body).data
    assert (first["run"], first["root"]) == ("r.f1", "r")
    assert first["forked_from"] == {"run": "r", "seq": seq, "hash": theirs[seq - 1].hash.hex()}
    assert forks.parents_first(own[0].body) == theirs[0].body
    event = from_body(own[seq].body)
    assert (event.type, event.data["run"], event.actor["id"]) == ("run_forked", "r.f1", "ann")


def test_a_fork_of_a_fork_proves_both():
    it = done()
    seq = at(it, "succeed", "a")
    first = Branch(it, forked(it, seq, new="b"))
    first.returns("z")
    first.check()
    second = Branch(first, forked(first, seq, new="c"))
    second.returns("z")
    second.check()
    third = (
        Branch(first, forked(second, second.run.seq - 4, new="d"))
        if second.run.seq - 4 in boundaries(second)
        else second
    )
    assert from_body(next(iter(it.store.read("c"))).body).data["forked_from"]["was"]["run"] == "r"
    assert third.run.root == "r"


# ── what is not ───────────────────────────────────────────────────────────────────────────────────────────────


def test_an_approval_that_was_given_is_dropped_and_asked_anew():
    with lab(
        [{"id": "a", "tool": "look"}, {"id": "m", "tool": "mail", "requires_confirmation": True}], slots=1
    ) as it:
        it.returns("a")
        asked = it.question("m").digest
        it.engine.slots = 0
        it.approve("m")
        seq = it.run.seq
        it.ask("cancel")
    made = forked(it, next(b for b in boundaries(it) if b >= seq))
    branch = Branch(it, made)
    assert branch.states["m"] == "awaiting-confirmation"
    assert branch.question("m").digest != asked
    with refused("E-DIGEST"):
        branch.approve("m", digest=asked)
    branch.approve("m", BOB)
    branch.returns("m", 1)
    branch.check()


def test_a_request_that_was_open_is_asked_anew():
    with lab([{"id": "m", "tool": "mail", "requires_confirmation": True}]) as it:
        seq = it.run.seq
        asked = it.question("m").digest
        it.ask("cancel")
    made = forked(it, seq)
    assert made.asked == ("m",)
    branch = Branch(it, made)
    assert branch.question("m").digest != asked
    branch.reject("m")
    branch.check()


def test_keys_are_those_of_the_first_of_the_family():
    with lab(PLAN) as it:
        it.returns("a", {"n": 1})
        key = it.task("w").key
        it.fails("w", "bad_request")
        it.ask("cancel")
    branch = Branch(it, forked(it, at(it, "succeed", "a")))
    assert branch.task("w").state == "running"
    assert branch.task("w").key == key
    branch.returns("w", 1)
    branch.returns("z", 1)
    branch.check()


# ── effects behind the cut ────────────────────────────────────────────────────────────────────────────────────


def test_what_the_parent_did_behind_the_cut_is_done_in_the_fork_with_its_result():
    it = done({"ticket": "R-5"})
    made = forked(it, at(it, "succeed", "a"))
    (known,) = made.brought
    assert (known.run, known.effect.task, known.there) == ("r", "w", True)
    branch = Branch(it, made)
    assert branch.task("w").result == {"ticket": "R-5"}
    assert branch.run.keys[known.effect.key] == "yes"
    assert branch.moves("w") == ["start", "lose", "settle"]
    decided = [d for d in branch.decisions("w")]
    assert decided[-1] == ("reconciled_applied", "accept")
    branch.returns("z")
    branch.check()


def test_before_it_was_started_it_is_done_too():
    with lab(
        [
            {"id": "a", "tool": "look"},
            {"id": "b", "tool": "look"},
            {"id": "w", "tool": "pay", "depends_on": ["a", "b"]},
        ]
    ) as it:
        it.returns("a", 1)
        it.returns("b", 1)
        it.returns("w", 9)
    branch = Branch(it, forked(it, at(it, "succeed", "a")))
    assert branch.moves("w") == ["settle"]
    assert branch.task("w").result == 9
    branch.returns("b", 1)
    assert branch.run.state == "done"
    branch.check()


def test_what_is_not_known_must_be_found_out_first():
    with lab([{"id": "w", "tool": "mail"}]) as it:
        it.times_out("w")
        it.ask("cancel", "w")
        with refused("E-UNKNOWN"):
            forked(it, at(it, "start", "w"))
        it.reconcile("w", "absent")
    made = forked(it, at(it, "start", "w"))
    assert made.brought == ()
    branch = Branch(it, made)
    assert ("reconciled_absent", "retry") in branch.decisions("w")
    assert branch.moves("w") == ["start", "lose", "clear", "retry", "start"]
    branch.returns("w", 1)
    branch.check()


def test_a_repeatable_call_that_is_not_known_may_be_repeated_under_its_key():
    with lab([{"id": "p", "tool": "put"}]) as it:
        it.times_out("p")
        it.ask("cancel", "p")
        if not it.run.closed:
            it.until_due()
    assert it.run.state == "cancelled"
    made = forked(it, at(it, "start", "p"))
    branch = Branch(it, made)
    assert branch.task("p").state == "unknown-result"
    branch.until_due()
    (probe,) = branch.probes()
    assert probe.repeat
    assert probe.key == it.task("p").key
    branch.finds("p", "applied", 1)
    branch.check()


def test_an_effect_that_failed_its_test_is_there_and_is_put_to_a_person():
    plan = [
        {"id": "a", "tool": "look"},
        {"id": "w", "tool": "pay", "depends_on": ["a"], "done_when": "ok == true"},
    ]
    with lab(plan) as it:
        it.returns("a", 1)
        it.returns("w", {"ok": False})
        it.ask("cancel")
    branch = Branch(it, forked(it, 4 if 4 in boundaries(it) else 3))
    for name in list(branch.run.running):
        if name == "a":
            branch.returns("a", 1)
    if branch.task("a").state == "pending":
        branch.until_due()
        branch.returns("a", 1)
    assert branch.task("w").state == "failed"
    assert branch.calls() == [] or all(c.tool != "pay" for c in branch.calls())
    branch.answer("w", {"result": {"ok": True}, "evidence": "I looked"})
    branch.check()


def test_a_look_up_that_is_under_way_and_that_nobody_else_answers_said_nothing():
    with lab([{"id": "p", "tool": "put"}]) as it:
        it.times_out("p")
        it.until_due()
        seq = it.run.seq
        it.ask("cancel", "p")
        it.finds("p", "inconclusive")
        if not it.run.closed:
            it.ask("cancel", "p")
    assert it.run.state == "cancelled"
    branch = Branch(it, forked(it, seq))
    said = [e.data["by"] for e in branch.events("reconciled")]
    assert said == ["recovery"]
    branch.until_due()
    branch.finds("p", "applied", 1)
    branch.check()


def test_what_did_not_happen_behind_the_cut_is_nothing_to_tell_and_what_happened_stays_whatever_was_said_later():
    with lab(
        [
            {"id": "a", "tool": "look"},
            {"id": "b", "tool": "look"},
            {"id": "w", "tool": "pay", "depends_on": ["a", "b"]},
        ]
    ) as it:
        it.returns("a", 1)
        it.returns("b", 1)
        it.times_out("w")
        it.until_due()
        it.finds("w", "absent")
        it.until_due()
        it.ends("w", value("late"), attempt=1)
        it.fails("w", "bad_request")
    assert it.run.state == "done"
    made = forked(it, at(it, "succeed", "a"))
    branch = Branch(it, made)
    assert branch.task("w").result == "late"
    branch.returns("b", 1)
    branch.check()
    with lab(
        [
            {"id": "a", "tool": "look"},
            {"id": "b", "tool": "look"},
            {"id": "w", "tool": "pay", "depends_on": ["a", "b"]},
        ],
        run="s",
    ) as it:
        it.returns("a", 1)
        it.returns("b", 1)
        it.fails("w", "bad_request")
        it.ask("cancel")
    made = forked(it, at(it, "succeed", "a"))
    assert made.brought == ()


@pytest.mark.parametrize("value_", [{"ok": False}, "no object"])
def test_a_result_that_does_not_pass_its_test_settles_nothing_and_repeats_nothing(value_):
    plan = [
        {"id": "a", "tool": "look"},
        {"id": "b", "tool": "look"},
        {"id": "w", "tool": "pay", "depends_on": ["a", "b"], "done_when": "ok == true"},
    ]
    with lab(plan) as it:
        it.returns("a", 1)
        it.returns("b", 1)
        it.times_out("w")
        it.until_due()
        it.finds("w", "absent")
        it.until_due()
        it.fails("w", "bad_request")
        it.ends("w", value(value_), attempt=1)
        it.ask("cancel")
    made = forked(it, at(it, "succeed", "a"))
    assert [k.effect.attempt for k in made.brought] == [1]
    branch = Branch(it, made)
    branch.returns("b", 1)
    assert branch.task("w").state == "failed"
    assert all(call.tool != "pay" for call in branch.calls())
    with refused():
        branch.decide("w", "retry") if "retry" not in branch.question("w").answers else branch.answer(
            "w", {"decide": "oops"}
        )
    branch.answer("w", {"result": {"ok": True}, "evidence": "I looked"})
    branch.check()


def test_a_step_that_the_plan_at_the_cut_lacks_cannot_be_lost_sight_of():
    with lab([{"id": "a", "tool": "look"}], planner=False) as it:
        it.fails("a", "not_found")
        seq = it.run.seq
        plan = {"steps": [{"id": "b", "tool": "pay"}]}
        it.feed(Replan(document=plan, who=ANN))
        if "b" in it.run.questions:
            it.approve("b")
        it.returns("b", 1)
    assert it.run.state == "done"
    with refused("E-FORK"):
        forked(it, seq)


def test_what_another_fork_did_is_not_done_again_either():
    with lab(PLAN) as it:
        it.returns("a", {"n": 1})
        it.fails("w", "bad_request")
        it.ask("cancel")
    seq = at(it, "succeed", "a")
    first = Branch(it, forked(it, seq))
    with refused("E-FORK"):
        forked(it, seq)
    first.returns("w", "made once")
    first.returns("z", 1)
    first.check()
    second = Branch(it, forked(it, seq))
    assert second.run.id == "r.f2"
    assert second.task("w").result == "made once"
    second.returns("z", 1)
    second.check()


def test_what_a_run_did_that_is_gone_by_now_is_known_from_the_fork_that_was_told():
    it = done({"ticket": "R-5"})
    branch = Branch(it, forked(it, at(it, "succeed", "a")))
    branch.returns("z")
    branch.check()
    branch.engine.close()
    it.engine.close()
    lease = it.store.acquire("r", "gc", now_us=it.ports.now_us(), ttl_us=1_000_000)
    it.store.remove(lease, {"why": "old"})
    first = boundaries(branch)[0]
    made = forked(branch, first)
    (known,) = made.brought
    assert (known.run, known.effect.task) == ("r", "w")
    again = Branch(branch, made)
    assert again.task("w").result == {"ticket": "R-5"}
    again.until_due()
    again.returns("a", {"n": 2})
    again.returns("z")
    again.check()


def test_a_run_that_could_go_on_is_not_forked_unless_it_only_reads():
    with lab(PLAN) as it:
        it.returns("a", {"n": 1})
        with refused("E-FORK"):
            forked(it, 3)
        it.returns("w", 1)
        it.returns("z", 1)
    with lab(PLAN, rules="default") as it:
        it.returns("a", {"n": 1})
        it.fails("w", "bad_request")
        it.decide("w", "abort")
        assert it.run.state == "failed"
        with refused("E-FORK"):
            forked(it, 3)
    with lab([{"id": "a", "tool": "look"}], tools=[READ]) as it:
        branch = Branch(it, forked(it, it.run.seq))
        branch.until_due()
        branch.returns("a", 2)
        branch.check()
        it.returns("a", 1)


# ── where it cannot be cut ────────────────────────────────────────────────────────────────────────────────────


def test_places_from_which_nothing_can_go_on_are_refused_with_why():
    it = done()
    last = it.run.seq
    for seq, says in ((1, "inside the batch"), (last, "had ended there"), (0, "no plan there")):
        with pytest.raises(RefusedError, match=says):
            forked(it, seq)
    with pytest.raises(NotFoundError):
        forked(it, last + 1)
    inside = next(e.seq for e in it.events() if e.tx and e.seq < e.tx[0] + e.tx[1] - 1 and e.seq > 3)
    with pytest.raises(RefusedError, match="stands inside the batch of events"):
        forked(it, inside)
    with lab([{"id": "w", "tool": "pay"}]) as it:
        it.ask("cancel")
        seq = it.run.seq
        it.returns("w", 1)
    with pytest.raises(RefusedError, match="it was asked to cancel there"):
        forked(it, seq)


def test_a_plan_under_review_is_not_forked():
    assert "review" in {a.name for a in attrs.fields(Create)}
    made = Lab([{"id": "a", "tool": "look"}], checked=False, store=MemoryStore())
    run = made.run
    run.unreviewed = True
    assert forks._why_not(run) == "the plan as a whole was under review there"
    run.unreviewed = False
    made.returns("a")
    made.check()


# ── what an audit sees ────────────────────────────────────────────────────────────────────────────────────────


def rehashed(run, bodies):
    previous, out = genesis(run).hash, []
    for seq, body in enumerate(bodies, 1):
        previous = chain(previous, body)
        out.append((seq, body, previous))
    return out


@pytest.mark.parametrize(
    ("old", "new", "check"),
    [
        (b'"n":1', b'"n":2', "parents-events"),
        (b'"type":"run_forked"', b'"type":"note_added"', "forked-in-its-place"),
        (b'"by":"ann"', b'"by":"bob"', "forked-in-its-place"),
        (b'"idle_us":', b'"idle_us":9', "forked-in-its-place"),
    ],
)
def test_a_fork_with_another_past_or_without_its_mark_is_found(old, new, check):
    it = done()
    forked(it, at(it, "succeed", "a"))
    bodies = [r.body for r in it.store.read("r.f1")]
    changed = [b.replace(old, new) if b"run_forked" in b or old == b'"n":1' else b for b in bodies]
    records = [Record(*r) for r in rehashed("r.f1", changed)]
    found = audit("r.f1", records, it.store.blob)
    assert check in {f.check for f in found.findings}


def test_the_verifier_that_shares_no_code_agrees(tmp_path):
    it = done()
    branch = Branch(it, forked(it, at(it, "succeed", "a")))
    branch.returns("z")
    branch.check()
    again = Branch(
        branch,
        forked(
            branch,
            branch.run.seq - 4 if branch.run.seq - 4 in boundaries(branch) else at(branch, "succeed", "a"),
            new="c",
        ),
    )
    again.check()
    for run in ("r", "r.f1", "c"):
        with (tmp_path / f"{run}.jsonl").open("wb") as out:
            export_run(it.store, run, out)
    tool = Path(__file__).parents[3] / "tools" / "verify_log.py"
    words = [sys.executable, tool, *sorted(tmp_path.glob("*.jsonl"))]
    shown = subprocess.run(words, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stdout


def test_a_log_that_only_says_that_it_is_a_fork_is_found():
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.returns("a", 1)
    bodies = [r.body for r in it.records]
    event = Event(
        len(bodies) + 1,
        it.run.at + 1,
        "run_forked",
        {
            "run": "r",
            "from": {"run": "x", "seq": 1, "hash": ""},
            "idle_us": 1,
            "effects": [],
            "epoch": 1,
            "by": "ann",
        },
        None,
        None,
        None,
        {"kind": "human", "id": "ann"},
    )
    records = [Record(*r) for r in rehashed("r", [*bodies, to_body(event)])]
    found = audit("r", records, it.store.blob)
    assert "forked-in-its-place" in {f.check for f in found.findings}


def test_a_fork_is_a_function_of_its_parent():
    it = done()
    seq = at(it, "succeed", "a")
    log = Replay("r", it.records, it.store.blob)
    states = []
    for _ in range(2):
        run = forks.cut(log, seq)
        source = forks.origin(log, seq)
        first = from_body(forks.first_body(it.records[0].body, "b", source))
        state = forks.folded("b", [first, *log.events[1:seq]])
        known = forks.known_effects(log.events[:seq], [("r", log.events)], run)
        forks.begin(state, source, known, ANN, Env(now_us=it.ports.now_us()))
        states.append(state_digest(state))
    assert states[0] == states[1]
    assert source["seq"] == seq
