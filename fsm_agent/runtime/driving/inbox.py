"""A letter is taken once, and its writer hears what became of it, whoever owned the run in between.

The first event that a letter's word causes names the letter. An owner that ended between that event and its answer
leaves a letter that looks as if nobody had read it; the next owner finds it in the log, and answers what its
predecessor would have answered.
"""

from collections.abc import Callable
from typing import Any

import attrs

from fsm_agent.core.audit import replay
from fsm_agent.core.errors import FsmAgentError, StoreError
from fsm_agent.core.inputs import Input
from fsm_agent.runtime.driving.letters import from_letter
from fsm_agent.stores.base import Lease, Letter, Store

Say = Callable[[Input, str], object]
"""Feeds a word, and the name of the letter that it came in, to the run."""


@attrs.define(eq=False)
class Inbox:
    """The letters to one run, in the hands of its owner.

    Attributes:
        store: Where they are.
        lease: The right to answer them.
    """

    store: Store
    lease: Lease
    _answers: dict[str, dict[str, Any]] | None = None
    """Of letters that were taken and not yet answered; None before the first look."""

    def empty(self, say: Say) -> None:
        """Take every unanswered letter, oldest first, and answer it.

        Raises:
            StoreError: A word could not be stored, or an answer; whoever calls again takes no letter twice.
        """
        letters = self.store.letters(self.lease.run)
        if self._answers is None:
            self._answers = _taken(self.store, self.lease.run) if letters else {}
        for letter in letters:
            name = f"{letter.id}@{letter.posted_us}"  # a number alone may come again in another store
            if name not in self._answers:
                self._answers[name] = _answer_to(letter, name, say)
            self.store.answer(self.lease, letter.id, self._answers[name])
            del self._answers[name]


def _answer_to(letter: Letter, name: str, say: Say) -> dict[str, Any]:
    try:
        say(from_letter(letter.body), name)
    except StoreError:
        raise
    except FsmAgentError as error:
        return {"ok": False, "code": error.code, "message": str(error)}
    return {"ok": True}


def _taken(store: Store, run: str) -> dict[str, dict[str, Any]]:
    """Return the answers to the letters that the log of *run* names, by these names."""
    found: dict[str, dict[str, Any]] = {}
    for record in store.read(run):
        if b'"letter":' not in record.body:
            continue
        event = replay.one(record, store.blob)
        name = (event.actor or {}).get("letter")
        if isinstance(name, str):
            refused = event.type == "move_refused"
            why = {"code": event.data["code"], "message": event.data["message"]} if refused else {}
            found[name] = {"ok": not refused, **why}
    return found
