"""Tools that handle secrets carelessly, as tools do: they echo them, put them into errors, notes and evidence."""

import json
import os
from pathlib import Path
from urllib.parse import quote

from fsm_agent import CallContext, Reconciled, Toolbox, ToolError
from fsm_agent.core.replanning.prompt import replan

tools = Toolbox()
GIVEN = json.loads(os.environ["CANARIES"])


@tools.read(secret=["token", "session"])
def login(token: str, user: str, *, ctx: CallContext) -> dict:
    ctx.progress(note=f"logging {user} in with {token}")
    return {"session": GIVEN["result"], "user": user, "echo": f"Bearer {token}"}


@tools.read(secret=["pin", "config", "keys", "vault"])
def unlock(pin: int, config: dict, keys: list, session: str = "") -> dict:
    return {
        "vault": {"large": GIVEN["large"] * 200, "deep": [{"a": GIVEN["nested result"]}]},
        "seen": str(pin),
    }


@tools.read(secret=["token"])
def flaky(token: str) -> dict:
    try:
        raise ValueError(f"cause knows {token}")
    except ValueError as error:
        raise RuntimeError(f"GET https://api/?key={quote(token)} failed with {token!r}") from error


@tools.read(secret=["token"])
def missing(token: str) -> dict:
    raise ToolError("not_found", f"no session for {token}")


@tools.write(secret=["token"], confirm=True, timeout_s=5, settle_s=0)
def transfer(token: str, amount: int, note: str = "", *, ctx: CallContext) -> dict:
    raise ToolError("unclassified_error", f"connection lost after sending {token}", applied="maybe")


@transfer.reconcile
def find(token: str, amount: int, note: str = "", *, ctx: CallContext) -> Reconciled:
    return Reconciled.inconclusive(f"the service says nothing about {token}")


def keep(words):
    with Path(os.environ["PROMPTS"]).open("a") as file:
        file.write(words)


class Listening:
    """A planner that keeps what it is told, both as data and as the prompt that a model would get, and has no idea."""

    async def propose(self, briefing):
        keep(f"{json.dumps(briefing, ensure_ascii=False, default=str)}\n{replan(briefing)!r}\n")
        raise RuntimeError("no idea")


planner = Listening()
