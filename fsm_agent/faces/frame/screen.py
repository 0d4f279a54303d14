"""Where a command writes, and how: streams, format, colours, width, and the store that was named.

stdout takes data, stderr takes progress, logs and errors. Whatever text comes from outside is made harmless before
it reaches a terminal.
"""

import contextlib
import os
import re
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, Self, TextIO

import attrs

from fsm_agent.faces.frame.columns import columns, cut, filled, spelled
from fsm_agent.faces.frame.settings import DEFAULT_STORE, Settings

PLAIN_WIDTH: Final = 80

GLYPHS: Final[Mapping[str, tuple[str, str]]] = {
    "pending": ("○", "."),
    "running": ("▶", ">"),
    "awaiting-confirmation": ("⏸", "="),
    "unknown-result": ("?", "?"),
    "done": ("✔", "+"),
    "failed": ("✖", "x"),
    "cancelled": ("⊘", "-"),
}
"""State → its sign, and the same for screens that have ASCII only."""

_COLOURS: Final[Mapping[str, str]] = {
    "running": "36",
    "awaiting-confirmation": "33",
    "unknown-result": "35",
    "done": "32",
    "failed": "31",
    "cancelled": "2",
}
_ESCAPES: Final = {c: f"\\x{c:02x}" for c in (*range(32), *range(127, 160))}
_UNSEEN: Final = (
    *(0xAD, 0x34F, 0x61C, 0x115F, 0x1160, 0x17B4, 0x17B5, *range(0x180B, 0x1810)),
    *(0x200B, 0x200C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2060, 0x2070)),
    *(0x3164, 0xFEFF, 0xFFA0, *range(0xFFF9, 0xFFFC), *range(0xE0000, 0xE0080), *range(0xE0100, 0xE01F0)),
)
UNSEEN: Final = {c: f"\\u{c:04x}" if c < 0x10000 else f"\\U{c:08x}" for c in _UNSEEN}
"""Characters that show nothing, or turn the direction of what is read, each spelled out: nobody approves what he cannot
see. Not among them is what joins one emoji, or chooses its form."""
_HARMLESS: Final = {**_ESCAPES, **UNSEEN}
_INERT: Final = {c: spelled for c, spelled in _ESCAPES.items() if c not in (9, 10)}
_OWN: Final = re.compile("(\x1b\\[(?:3[1-6]|2|0)m)")


def safe(text: str) -> str:
    """Return *text* on one line, with what drives a terminal or does not show spelled out."""
    return " ".join(text.split()).translate(_HARMLESS)


def short(text: str, width: int) -> str:
    """Return *text* made safe, and cut to *width* columns."""
    line = safe(text)
    return line if columns(line) <= width else cut(line, width - 3) + "..."


def wrapped(head: str, text: str, width: int) -> list[str]:
    """Return *text* behind *head*, made safe, on as many lines of *width* columns as it takes."""
    return list(filled(safe(text), width, head, " " * min(columns(head), 8)))


def duration(seconds: float) -> str:
    """Return a length of time for people, such as ``250 ms``, ``1.4 s``, ``3 min 20 s``, ``2 d 4 h``."""
    if seconds < 1:
        return f"{round(seconds * 1000)} ms"
    if seconds < 60:
        return f"{seconds:.1f}".rstrip("0").rstrip(".") + " s"
    whole = round(seconds)
    parts = ((whole // 86400, "d"), (whole // 3600 % 24, "h"), (whole // 60 % 60, "min"), (whole % 60, "s"))
    first = next(i for i, (n, _) in enumerate(parts) if n)
    return " ".join(f"{n} {unit}" for n, unit in parts[first : first + 2] if n)


class Desk(Protocol):
    """Where a person sits at the prompt, as far as a command needs to know."""

    def command(self, line: str) -> str:
        """Return a command line as the prompt takes it."""
        ...


@attrs.define(eq=False, kw_only=True)
class Screen:
    """What a command knows about whoever looks on.

    Attributes:
        out: For data.
        err: For the rest.
        form: ``plain``, ``json`` or ``jsonl``.
        quiet: No progress, no hints.
        verbose: How often ``-v`` was given.
        colour: Whether data may be coloured.
        unicode: Whether ``out`` takes more than ASCII.
        width: Columns of a line.
        asks: Whether a person sits there who can be asked.
        store: Where runs are kept.
        named: Whether that place was named, by ``--store`` or the environment.
        typed: What must be added to a command, so that it finds the same store.
        run: The run that a command is about, once known; for what is said on an interruption.
        desk: Where a person sits at the prompt, or None on the command line.
        piped: The log that came on standard input, once it was read.
        settings: What stands in for options that are left out.
        flags: What options said about the screen itself.
    """

    out: TextIO
    err: TextIO
    form: str = "plain"
    quiet: bool = False
    verbose: int = 0
    colour: bool = False
    unicode: bool = True
    width: int = PLAIN_WIDTH
    asks: bool = False
    store: str = DEFAULT_STORE
    named: bool = False
    typed: str = ""
    run: str | None = None
    desk: Desk | None = None
    piped: bytes = b""
    settings: Settings = attrs.field(factory=lambda: Settings({}, "", {}))
    flags: Mapping[str, Any] = attrs.field(factory=dict)

    @classmethod
    def of(
        cls,
        *,
        store: str | None = None,
        json: bool = False,
        jsonl: bool = False,
        quiet: bool = False,
        verbose: int = 0,
        no_color: bool = False,
        ascii: bool = False,  # noqa: A002 - the option's name
        settings: Settings | None = None,
    ) -> Self:
        """Return the screen of this process, from the options that every command takes and the settings.

        Raises:
            ConfigError: A setting of the environment has no meaning.
        """
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, ValueError):
                stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # only real streams can
        chosen = settings if settings is not None else Settings({}, "", {})
        where = chosen.find("store", store)
        form = "json" if json else "jsonl" if jsonl else "plain"
        bare = chosen.find("no_color", no_color).value or os.environ.get("TERM") == "dumb"
        seen = _is_terminal(sys.stdout)
        return cls(
            out=sys.stdout,
            err=sys.stderr,
            form=form,
            quiet=bool(quiet),
            verbose=int(verbose or 0),
            colour=form == "plain" and seen and not bare,
            unicode=_takes_unicode(sys.stdout) and not chosen.find("ascii", ascii).value,
            width=max(40, min(shutil.get_terminal_size((PLAIN_WIDTH, 24)).columns, 120))
            if seen
            else PLAIN_WIDTH,
            asks=form == "plain" and not quiet and _is_terminal(sys.stdin) and _is_terminal(sys.stderr),
            store=where.value,
            named=where.origin != "default",
            typed=f" --store {shlex.quote(store)}" if store else "",
            settings=chosen,
            flags={"store": store, "ascii": ascii, "no_color": no_color},
        )

    @property
    def progress_colours(self) -> bool:
        """Whether progress on stderr may be coloured."""
        return self.colour and _is_terminal(self.err)

    def write(self, lines: Iterable[str]) -> None:
        """Write lines of data."""
        for line in lines:
            self.out.write(self.fit(line.rstrip()) + "\n")
        self.out.flush()

    def fit(self, line: str) -> str:
        """Return *line* as this screen can show it: nothing in it but our own colours drives a terminal.

        Where the screen takes ASCII only, other signs are spelled out.
        """
        if not line.isprintable():
            parts = _OWN.split(line) if self.colour else [line]
            line = "".join(p if n % 2 else p.translate(_INERT) for n, p in enumerate(parts))
        if self.unicode or line.isascii():
            return line
        return spelled(line)

    def write_bytes(self, data: bytes) -> None:
        """Write data byte for byte, where the stream lets it."""
        self.out.flush()
        raw = getattr(self.out, "buffer", None)
        if raw is None:
            self.out.write(data.decode())
        else:
            raw.write(data)
            raw.flush()

    def hint(self, text: str) -> None:
        """Write a line of progress or advice, unless the screen is to be quiet."""
        if not self.quiet:
            self.complain(text)

    def complain(self, text: str) -> None:
        """Write a line to stderr; nobody listening there is no error."""
        with contextlib.suppress(OSError, ValueError):
            self.err.write(self.fit(text) + "\n")
            self.err.flush()

    def glyph(self, state: str) -> str:
        """Return the sign of *state*, coloured where that is wanted."""
        sign = GLYPHS[state][0 if self.unicode else 1] if state in GLYPHS else " "
        return self.paint(sign, state)

    def paint(self, text: str, state: str) -> str:
        """Return *text* in the colour of *state*."""
        colour = _COLOURS.get(state) if self.colour else None
        return text if colour is None else f"\x1b[{colour}m{text}\x1b[0m"

    def command(self, line: str) -> str:
        """Return a command as it must be typed here: with the store that was named, or as the prompt takes it."""
        said = line + self.typed if self.desk is None else self.desk.command(line)
        return said.translate(_HARMLESS)  # an id may come with a log that somebody else wrote


def _is_terminal(stream: Any) -> bool:
    try:
        return bool(stream.isatty())
    except (AttributeError, ValueError):
        return False


def _takes_unicode(stream: Any) -> bool:
    try:
        "○▶⏸✔✖⊘─│".encode(stream.encoding or "ascii")
    except (AttributeError, LookupError, UnicodeEncodeError):
        return False
    return True


def hush() -> None:
    """Nobody reads stdout any more: let what Python still wants to write there go nowhere."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
