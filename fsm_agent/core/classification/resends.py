"""Had the client sent something for this call before the request that failed? Its frames tell.

HTTP clients follow redirects and repeat requests by themselves, and tools wrap them into loops that retry. Then "connection refused" can be the end of a story in
which an earlier copy of the call was applied. No exception says so, but the frames that raised it do: a client
that repeats a request calls itself again, or counts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fsm_agent.core.classification.gently import guard

MAX_FRAMES: Final = 512


def _twice(_names: Mapping[str, Any], count: int) -> bool:
    return count > 1


def _has_history(names: Mapping[str, Any], _count: int) -> bool | None:
    past = names.get("history")
    return bool(past) if type(past) in (list, tuple) else None


def _aiohttp(names: Mapping[str, Any], count: int) -> bool | None:
    """Redirects are in its history; idempotent methods are repeated on a connection that was dropped."""
    method, may_repeat = names.get("method"), names.get("retry_persistent_connection")
    if type(method) is not str or type(may_repeat) is not bool:
        return None
    return _has_history(names, count) or (method in _REPEATED_BY_AIOHTTP and not may_repeat)


def _counter(name: str, first: int) -> Callable[[Mapping[str, Any], int], bool | None]:
    def tell(names: Mapping[str, Any], _count: int) -> bool | None:
        return names[name] != first if type(names.get(name)) is int else None

    return tell


def _tenacity(names: Mapping[str, Any], _count: int) -> bool | None:
    state = names.get("retry_state") or getattr(names.get("self"), "_retry_state", None)
    attempt = getattr(state, "attempt_number", None)
    return attempt != 1 if type(attempt) is int else None


_REPEATED_BY_AIOHTTP: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
_TELLS: Final[dict[tuple[str, str], Callable[[Mapping[str, Any], int], bool | None]]] = {
    ("httpx._client", "_send_handling_redirects"): _has_history,
    ("httpx2._client", "_send_handling_redirects"): _has_history,
    ("requests.sessions", "send"): _twice,  # a redirect is followed from within send
    ("urllib3.connectionpool", "urlopen"): _twice,  # a repetition calls itself
    ("urllib3.poolmanager", "urlopen"): _twice,  # so does a redirect
    ("urllib.request", "open"): _twice,
    ("aiohttp.client", "_request"): _aiohttp,
    ("botocore.endpoint", "_send_request"): _counter("attempts", 1),
    ("openai._base_client", "request"): _counter("retries_taken", 0),
    ("anthropic._base_client", "request"): _counter("retries_taken", 0),
    ("anthropic._base_client", "_request"): _counter("retries_taken", 0),
    ("tenacity", "__call__"): _tenacity,
    ("tenacity", "__iter__"): _tenacity,
    ("tenacity.asyncio", "__call__"): _tenacity,
    ("tenacity.asyncio", "__anext__"): _tenacity,
    ("backoff._sync", "retry"): _counter("tries", 1),
    ("backoff._async", "retry"): _counter("tries", 1),
}
"""Module and function of a client → whether its frame, entered for the nth time, shows an earlier send; None if it
does not tell. For aiohttp 3.14, anthropic 2.14, backoff 2.2, botocore 1.44, httpx 0.28, openai 3.57, requests 2.34,
tenacity 9.2 and urllib3 2.8. The tests hold whatever is installed to it; a client that changes inside proves nothing."""
_TELLING_ROOTS: Final = frozenset(module.partition(".")[0] for module, _ in _TELLS)


def resent(errors: Iterable[BaseException]) -> bool | None:
    """Return whether the frames of *errors* show an earlier send.

    None when frames of a client are there, but not those that tell; False when they tell, or no client is known.
    """
    return guard(lambda: _told(errors))


def translated(error: BaseException, context: BaseException) -> bool:
    """Return whether *error* is the word of its own library for *context*, raised where that was caught.

    ``except OSError: raise ConnectError`` inside a library names a reason. The same context around a call that goes
    wrong in its turn does not: the first failure is another call's.
    """
    return guard(lambda: _translated(error, context)) or False


def _translated(error: BaseException, context: BaseException) -> bool:
    raised_in, caught_in = list(_frames(error))[-1], next(iter(_frames(context)))
    return raised_in is caught_in and _root(raised_in) == type(error).__module__.partition(".")[0]


def _frames(error: BaseException) -> Iterable[Any]:
    """Yield the frames of *error*, outermost first."""
    trace, count = error.__traceback__, 0
    while trace is not None and count < MAX_FRAMES:
        yield trace.tb_frame
        trace, count = trace.tb_next, count + 1


def _root(frame: Any) -> str:
    module = frame.f_globals.get("__name__")
    return module.partition(".")[0] if type(module) is str else ""


def _told(errors: Iterable[BaseException]) -> bool | None:
    met: set[str] = set()
    told: set[str] = set()
    for error in errors:
        entered: dict[tuple[str, str], set[int]] = {}
        for frame in _frames(error):
            root = _root(frame)
            if root not in _TELLING_ROOTS:
                continue
            met.add(root)
            key = (frame.f_globals["__name__"], frame.f_code.co_name)
            if key in _TELLS:
                # an error that is raised again in the frame that caught it lists that frame twice
                entered.setdefault(key, set()).add(id(frame))
                verdict = _TELLS[key](frame.f_locals, len(entered[key]))
                if verdict:
                    return True
                if verdict is False:
                    told.add(root)
    return None if met - told else False
