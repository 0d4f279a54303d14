"""Every store runs the shipped contract suite."""

from pathlib import Path

from fsm_agent.stores import open_store
from fsm_agent.stores.base import Store
from fsm_agent.testing.faulty_store import FaultyStore
from fsm_agent.testing.store_contract import StoreContract


class TestMemory(StoreContract):
    shared = False

    def open(self, place: Path) -> Store:
        return open_store(None)


class TestSqlite(StoreContract):
    def open(self, place: Path) -> Store:
        return open_store(place / "runs.db")


class TestJsonl(StoreContract):
    def open(self, place: Path) -> Store:
        return open_store(place / "runs.jsonl")


class TestFaulty(StoreContract):
    shared = False

    def open(self, place: Path) -> Store:
        return FaultyStore()
