"""Three small services of a travel agency, each a process of its own: ``flights``, ``hotels`` and ``bookings``.

They answer JSON on loopback and write where they listen into a file. Bookings lie in a SQLite file; the same key never
books twice, and a booking can be looked up by its key. A service that nobody asks for ten minutes ends.
"""

import argparse
import json
import sqlite3
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Query = dict[str, str]
IDLE_S = 600.0

FLIGHTS = [
    {
        "no": "MU5102",
        "start": "Beijing",
        "city": "Shanghai",
        "date": "2026-11-20",
        "depart_hour": 9,
        "price": 860,
    },
    {
        "no": "CA1501",
        "start": "Beijing",
        "city": "Shanghai",
        "date": "2026-11-20",
        "depart_hour": 11,
        "price": 1120,
    },
    {
        "no": "HU7605",
        "start": "Beijing",
        "city": "Shanghai",
        "date": "2026-11-21",
        "depart_hour": 5,
        "price": 410,
    },
]
HOTELS = [
    {"name": "Riverside", "city": "Shanghai", "price": 540},
    {"name": "Old Town", "city": "Shanghai", "price": 780},
]
TABLE = """CREATE TABLE IF NOT EXISTS bookings(
  number INTEGER PRIMARY KEY AUTOINCREMENT, key TEXT UNIQUE, date TEXT, flight TEXT, hotel TEXT, price REAL)"""


def flights(_: sqlite3.Connection, query: Query, body: Any) -> tuple[int, Any]:
    """List flights of a day, the cheapest first."""
    del body
    asked = ("start", "city", "date")
    found = [f for f in FLIGHTS if all(f[name] == query.get(name) for name in asked)]
    return 200, sorted(found, key=lambda f: f["price"])


def hotels(_: sqlite3.Connection, query: Query, body: Any) -> tuple[int, Any]:
    """List hotels of a city, the cheapest first."""
    del body
    return 200, sorted((h for h in HOTELS if h["city"] == query.get("city")), key=lambda h: h["price"])


def bookings(connection: sqlite3.Connection, query: Query, body: Any) -> tuple[int, Any]:
    """Book a flight and a hotel together, or find what was booked under a key."""
    key = query.get("key", "")
    if body is not None:
        values = (key, *(body[name] for name in ("date", "flight", "hotel", "price")))
        connection.execute(
            "INSERT OR IGNORE INTO bookings(key, date, flight, hotel, price) VALUES(?,?,?,?,?)", values
        )
    rows = connection.execute("SELECT number, price FROM bookings WHERE key = ?", (key,)).fetchall()
    found = [{"order_id": f"ORD-{number}", "price": price} for number, price in rows]
    return (201, found[0]) if body is not None else (200, found)


SERVICES = {"flights": flights, "hotels": hotels, "bookings": bookings}


def serve(name: str, db: Path, address: Path) -> None:
    """Serve until told to stop, or until nobody has asked anything for a while."""
    connection = sqlite3.connect(db, check_same_thread=False, isolation_level=None)
    connection.execute(TABLE)
    lock, asked = threading.Lock(), [time.monotonic()]

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Say nothing."""

        def answer(self, body: Any) -> None:
            asked[0] = time.monotonic()
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            with lock:
                status, found = (
                    (200, name) if url.path == "/health" else SERVICES[name](connection, query, body)
                )
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self) -> None:
            self.answer(None)

        def do_POST(self) -> None:
            self.answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    written = address.with_suffix(".new")
    written.write_text(f"127.0.0.1:{server.server_port}")
    written.replace(address)

    def watch() -> None:
        while time.monotonic() - asked[0] < IDLE_S:
            threading.Event().wait(1)
        server.shutdown()

    threading.Thread(target=watch, daemon=True).start()
    server.serve_forever(poll_interval=0.1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=SERVICES)
    parser.add_argument("--db", type=Path, required=True)
    parser.add_argument("--address", type=Path, required=True, help="file to write host:port into")
    options = parser.parse_args()
    serve(options.name, options.db, options.address)
