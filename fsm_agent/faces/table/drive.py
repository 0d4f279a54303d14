"""The rows of the commands that drive a run."""

from typing import Final

from fsm_agent.faces.frame.spec import Command, arg, opt
from fsm_agent.faces.table.shared import (
    BY,
    DRIVE,
    FACES,
    INPUT,
    JOB,
    MODEL,
    OPERATOR,
    PLAN,
    PLANNER,
    RUN,
    TOOLS,
    WATCH,
    WORKERS,
)

ROWS: Final = (
    Command(
        "run",
        DRIVE,
        "Run a plan until it ends, or until only a person can move it on.",
        (
            PLAN,
            *JOB,
            OPERATOR,
            WATCH,
        ),
        f"{FACES}drive.driving:run",
        "fsm_agent.faces.look.results:Finished",
        f"{FACES}look.plain:finished",
        f"{FACES}look.data:finished",
        about="A DIR holds plan.json, tools.py (attribute `tools`), and if wanted rules.toml, repairs.toml, inputs.json "
        "and planner.py (attribute `planner`). On a terminal you are asked for approvals and answers; elsewhere nothing "
        "is ever asked. " + MODEL,
        examples=(
            "run examples/reimbursement",
            "run plan.json --tools tools.py:tools --input week=2026-W46 --json",
            "run plan.json --tools tools.py:tools --planner model",
        ),
    ),
    Command(
        "resume",
        DRIVE,
        "Take a run over, lift a pause or an abort, and go on.",
        (RUN, TOOLS, INPUT, OPERATOR, PLANNER, WORKERS, BY, WATCH),
        f"{FACES}drive.driving:resume",
        "fsm_agent.faces.look.results:Finished",
        f"{FACES}look.plain:finished",
        f"{FACES}look.data:finished",
        about="Tools and planner are found where `run` found them; --tools and --planner override. --input gives "
        "secrets again, which the log does not hold.",
        examples=("resume r-1f2e3d4c", "resume r-1f2e3d4c --tools tools.py:tools"),
    ),
    Command(
        "wait",
        DRIVE,
        "Follow a run that another process drives, until it rests or ends.",
        (
            RUN,
            opt("--for", "the state to wait for, as state=S", "state=S", name="until"),
            opt("--timeout", "give up after so many seconds (exit code 8)", "S", kind="seconds"),
        ),
        f"{FACES}drive.driving:wait",
        "fsm_agent.faces.look.results:Finished",
        f"{FACES}look.plain:finished",
        f"{FACES}look.data:finished",
        examples=("wait r-1f2e3d4c --for state=done --timeout 60",),
    ),
    Command(
        "repl",
        DRIVE,
        "Drive a run line by line: step it, stop where it matters, ask why, approve, go on.",
        (
            arg("where", "a plan to begin a run of, or a run", "PLAN|DIR|RUN", kind="file", required=False),
            opt("--commands", "commands instead of a person, with ; between them", "CMDS", short="-c"),
            opt(
                "--file",
                "a file of commands, one a line; - is standard input",
                "FILE",
                short="-f",
                kind="file",
            ),
            opt("--echo", "in a script, show each command before it", "", kind="flag", default=False),
            opt(
                "--keep-going",
                "in a script, go on after an error; the exit code is that of the first one",
                "",
                kind="flag",
                default=False,
            ),
            *JOB,
        ),
        f"{FACES}repl.session:repl",
        f"{FACES}repl.session:Session",
        f"{FACES}repl.session:plain",
        f"{FACES}repl.session:data",
        about="At a terminal, help lists what can be typed, and Tab offers what makes sense now. A script, from -c, -f or a "
        "pipe, stops at the first error with its exit code, and approves only with --digest. With --jsonl one object "
        "per command.",
        examples=(
            "repl examples/reimbursement",
            "repl r-1f2e3d4c",
            "repl plan.json --tools tools.py:tools -c 'run until T6; status'",
        ),
    ),
)
