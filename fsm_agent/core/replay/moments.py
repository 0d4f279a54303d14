"""Times as text, without a clock: microseconds since the epoch and the calendar, both ways of the same number."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND: Final = timedelta(microseconds=1)
_FIRST: Final = (datetime.min.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND
_LAST: Final = (datetime.max.replace(tzinfo=UTC) - _EPOCH) // _MICROSECOND


def moment(at_us: int) -> str:
    """Return a time as ISO 8601 in UTC to the microsecond, exactly; *at_us* counts from the epoch.

    What no calendar has, as only a forged log says, is its first or last moment.
    """
    at_us = min(max(at_us, _FIRST), _LAST)
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
