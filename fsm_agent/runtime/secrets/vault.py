"""The one place where secrets stop: nothing that a tool declares secret goes past it into the core.

A secret is replaced, leaf by leaf, by ``{"$secret": name, "mac": hex}``. The mac is an HMAC under a key that lives
in this object only: equal secrets look equal while a process runs the run, and nobody who reads the log can try
values against it. The values are held in memory and nowhere else, so after a restart whoever resumes the run gives
them again (:meth:`Vault.give`). A value comes back only in arguments that the called tool declares secret.
"""

import base64
import hmac
import json
import re
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus

from fsm_agent.core import canon
from fsm_agent.core.errors import RefusedError
from fsm_agent.core.language import refs
from fsm_agent.core.tools import ToolSpec, is_secret

MIN_SCRUB = 3
"""Shorter secrets are not looked for in messages: no masking can hide so little."""
MIN_MASK = 8
"""Shorter secrets are not looked for in undeclared values, where they would be found by accident."""
MAX_ENCODED = 4096
"""Longer secrets, in bytes, are not looked for in base64 and hex."""

_EMBEDDED = re.compile(r'\{"\$secret":"([^"]*)","mac":"([0-9a-f]+)"\}')
_ODD = re.compile(r"[^\w.\[\]-]")


class Vault:
    """The secrets of one run, as long as this process drives it. To be used from one thread."""

    def __init__(self) -> None:
        self._key = secrets.token_bytes(32)
        self._by_mac: dict[str, bytes] = {}
        self._given: dict[str, bytes] = {}
        self._texts: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None

    def __repr__(self) -> str:
        return f"<Vault of {len(self._by_mac)} secrets>"

    def hide_args(self, tool: ToolSpec, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return *args* with what *tool* declares secret replaced; and whatever else holds a known secret."""
        return {k: self._hide(v, k) if k in tool.secret else self.mask(v) for k, v in args.items()}

    def hide_result(self, tool: ToolSpec, value: Any) -> Any:
        """Return a result with the declared fields replaced; and whatever else holds a known secret."""
        if type(value) is dict and tool.secret and self._in_a_key(value) is None:
            return {k: self._hide(v, k) if k in tool.secret else self.mask(v) for k, v in value.items()}
        return self.mask(value) if self._texts else value

    def hide_inputs(self, inputs: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
        """Return *inputs* with those called *names* replaced."""
        hidden = frozenset(names)
        return {k: self._hide(v, f"inputs.{k}") if k in hidden else v for k, v in inputs.items()}

    def hide_plan(
        self, doc: Mapping[str, Any], tools: Iterable[ToolSpec], default_tool: str | None = None
    ) -> dict[str, Any]:
        """Return a plan's document with literals in secret arguments and its secret inputs replaced.

        Text with a reference in it stays: the secret is what it refers to.

        Args:
            doc: A plan's normalised document.
            tools: Those it may call.
            default_tool: Name of the one that runs steps which name none.
        """
        known = {tool.name: tool for tool in tools}
        if not any(tool.secret for tool in known.values()):
            return dict(doc)
        out = dict(doc, steps=self._hide_steps(doc.get("steps", ()), known, default_tool))
        if "inputs" in doc:
            out["inputs"] = self.hide_inputs(doc["inputs"], secret_inputs(doc, known.values(), default_tool))
        return out

    def _hide_steps(
        self, steps: Iterable[Mapping[str, Any]], known: Mapping[str, ToolSpec], default_tool: str | None
    ) -> list[dict[str, Any]]:
        out = []
        for step in steps:
            hidden = dict(step)
            for holder, names in _secret_places(step, known, default_tool):
                args = {k: self.hide_literals(v, k) if k in names else v for k, v in holder["args"].items()}
                if holder is step:
                    hidden["args"] = args
                else:
                    old = hidden["alternatives"]
                    hidden["alternatives"] = [{**a, "args": args} if a is holder else a for a in old]
            if step.get("plan"):
                inner = self._hide_steps(step["plan"].get("steps", ()), known, default_tool)
                hidden["plan"] = dict(step["plan"], steps=inner)
            out.append(hidden)
        return out

    def hide_literals(self, value: Any, name: str) -> Any:
        """Return a secret argument of a plan with its literals replaced; text with a reference in it stays."""
        if type(value) is str:
            template = refs.parse(value)
            return self._hide(template.resolve({}), name) if template.constant else value
        return self._hide(value, name, inner=self.hide_literals)

    def give(self, name: str, value: Any) -> None:
        """Give a secret again that an earlier process held, under the name its references have.

        Args:
            name: Such as ``inputs.token``.
            value: The whole secret; whether it is the same as before cannot be checked.

        Raises:
            ValueRefusedError: *value* cannot be stored exactly.
        """
        canon.check(value)
        for path, leaf in _leaves(value, _ODD.sub("_", name)):
            self._given[path] = canon.encode(leaf)
            self._remember(path, leaf)

    def reveal(self, tool: ToolSpec, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return *args* as the tool gets them: a private copy with every secret in its place.

        Raises:
            RefusedError: ``E-SECRET``: a secret is not known to this process, or stands in an argument that
                the tool does not declare secret.
        """
        data = canon.encode(args)
        if canon.DOLLAR not in data or b"$secret" not in data:
            return canon.decode(data)  # type: ignore[no-any-return]
        return {name: self._reveal(value, tool, name) for name, value in args.items()}

    def _reveal(self, value: Any, tool: ToolSpec, name: str) -> Any:
        if is_secret(value):
            return canon.decode(self._value(value["$secret"], value["mac"], tool, name))
        if type(value) is dict:
            return {k: self._reveal(v, tool, name) for k, v in value.items()}
        if type(value) is list:
            return [self._reveal(v, tool, name) for v in value]
        if type(value) is str and '{"$secret":' in value:
            return _EMBEDDED.sub(lambda match: self._as_text(match, tool, name), value)
        return value

    def _as_text(self, match: re.Match[str], tool: ToolSpec, name: str) -> str:
        data = self._value(match[1], match[2], tool, name)
        value = canon.decode(data)
        return value if type(value) is str else data.decode()

    def _value(self, secret: str, mac: str, tool: ToolSpec, name: str) -> bytes:
        if name not in tool.secret:
            raise RefusedError(
                f"argument {name!r} of {tool.name}: it holds the secret {secret}; "
                f"secrets go only into arguments that their tool declares, as in secret=[{name!r}]",
                code="E-SECRET",
            )
        data = self._by_mac.get(mac) or self._given.get(secret)
        if data is None:
            root = secret.partition(".")[2].partition(".")[0].partition("[")[0]
            again = f"give the input {root!r} again"
            if not secret.startswith("inputs."):
                again = f"it came from a plan or a tool: give {secret!r} again, or run the step again that made it"
            raise RefusedError(
                f"argument {name!r} of {tool.name}: the secret {secret} is not kept in the log, "
                f"and this process has not been told it; {again}",
                code="E-SECRET",
            )
        return data

    def mask(self, value: Any) -> Any:
        """Return *value* with every text in it that holds a known secret replaced by a reference of its own.

        Exact: :meth:`reveal` gives the very text back.
        """
        if not self._texts:
            return value
        if type(value) is str:
            name = self._found(value)
            return value if name is None else self._reference(value, name)
        if type(value) in (int, float):  # only as a whole: a number holds no other
            text = json.dumps(value)
            return (
                self._reference(value, self._texts[text])
                if len(text) >= MIN_MASK and text in self._texts
                else value
            )
        if type(value) is list:
            return [self.mask(item) for item in value]
        if type(value) is dict and not is_secret(value):
            name = self._in_a_key(value)
            if name is not None:  # a secret used as a key: the whole object is one
                return self._reference(value, name)
            return {k: self.mask(v) for k, v in value.items()}
        return value

    def _in_a_key(self, value: Mapping[str, Any]) -> str | None:
        return next((found for key in value if (found := self._found(key)) is not None), None)

    def _found(self, text: str) -> str | None:
        for known, name in self._texts.items():
            if len(known) >= MIN_MASK and known in text:
                return name
        return None

    def scrub(self, text: str, *, cut: bool = False) -> str:
        """Return *text* with known secrets replaced by ``«secret:name»``, also where they are quoted or escaped.

        Args:
            text: Words for the log: a message, a note.
            cut: Whether its end was cut off; the beginning of a secret there is replaced too.
        """
        if not self._texts:
            return text
        if self._pattern is None:
            longest_first = sorted(self._texts, key=len, reverse=True)
            self._pattern = re.compile("|".join(map(re.escape, longest_first)))
        out = self._pattern.sub(lambda match: f"«secret:{self._texts[match[0]]}»", text)
        if cut:
            for known, name in self._texts.items():
                for size in range(min(len(known), len(out)), MIN_SCRUB - 1, -1):
                    if out.endswith(known[:size]):
                        return f"{out[:-size]}«secret:{name}»"
        return out

    def _hide(self, value: Any, name: str, inner: Callable[[Any, str], Any] | None = None) -> Any:
        """Replace the leaves of *value*; its shape stays, so that paths into it still lead somewhere."""
        again = inner or self._hide
        if type(value) is dict and not is_secret(value) and self._in_a_key(value) is None:
            return {k: again(v, f"{name}.{k}") for k, v in value.items()}
        if type(value) is list:
            return [again(v, f"{name}[{i}]") for i, v in enumerate(value)]
        if type(value) is dict and not is_secret(value):
            return self.mask(value)  # a secret used as a key: the whole object is one
        if type(value) in (str, int, float) and not (type(value) is str and _EMBEDDED.search(value)):
            return self._reference(value, name)
        return value

    def _reference(self, value: Any, name: str) -> dict[str, str]:
        data = canon.encode(value)
        mac = hmac.new(self._key, data, "sha256").hexdigest()[:32]
        name = _ODD.sub("_", name)
        if mac not in self._by_mac:
            self._by_mac[mac] = data
            for _, leaf in _leaves(value, name):
                self._remember(name, leaf)
        return {"$secret": name, "mac": mac}

    def _remember(self, name: str, leaf: Any) -> None:
        text = leaf if type(leaf) is str else json.dumps(leaf)
        for form in (
            text,
            json.dumps(text)[1:-1],
            json.dumps(text, ensure_ascii=False)[1:-1],
            repr(text)[1:-1],
            quote(text),
            quote(text, safe=""),
            quote_plus(text),
            *_encoded(text),
        ):
            if len(form) >= MIN_SCRUB and form not in self._texts:
                self._texts[form] = name
                self._pattern = None


def secret_inputs(
    doc: Mapping[str, Any], tools: Iterable[ToolSpec], default_tool: str | None = None
) -> frozenset[str]:
    """Return the names of the inputs that secret arguments of a plan's steps refer to.

    Args:
        doc: A plan's normalised document.
        tools: Those it may call.
        default_tool: Name of the one that runs steps which name none.
    """
    known = {tool.name: tool for tool in tools if tool.secret}
    found: set[str] = set()
    if not known:
        return frozenset()
    for step in _steps(doc):
        for holder, names in _secret_places(step, known, default_tool):
            for ref in refs.parse({k: v for k, v in holder["args"].items() if k in names}).refs:
                if ref.root == "$inputs":
                    found.update([str(ref.path[0])] if ref.path else doc.get("inputs", {}))
    return frozenset(found)


def _steps(doc: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for step in doc.get("steps", ()):
        yield step
        yield from _steps(step.get("plan") or {})


def _secret_places(
    step: Mapping[str, Any], known: Mapping[str, ToolSpec], default_tool: str | None
) -> Iterator[tuple[Mapping[str, Any], frozenset[str]]]:
    """Yield the step and its alternatives, each with its secret arguments' names.

    What is secret in an alternative is secret where the step itself says the same.
    """

    def secret(name: str | None) -> tuple[str, ...]:
        tool = known.get(name or "")
        return tool.secret if tool else ()

    own, args = step.get("tool") or default_tool, step.get("args") or {}
    shared = set(secret(own))
    for other in step.get("alternatives") or ():
        names = frozenset(secret(other["tool"]))
        shared.update(name for name in names if name in args and other["args"].get(name) == args[name])
        if names:
            yield other, names
    if shared and args:
        yield step, frozenset(shared)


def _encoded(text: str) -> Iterator[str]:
    """Yield *text* as base64 and hex have it, also in the middle of other bytes, as in ``Basic base64(user:secret)``."""
    raw = text.encode()
    if not MIN_MASK <= len(raw) <= MAX_ENCODED:
        return
    yield raw.hex()
    yield raw.hex().upper()
    for before in range(3):
        letters = base64.b64encode(bytes(before) + raw)
        sure = letters[
            -(-before * 8 // 6) : (before + len(raw)) * 8 // 6
        ].decode()  # of these bytes and no others
        yield sure
        yield sure.replace("+", "-").replace("/", "_")


def _leaves(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    if type(value) is dict:
        for key, item in value.items():
            yield from _leaves(item, f"{name}.{_ODD.sub('_', key)}")
    elif type(value) is list:
        for index, item in enumerate(value):
            yield from _leaves(item, f"{name}[{index}]")
    elif type(value) in (str, int, float):
        yield name, value
