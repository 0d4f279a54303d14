"""The decider is the engine: whatever happens, both decide the same, by the same row, seeing the same facts."""

from hypothesis import assume, event, example, given, settings
from hypothesis import strategies as st

from fsm_agent.core.classification.fingerprint import fingerprint
from fsm_agent.core.engine.decider import outcome_of
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.core.machine import TaskState
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.runtime.configs import load_rules
from fsm_agent.runtime.deciding.decider import Decider
from fsm_agent.runtime.proof.logs import audit
from fsm_agent.stores.memory import MemoryStore
from tests.core.kit import Lab, Ports, tool

NAMES = ("default", "conservative", "exploratory", "seed_replan_decider")
TABLES = {name: load_rules(name) for name in NAMES}
ENDS = (
    "success transient_error rate_limited bad_request auth_denied not_found conflict quota_exhausted "
    "unclassified_error validation_failed unverified interrupted repeated_error"
).split()
WORDS = ("no row 17", "no row 18", "quite another thing", "")
VERDICTS = ("reconciled_applied", "reconciled_absent", "reconcile_inconclusive")


class Pair:
    """An engine with one step, and a decider with one task, told the same."""

    def __init__(self, effect: Effect, rules: str, params: dict[str, int]) -> None:
        spec = tool(effect.value, effect.value, reconcile=effect is not Effect.READ)
        self.spec = spec
        self.engine = Lab(
            [{"id": "t1", "tool": spec.name}], tools=(spec,), rules=rules, params=params, checked=False
        )
        self.store = MemoryStore()
        self.decider = Decider(
            self.engine.create.rules,
            tasks={"t1": spec.name},
            store=self.store,
            run_id="d",
            ports=self.engine.ports,
            planner=False,
        )
        self.seen = 0

    def close(self) -> None:
        """Both logs pass the audit."""
        self.engine.check()
        found = audit(self.store, run="d").findings
        assert found == (), [str(f) for f in found]

    @property
    def task(self):
        """The engine's task."""
        return self.engine.task("t1")

    def same(self, mine) -> None:
        """The engine has made one more decision, and it is the decider's."""
        made = self.engine.events("decided")
        assert len(made) == self.seen + 1, [e.data for e in made[self.seen :]]
        self.seen += 1
        theirs = made[-1].data
        (own,) = [e for e in self.log() if e.seq == mine.seq]
        for what in ("state", "signal", "rule", "decide", "facts"):
            assert own.data[what] == theirs[what], what

    def log(self):
        """The decider's events."""
        from fsm_agent.core.audit import replay

        return list(replay.events("d", self.store.read("d"), self.store.blob))

    def to_running(self) -> None:
        """Bring the engine's call out, through the door; the decider asks the door too."""
        for _ in range(60):
            if self.task.state is TaskState.RUNNING:
                assert self.decider.before_call() is None
                return
            if self.engine.run.state == "failed":
                self.engine.ports.clock.advance(60)  # a person takes some time
                self.engine.resume()
                self.decider.resume()
            elif self.task.state is TaskState.FAILED:
                self.engine.ports.clock.advance(60)
                self.engine.retry("t1")
            elif self.task.state is TaskState.AWAITING:
                self.engine.approve("t1")
            else:
                self.engine.until_due()
            if len(self.engine.events("decided")) > self.seen:
                self.same(self.decider.before_call())
        raise AssertionError("the step never starts")

    def tell(self, name: str, words: str, applied: Applied | None) -> None:
        """Let a call end, for both."""
        signal = Signal(name)
        mark = fingerprint(tool=self.spec.name, signal=name, code=None, class_name=None, message=words)
        outcome = outcome_of(signal, self.spec.effect, applied, {"message": words, "fingerprint": mark})
        self.engine.ends("t1", outcome)
        self.same(self.decider.observe(name, error=words, applied=None if applied is None else applied.value))

    def look_up(self, name: str) -> bool:
        """Let the look-up find something, for both; False where nobody can say this now."""
        verdict = name.removeprefix("reconciled_").removeprefix("reconcile_")
        if self.task.probe_at:
            self.engine.until_due()
            self.engine.finds("t1", verdict)
        elif verdict == "inconclusive":
            return False
        else:
            self.engine.reconcile("t1", verdict)
        self.same(self.decider.observe(name))
        return True


steps = st.lists(
    st.tuples(
        st.sampled_from(ENDS),
        st.sampled_from(WORDS),
        st.sampled_from([None, *Applied]),
        st.sampled_from(VERDICTS),
    ),
    min_size=1,
    max_size=14,
)
params = st.fixed_dictionaries(
    {},
    optional={
        "retries": st.integers(0, 6),
        "breaker_failures": st.integers(1, 6),
        "stall_threshold": st.integers(2, 4),
    },
)


@settings(max_examples=120, deadline=None)
@given(st.sampled_from(Effect), st.sampled_from(NAMES), params, steps)
def test_the_decider_decides_as_the_engine_does_whatever_calls_and_look_ups_come_to(
    effect, rules, params, steps
):
    pair = Pair(effect, rules, params)
    for name, words, applied, verdict in steps:
        if pair.task.state is TaskState.DONE or (pair.engine.run.state == "done"):
            break
        if pair.task.state is TaskState.UNKNOWN:
            if not pair.look_up(verdict):
                break
            continue
        if (
            pair.task.state is TaskState.FAILED
            and pair.task.effect in ("write", "irreversible")
            and pair.task.applied != "no"
        ):
            event("a write that took effect and failed: it is never repeated")
            break
        pair.to_running()
        pair.tell(name, words, applied)
    assume(pair.seen > 0)
    event(f"{pair.seen} decisions")
    pair.close()


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(Effect), st.sampled_from(NAMES), steps)
def test_a_decider_that_goes_through_json_between_any_two_steps_decides_no_differently(effect, rules, steps):
    """The state is the log: nothing is lost, and nothing is granted again."""
    store = MemoryStore()
    one = Decider(TABLES[rules], tasks={"t1": effect.value}, store=store, run_id="d", ports=Ports())
    other = Decider.from_json(one.to_json(), ports=Ports())
    for name, words, applied, verdict in steps:
        state = one.run.tasks["t1"].state
        said = verdict if state is TaskState.UNKNOWN else name
        outcomes = []
        for d in (one, other):
            try:
                outcomes.append(
                    d.observe(said, error=words, applied=None if applied is None else applied.value)
                )
            except FsmAgentError as error:
                outcomes.append((type(error), str(error)))
        assert outcomes[0] == outcomes[1]
        other = Decider.from_json(other.to_json(), ports=Ports())
        if one.closed:
            one.resume()
            other.resume()
    assert one.to_json() == other.to_json()
    assert audit(store, run="d").findings == ()


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b", "c"]),
            st.sampled_from(
                [
                    *ENDS,
                    *VERDICTS,
                    "outcome_unknown",
                    "progress_stall",
                    "rejected",
                    "approval_expired",
                    "deadlock",
                    "plan_rejected",
                    "constraint_violated",
                    "budget_low",
                ]
            ),
            st.sampled_from([None, "x", "y"]),
        ),
        max_size=25,
    ),
    st.sampled_from(NAMES),
)
@example([*[("a", "transient_error", None)] * 3, ("a", "success", None)], "conservative")
def test_whatever_is_observed_the_log_audits_clean_and_a_refusal_changes_nothing(seen, rules):
    store = MemoryStore()
    d = Decider(
        TABLES[rules],
        tasks={"a": "read", "b": "write", "c": "idempotent"},
        tools={"x": "read", "y": "write"},
        store=store,
        run_id="d",
        ports=Ports(),
    )
    for task, signal, name in seen:
        before = store.head("d")
        try:
            d.observe(signal, task=task, tool=name, error="no row")
        except FsmAgentError:
            assert store.head("d") == before
        if d.closed:
            d.resume()
    found = audit(store, run="d").findings
    assert found == (), [str(f) for f in found]
