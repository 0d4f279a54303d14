"""Text to tree: every text is a tree or an error that says where and what to write instead.

Reading is linear, and bounded before it begins: at most 500 characters, 24 levels, 120 operators.
"""

import attrs

from fsm_agent.core.errors import ExpressionError
from fsm_agent.core.language import refs
from fsm_agent.core.language.lex import NAME, WORDS, Token, fault, quoted, tokens_of
from fsm_agent.core.language.tree import (
    ADD,
    BINDING,
    COMPARE,
    FUNCTIONS,
    LOOPS,
    MAX_CHARS,
    MAX_DEPTH,
    MAX_OPERATORS,
    NOT,
    OR,
    SIGN,
    Binary,
    Call,
    Items,
    Literal,
    Logic,
    Loop,
    Matches,
    Negative,
    Node,
    Not,
    Path,
    Short,
)
from fsm_agent.core.language.values import regex


def parse(text: str, *, short: bool = False) -> Node:
    """Return the tree of *text*.

    Args:
        short: Accept ``all(test)`` without a list, for lowering.

    Raises:
        ExpressionError: With the place and what is allowed there.
    """
    if type(text) is not str:
        raise ExpressionError(
            f"expression: found {refs.kind(text)}; it is text such as total > 0",
            text=str(text)[:MAX_CHARS],
            at=0,
        )
    if len(text) > MAX_CHARS:
        raise ExpressionError(
            f"expression {quoted(text)}: it has {len(text)} characters; at most {MAX_CHARS} are allowed",
            text=text[:MAX_CHARS],
            at=MAX_CHARS,
        )
    return _Parser(text, short=short).whole()


class _Parser:
    """Precedence climbing over the tokens; the only state is the place, the depth and the loops around."""

    def __init__(self, text: str, *, short: bool) -> None:
        self.text = text
        self.short = short
        self.tokens = tokens_of(text)
        self.place = 0
        self.depth = 0
        self.operators = 0
        self.loops: list[str] = []

    def whole(self) -> Node:
        """Read the whole text as one expression."""
        node = self.expression(OR)
        if self.token.kind != "end":
            raise self.unexpected("an operator may follow, or the end")
        return node

    @property
    def token(self) -> Token:
        return self.tokens[self.place]

    def unexpected(self, advice: str) -> ExpressionError:
        token = self.token
        if token.kind == "end":
            found = "the text ends"
        else:
            found = f"found {quoted(token.text)}"
            if token.text.lower() in WORDS and token.text not in WORDS:
                advice = f"write {token.text.lower()}"
            elif token.kind == "not":
                advice = "write not (a in b), with the not in front, in parentheses behind an operator"
            elif token.text == "/":
                advice = "a regex follows matches"
        return fault(self.text, token.at, found, advice)

    def take(self, kind: str, advice: str) -> Token:
        token = self.token
        if token.kind != kind:
            raise self.unexpected(advice)
        self.place += 1
        return token

    def operator(self) -> Token:
        """Step over an operator, which is counted."""
        token = self.token
        self.place += 1
        self.count(token)
        return token

    def count(self, token: Token) -> None:
        self.operators += 1
        if self.operators > MAX_OPERATORS:
            raise fault(self.text, token.at, f"more than {MAX_OPERATORS} operators", "split the expression")

    def expression(self, least: int) -> Node:
        """Read an expression whose operators bind at least as tightly as *least*."""
        self.depth += 1
        if self.depth > MAX_DEPTH + 1:
            raise fault(self.text, self.token.at, f"nested deeper than {MAX_DEPTH}", "flatten it")
        node = self.operand(least)
        self.depth -= 1
        compared = False
        while (binds := BINDING.get(self.token.kind, 0)) >= least:
            if binds == COMPARE and compared:
                raise fault(
                    self.text,
                    self.token.at,
                    "comparisons in a chain",
                    "join two comparisons with and, or use parentheses",
                )
            compared = compared or binds == COMPARE
            node = self.joined(node, self.operator().kind, binds)
        return node

    def joined(self, left: Node, op: str, binds: int) -> Node:
        if op == "matches":
            return Matches(left, self.pattern(self.take("regex", "a regex follows matches")))
        right = self.expression(binds + 1)
        if op not in ("and", "or"):
            return Binary(op, left, right)
        before = left.parts if isinstance(left, Logic) and left.op == op else (left,)
        return Logic(op, (*before, right))

    def pattern(self, token: Token) -> str:
        pattern = token.text[1:-1]
        try:
            regex(pattern)
        except ValueError as error:
            raise fault(
                self.text,
                token.at,
                f"RE2 refuses the regex ({error})",
                "look-around, back-references and large repeats do not exist",
            ) from None
        return pattern

    def operand(self, least: int) -> Node:
        token = self.token
        if token.kind == "not" and least <= NOT:
            self.operator()
            return Not(self.expression(NOT))
        if token.kind == "-":
            self.operator()
            return _negated(self.expression(SIGN))
        if token.kind == "(":
            self.place += 1
            node = self.expression(OR)
            self.take(")", "close the parenthesis with )")
            return node
        if token.kind == "[":
            self.place += 1
            return Items(tuple(self.several("]")))
        if token.value is None:
            raise self.unexpected("a value belongs here: a path, a number, text, a function or a parenthesis")
        self.place += 1
        if isinstance(token.value, Path):
            return self.call(token) if self.token.kind == "(" else self.bound(token.value)
        return token.value

    def bound(self, path: Path) -> Path:
        """Say which loop's variable *path* begins with, the innermost first."""
        for slot in reversed(range(len(self.loops))):
            if self.loops[slot] == path.root:
                return attrs.evolve(path, slot=slot)
        return path

    def several(self, closing: str) -> list[Node]:
        """Read expressions up to *closing*, which is stepped over."""
        out: list[Node] = []
        if self.token.kind != closing:
            out.append(self.expression(OR))
            while self.token.kind == ",":
                self.place += 1
                out.append(self.expression(OR))
        self.take(closing, f"a comma or {closing} follows")
        return out

    def call(self, name: Token) -> Node:
        if name.text not in FUNCTIONS:
            raise fault(self.text, name.at, f"{name.text} is no function", _functions(name.text))
        self.count(name)
        self.place += 1
        if name.text in LOOPS:
            return self.loop(name)
        args = tuple(self.several(")"))
        many = len(args) > 1 and name.text in ("min", "max")
        if len(args) != 1 and not many:
            allowed = "one list, or two or more values" if name.text in ("min", "max") else "exactly one"
            raise fault(self.text, name.at, f"{name.text} with {len(args)} arguments", f"it takes {allowed}")
        if name.text == "exists" and not isinstance(args[0], Path):
            raise fault(
                self.text, name.at, "exists of something that is no path", "write exists(items[0].price)"
            )
        return Call(name.text, args)

    def loop(self, name: Token) -> Node:
        variable = self.token
        word = self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if not (variable.kind == "path" and NAME.fullmatch(variable.text) and word.kind == "in"):
            return self.shorthand(name)
        self.place += 2
        source = self.expression(ADD)
        if not isinstance(source, Path | Items):
            raise fault(
                self.text, word.at, "no list follows in", f"write {name.text}(x in items, x.price > 0)"
            )
        self.take(",", f"a condition follows: {name.text}(x in items, x.price > 0)")
        slot = len(self.loops)
        self.loops.append(variable.text)
        test = self.expression(OR)
        self.loops.pop()
        self.take(")", "close the loop with )")
        return Loop(name.text, variable.text, source, test, slot)

    def shorthand(self, name: Token) -> Node:
        if not self.short:
            raise fault(
                self.text,
                name.at,
                f"{name.text}(…) names no list",
                f"write {name.text}(x in items, x.price > 0)",
            )
        test = self.expression(OR)
        self.take(")", "close it with )")
        return Short(name.text, test)


def _negated(node: Node) -> Node:
    if isinstance(node, Literal) and isinstance(node.value, int | float) and type(node.value) is not bool:
        return Literal(-node.value)  # -5 is a number, not an operation
    return Negative(node)


def _functions(name: str) -> str:
    import difflib

    near = difflib.get_close_matches(name.lower(), FUNCTIONS, n=1)
    hint = f"did you mean {near[0]}? " if near else ""
    return f"{hint}There are {', '.join(FUNCTIONS)}"
