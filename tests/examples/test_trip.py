"""The trip example, as a person runs it: three services, a limit over the whole run, one booking after one yes."""

import json
import shutil
import sqlite3

import pytest

from tests.examples.desk import EXAMPLES, Desk

EXAMPLE = EXAMPLES / "trip"
OPERATOR = EXAMPLE / "operator.json"


class Trip(Desk):
    def __init__(self, path):
        super().__init__(path, TRIP_DATA=str(path / "trip"))

    @property
    def bookings(self):
        with sqlite3.connect(self.path / "trip" / "bookings.db") as connection:
            rows = connection.execute("SELECT flight, hotel, price FROM bookings").fetchall()
        connection.close()
        return rows


@pytest.fixture
def desk(tmp_path):
    desk = Trip(tmp_path)
    yield desk
    desk.stop_services()
    desk.audited("r1")


def test_the_readme_command_books_one_trip(desk):
    code, status = desk.json("run", EXAMPLE, "--run-id", "r1", "--operator", OPERATOR)
    assert (code, status["state"]) == (0, "done")
    assert status["tasks"]["s4"]["result"] == {"order_id": "ORD-1", "price": 1400}
    assert desk.bookings == [("MU5102", "Riverside", 1400)]
    moves = [
        (e["task"], e["data"]["dest"])
        for e in map(json.loads, desk("--jsonl", "events", "r1").stdout.splitlines())
        if e["type"] == "task_moved"
    ]
    both = moves.index(("s2", "running")), moves.index(("s3", "running"))
    assert max(both) < min(moves.index(("s2", "done")), moves.index(("s3", "done")))


def test_without_a_yes_nothing_is_booked_and_a_smaller_budget_stops_it_at_once(desk):
    code, status = desk.json("run", EXAMPLE, "--run-id", "r1")
    assert (code, status["questions"][0]["args"]["flight"]) == (4, "MU5102")
    assert desk("set", "r1", "constraints.budget_max=1000").returncode == 0
    code, status = desk.json("resume", "r1")
    assert code == 4
    asked = {question["task"]: question["say"] for question in status["questions"]}
    assert "the trip costs more than it may" in asked["run"]
    assert desk.bookings == []
    digest = next(q["digest"] for q in status["questions"] if q["task"] == "s4")
    desk("approve", "r1", "s4", "--digest", digest)
    assert desk.json("resume", "r1")[0] == 4
    assert desk.bookings == []


def test_a_script_that_approves_another_price_books_nothing(desk, tmp_path):
    script = json.loads(OPERATOR.read_text())
    script[0]["do"]["args"]["fare"] = 1
    other = tmp_path / "other.json"
    other.write_text(json.dumps(script))
    code, _ = desk.json("run", EXAMPLE, "--run-id", "r1", "--operator", other)
    assert code == 4
    assert desk.bookings == []


def test_killed_right_after_the_booking_it_books_no_second_one(desk, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(EXAMPLE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    source = (copy / "tools.py").read_text()
    line = '    found: dict[str, Any] = call("bookings", {"key": ctx.idempotency_key}, order)\n'
    assert line in source
    (copy / "tools.py").write_text(source.replace(line, f"{line}    os._exit(9)\n"))
    killed = desk("run", copy, "--run-id", "r1", "--operator", OPERATOR)
    assert killed.returncode == 9
    assert len(desk.bookings) == 1
    code, status = desk.json("resume", "r1", "--tools", f"{EXAMPLE / 'tools.py'}:tools")
    assert (code, status["tasks"]["s4"]["result"]["order_id"]) == (0, "ORD-1")
    assert len(desk.bookings) == 1
