"""What an audit passes can be told: whatever stands in a member of an event, no command refuses a log that is clean.

Logs of scenarios that have, together, every member of every type are forged member by member and hashed anew. Of what the
audit does not find, as much as fits is put into one log, and every command that reads tells it.
"""

import functools
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from fsm_agent.core.events import TYPES
from fsm_agent.faces.cli import build
from tests.audit.corpus import RUN_ID, judged, logs, sealed

pytestmark = pytest.mark.spoils_logs

GONE = object()
WRONG = (None, True, 7, 1.5, "x", [7], [["x"]], {"a": 1}, GONE)
TELL = (
    ("status", RUN_ID),
    ("why", RUN_ID),
    ("events", RUN_ID),
    ("graph", RUN_ID),
    ("history", RUN_ID),
    ("inbox",),
    ("runs",),
    ("replay", RUN_ID),
    ("what-if", RUN_ID, "--rules", "conservative"),
    ("export", RUN_ID, "--format", "ocel"),
    ("export", RUN_ID, "--format", "cloudevents"),
    ("report", RUN_ID, "-o", "r.html"),
)
OPAQUE = {"plan", "rules", "tools", "args", "base_args", "value", "result", "inputs", "constraints", "facts"}
"""Members whose inside is a document of its own, or whatever a tool or a person made it."""
MOST = 60
"""Of so many events at most is a log that is forged: every place is tried with every value, and each is audited."""


def places(event):
    """Yield the ways to the members of *event*, and to those of the objects and lists in them."""
    yield from (("actor", name) for name in event.actor or ())
    for name, value in event.data.items():
        yield "data", name
        if name not in OPAQUE:
            inside = (
                value
                if isinstance(value, dict)
                else range(min(1, len(value)))
                if isinstance(value, list)
                else ()
            )
            yield from (("data", name, inner) for inner in inside)


def put(holder, way, value):
    """Return *holder* with *value* at the end of *way*."""
    if not way:
        return value
    first, *rest = way
    new = list(holder) if isinstance(holder, list) else dict(holder)
    if value is GONE and not rest:
        del new[first]
    else:
        new[first] = put(holder[first], rest, value)
    return new


def forged(events, odd):
    """Return *events* with the values of *odd*, (place of the event, way) → value, hashed anew."""
    out = list(events)
    for (at, (part, *way)), value in odd.items():
        out[at] = out[at]._replace(**{part: put(getattr(out[at], part), way, value)})
    return sealed(out)


def name_of(event, way):
    return event.type, tuple("*" if isinstance(part, int) else part for part in way)


@functools.cache
def corpus():
    """Return (log, [(place of an event, way)]) so that every member of every type is tried in one log."""
    named = [
        (
            log,
            {name_of(event, way): (at, way) for at, event in enumerate(log.events) for way in places(event)},
        )
        for log in logs()
        if len(log.events) <= MOST
    ]
    left, out = {name for _, names in named for name in names}, []
    while left:
        log, names = max(named, key=lambda one: len(left & one[1].keys()))
        out.append((log, [place for name, place in names.items() if name in left]))
        left -= names.keys()
    return out


def passed(log, tried) -> Iterator[tuple[tuple, list]]:
    """Yield every place with the values that the audit lets pass there."""
    for place in tried:
        values = [v for v in WRONG if not judged(forged(log.events, {place: v})).findings]
        if values:
            yield place, values


def together(log, tried):
    """Yield logs that pass the audit, in which each value that passes stands once, as many at a time as pass."""
    left = dict(passed(log, tried))
    while left:
        odd = {}
        for place, values in left.items():
            more = {**odd, place: values[0]}
            apart = all(place[0] != at or way[: len(place[1])] != place[1][: len(way)] for at, way in odd)
            if apart and not judged(forged(log.events, more)).findings:
                odd = more
        assert odd, "each of them passes alone"
        yield odd
        left = {place: values[place in odd :] for place, values in left.items()}
        left = {place: values for place, values in left.items() if values}


def test_the_logs_that_are_forged_have_events_of_every_type():
    there = {event.type for log, _ in corpus() for event in log.events}
    assert set(TYPES) - there <= {"run_forked"}  # no scenario forks


@pytest.mark.parametrize("number", range(len(corpus())), ids=lambda n: corpus()[n][0].name)
def test_no_command_refuses_what_the_audit_passes(number, tmp_path, monkeypatch):
    log, tried = corpus()[number]
    monkeypatch.chdir(tmp_path)
    for count, odd in enumerate(together(log, tried)):
        monkeypatch.setenv("FSM_AGENT_STORE", f"{count}.db")
        (tmp_path / "log.jsonl").write_bytes(forged(log.events, odd).lines)
        told = {
            words: CliRunner().invoke(build(), words, prog_name="fsm-agent")
            for words in (("import", "log.jsonl"), *TELL)
        }
        refused = {words: shown.output for words, shown in told.items() if shown.exit_code}
        assert refused == {}, odd
