"""The ticket service. Its first ticket is answered too late, after it was made: what real services do on bad days."""

import os

from common import serve

TABLES = """
CREATE TABLE IF NOT EXISTS tickets(
  number INTEGER PRIMARY KEY, key TEXT UNIQUE, employee TEXT, amount REAL, reason TEXT, since TEXT, until TEXT);
"""
FIRST = 55821
LATE_S = float(os.environ.get("TICKETS_LATE_S", "2.5"))


def ticket(row):
    """Return a row as JSON."""
    number, _, employee, amount, reason, since, until = row
    return {
        "ticket_id": f"R-{number}",
        "employee": employee,
        "amount": amount,
        "reason": reason,
        "since": since,
        "until": until,
    }


def get(connection, path, query):
    """Find tickets by idempotency key, or an employee's for a span of days."""
    if path != "/tickets":
        return 404, {"error": f"no such path: {path}"}
    if "key" in query:
        rows = connection.execute("SELECT * FROM tickets WHERE key = ?", (query["key"],))
    else:
        rows = connection.execute(
            "SELECT * FROM tickets WHERE employee = ? AND since <= ? AND until >= ? ORDER BY number",
            (query.get("employee"), query.get("until"), query.get("since")),
        )
    return 200, [ticket(row) for row in rows]


def post(connection, path, body, key):
    """Make a ticket. This service does not look at the key before it acts: a second call makes a second ticket."""
    if path != "/tickets":
        return 404, {"error": f"no such path: {path}"}, 0
    (last,) = connection.execute("SELECT max(number) FROM tickets").fetchone()
    number = FIRST if last is None else last + 1
    seen = connection.execute("SELECT 1 FROM tickets WHERE key = ?", (key,)).fetchone()
    row = (
        number,
        None if seen else key,
        *(body[k] for k in ("employee", "amount", "reason", "since", "until")),
    )
    connection.execute("INSERT INTO tickets VALUES(?,?,?,?,?,?,?)", row)
    return 201, ticket(row), LATE_S if last is None else 0


if __name__ == "__main__":
    serve(TABLES, get, post)
