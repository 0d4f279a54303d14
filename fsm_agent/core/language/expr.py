"""Expressions: small, total, three-valued; the language of ``done_when``, ``when`` and every ``check``.

A text is compiled once (:func:`compile`) and then evaluated against a scope as often as needed. The verdict is
true, false, or unknown with the reason; it is never an exception, never truthiness, never a guess. The tree is
in :mod:`~fsm_agent.core.language.tree`, its reading in :mod:`~fsm_agent.core.language.parse`, its meaning in
:mod:`~fsm_agent.core.language.evaluate`.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import attrs

from fsm_agent.core.errors import ExpressionError
from fsm_agent.core.language.evaluate import build
from fsm_agent.core.language.lex import fault
from fsm_agent.core.language.parse import parse
from fsm_agent.core.language.refs import kind
from fsm_agent.core.language.tree import (
    MAX_CHARS,
    Binary,
    Call,
    Items,
    Logic,
    Loop,
    Matches,
    Negative,
    Node,
    Not,
    Path,
    Short,
    kind_of,
    show,
    walk,
)
from fsm_agent.core.language.values import Unknown

__all__ = ["Expr", "Unknown", "Verdict", "compile", "lower"]


class Verdict(NamedTuple):
    """What an expression says about a scope.

    Attributes:
        value: True, False, or None: unknown.
        why: When unknown, the path that is missing (as written, up to the missing part; the whole path when
            its root is missing), or the fault. Empty otherwise.
    """

    value: bool | None
    why: str


_TRUE: Final = Verdict(True, "")
_FALSE: Final = Verdict(False, "")


@attrs.frozen(kw_only=True)
class Expr:
    """A compiled expression. Equal if the canonical text is equal.

    Attributes:
        text: Canonical: compiling it gives an equal expression.
        roots: The names it reads from the scope, ``$`` included; loop variables are none.
        paths: The paths it reads, in reading order, without repetition.
        kind: ``boolean``, ``number``, ``text``, ``list`` or ``null`` where every value is of that kind; None
            where only the data can tell. What is neither None nor boolean never has a verdict.
    """

    text: str
    roots: frozenset[str] = attrs.field(eq=False, repr=False)
    paths: tuple[str, ...] = attrs.field(eq=False, repr=False)
    kind: str | None = attrs.field(eq=False, repr=False)
    _run: Callable[[Mapping[str, Any]], Any] = attrs.field(eq=False, repr=False)

    def evaluate(self, scope: Mapping[str, Any]) -> Verdict:
        """Return the verdict on *scope*. Total: no exception, and bounded work.

        Args:
            scope: JSON values by root; a root that is not there is a missing path.
        """
        value = self._run(scope)
        if value is True:
            return _TRUE
        if value is False:
            return _FALSE
        if type(value) is Unknown:
            return Verdict(None, value.why)
        return Verdict(
            None, f"{self.text}: found {kind(value)}; write a comparison such as x > 0 or x != null"
        )

    def value(self, scope: Mapping[str, Any]) -> Any:
        """Return the value itself, of any kind, or :class:`Unknown`."""
        return self._run(scope)


def compile(text: str) -> Expr:  # noqa: A001
    """Compile *text*.

    Raises:
        ExpressionError: It is none, or exceeds 500 characters (also when printed canonically), 24 levels or
            120 operators. Any text is decided within milliseconds.
    """
    node = parse(text)
    canonical = _canonical(text, node)
    read = [each for each in walk(node) if isinstance(each, Path) and each.slot is None]
    return Expr(
        text=canonical,
        roots=frozenset(path.root for path in read),
        paths=tuple(dict.fromkeys(path.text for path in read)),
        kind=kind_of(node),
        run=build(node),
    )


def _canonical(text: str, node: Node) -> str:
    canonical = show(node)
    if len(canonical) > MAX_CHARS:
        raise fault(
            text,
            MAX_CHARS,
            f"{len(canonical)} characters when written out",
            f"at most {MAX_CHARS} are allowed",
        )
    return canonical


def lower(text: str, names: Mapping[str, bool], bind: Mapping[str, str] | None = None) -> str:
    """Give the short form ``all(f.depart_hour >= 7)`` its list; return the canonical text.

    The one name in the test that is not known stands for the records. Its list is ``bind[name]``, else the
    one list-valued name that begins with it. A text without a short form comes back canonical.

    Args:
        names: The names known where the expression is evaluated; True for those that hold a list.
        bind: List by short name, as a constraint declares it.

    Raises:
        ExpressionError: The text is no expression, or the name or the list is ambiguous or not there.
    """
    binder = _Binder(text, names, bind or {})
    canonical = _canonical(text, binder.lowered(parse(text, short=True)))
    return compile(canonical).text


@attrs.frozen
class _Binder:
    """Rewrites a tree from its leaves upward, so that an inner short form is bound before an outer one."""

    text: str
    names: Mapping[str, bool]
    bind: Mapping[str, str]

    def lowered(self, node: Node) -> Node:
        match node:
            case Items(items=items):
                return Items(tuple(map(self.lowered, items)))
            case Negative(of=of):
                return Negative(self.lowered(of))
            case Not(of=of):
                return Not(self.lowered(of))
            case Logic(op=op, parts=parts):
                return Logic(op, tuple(map(self.lowered, parts)))
            case Binary(op=op, left=left, right=right):
                return Binary(op, self.lowered(left), self.lowered(right))
            case Matches(left=left, pattern=pattern):
                return Matches(self.lowered(left), pattern)
            case Call(name=name, args=args):
                return Call(name, tuple(map(self.lowered, args)))
            case Loop(kind=kind, name=name, source=source, test=test, slot=slot):
                return Loop(kind, name, source, self.lowered(test), slot)
            case Short(kind=kind, test=test):
                test = self.lowered(test)
                name = self.variable(kind, test)
                return Loop(kind, name, self.source(name), test, 0)
            case _:
                return node

    def variable(self, kind: str, test: Node) -> str:
        free = [each.root for each in walk(test) if isinstance(each, Path) and each.slot is None]
        plain = [root for root in dict.fromkeys(free) if root[0] != "$"]
        unknown = [root for root in plain if root in self.bind or root not in {*self.names, "value", "args"}]
        unknown = unknown or [root for root in plain if self.names.get(root)]
        if len(unknown) != 1:
            found = f"the names {', '.join(unknown)} could each" if unknown else "no name in it could"
            raise self.fault(
                f"{kind}(…) names no list, and {found} stand for the records",
                f"write {kind}(x in items, x.price > 0)",
            )
        return unknown[0]

    def source(self, name: str) -> Node:
        if name in self.bind:
            source = parse(self.bind[name])
            if isinstance(source, Path) and (source.root[0] == "$" or source.root in self.names):
                return source
            raise self.fault(f"{name} is bound to {self.bind[name]}, which is no known name", self.known())
        lists = [each for each, is_list in self.names.items() if is_list and each.startswith(name)]
        if len(lists) != 1:
            found = f"{', '.join(sorted(lists))} all begin with it" if lists else "no list begins with it"
            raise self.fault(
                f"{name} is no name here, and {found}",
                f'bind it, as in "bind": {{"{name}": "…"}}; {self.known()}',
            )
        return Path(lists[0])

    def known(self) -> str:
        lists = sorted(name for name, is_list in self.names.items() if is_list)
        return f"lists here: {', '.join(lists) or 'none'}"

    def fault(self, found: str, advice: str) -> ExpressionError:
        return fault(self.text, 0, found, advice)
