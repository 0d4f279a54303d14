"""A probe that is lost with its process counts: what kills its process each time comes to an end."""

import pytest

from tests.core.kit import BLIND, SAME, TOOLS, WRITE, lab

PLANS = {"put": SAME, "pay": WRITE}


@pytest.mark.parametrize("tool", PLANS)
def test_a_lost_probe_spends_a_reconcile_like_one_that_found_nothing(tool):
    with lab([{"id": "a", "tool": tool}]) as given:
        given.tick(10.1)
        given.until_due()
        before = given.task("a").trouble.spent["reconciles_left"]
        given.crash()
        assert given.decisions("a")[-1] == ("reconcile_inconclusive", "reconcile")
        assert given.task("a").trouble.spent["reconciles_left"] == before + 1
        assert not given.task("a").probing
        (found,) = given.events("reconciled")
        assert (found.data["by"], found.data["verdict"]) == ("recovery", "inconclusive")
        assert found.cause == given.events("owner_changed")[-1].seq
        given.until_due()
        given.finds("a", "applied", {"n": 1})
        assert given.states == {"a": "done"}


@pytest.mark.parametrize("tool", PLANS)
def test_a_probe_that_kills_its_process_each_time_ends_with_a_person(tool):
    with lab([{"id": "a", "tool": tool}], params={"reconciles": 3}) as given:
        given.tick(10.1)
        crashes = 0
        while "a" not in given.run.questions:
            given.until_due()
            given.crash()
            crashes += 1
            assert crashes <= 4, "the probes never end"
        assert len(given.probes()) == 0  # those of dead owners are gone
        assert len(given.events("probe_sent")) == 3
        assert given.states == {"a": "unknown-result"}
        assert given.run.state == "unknown-result"


def test_a_crash_while_no_probe_is_out_spends_nothing():
    with lab([{"id": "a", "tool": "pay"}, {"id": "b", "tool": BLIND.name}]) as given:
        given.tick(10.1)
        spent = {name: dict(given.task(name).trouble.spent) for name in ("a", "b")}
        for _ in range(3):
            given.crash()
        assert {name: dict(given.task(name).trouble.spent) for name in ("a", "b")} == spent
        assert given.events("reconciled") == []


def test_the_answer_of_a_lost_probe_is_refused_when_it_comes_after_all():
    with lab([{"id": "a", "tool": "pay"}]) as given:
        given.tick(10.1)
        given.until_due()
        given.crash()
        with pytest.raises(Exception, match="no probe of attempt 1 is out"):
            given.finds("a", "absent")
        assert given.states == {"a": "unknown-result"}


def test_what_is_decided_tentatively_leaves_even_the_order_of_running_calls_as_it_was():
    with lab([{"id": name, "tool": "look"} for name in "abcd"]) as given:
        given.returns("b")  # the kit decides it tentatively first, and compares
        given.tick(1)
        assert list(given.run.running) == ["a", "c", "d"]


def test_an_owner_without_the_tool_does_not_make_the_next_one_look_too_early():
    with lab([{"id": "a", "tool": "put"}]) as given:
        given.crash(tools=tuple(t for t in TOOLS if t is not SAME))
        given.crash(tools=TOOLS)
        task = given.task("a")
        while not given.events("probe_sent"):
            given.until_due()
        assert given.events("probe_sent")[0].at >= task.deadline_at + SAME.settle_us
