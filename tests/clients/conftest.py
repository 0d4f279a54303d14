"""The fault server and the shipped table, for the tests of this folder."""

import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fsm_agent.core.classification.classify import Classified, Classifier, ErrorFacts, describe
from tests.clients.fault_server import FaultServer

TABLE = Path(__file__).parents[2] / "configs" / "classify.toml"


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier.from_data(tomllib.loads(TABLE.read_text(encoding="utf-8")))


@pytest.fixture
def server() -> Iterator[FaultServer]:
    running = FaultServer()
    yield running
    running.close()


class Failure:
    """One failed call: what was read from the exception, and what the table made of it."""

    def __init__(self, classifier: Classifier, call: Callable[[], object]) -> None:
        self.facts: ErrorFacts
        self.found: Classified
        try:
            call()
        except BaseException as error:
            self.facts = describe(error)
            self.found = classifier.classify(self.facts)
            error.__traceback__ = None  # its frames hold sockets
        else:
            raise AssertionError("the call succeeded")


@pytest.fixture
def failing(classifier: Classifier) -> Callable[[Callable[[], object]], Failure]:
    return lambda call: Failure(classifier, call)
