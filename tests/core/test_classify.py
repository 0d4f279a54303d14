"""From an error to a signal and what is proved: the shipped table, the loader, and reading hostile exceptions."""

import importlib
import importlib.util
import json
import sqlite3
import ssl
import tomllib
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core import canon
from fsm_agent.core.classification import bodies, gently, resends
from fsm_agent.core.classification.classify import Classifier, Declared, ErrorFacts, describe
from fsm_agent.core.classification.facts import MAX_ERRORS
from fsm_agent.core.classification.gently import clean
from fsm_agent.core.classification.rows import GRPC_NAMES, SIGNALS
from fsm_agent.core.classification.waits import MAX_WAIT_S, http_date, retry_after
from fsm_agent.core.errors import ConfigError
from fsm_agent.core.signals import OUTCOME_SIGNALS, Applied, Signal
from fsm_agent.runtime.tools.context import ToolError

TEXT = (Path(__file__).parents[2] / "configs" / "classify.toml").read_text(encoding="utf-8")
TABLE = tomllib.loads(TEXT)
CLASSIFIER = Classifier.from_data(TABLE)
NO, MAYBE, YES = Applied.NO, Applied.MAYBE, Applied.YES


def raised(error):
    try:
        raise error
    except BaseException as caught:
        return caught


def judge(error):
    return CLASSIFIER.classify(describe(raised(error)))


def short(found):
    return found.signal.value, found.applied.value


class Web(Exception):
    """An error of an HTTP client, as far as anybody can see."""

    def __init__(self, status=None, body=None, headers=None, **more):
        super().__init__("web")
        self.response = SimpleNamespace(status_code=status, headers=headers or {}, **more)
        self.body = body


# ---------------------------------------------------------------- the shipped table


@pytest.mark.parametrize(
    ("status", "expected"),
    {
        400: ("bad_request", "no"),
        401: ("auth_denied", "no"),
        402: ("quota_exhausted", "no"),
        403: ("auth_denied", "no"),
        404: ("not_found", "no"),
        408: ("transient_error", "maybe"),
        409: ("conflict", "maybe"),
        410: ("not_found", "no"),
        412: ("precondition_violated", "maybe"),
        418: ("bad_request", "maybe"),
        422: ("bad_request", "no"),
        423: ("transient_error", "no"),
        428: ("precondition_violated", "no"),
        429: ("rate_limited", "no"),
        500: ("transient_error", "maybe"),
        501: ("bad_request", "no"),
        503: ("transient_error", "maybe"),
        507: ("quota_exhausted", "maybe"),
        529: ("rate_limited", "maybe"),
        599: ("transient_error", "maybe"),
        303: ("bad_request", "maybe"),
        200: ("unclassified_error", "maybe"),
        100: ("unclassified_error", "maybe"),
    }.items(),
)
def test_a_status_means_what_http_says(status, expected):
    found = judge(Web(status))
    assert short(found) == expected
    assert found.status == status


@pytest.mark.parametrize("status", range(100, 600))
def test_every_status_has_an_answer_and_no_server_error_proves_anything(status):
    found = judge(Web(status))
    if status >= 500 and status not in {501, 505, 511}:
        assert found.applied is MAYBE


@pytest.mark.parametrize("name", GRPC_NAMES)
def test_every_grpc_status_has_a_row(name):
    assert CLASSIFIER.classify(ErrorFacts(grpc=name)).why == f"gRPC status {name}"


def test_a_second_delete_proves_nothing_and_a_delete_by_another_name_is_not_asked():
    error = Web(404, request=SimpleNamespace(method="delete"))
    assert short(judge(error)) == ("not_found", "maybe")
    assert short(judge(Web(404, request=SimpleNamespace(method="POST")))) == ("not_found", "no")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError(), ("transient_error", "maybe")),
        (ConnectionResetError(), ("transient_error", "maybe")),
        (ConnectionRefusedError(), ("transient_error", "no")),
        (OSError("disk"), ("unclassified_error", "maybe")),
        (FileNotFoundError("x"), ("not_found", "maybe")),
        (PermissionError("x"), ("auth_denied", "maybe")),
        (FileExistsError("x"), ("conflict", "maybe")),
        (json.JSONDecodeError("x", "y", 0), ("validation_failed", "maybe")),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"), ("validation_failed", "maybe")),
        (ssl.SSLCertVerificationError("x"), ("auth_denied", "no")),
        (ssl.SSLError("x"), ("transient_error", "maybe")),
        (sqlite3.IntegrityError("x"), ("conflict", "maybe")),
        (KeyError("price"), ("unclassified_error", "maybe")),
        (ValueError("x"), ("unclassified_error", "maybe")),
        (AssertionError(), ("unclassified_error", "maybe")),
        (KeyboardInterrupt(), ("unclassified_error", "maybe")),
        (SystemExit(404), ("unclassified_error", "maybe")),
        (GeneratorExit(), ("unclassified_error", "maybe")),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_a_builtin_error_proves_nothing_unless_nothing_was_connected(error, expected):
    assert short(judge(error)) == expected


def test_cancellation_by_the_tool_itself_is_never_a_success():
    import asyncio

    assert short(judge(asyncio.CancelledError())) == ("unclassified_error", "maybe")


def test_an_error_of_no_known_library_is_unclassified_whatever_it_is_called():
    class PermissionDenied(Exception):
        pass

    assert short(judge(PermissionDenied("nope"))) == ("unclassified_error", "maybe")


def test_a_database_that_is_busy_is_transient_by_its_code(tmp_path):
    path = tmp_path / "x.db"
    one, other = sqlite3.connect(path, timeout=0), sqlite3.connect(path, timeout=0)
    one.execute("create table t (x)")
    one.execute("begin immediate")
    try:
        other.execute("begin immediate")
    except sqlite3.OperationalError as error:
        found = CLASSIFIER.classify(describe(error))
    one.close()
    other.close()
    assert (found.signal, found.applied, found.code) == (Signal.TRANSIENT_ERROR, MAYBE, "SQLITE_BUSY")


@pytest.mark.parametrize(
    ("message", "signal"),
    [
        ("Rate limit exceeded, slow down", "rate_limited"),
        ("请求过于频繁", "rate_limited"),
        ("insufficient funds", "quota_exhausted"),
        ("access denied for you", "auth_denied"),
        ("timeout at 12:00:01", "transient_error"),
        ("查询超时", "transient_error"),
        ("the cat sat on the mat", "unclassified_error"),
    ],
)
def test_words_give_a_signal_where_nothing_better_is_known_and_never_a_proof(message, signal):
    assert short(judge(RuntimeError(message))) == (signal, "maybe")


def test_the_words_of_the_reason_count_too():
    error = RuntimeError("booking failed")
    error.__cause__ = RuntimeError("connection reset by peer")
    assert short(judge(error)) == ("transient_error", "maybe")


CLASS_ROWS = [name for row in TABLE["classes"] for name in row["match"]]


MODULES = {
    "httpx": ("httpx", "httpcore"),
    "requests": ("requests.exceptions",),
    "urllib3": ("urllib3.exceptions",),
    "aiohttp": ("aiohttp.client_exceptions", "aiohttp.http_exceptions"),
    "openai": ("openai",),
    "anthropic": ("anthropic",),
    "botocore": ("botocore.exceptions", "botocore.parsers"),
    "grpc": ("grpc",),
    "http": ("http.client",),
    "urllib": ("urllib.error",),
    "concurrent": ("concurrent.futures", "concurrent.futures.process"),
    "json": ("json",),
    "asyncio": ("asyncio",),
    "socket": ("socket",),
    "ssl": ("ssl",),
    "subprocess": ("subprocess",),
    "sqlite3": ("sqlite3",),
    "psycopg": ("psycopg", "psycopg.errors", "psycopg_pool"),
    "anyio": ("anyio",),
    "h11": ("h11",),
    "h2": ("h2.exceptions",),
    "websockets": ("websockets.exceptions",),
    "pydantic": ("pydantic",),
    "pydantic_core": ("pydantic_core",),
    "msgspec": ("msgspec",),
    "jsonschema": ("jsonschema",),
    "orjson": ("orjson",),
    "builtins": ("builtins",),
}


@pytest.mark.parametrize("name", CLASS_ROWS)
def test_a_row_about_a_class_names_a_class_that_exists(name):
    root, dot, cls = name.rpartition(".")
    modules = MODULES[root if dot else "builtins"]
    if importlib.util.find_spec(modules[0].partition(".")[0]) is None:
        pytest.skip(f"{root} is not installed")
    found = [c for m in modules if (c := getattr(importlib.import_module(m), cls, None)) is not None]
    assert found
    assert issubclass(found[0], BaseException)


def test_both_names_of_httpx_are_one():
    for root in ("httpx", "httpx2", "httpcore", "httpcore2"):
        assert short(CLASSIFIER.classify(ErrorFacts(classes=(f"{root}.ReadTimeout",)))) == (
            "transient_error",
            "maybe",
        )


def test_codes_are_one_code_however_they_are_spelled():
    for code in ("rateLimitExceeded", "rate_limit_exceeded", "RATE_LIMIT_EXCEEDED", "Rate-Limit-Exceeded"):
        assert CLASSIFIER.classify(ErrorFacts(codes=(code,))).signal is Signal.RATE_LIMITED


def test_the_first_known_code_decides_and_is_reported():
    found = CLASSIFIER.classify(ErrorFacts(codes=("whatever", "insufficient_quota"), status=429))
    assert (found.signal, found.code) == (Signal.QUOTA_EXHAUSTED, "insufficient_quota")
    assert CLASSIFIER.classify(ErrorFacts(codes=("whatever",), status=429)).code == "whatever"


# ---------------------------------------------------------------- what the tool says itself


@pytest.mark.parametrize("signal", sorted(SIGNALS))
@pytest.mark.parametrize("applied", list(Applied))
def test_a_tool_error_is_believed(signal, applied):
    found = judge(ToolError(signal, "words", applied=applied))
    assert (found.signal.value, found.applied, found.code, found.message) == (
        signal,
        applied,
        signal,
        "words",
    )


@pytest.mark.parametrize(
    ("code", "signal"),
    [
        ("insufficient_quota", "quota_exhausted"),
        ("PERMISSION_DENIED", "auth_denied"),
        ("404", "not_found"),
        ("outcome_unknown", "transient_error"),
        ("no_such_word", "unclassified_error"),
        ("99999", "unclassified_error"),
        ("repeated_error", "unclassified_error"),
        ("success", "unclassified_error"),
    ],
)
def test_a_tool_error_may_use_any_code_of_the_table(code, signal):
    assert short(judge(ToolError(code, "w"))) == (signal, "maybe")
    assert short(judge(ToolError(code, "w", applied="no"))) == (signal, "no")


def test_a_tool_error_keeps_its_word_even_behind_another_error():
    error = RuntimeError("x")
    error.__cause__ = ToolError("not_found", "w", applied="no", retry_after_s=2.5)
    found = judge(error)
    assert short(found) == ("not_found", "no")
    assert found.retry_after_us == 2_500_000
    assert found.class_ == "RuntimeError"


def test_a_tool_error_without_a_word_about_the_effect_says_maybe():
    facts = ErrorFacts(declared=Declared(code="not_found"))
    assert CLASSIFIER.classify(facts).applied is MAYBE
    assert CLASSIFIER.classify(ErrorFacts(declared=Declared())).signal is Signal.UNCLASSIFIED_ERROR


# ---------------------------------------------------------------- chains


def test_the_nearest_class_decides_then_the_reason():
    class Mine(TimeoutError, ConnectionRefusedError):
        pass

    assert judge(Mine()).why == "class TimeoutError"
    error = RuntimeError("wrapped")
    error.__cause__ = ConnectionRefusedError("x")
    found = judge(error)
    assert short(found) == ("transient_error", "no")
    assert found.why == "class ConnectionRefusedError (behind RuntimeError)"


def test_what_was_only_being_handled_gives_a_signal_and_no_proof():
    error = RuntimeError("bug")
    error.__context__ = ConnectionRefusedError("x")
    found = judge(error)
    assert short(found) == ("transient_error", "maybe")
    assert "only being handled" in found.why


def test_a_wrapper_without_a_reason_falls_back_to_its_own_row():
    found = CLASSIFIER.classify(ErrorFacts(classes=("openai.APIConnectionError",)))
    assert short(found) == ("transient_error", "maybe")


def test_old_wrappers_keep_their_reason_in_an_attribute():
    class URLError(Exception):
        reason = ConnectionRefusedError("x")

    URLError.__module__ = "urllib.error"
    assert short(judge(URLError())) == ("transient_error", "no")


def test_a_status_that_the_client_made_up_is_not_believed():
    real = ErrorFacts(classes=("aiohttp.client_exceptions.ClientResponseError",), status=400)
    cause = ErrorFacts(
        classes=("aiohttp.http_exceptions.BadStatusLine", "aiohttp.http_exceptions.HttpProcessingError"),
        link="cause",
    )
    assert short(CLASSIFIER.classify(real)) == ("bad_request", "no")
    made_up = ErrorFacts(classes=real.classes, status=400, causes=(cause,))
    assert short(CLASSIFIER.classify(made_up)) == ("transient_error", "maybe")


def test_a_group_is_what_its_least_certain_member_is_and_proves_nothing():
    group = ExceptionGroup("g", [ConnectionRefusedError(), ValueError("x"), TimeoutError()])
    found = judge(group)
    assert short(found) == ("transient_error", "maybe")
    assert "in a group of 3: TimeoutError" in found.why
    assert short(judge(ExceptionGroup("g", [ConnectionRefusedError()]))) == ("transient_error", "maybe")
    assert short(judge(ExceptionGroup("g", [ValueError("x")]))) == ("unclassified_error", "maybe")


def test_an_earlier_call_of_unknown_end_takes_the_proof_away_and_a_bug_does_not():
    for earlier, expected in [(TimeoutError(), MAYBE), (KeyError("x"), NO), (ConnectionRefusedError(), NO)]:
        error = ConnectionRefusedError("x")
        error.__context__ = earlier
        found = judge(error)
        assert found.applied is expected, earlier
        hidden = RuntimeError("w")
        hidden.__context__ = earlier
        hidden.__cause__ = ConnectionRefusedError("y")
        assert judge(hidden).applied is expected, earlier


def test_a_client_that_had_sent_something_takes_every_proof_away():
    for facts in (
        ErrorFacts(status=401, resent=True),
        ErrorFacts(codes=("not_found",), resent=True),
        ErrorFacts(classes=("httpx.ConnectError",), resent=True),
    ):
        assert CLASSIFIER.classify(facts).applied is MAYBE
    assert CLASSIFIER.classify(ErrorFacts(classes=("httpx.ConnectError",), resent=None)).applied is MAYBE
    assert CLASSIFIER.classify(ErrorFacts(classes=("httpx.ConnectError",))).applied is NO
    assert CLASSIFIER.classify(ErrorFacts(status=401, resent=None)).applied is NO


@pytest.mark.parametrize(
    "shown",
    [
        {"history": ["first"]},
        {"raw": SimpleNamespace(retries=SimpleNamespace(history=("once",)))},
        {"retries": SimpleNamespace(history=("once",))},
    ],
)
def test_a_reply_that_shows_an_earlier_send_takes_the_proof_away(shown):
    assert judge(Web(401)).applied is NO
    assert judge(Web(401, **shown)).applied is MAYBE


def test_an_sdk_that_counts_its_repetitions_in_a_header_is_read():
    error = Web(401)
    for count, applied in (("0", NO), ("1", MAYBE)):
        error.request = SimpleNamespace(method="POST", headers={"x-stainless-retry-count": count})
        assert judge(error).applied is applied


def boto(retries):
    error = RuntimeError("An error occurred (AccessDeniedException)")
    meta = {"HTTPStatusCode": 400, "RetryAttempts": retries, "HTTPHeaders": {"retry-after": "3"}}
    error.response = {"Error": {"Code": "AccessDeniedException"}, "ResponseMetadata": meta}
    return judge(error)


def test_botocore_tells_its_code_its_headers_and_its_repetitions():
    first, second = boto(0), boto(1)
    assert (first.signal, first.applied, first.status) == (Signal.AUTH_DENIED, NO, 400)
    assert first.retry_after_us == 3_000_000
    assert second.applied is MAYBE


# ---------------------------------------------------------------- frames


def run_as(module, source, name="call"):
    scope = {"__name__": module}
    exec(compile(source, "client", "exec"), scope)
    try:
        scope[name]()
    except BaseException as error:
        return describe(error).resent
    raise AssertionError


@pytest.mark.parametrize(
    ("module", "source", "expected"),
    [
        ("elsewhere", "def call(): raise OSError", False),
        ("httpx._client", "def call(): raise OSError", None),
        (
            "httpx._client",
            "def call(): _send_handling_redirects([])\ndef _send_handling_redirects(history): raise OSError",
            False,
        ),
        (
            "httpx._client",
            "def call(): _send_handling_redirects([1])\ndef _send_handling_redirects(history): raise OSError",
            True,
        ),
        (
            "httpx._client",
            "def call(): _send_handling_redirects(0)\ndef _send_handling_redirects(history): raise OSError",
            None,
        ),
        ("openai._base_client", "def call(): request(0)\ndef request(retries_taken): raise OSError", False),
        ("openai._base_client", "def call(): request(1)\ndef request(retries_taken): raise OSError", True),
        ("openai._base_client", "def call(): request(1)\ndef request(renamed): raise OSError", None),
        (
            "urllib3.connectionpool",
            "def call(): urlopen(1)\ndef urlopen(n):\n if n: raise OSError\n urlopen(1)",
            False,
        ),
        (
            "urllib3.connectionpool",
            "def call(): urlopen(0)\ndef urlopen(n):\n if n: raise OSError\n urlopen(1)",
            True,
        ),
        (
            "urllib3.connectionpool",
            "def call(): urlopen()\ndef urlopen():\n try: raise OSError\n except OSError as e: raise e",
            False,
        ),
        (
            "aiohttp.client",
            "def call(): _request('POST', False, [])\ndef _request(method, retry_persistent_connection, history): raise OSError",
            False,
        ),
        (
            "aiohttp.client",
            "def call(): _request('PUT', False, [])\ndef _request(method, retry_persistent_connection, history): raise OSError",
            True,
        ),
        (
            "aiohttp.client",
            "def call(): _request('PUT', True, [])\ndef _request(method, retry_persistent_connection, history): raise OSError",
            False,
        ),
        ("aiohttp.client", "def call(): _request()\ndef _request(): raise OSError", None),
        ("tenacity", "def call(): __call__()\ndef __call__(): raise OSError", None),
    ],
)
def test_the_frames_of_a_client_tell_whether_something_went_out_before(module, source, expected):
    assert run_as(module, source) is expected


def test_a_module_without_a_name_is_no_client():
    assert run_as(None, "def call(): raise OSError") is False


def test_a_chain_that_is_too_long_to_read_may_hide_a_send():
    error = OSError("0")
    for index in range(MAX_ERRORS + 5):
        outer = OSError(str(index))
        outer.__cause__ = error
        error = outer
    facts = describe(error)
    assert len(facts.causes) == MAX_ERRORS - 1
    assert facts.resent is None


def test_a_library_that_translates_names_a_reason_and_a_second_call_does_not():
    source = """
class ConnectTimeout(Exception): pass
def connect():
    try: raise TimeoutError
    except TimeoutError: raise ConnectTimeout
def translate():
    connect()
def twice():
    try: raise TimeoutError
    except TimeoutError: connect_again()
def connect_again():
    raise ConnectTimeout
"""
    scope = {"__name__": "httpx._x"}
    exec(compile(source, "x", "exec"), scope)
    links = {}
    for name in ("translate", "twice"):
        try:
            scope[name]()
        except Exception as error:
            links[name] = [c.link for c in describe(error).causes]
    assert links == {"translate": ["translation"], "twice": ["context"]}


def test_frames_that_cannot_be_read_prove_nothing():
    assert resends.resent([None]) is None
    assert resends.translated(OSError(), OSError()) is False


# ---------------------------------------------------------------- reading exceptions


def test_the_reply_is_read_wherever_clients_keep_it():
    assert describe(Web(404)).status == 404
    for holder in (
        {"status": 404},
        {"status_code": 404},
        {"code": 404},
        {"resp": SimpleNamespace(status=404)},
    ):
        error = RuntimeError("x")
        error.__dict__.update(holder)
        assert describe(error).status == 404, holder
    error = RuntimeError("x")
    error.response = SimpleNamespace(status=404)
    assert describe(error).status == 404
    error.response = SimpleNamespace(status=True, status_code=99)
    assert describe(error).status is None


def test_the_body_is_read_only_if_it_was_read_already():
    content = json.dumps({"error": {"type": "overloaded_error", "code": None}}).encode()
    assert describe(Web(529, _content=content)).codes == ("overloaded_error",)
    assert describe(Web(529, _content=False)).codes == ()
    assert describe(Web(529, _content=b"<html>")).codes == ()
    assert describe(Web(400, body={"code": "invalid_api_key"})).codes == ("invalid_api_key",)


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ({"error": "invalid_grant"}, ["invalid_grant"]),
        ({"error": "x" * 101}, []),
        ({"error": {"errors": [{"reason": "rateLimitExceeded"}], "code": 403}}, ["rateLimitExceeded", "403"]),
        ({"error": {"details": [{"reason": "A"}], "status": "NOT_FOUND"}}, ["A", "NOT_FOUND"]),
        ({"error": {"errors": [], "details": ["x"], "code": "c"}}, ["c"]),
        ({"Error": {"Code": "SlowDown"}}, ["SlowDown"]),
        ({"__type": "com.amazon#ThrottlingException"}, ["ThrottlingException"]),
        ({"errors": [{"type": "T", "extensions": {"code": "THROTTLED"}}]}, ["THROTTLED", "T"]),
        ({"errors": [{"code": 88}]}, ["88"]),
        ({"errors": ["x"], "code": ""}, []),
        ({"error": 5}, []),
        ([], []),
        (None, []),
    ],
)
def test_bodies_keep_their_code_in_many_places(body, codes):
    assert bodies.codes(body) == codes


def test_a_body_that_is_too_long_is_not_parsed():
    assert bodies.parse(b" " * bodies.MAX_BODY_BYTES + b"1") is None
    assert bodies.parse(b"1") == 1
    assert bodies.parse(b'{"a": 1, "a": 2}') is None


def test_mcp_and_grpc_clients_are_read():
    error = RuntimeError("x")
    error.error = SimpleNamespace(code=-32602)
    assert short(judge(error)) == ("bad_request", "no")
    google = RuntimeError("x")
    google.grpc_status_code = SimpleNamespace(name="ABORTED")
    assert short(judge(google)) == ("transient_error", "no")

    class RpcError(Exception):
        def code(self):
            return SimpleNamespace(name="UNAVAILABLE")

        def details(self):
            return "down"

        def trailing_metadata(self):
            return [("grpc-retry-pushback-ms", "250"), (b"x", "y")]

    RpcError.__module__ = "grpc._channel"
    found = judge(RpcError("a whole page"))
    assert short(found) == ("transient_error", "maybe")
    assert (found.message, found.retry_after_us) == ("down", 250_000)
    RpcError.details = RpcError.trailing_metadata = RpcError.code = None
    assert judge(RpcError("a page")).message == "a page"


def test_a_code_of_a_driver_is_read():
    error = RuntimeError("x")
    error.sqlstate = "40001"
    assert short(judge(error)) == ("transient_error", "maybe")


class Hostile(Exception):
    def __str__(self):
        raise SystemExit

    def __getattribute__(self, name):
        raise KeyboardInterrupt


class Liar(Exception):
    __cause__ = property(lambda self: 1 / 0)
    __context__ = property(lambda self: "x")
    __class__ = property(lambda self: 1 / 0)
    response = property(lambda self: self)
    status = "200"
    status_code = 10**9
    headers = property(lambda self: {"retry-after": self})
    code = property(lambda self: [])

    def __str__(self):
        return Tricky("tricky")


class Tricky(str):
    __slots__ = ()

    def __getitem__(self, key):
        raise RuntimeError

    def encode(self, *args):
        raise RuntimeError


class NoNumber(int):
    def __add__(self, other):
        raise RuntimeError

    def __int__(self):
        raise RuntimeError

    def __repr__(self):
        raise RuntimeError


class Everything:
    """Answers everything with itself, as mocks do."""

    def __getattr__(self, name):
        return self

    def __call__(self, *args):
        return self


def answers_everything():
    error = RuntimeError("odd")
    error.response = error.request = error.body = error.code = error.error = error.reason = Everything()
    return error


def odd_numbers():
    error = RuntimeError("odd")
    error.status = NoNumber(404)
    error.code = Tricky("not_found")
    error.retry_after_s = float("nan")
    return error


@pytest.mark.parametrize("make", [lambda: Hostile("x"), lambda: Liar("x"), answers_everything, odd_numbers])
def test_reading_never_raises_whatever_the_attributes_do(make):
    facts = describe(raised(make()))
    assert type(facts.message) is str
    canon.check([facts.message, *facts.classes, *facts.codes])
    CLASSIFIER.classify(facts)


def test_an_error_of_a_class_that_hides_its_bases_is_still_read():
    class Meta(type):
        def __getattribute__(cls, name):
            raise RuntimeError

    class Odd(Exception, metaclass=Meta):
        pass

    assert describe(Odd("x")).message == "x"


def test_odd_numbers_and_texts_become_plain_ones():
    facts = describe(odd_numbers())
    assert (facts.status, type(facts.status), facts.codes) == (404, int, ("not_found",))
    assert type(facts.codes[0]) is str
    assert facts.retry_after_s is None
    assert gently.word(NoNumber(7)) == "7"
    assert gently.word(True) is None
    assert gently.word("") is None


def test_cycles_end():
    one, other = RuntimeError("1"), RuntimeError("2")
    one.__cause__, other.__cause__ = other, one
    assert [c.message for c in describe(one).causes] == ["2"]
    group = ExceptionGroup("g", [one])
    one.__cause__ = group
    assert len(describe(group).members) == 1


@given(st.text(st.characters(codec=None), max_size=50), st.integers(0, 3000))
def test_what_is_read_can_be_stored(text, times):
    facts = describe(RuntimeError(text + "a名\x00\ud800" * times))
    assert len(facts.message.encode()) <= 2048
    canon.check(facts.message)


@given(
    st.builds(
        ErrorFacts,
        classes=st.lists(st.sampled_from([*CLASS_ROWS, "x.Y", "KeyError"]), max_size=3).map(tuple),
        message=st.sampled_from(["", "timeout", "x"]),
        status=st.none() | st.integers(0, 700),
        grpc=st.none() | st.sampled_from([*GRPC_NAMES, "X"]),
        codes=st.lists(st.sampled_from(["not_found", "x", ""]), max_size=2).map(tuple),
        retry_after_s=st.none() | st.floats(),
        declared=st.none()
        | st.builds(
            Declared, code=st.none() | st.text(max_size=5).map(clean), applied=st.none() | st.text(max_size=3)
        ),
        resent=st.sampled_from([True, False, None]),
    )
)
def test_every_error_has_an_answer_that_can_be_stored(facts):
    found = CLASSIFIER.classify(facts)
    assert found.signal in OUTCOME_SIGNALS
    assert found.signal is not Signal.REPEATED_ERROR
    assert found.why
    canon.check([found.retry_after_us, found.code, found.why])
    if facts.resent and facts.declared is None:
        assert found.applied is not NO


# ---------------------------------------------------------------- waits


@pytest.mark.parametrize(
    ("headers", "now_s", "wait"),
    [
        ({"retry-after": "7"}, None, 7.0),
        ({"Retry-After": " 7.5 "}, None, 7.5),
        ({"retry-after": "-1"}, None, None),
        ({"retry-after": "nan"}, None, None),
        ({"retry-after": "1e300"}, None, MAX_WAIT_S),
        ({"retry-after": "soon"}, None, None),
        ({"retry-after-ms": "250", "retry-after": "1"}, None, 0.25),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT", "date": "Sun, 06 Nov 1994 08:49:37 GMT"}, 0, 10.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT"}, 784111767, 20.0),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT"}, None, None),
        ({"retry-after": "Sun, 06 Nov 1994 08:49:47 GMT"}, 900000000, 0.0),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "784111787"}, 784111777, 10.0),
        ({"x-ratelimit-remaining": "5", "x-ratelimit-reset": "784111787"}, 784111777, None),
        ({"x-ratelimit-remaining": "0"}, 784111777, None),
        ({}, 0, None),
    ],
)
def test_a_reply_says_how_long_to_wait(headers, now_s, wait):
    now_us = None if now_s is None else now_s * 1_000_000
    assert describe(Web(429, headers=headers), now_us=now_us).retry_after_s == wait


def test_a_limit_that_calls_itself_forbidden_is_a_limit_if_it_asks_to_wait():
    headers = {
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "784111787",
        "date": "Sun, 06 Nov 1994 08:49:37 GMT",
    }
    found = judge(Web(403, headers=headers))
    assert (found.signal, found.retry_after_us) == (Signal.RATE_LIMITED, 10_000_000)


@pytest.mark.parametrize(
    "text", ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
)
def test_dates_are_read_in_all_three_forms(text):
    assert http_date(text) == 784111777.0


@pytest.mark.parametrize(
    "text", ["", "x", "Sun, 06 Nov", "Sun, 99 Nov 1994 08:49:37 GMT", "Sun, 06 Foo 1994 08:49:37 GMT"]
)
def test_what_is_no_date_is_none(text):
    assert http_date(text) is None


def test_two_digit_years_are_of_our_time():
    assert http_date("Wednesday, 04-Mar-26 05:06:07 GMT") == 1772600767.0


@given(
    st.dictionaries(
        st.sampled_from(["retry-after", "date", "x-ratelimit-remaining", "x-ratelimit-reset"]), st.text()
    )
)
def test_no_header_can_break_the_reading(headers):
    wait = retry_after(headers.get, 0)
    assert wait is None or 0 <= wait <= MAX_WAIT_S


# ---------------------------------------------------------------- envelopes


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"ok": False, "error": "channel_not_found"}, ("not_found", "no")),
        ({"success": False, "message": ""}, ("unclassified_error", "maybe")),
        ({"isError": True, "content": [{"type": "text", "text": "boom"}]}, ("unclassified_error", "maybe")),
        (
            {"isError": True, "content": [{"type": "text", "text": "request timed out"}, 3]},
            ("transient_error", "maybe"),
        ),
        ({"error": {"code": 429, "message": "slow"}}, ("rate_limited", "no")),
        ({"error": {"code": -32602, "message": "bad"}}, ("bad_request", "no")),
        ({"error": {"type": "overloaded_error"}}, ("rate_limited", "maybe")),
        ({"ok": False, "status": 404}, ("not_found", "no")),
        ({"ok": False, "error": {"message": "connection refused"}}, ("transient_error", "maybe")),
        ({"error": True}, ("unclassified_error", "maybe")),
        ("API request failed: 500", ("unclassified_error", "maybe")),
        ("Error executing tool search: rate limit", ("rate_limited", "maybe")),
    ],
)
def test_an_error_that_is_returned_is_an_error(value, expected):
    facts = CLASSIFIER.envelope(value)
    assert short(CLASSIFIER.classify(facts)) == expected


@pytest.mark.parametrize(
    "value",
    [
        None, 0, False, [], {}, "", "all fine", "The API request failed yesterday, says the report",
        {"ok": True}, {"ok": 0}, {"success": "false"}, {"isError": "yes"}, {"error": None}, {"error": ""},
        {"error": []}, {"error": {}}, {"error": False}, {"errors": 3}, [{"ok": False}], {"data": {"ok": False}},
    ],
)  # fmt: skip
def test_a_result_is_no_error(value):
    assert CLASSIFIER.envelope(value) is None


def test_an_envelope_keeps_its_words_and_its_wait():
    facts = CLASSIFIER.envelope(
        {"ok": False, "error": {"message": "later", "retry_after": 3}, "message": "x\x00"}
    )
    assert (facts.message, facts.retry_after_s) == ("x\ufffd", 3.0)
    assert CLASSIFIER.envelope({"ok": False, "retry_after": True}).retry_after_s is None
    assert CLASSIFIER.envelope({"ok": False, "msg": {"text": "t"}}).message == "t"
    found = CLASSIFIER.classify(CLASSIFIER.envelope({"ok": False}))
    assert (found.class_, found.message) == (None, "")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["ok", "error", "message", "code", "isError", "status", "errors", "content"]),
            inner,
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_every_value_can_be_asked(value):
    facts = CLASSIFIER.envelope(value)
    if facts is not None:
        canon.check([facts.message, list(facts.codes)])
        CLASSIFIER.classify(facts)


# ---------------------------------------------------------------- the loader


def with_row(section, **row):
    return {"version": 1, section: [{"match": ["400"], "signal": "bad_request", "applied": "maybe", **row}]}


BAD = {
    "/version": [{}, {"version": 2}, {"version": True}, {"version": "1"}],
    "/": [[], None],
    "/cods": [{"version": 1, "cods": []}],
    "/codes": [{"version": 1, "codes": {}}],
    "/codes/0": [{"version": 1, "codes": ["x"]}],
    "/codes/0/match": [with_row("codes", match=[]), with_row("codes", match="x")],
    "/codes/0/match/0": [with_row("codes", match=[3]), with_row("codes", match=[""])],
    "/codes/0/match/1": [with_row("codes", match=["a_b", "aB"])],
    "/codes/0/signal": [with_row("codes", signal="sucess"), with_row("codes", signal=None), with_row("codes", signal="repeated_error")],
    "/codes/0/applied": [with_row("codes", applied="perhaps"), with_row("codes", applied=["no"])],
    "/codes/0/walk": [with_row("codes", walk=True)],
    "/http/0/match/0": [with_row("http", match=[99]), with_row("http", match=["6xx"]), with_row("http", match=[True]), with_row("http", match=["4x4"])],
    "/http/0/match/1": [with_row("http", match=[400, "400"])],
    "/http/0/methods": [with_row("http", methods="DELETE"), with_row("http", methods=[""])],
    "/http/0/retry_after": [with_row("http", retry_after="yes")],
    "/grpc/0/match/0": [with_row("grpc", match=["OK"])],
    "/classes/0/applied": [with_row("classes", walk=True, applied="no")],
    "/classes/0/connect": [with_row("classes", connect=True)],
    "/messages/0/match/0": [with_row("messages", match=["("]), with_row("messages", applied="no"), with_row("messages", match=["(?=x)"])],
    "/aliases": [{"version": 1, "aliases": []}, {"version": 1, "aliases": {"a": 1}}],
    "/aliases/a": [{"version": 1, "aliases": {"a": "b", "b": "c"}}],
    "/fabricated_status": [{"version": 1, "fabricated_status": {}}],
    "/fabricated_status/0/match": [{"version": 1, "fabricated_status": [{"caused_by": ["x"]}]}],
    "/fabricated_status/0/caused_by": [{"version": 1, "fabricated_status": [{"match": ["x"], "caused_by": []}]}],
    "/envelope": [{"version": 1, "envelope": 3}],
    "/envelope/messages": [{"version": 1, "envelope": {"messages": []}}],
    "/envelope/message": [{"version": 1, "envelope": {"message": "m"}}],
    "/envelope/text/0": [{"version": 1, "envelope": {"text": ["["]}}],
}  # fmt: skip


@pytest.mark.parametrize(("place", "data"), [(place, data) for place, many in BAD.items() for data in many])
def test_a_table_that_cannot_be_used_is_refused_with_its_place(place, data):
    with pytest.raises(ConfigError) as caught:
        Classifier.from_data(data)
    assert str(caught.value).startswith(f"classify table at {place}: ")
    assert "; " in str(caught.value)


def test_a_refusal_names_what_is_allowed():
    with pytest.raises(ConfigError, match="allowed: no, maybe, yes"):
        Classifier.from_data(with_row("codes", applied="perhaps"))


def test_values_that_json_cannot_hold_are_refused():
    with pytest.raises(ConfigError, match="classify table"):
        Classifier.from_data({"version": 1, "aliases": {"a": "b\x00"}})


def test_an_empty_table_still_answers():
    table = Classifier.from_data({"version": 1})
    assert short(table.classify(ErrorFacts(status=404, message="x"))) == ("unclassified_error", "maybe")
    assert table.envelope({"ok": False}) is None


def test_a_narrower_row_comes_first_wherever_it_stands():
    rows = [
        {"match": [404], "signal": "not_found", "applied": "no"},
        {"match": [404], "methods": ["PUT"], "signal": "conflict", "applied": "maybe"},
        {"match": [404], "retry_after": True, "signal": "rate_limited", "applied": "no"},
    ]
    for order in (rows, rows[::-1]):
        table = Classifier.from_data({"version": 1, "http": order})
        assert table.classify(ErrorFacts(status=404, method="PUT")).signal is Signal.CONFLICT
        assert table.classify(ErrorFacts(status=404, retry_after_s=1.0)).signal is Signal.RATE_LIMITED
        assert table.classify(ErrorFacts(status=404)).signal is Signal.NOT_FOUND


def test_the_digest_names_the_table_and_nothing_else():
    assert Classifier.from_data(tomllib.loads(TEXT)).digest == CLASSIFIER.digest
    changed = tomllib.loads(TEXT)
    changed["http"][0]["signal"] = "not_found"
    assert Classifier.from_data(changed).digest != CLASSIFIER.digest


def test_no_row_says_no_for_what_a_server_error_or_a_message_is():
    for row in TABLE["messages"]:
        assert row["applied"] == "maybe"
    for row in TABLE["http"]:
        if row["applied"] == "no":
            assert not [m for m in row["match"] if str(m).startswith("5") and m not in (501, 505, 511)]


SEED = """
import sys
sys.modules.update(dict.fromkeys(["httpx", "requests", "aiohttp", "openai", "anthropic", "grpc", "botocore", "urllib3"]))
import fsm_agent.core.classification.classify
"""


def test_no_client_library_is_imported_to_classify():
    import subprocess
    import sys

    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", SEED], cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
