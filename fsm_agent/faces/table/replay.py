"""The rows of the commands that look back: logs stepped through, asked what if, branched off, told, handed on."""

from typing import Final

from fsm_agent.faces.frame.spec import Command, arg, opt
from fsm_agent.faces.table.shared import FACES, LOOK

LOG = arg("log", "a log file, a report, or a run of the store", "LOG|RUN", kind="file")

ROWS: Final = (
    Command(
        "replay",
        LOOK,
        "Show how a run stood at any event of its log.",
        (
            LOG,
            opt("--until", "the event; left out, the last", "SEQ", kind="integer"),
            opt(
                "--break",
                "list the events with task=ID, signal=NAME or decision=NAME (joined by commas)",
                "COND",
                name="breaks",
                many=True,
            ),
            opt("--first", "stand at the first of these, not at the end", "", kind="flag", default=False),
        ),
        f"{FACES}replay.replaying:replay",
        "fsm_agent.faces.replay.replaying:Place",
        f"{FACES}replay.replaying:plain",
        f"{FACES}replay.replaying:data",
        about="Nothing is called and nothing is changed: the state is the fold of the events up to there.",
        examples=(
            "replay run.jsonl --until 41",
            "replay r-1f2e3d4c --break task=T6,decision=retry --break signal=outcome_unknown",
            "replay r-1f2e3d4c --break decision=escalate --first --json",
        ),
    ),
)
