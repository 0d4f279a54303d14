"""What many rows share: sections, parameters, where handlers live."""

from fsm_agent.faces.frame.spec import arg, opt

DRIVE, SPEAK, LOOK, FILES = "Drive a run", "Speak as a person", "Look", "Files and simulations"

FACES = "fsm_agent.faces."
STATUS = "fsm_agent.runtime.driving.status:Status"
RUN = arg("run", "id of the run", "RUN", kind="run")
TASK = arg("task", "id of the task", "TASK", kind="task")
ASKING, SAYING, FAILED, UNKNOWN = (
    TASK._replace(among=which) for which in ("approval", "saying", "retry", "reconcile")
)
BY = opt("--by", "who speaks; left out, the login name", "NAME", setting="by")
NOTE = opt("--note", "words that are kept beside it", "TEXT", short="-m", default="")
TOOLS = opt("--tools", "the toolbox: MODULE:ATTRIBUTE or FILE.py:ATTRIBUTE", "MOD:ATTR")
WORKERS = opt("--workers", "calls at once; 4 when left out", "N", kind="count", setting="workers")
OPERATOR = opt("--operator", "a scripted person who answers the run's questions", "FILE", kind="file")
WATCH = opt("--watch", "a table of the run that keeps itself up to date", "", kind="flag", default=False)
PLAN = arg("plan", "a plan file, or a directory that holds plan.json", "PLAN|DIR", kind="file")
PLAN_FILE = arg("plan", "a plan file, or a directory that holds plan.json", "FILE", kind="file")
INPUT = opt(
    "--input", "an input; V is JSON if it parses, else text", "K=V", kind="pairs", many=True, name="inputs"
)
PARAM = opt("--param", "a threshold of the rule table", "K=V", kind="numbers", many=True, name="params")
TABLE = arg("rules", "a shipped table, or a .toml file", "FILE", kind="file")
RULES = opt("--rules", "a shipped rule table, or a .toml file", "NAME|FILE", kind="file")
LANG = opt("--lang", "en or zh", "LANG", kind="choice", choices=("en", "zh"), default="en")
REPAIRS = opt(
    "--repairs",
    "repairs tried before a planner is asked: repairs (the shipped ones), none, or a .toml file",
    "NAME|FILE",
    kind="file",
)
REVIEW = opt(
    "--review", "start nothing before a person has approved the plan", "", kind="flag", default=False
)
RUN_ID = opt("--run-id", "id of the new run; left out, one is made", "ID")
PLANNER = opt(
    "--planner",
    "who plans anew when the plan fails: model, none, or FILE.py:ATTRIBUTE",
    "model|none|MOD:ATTR",
)
JOB = (TOOLS, RULES, PARAM, INPUT, RUN_ID, REVIEW, REPAIRS, PLANNER, WORKERS)
"""Everything that a run of a plan can be begun with."""
MODEL = (
    "--planner model asks an OpenAI-compatible endpoint: $FSM_AGENT_LLM_BASE_URL is its address, "
    "$FSM_AGENT_LLM_MODEL the model's name there, $FSM_AGENT_LLM_API_KEY its key, if it wants one; "
    "$FSM_AGENT_LLM_PRICE_INPUT and $FSM_AGENT_LLM_PRICE_OUTPUT say what a million tokens cost "
    '(pip install "fsm-agent[llm]").'
)
