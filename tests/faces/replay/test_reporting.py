"""``report`` at the command line: from a store, a file or a report; what it wrote is taken wherever a log is."""


def test_a_report_of_a_run_is_written_and_audits_as_the_log_does(cli, waiting):
    code, found = cli.json("report", "r1", "-o", "run.html")
    assert (code, found["schema"], found["verdict"]) == (0, "fsm-agent/report@1", "open")
    assert found["bytes"] == (cli.path / "run.html").stat().st_size
    code, audited = cli.json("audit", "run.html")
    assert (code, audited["verdict"], audited["head"]) == (0, "open", found["head"])
    assert cli("replay", "run.html", "--until", "4").code == 0
    assert cli("what-if", "run.html", "--rules", "conservative").code == 0
    assert cli("import", "run.html", "--store", "other.db").code == 0
    shown = cli("report", "run.html", "-o", "again.html")
    assert "report of run r1 written to again.html" in shown.out
    assert "audit: open" in shown.out


def test_logs_come_from_standard_input_as_well(cli, waiting):
    cli("export", "r1", "-o", "r1.jsonl")
    cli("report", "r1.jsonl", "-o", "run.html")
    for name in ("r1.jsonl", "run.html"):
        data = (cli.path / name).read_bytes()
        assert cli("replay", "-", "--until", "4", stdin=data).out == cli("replay", name, "--until", "4").out
        assert cli("report", "-", "-o", "again.html", stdin=data).code == 0
        assert (cli.path / "again.html").read_bytes() == (cli.path / "run.html").read_bytes()
    assert cli("what-if", "-", "--rules", "conservative", stdin=data).code == 0


def test_a_report_says_against_which_head_the_log_was_held(cli, waiting):
    assert cli("report", "r1", "-o", "run.html").code == 0
    assert b"against the head kept outside" in (cli.path / "run.html").read_bytes()
    assert cli("export", "r1", "-o", "r1.jsonl").code == 0
    assert cli("report", "r1.jsonl", "-o", "file.html").code == 0
    assert b"by the chain alone" in (cli.path / "file.html").read_bytes()


def test_what_cannot_be_reported_is_said_in_a_line_and_nothing_is_written(cli, waiting):
    cli("export", "r1", "-o", "r1.jsonl")
    lines = (cli.path / "r1.jsonl").read_bytes().splitlines(keepends=True)
    (cli.path / "cut.jsonl").write_bytes(b"".join([*lines[:3], *lines[4:]]))
    (cli.path / "no.html").write_bytes(b"<!doctype html>\n<p>hello</p>")
    for words, code in (
        (["report", "nope", "-o", "x.html"], 9),
        (["report", "nope.jsonl", "-o", "x.html"], 9),
        (["report", "cut.jsonl", "-o", "x.html"], 7),
        (["report", "no.html", "-o", "x.html"], 7),
        (["report", "r1", "-o", "nowhere/x.html"], 3),
        (["report", "r1"], 2),
    ):
        shown = cli(*words)
        assert (shown.code, len(shown.err.splitlines())) == (code, 1), shown
    assert not (cli.path / "x.html").exists()
