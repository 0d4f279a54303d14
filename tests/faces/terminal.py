"""Somebody at a terminal, who reads what is shown and types; never waits for time, only for words."""

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios

PATIENCE_S = 20
"""A test that waits for words that never come ends after so long, in seconds."""
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>]|\r")
_ASKED = b"\x1b[6n"
_START = """
import fcntl, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal, as at any terminal
from fsm_agent.__main__ import main
sys.exit(main())
"""


class Person:
    """Somebody at a terminal of *columns* by *lines*; ``seen`` is what was shown and not yet read."""

    def __init__(self, cli, *words, columns=80, lines=40, **env):
        self.master, slave = pty.openpty()
        self.resize(columns, lines, slave)
        self.process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, words)],
            cwd=cli.path,
            env=cli.env(**{"TERM": "xterm", **env}),
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
        )
        os.close(slave)
        self.raw = ""
        self.seen = ""

    def resize(self, columns, lines, descriptor=None):
        size = struct.pack("HHHH", lines, columns, 0, 0)
        fcntl.ioctl(self.master if descriptor is None else descriptor, termios.TIOCSWINSZ, size)

    def _read(self):
        ready, _, _ = select.select([self.master], [], [], PATIENCE_S)
        assert ready, f"nothing was shown for {PATIENCE_S} s after:\n{self.seen}"
        try:
            more = os.read(self.master, 4096)
        except OSError:
            return False
        for _ in range(more.count(_ASKED)):
            os.write(self.master, b"\x1b[1;1R")  # where the cursor is, as a terminal answers
        self.raw += more.decode("utf-8", "replace")
        self.seen += _CODES.sub("", more.decode("utf-8", "replace"))
        return bool(more)

    def until(self, text):
        """Read until *text* (or a match of a pattern) has been shown; return what was shown before."""
        pattern = re.compile(re.escape(text)) if isinstance(text, str) else text
        while (found := pattern.search(self.seen)) is None:
            assert self._read(), f"{pattern.pattern!r} was never shown:\n{self.seen}"
        before, self.seen = self.seen[: found.start()], self.seen[found.end() :]
        return before

    def type(self, line):
        os.write(self.master, line.encode() + b"\n")

    def press(self, keys):
        os.write(self.master, keys.encode())

    def end(self):
        """Read the rest and return the exit code."""
        while self._read():
            pass
        os.close(self.master)
        return self.process.wait(timeout=30)

    def away(self):
        """Make sure that nothing is left of it."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
            os.close(self.master)
