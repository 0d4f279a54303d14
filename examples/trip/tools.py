"""The tools of the trip: a calendar in a file, and three services of a travel agency.

The lifespan starts the services, or finds them again where an earlier process left them running. Their data lies in
``.fsm_agent/trip`` below the working directory (or where ``TRIP_DATA`` says).
"""

import contextlib
import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from fsm_agent import CallContext, Reconciled, Toolbox, ToolError

HERE = Path(__file__).resolve().parent
NAMES = ("flights", "hotels", "bookings")
PATIENCE_S = 10.0


def data_dir() -> Path:
    """Return where the services keep their files."""
    return Path(os.environ.get("TRIP_DATA", ".fsm_agent/trip")).resolve()


def call(name: str, query: dict[str, Any], body: Any = None) -> Any:
    """Send one request to the service *name* and return the JSON of its answer."""
    path = "/health" if not query else f"/{name}?{urlencode(query)}"
    address = (data_dir() / f"{name}.address").read_text()
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://{address}{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        refused = error.code < 500
        raise ToolError(
            "bad_request" if refused else "transient_error",
            f"{name} answered {error.code}",
            applied="no" if refused else "maybe",
        ) from error


def alive(name: str) -> bool:
    """Whether the service answers, and is the one it is taken for."""
    try:
        return bool(call(name, {}) == name)
    except (OSError, ToolError, ValueError):
        return False


def start(name: str) -> subprocess.Popen[bytes]:
    """Start a service, and wait until it answers."""
    place = data_dir()
    place.mkdir(parents=True, exist_ok=True)
    address = place / f"{name}.address"
    address.unlink(missing_ok=True)
    command = [sys.executable, str(HERE / "services" / "agency.py"), name]
    files = ["--db", str(place / f"{name}.db"), "--address", str(address)]
    silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen([*command, *files], **silent, start_new_session=True)
    until = time.monotonic() + PATIENCE_S
    while not alive(name):
        if time.monotonic() > until or process.poll() is not None:
            process.kill()
            raise RuntimeError(f"the service {name} did not start")
    return process


@contextlib.asynccontextmanager
async def lifespan() -> AsyncIterator[None]:
    """Have the services running while tools may be called; what was started here is stopped, the data stays."""
    started: list[subprocess.Popen[bytes]] = []
    try:
        started += [start(name) for name in NAMES if not alive(name)]
        yield
    finally:
        for process in started:
            process.terminate()
            process.wait(timeout=PATIENCE_S)


tools = Toolbox(lifespan=lifespan)


@tools.read(name="calendar.search")
def search_calendar(city: str, wish: str) -> dict[str, Any]:
    """Find the first free day in the calendar."""
    days = json.loads((HERE / "calendar.json").read_text(encoding="utf-8"))
    free = next((day for day, state in sorted(days.items()) if state == "free"), None)
    return {"date": free, "city": city, "wish": wish}


@tools.read(name="flight.search", timeout_s=10)
def search_flights(start: str, city: str, date: str) -> dict[str, Any]:
    """List the flights of a day, the cheapest first; the cost is that of the first."""
    found = call("flights", {"start": start, "city": city, "date": date})
    return {"flights": found, **({"cost": found[0]["price"]} if found else {})}


@tools.read(name="hotel.search", timeout_s=10)
def search_hotels(city: str, date: str) -> dict[str, Any]:
    """List the hotels of a city, the cheapest first; the cost is that of a night in the first."""
    found = call("hotels", {"city": city, "date": date})
    return {"hotels": found, **({"cost": found[0]["price"]} if found else {})}


@tools.write(name="booking.commit", timeout_s=10, settle_s=0.2, confirm=True)
def commit_booking(
    date: str, flight: str, hotel: str, fare: float, rate: float, *, ctx: CallContext
) -> dict[str, Any]:
    """Book a flight and a hotel together; it cannot be booked without somebody's yes, whatever the plan says."""
    order = {"date": date, "flight": flight, "hotel": hotel, "price": fare + rate}
    found: dict[str, Any] = call("bookings", {"key": ctx.idempotency_key}, order)
    return found


@commit_booking.reconcile
def find_booking(
    date: str, flight: str, hotel: str, fare: float, rate: float, *, ctx: CallContext
) -> Reconciled:
    """Look the booking up by its key."""
    found = call("bookings", {"key": ctx.idempotency_key})
    return (
        Reconciled.applied(found[0])
        if found
        else Reconciled.absent(f"no booking under {flight}, {hotel}, {date}")
    )
