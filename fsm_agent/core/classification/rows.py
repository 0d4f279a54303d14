"""The rows of ``configs/classify.toml``: read strictly, or refused with the key and what is allowed there.

A row is ``{match = [...], signal = "...", applied = "..."}`` in one of the lists ``codes``, ``http``, ``grpc``,
``classes``, ``messages``; a few options narrow it. One key has one row: a duplicate is refused, so the order of the
file never decides, except between patterns of messages, where the first match wins.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core import canon
from fsm_agent.core.errors import ConfigError, ValueRefusedError
from fsm_agent.core.signals import OUTCOME_SIGNALS, Applied, Signal

VERSION: Final = 1
SIGNALS: Final = {
    s.value: s for s in (*OUTCOME_SIGNALS, Signal.PROGRESS_STALL) if s is not Signal.REPEATED_ERROR
}
"""What a failure can be classified as, by name; a stall is what a loop inside a tool says of itself.
``repeated_error`` is derived later, never read."""
GRPC_NAMES: Final = (
    "CANCELLED",
    "UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
)
_STATUS_CLASSES: Final = ("1xx", "2xx", "3xx", "4xx", "5xx")
_OPTIONS: Final[dict[str, tuple[str, ...]]] = {
    "codes": (),
    "http": ("methods", "retry_after"),
    "grpc": (),
    "classes": ("walk", "connect"),
    "messages": (),
}
_TOP: Final = ("version", "aliases", *_OPTIONS, "fabricated_status", "envelope")
_ENVELOPE: Final = (
    "false_means_error",
    "true_means_error",
    "non_null_means_error",
    "message",
    "retry_after_s",
    "status",
    "text",
)


@attrs.frozen(kw_only=True)
class Row:
    """One key of the table.

    Attributes:
        key: As it is shown to people, such as ``http 429``.
        signal: The classification.
        applied: What the key proves.
        methods: HTTP methods it is for; empty for all.
        retry_after: Whether it is only for replies that ask to wait.
        walk: Whether the class is a wrapper: the reason behind it decides, and the row only where there is none.
        connect: Whether it says that no connection came about. That proves ``no`` for one request, so the call must
            have made no other.
    """

    key: str
    signal: Signal
    applied: Applied
    methods: frozenset[str] = frozenset()
    retry_after: bool = False
    walk: bool = False
    connect: bool = False


@attrs.frozen(kw_only=True)
class EnvelopeRules:
    """How a returned value shows that it is an error. Names of top-level keys; ``text`` are patterns of RE2."""

    false_means_error: tuple[str, ...] = ()
    true_means_error: tuple[str, ...] = ()
    non_null_means_error: tuple[str, ...] = ()
    message: tuple[str, ...] = ()
    retry_after_s: tuple[str, ...] = ()
    status: tuple[str, ...] = ()
    text: tuple[Any, ...] = ()
    telling: frozenset[str] = attrs.field(init=False)
    """The keys without which a value is no error."""

    def __attrs_post_init__(self) -> None:
        telling = {*self.false_means_error, *self.true_means_error, *self.non_null_means_error}
        object.__setattr__(self, "telling", frozenset(telling))


@attrs.frozen(kw_only=True)
class Tables:
    """The whole file, by key."""

    digest: str
    aliases: Mapping[str, str]
    codes: Mapping[str, Row]
    http: Mapping[str, tuple[Row, ...]]
    grpc: Mapping[str, Row]
    classes: Mapping[str, Row]
    messages: tuple[tuple[Any, Row], ...]
    fabricated_status: Mapping[str, frozenset[str]]
    envelope: EnvelopeRules


def normal(code: str) -> str:
    """Return *code* as it is looked up: ``rateLimitExceeded`` and ``RATE_LIMIT_EXCEEDED`` are one code."""
    return code.lower().translate(_IGNORED)


_IGNORED: Final = str.maketrans("", "", "_- .")


def load(data: Mapping[str, Any]) -> Tables:
    """Read the parsed file.

    Raises:
        ConfigError: With the first key that cannot be used, what was found and what is allowed.
    """
    _keys(data, _TOP, "")
    if data.get("version") != VERSION or type(data["version"]) is not int:
        _refuse("/version", f"found {data.get('version')!r}", f"this release reads version {VERSION}")
    rows = {section: list(_rows(data, section)) for section in _OPTIONS}
    return Tables(
        digest=canon.value_digest("classify", _plain(data)),
        aliases=_aliases(data.get("aliases", {})),
        codes=_unique((normal(m), at, row) for at, m, row in rows["codes"]),
        http=_http(rows["http"]),
        grpc=_unique((_grpc_name(m, at), at, row) for at, m, row in rows["grpc"]),
        classes=_unique((m, at, row) for at, m, row in rows["classes"]),
        messages=tuple((_pattern(m, at), _proves_nothing(row, at)) for at, m, row in rows["messages"]),
        fabricated_status=_fabricated(data.get("fabricated_status", [])),
        envelope=_envelope(data.get("envelope", {})),
    )


def _refuse(at: str, found: str, allowed: str) -> Any:
    raise ConfigError(f"classify table at {at}: {found}; {allowed}")


def _plain(data: Mapping[str, Any]) -> Any:
    try:
        return canon.snapshot(dict(data))[0]
    except ValueRefusedError as error:
        return _refuse("/", str(error), "use text, numbers, booleans, lists and tables only")


def _keys(table: Any, allowed: Iterable[str], at: str) -> None:
    if not isinstance(table, Mapping):
        _refuse(at or "/", f"found {type(table).__name__}", "give a table")
    names = tuple(allowed)
    for key in table:
        if key not in names:
            _refuse(f"{at}/{key}", "unknown key", f"allowed: {', '.join(names)}")


def _texts(table: Mapping[str, Any], key: str, at: str, *, required: bool = False) -> tuple[str, ...]:
    value = table.get(key, None if required else [])
    if (
        not isinstance(value, list)
        or (required and not value)
        or not all(isinstance(v, str) and v for v in value)
    ):
        _refuse(f"{at}/{key}", f"found {value!r:.80}", "give a list of texts")
    return tuple(value)


def _flag(table: Mapping[str, Any], key: str, at: str) -> bool:
    value = table.get(key, False)
    if not isinstance(value, bool):
        _refuse(f"{at}/{key}", f"found {value!r:.80}", "allowed: true, false")
    return bool(value)


def _list(value: Any, at: str) -> list[Any]:
    return (
        value
        if isinstance(value, list)
        else _refuse(at, f"found {type(value).__name__}", "give a list of tables")
    )


def _rows(data: Mapping[str, Any], section: str) -> Iterable[tuple[str, str, Row]]:
    """Yield (place, match, row) for every match of every row of *section*."""
    options = _OPTIONS[section]
    for index, table in enumerate(_list(data.get(section, []), f"/{section}")):
        at = f"/{section}/{index}"
        _keys(table, ("match", "signal", "applied", *options), at)
        matches = table.get("match")
        if not isinstance(matches, list) or not matches:
            _refuse(f"{at}/match", f"found {matches!r:.80}", "give a list with at least one entry")
        row = Row(
            key="",
            signal=SIGNALS[_one_of(table, "signal", at, SIGNALS)],
            applied=Applied(_one_of(table, "applied", at, [a.value for a in Applied])),
            methods=frozenset(_texts(table, "methods", at)),
            retry_after=_flag(table, "retry_after", at),
            walk=_flag(table, "walk", at),
            connect=_flag(table, "connect", at),
        )
        if row.walk and row.applied is not Applied.MAYBE:
            _refuse(
                f"{at}/applied",
                f"found {row.applied.value!r}",
                "a wrapper (walk) proves nothing: allowed: maybe",
            )
        if row.connect and row.applied is not Applied.NO:
            _refuse(
                f"{at}/connect",
                f"found true with applied {row.applied.value!r}",
                "it is for rows that say no",
            )
        for place, match in enumerate(matches):
            where = f"{at}/match/{place}"
            text = str(match) if section == "http" and type(match) is int else match
            if not isinstance(text, str) or not text:
                _refuse(
                    where,
                    f"found {match!r:.80}",
                    "give a text" + (" or a status" if section == "http" else ""),
                )
            yield where, text, attrs.evolve(row, key=f"{_SHOWN[section]} {text}")


_SHOWN: Final = {"codes": "code", "http": "http", "grpc": "grpc", "classes": "class", "messages": "message"}


def _one_of(table: Mapping[str, Any], key: str, at: str, allowed: Iterable[str]) -> str:
    names, value = tuple(allowed), table.get(key)
    if not isinstance(value, str) or value not in names:
        _refuse(f"{at}/{key}", f"found {value!r:.80}", f"allowed: {', '.join(names)}")
    return str(value)


def _unique(rows: Iterable[tuple[str, str, Row]]) -> dict[str, Row]:
    out: dict[str, Row] = {}
    for key, at, row in rows:
        if key in out:
            _refuse(at, f"{row.key} is there already, as {out[key].key}", "one key has one row")
        out[key] = row
    return out


def _http(rows: Iterable[tuple[str, str, Row]]) -> dict[str, tuple[Row, ...]]:
    """Group by status; narrower rows come first."""
    out: dict[str, tuple[Row, ...]] = {}
    for at, key, row in rows:
        if key not in _STATUS_CLASSES and not (len(key) == 3 and key.isdecimal() and "100" <= key <= "599"):
            _refuse(
                at, f"found {key!r}", f"give a status from 100 to 599, or one of {', '.join(_STATUS_CLASSES)}"
            )
        for other in out.get(key, ()):
            if (other.methods, other.retry_after) == (row.methods, row.retry_after):
                _refuse(
                    at,
                    f"{row.key} is there already",
                    "one key has one row for the same methods and retry_after",
                )
        out[key] = tuple(sorted((*out.get(key, ()), row), key=lambda r: (not r.methods, not r.retry_after)))
    return out


def _grpc_name(name: str, at: str) -> str:
    return name if name in GRPC_NAMES else _refuse(at, f"found {name!r}", f"allowed: {', '.join(GRPC_NAMES)}")


def _pattern(text: str, at: str) -> Any:
    import re2  # slow to load, and not before a classification is

    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(text, options)
    except re2.error as error:
        reason = error.args[0].decode(errors="replace") if isinstance(error.args[0], bytes) else str(error)
        return _refuse(at, f"{text!r} is no pattern ({reason})", "write it in RE2's syntax")


def _proves_nothing(row: Row, at: str) -> Row:
    if row.applied is Applied.NO:
        _refuse(at, "a message says applied = no", "words prove nothing: allowed: maybe, yes")
    return row


def _aliases(table: Any) -> dict[str, str]:
    if not isinstance(table, Mapping) or not all(isinstance(v, str) and v for v in table.values()):
        _refuse("/aliases", f"found {table!r:.80}", "give a table of module = module")
    for name, target in table.items():
        if target in table:
            _refuse(f"/aliases/{name}", f"{target!r} is an alias itself", "name the module that the rows use")
    return dict(table)


def _fabricated(rows: Any) -> dict[str, frozenset[str]]:
    out: dict[str, frozenset[str]] = {}
    for index, table in enumerate(_list(rows, "/fabricated_status")):
        at = f"/fabricated_status/{index}"
        _keys(table, ("match", "caused_by"), at)
        for name in _texts(table, "match", at, required=True):
            out[name] = frozenset(_texts(table, "caused_by", at, required=True)) | out.get(name, frozenset())
    return out


def _envelope(table: Any) -> EnvelopeRules:
    _keys(table, _ENVELOPE, "/envelope")
    lists = {key: _texts(table, key, "/envelope") for key in _ENVELOPE if key != "text"}
    patterns = _texts(table, "text", "/envelope")
    text = tuple(_pattern(p, f"/envelope/text/{i}") for i, p in enumerate(patterns))
    return EnvelopeRules(
        false_means_error=lists["false_means_error"],
        true_means_error=lists["true_means_error"],
        non_null_means_error=lists["non_null_means_error"],
        message=lists["message"],
        retry_after_s=lists["retry_after_s"],
        status=lists["status"],
        text=text,
    )
