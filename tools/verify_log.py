# ruff: noqa: ANN001, ANN201, ANN204, D102, ARG002, C408
"""Verify exported logs with nothing but Python, and no code of the engine: python verify_log.py LOG… [--head FILE]

Checked: canonical lines in a chain of hashes; numbers, batches and times in order; every move an edge of the two tables
below; every call with its intent, digest, key and one outcome; unknown results left by evidence only; no write while an
effect under its key is or may be there; approvals of exactly that call, in time, used once; a run that ends closed, with
nothing running. Not checked: what the rule table decides, and signatures. A cut tail shows only against a head kept
elsewhere: --head names a file of {"hash", "run", "seq"}. Exit code: 0 clean, 1 findings, 2 wrong usage.
"""

import argparse
import collections
import hashlib
import json
import sys
from pathlib import Path

TASK = """pending hold waiting|waiting approve pending|waiting answer done|waiting reject cancelled|waiting expire failed
pending start running|pending refuse failed|running succeed done|running fail failed|running lose unknown
unknown settle done|failed settle done|pending settle done|waiting settle done|unknown clear failed|failed retry pending
done invalidate pending|waiting invalidate pending|cancelled invalidate pending|pending cancel cancelled
waiting cancel cancelled|failed cancel cancelled|running cancel cancelled"""
RUN = """pending start running|running hold waiting|running lose unknown|waiting resume running|unknown resume running
failed resume running|running succeed done|running abort failed|waiting abort failed|unknown abort failed
pending cancel cancelled|running cancel cancelled|waiting cancel cancelled|unknown cancel cancelled|failed cancel cancelled"""
WRITES, OPEN, FINAL = "write irreversible", "running unknown-result", "done failed cancelled"
LATER = "late_result note_added move_refused reconciled owner_changed run_closed budget_changed run_asked"
REOPEN = ("task settle", "task clear", "task cancel", "run resume", "run cancel")
WORD = {"approve": "approved", "answer": "answered", "reject": "rejected", "expire": "expired"}
NEW = {"state": "pending", "n": 0, "applied": "no", "effect": "read"}
KINDS = {"succeed": "value", "fail": "value error timeout lost", "lose": "error timeout lost"}


def table(text):
    """Return (state, trigger) → state."""
    text = text.replace("waiting", "awaiting-confirmation").replace("unknown", "unknown-result")
    return {(s, trigger): dest for s, trigger, dest in map(str.split, text.replace("\n", "|").split("|"))}


MOVES = {"task": table(TASK), "run": table(RUN)}
SHAPE = dict(actor=dict, at=int, cause=int, data=dict, seq=int, task=str, tx=list, type=str, v=int)
Number = type("Number", (str,), {})  # a number with a fraction or an exponent, as it was written


def canonical(value):
    """Return the canonical text of a JSON value: names sorted, no spaces, numbers as they were written."""
    if type(value) is dict:
        return "{" + ",".join(f"{canonical(k)}:{canonical(value[k])}" for k in sorted(value)) + "}"
    if type(value) is list:
        return "[" + ",".join(map(canonical, value)) + "]"
    return str(value) if type(value) is Number else json.dumps(value, ensure_ascii=False)


def digest(domain, value):
    """Return the digest of a value in a domain, as 64 hex digits."""
    return hashlib.sha256(f"fsm_agent/{domain}/v1\0{canonical(value)}".encode()).hexdigest()


class Log:
    """One log, verified event by event; ``findings`` are (seq, rule, words)."""

    def __init__(self):
        self.findings, self.heads, self.values = [], {}, {}
        self.seq = self.at = self.tx_end = 0
        self.run, self.state, self.closed, self.hash, self.tools = "?", "pending", False, None, {}
        self.tasks = collections.defaultdict(lambda: dict(NEW))
        self.asked, self.said, self.given, self.proof, self.keys = {}, {}, {}, {}, {}
        self.used, self.accepted, self.opened, self.adopted, self.steps = set(), set(), set(), False, {}

    def need(self, fine, rule, words):
        if not fine:
            self.findings.append((self.seq, rule, words))

    def line(self, line):
        """Take a line of the file; False if nothing behind it can be verified."""
        if line.startswith(b'{"$checkpoint":'):
            return True
        try:
            if line.startswith(b'{"$blob":"') and line[74:84] + line[-1:] == b'","value":}':
                name, value = line[10:74].decode(), line[84:-1]
                self.values[name] = value
                self.need(hashlib.sha256(value).hexdigest() == name, "value", "another than its digest says")
                return True
            body, stated, around = line[:-75] + b"}", line[-66:-2].decode(), line[-75:-66] + line[-2:]
            event = json.loads(body, parse_float=Number)
            odd = {key: type(value) for key, value in event.items()}.items() - SHAPE.items()
            if canonical(event).encode() != body or odd or event["v"] != 1 or around != b',"hash":""}':
                raise ValueError("it is no canonical event with a hash behind it")
            self.order(event, body, stated)
            self.event(event["type"], event["data"], event.get("task", "run"), event)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            return self.need(False, "line", f"the event behind this one lacks what it must say: {error!r}")
        return True

    def order(self, event, body, stated):
        if self.hash is None:
            self.run = event["data"]["run"]
            self.hash = hashlib.sha256(f"fsm_agent/genesis/v1\0{self.run}".encode()).digest()
        found = hashlib.sha256(b"fsm_agent/event/v1\0" + self.hash + body).hexdigest()
        self.need(event["seq"] == self.seq + 1 and event["at"] > self.at, "order", "it does not come next")
        self.seq, self.at, self.hash = event["seq"], event["at"], bytes.fromhex(stated)
        self.heads[self.seq] = stated
        self.need(found == stated, "chain", "the hash is not that of its contents")
        self.need(0 < event.get("cause", 1) < max(self.seq, 2), "order", "its cause is not before it")
        first, count = event.get("tx", [self.seq, 1])
        last = first + count - 1 if count > ("tx" in event) else 0  # a batch of one is not named
        inside = last == self.tx_end if self.tx_end >= self.seq else first == self.seq <= last
        self.need(inside, "order", f"it does not stand in the batch {[first, count]}")
        self.tx_end = max(self.tx_end, last)
        self.need((event["type"] == "run_created") == (self.seq == 1), "order", "run_created elsewhere")

    def event(self, kind, data, name, event):
        later = kind in LATER.split() or f"{kind[:-6]} {data.get('trigger')}" in REOPEN
        self.need(not self.closed or later, "end", f"{kind} after the run was closed")
        self.facts(kind, data, name)
        getattr(self, f"on_{kind}", lambda *_: None)(data, name, event)
        if self.seq == self.tx_end:
            self.need(self.closed or self.state not in FINAL, "end", "the run ended, and is not closed")
            self.said, self.adopted = {}, False

    def value(self, found):
        held = type(found) is dict and "$blob" in found
        return json.loads(self.values[found["$blob"]], parse_float=Number) if held else found

    def outcome(self, found):
        return self.value({"$blob": found["value_digest"]} if "value_digest" in found else found.get("value"))

    def facts(self, kind, data, name):
        if kind == "run_created":
            rows = {m: sorted([*edge, dest] for edge, dest in moves.items()) for m, moves in MOVES.items()}
            self.need(digest("machines", rows) == data["machines_digest"], "legal", "other tables made it")
            self.need(digest("rules", data["rules"]) == data["rules_digest"], "digest", "other rules")
            self.root = self.signed = data.get("root", self.run)
        elif kind == "run_forked":
            self.signed = data["run"]  # keys stay those of the first run; approvals do not count any more
            self.keys.update({made["key"]: "yes" for made in data["effects"] if made["effect"] in WRITES})
        elif kind == "plan_adopted":
            self.need(digest("plan", data["plan"]) == data["digest"], "digest", "another plan")
            self.steps, self.adopted = {step["id"]: step for step in data["plan"]["steps"]}, True
        elif kind == "expanded":
            self.opened.add(name)
        elif kind == "run_closed":
            right = data["report"]["state"] == self.state in FINAL and not self.closed
            self.need(right, "end", f"it is closed while it is {self.state}")
            self.closed = True
        if kind in ("run_created", "owner_changed"):
            self.tools = {t["name"]: t for t in data["tools"]} if "tools" in data else self.tools
        self.accepted |= set(data.get("acknowledged", ())) if kind == "run_asked" else set()

    def move(self, kind, name, state, data):
        source, trigger, dest = data["source"], data["trigger"], data["dest"]
        right = state == source and MOVES[kind].get((state, trigger)) == dest
        self.need(right, "legal", f"{name} is {state}; from {source} by {trigger} to {dest} is no move of it")

    def on_task_moved(self, data, name, event):
        task, trigger = self.tasks[name], data["trigger"]
        self.move("task", name, task["state"], data)
        self.need(data["attempt"] == task["n"] + (trigger == "start"), "pairing", f"{name}: another attempt")
        said = self.said.get(name)
        self.need(said == WORD.get(trigger, said), "pairing", f"{name} moves by {trigger} unanswered")
        repeats = trigger == "retry" and task["effect"] in WRITES and task["applied"] != "no"
        self.need(not repeats, "twice", f"{name} is tried again, and its effect is or may be there")
        if trigger == "start":
            self.start(data, name, task)
        elif trigger in KINDS:
            said = "yes" if trigger == "succeed" else data["outcome"].get("applied", "maybe")
            fits = task["effect"] == "read" or (trigger == "lose") == (said == "maybe")
            fits = fits and data["outcome"]["kind"] in KINDS[trigger].split()
            self.need(fits, "pairing", f"{name} moves by {trigger} on an outcome that does not allow it")
            self.proved(task, said)
        elif trigger in ("settle", "clear"):
            self.cited(data, name, task)
        if data["dest"] == "done":
            result = self.outcome(data["outcome"]) if trigger == "succeed" else self.value(data["result"])
            result = digest("result", result)
            self.need(data.get("result_digest", result) == result, "digest", f"{name}: another result")
            self.proof[self.seq] = (name, "done", result)
        task["state"] = data["dest"]
        self.asked.pop(name, None)

    def start(self, data, name, task):
        tool, step = self.tools.get(data["tool"], {}), self.steps.get(name, {})
        args = {key: self.value(value) for key, value in data["args"].items()}
        self.need(self.state == "running", "intent", f"{name} starts while the run is {self.state}")
        right = (tool.get("effect"), step.get("tool", data["tool"])) == (data["effect"], data["tool"])
        right = right and digest("args", [data["tool"], args]) == data["args_digest"]
        right = right and digest("key", [self.root, name, data["args_digest"]])[:32] == data["key"]
        self.need(right, "intent", f"{name}: tool, effect, digest or key is not what it must be")
        there = {self.keys.get(data["key"], "no"), task["applied"]} != {"no"} and data["effect"] in WRITES
        self.need(not there, "twice", f"{name} starts, and its effect is or may be there")
        asks = step.get("requires_confirmation") or tool.get("confirm") or data["effect"] == "irreversible"
        if asks or "approval" in data:
            seq = data.get("approval")
            yes = digest("approval", [self.signed, name, data["tool"], args, data["effect"]])
            named, expires, people = self.given.get(seq, (None, None, ()))
            fits = named == yes and seq not in self.used and (expires is None or self.at <= expires)
            self.need(fits and len(people) >= step.get("approvers", 1), "approval", f"{name} lacks approval")
            self.used.add(seq)
        task.update(n=data["attempt"], effect=data["effect"], key=data["key"], applied="no")
        self.proved(task, "maybe")

    def proved(self, task, applied):
        if task["effect"] != "read":
            task["applied"], key = applied, task["key"]
            self.keys[key] = "yes" if self.keys.get(key) == "yes" else applied

    def cited(self, data, name, task):
        if name in self.opened and "seq" not in data["evidence"]:  # it is done along with its parts
            parts = {t["state"] for n, t in self.tasks.items() if n.startswith((f"{name}/", f"{name}["))}
            return self.need(parts <= {"done", "cancelled"}, "evidence", f"parts of {name} have not ended")
        who, says, result = self.proof.get(data["evidence"].get("seq"), (None, None, None))
        needed = "absent" if data.get("applied") == "no" else "applied"
        akin = self.adopted or str(who).partition("[")[0] == name.partition("[")[0]  # a record of one batch
        fits = (who == name and says == needed) or (says == "done" and akin)
        fits = fits and (data["trigger"] == "clear" or result == data["result_digest"])
        self.need(fits, "evidence", f"{name}: no earlier event says that its effect is {needed}")
        task.update({key: value for key, value in data.get("call", {}).items() if key in ("effect", "key")})
        return self.proved(task, data.get("applied", "yes"))

    def on_run_moved(self, data, name, event):
        self.move("run", "the run", self.state, data)
        self.state, self.closed = data["dest"], self.closed and data["trigger"] != "resume"
        accepted = {(n, "unknown-result") for n in self.accepted}
        left = {(n, t["state"]) for n, t in self.tasks.items() if t["state"] in OPEN} - accepted
        self.need(self.state not in FINAL or not left, "end", f"it ends, and {sorted(left)} are not over")

    def on_approval_requested(self, data, name, event):
        if data["kind"] == "approval" and "task" in event:
            args = {key: self.value(value) for key, value in data["args"].items()}
            yes = digest("approval", [self.signed, name, data["tool"], args, data["effect"]])
            self.need(yes == data["args_digest"], "approval", f"the request of {name} shows another call")
        self.asked[name] = (data["kind"], data["args_digest"], data.get("expires_at"), set())

    def on_approval_answered(self, data, name, event):
        kind, named, expires, people = self.asked.get(name, (None, None, None, set()))
        self.need((kind, named) == (data["kind"], data["args_digest"]), "approval", f"{name}: not asked")
        over = expires is not None and self.at >= expires
        self.need(over == (data["verdict"] == "expired"), "approval", f"{name}: at a wrong time")
        own = data["verdict"] == "expired" or event.get("actor") == {"kind": "human", "id": data["by"]}
        self.need(own, "approval", f"the word on {name} is not its author's")
        self.said[name] = data["verdict"]
        if data["verdict"] == "approved":
            people.add(data["by"].strip().casefold())
            self.given[self.seq] = (named, expires, frozenset(people))
        value = data["value"] if type(data.get("value")) is dict else {}
        says = "applied" if "result" in value else value.get("decide")
        self.proof[self.seq] = (name, says, digest("result", value.get("result")))

    def on_reconciled(self, data, name, event):
        self.need(data["attempt"] == self.tasks[name]["n"], "evidence", f"{name}: another attempt")
        self.proof[self.seq] = (name, data["verdict"], digest("result", self.value(data.get("result"))))

    def on_late_result(self, data, name, event):
        task, applied = self.tasks[name], data["outcome"].get("applied", "yes")
        self.need(1 <= data["attempt"] <= task["n"], "evidence", f"{name}: no such attempt")
        says, result = {"no": "absent", "yes": "applied"}.get(applied), self.outcome(data["outcome"])
        self.proof[self.seq] = (name, says, digest("result", result))
        if applied == "yes" and task["effect"] != "read" and task["state"] not in OPEN:
            task["applied"] = "yes"


def verify(path, kept):
    """Return the log at *path*, verified; *kept* is run → seq → hash."""
    log = Log()
    with Path(path).open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or not log.line(line[:-1]):
                log.need(line.endswith(b"\n"), "line", "the line behind this event has no end")
                break
    log.need(log.seq and log.tx_end <= log.seq, "order", "it is empty, or its last batch is cut")
    for seq, stated in kept.get(log.run, {}).items():
        log.need(log.heads.get(seq) == stated, "head", f"the kept head {seq} is not in it")
    return log


def main(arguments=None):
    """Verify the logs named; print findings; return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("logs", nargs="+", metavar="LOG")
    parser.add_argument("--head", metavar="FILE", help="heads kept elsewhere")
    options = parser.parse_args(arguments)
    kept, worst = {}, 0
    try:
        for head in map(json.loads, Path(options.head).read_text().splitlines() if options.head else ()):
            kept.setdefault(head["run"], {})[head["seq"]] = head["hash"]
        for path in options.logs:
            log = verify(path, kept)
            worst = max(worst, bool(log.findings))
            for seq, rule, words in log.findings:
                print(f"{path}: event {seq}: {rule}: {ascii(words)[1:-1]}")
            verdict = "violations" if log.findings else "clean" if log.closed else "open"
            print(f"{path}: {verdict}, {log.seq} events, head {log.heads.get(log.seq, '-')}")
    except (OSError, ValueError, KeyError) as error:
        print(f"verify_log: {error}", file=sys.stderr)
        return 2
    return int(worst)


if __name__ == "__main__":
    sys.exit(main())
