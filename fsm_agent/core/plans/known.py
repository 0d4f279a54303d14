"""Plans that were proved before, read back from a log; whoever only follows a run needs nothing that finds faults."""

import contextlib
import gc
from collections.abc import Iterator, Mapping
from typing import Any, Final
from weakref import WeakValueDictionary

from fsm_agent.core import canon
from fsm_agent.core.plans import build as planbuild
from fsm_agent.core.plans.plan import Plan

_KNOWN: Final[WeakValueDictionary[str, Plan]] = WeakValueDictionary()
"""Plans that are alive, by digest: the run that adopts a plan need not hold a second copy of it."""

_VERY_MANY: Final = 2_000
"""So many new objects that stay are more than what else is new then, and more than it pays to walk."""
_MOST: Final = 500_000
"""So many others become old along with them, at most, before the collector looks through all objects."""
_OLD: Final = {"collections": 0, "since": 0}
"""How often it had looked through all when objects were made old for the last time, and how many others were since then."""


@contextlib.contextmanager
def collecting_later() -> Iterator[None]:
    """Keep the garbage collector from looking for garbage while many values are made that all stay.

    It finds none, and takes most of the time of a plan of 10,000 steps. If very many were made, they are counted among the
    old ones at once, instead of being walked twice on their way there while the run goes on.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    before = gc.get_count()
    try:
        yield
    finally:
        if gc.get_count()[0] - before[0] > _VERY_MANY and not gc.get_freeze_count():
            _make_old(before)
        gc.enable()


def _make_old(others: tuple[int, int, int]) -> None:
    """Count all objects among the old ones: that is what thawing does with what was frozen.

    The collector looks through the old ones when enough has come to them in its own way, which is counted anew from here on.
    Who reads large plans again and again would keep it from that for ever, and so keep all garbage of the process: therefore
    what comes in this way along with those that stay, *others* by generation, is counted, too.
    """
    collections = gc.get_stats()[2]["collections"]
    (young, middle, old), (first, second, _) = others, gc.get_threshold()
    since = young + first * (middle + second * old)
    if collections == _OLD["collections"]:
        since += _OLD["since"]
    if since > _MOST:
        gc.collect()
    else:
        gc.freeze()
        gc.unfreeze()
    _OLD.update(collections=collections, since=since)


def remember(plan: Plan) -> None:
    """Let *plan*, which was proved, be the one that its document stands for while it is alive."""
    _KNOWN[plan.digest] = plan


def trusted(doc: Mapping[str, Any], base: Plan | None = None, *, said: str = "") -> Plan:
    """Return the plan whose normal form is *doc*, from our own log, without proving again what was proved.

    The same value as :func:`fsm_agent.core.plans.planning.load` gives for it. What *base*, the plan before it, says in the
    same bytes is taken over.

    Args:
        doc: The normal form.
        base: The plan before it.
        said: The digest that it is said to have. A plan with that digest is taken if *doc* is made of its own document.
    """
    plan = _KNOWN.get(said)
    if plan is not None and plan.doc.keys() == doc.keys() and all(doc[k] is v for k, v in plan.doc.items()):
        return plan
    digest = canon.value_digest("plan", doc)
    plan = _KNOWN.get(digest)
    if plan is None:
        parsed = planbuild.Parsed()
        with collecting_later():
            if base is not None:
                doc = {**doc, "steps": parsed.take_over(doc["steps"], base)}
            fields = planbuild.build(doc, parsed)
        plan = Plan(**fields, doc=doc, digest=digest)
        remember(plan)
    return plan
