"""Every way a tool can end becomes exactly one value here, and then exactly one outcome or verdict.

The first half runs where the tool ran: a value is copied before its owner can change it, an exception is read
while its traceback is there. The second half runs on the loop and is where secrets stop.
"""

import types
from collections.abc import Callable
from typing import Any, Final, assert_never

import attrs

from fsm_agent.core import canon
from fsm_agent.core.classification.classify import Classified, Classifier, ErrorFacts, describe
from fsm_agent.core.classification.fingerprint import fingerprint
from fsm_agent.core.classification.gently import MESSAGE_BYTES, clean
from fsm_agent.core.errors import ValueRefusedError
from fsm_agent.core.inputs import NO_USAGE, Outcome, Usage
from fsm_agent.core.signals import Applied, Effect, Signal
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.secrets.vault import Vault
from fsm_agent.runtime.tools.context import Reconciled


@attrs.define
class Value:
    """It returned; the value is a private copy. Open, for there is one for each call, and closed ones take four times as long."""

    value: Any


@attrs.frozen
class Unstorable:
    """It returned something that cannot be stored exactly; the message names the JSON path."""

    message: str


@attrs.frozen
class Raised:
    """It raised."""

    facts: ErrorFacts


@attrs.frozen
class Cut:
    """It ended because the engine cut it off."""


@attrs.frozen
class NotCalled:
    """It was not called at all; the message says why."""

    message: str


_YES: Final = Applied.YES

Ending = Value | Unstorable | Raised | Cut | NotCalled
Clock = Callable[[], int]


def read_value(value: Any) -> Value | Unstorable:
    """Return what a tool's return value is worth. Never raises."""
    if type(value) is types.CoroutineType:
        value.close()  # it will never be awaited
        return Unstorable(
            "value at $: a coroutine cannot be stored exactly; make the tool async and await it there"
        )
    try:
        return Value(canon.snapshot(value)[0])
    except ValueRefusedError as refused:
        return Unstorable(str(refused))
    except Exception as error:  # noqa: BLE001  (whoever holds the value changed it meanwhile)
        kind = type(error).__name__
        return Unstorable(
            f"value at $: it cannot be copied ({kind}); return a value that nobody changes any more"
        )


def read_finding(value: Any) -> Value | Unstorable:
    """Return what a probe's return value is worth: a finding with a private copy of its result. Never raises."""
    if not issubclass(type(value), Reconciled):  # a value may lie about its class
        if type(value) is types.CoroutineType:
            value.close()
        return Unstorable(
            f"a value of type {type(value).__name__} was returned; "
            "return Reconciled.applied(result), .absent() or .inconclusive(why)"
        )
    result = read_value(value.result)
    if isinstance(result, Unstorable):
        return result
    return Value(attrs.evolve(value, result=result.value, why=str(value.why)))


def read_error(error: BaseException, clock_us: Clock) -> Raised:
    """Return what an exception says. Never raises."""
    return Raised(describe(error, now_us=clock_us()))


@attrs.frozen(kw_only=True)
class Verdict:
    """What a probe found: ``applied``, ``absent`` or ``inconclusive``, and words for it."""

    verdict: str
    result: Any = None
    evidence: str


@attrs.frozen
class Judge:
    """Turns endings into what the core understands, with nothing secret left in it."""

    classifier: Classifier
    vault: Vault

    def outcome(
        self, tool: ToolSpec, ending: Ending, usage: Usage = NO_USAGE, duration_us: int = 0
    ) -> Outcome:
        """Return the outcome of a call of *tool*.

        Args:
            usage: What was spent and not yet reported.
            duration_us: How long it took, in microseconds.
        """
        match ending:
            case Value(value=value):
                facts = self.classifier.envelope(value)
                shown = self.vault.hide_result(tool, value)
                if facts is None:
                    return Outcome("value", shown, None, _YES, None, None, usage, duration_us)
                outcome = self._failed(tool, self.classifier.classify(facts), shown)
            case Unstorable(message=message):
                applied = Applied.MAYBE if tool.effect is Effect.READ else Applied.YES
                outcome = self.error(tool, Signal.UNVERIFIED, "E-VALUE", message, applied=applied)
            case Raised(facts=facts):
                outcome = self._failed(tool, self.classifier.classify(facts))
            case NotCalled(message=message):
                outcome = self.error(tool, Signal.TRANSIENT_ERROR, "E-TOO-LATE", message)
            case Cut():
                outcome = Outcome(
                    kind="lost", signal=Signal.INTERRUPTED, error={"message": "the call was cut off"}
                )
            case _:
                assert_never(ending)
        return outcome._replace(usage=usage, duration_us=duration_us)

    def error(
        self, tool: ToolSpec, signal: Signal, code: str, message: str, *, applied: Applied = Applied.NO
    ) -> Outcome:
        """Return the outcome of an error of ours; *applied* is ``no`` where the tool was not called."""
        return self._failed(tool, Classified(signal=signal, applied=applied, code=code, message=message))

    def _failed(self, tool: ToolSpec, found: Classified, value: Any = None) -> Outcome:
        code = None if found.code is None else self.vault.scrub(found.code)
        message = self._words(found)
        mark = fingerprint(
            tool=tool.name, signal=found.signal.value, code=code, class_name=found.class_, message=message
        )
        error = {
            "code": code,
            "status": found.status,
            "class": found.class_,
            "message": message,
            "fingerprint": mark,
        }
        return Outcome(
            kind="error",
            value=value,
            signal=found.signal,
            applied=found.applied,
            error={key: item for key, item in error.items() if item is not None},
            retry_after_us=found.retry_after_us,
        )

    def _words(self, found: Classified) -> str:
        words = found.message or found.class_ or "the tool returned an error without words"
        if found.class_ and not found.code and " " not in words and not words[0].isalpha():
            words = f"{found.class_}: {words}"  # such as 'q', of a KeyError: alone it tells nobody anything
        return self.words(words)

    def words(self, text: str) -> str:
        """Return *text* for the log: without secrets, without what cannot be stored, at most 2 kB."""
        return clean(self.vault.scrub(text, cut=len(text.encode("utf-8", "replace")) > MESSAGE_BYTES - 4))

    def finding(self, tool: ToolSpec, name: str, ending: Value | Unstorable | Raised) -> Verdict:
        """Return what the probe called *name* found out about a call of *tool*."""
        match ending:
            case Value(value=found):
                assert isinstance(found, Reconciled), "read_finding lets nothing else through"
                result = self.vault.hide_result(tool, found.result) if found.verdict == "applied" else None
                words = self.words(found.why) if found.why else f"{name} says {found.verdict}"
                return Verdict(verdict=found.verdict, result=result, evidence=words)
            case Unstorable(message=message):
                return self._open(f"{name}: {message}")
            case Raised(facts=facts):
                failed = self._failed(tool, self.classifier.classify(facts))
                return self._open(f"{name} failed: {_error_words(failed)}")
            case _:
                assert_never(ending)

    def repetition(self, tool: ToolSpec, ending: Ending) -> Verdict:
        """Return what repeating an idempotent call with its key found out about the first call.

        A value is the first call's value. A refusal of the request itself (``bad_request``, proved not applied)
        would have met the first call too. No other error says anything about the first call: the repetition may
        not have arrived, or may have been refused because the first did its work.
        """
        outcome = self.outcome(tool, ending)
        if outcome.kind == "value":
            return Verdict(
                verdict="applied",
                result=outcome.value,
                evidence=f"{tool.name} was repeated with its key and returned",
            )
        words = f"{tool.name} was repeated with its key: {_error_words(outcome)}"
        if outcome.signal is Signal.BAD_REQUEST and outcome.applied is Applied.NO:
            return Verdict(verdict="absent", evidence=words)
        return self._open(words)

    def _open(self, words: str) -> Verdict:
        return Verdict(verdict="inconclusive", evidence=self.words(words))


def _error_words(outcome: Outcome) -> str:
    error = outcome.error or {}
    head = error.get("code") or error.get("class") or outcome.kind
    return f"{head}: {error.get('message', '')}"
