"""The telling: one structlog line per event, made from the event after it is durable.

A logger of our own: no global configuration is read or changed. It may lose lines; the log is the truth, so whatever
fails here never reaches the run.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from fsm_agent.core.events import Event


def line_of(event: Event, run: str) -> dict[str, Any]:
    """Return what a line says of *event*: short facts, no payloads."""
    data = event.data
    line: dict[str, Any] = {"run": run, "seq": event.seq, "at": event.at}
    if event.task is not None:
        line["task"] = event.task
    if event.type in ("task_moved", "run_moved"):
        line.update(trigger=data["trigger"], source=data["source"], dest=data["dest"])
        if data.get("attempt"):
            line["attempt"] = data["attempt"]
        if data.get("reason"):
            line["reason"] = data["reason"]
    elif event.type == "decided":
        line.update(signal=data["signal"], decide=data["decide"], rule=data["rule"], reason=data["reason"])
    else:
        for name in (
            "kind",
            "verdict",
            "by",
            "wish",
            "say",
            "message",
            "text",
            "plan_version",
            "epoch",
            "advanced",
        ):
            if name in data:
                line[name] = data[name]
    return line


def teller(
    stream: TextIO, run: str, *, json: bool = False, colors: bool = False
) -> Callable[[Sequence[Event]], None]:
    """Return a listener that writes a line per event to *stream*.

    Args:
        stream: Usually stderr.
        run: The run's id.
        json: One JSON object per line; otherwise readable lines.
        colors: Colour the readable lines.
    """
    import structlog

    processors: list[Any] = [_time]
    if json:
        processors.append(structlog.processors.JSONRenderer(ensure_ascii=False))
    else:
        processors += [
            _readable,
            structlog.dev.ConsoleRenderer(colors=colors, pad_event_to=18, sort_keys=False),
        ]
    logger = structlog.wrap_logger(
        structlog.WriteLogger(stream),
        processors=processors,
        wrapper_class=structlog.BoundLogger,
        context_class=dict,
    )

    def tell(events: Sequence[Event]) -> None:
        for event in events:
            try:
                logger.info(event.type, **line_of(event, run))
            except Exception:  # noqa: BLE001, S112 - a broken pipe or a bad terminal never fails the run
                continue

    return tell


def _time(_: Any, __: str, line: Any) -> Any:
    moment = datetime.fromtimestamp(line["at"] / 1_000_000, UTC)
    line["at"] = moment.isoformat(timespec="microseconds").replace("+00:00", "Z")
    return line


def _readable(_: Any, __: str, line: Any) -> Any:
    line["timestamp"] = line.pop("at")[11:23]
    line.pop("run", None)
    return line
