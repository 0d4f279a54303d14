"""A real server on loopback that fails in every way a client can meet, and keeps its own record.

The first segment of the path names the fault, so that any SDK can be pointed at it by its base URL. ``seen`` counts
requests that were read, ``effects`` those that were acted upon: the record that no ``applied = no`` may contradict.
"""

import json
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate

NOW = 1_772_600_767
JSON = "application/json"


class Reply:
    """What is sent back: a status with headers and a body, or raw bytes; then the connection ends."""

    def __init__(self, status: int, body: object = None, *, acts: bool = False, **headers: str) -> None:
        self.acts = acts
        data = body if isinstance(body, bytes) else json.dumps(body or {}).encode()
        lines = {"Content-Type": JSON, "Content-Length": str(len(data)), "Connection": "close"}
        lines |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
        self.data = f"HTTP/1.1 {status} Status\r\n{head}\r\n".encode() + data


class Raw(Reply):
    """Bytes as they are, after the server acted."""

    def __init__(self, data: bytes) -> None:
        self.acts = True
        self.data = data


RATE_BODY = {
    "error": {"code": 403, "errors": [{"reason": "rateLimitExceeded"}], "message": "Rate Limit Exceeded"}
}
REPLIES: dict[str, Reply] = {
    "400": Reply(400, {"message": "no"}),
    "401": Reply(401, {"message": "who are you"}),
    "403": Reply(403, {"message": "no"}),
    "403-rate": Reply(403, RATE_BODY),
    "403-wait": Reply(403, {"message": "secondary rate limit"}, Retry_After="30"),
    "404": Reply(404, {"message": "nothing here"}),
    "409-own": Reply(409, {"message": "exists"}, acts=True),
    "412-own": Reply(412, {"message": "changed"}, acts=True),
    "422": Reply(422, {"message": "no"}),
    "429": Reply(429, {"message": "slow down"}, Retry_After="7"),
    "500": Reply(500, {"message": "oops"}, acts=True),
    "502": Reply(502, b"<html>Bad Gateway</html>", acts=True, Content_Type="text/html"),
    "503-date": Reply(
        503,
        {"message": "later"},
        acts=True,
        Date=formatdate(NOW, usegmt=True),
        Retry_After=formatdate(NOW + 90, usegmt=True),
    ),
    "partial": Raw(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n" + b'{"a": 1' * 9
    ),
    "garbage": Raw(b"\x00\x01 what is this?\r\n\r\n"),
    "closed-after": Raw(b""),
    "broken-json": Reply(200, b'{"a": ', acts=True),
}


class FaultServer:
    """Serves until it is closed. Threads end with their connections."""

    def __init__(self) -> None:
        self.seen = 0
        self.effects = 0
        self.acted = threading.Event()
        self.bodies: list[bytes] = []
        self.replies = dict(REPLIES)
        self.stories: dict[str, list[str]] = {}  # a path whose faults come one after the other
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []
        self._refused = socket.socket()
        self._refused.bind(
            ("127.0.0.1", 0)
        )  # bound, never listening: connecting is refused, and nobody else gets the port
        self._full = socket.create_server(("127.0.0.1", 0), backlog=0)
        self._fillers = [_start_connecting(self._full.getsockname()) for _ in range(4)]
        self._closing = self._listen(self._close_unread)
        self._serving = self._listen(self._serve)

    def url(self, fault: str) -> str:
        """Return the base URL under which *fault* happens."""
        listener = {"refused": self._refused, "full": self._full, "closed-before": self._closing}.get(
            fault, self._serving
        )
        return f"http://127.0.0.1:{listener.getsockname()[1]}/{fault}"

    def close(self) -> None:
        """Let hanging requests go, and wait until every thread is gone."""
        self._over.set()
        for listener in (self._closing, self._serving):
            _stop(listener)
        for connection in (self._refused, self._full, *self._fillers):
            connection.close()
        for thread in self._threads:
            thread.join(5)

    def stop_listening(self) -> None:
        """From now on connecting is refused; open connections go on."""
        _stop(self._serving)

    def _listen(self, handle: Callable[[socket.socket], None]) -> socket.socket:
        listener = socket.create_server(("127.0.0.1", 0))
        self._spawn(lambda: self._accept(listener, handle))
        return listener

    def _spawn(self, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=work, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket, handle: Callable[[socket.socket], None]) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                self._spawn(lambda c=connection: self._with(c, handle))

    @staticmethod
    def _with(connection: socket.socket, handle: Callable[[socket.socket], None]) -> None:
        with connection, suppress(OSError):
            handle(connection)

    @staticmethod
    def _close_unread(connection: socket.socket) -> None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")

    def _serve(self, connection: socket.socket) -> None:
        while (request := read_request(connection)) is not None:
            path, body = request
            fault = path.strip("/").partition("/")[0]
            with self._lock:
                self.seen += 1
                self.bodies.append(body)
            if fault == "hang":
                self._act()
                self._over.wait()
                return
            if self._answer(connection, fault) == "close":
                return

    def _answer(self, connection: socket.socket, fault: str) -> str:
        if fault in self.stories:
            fault = self.stories[fault].pop(0)
        if fault == "last":
            self.stop_listening()
            fault = "closed-after"
        reply = self.replies.get(fault, self.replies["garbage"])  # HTTP/2 asks for "*"
        if reply.acts:
            self._act()
        connection.sendall(reply.data)
        if b"Connection: close" in reply.data or isinstance(reply, Raw):
            connection.shutdown(socket.SHUT_WR)
            return "close"
        return "go on"

    def _act(self) -> None:
        with self._lock:
            self.effects += 1
        self.acted.set()


def _stop(listener: socket.socket) -> None:
    with suppress(OSError):
        listener.shutdown(socket.SHUT_RDWR)
    listener.close()


def _start_connecting(address: tuple[str, int]) -> socket.socket:
    connection = socket.socket()
    connection.setblocking(False)
    connection.connect_ex(address)
    return connection


def read_request(connection: socket.socket) -> tuple[str, bytes] | None:
    """Return path and body of one HTTP request, or None if the client is gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            return None
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    if headers.get("expect", "").lower() == "100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    if headers.get("transfer-encoding") == "chunked":
        while not body.endswith(b"0\r\n\r\n"):
            body += connection.recv(65536)
    while len(body) < int(headers.get("content-length", 0)):
        chunk = connection.recv(65536)
        if not chunk:
            return None
        body += chunk
    return lines[0].split(" ")[1], body
