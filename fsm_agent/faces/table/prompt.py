"""The rows of the commands that exist at the prompt alone, and what the prompt takes over from the command line.

A row here replaces the one of the same name on the command line.
"""

from typing import Final

from fsm_agent.faces.frame.spec import Command, Param, arg, opt
from fsm_agent.faces.table import COMMANDS
from fsm_agent.faces.table.shared import (
    ASKING,
    BY,
    DRIVE,
    FACES,
    INPUT,
    JOB,
    LOOK,
    NOTE,
    PLAN,
    RUN,
    SPEAK,
    TOOLS,
)

ELSEWHERE: Final = frozenset({"repl", "resume", "wait", "completion", "key"})
"""Commands of the command line that the prompt does not have, or has in another form."""

_HERE = f"{FACES}repl.commands:"
_SHOW = f"{FACES}repl.showing:"
_COND = "a task, TASK:STATE, state=S, signal=NAME, decision=NAME or budget.NAME<N%"


def _drives(name: str, help: str, *params: Param, examples: tuple[str, ...]) -> Command:  # noqa: A002
    return Command(
        name,
        DRIVE,
        help,
        params,
        f"{_HERE}{name}",
        f"{FACES}repl.results:Driven",
        f"{_SHOW}driven",
        f"{_SHOW}driven_data",
        examples=examples,
        when="open",
    )


def _looks(
    name: str,
    help: str,  # noqa: A002
    *params: Param,
    result: str,
    examples: tuple[str, ...] = (),
    when: str = "run",
) -> Command:
    handler = {"break": "break_"}.get(name, name.replace(" ", "_"))
    return Command(
        name,
        LOOK,
        help,
        params,
        f"{_HERE}{handler}",
        f"{FACES}repl.results:{result}",
        f"{_SHOW}{result.lower()}",
        f"{_SHOW}{result.lower()}_data",
        examples=examples,
        when=when,
    )


PROMPT: Final = (
    Command(
        "load",
        DRIVE,
        "Begin a run of a plan; nothing starts until it is driven.",
        (PLAN, *JOB),
        f"{_HERE}load",
        f"{FACES}repl.results:Seated",
        f"{_SHOW}seated",
        f"{_SHOW}seated_data",
        examples=("load examples/reimbursement", "load plan.json --tools tools.py:tools"),
    ),
    Command(
        "attach",
        DRIVE,
        "Go to another run of the store; it is taken over once it is driven from here.",
        (arg("name", "id of the run", "RUN", kind="run"), TOOLS, INPUT),
        f"{_HERE}attach",
        f"{FACES}repl.results:Seated",
        f"{_SHOW}seated",
        f"{_SHOW}seated_data",
        about="If another process drives it, its events are shown here and your words go to its inbox.",
        examples=("attach r-1f2e3d4c",),
    ),
    _drives(
        "run",
        "Let the run go on until it rests, ends, or comes to a break point.",
        arg(
            "how",
            "until CONDITION to stop there, & to go on behind the prompt",
            "until CONDITION|&",
            kind="condition",
            many=True,
            required=False,
        ),
        examples=("run", "run until T6", "run &"),
    ),
    _drives("step", "Let what is ready start once, and stop there.", examples=("step",)),
    _drives(
        "until",
        "Let the run go on until a condition comes; of a task: before it starts.",
        arg("condition", _COND, "CONDITION", kind="condition"),
        examples=("until T6", "until T6:done", "until state=unknown-result", "until signal=transient_error"),
    ),
    _looks(
        "break",
        "Set a break point, or show them all; break rm N removes one.",
        arg(
            "words",
            f"{_COND}; or rm and a number",
            "CONDITION|rm N",
            kind="condition",
            many=True,
            required=False,
        ),
        result="Breaks",
        examples=("break T6", "break decision=replan*", "break", "break rm 1"),
    )._replace(changes=True),
    Command(
        "approve",
        SPEAK,
        "Say yes to exactly the call that is shown.",
        (
            RUN,
            ASKING,
            opt("--digest", "at least the first 8 digits of the request's digest", "HEX8"),
            NOTE,
            BY,
        ),
        f"{_HERE}approve",
        "fsm_agent.faces.look.results:Said",
        f"{FACES}look.plain:said",
        f"{FACES}look.data:said",
        about="At a terminal the call is shown and you type how its digest begins; a script must say the digest.",
        examples=("approve T5", "approve T5 --digest 9f3c71aa"),
        when="open",
    ),
    Command(
        "resume",
        SPEAK,
        "Lift a pause or an abort; run lets it go on.",
        (RUN, NOTE, BY),
        f"{FACES}speak.words:resume",
        "fsm_agent.faces.look.results:Said",
        f"{FACES}look.plain:said",
        f"{FACES}look.data:said",
        when="stopped",
    ),
    _looks(
        "plan",
        "Show the plan in force with the state of each step, or one step with its arguments.",
        arg("task", "id of a step; left out, all", "TASK", kind="task", required=False),
        result="Planned",
        examples=("plan", "plan T6"),
    ),
    _looks("validate", "Check the plan in force against its tools.", result="Valid"),
    _looks(
        "diff",
        "Show what differs between two versions of the run's plan.",
        arg("a", "a version; left out, the one before", "A", kind="count", required=False),
        arg("b", "another; left out, the one in force", "B", kind="count", required=False),
        result="Changed",
        examples=("diff", "diff 1 3"),
    )._replace(plain=f"{FACES}plans.diff:plain", data=f"{FACES}plans.diff:data"),
    _looks(
        "show",
        "Show one event as the log has it.",
        arg("seq", "its number", "SEQ", kind="count"),
        result="Shown",
        examples=("show 21",),
    ),
    _looks("budget", "Show what was used of each budget, and what is left.", result="Spent"),
    _looks(
        "rules explain",
        "Show a row of the run's rule table, and how often it decided.",
        arg("row", "id of the row", "ROW", kind="row"),
        result="Row",
        examples=("rules explain unknown-write-reconcile",),
    ),
    Command(
        "save",
        LOOK,
        "Write the run's log as a file that anybody can verify.",
        (RUN, arg("output", "the file", "FILE", kind="file")),
        f"{_HERE}save",
        "fsm_agent.faces.look.results:Exported",
        f"{FACES}look.plain:exported",
        f"{FACES}look.data:exported",
        examples=("save run.jsonl",),
        changes=True,
    ),
    _looks(
        "help",
        "Say what can be typed now, or what a command does.",
        arg("words", "a command", "COMMAND", kind="command", many=True, required=False),
        result="Help",
        examples=("help", "help approve"),
        when="",
    ),
    _looks("quit", "Leave; the run can be gone on with later.", result="Left", when="")._replace(
        changes=True
    ),
)
"""Rows of the prompt alone."""

_OWN = {row.name for row in PROMPT}
AT_PROMPT: Final = {
    row.name: row
    for row in (*PROMPT, *(row for row in COMMANDS if row.name not in _OWN and row.name not in ELSEWHERE))
}
"""Name → row, of everything that the prompt takes."""
ALIASES: Final = {
    "s": "step",
    "r": "run",
    "st": "status",
    "w": "why",
    "a": "approve",
    "ev": "events",
    "g": "graph",
    "b": "break",
    "h": "help",
    "q": "quit",
    "use": "attach",
    "whatif": "what-if",
    "exit": "quit",
}
"""Short names."""
