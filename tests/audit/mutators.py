"""What somebody may do to a log who knows every format and hashes the whole chain anew.

Each mutator returns the events of another history, or None where a log has nothing for it to change. Digests, keys and
numbers are fitted as far as the name says: ``fitted`` means that every digest that names the changed thing is right.
"""

import copy

from fsm_agent.core import canon
from fsm_agent.core.events import Event

ANN = {"kind": "human", "id": "ann"}


# ── tools of the trade ────────────────────────────────────────────────────────────────────────────────────────


def at(events, type_, which=0, where=lambda e: True, **data):
    """Return the index of an event of a type whose data has these members; None if there is none."""
    fits = [
        i
        for i, e in enumerate(events)
        if e.type == type_ and all(e.data.get(k) == v for k, v in data.items()) and where(e)
    ]
    return fits[which] if fits and (which >= 0 or len(fits) >= -which) and (which < len(fits)) else None


def fitted(events):
    """Number events anew, and fit causes, batches and times, as a careful forger would."""
    new = {e.seq: i for i, e in enumerate(events, 1)}
    first, count, out, now = {}, {}, [], 0
    for i, e in enumerate(events, 1):
        batch = e.tx[0] if e.tx else e.seq
        first.setdefault(batch, i)
        count[batch] = count.get(batch, 0) + 1
    for i, e in enumerate(events, 1):
        batch = e.tx[0] if e.tx else e.seq
        cause = e.cause if e.cause is None else new.get(e.cause)
        now = max(now + 1, e.at)
        out.append(
            e._replace(
                seq=i,
                at=now,
                cause=cause if cause is not None and cause < i else None,
                tx=[first[batch], count[batch]],
            )
        )
    return out


def without(events, index):
    """Return the history without one event."""
    return None if index is None else fitted([*events[:index], *events[index + 1 :]])


def twice(events, index):
    """Return the history with one event twice."""
    return None if index is None else fitted([*events[: index + 1], *events[index:]])


def inserted(events, index, *new):
    """Return the history with events after the one at *index*, in its batch."""
    if index is None:
        return None
    tx = events[index].tx or [events[index].seq, 1]
    made = [e._replace(tx=tx, at=events[index].at + 1 + n) for n, e in enumerate(new)]
    return fitted([*events[: index + 1], *made, *events[index + 1 :]])


def event(type_, data, task=None, actor=None):
    """Return an event to be inserted."""
    return Event(10**9, 1, type_, data, task, None, None, actor)


def changed(events, index, path, value, **envelope):
    """Return the history with one member of one event's data changed (``path`` with dots; a function maps the old)."""
    if index is None:
        return None
    data = copy.deepcopy(events[index].data)
    *way, last = path.split(".")
    place = data
    for part in way:
        place = place[int(part)] if isinstance(place, list) else place.get(part)
        if place is None:
            return None
    last = int(last) if isinstance(place, list) else last
    if not isinstance(place, list) and last not in place and callable(value):
        return None
    if value is ...:
        place.pop(last, None)
    else:
        place[last] = value(place[last]) if callable(value) else value
    if data == events[index].data:
        return None
    out = list(events)
    out[index] = out[index]._replace(data=data, **envelope)
    return out


def start_of(events, **data):
    """Return the index of the first start."""
    return at(events, "task_moved", trigger="start", **data)


def refit_call(events, index, args, run="simulation"):
    """Return the history with a call's arguments changed, and digest, key and approval fitted to them."""
    data = {**events[index].data, "args": args}
    data["args_digest"] = canon.value_digest("args", [data["tool"], args])
    data["key"] = canon.value_digest("key", [run, events[index].task, data["args_digest"]])[:32]
    out = list(events)
    out[index] = out[index]._replace(data=data)
    yes = canon.value_digest("approval", [run, events[index].task, data["tool"], args, data["effect"]])
    for i, e in enumerate(out[:index]):
        if e.type.startswith("approval") and e.task == events[index].task and e.data["kind"] == "approval":
            out[i] = e._replace(
                data={**e.data, "args_digest": yes, **({"args": args} if "args" in e.data else {})}
            )
    return out


def refit_plan(events, index):
    """Fit the digest of a plan that was changed."""
    if index is None:
        return None
    return changed(events, index, "digest", canon.value_digest("plan", events[index].data["plan"]))


def refit_rules(events):
    """Fit the digest of a rule table that was changed."""
    return changed(events, 0, "rules_digest", canon.value_digest("rules", events[0].data["rules"]))


# ── left out ──────────────────────────────────────────────────────────────────────────────────────────────────


def an_intent_is_left_out(e):
    return without(e, start_of(e))


def an_outcome_is_left_out(e):
    return without(e, at(e, "task_moved", where=lambda x: x.data["trigger"] in ("succeed", "fail", "lose")))


def a_decision_is_left_out(e):
    return without(e, at(e, "decided"))


def an_approval_is_left_out(e):
    return without(e, at(e, "approval_answered", verdict="approved"))


def a_request_is_left_out(e):
    return without(e, at(e, "approval_requested"))


def a_verdict_is_left_out(e):
    return without(e, at(e, "reconciled", where=lambda x: x.data["verdict"] != "inconclusive"))


def the_end_is_left_out(e):
    return without(e, at(e, "run_closed", -1))


def a_plan_is_left_out(e):
    return without(e, at(e, "plan_adopted", -1))


def a_replan_is_left_out(e):
    return without(e, at(e, "replan_requested"))


def a_wish_is_left_out(e):
    return without(e, at(e, "run_asked"))


def a_probe_is_left_out(e):
    return without(e, at(e, "probe_sent"))


def a_planners_call_is_left_out(e):
    return without(e, at(e, "planner_asked"))


def a_batch_is_left_out(e):
    middle = e[len(e) // 2]
    batch = middle.tx[0] if middle.tx else middle.seq
    left = [x for x in e if (x.tx[0] if x.tx else x.seq) != batch]
    return fitted(left) if batch > 1 else None


def a_tail_is_cut_off(e):
    batch = e[-1].tx[0] if e[-1].tx else e[-1].seq
    return [x for x in e if x.seq < batch] if batch > 1 else None


def a_note_is_left_out(e):
    return without(e, at(e, "note_added"))


def a_new_owner_is_left_out(e):
    return without(e, at(e, "owner_changed"))


def a_pause_for_a_person_is_left_out(e):
    return without(e, at(e, "run_moved", -1, trigger="hold"))


def a_late_result_is_left_out(e):
    return without(e, at(e, "late_result"))


def a_refused_word_is_left_out(e):
    return without(e, at(e, "move_refused"))


# ── said twice, put in ────────────────────────────────────────────────────────────────────────────────────────


def an_intent_stands_twice(e):
    return twice(e, start_of(e))


def an_outcome_stands_twice(e):
    return twice(e, at(e, "task_moved", trigger="succeed"))


def a_decision_stands_twice(e):
    return twice(e, at(e, "decided"))


def an_approval_stands_twice(e):
    return twice(e, at(e, "approval_answered", verdict="approved"))


def the_end_stands_twice(e):
    return twice(e, at(e, "run_closed", -1))


def the_beginning_stands_twice(e):
    return twice(e, 0)


def an_approval_is_put_in(e):
    index = start_of(e)
    if index is None:
        return None
    data = {
        "kind": "approval",
        "verdict": "approved",
        "args_digest": "0" * 64,
        "by": "ann",
        "channel": "api",
    }
    return inserted(e, index, event("approval_answered", data, e[index].task, ANN))


def a_success_is_put_in(e):
    index = at(e, "task_moved", where=lambda x: x.data["trigger"] in ("fail", "lose"))
    if index is None:
        return None
    data = {
        "trigger": "succeed",
        "source": "running",
        "dest": "done",
        "attempt": e[index].data["attempt"],
        "outcome": {"kind": "value", "value": 1},
        "result_digest": canon.value_digest("result", 1),
    }
    return inserted(e, index, event("task_moved", data, e[index].task))


def a_wish_is_put_in(e):
    index = start_of(e)
    return inserted(e, index, event("run_asked", {"wish": "abort", "reason": "a rule"}))


def a_changed_input_is_put_in(e):
    data = {"inputs": {"x": 1}, "constraints": {}, "was": {}, "by": "ann"}
    return inserted(e, start_of(e), event("input_changed", data, None, ANN))


def a_plan_is_put_in(e):
    index = at(e, "plan_adopted", -1)
    if index is None:
        return None
    old = e[index].data
    data = {
        **old,
        "plan_version": old["plan_version"] + 1,
        "origin": "model",
        "answers": "run",
        "answer": "{}",
    }
    data |= {
        "diff": {"kept": [], "changed": [], "added": [], "removed": []},
        "strategy": "0",
        "scope": "global",
    }
    return inserted(e, start_of(e), event("plan_adopted", data, None, {"kind": "model"}))


def a_larger_budget_is_put_in(e):
    data = {"budgets": {"tool_calls": 10**6}, "by": "ann"}
    return inserted(e, start_of(e), event("budget_changed", data, None, ANN))


def a_note_is_put_in(e):
    return inserted(e, start_of(e), event("note_added", {"text": "all is well", "by": "ann"}, None, ANN))


# ── in another order, from elsewhere ──────────────────────────────────────────────────────────────────────────


def swapped(e, i, j):
    out = list(e)
    out[i], out[j] = e[j]._replace(at=e[i].at, tx=e[i].tx), e[i]._replace(at=e[j].at, tx=e[j].tx)
    return fitted(out)


def a_decision_precedes_its_signal(e):
    index = at(e, "decided", where=lambda x: x.task is not None)
    return swapped(e, index - 1, index) if index else None


def an_outcome_precedes_its_intent(e):
    start = start_of(e)
    if start is None:
        return None
    done = at(e, "task_moved", where=lambda x: x.task == e[start].task and x.data["source"] == "running")
    return swapped(e, start, done) if done is not None else None


def an_approval_follows_its_call(e):
    start = at(e, "task_moved", trigger="start", where=lambda x: "approval" in x.data)
    if start is None:
        return None
    answer = next(i for i, x in enumerate(e) if x.seq == e[start].data["approval"])
    return swapped(e, answer, start)


def the_run_has_another_name(e):
    return changed(e, 0, "run", "another")


def results_of_two_tasks_change_places(e):
    done = [i for i, x in enumerate(e) if x.type == "task_moved" and x.data["trigger"] == "succeed"]
    a = next(
        (i for i in done if e[i].data["outcome"].get("value") != e[done[-1]].data["outcome"].get("value")),
        None,
    )
    if a is None:
        return None
    b, out = done[-1], list(e)
    for i, j in ((a, b), (b, a)):
        out[i] = e[i]._replace(data={**e[i].data, "outcome": e[j].data["outcome"]})
    return out


def the_end_of_another_task_is_borrowed(e):
    done = at(e, "task_moved", trigger="succeed")
    other = (
        next((x.task for x in e if x.task not in (None, e[done].task)), None) if done is not None else None
    )
    if other is None:
        return None
    out = list(e)
    out[done] = out[done]._replace(task=other)
    return out


# ── changed ───────────────────────────────────────────────────────────────────────────────────────────────────


def a_decision_is_another(e):
    return changed(e, at(e, "decided"), "decide", lambda d: "escalate" if d != "escalate" else "accept")


def a_row_is_another(e):
    return changed(e, at(e, "decided"), "rule", "another-row")


def a_fact_is_another(e):
    return changed(e, at(e, "decided"), "facts", lambda f: {**f, "optional": "yes", "retries_left": 1})


def a_reason_is_another(e):
    return changed(e, at(e, "decided"), "reason", "a person said so")


def a_signal_is_another(e):
    index = at(e, "decided", where=lambda x: x.data["state"] == "failed")
    return changed(e, index, "signal", lambda s: "conflict" if s != "conflict" else "not_found")


def an_argument_is_another(e):
    index = at(e, "task_moved", trigger="start", where=lambda x: x.data["args"])
    return changed(e, index, "args", lambda a: {**a, next(iter(a)): "mallory"})


def an_argument_is_another_fitted(e):
    index = at(e, "task_moved", trigger="start", where=lambda x: x.data["args"])
    if index is None:
        return None
    args = e[index].data["args"]
    return refit_call(e, index, {**args, next(iter(args)): "mallory"})


def an_argument_is_added_fitted(e):
    index = start_of(e)
    return None if index is None else refit_call(e, index, {**e[index].data["args"], "cc": "mallory"})


def a_tool_is_another(e):
    return changed(e, start_of(e), "tool", "transfer")


def a_write_passes_as_a_read(e):
    index = at(e, "task_moved", trigger="start", where=lambda x: x.data["effect"] != "read")
    return changed(e, index, "effect", "read")


def a_key_is_another(e):
    return changed(e, start_of(e), "key", "0" * 32)


def an_attempt_is_another(e):
    return changed(e, start_of(e), "attempt", lambda n: n + 1)


def a_deadline_is_extended(e):
    return changed(e, start_of(e), "deadline_at", lambda t: t + 3_600_000_000)


def a_deadline_is_shortened(e):
    return changed(e, start_of(e), "deadline_at", lambda t: t - 500_000)


def an_expiry_is_extended(e):
    index = at(e, "approval_requested", where=lambda x: "expires_at" in x.data)
    return changed(e, index, "expires_at", lambda t: t + 3_600_000_000)


def a_request_shows_something_else(e):
    index = at(e, "approval_requested", kind="approval", where=lambda x: x.task is not None)
    return changed(e, index, "args", lambda a: {**a, "shown": "harmless"})


def fewer_people_are_asked(e):
    index = at(e, "approval_requested", where=lambda x: x.data.get("approvers", 0) > 0)
    return changed(e, index, "approvers", 0)


def an_approver_is_another(e):
    return changed(e, at(e, "approval_answered", verdict="approved"), "by", "mallory")


def an_approver_is_another_everywhere(e):
    index = at(e, "approval_answered", verdict="approved")
    if index is None:
        return None
    out = changed(e, index, "by", "mallory")
    return [
        x._replace(actor={"kind": "human", "id": "mallory"}) if i in (index, index + 1) and x.actor else x
        for i, x in enumerate(out)
    ]


def nobody_signs_an_approval(e):
    index = at(e, "approval_answered", verdict="approved")
    if index is None:
        return None
    out = list(e)
    out[index] = out[index]._replace(actor=None)
    return out


def a_no_becomes_a_yes(e):
    return changed(e, at(e, "approval_answered", verdict="rejected"), "verdict", "approved")


def an_approval_is_used_twice(e):
    starts = [i for i, x in enumerate(e) if x.type == "task_moved" and x.data["trigger"] == "start"]
    cites = [i for i in starts if "approval" in e[i].data]
    later = [i for i in starts if cites and i > cites[0]]
    return changed(e, later[0], "approval", e[cites[0]].data["approval"]) if later else None


def a_call_cites_no_approval(e):
    index = at(e, "task_moved", trigger="start", where=lambda x: "approval" in x.data)
    return changed(e, index, "approval", ...)


def a_result_is_another(e):
    index = at(e, "task_moved", trigger="succeed")
    return changed(e, index, "outcome.value", {"forged": 1})


def an_unknown_effect_counts_as_none(e):
    return changed(e, at(e, "task_moved", trigger="lose"), "outcome.applied", "no")


def a_failure_counts_as_known(e):
    index = at(e, "task_moved", trigger="lose")
    out = changed(e, index, "trigger", "fail")
    return out and changed(out, index, "dest", "failed")


def evidence_is_another_event(e):
    index = at(e, "task_moved", where=lambda x: "evidence" in x.data)
    return changed(e, index, "evidence.seq", 1)


def a_verdict_is_turned_round(e):
    index = at(e, "reconciled", where=lambda x: x.data["verdict"] in ("applied", "absent"))
    return changed(e, index, "verdict", lambda v: "absent" if v == "applied" else "applied")


def a_probes_word_passes_as_a_persons(e):
    return changed(e, at(e, "reconciled", by="probe"), "by", "ann")


def a_wait_is_shortened(e):
    index = at(e, "task_moved", trigger="retry", where=lambda x: x.data["delay_ms"] > 1)
    return changed(e, index, "delay_ms", 1)


def a_wait_is_extended_in_both_places(e):
    index = at(e, "decided", decide="retry")
    out = changed(e, index, "params.delay_ms", lambda d: d + 10**7)
    if out is None:
        return None
    return changed(out, at(out, "task_moved", trigger="retry"), "delay_ms", lambda d: d + 10**7)


def a_probe_is_due_at_once(e):
    return changed(e, at(e, "decided", decide="reconcile"), "params.probe_at", 1)


def the_cool_down_is_skipped(e):
    return changed(e, at(e, "replan_requested"), "not_before", lambda t: t - 10**7)


def the_table_is_another(e):
    return changed(e, 0, "rules.params.retries", lambda n: n + 5)


def the_table_is_another_fitted(e):
    out = changed(e, 0, "rules.params.retries", lambda n: n + 5)
    return refit_rules(out)


def a_row_of_the_table_decides_otherwise_fitted(e):
    used = at(e, "decided", where=lambda x: not x.data["rule"].startswith("plan:"))
    if used is None:
        return None
    rows = copy.deepcopy(e[0].data["rules"]["row"])
    row = next(r for r in rows if r["id"] == e[used].data["rule"])
    row["why"] = "because it suits somebody"
    return refit_rules(changed(e, 0, "rules.row", rows))


def the_state_tables_are_others(e):
    return changed(e, 0, "machines_digest", "0" * 64)


def the_plan_is_another(e):
    return changed(e, at(e, "plan_adopted"), "plan.goal", "another goal")


def the_goal_is_another_fitted(e):
    return refit_plan(changed(e, at(e, "plan_adopted"), "plan.goal", "another goal"), at(e, "plan_adopted"))


def arguments_in_the_plan_are_others_fitted(e):
    index, start = at(e, "plan_adopted"), start_of(e)
    if start is None:
        return None
    steps = e[index].data["plan"]["steps"]
    place = next((i for i, s in enumerate(steps) if s["id"] == e[start].task), None)
    if place is None:
        return None
    out = changed(e, index, f"plan.steps.{place}", {**steps[place], "args": {"forged": 1}})
    return refit_plan(out, index)


def an_approval_is_not_needed_any_more_fitted(e):
    """The demand for a person's word is taken out of plan and registry, and the call cites none."""
    start = at(e, "task_moved", trigger="start", where=lambda x: "approval" in x.data)
    if start is None:
        return None
    out, index = changed(e, start, "approval", ...), at(e, "plan_adopted")
    steps = [{**s, "requires_confirmation": False} for s in e[index].data["plan"]["steps"]]
    out = refit_plan(changed(out, index, "plan.steps", steps) or out, index) or out
    tools = [{**t, "confirm": False} for t in e[0].data["tools"]]
    return changed(out, 0, "tools", tools) or out


def a_models_answer_is_another(e):
    return changed(e, at(e, "plan_adopted", origin="model"), "answer", '{"steps": []}')


def a_models_plan_is_another_fitted(e):
    index = at(e, "plan_adopted", origin="model")
    if index is None:
        return None
    steps = e[index].data["plan"]["steps"]
    out = changed(e, index, "plan.steps", [{**s, "description": "innocent"} for s in steps])
    return out and refit_plan(out, index)


def a_strategy_is_another(e):
    return changed(e, at(e, "replan_requested"), "strategy", "0" * 64)


def a_condition_of_the_plan_is_another_fitted(e):
    return _conditioned(e, "when", "1 == 2")


def a_precondition_of_the_plan_is_another_fitted(e):
    return _conditioned(e, "preconditions", ["1 == 2"])


def _conditioned(e, key, value):
    index, start = at(e, "plan_adopted"), start_of(e)
    steps = e[index].data["plan"]["steps"] if start is not None else []
    place = next((i for i, s in enumerate(steps) if s["id"] == e[start].task), None)
    if place is None:
        return None
    return refit_plan(changed(e, index, f"plan.steps.{place}", {**steps[place], key: value}), index)


def a_first_plan_comes_from_elsewhere(e):
    return changed(e, at(e, "plan_adopted", origin="initial"), "origin", "caller")


def a_models_plan_passes_as_the_callers(e):
    return changed(e, at(e, "plan_adopted", origin="model"), "origin", "caller")


def a_models_plan_passes_as_a_persons(e):
    return changed(e, at(e, "plan_adopted", origin="model"), "origin", "human")


def a_models_plan_passes_as_a_repair(e):
    return changed(e, at(e, "plan_adopted", origin="model"), "origin", "rule")


def a_planner_is_asked_about_something_else(e):
    return changed(e, at(e, "planner_asked"), "request", lambda n: n + 1)


def a_planner_is_asked_twice(e):
    return twice(e, at(e, "planner_asked"))


def the_cool_down_is_longer(e):
    return changed(e, at(e, "replan_requested"), "not_before", lambda t: t + 10**12)


def a_reservation_is_another(e):
    index = at(e, "task_moved", trigger="start")
    return changed(e, index, "reserve", {"tokens": 12345, "cost_micros": 0})


def the_report_is_another(e):
    return changed(e, at(e, "run_closed"), "report.used.tool_calls", lambda n: n - 1)


def the_report_hides_what_is_unknown(e):
    index = at(e, "run_closed", where=lambda x: x.data["report"]["unknown"])
    return changed(e, index, "report.unknown", [])


def the_run_ended_otherwise(e):
    index = at(e, "run_moved", -1, where=lambda x: x.data["dest"] in ("done", "failed", "cancelled"))
    return changed(e, index, "dest", lambda d: "failed" if d == "done" else "done")


def an_abort_is_undone_by_nobody(e):
    index = at(e, "run_moved", trigger="resume", where=lambda x: x.actor is not None)
    if index is None:
        return None
    out = list(e)
    out[index] = out[index]._replace(actor=None)
    return out


def an_effect_is_accepted_that_is_known(e):
    index = at(e, "run_asked", wish="cancel")
    other = next((x.task for x in e if x.type == "task_moved" and x.data["dest"] == "done"), None)
    return changed(e, index, "acknowledged", [other]) if other else None


def an_owner_is_older(e):
    return changed(e, at(e, "owner_changed"), "epoch", 1)


def a_time_is_earlier(e):
    out = list(e)
    out[-1] = out[-1]._replace(at=out[0].at)
    return out


def a_cause_lies_ahead(e):
    out = list(e)
    out[len(e) // 2] = out[len(e) // 2]._replace(cause=len(e) + 5)
    return out


def a_batch_is_torn(e):
    index = next((i for i, x in enumerate(e) if x.tx and x.tx[1] > 1), None)
    if index is None:
        return None
    out = list(e)
    out[index] = out[index]._replace(tx=[e[index].seq, 1])
    return out


def what_is_used_is_less(e):
    index = at(e, "task_moved", where=lambda x: x.data.get("outcome", {}).get("usage", {}).get("tokens"))
    return changed(e, index, "outcome.usage.tokens", 0)


def an_event_is_of_no_known_kind(e):
    out = list(e)
    out[-1] = out[-1]._replace(type="run_blessed")
    return out


def a_task_is_given_up_for_no_reason(e):
    index = at(e, "task_moved", trigger="cancel")
    return changed(e, index, "code", lambda c: "optional" if c != "optional" else "aborted")


def a_secret_stands_in_the_log(e):
    key = "-----BEGIN PRIVATE KEY-----"
    return inserted(e, start_of(e), event("note_added", {"text": key, "by": "ann"}, None, ANN))


MUTATORS = {
    name.replace("_", " "): function
    for name, function in sorted(globals().items())
    if name.split("_")[0] in ("a", "an", "the", "nobody", "fewer", "evidence", "results", "arguments", "what")
    and callable(function)
}
"""In words → mutator."""

HEAD_ONLY = {
    "a note is put in": "words change nothing",
    "a refused word is left out": "what was refused changed nothing",
    "a new owner is left out": "who drove the run leaves no trace, unless calls were out",
    "a tail is cut off": "what was not there yet is not missing",
    "a batch is left out": "a batch that is mere words leaves no gap",
    "a larger budget is put in": "a limit that was never reached decides nothing, and a person may raise it",
    "an approver is another everywhere": "who said yes is what the log says of it",
    "a result is another": "a result that no later step uses is what the log says of it",
    "results of two tasks change places": "the same, twice",
    "the table is another fitted": "a threshold that no decision came near decides nothing",
    "the goal is another fitted": "the goal of a plan decides nothing",
    "an approval is not needed any more fitted": "what plan and registry demand is what the log says of it",
}
"""What the rules alone cannot always see, and why: found by a head kept elsewhere, or a signature."""
