"""What a decider says: the table's decision, with everything that a loop needs to carry it out."""

from typing import Final

import attrs

_PLAIN: Final = {"accept": "done", "replan-local": "replan", "replan-global": "replan"}


@attrs.frozen(kw_only=True)
class Decision:
    """What to do next.

    Attributes:
        action: The table's decision: ``accept continue retry reconcile replan-local replan-global escalate skip abort``.
        rule: Id of the row that answered.
        reason: Why, in words; names the signal, its threshold and the facts.
        delay_s: Seconds to wait before a ``retry``, a look-up (``reconcile``) or a new plan; 0 for everything else.
        task: The task; None for a decision about the run.
        signal: What fired: what was observed, or what follows from it.
        state: Of the task after the decision; of the run where it is about the run.
        plan_version: How many new plans were asked for so far, this one included.
        waits_for: Tasks whose result is unknown: a new plan may not be carried out before they are settled.
        seq: Of the decision in the log.
    """

    action: str
    rule: str
    reason: str
    delay_s: float = 0.0
    task: str | None
    signal: str
    state: str
    plan_version: int
    waits_for: tuple[str, ...] = ()
    seq: int

    @property
    def decision(self) -> str:
        """The action in the plainest word: ``retry``, ``replan``, ``abort``, ``done``; else the action itself."""
        return _PLAIN.get(self.action, self.action)

    def __str__(self) -> str:
        """One line for people."""
        wait = f" in {self.delay_s:g} s" if self.delay_s else ""
        return f"{self.decision}{wait} ({self.rule}): {self.reason}"
