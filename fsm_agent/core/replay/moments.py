"""Times as text, without a clock: microseconds since the epoch and the calendar, both ways of the same number."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def moment(at_us: int) -> str:
    """Return a time as ISO 8601 in UTC to the microsecond, exactly; *at_us* counts from the epoch."""
    return (_EPOCH + timedelta(microseconds=at_us)).isoformat(timespec="microseconds").replace("+00:00", "Z")
