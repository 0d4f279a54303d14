"""Registration: what a signature promises, what is refused, and how a toolbox is found."""

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict, Union

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import ToolboxError
from fsm_agent.core.signals import Effect
from fsm_agent.core.tools import ToolSpec, argument_faults
from fsm_agent.runtime.tools.context import CallContext, Reconciled
from fsm_agent.runtime.tools.loading import load_toolbox
from fsm_agent.runtime.tools.signature import json_types
from fsm_agent.runtime.tools.toolbox import Toolbox

EFFECTS = ("read", "idempotent", "write", "irreversible")


class Trip(TypedDict):
    city: str


UserId = NewType("UserId", int)


@pytest.mark.parametrize("effect", EFFECTS)
def test_a_bare_decorator_registers_under_the_function_name_with_its_effect_class(effect):
    tools = Toolbox()

    @getattr(tools, effect)
    def look_up(employee: str) -> dict:
        """Look somebody up.

        At length.
        """
        return {"name": employee}

    (spec,) = tools.specs
    assert (spec.name, spec.effect) == ("look_up", Effect(effect))
    assert (spec.timeout_us, spec.settle_us, spec.confirm_within_us) == (60_000_000, 5_000_000, None)
    assert spec.description == "Look somebody up."
    assert look_up("ann") == {"name": "ann"}
    assert look_up.__name__ == "look_up"
    assert list(inspect.signature(look_up).parameters) == ["employee"]


def test_options_reach_the_specification_in_microseconds():
    tools = Toolbox()

    @tools.write(
        name="ticket.create",
        timeout_s=0.5,
        settle_s=0,
        requires=["ticket.find"],
        confirm=True,
        confirm_within_s=3600,
        secret=["token", "session"],
        description="Creates one.",
    )
    def create(token: str): ...

    (spec,) = tools.specs
    assert spec.timeout_us == 500_000
    assert spec.settle_us == 0
    assert spec.requires == ("ticket.find",)
    assert spec.confirm is True
    assert spec.confirm_within_us == 3_600_000_000
    assert spec.secret == ("token", "session")
    assert spec.description == "Creates one."
    assert ToolSpec.from_data(spec.to_data()).schema_digest == spec.schema_digest


@pytest.mark.parametrize(
    ("annotation", "kinds", "choices"),
    [
        (int, ("integer",), ()),
        (float, ("number",), ()),
        (str, ("string",), ()),
        (bool, ("boolean",), ()),
        (None, ("null",), ()),
        (list, ("array",), ()),
        (list[int], ("array",), ()),
        (Sequence[str], ("array",), ()),
        (tuple[int, ...], ("array",), ()),
        (dict, ("object",), ()),
        (dict[str, Any], ("object",), ()),
        (Mapping[str, int], ("object",), ()),
        (Trip, ("object",), ()),
        (UserId, ("integer",), ()),
        (int | None, ("null", "integer"), ()),
        (Optional[str], ("null", "string"), ()),  # noqa: UP045
        (Union[str, list[str]], ("string", "array"), ()),  # noqa: UP007
        (Literal["a", "b"], ("string",), ("a", "b")),
        (Literal["a", 1, None], ("null", "integer", "string"), ("a", 1, None)),  # noqa: PYI061
        (Literal["a"] | None, ("null", "string"), ("a", None)),
        (Literal["a"] | int, ("integer", "string"), ()),
        (Annotated[int, "cents"], ("integer",), ()),
        (Annotated[Literal["x"], "why"] | None, ("null", "string"), ("x", None)),
        (int | Any, (), ()),
        (Any, (), ()),
        (object, (), ()),
        (bytes, (), ()),
        (Literal[b"a"], (), ()),
        ("text that resolves to nothing", (), ()),
        ([], (), ()),
    ],
)
def test_an_annotation_says_which_json_values_are_taken(annotation, kinds, choices):
    assert json_types(annotation) == (kinds, choices)


@given(
    st.recursive(
        st.sampled_from([int, float, str, bool, None, list, dict, Any, bytes, Literal["a"], Literal[1]]),
        lambda inner: st.builds(lambda a, b: Union[a, b], inner, inner),  # noqa: UP007  (None | None is no type)
        max_leaves=6,
    )
)
def test_a_union_takes_what_each_of_its_parts_takes(annotation):
    kinds, _ = json_types(annotation)
    parts = (
        getattr(annotation, "__args__", ())
        if getattr(annotation, "__origin__", None) is Union
        else (annotation,)
    )
    each = [json_types(part)[0] for part in parts]
    assert set(kinds) == (set().union(*each) if all(each) else set())


def test_the_context_is_found_by_annotation_and_is_no_argument():
    tools = Toolbox()

    @tools.write
    async def make(amount: float, *, where: CallContext, note: str = "x", **rest: Any): ...

    spec = tools.specs[0]
    assert [(p.name, p.types, p.required) for p in spec.parameters] == [
        ("amount", ("number",), True),
        ("note", ("string",), False),
    ]
    assert spec.extra_arguments is True
    assert make.callee.context == "where"
    assert make.callee.is_async is True
    assert argument_faults(spec, {"amount": 1, "more": 2}) == []


def make_by_text(amount: "float", label: "Literal['a'] | None", odd: "NoSuchName", ctx: "CallContext"): ...  # noqa: F821


def other_text(ctx: "elsewhere.CallContext | None" = None): ...  # noqa: F821


def test_annotations_in_text_are_resolved_one_by_one_and_an_unknown_name_takes_anything():
    tools = Toolbox()
    tool = tools.add(make_by_text, effect="write")
    assert [(p.name, p.types, p.choices) for p in tool.spec.parameters] == [
        ("amount", ("number",), ()),
        ("label", ("null", "string"), ("a", None)),
        ("odd", (), ()),
    ]
    assert tool.callee.context == "ctx"
    assert tools.add(other_text, effect="read").callee.context == "ctx"


class Service:
    def __init__(self) -> None:
        self.calls = 0

    def find(self, key: str) -> int:
        self.calls += 1
        return self.calls

    async def __call__(self, key: str, limit: int = 3) -> int:
        return limit


def test_methods_partials_and_callable_objects_are_tools_too():
    tools = Toolbox()
    service = Service()
    method = tools.add(service.find, effect="read")
    bound = tools.add(functools.partial(service, limit=9), effect="read", name="bound")
    whole = tools.add(service, effect="idempotent", name="whole")
    assert (method.spec.name, method("k")) == ("find", 1)
    assert [p.name for p in method.spec.parameters] == ["key"]
    assert [p.name for p in bound.spec.parameters] == ["key"], "what a partial binds is settled"
    assert [p.name for p in whole.spec.parameters] == ["key", "limit"]
    assert (method.callee.is_async, bound.callee.is_async, whole.callee.is_async) == (False, True, True)


def positional(a, /): ...


def stars(*values): ...


def generator():
    yield 1


async def async_generator():
    yield 1


def two_contexts(a: CallContext, b: CallContext): ...


def plain(a: int = 1): ...


@pytest.mark.parametrize(
    ("fn", "options", "words"),
    [
        (positional, {}, "'a' is positional-only"),
        (stars, {}, r"takes \*values"),
        (generator, {}, "generator function"),
        (async_generator, {}, "generator function"),
        (functools.partial(generator), {}, "generator function"),
        (two_contexts, {}, "a, b all take the CallContext"),
        (Service.find, {}, "method without its object"),
        (lambda: 1, {}, "name cannot be used"),
        (functools.partial(Service()), {}, "name cannot be used"),
        ("text", {"name": "t"}, "give a callable"),
        (len, {}, "positional-only"),
        (type, {}, "positional-only|no signature|takes"),
        (plain, {"name": "two words"}, "name cannot be used"),
        (plain, {"name": ""}, "name cannot be used"),
        (plain, {"name": 7}, "name cannot be used"),
        (plain, {"effect": "delete"}, "allowed: read, idempotent, write, irreversible"),
        (plain, {"timeout_s": 0}, "timeout_s is 0; give a number of seconds above 0"),
        (plain, {"timeout_s": -1}, "timeout_s is -1"),
        (plain, {"timeout_s": float("nan")}, "timeout_s is nan"),
        (plain, {"timeout_s": float("inf")}, "timeout_s is inf"),
        (plain, {"timeout_s": "10"}, "timeout_s is '10'"),
        (plain, {"timeout_s": True}, "timeout_s is True"),
        (plain, {"settle_s": -0.1}, "settle_s is -0.1; give a number of seconds of at least 0"),
        (plain, {"confirm_within_s": 0}, "confirm_within_s is 0"),
        (plain, {"confirm": 1}, "confirm is 1; give True or False"),
        (plain, {"requires": "look_up"}, "requires is the text 'look_up'; give a list"),
        (plain, {"requires": ["plain"]}, "requires itself"),
        (plain, {"requires": [3]}, "requires holds 3"),
        (plain, {"secret": "token"}, "secret is the text"),
        (plain, {"secret": ["a b"]}, "secret holds 'a b'"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_when_it_is_registered(fn, options, words):
    tools = Toolbox()
    with pytest.raises(ToolboxError, match=words) as refused:
        tools.add(fn, **{"effect": "read", **options})
    assert refused.value.code == "E-TOOLS"
    assert len(tools) == 0


def test_two_tools_of_one_name_are_refused():
    tools = Toolbox()
    tools.read(plain)
    with pytest.raises(ToolboxError, match="tool 'plain': the name is taken"):
        tools.write(plain)
    assert tools.specs[0].effect is Effect.READ


@pytest.mark.parametrize("decorator", [*EFFECTS, "default"])
def test_an_unknown_option_is_refused_with_the_likely_one(decorator):
    tools = Toolbox()
    with pytest.raises(ToolboxError, match=r"no option 'timeout'; did you mean 'timeout_s'\?"):
        getattr(tools, decorator)(timeout=3)
    with pytest.raises(ToolboxError, match=r"no option 'zzz'; options: .*name, timeout_s"):
        getattr(tools, decorator)(zzz=3)


def test_an_effect_class_cannot_be_overridden_on_its_own_decorator():
    with pytest.raises(ToolboxError, match="no option 'effect'"):
        Toolbox().read(effect="write")


async def seek(amount: float, reason: str = "none", *, ctx: CallContext) -> Reconciled:
    return Reconciled.absent()


def test_a_probe_is_registered_on_the_decorated_name_and_stays_what_it_was():
    tools = Toolbox()

    @tools.write
    async def create(amount: float, reason: str = "none", *, ctx: CallContext) -> dict: ...

    assert tools.specs[0].reconcile is False
    assert create.reconcile(seek) is seek
    assert tools.specs[0].reconcile is True
    assert create.probe is not None
    assert create.probe.context == "ctx"
    with pytest.raises(ToolboxError, match="there is one already"):
        create.reconcile(seek)


def test_a_probe_may_take_every_argument_at_once():
    tools = Toolbox()

    def by_key(*, ctx: CallContext, **args: Any) -> Reconciled: ...

    tool = tools.add(seek, effect="write", name="create", reconcile=by_key)
    assert tool.spec.reconcile is True


def without(amount): ...


def needs_more(amount, reason="none", extra=...): ...


def needs_all(amount, reason, region): ...


def other_default(amount, reason="late"): ...


def required_here(amount, reason): ...


@pytest.mark.parametrize(
    ("probe", "words"),
    [
        (without, "does not take reason"),
        (needs_all, "needs region"),
        (other_default, "default of 'reason' differs"),
        (required_here, "default of 'reason' differs"),
        (generator, "generator function"),
        (3, "give a callable"),
    ],
)
def test_a_probe_that_could_look_for_something_else_is_refused(probe, words):
    tools = Toolbox()
    tool = tools.add(seek, effect="write")
    with pytest.raises(ToolboxError, match=words):
        tool.reconcile(probe)
    assert tools.specs[0].reconcile is False


def test_a_probe_of_a_tool_with_open_arguments_must_be_open_too():
    def create(a, **rest): ...

    def find(a): ...

    with pytest.raises(ToolboxError, match=r"takes \*\*kwargs and it does not"):
        Toolbox().add(create, effect="write", reconcile=find)


def test_the_default_tool_is_a_read_unless_it_says_otherwise_and_there_is_one_at_most():
    tools = Toolbox()
    assert tools.default_tool is None

    @tools.default
    async def think(description: str) -> str: ...

    assert tools.default_tool == "think"
    assert tools.specs[0].effect is Effect.READ
    with pytest.raises(ToolboxError, match="'think' is the default already"):

        @tools.default(effect="write")
        def other(description: str) -> str: ...

    assert len(tools) == 1
    writing = Toolbox()
    writing.default(effect="write", timeout_s=3, name="hands")(plain)
    assert (writing.default_tool, writing.specs[0].effect) == ("hands", Effect.WRITE)


def test_tools_are_kept_in_the_order_of_registration_and_found_by_name():
    tools = Toolbox()
    for name in ("c", "a", "b"):
        tools.add(plain, effect="read", name=name)
    assert [spec.name for spec in tools.specs] == ["c", "a", "b"]
    assert [tool.spec.name for tool in tools] == ["c", "a", "b"]
    assert "a" in tools
    assert "z" not in tools
    assert bool(Toolbox()) is True
    assert repr(tools.tool("a")) == "<Tool a (read)>"
    assert repr(tools) == "<Toolbox c, a, b>"
    with pytest.raises(ToolboxError, match="tool 'z': it is not in the toolbox; there are: c, a, b"):
        tools.tool("z")


def test_a_registered_tool_can_join_a_second_toolbox():
    first, second = Toolbox(), Toolbox()
    tool = first.read(plain)
    again = second.add(tool, effect="write")
    assert again.fn is plain
    assert (first.specs[0].effect, second.specs[0].effect) == (Effect.READ, Effect.WRITE)


def test_a_lifespan_that_is_no_context_manager_is_refused():
    with pytest.raises(ToolboxError, match="lifespan: a value of type int"):
        Toolbox(lifespan=3)


SOURCE = """
from __future__ import annotations
import helper_beside
from fsm_agent.runtime.tools.toolbox import Toolbox
from fsm_agent.runtime.tools.context import CallContext
tools = Toolbox()

@tools.write
async def create(amount: float, when: str | None = None, *, ctx: CallContext) -> dict:
    return {}

class Box:
    inner = tools

number = 3
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    (tmp_path / "my_tools.py").write_text(SOURCE)
    (tmp_path / "helper_beside.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", list(__import__("sys").path))
    yield tmp_path
    for name in ("my_tools", "helper_beside"):
        __import__("sys").modules.pop(name, None)


@pytest.mark.parametrize("locator", ["my_tools:tools", "my_tools.py:tools", "my_tools.py:Box.inner"])
def test_a_toolbox_is_loaded_from_a_module_or_a_file_with_what_lies_beside_it(folder, locator):
    tools = load_toolbox(locator)
    (spec,) = tools.specs
    assert [(p.name, p.types) for p in spec.parameters] == [
        ("amount", ("number",)),
        ("when", ("null", "string")),
    ]


def test_a_file_is_found_by_its_whole_path_from_anywhere(folder, monkeypatch, tmp_path_factory):
    monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))
    assert "create" in load_toolbox(f"{folder}/my_tools.py:tools")


@pytest.mark.parametrize(
    ("locator", "words"),
    [
        ("my_tools", "it is no locator"),
        (":tools", "it is no locator"),
        ("my_tools:", "it is no locator"),
        ("no_such_module_here:tools", "there is no module 'no_such_module_here'"),
        ("my_tools.inner:tools", "there is no module 'my_tools.inner'|not a package"),
        ("no_such_file.py:tools", "there is no such file"),
        ("./:tools", "it is a directory"),
        ("my_tools.py:nothing", "has no attribute 'nothing'; toolboxes in it: tools"),
        ("my_tools:number", "number is a value of type int; name a Toolbox"),
        ("./plain.txt:tools", "its name must end in .py"),
    ],
)
def test_a_locator_that_leads_nowhere_says_where_it_ended(folder, locator, words):
    (folder / "plain.txt").write_text("x")
    with pytest.raises(ToolboxError, match=words):
        load_toolbox(locator)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("1 / 0", r"raised ZeroDivisionError at .*broken\.py:1: division by zero"),
        ("\nraise SystemExit(3)", r"raised SystemExit at .*broken\.py:2: 3"),
        ("import no_such_thing_at_all", "raised ModuleNotFoundError at .*broken"),
        ("def (", "raised SyntaxError: .*broken|raised SyntaxError"),
        ("class E(BaseException): pass\nraise E('x')", "raised E at"),
    ],
)
@pytest.mark.parametrize("locator", ["broken:tools", "broken.py:tools"])
def test_a_module_that_fails_to_load_is_one_clear_error(folder, source, words, locator):
    (folder / "broken.py").write_text(source)
    with pytest.raises(ToolboxError, match=words):
        load_toolbox(locator)


@pytest.mark.parametrize("locator", ["broken:tools", "broken.py:tools"])
def test_an_interrupt_while_a_module_loads_is_not_swallowed(folder, locator):
    (folder / "broken.py").write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_toolbox(locator)


def test_loading_a_broken_file_leaves_no_module_behind(folder):
    import sys

    (folder / "broken.py").write_text("1 / 0")
    before = set(sys.modules)
    with pytest.raises(ToolboxError):
        load_toolbox("broken.py:tools")
    assert set(sys.modules) == before
