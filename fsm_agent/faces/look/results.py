"""What commands about runs and logs return: values, which the renderers show in one way or the other."""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.events import Event, Head, Record
from fsm_agent.runtime.driving.status import Status
from fsm_agent.runtime.proof.retention import Collected
from fsm_agent.stores.base import RunInfo


@attrs.frozen(kw_only=True)
class Finished:
    """Where a driving command left a run.

    Attributes:
        status: The run as it is now.
        report: What was done, what was not and why, what remains for a person.
    """

    status: Status
    report: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Said:
    """A word that was taken.

    Attributes:
        words: What was done, for people.
        status: The run as it is now.
        driven: Whether somebody drives it, so that it goes on by itself.
    """

    words: str
    status: Status
    driven: bool


@attrs.frozen(kw_only=True)
class Line:
    """An event of a run.

    Attributes:
        run: The run.
        record: As it is stored.
        event: As it is read, large values put back.
        blobs: Large values that it names for the first time: digest and canonical bytes.
    """

    run: str
    record: Record
    event: Event
    blobs: tuple[tuple[str, bytes], ...]


@attrs.frozen(kw_only=True)
class Runs:
    """The runs of a store at one moment.

    Attributes:
        store: Where it is.
        infos: Its runs, oldest first.
        driven: Those that a living owner holds.
        now_us: The moment.
        collected: What became of the old ones, if old ones were to be removed.
    """

    store: str
    infos: tuple[RunInfo, ...]
    driven: frozenset[str]
    now_us: int
    collected: tuple[Collected, ...] | None = None


@attrs.frozen(kw_only=True)
class Exported:
    """A log that was written; ``file`` is None for standard output."""

    run: str
    file: str | None
    head: Head


@attrs.frozen(kw_only=True)
class Audits:
    """Audits of one log or more, with the names under which they were found.

    Attributes:
        audits: (name, audit), in order.
        many: Whether several were asked for (a directory), even if there is only one.
    """

    audits: tuple[tuple[str, Audit], ...]
    many: bool

    @property
    def verdict(self) -> str:
        """The worst verdict: ``violations``, else ``open``, else ``clean``."""
        verdicts = {audit.verdict for _, audit in self.audits}
        return next((v for v in ("violations", "open") if v in verdicts), "clean")
