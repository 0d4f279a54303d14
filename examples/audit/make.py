"""Makes the logs of this folder anew: an honest one from ``scenario.json``, its head, and five that were tampered with.

``python examples/audit/make.py``
"""

from pathlib import Path
from typing import Any

import orjson

from fsm_agent.core import canon
from fsm_agent.core.audit import replay
from fsm_agent.core.events import Event, Record, genesis, seal, to_line
from fsm_agent.testing.scenario import load
from fsm_agent.testing.simulate import RUN_ID, simulate
from fsm_agent.testing.volatile import VolatileStore

HERE = Path(__file__).resolve().parent


def honest() -> tuple[list[Record], list[Event]]:
    """Return the log of the scenario, as it is stored and as it reads."""
    store = VolatileStore()
    simulate(load(HERE / "scenario.json"), store=store)
    records = list(store.read(RUN_ID))
    return records, list(replay.events(RUN_ID, records, store.blob))


def index(events: list[Event], type_: str, task: str | None = "pay", **data: Any) -> int:
    """Return where the first event of a type stands whose data has these members."""
    return next(
        i
        for i, e in enumerate(events)
        if e.type == type_ and e.task == task and all(e.data[k] == v for k, v in data.items())
    )


def changed(events: list[Event], place: int, **data: Any) -> list[Event]:
    """Return the events with members of one changed."""
    event = events[place]
    return [*events[:place], event._replace(data={**event.data, **data}), *events[place + 1 :]]


def edited_bytes(records: list[Record]) -> bytes:
    """Somebody opens the file in an editor and writes 720 for 120."""
    return lines(records).replace(b'"amount":120', b'"amount":720')


def another_amount(events: list[Event]) -> list[Event]:
    """Somebody who hashes anew pays 720, and has fitted every digest, the key and the approval to it."""
    start, args = index(events, "task_moved", trigger="start"), {"claim": "C-17", "amount": 720}
    digest = canon.value_digest("args", ["refund", args])
    key = canon.value_digest("key", [RUN_ID, "pay", digest])[:32]
    yes = canon.value_digest("approval", [RUN_ID, "pay", "refund", args, "write"])
    events = changed(events, start, args=args, args_digest=digest, key=key)
    events = changed(events, index(events, "approval_requested"), args=args, args_digest=yes)
    return changed(events, index(events, "approval_answered"), args_digest=yes)


def nobody_looked(events: list[Event]) -> list[Event]:
    """Somebody takes the look-up out, so that the refund seems to have answered after all."""
    gone = {index(events, "probe_sent"), index(events, "reconciled")}
    return numbered([e for i, e in enumerate(events) if i not in gone])


def another_decision(events: list[Event]) -> list[Event]:
    """Somebody writes that the rules had said: ask a person."""
    return changed(events, index(events, "decided", decide="reconcile"), decide="escalate", params={})


def cut_tail(events: list[Event]) -> list[Event]:
    """Somebody cuts off how it ended, at the border of a batch."""
    last = events[-1].tx or [events[-1].seq, 1]
    return [e for e in events if e.seq < last[0]]


def numbered(events: list[Event]) -> list[Event]:
    """Return the events with numbers, causes and batches that fit, as a careful forger would."""
    new = {e.seq: i for i, e in enumerate(events, 1)}
    batches: dict[int, list[int]] = {}
    for i, e in enumerate(events, 1):
        batches.setdefault((e.tx or [e.seq])[0], []).append(i)
    out = []
    for i, e in enumerate(events, 1):
        batch = batches[(e.tx or [e.seq])[0]]
        cause = new.get(e.cause) if e.cause is not None else None
        out.append(e._replace(seq=i, cause=cause, tx=[batch[0], len(batch)]))
    return out


def lines(records: list[Record]) -> bytes:
    """Return records as a log file."""
    return b"".join(to_line(record) + b"\n" for record in records)


def main() -> None:
    """Write every file."""
    records, events = honest()
    (HERE / "honest.jsonl").write_bytes(lines(records))
    head = {"run": RUN_ID, "seq": records[-1].seq, "hash": records[-1].hash.hex()}
    (HERE / "heads.jsonl").write_bytes(orjson.dumps(head, option=orjson.OPT_SORT_KEYS) + b"\n")
    (HERE / "1-edited-bytes.jsonl").write_bytes(edited_bytes(records))
    forged = (another_amount, nobody_looked, another_decision, cut_tail)
    for number, forge in enumerate(forged, 2):
        name = f"{number}-{forge.__name__.replace('_', '-')}.jsonl"
        (HERE / name).write_bytes(lines(seal(genesis(RUN_ID), forge(events))[0]))


if __name__ == "__main__":
    main()
