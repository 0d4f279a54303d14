"""What both services share: a small HTTP server over one SQLite file, and how they say where they listen."""

import argparse
import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Answer = tuple[int, Any]


def serve(
    tables: str,
    get: Callable[[sqlite3.Connection, str, dict[str, str]], Answer],
    post: Callable[[sqlite3.Connection, str, dict[str, Any], str], tuple[int, Any, float]] | None = None,
) -> None:
    """Serve until told to stop, or until nobody asked anything for as long as ``--idle-s`` says.

    Args:
        tables: SQL that makes the tables and the first rows, if they are not there.
        get: (connection, path, query) → status and JSON.
        post: (connection, path, JSON, idempotency key) → status, JSON, and how long to hold the answer back, in s.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--address", type=Path, required=True, help="file to write host:port into")
    parser.add_argument("--idle-s", type=float, default=600)
    options = parser.parse_args()
    options.db.parent.mkdir(parents=True, exist_ok=True)
    connection = sqlite3.connect(options.db, check_same_thread=False, isolation_level=None)
    connection.executescript(tables)
    lock = threading.Lock()
    asked = [time.monotonic()]

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def reply(self, status: int, body: Any) -> None:
            data = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            asked[0] = time.monotonic()
            url = urlsplit(self.path)
            query = {k: v[0] for k, v in parse_qs(url.query).items()}
            with lock:
                answer = (200, "ok") if url.path == "/health" else get(connection, url.path, query)
            self.reply(*answer)

        def do_POST(self) -> None:
            asked[0] = time.monotonic()
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if post is None:
                self.reply(405, {"error": "this service is read only"})
                return
            with lock:
                status, answer, hold_s = post(
                    connection, self.path, body, self.headers.get("Idempotency-Key", "")
                )
            if hold_s:
                threading.Event().wait(hold_s)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # nobody waited
                self.reply(status, answer)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    written = options.address.with_suffix(".new")
    written.write_text(f"127.0.0.1:{server.server_port}")
    written.replace(options.address)

    def watch() -> None:
        while time.monotonic() - asked[0] < options.idle_s:
            threading.Event().wait(1)
        server.shutdown()

    threading.Thread(target=watch, daemon=True).start()
    server.serve_forever(poll_interval=0.1)
