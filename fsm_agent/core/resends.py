"""Had the client sent something for this call before the request that failed? Its frames tell.

HTTP clients follow redirects and repeat requests by themselves. Then "connection refused" can be the end of a story in
which an earlier copy of the call was applied. No exception says so, but the frames that raised it do: a client
that repeats a request calls itself again, or counts.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from fsm_agent.core.gently import guard

MAX_FRAMES: Final = 512


def _twice(_names: Mapping[str, Any], count: int) -> bool:
    return count > 1


def _has_history(names: Mapping[str, Any], _count: int) -> bool:
    return bool(names.get("history"))


def _aiohttp(names: Mapping[str, Any], _count: int) -> bool:
    repeats = names.get("method") in ("GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE")
    return bool(names.get("history")) or (repeats and not names.get("retry_persistent_connection"))


_TELLS: Final[dict[tuple[str, str], Callable[[Mapping[str, Any], int], bool]]] = {
    ("httpx._client", "_send_handling_redirects"): _has_history,
    ("httpx2._client", "_send_handling_redirects"): _has_history,
    ("requests.sessions", "send"): _twice,  # a redirect is followed from within send
    ("urllib3.connectionpool", "urlopen"): _twice,  # a repetition calls itself
    ("urllib3.poolmanager", "urlopen"): _twice,  # so does a redirect
    ("urllib.request", "open"): _twice,
    ("aiohttp.client", "_request"): _aiohttp,  # repeats idempotent methods on a connection that was dropped
    ("botocore.endpoint", "_send_request"): lambda names, _: names.get("attempts") != 1,
    ("openai._base_client", "request"): lambda names, _: names.get("retries_taken") != 0,
    ("anthropic._base_client", "request"): lambda names, _: names.get("retries_taken") != 0,
}
"""Module and function of a client → whether its frame shows an earlier send. Checked against the versions that the
tests install: aiohttp 3.14, anthropic 2.14, botocore 1.44, httpx 0.28, openai 3.57, requests 2.34, urllib3 2.8."""
_TELLING_ROOTS: Final = frozenset(module.partition(".")[0] for module, _ in _TELLS)


def resent(errors: Iterable[BaseException]) -> bool | None:
    """Return whether the frames of *errors* show an earlier send.

    None when frames of a client are there, but not those that tell; False when they tell, or no client is known.
    """
    return guard(lambda: _told(errors))


def _frames(error: BaseException) -> Iterable[Any]:
    trace, count = error.__traceback__, 0
    while trace is not None and count < MAX_FRAMES:
        yield trace.tb_frame
        trace, count = trace.tb_next, count + 1


def _told(errors: Iterable[BaseException]) -> bool | None:
    met: set[str] = set()
    told: set[str] = set()
    for error in errors:
        counts: dict[tuple[str, str], int] = {}
        for frame in _frames(error):
            module = frame.f_globals.get("__name__")
            root = module.partition(".")[0] if type(module) is str else ""
            if root not in _TELLING_ROOTS:
                continue
            met.add(root)
            key = (module, frame.f_code.co_name)
            if key in _TELLS:
                told.add(root)
                counts[key] = counts.get(key, 0) + 1
                if _TELLS[key](frame.f_locals, counts[key]):
                    return True
    return None if met - told else False
