"""Logs for tests of looking back: those that the scenarios leave, simulated once and audited."""

import functools
from pathlib import Path

from fsm_agent.core.audit import replay
from fsm_agent.stores.memory import MemoryStore
from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import simulate
from tests.audits import clean

SCENARIOS = Path(__file__).parents[2] / "scenarios"
SEEDS = sorted((SCENARIOS / "seeds").glob("*.json"))
GROWING = sorted((SCENARIOS / "growing").glob("*.json"))
"""Scenarios of batches and nested plans."""


@functools.cache
def scenario(path):
    """Return a scenario by its file."""
    return load(path)


@functools.cache
def simulated(path, rules=None):
    """Return the result of a scenario and the store with its log, ``simulation``."""
    store = MemoryStore()
    return clean(simulate(scenario(path), store=store, rules=rules)), store


@functools.cache
def log_of(path, rules=None):
    """Return the events of a scenario's run."""
    _, store = simulated(path, rules)
    return tuple(replay.events("simulation", store.read("simulation"), store.blob))


def named(words):
    """Return the file of the scenario whose name contains *words*."""
    (found,) = [path for path in SEEDS if words in path.name]
    return found
