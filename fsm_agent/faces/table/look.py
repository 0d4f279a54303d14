"""The rows of the commands that look."""

from typing import Final

from fsm_agent.faces.frame.spec import Command, Param, arg, opt
from fsm_agent.faces.table.shared import (
    BY,
    FACES,
    LOOK,
    RUN,
    STATUS,
)

ROWS: Final = (
    Command(
        "status",
        LOOK,
        "Show how a run stands, what it waits for, and what to type next.",
        (RUN,),
        f"{FACES}look.reading:status",
        STATUS,
        f"{FACES}look.plain:status",
        f"{FACES}look.data:status",
    ),
    Command(
        "why",
        LOOK,
        "Say why something was decided, and what a task waits for.",
        (
            RUN,
            arg(
                "subject",
                "a task's id, or an event's number; left out, the run",
                "TASK|SEQ",
                kind="task",
                required=False,
            ),
        ),
        f"{FACES}look.explaining:why",
        "fsm_agent.core.audit.why:Why",
        f"{FACES}look.explaining:plain",
        f"{FACES}look.explaining:data",
        about="Of a decision it shows the row and its line, the facts, the rows that nearly answered with the fact "
        "that each missed, and what would have changed it.",
        examples=("why r-1f2e3d4c", "why r-1f2e3d4c T6", "why r-1f2e3d4c 41 --json"),
    ),
    Command(
        "events",
        LOOK,
        "List the events of a run, oldest first.",
        (
            RUN,
            opt("--since", "only those after this number", "N", kind="integer", default=0),
            opt("--follow", "wait for more until the run ends", "", short="-f", kind="flag", default=False),
        ),
        f"{FACES}look.reading:events",
        "fsm_agent.faces.look.results:Line",
        f"{FACES}look.plain:event",
        f"{FACES}look.data:events",
        line=f"{FACES}look.data:event_line",
        about="With --jsonl the lines are those of an exported log, byte for byte.",
        examples=("events r-1f2e3d4c -f", "events r-1f2e3d4c --since 40 --jsonl"),
    ),
    Command(
        "runs",
        LOOK,
        "List the runs of the store, oldest first, or remove old ones.",
        (
            Param(
                "what",
                "list, which is also what happens without it, or gc to remove old runs",
                "choice",
                metavar="list|gc",
                choices=("list", "gc"),
                default="list",
            ),
            opt("--older-than", "for gc: a number and s, m, h, d or w, such as 30d", "AGE"),
            BY,
        ),
        f"{FACES}look.keeping:runs",
        "fsm_agent.faces.look.results:Runs",
        f"{FACES}look.plain:runs",
        f"{FACES}look.data:runs",
        about="gc removes runs that are done or cancelled, have no unknown effect, and were not touched for AGE. "
        "Others are kept, and it is said why. What is left of a removed run is where its log ended.",
        examples=("runs", "runs gc --older-than 30d"),
    ),
    Command(
        "audit",
        LOOK,
        "Prove from the log alone that every event, move and decision was right.",
        (
            arg("log", "a log file, a run of the store, or a directory of logs", "LOG|RUN|DIR", kind="file"),
            opt("--head", "a file of heads kept outside the log; shows a cut tail", "FILE", kind="file"),
            opt(
                "--key",
                "a public key; its signed checkpoints show any change before them",
                "FILE",
                kind="file",
            ),
        ),
        f"{FACES}look.auditing:audit",
        "fsm_agent.faces.look.results:Audits",
        f"{FACES}look.plain:audits",
        f"{FACES}look.data:audits",
        about="A run of the store is compared with the head that is kept beside the store, or in the directory "
        "$FSM_AGENT_ANCHORS. Without a head a cut at the border of a batch does not show.",
        examples=("audit r-1f2e3d4c", "audit run.jsonl --head heads.jsonl --key sign.pub --json"),
    ),
    Command(
        "export",
        LOOK,
        "Write a run's log as a file that anybody can verify.",
        (
            RUN,
            opt(
                "--format",
                "jsonl, which can be verified; ocel for process mining; cloudevents for listeners",
                "FORMAT",
                kind="choice",
                choices=("jsonl", "ocel", "cloudevents"),
                default="jsonl",
            ),
            opt("--output", "the file; left out, standard output", "FILE", short="-o", kind="file"),
        ),
        f"{FACES}look.reading:export",
        "fsm_agent.faces.look.results:Exported",
        f"{FACES}look.plain:exported",
        f"{FACES}look.data:exported",
        examples=("export r-1f2e3d4c -o run.jsonl", "export r-1f2e3d4c --format ocel -o run.json"),
    ),
    Command(
        "import",
        LOOK,
        "Take an exported log into the store.",
        (arg("log", "the log file", "LOG", kind="file"),),
        f"{FACES}look.reading:take_in",
        "fsm_agent.stores.transfer:Imported",
        f"{FACES}look.plain:imported",
        f"{FACES}look.data:imported",
    ),
    Command(
        "history",
        LOOK,
        "Show what a run, or all runs of the store, taught.",
        (arg("run", "id of a run; left out, all runs of the store", "RUN", kind="run", required=False),),
        f"{FACES}look.histories:history",
        "fsm_agent.core.audit.history:History",
        f"{FACES}look.histories:plain",
        f"{FACES}look.histories:data",
        about="Errors and tools by frequency, replans by what made them necessary with what each cost and whether a "
        "step was newly done after it, and the strategies that were tried.",
        examples=("history r-1f2e3d4c", "history --json"),
    ),
    Command(
        "fsm show",
        LOOK,
        "Show the state table of a task or of a run.",
        (
            Param(
                "machine", "which one", "choice", metavar="task|run", required=True, choices=("task", "run")
            ),
            opt(
                "--format",
                "text, mermaid or dot",
                "FORMAT",
                kind="choice",
                choices=("text", "mermaid", "dot"),
                default="text",
            ),
        ),
        f"{FACES}drawing.drawings:fsm_show",
        "fsm_agent.faces.drawing.drawings:Drawing",
        f"{FACES}drawing.drawings:plain",
        f"{FACES}drawing.drawings:data",
    ),
)
