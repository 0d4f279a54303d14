"""The rows of the commands that hand a person's word to a run."""

from typing import Final

from fsm_agent.faces.frame.spec import Command, Param, arg, opt
from fsm_agent.faces.table.shared import (
    ASKING,
    BY,
    FACES,
    FAILED,
    NOTE,
    RUN,
    SAYING,
    SPEAK,
    UNKNOWN,
)


def _word(
    name: str,
    help: str,  # noqa: A002
    *params: Param,
    handler: str = "",
    examples: tuple[str, ...] = (),
    when: str = "open",
) -> Command:
    """Return the row of a command that hands a person's word to a run."""
    return Command(
        name,
        SPEAK,
        help,
        (RUN, *params, BY),
        f"{FACES}speak.words:{handler or name}",
        "fsm_agent.faces.look.results:Said",
        f"{FACES}look.plain:said",
        f"{FACES}look.data:said",
        examples=examples,
        when=when,
    )


MEANT: Final = opt(
    "--digest",
    "the digest of the request that is meant, if it may have been followed by another",
    "HEX8",
)

ROWS: Final = (
    _word(
        "approve",
        "Say yes to exactly the call that was shown.",
        ASKING,
        opt("--digest", "at least the first 8 digits of the request's digest", "HEX8", required=True),
        NOTE,
        examples=("approve r-1f2e3d4c T6 --digest 9f3c71aa",),
    ),
    _word("reject", "Say no; the task is cancelled and the words are kept.", SAYING, MEANT, NOTE),
    _word(
        "edit",
        "Change arguments of a call that waits; it is asked again.",
        ASKING,
        arg("args", "arguments; V is JSON if it parses, else text", "K=V", kind="pairs", many=True),
        MEANT,
        NOTE,
        examples=("edit r-1f2e3d4c T6 amount=300",),
    ),
    _word(
        "answer",
        "Answer a question: a step's result, or what to do after a failure.",
        arg("task", "id of the task, or `run`", "TASK", kind="task", among="question"),
        arg("value", "the answer as JSON", "JSON", kind="json"),
        MEANT,
        NOTE,
        examples=(
            "answer r-1f2e3d4c T4 '{\"reimbursable\": true}'",
            'answer r-1f2e3d4c T6 \'{"decide": "retry"}\'',
        ),
    ),
    _word(
        "reconcile",
        "Say what became of an unknown result, or have it looked up.",
        UNKNOWN,
        opt(
            "--as",
            "what is known: applied or absent",
            "VERDICT",
            kind="choice",
            choices=("applied", "absent"),
            name="verdict",
        ),
        opt("--evidence", "how you know, in words", "TEXT", default=""),
        opt("--result", "the result, as JSON; with --as applied", "JSON", kind="json"),
        examples=(
            'reconcile r-1f2e3d4c T6 --as applied --evidence "seen in the portal" --result \'{"ticket_id": "R-5"}\'',
        ),
    ),
    _word("retry", "Let a failed task try again.", FAILED, NOTE),
    _word(
        "set",
        "Change inputs, constraints.KEY or budgets.KEY of a run.",
        arg("values", "what to set; V is JSON if it parses, else text", "K=V", kind="pairs", many=True),
        handler="set_values",
        examples=("set r-1f2e3d4c week=2026-W45 budgets.tool_calls=60",),
    ),
    Command(
        "replan",
        SPEAK,
        "Give a run another plan for what remains.",
        (
            RUN,
            opt("--plan", "the plan, in any form that is accepted", "FILE", kind="file", required=True),
            NOTE,
            BY,
        ),
        f"{FACES}speak.replans:replan",
        "fsm_agent.faces.speak.replans:Replanned",
        f"{FACES}speak.replans:plain",
        f"{FACES}speak.replans:data",
        about="What is done stays done, whether the plan names it or not; a call that was made is not made again under "
        "another id. A plan that would lose sight of an effect is refused, and nothing changes.",
        examples=('replan r-1f2e3d4c --plan other.json -m "the source is gone"',),
        when="open",
    ),
    _word("pause", "Start nothing more until `resume`.", NOTE),
    _word(
        "cancel",
        "Cancel a run once nothing is out.",
        opt(
            "--acknowledge",
            "tasks whose unknown effect is accepted as unknown",
            "TASK",
            kind="task",
            many=True,
        ),
        NOTE,
    ),
    _word(
        "note",
        "Put words into a run's log.",
        arg("text", "the words", "TEXT"),
        opt("--task", "the task that they are about", "TASK", kind="task"),
        when="",
    ),
)
