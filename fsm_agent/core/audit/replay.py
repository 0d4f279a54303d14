"""Reading a log back: verify the chain, put large values in, fold.

Pure: the same records give the same run, in any process.
"""

from collections.abc import Callable, Iterable, Iterator

from fsm_agent.core import canon
from fsm_agent.core.engine.fold import apply
from fsm_agent.core.engine.state import Run
from fsm_agent.core.errors import CorruptError, FsmAgentError
from fsm_agent.core.events import Chained, Event, Head, Record, chain, from_body, genesis, hydrate
from fsm_agent.core.plans.known import collecting_later

Blobs = Callable[[str], bytes]


def verified(run: str, records: Iterable[Record]) -> Iterator[Record]:
    """Return *records*, whose chain holds from seq 1 on, or as far as it does; whatever has hashed them is believed.

    Raises:
        CorruptError: While going through them, at the first record whose seq or hash does not follow; names the seq.
    """
    start = genesis(run)
    if type(records) is Chained and records.start == start:
        return iter(records)
    return _following(run, start, records)


def _following(run: str, start: Head, records: Iterable[Record]) -> Iterator[Record]:
    seq, previous = start
    for record in records:
        if record.seq != seq + 1:
            raise CorruptError(
                f"log of {run}: event {record.seq} follows event {seq}; every seq follows the one before",
                seq=seq + 1,
            )
        seq += 1
        if chain(previous, record.body) != record.hash:
            raise CorruptError(
                f"log of {run}: event {seq} does not have the hash of its contents; it or one before was changed",
                seq=seq,
            )
        previous = record.hash
        yield record


def names_values(body: bytes) -> bool:
    """Whether the event in *body*, in its canonical form, may name large values that stand elsewhere; most name none."""
    return body.rfind(b'"value_digest"') >= 0 or (canon.DOLLAR in body and b'"$blob"' in body)


def events(run: str, records: Iterable[Record], blob: Blobs) -> Iterator[Event]:
    """Yield the events of *records*, verified, large values put back.

    Args:
        run: The run's id.
        records: From seq 1 on.
        blob: Returns a large value's canonical bytes by digest.
    """
    for record in verified(run, records):
        body = record.body
        event = from_body(body)
        if event.seq != record.seq:
            raise CorruptError(
                f"log of {run}: the body of event {record.seq} says seq {event.seq}", seq=record.seq
            )
        yield hydrate(event, blob) if names_values(body) else event


def one(record: Record, blob: Blobs) -> Event:
    """Return one record's event, large values put back; the chain is not verified."""
    return hydrate(from_body(record.body), blob)


def take(state: Run, event: Event) -> None:
    """Apply an event that was read, whoever wrote it.

    Raises:
        CorruptError: It does not fit the state before it.
    """
    try:
        apply(state, event)
    except Exception as error:
        raise unfit(state.id, event, error) from error


def unfit(run: str, event: Event, error: Exception) -> CorruptError:
    """Return what it means that *event* could not be applied: a chain that holds says nothing about who wrote it."""
    words = str(error) if isinstance(error, FsmAgentError) else f"{type(error).__name__}: {error}"
    return CorruptError(
        f"log of {run}: event {event.seq} ({event.type}) cannot be applied to the state before it ({words}); "
        "audit it, restore a backup",
        seq=event.seq,
    )


def replay(run: str, records: Iterable[Record], blob: Blobs, *, until: int | None = None) -> Run:
    """Return the state of *run* after its records, or after seq *until*.

    Raises:
        CorruptError: The log is not what was written.
    """
    state = Run(run)
    with collecting_later():
        for event in events(run, records, blob):
            if until is not None and event.seq > until:
                break
            try:
                apply(state, event)
            except Exception as error:
                raise unfit(run, event, error) from error
    return state
