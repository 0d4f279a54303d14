"""``rules check``, ``show``, ``diff``, ``graph`` and ``test``: what a table does is proved, shown and tried."""

import itertools
import sys
import time

import pytest

from fsm_agent.core.rules.diff import to_mermaid
from fsm_agent.core.signals import DOMAIN, HOME
from fsm_agent.runtime.configs import load_rules, rule_names

DEFAULT = load_rules("default")
ROW = '[[row]]\nid = "{id}"\nstate = "{state}"\ndecide = "{decide}"\nwhy = "because"\n'
PLACES = [(machine, state, signal.value) for (machine, state), signals in HOME.items() for signal in signals]


def write(cli, name, *rows, head='schema = 1\nextends = "default"\n'):
    """Write a table beside the desk; a row is (id, state, decide) or text."""
    texts = [
        row if isinstance(row, str) else ROW.format(id=row[0], state=row[1], decide=row[2]) for row in rows
    ]
    (cli.path / name).write_text(head + "\n".join(texts), encoding="utf-8")
    return name


# check


def test_every_shipped_table_is_sound_alone_and_together(cli):
    for name in rule_names():
        code, found = cli.json("rules", "check", name)
        assert code == 0
        assert (found["schema"], found["sound"], found["findings"]) == ("fsm-agent/rules-check@1", True, [])
        assert set(found["bound"]) >= {"tool_calls", "planner_calls"}
    code, found = cli.json("rules", "check", *rule_names())
    assert (code, found["sound"], [t["table"] for t in found["tables"]]) == (0, True, list(rule_names()))


def test_what_is_not_sound_ends_with_exit_code_3_and_a_witness(cli):
    write(cli, "bad.toml", ("reconcile", "unknown-result", "abort"))
    code, found = cli.json("rules", "check", "bad.toml")
    assert (code, found["sound"]) == (3, False)
    law = next(f for f in found["findings"] if f["kind"] == "law")
    assert law["row"] == "reconcile"
    assert law["witness"].items() >= {"machine": "task", "state": "unknown-result"}.items()
    shown = cli("rules", "check", "bad.toml")
    assert shown.code == 3
    assert "bad.toml: not sound: " in shown.out


def test_a_run_under_a_table_that_is_not_sound_says_how_many_findings_and_each_once(cli):
    write(cli, "bad.toml", ("reconcile", "unknown-result", "abort"))
    found = cli.json("rules", "check", "bad.toml")[1]["findings"]
    assert len(found) > 1
    shown = cli("run", "desk", "--rules", "bad.toml")
    head, *each = shown.err.splitlines()
    assert (shown.code, head.endswith(f" is not sound: {len(found)} findings")) == (3, True)
    assert len(set(each)) == len(each) == len(found)


def test_one_bad_table_among_several_is_named(cli):
    write(cli, "bad.toml", ("reconcile", "unknown-result", "abort"))
    code, found = cli.json("rules", "check", "default", "bad.toml")
    assert (code, found["sound"]) == (3, False)
    assert {f["table"] for f in found["findings"]} == {"bad.toml"}
    assert [(t["table"], t["sound"]) for t in found["tables"]] == [("default", True), ("bad.toml", False)]
    assert "default: sound" in cli("rules", "check", "default", "bad.toml").out


def test_a_finding_says_what_to_type_to_see_it(cli):
    write(
        cli,
        "bad.toml",
        '[[row]]\nid = "twice"\nstate = "failed"\nsignal = "not_found"\ndecide = "escalate"\nwhy = "w"\n',
    )
    shown = cli("rules", "check", "bad.toml").out
    words = (
        next(line for line in shown.splitlines() if "see: fsm-agent" in line).split("fsm-agent ")[1].split()
    )
    assert words[:4] == ["rules", "test", "bad.toml", "failed"]
    tried = cli(*words)
    assert tried.code == 3
    assert "both fit" in tried.err


def test_a_threshold_from_the_command_line_is_checked_with_the_table(cli):
    few, more = (cli.json("rules", "check", "default", "--param", f"retries={n}")[1]["bound"] for n in (1, 6))
    assert few["attempts"] < more["attempts"]
    assert cli("rules", "check", "default", "--param", "retries=many").code == 2
    assert cli("rules", "check", "default", "--param", "retires=1").code == 3


def test_the_proof_is_told_in_words(cli):
    shown = " ".join(cli("rules", "check", "default").out.split())
    assert (
        "replan-local, replan-global spend global_replans_left, local_replans_left, which nothing fills again"
        in shown
    )
    assert "which only the above fill again" in shown
    assert "at most, until a person speaks: 4 planner calls in a run" in shown


# show


def test_every_row_is_shown_with_its_place_its_conditions_and_its_reason(cli):
    for name in rule_names():
        table = load_rules(name)
        text = " ".join(cli("rules", "show", name).out.split())
        for row in table.rows:
            assert f"{row.id} ({row.tier}, {row.where})" in text
            assert f"why: {row.why}" in text
            assert f"decide: {row.decide}" in text
            assert all(table.shown(c) in text for c in row.when)
            assert row.say is None or f"say: {row.say}" in text
        assert cli.json("rules", "show", name)[1]["digest"] == table.digest


def test_a_table_that_is_not_sound_can_still_be_looked_at(cli):
    write(cli, "bad.toml", ("reconcile", "unknown-result", "abort"))
    assert "decide: abort" in cli("rules", "show", "bad.toml").out
    assert cli("rules", "diff", "default", "bad.toml").code == 0
    assert cli("rules", "graph", "bad.toml").code == 0


# diff


@pytest.mark.parametrize(("a", "b"), list(itertools.combinations(rule_names(), 2)))
def test_a_difference_names_both_rows_and_each_answers_there(cli, a, b):
    code, found = cli.json("rules", "diff", a, b)
    tables = {"a": load_rules(a), "b": load_rules(b)}
    assert code == 0
    assert found["regions"]
    shown = " ".join(cli("rules", "diff", a, b).out.split())
    assert f"{a} and {b} differ in {len(found['regions'])} regions" in shown
    for region in found["regions"]:
        facts = dict(DEFAULT.initial)
        for fact, words in region["where"].items():
            first = words.replace("..", ", ").split(", ")[0]
            facts[fact] = first if isinstance(DOMAIN[fact][0], str) else int(first)
        for side, table in tables.items():
            row = table.match(region["machine"], region["state"], region["signals"][0], facts)
            assert (row.id, row.decide.value) == (region[side]["row"], region[side]["decide"])
            assert f"({row.id}, {row.where}): {row.why}" in shown


def test_a_table_does_not_differ_from_itself_nor_from_one_that_only_says_it_in_other_words(cli):
    assert cli("rules", "diff", "default", "default").out == "default and default are the same table\n"
    write(cli, "words.toml", ("accept", "done", "accept"))
    assert cli("rules", "diff", "default", "words.toml").out == "default and words decide alike everywhere\n"
    assert cli.json("rules", "diff", "default", "words.toml")[1]["regions"] == []


def test_thresholds_and_gaps_and_delays_show_in_a_difference(cli):
    write(
        cli,
        "other.toml",
        'drop = ["accept"]\n[params]\nbreaker_failures = 9\n[delays.backoff]\nkind = "fixed"\ns = 90\n',
    )
    found = cli.json("rules", "diff", "default", "other.toml")[1]
    assert found["params"] == {"breaker_failures": [5, 9]}
    assert [r["b"] for r in found["regions"] if r["state"] == "done"] == [None]
    shown = " ".join(cli("rules", "diff", "default", "other.toml").out.split())
    assert "params: breaker_failures 5 / 9" in shown
    assert "other: no row" in shown
    assert "default: retry after up to 1 s, times 2 each time, at most 1 min" in shown
    assert "other: retry after 1 min 30 s" in shown


def test_a_threshold_that_one_table_lacks_is_none(cli):
    assert cli.json("rules", "diff", "default", "seed_replan_decider")[1]["params"]["transient_retries"] == [
        None,
        3,
    ]
    assert "transient_retries none / 3" in " ".join(
        cli("rules", "diff", "default", "seed_replan_decider").out.split()
    )


# graph


def test_the_picture_is_that_of_the_core(cli):
    assert cli("rules", "graph", "default").out == to_mermaid(DEFAULT)
    found = cli.json("rules", "graph", "default")[1]
    assert (found["schema"], found["format"], found["shows"]) == (
        "fsm-agent/drawing@1",
        "mermaid",
        "table default",
    )


# test


@pytest.mark.parametrize("place", PLACES, ids=str)
def test_at_every_place_a_trial_is_what_the_engine_would_decide(cli, place):
    machine, state, signal = place
    code, found = cli.json(
        "rules", "test", "default", "run" if machine == "run" else state, signal, "effect=write"
    )
    facts = {**DEFAULT.initial, "effect": "write"}
    row = DEFAULT.match(*place, facts)
    assert code == 0
    assert (found["row"], found["decide"], found["line"], found["tier"]) == (
        row.id,
        row.decide.value,
        row.line,
        row.tier,
    )
    assert found["facts"] == facts
    assert found["reason"] == DEFAULT.reason(row, signal, facts)
    assert [n["row"] for n in found["near"]] == [r.id for r, _ in DEFAULT.near(*place, facts)]


def test_each_change_that_is_offered_leads_where_it_says(cli):
    asked = ("rules", "test", "default", "failed", "not_found", "has_planner=yes")
    found = cli.json(*asked)[1]
    assert {c["fact"] for c in found["changes"]} == {
        "effect",
        "local_replans_left",
        "consecutive_replans",
        "budget_band",
        "has_planner",
    }
    for change in found["changes"]:
        value = change["values"].replace("..", ", ").split(", ")[0]
        again = cli.json(*asked, f"{change['fact']}={value}")[1]
        assert (again["row"], again["decide"]) == (change["row"], change["decide"])


def test_a_trial_tells_a_person_row_reason_near_misses_and_what_would_change_it(cli):
    shown = cli(
        "rules",
        "test",
        "default",
        "failed",
        "transient_error",
        "effect=write",
        "applied=no",
        "retries_left=0",
    ).out
    text = " ".join(shown.split())
    row = next(r for r in DEFAULT.rows if r.id == "failed-write-ask")
    assert text.startswith(
        "task failed on transient_error, in table default facts: effect = write, applied = no, "
    )
    assert (
        f"decide: escalate row: failed-write-ask (default, {row.where}) why: transient_error: {row.why}"
        in text
    )
    assert "it wants retries_left >= 1 (was 0)" in text
    assert "retries_left 1..20: retry (retry-write-that-did-not-happen" in text
    assert "more (-v shows all)" in text
    assert "more (-v shows all)" not in cli("rules", "test", "default", "failed", "transient_error", "-v").out


def test_where_nothing_else_could_be_decided_that_is_said(cli):
    shown = cli("rules", "test", "default", "done", "success").out
    assert "otherwise: no single fact would change it" in shown
    assert "facts:" not in shown
    assert "nearly:" not in shown


def test_words_for_the_person_who_is_asked_and_delays_are_shown(cli):
    write(
        cli,
        "polite.toml",
        'drop = ["accept"]\n[[row]]\nid = "ok"\nstate = "done"\ndecide = "accept"\nwhy = "w"\nsay = "please look"\n',
    )
    assert "say: please look" in cli("rules", "test", "polite.toml", "done", "success").out
    assert (
        "decide: reconcile once a look would be proof"
        in cli(
            "rules",
            "test",
            "default",
            "unknown-result",
            "outcome_unknown",
            "has_reconcile=yes",
            "effect=write",
            "applied=maybe",
        ).out
    )
    assert (
        "decide: retry once the circuit breaker lets a call by"
        in cli("rules", "test", "default", "failed", "blocked_dependency", "breaker=open").out
    )


def test_a_table_without_an_answer_elsewhere_still_answers_here(cli):
    write(
        cli,
        "holes.toml",
        '[[row]]\nid = "only"\nstate = "failed"\nwhen = { effect = "read" }\ndecide = "escalate"\nwhy = "w"\n',
        head="schema = 1\n",
    )
    shown = cli("rules", "test", "holes.toml", "failed", "not_found")
    assert shown.code == 0
    assert "otherwise: the table has no answer, or two, at some other facts; see rules check" in shown.out
    assert cli.json("rules", "test", "holes.toml", "failed", "not_found")[1]["changes"] is None
    missing = cli("rules", "test", "holes.toml", "failed", "not_found", "effect=write")
    assert missing.code == 3
    assert "no row fits" in missing.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("failed", "success"), "signal 'success': it never fires in state failed; there are "),
        (("run", "not_found"), "signal 'not_found': it never fires in state run; there are "),
        (("failed", "x" * 5000), "signal 'xxx"),
        (("running", "success"), "STATE: 'running' is not one of"),
        (("failed", "not_found", "efect=read"), "fact 'efect': there is no such fact; did you mean effect?"),
        (("failed", "not_found", "effect=reed"), "fact effect: 'reed'; it is one of read, idempotent, write, irreversible"),
        (("failed", "not_found", "effect=1"), "fact effect: 1; it is one of read"),
        (("failed", "not_found", 'effect=["read"]'), "fact effect: a list; it is one of read"),
        (("failed", "not_found", "retries_left=21"), "fact retries_left: 21; it is a whole number from 0 to 20"),
        (("failed", "not_found", "retries_left=true"), "fact retries_left: True; it is a whole number from 0 to 20"),
        (("failed", "not_found", "retries_left=1.0"), "it is a whole number from 0 to 20"),
        (("failed", "not_found", "retries_left"), "write NAME=VALUE"),
        (("failed",), "SIGNAL is missing"),
    ],
)  # fmt: skip
def test_a_wrong_question_is_told_what_is_allowed(cli, words, said):
    shown = cli("rules", "test", "default", *words)
    assert shown.code == 2
    assert said in shown.err
    assert len(shown.err.splitlines()) == 1
    assert len(shown.err) < 700


# hostile tables


def many(text, n):
    return "".join(text.replace("%d", str(i)) for i in range(n))


def tangled(n):
    """Rows that overlap in every way."""
    facts = ("retries_left", "reconciles_left", "local_replans_left", "global_replans_left", "signal_count")
    rows = []
    for i in range(n):
        when = ", ".join(
            f'{f} = "{(i * 7 + j * 5) % 11}..{10 + (i * 3 + j) % 11}"' for j, f in enumerate(facts)
        )
        rows.append(
            f'[[row]]\nid = "r{i}"\nstate = "failed"\nwhen = {{ {when} }}\ndecide = "escalate"\nwhy = "w"\n'
        )
    return "".join(rows)


GOOD_ROW = ROW.format(id="r%d", state="failed", decide="escalate")
HOSTILE = {
    "10 MB": "schema = 1\n# " + "x" * (10 << 20),
    "10 MB of nothing": "\n" * (10 << 20),
    "deep lists": "schema = 1\nrow = " + "[" * 100_000,
    "deep tables": "schema = 1\nrow = " + "{a = " * 50_000,
    "deep keys": "a" + ".a" * 100_000 + " = 1",
    "10,000 rows": "schema = 1\n" + many(GOOD_ROW[:-1].replace("because", "b") + "\n", 6_000),
    "10,000 empty rows": "schema = 1\n" + "[[row]]\n" * 10_000,
    "10,000 rows in a list": "schema = 1\nrow = [" + many('{id = "r%d"},', 10_000) + "]",
    "1,000 rows, all alike": "schema = 1\n" + many(GOOD_ROW, 1_000),
    "1,000 tangled rows": "schema = 1\n" + tangled(1_000),
    "wide ranges": 'schema = 1\nextends = "default"\n[inputs]\nstall_steps = [-1000000, 1000000]\n',
    "a range that is a text": 'schema = 1\nextends = "default"\n[inputs]\nstall_steps = "all"\n',
    "unknown keys": 'schema = 1\nextends = "default"\nsurprise = 1\n[other]\nx = 1\n' + ROW.format(id="r", state="failed", decide="escalate") + "wen = {}\n",
    "an unknown decision": "schema = 1\n" + ROW.format(id="r", state="failed", decide="explode"),
    "wrong types": 'schema = "1"\nextends = 7\ndrop = {}\nparams = []\ninputs = 1\ncounters = "x"\ndecisions = false\ndelays = 1.5\nrow = {a = 1}\n',
    "rows of wrong types": "schema = 1\nrow = [1, \"a\", [], {id = 5}, {id = \"a\", state = 1, signal = {}, when = [], decide = [], delay = 1, why = 2}]\n",
    "an endless extends": 'schema = 1\nextends = "bad.toml"\n',
    "control characters": 'schema = 1\n[[row]]\nid = "\\u001b[2J"\nwhy = "\\u202e"\n',
    "no TOML": "\x00\x01\x02",
    "an empty file": "",
    "a number without end": "schema = " + "9" * 300_000,
    "a date": "schema = 1979-05-27\n[params]\nretries = 1979-05-27\n",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_table_gets_a_clear_answer_in_bounded_time(cli, text):
    write(cli, "bad.toml", head=text)
    for words in (
        ("check", "bad.toml"),
        ("check", "bad.toml", "--json"),
        ("show", "bad.toml"),
        ("diff", "bad.toml", "default"),
        ("graph", "bad.toml"),
        ("test", "bad.toml", "failed", "not_found"),
    ):
        start = time.process_time()
        shown = cli("rules", *words)  # which itself looks for tracebacks
        assert time.process_time() - start < 10 * (1 if sys.gettrace() is None else 10)
        assert shown.code in ((3,) if words[0] in ("check", "test") else (0, 3)), shown
        if words[-1] == "--json":
            assert shown.json["schema"] in ("fsm-agent/rules-check@1", "fsm-agent/error@1")
        elif shown.code == 3:
            assert max(map(len, (shown.err or shown.out).splitlines())) < 700
            assert (shown.err + shown.out).replace("\n", "").isprintable()


def test_binary_and_foreign_files_are_refused_with_their_name(cli):
    (cli.path / "bad.toml").write_bytes(b"\xff\xfe\x00")
    for words in (("check", "bad.toml"), ("diff", "default", "bad.toml"), ("graph", "bad.toml")):
        shown = cli("rules", *words)
        assert shown.code == 3
        assert shown.err.startswith("E-CONFIG configuration bad.toml: it is no TOML: ")


def test_a_table_that_is_not_there_is_not_found(cli):
    for words in (
        ("check", "defualt"),
        ("show", "defualt"),
        ("diff", "default", "defualt"),
        ("graph", "defualt"),
        ("test", "defualt", "done", "success"),
    ):
        shown = cli("rules", *words)
        assert shown.code == 9
        assert "did you mean default?" in shown.err
    assert cli("rules", "check", "gone.toml").code == 9
    assert cli("rules", "check", "desk").code == 9


def test_two_tables_too_intricate_to_be_compared_say_so(cli):
    write(cli, "a.toml", head="schema = 1\n" + tangled(1_000))
    write(cli, "b.toml", head="schema = 1\n" + tangled(999))
    shown = cli("rules", "diff", "a.toml", "b.toml")
    assert shown.code == 3
    assert "overlap too intricately to be compared; use fewer conditions per row" in shown.err
