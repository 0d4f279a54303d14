"""The ledger of effects: every call that may change the world, its intent first, and everything that says what became of it.

Once an effect is known to be there, nothing says it away.
"""

from collections.abc import Mapping
from typing import Any

import attrs

from fsm_agent.core.events import Event


@attrs.frozen(kw_only=True)
class Effect:
    """A call that may change the world: its intent, and what is known of it.

    Attributes:
        task: The task.
        attempt: Which of its attempts.
        tool: What was called.
        effect: Its effect class.
        key: Idempotency key.
        args: Arguments, as logged.
        args_digest: Digest of tool and arguments.
        seq: Of the intent.
        at: When.
        approval: Seq of the approval that it consumed, or None.
        applied: ``yes``, ``no`` or ``maybe``, as far as the log knows at its end.
        proof: (seq, words) of everything that says so, oldest first.
        result: (its value) once the call, a probe, a late reply or a person gave one; empty before.
    """

    task: str
    attempt: int
    tool: str
    effect: str
    key: str
    args: Mapping[str, Any]
    args_digest: str
    seq: int
    at: int
    approval: int | None
    applied: str = "maybe"
    proof: tuple[tuple[int, str], ...] = ()
    result: tuple[Any, ...] = ()


class Ledger:
    """The effects of a log in the making.

    Attributes:
        effects: (task, attempt) → effect, oldest first.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self.effects: dict[tuple[str, int], Effect] = {}

    def add(self, event: Event) -> None:
        """Take in the next event."""
        if event.type == "task_moved":
            self._moved(event)
        elif event.type == "late_result":
            outcome = event.data["outcome"]
            there = outcome["kind"] == "value"
            applied = "yes" if there else outcome.get("applied", "maybe")
            self._proved(event, "a late reply", applied, (outcome.get("value"),) if there else ())

    def _moved(self, event: Event) -> None:
        data = event.data
        if data["trigger"] == "start":
            if data["effect"] != "read":
                self._intent(event)
        elif "outcome" in data:
            done = data["trigger"] == "succeed"
            applied = "yes" if done else data["outcome"].get("applied", "maybe")
            self._proved(event, data["trigger"], applied, (data["outcome"].get("value"),) if done else ())
        elif data["trigger"] in ("settle", "clear"):
            words = str(data["evidence"].get("words", data["trigger"]))
            result = (data["result"],) if data["trigger"] == "settle" else ()
            self._proved(event, words, data.get("applied", "yes"), result)

    def _intent(self, event: Event) -> None:
        data, task = event.data, event.task or ""
        self.effects[task, data["attempt"]] = Effect(
            task=task,
            attempt=data["attempt"],
            tool=data["tool"],
            effect=data["effect"],
            key=data["key"],
            args=data["args"],
            args_digest=data["args_digest"],
            seq=event.seq,
            at=event.at,
            approval=data.get("approval"),
        )

    def _proved(self, event: Event, words: str, applied: str, result: tuple[Any, ...]) -> None:
        found = self.effects.get((event.task or "", event.data["attempt"]))
        if found is None:
            return
        self.effects[found.task, found.attempt] = attrs.evolve(
            found,
            applied="yes" if found.applied == "yes" else applied,
            proof=(*found.proof, (event.seq, words)),
            result=result or found.result,
        )
