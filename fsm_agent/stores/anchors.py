"""Anchored heads: where a log ended, kept outside the store, because a cut tail does not show in a chain.

An anchor is one JSON object, ``{"hash":"<64 hex>","run":"<id>","seq":<n>}``. A path that is a directory, or ends
in ``/``, gets one file per run (give it another owner or another disk than the store); any other path is a file
with one line per run. Anchors only move forward: one that would move back says that the log has lost its end.
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from fsm_agent.core import canon
from fsm_agent.core.errors import CorruptError, StoreError, StoreUnusableError
from fsm_agent.core.events import Head
from fsm_agent.stores import checks, files


def write_anchor(path: str | os.PathLike[str], run: str, head: Head) -> None:
    """Keep *head* as the anchor of *run*: durable, and whole or not there. Directories are made.

    Raises:
        CorruptError: The anchor stands further on, or elsewhere at this seq; or the file holds no anchors.
        StoreError: The file cannot be written; the anchor is what it was.
    """
    place = _place(path, run)
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with _turn(place.parent):
            anchors = _read(place)
            old = anchors.get(run)
            if old is not None and (old.seq > head.seq or (old.seq == head.seq and old.hash != head.hash)):
                raise CorruptError(
                    f"anchor {place} of run {checks.shown(run)}: it stands at seq {old.seq} ({old.hash.hex()[:12]}) "
                    f"and was to move to seq {head.seq} ({head.hash.hex()[:12]}); the log has lost its end or was "
                    "rewritten: audit it against the anchor",
                    seq=head.seq + 1,
                )
            if old != head:
                anchors[run] = head
                files.replace(place, b"".join(_line(*item) for item in anchors.items()))
    except OSError as error:
        raise StoreError(
            f"anchor {place} of run {checks.shown(run)}: {error.strerror}; choose a place that can be written"
        ) from error


def read_anchor(path: str | os.PathLike[str], run: str) -> Head | None:
    """Return the anchor of *run*, or None if there is none.

    Raises:
        CorruptError: The file holds no anchors.
        StoreUnusableError: It cannot be read.
    """
    return _read(_place(path, run)).get(run)


def _place(path: str | os.PathLike[str], run: str) -> Path:
    text = os.fspath(path)
    if text.endswith(("/", os.sep)) or Path(text).is_dir():
        return Path(text) / f"{files.file_name(run)}.anchor.json"
    return Path(text)


@contextlib.contextmanager
def _turn(directory: Path) -> Iterator[None]:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        files.lock(descriptor, fcntl.LOCK_EX, f"anchors in {directory}")
        yield
    finally:
        os.close(descriptor)


def _line(run: str, head: Head) -> bytes:
    return canon.encode({"run": run, "seq": head.seq, "hash": head.hash.hex()}) + b"\n"


def _read(place: Path) -> dict[str, Head]:
    try:
        data = place.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise StoreUnusableError(
            f"anchors {place}: they cannot be read ({error.strerror}), so nobody can say whether a log has lost its "
            "end; repair the place, or choose another one"
        ) from error
    anchors: dict[str, Head] = {}
    for number, line in enumerate(data.splitlines(), 1):
        try:
            run, head = _anchor(orjson.loads(line))
            anchors[run] = head
        except (ValueError, KeyError, TypeError) as error:
            raise CorruptError(
                f"{place} line {number}: no anchor ({error}); restore it from where it was printed"
            ) from None
    return anchors


def _anchor(found: dict[str, Any]) -> tuple[str, Head]:
    run, seq, digest = found["run"], found["seq"], bytes.fromhex(found["hash"])
    if type(run) is not str or type(seq) is not int or len(digest) != 32:
        raise ValueError("a field of another type")
    return run, Head(seq, digest)
