"""Writes the golden logs of this version: what it writes today must be read for ever.

They are written once, when a version is released, and never again: the logs of released versions stay as they are, and
``tests/golden`` replays all of them with today's code. Before a release they are written anew as the formats settle.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from fsm_agent.core.audit import replay  # noqa: E402 - the package beside this file
from fsm_agent.core.audit.audit import audit  # noqa: E402
from fsm_agent.core.engine.decide import state_digest  # noqa: E402
from fsm_agent.stores.memory import MemoryStore  # noqa: E402
from fsm_agent.stores.transfer import export_run  # noqa: E402
from fsm_agent.testing.scenario import load  # noqa: E402
from fsm_agent.testing.simulate import simulate  # noqa: E402
from fsm_agent.version import VERSION  # noqa: E402

SCENARIOS = ROOT / "tests" / "scenarios"
GOLDEN = ROOT / "tests" / "golden"
CHOSEN = (
    "seeds/001-a-missing-source-becomes-a-detour",
    "seeds/002-a-restart-keeps-the-breaker",
    "seeds/002-when-the-replans-are-spent-a-person-is-asked",
    "seeds/003-a-ticket-made-before-the-time-out-is-found",
    "seeds/003-killed-while-the-ticket-is-made",
    "seeds/000-local-local-global-in-this-order",
    "seeds/003-evidence-in-conflict-is-a-matter-for-a-person",
)
"""One of each kind of course; with those of the folders below."""
FOLDERS = ("approval", "budget", "cancel", "double-effect", "growing", "reference", "timeout")


def chosen() -> list[Path]:
    """Return the scenarios whose logs are kept: those that are named, and the first of every folder."""
    named = [SCENARIOS / f"{name}.json" for name in CHOSEN]
    return named + [min((SCENARIOS / folder).glob("*.json")) for folder in FOLDERS]


def main() -> int:
    """Write the logs and what must come out of them."""
    folder = GOLDEN / VERSION
    folder.mkdir(parents=True, exist_ok=True)
    index = {}
    for path in chosen():
        store = MemoryStore()
        result = simulate(load(path), store=store)
        if not result.ok:
            print(f"{path.name}: {result.failures[0]}; nothing was written for it")
            return 1
        with (folder / f"{path.stem}.jsonl").open("wb") as out:
            head = export_run(store, "simulation", out)
        records = list(store.read("simulation"))
        index[path.stem] = {
            "events": head.seq,
            "hash": head.hash.hex(),
            "state": state_digest(replay.replay("simulation", records, store.blob)),
            "verdict": audit("simulation", records, store.blob).verdict,
        }
        print(f"{path.stem}: {head.seq} events")
    (folder / "index.json").write_text(json.dumps(index, indent=1, sort_keys=True) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
