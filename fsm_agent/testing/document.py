"""Reading a JSON document by hand: every part knows its place, and says so when it does not fit.

A :class:`Node` is a value with its JSON pointer. Each reader returns a plain value of the asked type or raises
one :class:`ScenarioError` that names the file, the pointer, what was found and what is allowed.
"""

from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, NoReturn

import attrs

from fsm_agent.core.errors import FsmAgentError

LONGEST_S = 10**9
"""Longest time a document may name, in seconds (about 31 years)."""

_NAMES = {
    type(None): "null",
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "a list",
    dict: "an object",
}


class ScenarioError(FsmAgentError):
    """A scenario, or a script of a person's reactions, cannot be read.

    Attributes:
        file: The name of the document, as the caller gave it.
        pointer: JSON pointer of the part that does not fit; empty for the whole document.
    """

    code = "E-SCENARIO"
    exit_code = 3

    def __init__(self, message: str, *, file: str, pointer: str = "") -> None:
        """Keep the place."""
        super().__init__(message)
        self.file = file
        self.pointer = pointer


@attrs.frozen
class Node:
    """A value inside a document.

    Attributes:
        value: The JSON value.
        file: The name of the document.
        pointer: Where the value stands in it (RFC 6901).
    """

    value: Any
    file: str
    pointer: str = ""

    def fail(self, found: str, fix: str) -> NoReturn:
        """Raise the error that says what was *found* here and what is allowed (*fix*)."""
        message = f"{self.file} {self.pointer or '/'}: {found}; {fix}"
        raise ScenarioError(message, file=self.file, pointer=self.pointer)

    def wrong_type(self, wanted: str) -> NoReturn:
        """Raise the error for a value of another type than *wanted*."""
        self.fail(f"{_NAMES[type(self.value)]} was found", f"write {wanted}")

    def child(self, key: str | int) -> "Node":
        """Return the member *key* of this object, or the item of this list; it must exist."""
        step = str(key).replace("~", "~0").replace("/", "~1")
        return Node(self.value[key], self.file, f"{self.pointer}/{step}")

    def fields(self, *allowed: str, required: tuple[str, ...] = ()) -> "dict[str, Node]":
        """Return the members of an object that has no keys but *allowed*, and all of *required*."""
        members = self.members("an object")
        for key, node in members.items():
            if key not in allowed:
                node.fail(f"the key {key!r} is unknown", f"allowed here: {', '.join(allowed)}")
        for key in required:
            if key not in members:
                self.fail(f"the key {key!r} is missing", f"needed here: {', '.join(required)}")
        return members

    def members(self, wanted: str) -> "dict[str, Node]":
        """Return the members of an object, whatever their keys."""
        if not isinstance(self.value, dict):
            self.wrong_type(wanted)
        return {key: self.child(key) for key in self.value}

    def items(self, wanted: str) -> "Iterator[Node]":
        """Yield the items of a list."""
        if not isinstance(self.value, list):
            self.wrong_type(wanted)
        return (self.child(index) for index in range(len(self.value)))

    def text(self) -> str:
        """Return a text that is not empty."""
        if not isinstance(self.value, str):
            self.wrong_type("a text")
        if not self.value:
            self.fail("the text is empty", "write at least one character")
        return self.value

    def words(self) -> str:
        """Return a text that may be empty."""
        return self.text() if self.value != "" else ""

    def flag(self) -> bool:
        """Return true or false."""
        if not isinstance(self.value, bool):
            self.wrong_type("true or false")
        return self.value

    def choice(self, *allowed: str) -> str:
        """Return one of *allowed*."""
        if self.value not in allowed or not isinstance(self.value, str):
            self.fail(f"{self.value!r} was found", f"allowed: {', '.join(allowed)}")
        return self.value

    def count(self, least: int = 0) -> int:
        """Return a whole number that is not smaller than *least*."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.wrong_type("a whole number")
        if self.value < least:
            self.fail(f"{self.value} was found", f"write {least} or more")
        return self.value

    def seconds(self) -> int:
        """Return a time given in seconds, as whole microseconds."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            self.wrong_type("a number of seconds")
        if not 0 <= self.value <= LONGEST_S:
            self.fail(f"{self.value} seconds were found", f"allowed: 0 to {LONGEST_S}")
        return round(self.value * 1_000_000)

    def micros(self) -> int:
        """Return an amount of money (a number, or a text such as ``"0.25"``) in millionths of its unit."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float | str):
            self.wrong_type('a number or a text such as "0.25"')
        try:
            amount = Decimal(str(self.value)) * 1_000_000
        except InvalidOperation:
            amount = Decimal("NaN")
        if not amount.is_finite() or not 0 <= amount < 2**63:
            self.fail(f"{self.value!r} is no amount of money", 'write a number or a text such as "0.25"')
        return round(amount)
