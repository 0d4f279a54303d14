"""The tools of the reimbursement plan, on real services.

The lifespan starts the two services, or finds them again where an earlier process left them running. Their data
lies in ``.fsm_agent/reimbursement`` below the working directory (or where ``REIMBURSEMENT_DATA`` says).
"""

import contextlib
import json
import os
import re
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


def data_dir() -> Path:
    """Return where the services keep their files."""
    return Path(os.environ.get("REIMBURSEMENT_DATA", ".fsm_agent/reimbursement")).resolve()


class Services:
    """Where the services listen."""

    def __init__(self) -> None:
        self.started: list[subprocess.Popen[bytes]] = []

    def ensure(self, name: str) -> None:
        """Find the service *name*, or start it and wait until it answers."""
        if self.alive(name):
            return
        address = data_dir() / f"{name}.address"
        address.unlink(missing_ok=True)
        data_dir().mkdir(parents=True, exist_ok=True)
        script = HERE / "services" / f"{name}.py"
        command = [
            sys.executable,
            str(script),
            "--db",
            str(data_dir() / f"{name}.db"),
            "--address",
            str(address),
        ]
        silent = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        self.started.append(subprocess.Popen(command, **silent, start_new_session=True))
        patience = time.monotonic() + 10
        while not self.alive(name):
            if time.monotonic() > patience or self.started[-1].poll() is not None:
                raise RuntimeError(f"the service {name} did not start")

    def alive(self, name: str) -> bool:
        """Whether the service answers."""
        try:
            self.call(name, "GET", "/health")
        except (OSError, ToolError, ValueError):
            return False
        return True

    def call(self, name: str, method: str, path: str, body: Any = None, key: str = "") -> Any:
        """Send one request and return the JSON of the answer."""
        address = (data_dir() / f"{name}.address").read_text()
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json", **({"Idempotency-Key": key} if key else {})}
        request = urllib.request.Request(f"http://{address}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            refused = error.code < 500
            raise ToolError(
                "bad_request" if refused else "transient_error",
                f"{name} answered {error.code} to {method} {path}",
                applied="no" if refused else "maybe",
            ) from error

    def stop(self) -> None:
        """Stop what was started here; the data stays."""
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait(timeout=10)


services = Services()


@contextlib.asynccontextmanager
async def lifespan() -> AsyncIterator[Services]:
    """Have both services running while tools may be called."""
    try:
        for name in ("invoices", "tickets"):
            services.ensure(name)
        yield services
    finally:
        services.stop()


tools = Toolbox(lifespan=lifespan)


@tools.read
def search_policy(topic: str) -> dict[str, Any]:
    """Find the clause in force on *topic* in the policy documents."""
    for path in sorted((HERE / "policies").glob("*.md"), reverse=True):
        text = path.read_text(encoding="utf-8")
        if "out of force" in text.splitlines()[0]:
            continue
        for section in text.split("\n## ")[1:]:
            title, _, body = section.partition("\n")
            number, _, name = title.partition(" ")
            if topic.lower() in name.lower():
                limit = re.search(r"Limit per day: ([\d.]+)", body)
                return {
                    "clause": number,
                    "source": path.name,
                    "text": body.strip(),
                    "daily_limit": float(limit[1]) if limit else None,
                }
    raise ToolError("not_found", f"no clause in force on {topic!r}", applied="no")


@tools.read(timeout_s=10)
def query_invoices(employee: str, since: str, until: str) -> dict[str, Any]:
    """List an employee's taxi invoices between two days, both included."""
    query = urlencode({"employee": employee, "since": since, "until": until})
    return {"invoices": services.call("invoices", "GET", f"/invoices?{query}")}


@tools.read(timeout_s=10)
def query_tickets(employee: str, since: str, until: str) -> dict[str, Any]:
    """List tickets that claim days of the same span."""
    query = urlencode({"employee": employee, "since": since, "until": until})
    found = services.call("tickets", "GET", f"/tickets?{query}")
    return {"tickets": [t["ticket_id"] for t in found], "duplicates": len(found)}


@tools.read
def assess(invoices: list[dict[str, Any]], daily_limit: float | None, clause: str) -> dict[str, Any]:
    """Work out what is reimbursable: rides up to the daily limit."""
    if daily_limit is None:
        raise ToolError("validation_failed", f"clause {clause} names no limit", applied="no")
    by_day: dict[str, float] = {}
    for invoice in invoices:
        by_day[invoice["day"]] = by_day.get(invoice["day"], 0) + invoice["amount"]
    amount = round(sum(min(spent, daily_limit) for spent in by_day.values()), 2)
    days = sorted(by_day)
    reason = f"{len(invoices)} taxi rides, {days[0]} to {days[-1]}, clause {clause}" if days else "no rides"
    return {"reimbursable": amount > 0, "amount": amount, "reason": reason}


@tools.read
def confirm_claim(employee: str, amount: float, reason: str) -> dict[str, Any]:
    """Return what the employee confirmed; the engine has asked before this is called."""
    return {"confirmed_amount": amount, "confirmed_reason": reason, "by": employee}


SETTLE_S = float(os.environ.get("TICKETS_SETTLE_S", "0.5"))


@tools.write(timeout_s=1, settle_s=SETTLE_S, requires=["query_tickets", "confirm_claim"])
def create_reimbursement_ticket(
    employee: str, amount: float, reason: str, since: str, until: str, *, ctx: CallContext
) -> dict[str, Any]:
    """File a ticket."""
    claim = {"employee": employee, "amount": amount, "reason": reason, "since": since, "until": until}
    result: dict[str, Any] = services.call("tickets", "POST", "/tickets", claim, ctx.idempotency_key)
    return result


@create_reimbursement_ticket.reconcile
def find_ticket(
    employee: str, amount: float, reason: str, since: str, until: str, *, ctx: CallContext
) -> Reconciled:
    """Look the ticket up by its key."""
    found = services.call("tickets", "GET", f"/tickets?{urlencode({'key': ctx.idempotency_key})}")
    return Reconciled.applied(found[0]) if found else Reconciled.absent()
