"""Laws of expressions and references, against an evaluator that is as plain and as slow as can be."""

import operator
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import ExpressionError, UnresolvedReferenceError
from fsm_agent.core.language import expr, refs

UNKNOWN = object()

# Values

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 5),
    st.sampled_from([0.5, -2.0, 1e300, 2**126, -(2**63)]),
    st.text("ab$1", max_size=3),
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from("kxv0"), inner, max_size=3),
    max_leaves=12,
)
scopes = st.dictionaries(st.sampled_from(["a", "b", "xs", "$s1", "$s-2", "$inputs"]), values)

# Expressions, as nested tuples, printed with every parenthesis

paths = st.tuples(
    st.just("path"),
    st.sampled_from(["a", "b", "xs", "$s1", "$s-2", "$inputs", "p", "q"]),
    st.lists(st.sampled_from(["k", "x", "v", "0", 0, 1, 3, "odd key"]), max_size=2).map(tuple),
)
literals = st.tuples(st.just("literal"), scalars)
COMPARISONS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _grow(inner: st.SearchStrategy[Any], *, presence: bool) -> st.SearchStrategy[Any]:
    functions = ["len", "sum", "min", "max", "abs", "lower"]
    options = [
        st.tuples(st.just("not"), inner),
        st.tuples(st.just("minus"), inner),
        st.tuples(st.sampled_from(["and", "or"]), inner, inner),
        st.tuples(st.sampled_from(list(COMPARISONS)), inner, inner),
        st.tuples(st.sampled_from("+-*/"), inner, inner),
        st.tuples(st.just("in"), inner, inner),
        st.tuples(st.just("call"), st.sampled_from(functions), inner),
        st.tuples(st.just("extreme"), st.sampled_from(["min", "max"]), inner, inner),
        st.tuples(st.just("list"), st.lists(inner, max_size=3).map(tuple)),
        st.tuples(
            st.just("loop"),
            st.sampled_from(["all", "any", "none", "count"]),
            st.sampled_from("pq"),
            paths | st.tuples(st.just("list"), st.lists(inner, max_size=3).map(tuple)),
            inner,
        ),
    ]
    if presence:
        options.append(st.tuples(st.just("exists"), paths))
        options.append(st.tuples(st.sampled_from(["==", "!="]), paths, st.just(("literal", None))))
    return st.one_of(options)


expressions = st.recursive(literals | paths, lambda inner: _grow(inner, presence=True), max_leaves=8)
not_null = literals.filter(lambda node: node[1] is not None)
without_presence = st.recursive(not_null | paths, lambda inner: _grow(inner, presence=False), max_leaves=8)


def write(node: Any) -> str:
    match node:
        case ("literal", value):
            import json

            return json.dumps(value)
        case ("path", root, segments):
            return root + "".join(
                f"[{s}]" if isinstance(s, int) else f'["{s}"]' if " " in s else f".{s}" for s in segments
            )
        case ("not", of):
            return f"(not ({write(of)}))"
        case ("minus", of):
            return f"(-({write(of)}))"
        case ("call", name, of):
            return f"{name}({write(of)})"
        case ("extreme", name, one, other):
            return f"{name}({write(one)},{write(other)})"
        case ("exists", path):
            return f"exists({write(path)})"
        case ("list", items):
            return f"[{', '.join(map(write, items))}]"
        case ("loop", kind, name, source, test):
            return f"{kind}({name} in {write(source)}, {write(test)})"
        case (op, left, right):
            return f"({write(left)}) {op} ({write(right)})"
    raise AssertionError(node)


def kind(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return str(type(value))
    return "number" if isinstance(value, int | float) else str(type(value))


def is_number(value: Any) -> bool:
    return kind(value) == "number"


def kept(value: Any) -> Any:
    """A number that is too large is unknown."""
    limit = 2**127 - 1 if isinstance(value, int) else 1.7976931348623157e308
    return value if abs(value) <= limit else UNKNOWN


def equal(a: Any, b: Any) -> Any:
    if a is None or b is None:
        return a is None and b is None
    if kind(a) != kind(b):
        return UNKNOWN
    if isinstance(a, list | dict):
        if isinstance(a, dict):
            if sorted(a) != sorted(b):
                return False
            a, b = [a[k] for k in sorted(a)], [b[k] for k in sorted(b)]
        if len(a) != len(b):
            return False
        return kleene([equal(x, y) for x, y in zip(a, b, strict=True)], decisive=False)
    return a == b


def kleene(truths: list[Any], *, decisive: bool) -> Any:
    if any(t is decisive for t in truths):
        return decisive
    return (not decisive) if all(isinstance(t, bool) for t in truths) else UNKNOWN


def look(scope: dict[str, Any], root: str, segments: tuple[Any, ...]) -> Any:
    if root not in scope:
        return UNKNOWN
    value = scope[root]
    for segment in segments:
        if isinstance(value, dict) and isinstance(segment, str) and segment in value:
            value = value[segment]
        elif isinstance(value, list) and str(segment).isdigit() and int(segment) < len(value):
            value = value[int(segment)]
        else:
            return UNKNOWN
    return value


def numbers(items: Any) -> bool:
    return isinstance(items, list) and all(is_number(item) for item in items)


def apply(name: str, of: Any) -> Any:
    if of is UNKNOWN:
        return UNKNOWN
    if name == "len":
        return len(of) if isinstance(of, list | dict | str) else UNKNOWN
    if name == "lower":
        return of.lower() if isinstance(of, str) else UNKNOWN
    if name == "abs":
        return abs(of) if is_number(of) else UNKNOWN
    if name == "sum":
        return add_up(of) if numbers(of) else UNKNOWN
    if not of or not (numbers(of) or (isinstance(of, list) and all(isinstance(item, str) for item in of))):
        return UNKNOWN
    return {"min": min, "max": max}[name](of)


def add_up(items: list[Any]) -> Any:
    from fractions import Fraction

    total = sum(map(Fraction, items))
    if all(isinstance(item, int) for item in items):
        return kept(int(total))
    # Whole numbers are added first, and rounded once.
    whole = float(sum(item for item in items if isinstance(item, int)))
    exact = sum((Fraction(item) for item in items if isinstance(item, float)), Fraction(whole))
    try:
        return float(exact)
    except OverflowError:
        return UNKNOWN


def calculate(op: str, a: Any, b: Any) -> Any:
    if not (is_number(a) and is_number(b)) or (op == "/" and b == 0):
        return UNKNOWN
    if op == "/" and isinstance(a, int) and isinstance(b, int) and a % b == 0:
        return kept(a // b)
    result = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}[op](a, b)
    return kept(result)


def loop(kind_: str, name: str, source: Any, test: Any, scope: dict[str, Any]) -> Any:
    if not isinstance(source, list):
        return UNKNOWN
    truths = [judge(test, {**scope, name: item}) for item in source]
    if kind_ == "count":
        return sum(truths) if all(isinstance(t, bool) for t in truths) else UNKNOWN
    if kind_ == "all":
        return kleene(truths, decisive=False)
    found = kleene(truths, decisive=True)
    return found if kind_ == "any" or found is UNKNOWN else not found


def judge(node: Any, scope: dict[str, Any]) -> Any:
    match node:
        case ("literal", value):
            return value
        case ("path", root, segments):
            return look(scope, root, segments)
        case ("exists", (_, root, segments)):
            return look(scope, root, segments) not in (UNKNOWN, None)
        case ("==" | "!=" as op, ("path", root, segments), ("literal", None)):
            return (look(scope, root, segments) in (UNKNOWN, None)) is (op == "==")
        case ("==" | "!=" as op, ("literal", None), ("path", root, segments)):
            return (look(scope, root, segments) in (UNKNOWN, None)) is (op == "==")
        case ("not", of):
            truth = judge(of, scope)
            return not truth if isinstance(truth, bool) else UNKNOWN
        case ("minus", of):
            return calculate("-", 0, judge(of, scope))
        case ("and" | "or" as op, left, right):
            return kleene([judge(left, scope), judge(right, scope)], decisive=op == "or")
        case ("list", items):
            out = [judge(item, scope) for item in items]
            return UNKNOWN if any(item is UNKNOWN for item in out) else out
        case ("call", name, of):
            return apply(name, judge(of, scope))
        case ("extreme", name, one, other):
            pair = [judge(one, scope), judge(other, scope)]
            return UNKNOWN if UNKNOWN in [x for x in pair if x is UNKNOWN] else apply(name, pair)
        case ("loop", kind_, name, source, test):
            return loop(kind_, name, judge(source, scope), test, scope)
        case (op, left, right):
            a, b = judge(left, scope), judge(right, scope)
            return UNKNOWN if a is UNKNOWN or b is UNKNOWN else both(op, a, b)
    raise AssertionError(node)


def both(op: str, a: Any, b: Any) -> Any:
    if op in ("==", "!="):
        same = equal(a, b)
        return same if same is UNKNOWN or op == "==" else not same
    if op == "in":
        if isinstance(a, str) and isinstance(b, str):
            return a in b
        return kleene([equal(a, x) for x in b], decisive=True) if isinstance(b, list) else UNKNOWN
    if op in COMPARISONS:
        ordered = (is_number(a) and is_number(b)) or (isinstance(a, str) and isinstance(b, str))
        return COMPARISONS[op](a, b) if ordered else UNKNOWN
    return calculate(op, a, b)


def outcome(function: Any, *args: Any) -> Any:
    """What the function returns, or the error that it may raise."""
    try:
        return function(*args)
    except (ExpressionError, UnresolvedReferenceError) as error:
        return error


@given(expressions, scopes)
def test_a_verdict_is_what_the_plain_evaluator_says(node: Any, scope: dict[str, Any]) -> None:
    compiled = expr.compile(write(node))
    expected = judge(node, scope)
    found = compiled.value(scope)
    if expected is UNKNOWN:
        assert isinstance(found, expr.Unknown)
        assert found.why
    else:
        assert (type(found), found) == (type(expected), expected)
    verdict = compiled.evaluate(scope)
    assert verdict.value is (expected if isinstance(expected, bool) else None)
    assert (verdict.value is None) is bool(verdict.why)


@given(expressions, scopes)
def test_what_is_printed_reads_back_as_the_same_expression(node: Any, scope: dict[str, Any]) -> None:
    compiled = expr.compile(write(node))
    again = expr.compile(compiled.text)
    assert again == compiled
    assert hash(again) == hash(compiled)
    assert (again.text, again.roots, again.paths, again.kind) == (
        compiled.text,
        compiled.roots,
        compiled.paths,
        compiled.kind,
    )
    assert again.evaluate(scope) == compiled.evaluate(scope)


@given(expressions, scopes)
def test_a_verdict_depends_on_the_roots_alone(node: Any, scope: dict[str, Any]) -> None:
    compiled = expr.compile(write(node))
    needed = {root: value for root, value in scope.items() if root in compiled.roots}
    assert compiled.evaluate(needed) == compiled.evaluate({**scope, "other": [2]})


@given(expressions, scopes)
def test_the_kind_is_the_kind_of_every_value(node: Any, scope: dict[str, Any]) -> None:
    compiled = expr.compile(write(node))
    value = compiled.value(scope)
    if compiled.kind is not None and not isinstance(value, expr.Unknown):
        assert refs.kind(value) == compiled.kind


@given(without_presence, scopes, st.data())
def test_knowing_less_never_turns_a_verdict_round(
    node: Any, scope: dict[str, Any], data: st.DataObject
) -> None:
    compiled = expr.compile(write(node))
    less = {root: value for root, value in scope.items() if data.draw(st.booleans())}
    before, after = compiled.evaluate(scope).value, compiled.evaluate(less).value
    assert after is None or after is before


pieces = st.sampled_from(
    'and or not in matches null true == != < <= ( ) [ ] , . + - * / "a" "\\u00e9" /x/ /(/ 7 0.5 1e9 x xs $s ${1.v} '
    "len( all( any(x sum( exists( \\ ' ` 价格 ＞ \x00 \ud800 $ { } __class__ 99999999999999999999999999999999999999999".split()
)


@given(st.lists(pieces, max_size=30).map(" ".join) | st.text(max_size=60), scopes)
def test_any_text_is_an_expression_or_an_error_and_evaluating_never_raises(
    text: str, scope: dict[str, Any]
) -> None:
    compiled = outcome(expr.compile, text)
    if isinstance(compiled, ExpressionError):
        assert 0 <= compiled.at <= len(text)
        assert compiled.text == text
        assert str(compiled).encode()
    else:
        compiled.evaluate(scope)
        assert expr.compile(compiled.text) == compiled


# References

keys = st.text(min_size=1, max_size=4) | st.sampled_from(["a", "a-b", "价格", "0", "a.b", 'q"', "}", "x y"])
segments = st.lists(keys | st.integers(0, 9), max_size=3).map(tuple)
roots = st.sampled_from(["$s1", "$a-b", "$_", "$inputs", "$1", "$s4/a", "$s3[17]/b", "$查询", "$a-"])


@given(roots, segments)
def test_a_reference_that_is_written_is_read_back_the_same(root: str, path: tuple[str | int, ...]) -> None:
    text = refs.render(root, path)
    (ref,) = refs.parse(text).refs
    assert (ref.root, ref.path, ref.text) == (root, path, text)
    assert expr.compile(f"{text} > 0").paths == (text,)


templates = st.recursive(
    st.one_of(
        scalars,
        st.sampled_from(
            ["$s1", "$s1.k", "a $s1.k.0 b", "$$s1", "${s-2[0].x}!", "$inputs.v.", "cost $5", "$", "$xs"]
        ),
    ),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "$s1.k"]), inner, max_size=2)
    ),
    max_leaves=8,
)


@given(templates, scopes)
def test_resolving_gives_a_value_or_names_a_path_and_changes_nothing(
    source: Any, scope: dict[str, Any]
) -> None:
    before = repr((source, scope))
    template = outcome(refs.parse, source)
    if isinstance(template, refs.Template):
        assert template.constant is (not template.refs)
        found = outcome(template.resolve, scope)
        if isinstance(found, UnresolvedReferenceError):
            assert any(found.path.strip("${}") in ref.text for ref in template.refs)
    assert repr((source, scope)) == before


@given(templates, scopes)
def test_a_value_is_resolved_as_each_text_in_it_is(source: Any, scope: dict[str, Any]) -> None:
    def each(value: Any) -> Any:
        if isinstance(value, list):
            return [each(item) for item in value]
        if isinstance(value, dict):
            return {key: each(item) for key, item in value.items()}
        return refs.parse(value).resolve(scope)

    expected = outcome(each, source)
    template = outcome(refs.parse, source)
    found = outcome(template.resolve, scope) if isinstance(template, refs.Template) else template
    assert type(found) is type(expected)
    assert isinstance(found, Exception) or found == expected


@given(values, st.sampled_from(["$s1", "${s1}", "$s1.deep.k", '$s1["deep"].k']))
def test_a_whole_reference_is_the_value_itself_whatever_its_text_looks_like(value: Any, text: str) -> None:
    inner = {"deep": {"k": value}} if "deep" in text else value
    scope = {"$s1": inner, "$1": "never", "$a": "never"}
    assert refs.parse(text).resolve(scope) is value
    assert refs.parse([{"x": text}]).resolve(scope)[0]["x"] is value


@given(st.text("$s1.v{}[]0 a", max_size=8), st.text("ab 。", max_size=3))
def test_text_from_a_result_is_never_expanded_again(result: str, around: str) -> None:
    template = refs.parse(f"{around}${{s1.v}}{around}$s1.v")
    assert template.resolve({"$s1": {"v": result}}) == f"{around}{result}{around}{result}"


@given(st.text('$s1.v{}[] 中a\\"', max_size=20))
def test_any_text_can_be_passed_on_by_doubling_its_dollars(text: str) -> None:
    template = refs.parse({"k": text.replace("$", "$$")})
    assert template.constant
    assert template.resolve({}) == {"k": text}


@given(
    st.recursive(
        st.text('$s1{}.[]"0-é ', max_size=12), lambda inner: st.lists(inner, max_size=2), max_leaves=4
    )
)
def test_any_template_is_read_or_refused_with_its_place(value: Any) -> None:
    template = outcome(refs.parse, value, "/args")
    if isinstance(template, ExpressionError):
        assert "/args" in str(template)
        assert template.text[template.at] == "$"
