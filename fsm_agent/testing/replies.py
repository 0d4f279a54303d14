"""From what the script says to what the engine is told, by the judge that real tools pass too.

Nothing is classified here: a scripted error becomes the same evidence that an exception would have left, and
:class:`fsm_agent.runtime.tools.endings.Judge` makes an outcome of it.
"""

import builtins

import attrs

from fsm_agent.core.classification.classify import Declared, ErrorFacts
from fsm_agent.core.inputs import Outcome, Probe, Probed
from fsm_agent.core.tools import ToolSpec
from fsm_agent.runtime.tools import endings
from fsm_agent.runtime.tools.context import Reconciled
from fsm_agent.runtime.tools.endings import Ending, Judge, Verdict
from fsm_agent.testing.scenario import CallScript, Raised
from fsm_agent.testing.world import Happening


def facts(raised: Raised) -> ErrorFacts:
    """Return the evidence that an exception like *raised* leaves.

    A code alone, or with what was applied, is what a tool says of itself with ``ToolError``; beside a class or a
    status it is a code of the reply's body.
    """
    wait = None if raised.retry_after_us is None else raised.retry_after_us / 1_000_000
    said = raised.code if raised.code is not None else None if raised.status is None else str(raised.status)
    own = raised.applied is not None or (raised.code is not None and not (raised.class_name or raised.status))
    if own:
        applied = None if raised.applied is None else raised.applied.value
        declared = Declared(code=said, applied=applied)
        return ErrorFacts(message=raised.message, retry_after_s=wait, declared=declared)
    return ErrorFacts(
        classes=_classes(raised.class_name) if raised.class_name else (),
        message=raised.message,
        status=raised.status,
        codes=(raised.code,) if raised.code is not None else (),
        retry_after_s=wait,
    )


def _classes(name: str) -> tuple[str, ...]:
    """Return *name* and, for a built-in exception, the names of what it is derived from."""
    known = getattr(builtins, name, None)
    if isinstance(known, type) and issubclass(known, BaseException):
        base = (object, BaseException, Exception)
        return tuple(kind.__name__ for kind in known.__mro__ if kind not in base)
    return (name,)


def ending(script: CallScript) -> Ending:
    """Return how a call that follows *script* ends."""
    if script.raised is not None:
        return endings.Raised(facts(script.raised))
    return endings.read_value(script.returned)


def outcome(judge: Judge, tool: ToolSpec, happening: Happening) -> Outcome:
    """Return the outcome of the call that *happening* ends."""
    return judge.outcome(
        tool,
        ending(happening.script),
        usage=happening.script.usage,
        duration_us=happening.at_us - happening.started_us,
    )


def repeated(judge: Judge, tool: ToolSpec, command: Probe, happening: Happening) -> Probed:
    """Return what the repetition of an idempotent call says about the first one."""
    found = judge.repetition(tool, ending(happening.script))
    return attrs.evolve(probed(command, found), usage=happening.script.usage)


def finding(judge: Judge, tool: ToolSpec, command: Probe, found: Reconciled, *, still_out: bool) -> Probed:
    """Return what a probe says.

    Args:
        judge: Takes secrets out.
        tool: The tool whose call is asked about.
        command: The probe.
        found: What it found in the world.
        still_out: The call itself has not ended yet, so that "absent" proves nothing.
    """
    verdict = judge.finding(tool, f"the probe of {tool.name}", endings.read_finding(found))
    if verdict.verdict == "absent" and still_out:
        words = f"{verdict.evidence}; but the call is still under way here and may yet have its effect"
        verdict = attrs.evolve(verdict, verdict="inconclusive", evidence=words)
    return probed(command, verdict)


def silence(command: Probe) -> Probed:
    """Return what is learnt from a repetition that did not answer before its deadline."""
    words = f"{command.tool} was repeated with its key and gave no answer in time"
    return probed(command, Verdict(verdict="inconclusive", evidence=words))


def probed(command: Probe, found: Verdict) -> Probed:
    """Return *found* as the input that answers *command*."""
    return Probed(
        task=command.task,
        attempt=command.attempt,
        verdict=found.verdict,
        result=found.result,
        evidence=found.evidence,
    )
