"""Every command is a row here, once; the command line, its help, and whatever else shows commands read it.

To add a command, add a row and write its handler.
"""

from typing import Final

from fsm_agent.faces.spec import Command, Param, arg, opt

DRIVE, SPEAK, LOOK, FILES = "Drive a run", "Speak as a person", "Look", "Files and simulations"
SECTIONS: Final = (DRIVE, SPEAK, LOOK, FILES)
GROUPS: Final = {
    "plan": "Check, show and draw plan files.",
    "rules": "Check, show, compare, draw and try rule tables.",
    "fsm": "Show the two state machines.",
}
"""First words of two-word commands."""
GROUP_SECTIONS: Final = {"plan": FILES, "rules": FILES, "fsm": LOOK}

_H = "fsm_agent.faces."
_STATUS = "fsm_agent.runtime.status:Status"
_RUN = arg("run", "id of the run", "RUN", kind="run")
_TASK = arg("task", "id of the task", "TASK", kind="task")
_BY = opt("--by", "who speaks; left out, the login name", "NAME")
_NOTE = opt("--note", "words that are kept beside it", "TEXT", short="-m", default="")
_TOOLS = opt("--tools", "the toolbox: MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE", "MOD:ATTR")
_WORKERS = opt("--workers", "calls at once; 4 when left out", "N", kind="count", default=4)
_OPERATOR = opt("--operator", "a scripted person who answers the run's questions", "FILE", kind="file")
_PLAN = arg("plan", "a plan file, or a directory that holds plan.json", "PLAN|DIR", kind="file")
_PLAN_FILE = arg("plan", "a plan file, or a directory that holds plan.json", "FILE", kind="file")
_INPUT = opt(
    "--input", "an input; V is JSON if it parses, else text", "K=V", kind="pairs", many=True, name="inputs"
)
_PARAM = opt("--param", "a threshold of the rule table", "K=V", kind="numbers", many=True, name="params")
_TABLE = arg("rules", "a shipped table, or a .toml file", "FILE", kind="file")
_RULES = opt("--rules", "a shipped rule table, or a .toml file", "NAME|FILE", kind="file")
_PLANNER = opt(
    "--planner",
    "who plans anew when the plan fails: model, none, or FILE.py:ATTRIBUTE",
    "model|none|MOD:ATTR",
)
_MODEL = (
    "--planner model asks an OpenAI-compatible endpoint: $FSM_AGENT_LLM_BASE_URL is its address, "
    "$FSM_AGENT_LLM_MODEL the model's name there, $FSM_AGENT_LLM_API_KEY its key, if it wants one "
    '(pip install "fsm-agent[llm]").'
)


def _word(
    name: str,
    help: str,  # noqa: A002
    *params: Param,
    handler: str = "",
    examples: tuple[str, ...] = (),
) -> Command:
    """Return the row of a command that hands a person's word to a run."""
    return Command(
        name,
        SPEAK,
        help,
        (_RUN, *params, _BY),
        f"{_H}words:{handler or name}",
        "fsm_agent.faces.results:Said",
        f"{_H}plain:said",
        f"{_H}data:said",
        examples=examples,
    )


COMMANDS: Final = (
    Command(
        "run",
        DRIVE,
        "Run a plan until it ends, or until only a person can move it on.",
        (
            _PLAN,
            _TOOLS,
            _RULES,
            _PARAM,
            _INPUT,
            opt("--run-id", "id of the new run; left out, one is made", "ID"),
            _OPERATOR,
            _PLANNER,
            _WORKERS,
        ),
        f"{_H}driving:run",
        "fsm_agent.faces.results:Finished",
        f"{_H}plain:finished",
        f"{_H}data:finished",
        about="A DIR holds plan.json, tools.py (attribute `tools`), and if wanted rules.toml, inputs.json and "
        "planner.py (attribute `planner`). On a terminal you are asked for approvals and answers; elsewhere nothing "
        "is ever asked. " + _MODEL,
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
        (_RUN, _TOOLS, _INPUT, _OPERATOR, _PLANNER, _WORKERS, _BY),
        f"{_H}driving:resume",
        "fsm_agent.faces.results:Finished",
        f"{_H}plain:finished",
        f"{_H}data:finished",
        about="Tools and planner are found where `run` found them; --tools and --planner override. --input gives "
        "secrets again, which the log does not hold.",
        examples=("resume r-1f2e3d4c", "resume r-1f2e3d4c --tools tools.py:tools"),
    ),
    Command(
        "wait",
        DRIVE,
        "Follow a run that another process drives, until it rests or ends.",
        (
            _RUN,
            opt("--for", "the state to wait for, as state=S", "state=S", name="until"),
            opt("--timeout", "give up after so many seconds (exit code 8)", "S", kind="seconds"),
        ),
        f"{_H}driving:wait",
        "fsm_agent.faces.results:Finished",
        f"{_H}plain:finished",
        f"{_H}data:finished",
        examples=("wait r-1f2e3d4c --for state=done --timeout 60",),
    ),
    _word(
        "approve",
        "Say yes to exactly the call that was shown.",
        _TASK,
        opt("--digest", "at least the first 8 digits of the request's digest", "HEX8", required=True),
        _NOTE,
        examples=("approve r-1f2e3d4c T6 --digest 9f3c71aa",),
    ),
    _word("reject", "Say no; the task is cancelled and the words are kept.", _TASK, _NOTE),
    _word(
        "edit",
        "Change arguments of a call that waits; it is asked again.",
        _TASK,
        arg("args", "arguments; V is JSON if it parses, else text", "K=V", kind="pairs", many=True),
        _NOTE,
        examples=("edit r-1f2e3d4c T6 amount=300",),
    ),
    _word(
        "answer",
        "Answer a question: a step's result, or what to do after a failure.",
        arg("task", "id of the task, or `run`", "TASK", kind="task"),
        arg("value", "the answer as JSON", "JSON", kind="json"),
        _NOTE,
        examples=(
            "answer r-1f2e3d4c T4 '{\"reimbursable\": true}'",
            'answer r-1f2e3d4c T6 \'{"decide": "retry"}\'',
        ),
    ),
    _word(
        "reconcile",
        "Say what became of an unknown result, or have it looked up.",
        _TASK,
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
    _word("retry", "Let a failed task try again.", _TASK, _NOTE),
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
            _RUN,
            opt("--plan", "the plan, in any form that is accepted", "FILE", kind="file", required=True),
            _NOTE,
            _BY,
        ),
        f"{_H}replans:replan",
        "fsm_agent.faces.replans:Replanned",
        f"{_H}replans:plain",
        f"{_H}replans:data",
        about="What is done stays done, whether the plan names it or not; a call that was made is not made again under "
        "another id. A plan that would lose sight of an effect is refused, and nothing changes.",
        examples=('replan r-1f2e3d4c --plan other.json -m "the source is gone"',),
    ),
    _word("pause", "Start nothing more until `resume`.", _NOTE),
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
        _NOTE,
    ),
    _word(
        "note",
        "Put words into a run's log.",
        arg("text", "the words", "TEXT"),
        opt("--task", "the task that they are about", "TASK", kind="task"),
    ),
    Command(
        "status",
        LOOK,
        "Show how a run stands, what it waits for, and what to type next.",
        (_RUN,),
        f"{_H}reading:status",
        _STATUS,
        f"{_H}plain:status",
        f"{_H}data:status",
    ),
    Command(
        "why",
        LOOK,
        "Say why something was decided, and what a task waits for.",
        (
            _RUN,
            arg(
                "subject",
                "a task's id, or an event's number; left out, the run",
                "TASK|SEQ",
                kind="task",
                required=False,
            ),
        ),
        f"{_H}explaining:why",
        "fsm_agent.core.audit.why:Why",
        f"{_H}explaining:plain",
        f"{_H}explaining:data",
        about="Of a decision it shows the row and its line, the facts, the rows that nearly answered with the fact "
        "that each missed, and what would have changed it.",
        examples=("why r-1f2e3d4c", "why r-1f2e3d4c T6", "why r-1f2e3d4c 41 --json"),
    ),
    Command(
        "events",
        LOOK,
        "List the events of a run, oldest first.",
        (
            _RUN,
            opt("--since", "only those after this number", "N", kind="integer", default=0),
            opt("--follow", "wait for more until the run ends", "", short="-f", kind="flag", default=False),
        ),
        f"{_H}reading:events",
        "fsm_agent.faces.results:Line",
        f"{_H}plain:event",
        f"{_H}data:events",
        line=f"{_H}data:event_line",
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
            _BY,
        ),
        f"{_H}keeping:runs",
        "fsm_agent.faces.results:Runs",
        f"{_H}plain:runs",
        f"{_H}data:runs",
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
        f"{_H}auditing:audit",
        "fsm_agent.faces.results:Audits",
        f"{_H}plain:audits",
        f"{_H}data:audits",
        about="A run of the store is compared with the head that is kept beside the store, or in the directory "
        "$FSM_AGENT_ANCHORS. Without a head a cut at the border of a batch does not show.",
        examples=("audit r-1f2e3d4c", "audit run.jsonl --head heads.jsonl --key sign.pub --json"),
    ),
    Command(
        "export",
        LOOK,
        "Write a run's log as a file that anybody can verify.",
        (
            _RUN,
            opt(
                "--format", "the only one so far", "jsonl", kind="choice", choices=("jsonl",), default="jsonl"
            ),
            opt("--output", "the file; left out, standard output", "FILE", short="-o", kind="file"),
        ),
        f"{_H}reading:export",
        "fsm_agent.faces.results:Exported",
        f"{_H}plain:exported",
        f"{_H}data:exported",
        examples=("export r-1f2e3d4c -o run.jsonl",),
    ),
    Command(
        "import",
        LOOK,
        "Take an exported log into the store.",
        (arg("log", "the log file", "LOG", kind="file"),),
        f"{_H}reading:take_in",
        "fsm_agent.stores.transfer:Imported",
        f"{_H}plain:imported",
        f"{_H}data:imported",
    ),
    Command(
        "key",
        FILES,
        "Make a key pair for signed checkpoints.",
        (arg("file", "the private key; the public one goes to FILE.pub", "FILE", kind="file"),),
        f"{_H}keeping:key",
        "fsm_agent.faces.keeping:KeyPair",
        f"{_H}keeping:plain_key",
        f"{_H}keeping:data_key",
        about="Name the private key in $FSM_AGENT_SIGNING_KEY where runs are driven, and the public one in "
        "audit --key where they are audited. Keep them apart.",
        examples=("key sign.key",),
    ),
    Command(
        "history",
        LOOK,
        "Show what a run, or all runs of the store, taught.",
        (arg("run", "id of a run; left out, all runs of the store", "RUN", kind="run", required=False),),
        f"{_H}histories:history",
        "fsm_agent.core.audit.history:History",
        f"{_H}histories:plain",
        f"{_H}histories:data",
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
        f"{_H}drawings:fsm_show",
        "fsm_agent.faces.drawings:Drawing",
        f"{_H}drawings:plain",
        f"{_H}drawings:data",
    ),
    Command(
        "plan check",
        FILES,
        "Report every fault of a plan, and what deserves a look.",
        (_PLAN_FILE, _TOOLS),
        f"{_H}files:plan_check",
        "fsm_agent.faces.files:Checked",
        f"{_H}plainfiles:checked",
        f"{_H}datafiles:checked",
        examples=("plan check examples/reimbursement", "plan check plan.json --tools tools.py:tools"),
    ),
    Command(
        "plan show",
        FILES,
        "Show a plan's steps as they will be run.",
        (_PLAN_FILE,),
        f"{_H}files:plan_show",
        "fsm_agent.runtime.plans:Plan",
        f"{_H}plainfiles:plan",
        f"{_H}datafiles:plan",
    ),
    Command(
        "plan graph",
        FILES,
        "Draw a plan's steps from left to right.",
        (
            _PLAN_FILE,
            opt(
                "--format",
                "text, mermaid or dot",
                "FORMAT",
                kind="choice",
                choices=("text", "mermaid", "dot"),
                default="text",
            ),
        ),
        f"{_H}drawings:plan_graph",
        "fsm_agent.faces.drawings:Drawing",
        f"{_H}drawings:plain",
        f"{_H}drawings:data",
    ),
    Command(
        "plan diff",
        FILES,
        "Show what one plan has of another: kept, changed, new, removed.",
        (
            arg("a", "the old plan", "A", kind="file"),
            arg("b", "the new one", "B", kind="file"),
            opt("--lang", "en or zh", "LANG", kind="choice", choices=("en", "zh"), default="en"),
            opt(
                "--format",
                "text or mermaid",
                "FORMAT",
                kind="choice",
                choices=("text", "mermaid"),
                default="text",
            ),
        ),
        f"{_H}plandiff:plan_diff",
        "fsm_agent.faces.plandiff:Compared",
        f"{_H}plandiff:plain",
        f"{_H}plandiff:data",
        about="A step that is in both and not the same is new, with what differs beneath it; the result of a kept step "
        "is taken over. Descriptions of calls do not count.",
        examples=("plan diff old.json new.json", "plan diff old.json new.json --lang zh"),
    ),
    Command(
        "plan make",
        FILES,
        "Have a model make a first plan for a goal; nothing is run.",
        (
            opt("--goal", "what is to be reached, in words", "TEXT", required=True),
            opt(
                "--tools",
                "the toolbox: MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE",
                "MOD:ATTR",
                required=True,
            ),
            _INPUT,
            opt("--output", "the file; left out, standard output", "FILE", short="-o", kind="file"),
        ),
        f"{_H}making:plan_make",
        "fsm_agent.faces.making:Written",
        f"{_H}making:plain",
        f"{_H}making:data",
        about="The answer is checked against the tools; one that does not fit is asked for again with its faults, three "
        "answers at most. Calls that change the world ask a person first. "
        + _MODEL.replace("--planner model asks", "It asks"),
        examples=('plan make --goal "file last week\'s taxi rides" --tools tools.py:tools -o plan.json',),
    ),
    Command(
        "rules check",
        FILES,
        "Prove rule tables sound, or show where they are not.",
        (arg("rules", "shipped tables, or .toml files", "FILE", kind="file", many=True), _PARAM),
        f"{_H}rulefiles:rules_check",
        "fsm_agent.faces.rulefiles:Checks",
        f"{_H}plainrules:checks",
        f"{_H}datarules:checks",
        about="A sound table answers everything with exactly one row, breaks no law, and comes to an end. "
        "Exit code 3 when one is not sound.",
        examples=("rules check default", "rules check mine.toml --param retries=1 --json"),
    ),
    Command(
        "rules show",
        FILES,
        "Show a rule table, row by row.",
        (_TABLE, _PARAM),
        f"{_H}rulefiles:rules_show",
        "fsm_agent.core.rules.table:Table",
        f"{_H}plainrules:table",
        f"{_H}datarules:table",
    ),
    Command(
        "rules diff",
        FILES,
        "Show where two rule tables decide differently.",
        (arg("a", "a table", "A", kind="file"), arg("b", "another one", "B", kind="file")),
        f"{_H}rulefiles:rules_diff",
        "fsm_agent.faces.rulefiles:Compared",
        f"{_H}plainrules:compared",
        f"{_H}datarules:compared",
        examples=("rules diff default conservative", "rules diff default mine.toml --json"),
    ),
    Command(
        "rules graph",
        FILES,
        "Draw a rule table as a Mermaid flow chart.",
        (_TABLE,),
        f"{_H}rulefiles:rules_graph",
        "fsm_agent.faces.drawings:Drawing",
        f"{_H}drawings:plain",
        f"{_H}drawings:data",
    ),
    Command(
        "rules test",
        FILES,
        "Ask a rule table what it would decide, and why.",
        (
            _TABLE,
            arg(
                "state",
                "the state that fires, or run",
                "STATE",
                kind="choice",
                choices=("done", "failed", "unknown-result", "cancelled", "run"),
            ),
            arg("signal", "what happened", "SIGNAL"),
            arg(
                "facts",
                "facts; those left out are as at first",
                "FACT=VALUE",
                kind="pairs",
                many=True,
                required=False,
            ),
            _PARAM,
        ),
        f"{_H}rulefiles:rules_test",
        "fsm_agent.faces.rulefiles:Trial",
        f"{_H}plainrules:trial",
        f"{_H}datarules:trial",
        examples=("rules test default failed transient_error effect=write applied=no retries_left=0",),
    ),
    Command(
        "simulate",
        FILES,
        "Run scenarios in a simulated world and compare with what they expect.",
        (
            arg(
                "scenarios", "scenario files, or directories of them", "SCENARIO|DIR", kind="file", many=True
            ),
            _RULES,
            opt("--seed", "of chance; equal seeds give equal runs", "N", kind="integer", default=0),
        ),
        f"{_H}files:simulations",
        "fsm_agent.faces.files:Simulated",
        f"{_H}plainfiles:simulated",
        f"{_H}datafiles:simulated",
    ),
)


BY_NAME: Final = {command.name: command for command in COMMANDS}
"""Name → row."""
