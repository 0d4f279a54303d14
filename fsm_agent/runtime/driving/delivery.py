"""Delivering people's words to a run that nobody drives at the moment.

Whoever posts a letter may own the run just long enough to take it: nothing starts, the facts are recorded, and the
next owner goes on from there.
"""

from typing import Any

from fsm_agent.core.errors import FsmAgentError, StoreError
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.driving.letters import from_letter
from fsm_agent.runtime.driving.owner import owner_name
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import NOWHERE, Heads
from fsm_agent.stores.base import Store


def deliver(store: Store, run: str, *, force: bool = False, heads: Heads = NOWHERE) -> None:
    """Take every unanswered letter of *run*, oldest first, and answer it.

    Args:
        store: Holds the run and its inbox.
        run: Its id.
        force: The holder of its lease is known to be dead.
        heads: Where the log's head is kept outside of it.

    Raises:
        OwnedError: Somebody drives it.
    """
    engine, _ = Engine.open(store, run, owner_name(), SystemPorts(), slots=0, force=force, heads=heads)
    try:
        for letter in store.letters(run):
            answer: dict[str, Any]
            try:
                engine.feed(from_letter(letter.body))
                answer = {"ok": True}
            except StoreError:
                raise
            except FsmAgentError as error:
                answer = {"ok": False, "code": error.code, "message": str(error)}
            store.answer(engine.lease, letter.id, answer)
    finally:
        engine.close()
