"""The rows of the commands that look back: logs stepped through, asked what if, branched off, told, handed on."""

from typing import Final

from fsm_agent.faces.frame.spec import Command, arg, opt
from fsm_agent.faces.table.shared import BY, FACES, LOOK, NOTE, PARAM, RUN, SPEAK

LOG = arg(
    "log", "a log file or a report (- for standard input), or a run of the store", "LOG|RUN", kind="file"
)

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
    Command(
        "what-if",
        LOOK,
        "Ask another rule table about every decision of some logs.",
        (
            arg(
                "logs",
                "log files, runs of the store, or directories of logs",
                "LOG|RUN|DIR",
                kind="file",
                many=True,
            ),
            opt(
                "--rules",
                "the other table: a shipped one, or a .toml file",
                "NAME|FILE",
                kind="file",
                required=True,
            ),
            PARAM,
            opt("--world", "a scenario whose world goes on where the log ends", "SCENARIO", kind="file"),
            opt("--seed", "of chance in that world", "N", kind="integer", default=0),
        ),
        f"{FACES}replay.whatifs:what_ifs",
        "fsm_agent.faces.replay.whatifs:Asked",
        f"{FACES}replay.whatifs:plain",
        f"{FACES}replay.whatifs:data",
        about="The tables are compared first: where they decide alike everywhere, no log can differ. Then each decision "
        "is made again by the other table, in the state as it was. Along a run that holds up to the first decision "
        "that differs; what the world would have answered beyond it is known only to a declared world, and what that "
        "one shows is hypothetical.",
        examples=(
            "what-if run.jsonl --rules conservative",
            "what-if logs/ --rules default --param retries=1 --json",
            "what-if run.jsonl --rules mine.toml --world scenario.json",
        ),
    ),
    Command(
        "report",
        LOOK,
        "Write one HTML file that tells a run, and carries the log that proves it.",
        (
            LOG,
            opt("--output", "the file", "X.html", short="-o", kind="file", required=True),
        ),
        f"{FACES}replay.reporting:report",
        "fsm_agent.faces.replay.reporting:Written",
        f"{FACES}replay.reporting:plain",
        f"{FACES}replay.reporting:data",
        about="The file needs nothing else: no script, no address. What it says can be checked against the log in it: "
        "audit, replay, why, what-if, import and report take it wherever they take a log file.",
        examples=("report r-1f2e3d4c -o run.html", "report run.jsonl -o run.html"),
    ),
    Command(
        "fork",
        SPEAK,
        "Begin a new run with the first events of another.",
        (
            RUN,
            opt("--at", "the last event to keep", "SEQ", kind="integer", required=True),
            opt("--run-id", "id of the new run; left out, one is made", "ID"),
            NOTE,
            BY,
        ),
        f"{FACES}replay.forking:fork",
        "fsm_agent.runtime.driving.forking:Forked",
        f"{FACES}replay.forking:plain",
        f"{FACES}replay.forking:data",
        about="Results are kept; what people approved is asked anew. What the run, or another fork of it, did behind the "
        "cut is done in the new one too, with the result it had, and never made again; keys are those of the first run. "
        "While a run of the family could still act, or one of its effects is unknown, nothing is forked.",
        examples=("fork r-1f2e3d4c --at 41", 'fork r-1f2e3d4c --at 41 -m "with another flight"'),
    ),
)
