"""What an older version wrote is read as this version writes it, one version at a time; the stored bytes stay as they are.

The hash of an event covers its bytes, so nothing old is ever rewritten. A type of events whose data changes its shape gets
a new number and a row here that says what the old shape means; where all events are read, old ones are brought up. Fields
that are only added need no row: whoever reads them says what their absence means.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

import attrs

from fsm_agent.core.errors import CorruptError

Upcaster = Callable[[Mapping[str, Any]], dict[str, Any]]
"""Takes the data of one version and returns that of the next; changes nothing that it is given."""


@attrs.frozen(init=False)
class Upcasters:
    """The rows: (type, version) → what turns its data into that of the next version.

    Attributes:
        rows: All of them, without gaps from version 1 on.
        versions: The version in which events of a type are written now, of those that have more than one.
    """

    rows: Mapping[tuple[str, int], Upcaster]
    versions: Mapping[str, int]

    def __init__(self, rows: Mapping[tuple[str, int], Upcaster]) -> None:
        """Take the *rows*.

        Raises:
            ValueError: A version lies between two that have a row, and has none.
        """
        latest: dict[str, int] = {}
        for type_, version in sorted(rows):
            if version != latest.get(type_, 1):
                raise ValueError(
                    f"upcasters of {type_}: version {latest.get(type_, 1)} has no row; every one has"
                )
            latest[type_] = version + 1
        self.__attrs_init__(MappingProxyType(dict(rows)), latest)

    def version_of(self, type_: str) -> int:
        """Return the version in which events of *type_* are written now."""
        return self.versions.get(type_, 1)

    def up(self, type_: str, version: int, data: dict[str, Any]) -> dict[str, Any]:
        """Return *data*, written as *version* of *type_*, in the present version.

        Raises:
            CorruptError: There is no such version: a newer program wrote it.
        """
        now = self.version_of(type_)
        if type(version) is not int or not 1 <= version <= now:
            reads = "version 1" if now == 1 else f"versions 1 to {now}"
            raise CorruptError(f"event: version {version!r} of {type_} was found; this program reads {reads}")
        for step in range(version, now):
            data = self.rows[type_, step](data)
        return data


UPCASTERS: Final = Upcasters({})
"""Those of this version: none, for no type has changed its shape yet."""
