"""Every run that any test leaves on the disk is audited when the test is over, by whatever process it was made.

Runs in memory are audited by what makes them: ``tests/runtime/runs.py``, ``tests/core/kit.py`` and the simulation.
A test that spoils logs on purpose says so: ``@pytest.mark.spoils_logs``. The stores of ``tests/contract`` hold
events that were made up, and are left alone.
"""

import os
from pathlib import Path

import hypothesis
import pytest

from fsm_agent import audit
from fsm_agent.core.errors import FsmAgentError
from fsm_agent.runtime.proof.logs import is_store
from fsm_agent.stores import open_store

# Nothing may depend on how fast the machine is; in CI the same examples are tried each time.
hypothesis.settings.register_profile(
    "steady",
    deadline=None,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
    derandomize="CI" in os.environ,
)
hypothesis.settings.load_profile("steady")

HERE = Path(__file__).parent
MADE_UP = HERE / "contract"


def pytest_addoption(parser):
    parser.addoption(
        "--full", action="store_true", help="the larger sizes of the durability tests; takes an hour or so"
    )


@pytest.fixture
def full(request):
    """Whether the larger sizes were asked for."""
    return request.config.getoption("--full")


def pytest_configure(config):
    config.addinivalue_line(
        "markers", "spoils_logs: the test changes logs by hand; they are not audited after it"
    )


def stores(folder):
    """Yield every store below *folder*, and *folder* itself if it is one."""
    if not folder.is_dir():
        return
    places = [folder, *folder.rglob("*")]
    yield from (place for place in places if (place.is_dir() or place.is_file()) and is_store(place))


def violations(place):
    """Yield what an audit finds in the runs of a store; a store of another program is none of ours."""
    try:
        store = open_store(place, read_only=True, create=False)
    except FsmAgentError:
        return
    try:
        runs = [info.run for info in store.runs()]
    finally:
        store.close()
    for run in runs:
        yield from (
            f"{place.name} {run}: event {f.seq}, {f.check}: {f.message}"
            for f in audit(place, run=run).findings
        )


@pytest.fixture(autouse=True)
def audited(request):
    """Audit what the test has left in its own folder."""
    spoilt = request.node.get_closest_marker("spoils_logs") is not None
    if spoilt or MADE_UP in request.path.parents or "tmp_path" not in request.fixturenames:
        yield
        return
    folder = request.getfixturevalue("tmp_path")
    yield
    assert [found for place in stores(folder) for found in violations(place)] == []
