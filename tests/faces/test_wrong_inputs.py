"""Whatever is typed wrongly, at the prompt or on the command line: one helpful line, and nothing has changed."""

import pytest

HUGE = "x" * 100_000
AT_PROMPT = [
    # verbs
    ("frobnicate", 2, "there is no command 'frobnicate'; help lists what can be typed"),
    ("stauts", 2, "there is no command 'stauts'; did you mean status"),
    ("STATUS", 2, "there is no command 'STATUS'; help lists what can be typed"),
    ("приве́т", 2, "there is no command"),
    ("承認 T3", 2, "there is no command '承認'"),
    ("\x1b[31mred", 2, r"there is no command '\\x1b[31mred'"),
    (HUGE, 2, "there is no command 'xxx"),
    ("!!", 2, "there is no command '!!'"),
    ("rules", 2, "rules: there are rules explain, rules check"),
    ("rules explode", 2, "rules: there are"),
    ("fsm", 2, "fsm: there are fsm show"),
    ("help frobnicate", 9, "help frobnicate: there is no such command; help lists them"),
    # quotes and options
    ("note 'open", 2, "the quote at character 6 is not closed"),
    ('note "open', 2, "the quote at character 6 is not closed"),
    ("status --colour", 2, "status: there is no option --colour"),
    ("approve T3 --digst x", 2, "there is no option --digst; did you mean --digest?"),
    ("note", 2, "note: TEXT is missing; usage: note TEXT"),
    ("note a b", 2, "unexpected extra argument (b), for words with spaces stand in quotes; usage: note TEXT"),
    ("approve", 2, "approve: TASK is missing; usage: approve TASK"),
    ("retry", 2, "retry: TASK is missing; usage: retry TASK"),
    ("show", 2, "show: SEQ is missing; usage: show SEQ"),
    ("graph --format png", 2, "--format: 'png' is not one of 'text', 'mermaid', 'dot', 'svg'"),
    # ids and digests
    ("approve T9 --digest 12345678", 2, "task T9: the plan has no such step; it has T1, T2, T3"),
    ("approve T1 --digest 12345678", 2, "T1: it asks for nothing now"),
    ("approve T3 --digest 12345678", 2, "the approval states digest '12345678'"),
    ("approve T3 --digest 1", 2, "the approval states digest '1'"),
    ("approve T3 --digest zzzzzzzz", 2, "the approval states digest 'zzzzzzzz'"),
    ("approve T3 --digest ''", 2, "the approval states digest ''"),
    ("approve T3", 4, "an approval says what it approves; add --digest"),
    ("reject T9 -m x", 2, "task T9: the plan has no such step; it has T1, T2, T3"),
    ("reject T2 -m x", 2, "T2: it asks for nothing now"),
    ("edit T1 a=1", 2, "T1: it asks for nothing now"),
    ("edit T3", 2, "edit: K=V… is missing"),
    ("edit T3 total", 2, "'total' was given; write NAME=VALUE"),
    ("edit T3 =3", 2, "'=3' was given; write NAME=VALUE"),
    ("edit T3 total=abc", 2, "the request stays as it is"),
    ("edit T3 colour=3", 2, "the request stays as it is"),
    ("answer T3 {}", 2, "it asks for a word of kind 'approval'; use approve, reject or edit"),
    ("answer T9 1", 2, "task T9: the plan has no such step; it has T1, T2, T3"),
    ("answer T3 {not json", 2, "unexpected extra argument"),
    ("answer T3 nope", 2, "'nope' is no JSON"),
    ("answer T3 NaN", 2, "is no JSON"),
    ('answer T3 {"a":1,"a":2}', 2, "is no JSON"),
    ("retry T9", 2, "task T9: the plan has no such step; it has T1, T2, T3"),
    ("retry T1", 2, "only a failed task can be tried again"),
    ("reconcile T1", 2, "there is nothing to reconcile"),
    ("reconcile T1 --as maybe", 2, "--as: 'maybe' is not one of 'applied', 'absent'"),
    ("reconcile T1 --as absent --result 1", 2, "what did not happen has no result"),
    ("reconcile T1 --evidence x", 2, "add --as applied or --as absent"),
    ("why T9", 9, "T9"),
    ("why 999", 9, "999"),
    ("show 999", 9, "event 999: the log of r1 ends at"),
    ("show 0", 2, "show: SEQ: 0 is not in the range x>=1; see help show"),
    ("show -1", 2, "-1"),
    ("show x", 2, "'x' is not a valid integer"),
    ("status --at 999", 9, "event 999: the log of r1 ends at"),
    ("plan T9", 9, "step T9: the plan has none; there are T1, T2, T3"),
    ("diff", 9, "there is only plan 1"),
    ("diff 1 2", 9, "there is no plan 2"),
    ("rules explain acept", 9, "the table default has none; did you mean accept?"),
    ("rules show no-such-table", 9, "no-such-table"),
    ("attach r9", 9, "r9"),
    ("attach ../../etc", 9, "../../etc"),
    # conditions
    ("until", 2, "until: CONDITION is missing"),
    ("until T9", 2, "condition 'T9': it is neither a task nor of a known form; write TASK"),
    ("until state=over", 2, "there is no state 'over'; there are pending, running"),
    ("until signal=rain", 2, "there is no signal 'rain'"),
    ("break T9", 2, "condition 'T9'"),
    ("break a b c", 2, "'a b c' was given; write break CONDITION, or break rm N"),
    ("break rm 3", 9, "break rm 3: there is no such break point; there are none"),
    ("run backwards", 2, "'backwards' was given; write run, run until CONDITION, or run &"),
    ("run &", 2, "nobody sits at a prompt here; write run"),
    # values, times, paths
    ("set x", 2, "'x' was given; write NAME=VALUE"),
    ("set budgets.beer=3", 2, "budgets.beer"),
    ("set budgets.tokens=many", 2, "budgets.tokens"),
    ("set n=1e999", 2, "n"),
    ("set n=99999999999999999999999", 2, "n"),
    ("set constraints.nope=1", 2, "constraint nope: unknown; the plan has none"),
    ("replan --plan nowhere.json", 9, "nowhere.json"),
    ("replan", 2, "replan: --plan FILE is missing"),
    ("load nowhere.json", 9, "nowhere.json"),
    ("load .", 3, "it is a directory without plan.json"),
    ("save", 2, "save: FILE is missing"),
    ("save no/such/place.jsonl", 3, "no/such/place.jsonl"),
    ("graph -o no/such/place.svg", 3, "no/such/place.svg"),
    ("runs gc --older-than soon", 2, "'soon' was given; write a number and s, m, h, d or w"),
    ("resume", 2, "not paused; there is nothing to resume"),
    ("pause extra", 2, "unexpected extra argument"),
    ("cancel --acknowledge T9", 2, "task T9: the plan has no such step; it has T1, T2, T3"),
]
ON_THE_COMMAND_LINE = [
    (["frobnicate"], 2, "there is no command 'frobnicate'"),
    (["stauts", "r1"], 2, "did you mean status?"),
    ([""], 2, "there is no command ''"),
    (["status"], 2, "RUN is missing; usage: fsm-agent status RUN"),
    (["status", "r9"], 9, "r9"),
    (["status", "r1", "r2"], 2, "unexpected extra argument"),
    (["status", "r1", "--at", "x"], 2, "'x' is not a valid integer"),
    (["status", "r1", "--store", "nowhere.db"], 9, "nowhere.db"),
    (["status", "r1", "--store", "desk/plan.json"], 3, "desk/plan.json"),
    (["status", "r1", "--store", "x" * 300], 3, "it cannot be looked at (File name too long)"),
    (["status", "r1", "--store", "sqlite:///runs.db"], 3, "sqlite:///runs.db: it is a URL"),
    (["events", "r1", "--since", "x"], 2, "--since: 'x' is not a valid integer; see"),
    (["report", "r1", "-o", "."], 3, "report to .: "),
    (["report", "r1", "-o", "desk"], 3, "report to desk: "),
    (["export", "r1", "-o", "."], 3, "export to .: "),
    (["export", "r1", "--format", "ocel", "-o", "desk"], 3, "export to desk: "),
    (["run", "desk", "--operator", "nowhere.json"], 9, "nowhere.json: there is no such file; check the path"),
    (["run", "desk", "--operator", "desk/tools.py"], 3, "an operator is a JSON list of reactions"),
    (["why", "nowhere.jsonl"], 9, "nowhere.jsonl"),
    (["approve", "r1", "T3"], 2, "--digest HEX8 is missing"),
    (["approve", "r1", "T3", "--digest", "00000000"], 2, "states digest '00000000'"),
    (["answer", "r1", "T3", "{"], 2, "is no JSON"),
    (["wait", "r1", "--for", "done"], 2, "write state=S"),
    (["wait", "r1", "--timeout", "-1"], 2, "--timeout"),
    (["run", "desk", "--workers", "0"], 2, "--workers"),
    (["run", "desk", "--input", "guests=1"], 2, "did you mean guest?"),
    (["run", "desk", "--rules", "defualt"], 9, "defualt"),
    (["run", "desk", "--param", "retries=many"], 2, "a threshold is a number"),
    (["run", "desk", "--run-id", ""], 2, "run"),
    (["run", "desk", "--run-id", "r1"], 8, "the id is taken"),
    (["resume", "r9"], 9, "r9"),
    (["repl", "nowhere"], 9, "nowhere"),
    (["repl", "r1", "-c", "status", "-f", "x"], 2, "-c and -f were both given"),
    (["repl", "-f", "nowhere.fsm"], 9, "script nowhere.fsm"),
    (["repl", "r1", "-c", "note 'open"], 2, "the quote at character 6 is not closed"),
    (["config", "show", "--origins"], 2, "did you mean --origin?"),
    (["completion", "tcsh"], 2, "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
    (["graph", "r9"], 9, "r9"),
    (["inbox", "r1"], 2, "unexpected extra argument"),
    (["inbox", "--store", "nowhere.db"], 9, "nowhere.db"),
]


def names(cases):
    return [str(words if isinstance(words, str) else " ".join(words))[:40] for words, _, _ in cases]


@pytest.fixture
def standing(cli, waiting):
    """Whatever can be compared afterwards."""

    def state():
        status = cli.json("status", "r1")[1]
        status.pop("head")
        return status, cli.runs(), cli.ledger

    before = state()
    yield before
    assert state() == before


def helpful(shown, code, words):
    """Assert one helpful line and the exit code."""
    assert shown.code == code, shown.err
    lines = shown.err.splitlines()
    assert len(lines) == 1, shown.err
    assert lines[0].startswith("E-")
    assert words in lines[0]
    assert len(lines[0]) < 1000
    assert "\x1b" not in shown.err
    assert "E-INTERNAL" not in shown.err


@pytest.mark.parametrize(("line", "code", "words"), AT_PROMPT, ids=names(AT_PROMPT))
def test_a_wrong_line_at_the_prompt_gets_one_helpful_line_and_changes_nothing(
    cli, standing, line, code, words
):
    helpful(cli("repl", "r1", "-q", "-f", "-", stdin=line + "\n"), code, words)


@pytest.mark.parametrize(("words", "code", "said"), ON_THE_COMMAND_LINE, ids=names(ON_THE_COMMAND_LINE))
def test_wrong_words_on_the_command_line_get_one_helpful_line_and_change_nothing(
    cli, standing, words, code, said
):
    helpful(cli(*words), code, said)


def test_there_are_enough_of_them():
    assert len(AT_PROMPT) + len(ON_THE_COMMAND_LINE) >= 100
