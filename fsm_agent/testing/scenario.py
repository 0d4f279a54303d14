"""A scenario: a plan, a simulated world, and what must come out, read from one JSON document.

Values and a reader, nothing else: the world that plays the tools is :mod:`fsm_agent.testing.world`, the loop is
:mod:`fsm_agent.testing.simulate`. Every unknown key and every value of a wrong type is an error that names the
file, the JSON pointer and what is allowed there. The plan is kept as written; reading it is the engine's business.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import NotFoundError
from fsm_agent.core.inputs import NO_USAGE, Usage
from fsm_agent.core.signals import Applied, Effect
from fsm_agent.core.tools import ToolSpec
from fsm_agent.testing import expect as expectations
from fsm_agent.testing import operator
from fsm_agent.testing.document import Node, ScenarioError
from fsm_agent.testing.expect import NOTHING_EXPECTED, Expect
from fsm_agent.testing.operator import Reaction

LARGEST_BYTES = 16 * 1024 * 1024
"""A larger file is refused before it is parsed."""

EFFECTS = tuple(Effect)
KNOWLEDGE = tuple(Applied)


@attrs.frozen(kw_only=True)
class Raised:
    """The error that a scripted call ends with.

    Attributes:
        class_name: Exception class, with or without its module, such as ``httpx.ReadTimeout``.
        status: HTTP or gRPC status.
        code: The tool's own code.
        message: In words.
        retry_after_us: How long the other side asks to be left alone, in microseconds.
        applied: What the tool itself says about its effect, or None.
    """

    class_name: str | None = None
    status: int | None = None
    code: str | None = None
    message: str = ""
    retry_after_us: int | None = None
    applied: Applied | None = None


@attrs.frozen(kw_only=True)
class CallScript:
    """What one call does.

    Attributes:
        match: Arguments (a subset) that the call must have; None fits every call.
        returned: What it returns; with ``raised`` or ``timeout`` what a probe finds, or what comes late.
        raised: The error that it ends with, or None.
        commit: Whether it has an effect.
        timeout: It hangs past its deadline; its effect is made at the start.
        delay_us: How long it takes, in microseconds.
        late_us: How long after the deadline the reply of a hanging call arrives; None for never.
        crash: ``before`` or ``after`` the effect the process dies; empty when it does not.
        progress: What it reports on the way, evenly spread; whether each report is an advance.
        progress_usage: What each report says was used up since the last one; not part of ``usage``.
        usage: What it uses up.
    """

    match: Mapping[str, Any] | None = None
    returned: Any = None
    raised: Raised | None = None
    commit: bool = False
    timeout: bool = False
    delay_us: int = 0
    late_us: int | None = None
    crash: str = ""
    progress: tuple[bool, ...] = ()
    progress_usage: Usage = NO_USAGE
    usage: Usage = NO_USAGE


@attrs.frozen(kw_only=True)
class ProbeScript:
    """What one probe finds: ``applied`` with ``result``, ``absent`` or ``inconclusive``."""

    match: Mapping[str, Any] | None = None
    verdict: str
    result: Any = None


@attrs.frozen(kw_only=True)
class ToolScript:
    """A tool of the simulated world.

    Attributes:
        spec: What the engine knows about it.
        calls: What its calls do, in the order in which they are taken.
        probes: What its probes find; None for probes that tell the truth. Empty when there is no probe.
        lag_us: How long an effect stays invisible to probes, in microseconds.
    """

    spec: ToolSpec
    calls: tuple[CallScript, ...] = ()
    probes: tuple[ProbeScript, ...] | None = ()
    lag_us: int = 0


@attrs.frozen(kw_only=True)
class Reply:
    """An answer of the planner with more than its text.

    Attributes:
        answer: A plan, or a text; None when it cannot be reached.
        usage: What the answer used up.
        retry_after_us: How long it asks to be left alone, in microseconds, or None.
    """

    answer: Any
    usage: Usage = NO_USAGE
    retry_after_us: int | None = None


@attrs.frozen(kw_only=True)
class Scenario:
    """A whole scenario.

    Attributes:
        name: One line for people.
        file: Where it was read from.
        plan: The plan as written: a document, a bare list of steps, or the text of a model.
        rules: Name or file of the rule table.
        params: Named thresholds that replace the table's.
        rows: Rows over the table's own, as a table has them.
        inputs: Inputs of the run.
        workers: How many calls may be out at once.
        tools: The world, by tool name, in the order of registration.
        default_tool: The tool that runs steps which name none, or None.
        planner: The planner's answers in order, plans, texts or :class:`Reply`; None when there is no planner.
        repairs: Name or file of the repairs that are tried before it, or a document like such a file.
        review: Nothing starts before a person has approved the plan.
        operator: What people do.
        expect: What must come out.
        source: Where the case comes from, such as ``owner/repository#12``.
        what: In a sentence, what goes wrong elsewhere.
    """

    name: str
    file: str
    plan: Any
    rules: str = "default"
    params: Mapping[str, int | float] = attrs.field(factory=dict)
    rows: tuple[Mapping[str, Any], ...] = ()
    inputs: Mapping[str, Any] = attrs.field(factory=dict)
    workers: int = 4
    tools: Mapping[str, ToolScript] = attrs.field(factory=dict)
    default_tool: str | None = None
    planner: tuple[Any, ...] | None = None
    repairs: str | Mapping[str, Any] = "repairs"
    review: bool = False
    operator: tuple[Reaction, ...] = ()
    expect: Expect = NOTHING_EXPECTED
    source: str = ""
    what: str = ""


def read_json(path: Path, form: str = "a scenario is one JSON object") -> Any:
    """Return the JSON value in the file at *path*, strictly parsed; *form* says in an error what it should be.

    Raises:
        NotFoundError: There is no such file.
        ScenarioError: It cannot be read, is too large, or is no JSON.
    """
    name = str(path)
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
        if len(data) > LARGEST_BYTES:
            message = (
                f"{name}: more than {LARGEST_BYTES} bytes were found; a scenario is a small JSON document"
            )
            raise ScenarioError(message, file=name)
        return canon.loads(data.decode("utf-8-sig"))
    except FileNotFoundError:
        raise NotFoundError(f"{name}: there is no such file; check the path") from None
    except OSError as error:
        raise ScenarioError(
            f"{name}: {error.strerror or error}; give a file that can be read", file=name
        ) from None
    except ValueError as error:
        raise ScenarioError(f"{name}: it is no JSON ({error}); {form}", file=name) from None


def load(path: str | Path) -> Scenario:
    """Return the scenario in the file at *path*.

    Raises:
        NotFoundError: There is no such file.
        ScenarioError: It is no scenario; the message says where and why.
    """
    file = Path(path)
    return parse(read_json(file), str(file))


_KEYS = (
    "name", "source", "what", "plan", "rules", "inputs", "workers", "tools", "default_tool", "planner", "repairs",
    "review", "operator", "expect",
)  # fmt: skip


def parse(document: Any, name: str) -> Scenario:
    """Return *document* as a scenario.

    Args:
        document: The JSON value.
        name: What errors call the document; also the scenario's name if it has none.

    Raises:
        ScenarioError: An unknown key or a value that does not fit.
    """
    fields = Node(document, name).fields(*_KEYS, required=("plan",))
    plan = fields["plan"]
    if not isinstance(plan.value, dict | list | str):
        plan.wrong_type("a plan: an object, a list of steps or a text")
    tools = {}
    if "tools" in fields:
        for key, node in fields["tools"].members("tools by name").items():
            tools[key] = _tool(key, node)
    default_tool = fields["default_tool"].choice(*tools) if "default_tool" in fields else None
    rules, params, rows = _rules(fields["rules"]) if "rules" in fields else ("default", {}, ())
    return Scenario(
        name=fields["name"].text() if "name" in fields else name,
        file=name,
        plan=plan.value,
        rules=rules,
        params=params,
        rows=rows,
        inputs={k: n.value for k, n in fields["inputs"].members("inputs by name").items()}
        if "inputs" in fields
        else {},
        workers=fields["workers"].count(1) if "workers" in fields else 4,
        tools=tools,
        default_tool=default_tool,
        planner=_planner(fields["planner"]) if "planner" in fields else None,
        repairs=_repairs(fields["repairs"]) if "repairs" in fields else "repairs",
        review=fields["review"].flag() if "review" in fields else False,
        operator=operator.parse(fields["operator"]) if "operator" in fields else (),
        expect=expectations.parse(fields["expect"], tools) if "expect" in fields else NOTHING_EXPECTED,
        source=fields["source"].words() if "source" in fields else "",
        what=fields["what"].words() if "what" in fields else "",
    )


def _rules(node: Node) -> tuple[str, dict[str, int | float], tuple[Mapping[str, Any], ...]]:
    if isinstance(node.value, str):
        return node.text(), {}, ()
    fields = node.fields("base", "params", "rows")
    params = {}
    for key, part in fields["params"].members("thresholds by name").items() if "params" in fields else ():
        if isinstance(part.value, bool) or not isinstance(part.value, int | float):
            part.wrong_type("a number")
        params[key] = part.value
    rows = []
    for item in fields["rows"].items("a list of rows") if "rows" in fields else ():
        if not isinstance(item.value, dict):
            item.wrong_type("a row of a table")
        rows.append(item.value)
    return fields["base"].text() if "base" in fields else "default", params, tuple(rows)


def _repairs(node: Node) -> str | Mapping[str, Any]:
    found: Any = node.value
    if not isinstance(found, str | dict):
        node.wrong_type("the name of a file, or a document like it")
    return found


def _planner(node: Node) -> tuple[Any, ...]:
    answers = []
    for item in node.items("a list of answers"):
        if not isinstance(item.value, dict | list | str):
            item.wrong_type("a plan or a text")
        told = isinstance(item.value, dict) and "answer" in item.value
        answer = _reply(item) if told else item.value
        if not canon.exact(answer.answer if isinstance(answer, Reply) else answer):
            item.fail("an answer that cannot be stored exactly", "write it as text, which may be anything")
        answers.append(answer)
    return tuple(answers)


def _reply(node: Node) -> Reply:
    fields = node.fields("answer", "usage", "retry_after_s")
    answer = fields["answer"]
    if not isinstance(answer.value, dict | list | str | None):
        answer.wrong_type("a plan, a text or null")
    return Reply(
        answer=answer.value,
        usage=_usage(fields["usage"]) if "usage" in fields else NO_USAGE,
        retry_after_us=fields["retry_after_s"].seconds() if "retry_after_s" in fields else None,
    )


def _tool(name: str, node: Node) -> ToolScript:
    fields = node.fields(
        "effect",
        "timeout_s",
        "settle_s",
        "reconcile",
        "lag_s",
        "calls",
        "requires",
        "confirm",
        "confirm_within_s",
        "secret",
        "description",
        required=("effect",),
    )
    effect = Effect(fields["effect"].choice(*EFFECTS))
    probes = _probes(fields["reconcile"]) if "reconcile" in fields else ()
    spec = ToolSpec(
        name=name,
        effect=effect,
        extra_arguments=True,
        timeout_us=fields["timeout_s"].seconds() if "timeout_s" in fields else 60_000_000,
        settle_us=fields["settle_s"].seconds() if "settle_s" in fields else 5_000_000,
        reconcile=probes != (),
        requires=_names(fields.get("requires")),
        confirm=fields["confirm"].flag() if "confirm" in fields else False,
        confirm_within_us=fields["confirm_within_s"].seconds() if "confirm_within_s" in fields else None,
        secret=_names(fields.get("secret")),
        description=fields["description"].words() if "description" in fields else "",
    )
    calls = (
        (_call(part, effect) for part in fields["calls"].items("a list of calls"))
        if "calls" in fields
        else ()
    )
    return ToolScript(
        spec=spec,
        calls=tuple(calls),
        probes=probes,
        lag_us=fields["lag_s"].seconds() if "lag_s" in fields else 0,
    )


def _names(node: Node | None) -> tuple[str, ...]:
    return () if node is None else tuple(part.text() for part in node.items("a list of names"))


def _probes(node: Node) -> tuple[ProbeScript, ...] | None:
    if isinstance(node.value, list):
        if not node.value:
            node.fail("an empty list was found", 'write at least one finding, "truth" or "none"')
        return tuple(_probe(part) for part in node.items("a list of findings"))
    return None if node.choice("truth", "none") == "truth" else ()


def _probe(node: Node) -> ProbeScript:
    fields = node.fields("match", "applied", "absent", "inconclusive")
    verdicts = [key for key in fields if key != "match"]
    if len(verdicts) != 1:
        node.fail(
            f"{' and '.join(verdicts) or 'no finding'} was found",
            "write one of applied, absent, inconclusive",
        )
    verdict = verdicts[0]
    finding = fields[verdict]
    if verdict != "applied" and not finding.flag():
        finding.fail("false was found", f'write "{verdict}": true')
    return ProbeScript(
        match=_match(fields.get("match")),
        verdict=verdict,
        result=finding.value if verdict == "applied" else None,
    )


def _match(node: Node | None) -> dict[str, Any] | None:
    return None if node is None else {k: n.value for k, n in node.members("arguments by name").items()}


def _call(node: Node, effect: Effect) -> CallScript:
    fields = node.fields(
        "match",
        "return",
        "raise",
        "commit",
        "timeout",
        "delay_s",
        "late_s",
        "crash",
        "progress",
        "progress_usage",
        "usage",
    )
    timeout = fields["timeout"].flag() if "timeout" in fields else False
    if "late_s" in fields and not timeout:
        fields["late_s"].fail("the call does not hang", 'add "timeout": true, or use delay_s')
    if "raise" in fields and timeout and "late_s" not in fields:
        fields["raise"].fail("a call that hangs for ever was found", "add late_s, or drop timeout")
    # Whoever returns has done what was asked; an error or a silence proves nothing by itself.
    plain = "return" in fields or not ("raise" in fields or timeout)
    commit = fields["commit"].flag() if "commit" in fields else effect is not Effect.READ and plain
    return CallScript(
        match=_match(fields.get("match")),
        returned=fields["return"].value if "return" in fields else None,
        raised=_raised(fields["raise"]) if "raise" in fields else None,
        commit=commit,
        timeout=timeout,
        delay_us=fields["delay_s"].seconds() if "delay_s" in fields else 0,
        late_us=fields["late_s"].seconds() if "late_s" in fields else None,
        crash=fields["crash"].choice("before", "after") if "crash" in fields else "",
        progress=tuple(p.flag() for p in fields["progress"].items("a list of true and false"))
        if "progress" in fields
        else (),
        progress_usage=_usage(fields["progress_usage"]) if "progress_usage" in fields else NO_USAGE,
        usage=_usage(fields["usage"]) if "usage" in fields else NO_USAGE,
    )


def _raised(node: Node) -> Raised:
    fields = node.fields("class", "status", "code", "message", "retry_after_s", "applied")
    if not fields.keys() & {"class", "status", "code", "message"}:
        node.fail("an error without any sign was found", "write one of class, status, code, message")
    if "class" in fields and "applied" in fields:
        fields["applied"].fail("it stands with a class", "only a code or a status can say what was applied")
    code = fields.get("code")
    if code is not None and isinstance(code.value, bool | float | list | dict | None):
        code.wrong_type("a text or a whole number")
    return Raised(
        class_name=fields["class"].text() if "class" in fields else None,
        status=fields["status"].count() if "status" in fields else None,
        code=str(code.value) if code is not None else None,
        message=fields["message"].words() if "message" in fields else "",
        retry_after_us=fields["retry_after_s"].seconds() if "retry_after_s" in fields else None,
        applied=Applied(fields["applied"].choice(*KNOWLEDGE)) if "applied" in fields else None,
    )


def _usage(node: Node) -> Usage:
    fields = node.fields("tokens", "cost")
    return Usage(
        tokens=fields["tokens"].count() if "tokens" in fields else 0,
        cost_micros=fields["cost"].micros() if "cost" in fields else 0,
    )
