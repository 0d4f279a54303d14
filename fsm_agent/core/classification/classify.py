"""An error becomes two facts: a signal, and what is proved about the effect.

Precedence, per error of the chain: the tool's own code, then a code of the reply's body, then the HTTP or gRPC
status, then the class (nearest in the MRO). The first error of the chain that says anything decides; then a pattern
of the message; then ``unclassified_error`` and ``maybe``.

``applied = no`` is the one dangerous answer, so it falls to ``maybe`` whenever something speaks against it: the
client had sent an earlier copy of the request, another call with an unknown end came before, or the evidence was
only a context and not a reason. The rows are data (``configs/classify.toml``); no row about a message may say ``no``.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core.classification.envelopes import read as read_envelope
from fsm_agent.core.classification.facts import Declared, ErrorFacts, describe
from fsm_agent.core.classification.rows import SIGNALS, Row, Tables, load, normal
from fsm_agent.core.classification.waits import wait_s
from fsm_agent.core.signals import Applied, Signal

__all__ = ["Classified", "Classifier", "Declared", "ErrorFacts", "describe"]


@attrs.frozen(kw_only=True)
class Classified:
    """What an error means.

    Attributes:
        signal: What fires the rule table, before the effect class of the tool is looked at.
        applied: What is proved about the effect.
        code: The code that was recognised, or else the first one given.
        status: HTTP status, if there was one.
        class_: Name of the exception's class; None for a returned error.
        message: The error's own words, at most 2 kB.
        retry_after_us: How long the other side asked us to wait, in microseconds.
        why: Which key of the table matched, and what turned a ``no`` into a ``maybe``.
    """

    signal: Signal
    applied: Applied
    code: str | None = None
    status: int | None = None
    class_: str | None = None
    message: str = ""
    retry_after_us: int | None = None
    why: str = ""


@attrs.frozen(kw_only=True)
class _Verdict:
    """What one error of a chain says. ``declared`` verdicts are the tool's own word and are not doubted."""

    signal: Signal
    applied: Applied
    why: str
    code: str | None = None
    declared: bool = False
    walk: bool = False
    connect: bool = False


_DEFAULT = _Verdict(
    signal=Signal.UNCLASSIFIED_ERROR, applied=Applied.MAYBE, why="default: nothing in the table fits"
)


@attrs.frozen(kw_only=True)
class Classifier:
    """The table of ``configs/classify.toml``, ready to use.

    Attributes:
        digest: Identifies the table in the log.
    """

    digest: str
    _tables: Tables

    @staticmethod
    def from_data(data: Mapping[str, Any]) -> "Classifier":
        """Read a table.

        Args:
            data: The parsed TOML.

        Raises:
            ConfigError: The data cannot be used; the message names the key and what is allowed.
        """
        tables = load(data)
        return Classifier(digest=tables.digest, tables=tables)

    def envelope(self, value: Any) -> ErrorFacts | None:
        """Return the error that a returned *value* stands for, or None if it stands for itself."""
        return read_envelope(self._tables.envelope, value)

    def classify(self, facts: ErrorFacts) -> Classified:
        """Return what *facts* mean. Total: every error has an answer."""
        verdict = self._verdict(facts) or self._by_message(facts) or _DEFAULT
        applied, why = verdict.applied, verdict.why
        if applied is Applied.NO and not verdict.declared and (doubt := self._doubt(facts, verdict)):
            applied, why = Applied.MAYBE, f"{why}; not proved: {doubt}"
        chain = (facts, *facts.causes)
        codes = [c for link in chain for c in _codes(link)]
        wait = next((s for link in chain if (s := _wait(link.retry_after_s)) is not None), None)
        return Classified(
            signal=verdict.signal,
            applied=applied,
            code=verdict.code or next(iter(codes), None),
            status=next((link.status for link in chain if link.status is not None), None),
            class_=facts.classes[0] if facts.classes else None,
            message=next((link.message for link in chain if link.message), ""),
            retry_after_us=None if wait is None else round(wait * 1_000_000),
            why=why,
        )

    def _verdict(self, facts: ErrorFacts) -> _Verdict | None:
        """Return what the first error of the chain says that says anything."""
        chain = (facts, *facts.causes)
        wrapper: _Verdict | None = None
        trusted = True
        for link, follower in zip(chain, (*chain[1:], None), strict=True):
            verdict = self._own(link, follower)
            if verdict is not None and not verdict.walk:
                why = verdict.why if link is facts else f"{verdict.why} (behind {_name(facts)})"
                if not trusted and verdict.applied is not Applied.MAYBE:
                    why = f"{why}; not proved: it was only being handled"
                    return attrs.evolve(verdict, applied=Applied.MAYBE, why=why)
                return attrs.evolve(verdict, why=why)
            wrapper = wrapper or verdict
            if verdict is None and follower is not None and follower.link != "cause":
                trusted = False
        return wrapper

    def _own(self, facts: ErrorFacts, follower: ErrorFacts | None) -> _Verdict | None:
        """Return what *facts* alone say; *follower* is the next error of the chain."""
        return (
            self._by_declaration(facts)
            or self._by_members(facts)
            or self._by_code(facts.codes, "body code")
            or self._by_status(facts, follower)
            or self._by_grpc(facts.grpc)
            or self._by_class(facts)
        )

    def _by_declaration(self, facts: ErrorFacts) -> _Verdict | None:
        if facts.declared is None:
            return None
        code, applied = facts.declared.code, _applied(facts.declared.applied)
        named = SIGNALS.get(code or "")
        found = self._by_code((code,) if code else (), "")
        if found is None and code is not None and code.isdecimal():
            found = self._by_status(ErrorFacts(status=int(code[:4])), None)
        signal = named or (found.signal if found else Signal.UNCLASSIFIED_ERROR)
        known = "" if named or found else ", which the table does not know"
        return _Verdict(
            signal=signal, applied=applied, why=f"the tool's own code {code}{known}", code=code, declared=True
        )

    def _by_members(self, facts: ErrorFacts) -> _Verdict | None:
        """Return what a group is about. It proves nothing: a task group cancels the calls that it does not list."""
        found = [(m, v) for m in facts.members if (v := self._verdict(m)) is not None]
        if not found:
            return None
        lead, verdict = next(((m, v) for m, v in found if v.applied is not Applied.NO), found[0])
        why = f"{verdict.why} (in a group of {len(facts.members)}: {_name(lead)})"
        return attrs.evolve(verdict, applied=Applied.MAYBE, why=why, walk=False, declared=False)

    def _by_code(self, codes: tuple[str, ...], label: str) -> _Verdict | None:
        for code in codes:
            row = self._tables.codes.get(normal(code)) or self._tables.grpc.get(code)
            if row is not None:
                return _of_row(row, why=f"{label} {code}", code=code)
        return None

    def _by_status(self, facts: ErrorFacts, follower: ErrorFacts | None) -> _Verdict | None:
        if facts.status is None or self._fabricated(facts, follower):
            return None
        key = str(facts.status)
        for row in (*self._tables.http.get(key, ()), *self._tables.http.get(f"{key[0]}xx", ())):
            if row.methods and facts.method not in row.methods:
                continue
            if row.retry_after and facts.retry_after_s is None:
                continue
            return _of_row(row, why=f"HTTP status {key}")
        return None

    def _fabricated(self, facts: ErrorFacts, follower: ErrorFacts | None) -> bool:
        """Return whether the client made the status up, as the error behind it shows."""
        if follower is None:
            return False
        reasons = {self._key(c) for c in follower.classes}
        return any(
            reasons & self._tables.fabricated_status.get(self._key(c), frozenset()) for c in facts.classes
        )

    def _by_grpc(self, name: str | None) -> _Verdict | None:
        row = self._tables.grpc.get(name or "")
        return None if row is None else _of_row(row, why=f"gRPC status {name}")

    def _by_class(self, facts: ErrorFacts) -> _Verdict | None:
        for name in facts.classes:
            row = self._tables.classes.get(self._key(name))
            if row is not None:
                return _of_row(row, why=row.key)
        return None

    def _key(self, name: str) -> str:
        """Return ``module root.class`` as rows name it, aliases resolved."""
        root, dot, rest = name.partition(".")
        return f"{self._tables.aliases.get(root, root)}.{rest.rpartition('.')[2]}" if dot else name

    def _by_message(self, facts: ErrorFacts) -> _Verdict | None:
        for link in (facts, *facts.causes):
            for pattern, row in self._tables.messages:
                if link.message and pattern.search(link.message):
                    return _of_row(row, why=row.key)
        return None

    def _doubt(self, facts: ErrorFacts, verdict: _Verdict) -> str:
        """Return what speaks against a ``no``, or an empty string."""
        if facts.resent:
            return "the client had already sent something for this call"
        if verdict.connect and facts.resent is None:
            return "the client does not show that this was the first request of the call"
        chain = (facts, *facts.causes)
        others = [e for link in chain for e in link.earlier]
        others += [
            attrs.evolve(link, causes=chain[index + 1 :])
            for index, link in enumerate(chain)
            if link.link == "context"
        ]
        for other in others:
            before = self._verdict(other)
            if (
                before is not None
                and before.applied is not Applied.NO
                and before.signal is not Signal.UNCLASSIFIED_ERROR
            ):
                return f"before it there was {_name(other)} ({before.why})"
        return ""


def _of_row(row: Row, *, why: str, code: str | None = None) -> _Verdict:
    return _Verdict(
        signal=row.signal, applied=row.applied, why=why.strip(), code=code, walk=row.walk, connect=row.connect
    )


def _applied(word: str | None) -> Applied:
    return Applied(word) if word in ("no", "yes") else Applied.MAYBE


def _wait(seconds: float | None) -> float | None:
    return None if seconds is None else wait_s(seconds)


def _name(facts: ErrorFacts) -> str:
    return facts.classes[0] if facts.classes else "the error"


def _codes(facts: ErrorFacts) -> tuple[str, ...]:
    own = facts.declared.code if facts.declared else None
    return (own,) if own else facts.codes
