"""What an exception says, read without importing the library it came from and without believing it.

Everything is read by name: a status where clients put a status, a code where clients put a code. Reading never
raises and never does I/O, whatever the attributes of the exception do, and what comes out can be stored.

The chain matters as much as the error. ``raise A from B`` makes B the reason of A. A context without ``from``
is only something that happened earlier; it may be a call whose effect nobody knows.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs

from fsm_agent.core.classification import bodies, waits
from fsm_agent.core.classification.gently import NAME_BYTES, clean, get, guard, is_a, number, word
from fsm_agent.core.classification.resends import resent, translated

MAX_ERRORS: Final = 32
"""How many errors of one chain (members of groups included) are read."""

MAX_CODES: Final = 8
_NOISE: Final = frozenset({object, BaseException, Exception})


@attrs.frozen(kw_only=True)
class Declared:
    """What a ``ToolError`` says about itself.

    Attributes:
        code: A signal, a body code, or a word of the tool's own.
        applied: ``no``, ``maybe`` or ``yes``; None when the tool does not say.
    """

    code: str | None = None
    applied: str | None = None


@attrs.frozen(kw_only=True)
class ErrorFacts:
    """An error as evidence. The defaults mean "not known".

    Attributes:
        classes: Names of its classes, nearest first, such as ``httpx.ReadTimeout``; builtins without module.
        message: At most 2,048 bytes of UTF-8.
        status: HTTP status of the reply, 100–599.
        method: HTTP method of the request, upper case.
        grpc: Name of the gRPC status, such as ``UNAVAILABLE``.
        codes: Codes of the reply's body, the most specific first.
        retry_after_s: How long the other side asked us to wait, in seconds.
        declared: Set for a ``ToolError``, which knows what it is.
        link: How the error that precedes it in ``causes`` leads here: ``cause`` (it says so), ``translation`` (its
            library raised it in the place of this one), ``context`` (this one was being handled), or empty.
        causes: The errors behind this one, nearest first.
        earlier: Errors that were being handled while this one or one of ``causes`` was raised.
        members: What an exception group holds.
        resent: Whether the client had sent something for this call before the request that failed: a repetition of its
            own, or a request that was redirected. None when its frames are there but do not tell.
    """

    classes: tuple[str, ...] = ()
    message: str = ""
    status: int | None = None
    method: str | None = None
    grpc: str | None = None
    codes: tuple[str, ...] = ()
    retry_after_s: float | None = None
    declared: Declared | None = None
    link: str = ""
    causes: "tuple[ErrorFacts, ...]" = ()
    earlier: "tuple[ErrorFacts, ...]" = ()
    members: "tuple[ErrorFacts, ...]" = ()
    resent: bool | None = False


def describe(error: BaseException, *, now_us: int | None = None) -> ErrorFacts:
    """Return what *error* says. Never raises.

    Args:
        error: Anything that was raised.
        now_us: UTC epoch in microseconds, for a ``Retry-After`` given as a date by a reply without a ``Date``.
    """
    seen: dict[int, BaseException] = {}
    facts = _chain(error, seen, now_us)
    again = True if facts.resent else resent(seen.values())
    if not again and len(seen) >= MAX_ERRORS:
        again = None  # what was not read may have been a send
    return attrs.evolve(facts, resent=again)


def _chain(error: BaseException, seen: dict[int, BaseException], now_us: int | None) -> ErrorFacts:
    """Read *error*, its reasons, what was being handled meanwhile, and the members of groups."""
    links: list[ErrorFacts] = []
    aside: list[BaseException] = []
    current: BaseException | None = error
    link = ""
    while current is not None and id(current) not in seen and len(seen) < MAX_ERRORS:
        seen[id(current)] = current
        members = _chains(_members(current), seen, now_us)
        links.append(attrs.evolve(_read(current, now_us), link=link, members=members))
        cause, context = _behind(current)
        if cause is not None:
            link = "cause"
            if context is not None and context is not cause:
                aside.append(context)
        else:
            link = "translation" if context is not None and translated(current, context) else "context"
        current = cause or context
    head, *rest = links
    again = any(f.resent for f in links) or any(m.resent for f in links for m in f.members)
    return attrs.evolve(head, causes=tuple(rest), earlier=_chains(aside, seen, now_us), resent=again)


def _chains(
    errors: Iterable[BaseException], seen: dict[int, BaseException], now_us: int | None
) -> tuple[ErrorFacts, ...]:
    return tuple(_chain(e, seen, now_us) for e in errors if id(e) not in seen and len(seen) < MAX_ERRORS)


def _behind(error: BaseException) -> tuple[BaseException | None, BaseException | None]:
    """Return the reason that *error* names, and the error that was being handled when it was raised."""
    cause = guard(lambda: _slot("__cause__", error))
    context = guard(lambda: _slot("__context__", error))
    if cause is None and context is None:
        reason = get(error, "reason")  # urllib's and old urllib3's wrappers keep it there
        cause = reason if is_a(reason, BaseException) else None
    return cause, context


def _slot(name: str, error: BaseException) -> Any:
    return BaseException.__dict__[name].__get__(error)  # the class may have a property of that name


def _members(error: BaseException) -> tuple[BaseException, ...]:
    if not is_a(error, BaseExceptionGroup):
        return ()
    return guard(lambda: tuple(BaseExceptionGroup.__dict__["exceptions"].__get__(error))) or ()


def _read(error: BaseException, now_us: int | None) -> ErrorFacts:
    """Read *error* alone."""
    classes = guard(lambda: _classes(type(error))) or ()
    response = get(error, "response")
    body = guard(lambda: _body(error, response))
    declared = None
    if any(c.startswith("fsm_agent.") and c.endswith(".ToolError") for c in classes):
        declared = Declared(code=word(get(error, "code")), applied=word(get(error, "applied")))
    is_grpc = any(c.startswith("grpc.") for c in classes)
    words = get(error, "message") if declared else guard(get(error, "details")) if is_grpc else None
    return ErrorFacts(
        classes=classes,
        message=_message(error, words),
        status=_status(error, response),
        method=_method(error, response),
        grpc=guard(lambda: _grpc(error, is_call=is_grpc)),
        codes=guard(lambda: _codes(error, body)) or (),
        retry_after_s=guard(lambda: _retry_after(error, response, is_grpc=is_grpc, now_us=now_us)),
        declared=declared,
        resent=_reply_shows_resend(error, response),
    )


def _classes(kind: type) -> tuple[str, ...]:
    names = []
    for cls in type.mro(kind)[:MAX_ERRORS]:
        if cls not in _NOISE:
            module = type.__dict__["__module__"].__get__(cls)
            name = type.__dict__["__qualname__"].__get__(cls)
            full = name if module == "builtins" or type(module) is not str else f"{module}.{name}"
            names.append(clean(full, NAME_BYTES))
    return tuple(names)


def _message(error: BaseException, words: object) -> str:
    """Return *words* if they are text; gRPC's own str is a page with the time of day in it."""
    text = words if is_a(words, str) else guard(lambda: str(error))
    return clean(str.__str__(text)) if is_a(text, str) else ""


def _status(error: BaseException, response: object) -> int | None:
    for value in (
        get(response, "status_code"),
        get(response, "status"),
        _meta(response).get("HTTPStatusCode"),
        get(error, "status_code"),
        get(error, "status"),
        None if is_a(error, SystemExit) else get(error, "code"),
        get(get(error, "resp"), "status"),
    ):
        status = number(value)
        if status is not None and 100 <= status <= 599:
            return status
    return None


def _meta(response: object) -> Mapping[str, Any]:
    """Return botocore's metadata of the reply, or nothing."""
    meta = response.get("ResponseMetadata") if type(response) is dict else None
    return meta if type(meta) is dict else {}


def _method(error: BaseException, response: object) -> str | None:
    for holder in (get(error, "request"), get(error, "request_info"), get(response, "request")):
        method = word(get(holder, "method"))
        if method is not None:
            return method.upper()
    return None


def _grpc(error: BaseException, *, is_call: bool) -> str | None:
    status = get(error, "code")() if is_call else get(error, "grpc_status_code")
    return word(get(status, "name"))


def _body(error: BaseException, response: object) -> Any:
    """Return the reply's body if the client has read it already; nothing is fetched here."""
    body = get(error, "body")
    if type(body) is dict:
        return body
    if type(response) is dict:
        return response
    content = get(response, "_content")  # httpx and requests keep it there once it is read
    return bodies.parse(content) if type(content) is bytes else None


def _codes(error: BaseException, body: Any) -> tuple[str, ...]:
    code = get(error, "code")
    own = (
        word(code) if is_a(code, str) else None,
        word(get(get(error, "error"), "code")),  # MCP
        word(get(error, "sqlstate")),
        word(get(error, "sqlite_errorname")),
        word(get(error, "type")),
    )
    found = [c for c in own if c] + [clean(c, NAME_BYTES) for c in bodies.codes(body)]
    return tuple(dict.fromkeys(found))[:MAX_CODES]


def _retry_after(
    error: BaseException, response: object, *, is_grpc: bool, now_us: int | None
) -> float | None:
    declared = get(error, "retry_after_s")
    if type(declared) in (int, float):
        return waits.wait_s(float(declared))
    places = [get(response, "headers"), get(error, "headers"), _meta(response).get("HTTPHeaders")]
    if is_grpc:
        pairs = guard(get(error, "trailing_metadata")) or ()
        places.append({k: v for k, v in pairs if type(k) is str})
    return waits.retry_after(_header_of([p for p in places if p is not None]), now_us)


def _header_of(places: list[Any]) -> Callable[[str], str | None]:
    def header(name: str) -> str | None:
        for place in places:
            value = guard(lambda at=place: at.get(name) or at.get(name.title()))  # type: ignore[misc]
            if type(value) is str:
                return value.strip()
        return None

    return header


def _reply_shows_resend(error: BaseException, response: object) -> bool:
    """Return whether the reply itself says that it answers a repetition or a redirected request."""
    attempts = number(_meta(response).get("RetryAttempts"))
    headers = get(get(error, "request"), "headers")
    count = guard(lambda: headers.get("x-stainless-retry-count"))
    past = (
        get(response, "history"),
        get(error, "history"),
        get(get(get(response, "raw"), "retries"), "history"),
        get(get(response, "retries"), "history"),
    )
    if attempts or (type(count) is str and count != "0"):
        return True
    return any(type(p) in (list, tuple) and p for p in past)
