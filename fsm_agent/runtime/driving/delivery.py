"""Delivering people's words to a run that nobody drives at the moment.

Whoever posts a letter may own the run just long enough to take it: nothing starts, the facts are recorded, and the
next owner goes on from there.
"""

from fsm_agent.core.inputs import Input
from fsm_agent.runtime.driving.engine import Engine
from fsm_agent.runtime.driving.inbox import Inbox
from fsm_agent.runtime.driving.letters import refuse_absent
from fsm_agent.runtime.driving.owner import owner_name
from fsm_agent.runtime.ports import SystemPorts
from fsm_agent.runtime.proof.heads import NOWHERE, Heads
from fsm_agent.stores.base import Store


def deliver(store: Store, run: str, *, force: bool | str = False, heads: Heads = NOWHERE) -> None:
    """Take every unanswered letter of *run*, oldest first, and answer it.

    Args:
        store: Holds the run and its inbox.
        run: Its id.
        force: Name of the holder of its lease, if it is known to be dead.
        heads: Where the log's head is kept outside of it.

    Raises:
        OwnedError: Somebody drives it.
    """
    from fsm_agent.runtime.driving.outstanding import is_out  # knows of tools; who only reads needs none

    engine, _ = Engine.open(store, run, owner_name(), SystemPorts(), slots=0, force=force, heads=heads)

    def say(word: Input, letter: str) -> None:
        refuse_absent(engine.run, word, lambda task, attempt: is_out((run, task, attempt)))
        engine.feed(word, letter=letter)

    try:
        Inbox(store, engine.lease).empty(say)
    finally:
        engine.close()
