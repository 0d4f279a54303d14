"""Numbers of a plan: whole counts, seconds, shares, money; each within its range, each with one normal form."""

import re
from decimal import Decimal
from typing import Any, Final

from fsm_agent.core.language.refs import Place
from fsm_agent.core.plans.faults import Faults, shown

MAX_SECONDS: Final = 315_360_000
"""Ten years."""
_DECIMAL: Final = re.compile(r"(\d{1,12})(?:\.(\d{1,6}))?")


def count(faults: Faults, value: Any, at: Place, least: int, default: int | None) -> int | None:
    """Read a whole number from *least*; None if it equals *default*, or with a fault."""
    if type(value) is not int:
        faults.bad_type(at, value, f"a whole number from {least}")
        return None
    if value < least:
        faults.add(at, "out-of-range", f"the number {value} was found", f"give a whole number from {least}")
        return None
    return None if value == default else value


def duration(
    faults: Faults, value: Any, at: Place, least: float, default: float | None
) -> int | float | None:
    """Read seconds from *least* to ten years; None if they equal *default*, or with a fault."""
    if type(value) not in (int, float):
        faults.bad_type(at, value, "a number of seconds")
        return None
    if not least <= value <= MAX_SECONDS:
        first = "more than 0" if least else "0"
        faults.add(at, "out-of-range", f"{shown(value)} was found", f"give {first} to {MAX_SECONDS} seconds")
        return None
    plain = seconds(round(value * 1e6))
    return None if plain == default else plain


def seconds(micros: int) -> int | float:
    """Return microseconds as seconds, an integer where they are whole."""
    return micros // 1_000_000 if micros % 1_000_000 == 0 else micros / 1e6


def share(faults: Faults, value: Any, at: Place) -> float | None:
    """Read a share between 0 and 1."""
    fix = "stop, collect, or a share between 0 and 1 such as 0.1"
    if type(value) not in (int, float):
        faults.bad_type(at, value, fix)
        return None
    if not 0 < value < 1:
        faults.add(at, "out-of-range", f"{shown(value)} was found", f"give {fix}")
        return None
    return float(value)


def money(faults: Faults, value: Any, at: Place, default: str | None) -> str | None:
    """Read an amount with at most six decimals, a number or a decimal string; return the shortest decimal string.

    None if it equals *default*, or with a fault.
    """
    if type(value) not in (int, float, str):
        faults.bad_type(at, value, 'an amount, such as "5.00"')
        return None
    text = value if type(value) is str else format(Decimal(repr(value)), "f")
    found = _DECIMAL.fullmatch(text.removesuffix(".0") if type(value) is float else text)
    if found is None:
        fix = (
            'give an amount from "0" with at most six decimals and twelve digits before them, such as "5.00"'
        )
        faults.add(at, "out-of-range", f"{shown(value)} was found", fix)
        return None
    whole, part = found[1].lstrip("0") or "0", (found[2] or "").rstrip("0")
    short = f"{whole}.{part}" if part else whole
    return None if short == default else short


def micros(amount: str) -> int:
    """Return a decimal string that :func:`money` gave in millionths."""
    whole, _, part = amount.partition(".")
    return int(whole) * 1_000_000 + int(part.ljust(6, "0"))
