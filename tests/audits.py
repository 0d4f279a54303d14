"""The audit of what ran in memory, for tests: what is on the disk is audited by ``conftest.py``."""

from fsm_agent import audit


def clean(result):
    """Return the *result* of a simulation, whose log must have passed its audit, whatever else it shows."""
    assert [failure for failure in result.failures if failure.startswith("audit")] == []
    return result


def clean_log(store, run):
    """Audit a run of an open *store*; its log must be one that nobody could object to."""
    found = audit(store, run=run)
    assert found.findings == (), found.findings
