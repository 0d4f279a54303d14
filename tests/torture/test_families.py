"""More than ten thousand generated cases, the neighbours of the public bugs; and that the families can fail."""

import random

import attrs
import pytest

from tests.torture import families, rig
from tests.torture.families import FAMILIES, case, chunks
from tests.torture.rig import play

KINDS = 17


@pytest.mark.parametrize(
    ("kind", "numbers"), chunks(families.rounds()), ids=lambda v: v if isinstance(v, str) else str(v.start)
)
def test_every_generated_case_keeps_the_laws_of_its_kind(kind, numbers, full):
    for number in numbers:
        for beyond in range(10 if full else 1):
            case(kind, number + 100_000 * beyond)


def test_a_round_has_ten_thousand_cases_of_all_kinds():
    assert len(FAMILIES) == KINDS
    assert sum(size for _, size in FAMILIES.values()) >= 10_000
    assert sum(len(numbers) for _, numbers in chunks(1)) == sum(size for _, size in FAMILIES.values())


def test_equal_numbers_are_equal_cases_and_a_failure_names_its_own(monkeypatch):
    seen = []
    monkeypatch.setitem(FAMILIES, "log", (lambda rng: seen.append(rng.random()), 1))
    case("log", 3), case("log", 3), case("log", 4)
    assert seen[0] == seen[1] != seen[2]

    def broken(rng):
        raise ValueError("no")

    monkeypatch.setitem(FAMILIES, "log", (broken, 1))
    with pytest.raises(AssertionError, match="log, case 7: no"):
        case("log", 7)


def test_the_laws_see_a_write_that_was_made_twice_and_one_that_was_forgotten():
    result = play(
        {"plan": {"steps": [{"id": "a", "tool": "pay"}]}, "tools": {"pay": {"effect": "write"}}},
        random.Random(0),
    )
    twice = attrs.evolve(result, ledger=result.ledger * 2)
    with pytest.raises(AssertionError, match="took effect twice"):
        rig.once(twice)
    with pytest.raises(AssertionError, match="forgotten"):
        rig.remembered(attrs.evolve(result, tasks={"a": "cancelled"}))
