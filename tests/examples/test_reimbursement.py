"""The reimbursement example, as a person runs it: real processes, real services, a kill at the worst moment."""

import json
import sqlite3

import pytest

from tests.examples.desk import EXAMPLES, Desk

EXAMPLE = EXAMPLES / "reimbursement"
OPERATOR = str(EXAMPLE / "operator.json")


class Reimbursement(Desk):
    def __init__(self, path):
        super().__init__(
            path, REIMBURSEMENT_DATA=str(path / "services"), TICKETS_LATE_S="1.5", TICKETS_SETTLE_S="0.2"
        )

    @property
    def tickets(self):
        with sqlite3.connect(self.path / "services" / "tickets.db") as connection:
            rows = connection.execute("SELECT number, amount FROM tickets").fetchall()
        connection.close()
        return rows


def killed_when(desk, state):
    """Run the example and kill its process when T6 comes into *state*."""
    process = desk.start("--jsonl", "run", str(EXAMPLE), "--operator", OPERATOR, "--run-id", "r1")
    for line in process.stdout:
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("task") == "T6" and event.get("dest") == state:
            break
    process.kill()
    process.communicate(timeout=30)


@pytest.fixture
def desk(tmp_path):
    desk = Reimbursement(tmp_path)
    yield desk
    desk.stop_services()


def test_the_readme_command_files_one_ticket_although_the_answer_came_too_late(desk):
    code, status = desk.json("run", str(EXAMPLE), "--operator", OPERATOR, "--run-id", "r1")
    assert code == 0, status
    assert status["state"] == "done"
    assert status["tasks"]["T6"]["result"]["ticket_id"] == "R-55821"
    assert desk.tickets == [(55821, 106.5)]
    code, audit = desk.json("audit", "r1")
    assert (code, audit["verdict"]) == (0, "clean")
    moves = [
        (e["task"], e["data"]["dest"])
        for e in map(json.loads, desk("--jsonl", "events", "r1").stdout.splitlines())
        if e["type"] == "task_moved"
    ]
    started = [task for task, dest in moves if dest == "running"]
    assert started[:3] == ["T1", "T2", "T3"]
    assert moves.index(("T6", "unknown-result")) < moves.index(("T6", "done"))
    assert moves.index(("T5", "done")) < moves.index(("T6", "running"))


def test_without_a_person_it_waits_and_the_next_command_moves_it_on(desk):
    code, status = desk.json("run", str(EXAMPLE), "--run-id", "r1")
    assert code == 4
    (question,) = status["questions"]
    assert question["task"] == "T5"
    assert question["args"]["amount"] == 106.5
    assert desk.tickets == []
    approve = status["next"][0].split()[1:]
    assert approve[:3] == ["approve", "r1", "T5"]
    assert desk(*approve, "--by", "ann").returncode == 0
    code, status = desk.json("resume", "r1")
    assert (code, status["state"]) == (0, "done")
    assert len(desk.tickets) == 1


def test_a_second_claim_for_the_same_trip_stops_before_anybody_is_asked(desk):
    assert desk("run", str(EXAMPLE), "--operator", OPERATOR).returncode == 0
    code, status = desk.json("run", str(EXAMPLE), "--operator", OPERATOR, "--run-id", "again")
    assert code == 4
    assert "possible duplicate" in status["tasks"]["T5"]["reason"]
    assert status["tasks"]["T6"]["attempts"] == 0
    assert len(desk.tickets) == 1


def test_a_rejection_cancels_the_run(desk):
    desk("run", str(EXAMPLE), "--run-id", "r1")
    assert desk("reject", "r1", "T5", "-m", "not my rides", "--by", "ann").returncode == 0
    code, status = desk.json("resume", "r1")
    assert (code, status["state"]) == (6, "cancelled")
    assert "not my rides" in status["tasks"]["T5"]["reason"]
    assert desk.tickets == []


def test_killed_between_the_time_out_and_the_look_up_it_makes_no_second_ticket(desk):
    desk.env.update(TICKETS_LATE_S="60", TICKETS_SETTLE_S="5")  # nothing but the kill can end the wait
    killed_when(desk, "unknown-result")
    assert desk.json("status", "r1")[1]["tasks"]["T6"]["state"] == "unknown-result"
    code, status = desk.json("resume", "r1")
    assert (code, status["state"]) == (0, "done")
    assert status["tasks"]["T6"]["result"]["ticket_id"] == "R-55821"
    assert desk.tickets == [(55821, 106.5)]
    assert desk.json("audit", "r1")[1]["verdict"] == "clean"


def test_killed_while_the_ticket_is_being_made_it_makes_no_second_one(desk):
    desk.env.update(TICKETS_LATE_S="60")
    killed_when(desk, "running")
    code, status = desk.json("resume", "r1")
    assert code == 0, status
    assert len(desk.tickets) == 1
    assert desk.json("audit", "r1")[1]["verdict"] == "clean"
