"""The tools of a customer service: orders, parcels and refunds in a file, and the conversation in another one.

The conversation is ``.fsm_agent/refund/conversation.md`` below the working directory (or where ``REFUND_DATA`` says).
Each reply carries the key of the call that wrote it, so that it can be found again and is never sent twice.
"""

import json
import os
import re
from pathlib import Path
from typing import Any

from fsm_agent import CallContext, Reconciled, Toolbox, ToolError

HERE = Path(__file__).resolve().parent
tools = Toolbox()


def books() -> dict[str, Any]:
    """Return what the shop knows."""
    found: dict[str, Any] = json.loads((HERE / "orders.json").read_text(encoding="utf-8"))
    return found


def conversation() -> Path:
    """Return the file of the conversation."""
    place = Path(os.environ.get("REFUND_DATA", ".fsm_agent/refund"))
    place.mkdir(parents=True, exist_ok=True)
    return place / "conversation.md"


@tools.read
def find_order(number: str) -> dict[str, Any]:
    """Find an order by its number, such as A-1021."""
    if not re.fullmatch(r"[A-Z]-\d{4}", number):
        raise ToolError("bad_request", f"{number} is no order number, such as A-1021", applied="no")
    found = next((o for o in books()["orders"] if o["order"] == number), None)
    if found is None:
        raise ToolError("not_found", f"there is no order {number}", applied="no")
    return {"order": found["order"], "customer": found["customer"], "item": found["item"]}


@tools.read
def find_orders_by_phone(phone: str) -> dict[str, Any]:
    """Find the latest order of whoever has this phone number."""
    digits = re.sub(r"\D", "", phone)
    found = [o for o in books()["orders"] if re.sub(r"\D", "", o["phone"]) == digits]
    if not found:
        raise ToolError("not_found", "nobody with this number has ordered anything", applied="no")
    last = max(found, key=lambda o: o["order"])
    return {"order": last["order"], "customer": last["customer"], "item": last["item"]}


@tools.read
def find_refund(order: str) -> dict[str, Any]:
    """Find the refund of an order."""
    found = books()["refunds"].get(order)
    if found is None:
        raise ToolError("not_found", "no refund yet: what was sent back has not arrived", applied="no")
    return {"text": f"Your refund of {found['amount']} was paid on {found['paid']}."}


@tools.read
def track_return(order: str) -> dict[str, Any]:
    """Find where the parcel is that a customer has sent back."""
    found = books()["parcels"].get(order)
    if found is None:
        raise ToolError("not_found", f"nothing was sent back of order {order}", applied="no")
    where = f"{found['at']} since {found['since']}"
    return {"text": f"Your parcel {found['number']} is at {where}; the refund is paid when it arrives."}


@tools.write(timeout_s=10, settle_s=0.1)
def reply(customer: str, text: str, *, ctx: CallContext) -> dict[str, Any]:
    """Write to the customer."""
    with conversation().open("a", encoding="utf-8") as file:
        file.write(f"{customer}: {text} <!-- {ctx.idempotency_key} -->\n")
    return {"sent": True}


@reply.reconcile
def find_reply(customer: str, text: str, *, ctx: CallContext) -> Reconciled:
    """See whether the conversation holds the reply of exactly this call."""
    written = conversation().read_text(encoding="utf-8") if conversation().exists() else ""
    if ctx.idempotency_key in written:
        return Reconciled.applied({"sent": True})
    return Reconciled.absent(f"nothing was written to {customer} under this key: {text[:40]}")
