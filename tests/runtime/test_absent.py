"""Nobody is believed that a call had no effect while it is under way in this process, whatever he says it with."""

import threading

import pytest

from fsm_agent import RefusedError
from tests.runtime.runs import go, one, running, toolbox


@pytest.mark.parametrize("by_answer", [True, False], ids=["by an answer", "by a verdict"])
def test_absent_is_refused_while_the_call_is_under_way_here(by_answer):
    goes_on, made = threading.Event(), []

    def pay() -> dict:
        made.append("once")
        goes_on.wait(10)
        return {"paid": len(made)}

    async def play():
        async with running(one("do"), toolbox(pay, "write", timeout_s=0.05, settle_s=0)) as run:
            assert (await run.wait())["state"] == "unknown-result"
            with pytest.raises(RefusedError, match="still running here"):
                if by_answer:
                    await run.answer("t", {"decide": "absent", "evidence": "nothing to be seen"}, by="ann")
                else:
                    await run.reconcile("t", verdict="absent", evidence="nothing to be seen")
            goes_on.set()
            async for _ in run.events(follow=True):
                pass  # until it is closed: the late reply settles it
            assert (run.report["done"], run.run.tasks["t"].result) == (["t"], {"paid": 1})

    go(play())
    assert made == ["once"]
