"""Laws of forks, held against every course that the scenarios take: cut anywhere, the family does nothing twice."""

import pytest

from fsm_agent.core.audit.audit import audit
from fsm_agent.core.audit.replay import replay
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.inputs import Person
from fsm_agent.core.replay.ledger import Ledger
from fsm_agent.core.replay.player import Replay
from fsm_agent.runtime.driving.forking import fork_run
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.stores.transfer import import_run
from fsm_agent.testing.clock import FakeClock
from tests.core.replay.logs import GROWING, SEEDS, scenario, simulated
from tests.faces.report.test_report import exported

RAN = [path for path in (*SEEDS, *GROWING) if not scenario(path).expect.refused]
WHO = Person(by="ann")


class Ports:
    """A clock that stands far behind every log, and no chance."""

    def __init__(self):
        self.clock = FakeClock()
        self.clock.advance(1_000_000)

    def now_us(self):
        return self.clock.now_us()

    def jitter(self):
        return 0.5


def tried(store, seq):
    """A fork, or why there is none."""
    try:
        return fork_run(store, "simulation", seq, who=WHO, ports=Ports())
    except RefusedError as error:
        return error


def places(log):
    return [e.seq for e in log.events if e.seq == (e.tx or [e.seq, 1])[0] + (e.tx or [e.seq, 1])[1] - 1]


@pytest.mark.parametrize("path", RAN[::2], ids=lambda path: path.stem[4:40])
def test_a_fork_is_refused_with_a_reason_or_audits_clean_and_knows_every_effect_of_its_parent(path):
    result, store = simulated(path)
    raw = exported(store, "simulation")
    log = Replay("simulation", store.read("simulation"), store.blob)
    ledger = Ledger()
    for event in log.events:
        ledger.add(event)
    there = {
        e.key for e in ledger.effects.values() if e.applied == "yes" and e.effect in ("write", "irreversible")
    }
    for seq in places(log)[::2]:
        own = MemoryStore()
        import_run(own, raw, owner="law", now_us=1)
        made = tried(own, seq)
        if isinstance(made, RefusedError):
            assert made.code in ("E-FORK", "E-UNKNOWN")
            assert ";" in str(made)
            assert [info.run for info in own.runs()] == ["simulation"]
            continue
        found = audit(made.run, own.read(made.run), own.blob, head=made.head)
        assert found.findings == (), (path.name, seq)
        state = replay(made.run, own.read(made.run), own.blob)
        assert there <= {key for key, applied in state.keys.items() if applied == "yes"}
        assert not state.running
        assert all(task.armed is None for task in state.tasks.values())
        assert set(result.tasks) >= set(made.done)
