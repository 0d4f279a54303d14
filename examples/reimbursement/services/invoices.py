"""The invoice service: who paid for which ride."""

from common import serve

TABLES = """
CREATE TABLE IF NOT EXISTS invoices(id TEXT PRIMARY KEY, employee TEXT, day TEXT, kind TEXT, amount REAL);
INSERT OR IGNORE INTO invoices VALUES
  ('I-301', 'E-1007', '2026-11-09', 'taxi', 28.00),
  ('I-302', 'E-1007', '2026-11-11', 'taxi', 36.50),
  ('I-303', 'E-1007', '2026-11-12', 'taxi', 42.00),
  ('I-304', 'E-1007', '2026-11-02', 'taxi', 19.00),
  ('I-305', 'E-2002', '2026-11-10', 'taxi', 55.00);
"""


def get(connection, path, query):
    """List an employee's invoices between two days, both included."""
    if path != "/invoices":
        return 404, {"error": f"no such path: {path}"}
    rows = connection.execute(
        "SELECT id, day, amount FROM invoices WHERE employee = ? AND day BETWEEN ? AND ? ORDER BY day, id",
        (query.get("employee"), query.get("since"), query.get("until")),
    )
    return 200, [{"id": i, "day": d, "amount": a} for i, d, a in rows]


if __name__ == "__main__":
    serve(TABLES, get)
