"""The one loader of the shipped configuration."""

import shutil
import subprocess
import sys
import time
import tomllib
import zipfile
from pathlib import Path

import pytest

from fsm_agent.core.errors import ConfigError, NotFoundError, RulesError
from fsm_agent.runtime import configs
from fsm_agent.runtime.checking import check_rules
from fsm_agent.runtime.classifying import load_classifier

ROOT = Path(__file__).resolve().parents[2]


def test_every_shipped_table_loads_and_knows_where_its_rows_are():
    assert "default" in configs.rule_names()
    for name in configs.rule_names():
        table = configs.load_rules(name)
        assert table.name == name
        for row in table.rows:
            text = configs.rules_file(row.source).read_text(encoding="utf-8").splitlines()
            assert text[row.line - 1] == "[[row]]"
            assert text[row.line] == f'id = "{row.id}"'


def test_params_of_the_caller_go_first():
    assert configs.load_rules("default", {"retries": 1}).initial["retries_left"] == 1


def test_shipped_documents_are_found_by_name():
    assert configs.read_toml("rules/default")["schema"] == 1
    assert (configs.config_dir() / "rules" / "default.toml").is_file()


@pytest.mark.parametrize(
    "name", ["clasify", "../pyproject", "/etc/passwd", "rules/../rules/default", "", "x" * 5000]
)
def test_no_other_file_is_reached_by_name(name):
    with pytest.raises(NotFoundError) as caught:
        configs.read_toml(name)
    assert len(str(caught.value)) < 400


def test_an_unknown_table_is_told_the_nearest_name():
    with pytest.raises(NotFoundError, match=r"did you mean default\?"):
        configs.load_rules("defualt")
    with pytest.raises(NotFoundError, match=r"or give a \.toml file"):
        configs.load_rules("zzz")
    with pytest.raises(NotFoundError, match="there is no such file"):
        configs.load_rules("zzz.toml")


def test_a_file_may_extend_a_shipped_table_or_a_file_beside_it(tmp_path):
    (tmp_path / "mine.toml").write_text(
        'schema = 1\nextends = "default"\n[params]\nretries = 1\n', encoding="utf-8"
    )
    (tmp_path / "more.toml").write_text(
        'schema = 1\nextends = "mine.toml"\n\n[[row]]\nid = "accept"\nstate = "done"\ndecide = "accept"\nwhy = "w"\n',
        encoding="utf-8",
    )
    table = configs.load_rules(tmp_path / "more.toml")
    assert table.name == "more"
    assert table.params["retries"] == 1
    by_id = {row.id: row for row in table.rows}
    assert by_id["accept"].where == "more:4"
    assert by_id["reconcile"].source == "default"
    assert len(by_id) == len(configs.load_rules("default").rows)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"a = = 1", "line 1"),
        (b"\xff\xfe", "no TOML"),
        (b"a = 1\na = 2", "no TOML"),
        (b"a = " + b"[" * 100_000, "nested too deeply"),
        (b"a = " + b"9" * 5000, "no TOML"),
        (b"# " + b"x" * (10 << 20), "longer than"),
        (b"a" + b".a" * 200_000 + b" = 1", "too many parts"),
        (b'"a"' + b'."a"' * 100_000 + b" = 1", "too many parts"),
        (b"[a" + b".a" * 200_000 + b"]", "too many parts"),
    ],
)
def test_what_is_no_toml_is_refused_with_its_place(tmp_path, data, found):
    path = tmp_path / "bad.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=found) as caught:
        configs.load_rules(path)
    assert "bad.toml" in str(caught.value)


@pytest.mark.parametrize(
    "data",
    [
        b"[[row]]\n" * 60_000,
        b"\n".join(b"k%d = 1" % n for n in range(40_000)),
        b"\n".join(b"[t%d.a.b.c.d.e]" % n for n in range(25_000)),
        b"row = [" + b"[]," * 120_000 + b"]",
        b'schema = 1\n[[row]]\nid = "' + b"x" * 500_000 + b'"',
        b"schema = 1\n[[row]]\n" + b"\n".join(b"k%d = 1" % n for n in range(40_000)),
        b"schema = 1\n[params]\n" + b"\n".join(b"k%d = 1" % n for n in range(40_000)),
        b'schema = 1\n[[row]]\nid = "a"\nwhen = {' + b",".join(b"k%d = 1" % n for n in range(40_000)) + b"}",
    ],
    ids=["rows", "keys", "sections", "lists", "text", "row-keys", "params", "conditions"],
)
def test_large_hostile_files_are_refused_in_bounded_time(tmp_path, data):
    path = tmp_path / "bad.toml"
    path.write_bytes(data)
    start = time.process_time()
    with pytest.raises((ConfigError, RulesError)) as caught:
        configs.load_rules(path)
    assert time.process_time() - start < 4 * (1 if sys.gettrace() is None else 10)
    assert len(str(caught.value)) < 1000


def test_dots_in_texts_and_comments_are_no_keys(tmp_path):
    path = tmp_path / "fine.toml"
    path.write_text(
        "schema = 1 # "
        + "." * 99
        + '\nextends = "default"\n[[row]]\nid = "accept"\nstate = "done"\ndecide = "accept"\n'
        + f'why = "so{"." * 99}"\n',
        encoding="utf-8",
    )
    assert configs.load_rules(path).name == "fine"


def test_a_folder_or_an_unreadable_file_is_refused(tmp_path):
    (tmp_path / "d.toml").mkdir()
    with pytest.raises(NotFoundError, match="no such file"):
        configs.load_rules(tmp_path / "d.toml")


def test_faults_of_a_table_name_file_and_line(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'schema = 1\nextends = "default"\n\n[[row]]\nid = "accept"\nstate = "dnoe"\ndecide = "accept"\nwhy = "w"\n',
        encoding="utf-8",
    )
    with pytest.raises(RulesError, match=r"row accept \(mine:4\): unknown state 'dnoe'; did you mean done\?"):
        configs.load_rules(path)


UNSOUND = 'schema = 1\nextends = "default"\n[[row]]\nid = "reconcile"\nstate = "unknown-result"\ndecide = "abort"\nwhy = "w"\n'


def test_an_unsound_table_does_not_load_but_can_be_looked_at(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(UNSOUND, encoding="utf-8")
    with pytest.raises(RulesError, match="table bad is not sound: ") as caught:
        configs.load_rules(path)
    assert {f.kind for f in caught.value.findings} >= {"law"}
    table, report = check_rules(path)
    assert table is not None
    assert table.name == "bad"
    assert report.findings == caught.value.findings


def test_a_table_with_one_finding_is_refused_without_counting_others(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text(
        'schema = 1\nextends = "default"\n[[row]]\nid = "x"\ntier = "default"\nstate = "done"\ndecide = "escalate"\nwhy = "w"\n',
        encoding="utf-8",
    )
    with pytest.raises(RulesError, match="never answers") as caught:
        configs.load_rules(path)
    assert len(caught.value.findings) == 1
    assert "more)" not in str(caught.value)


def test_what_is_no_table_is_reported_like_an_unsound_one(tmp_path):
    path = tmp_path / "bad.toml"
    path.write_text("schema = 1\n", encoding="utf-8")
    table, report = check_rules(path)
    assert table is None
    assert [f.kind for f in report.findings] == ["format"]
    assert check_rules("default")[1].sound


ASK = "from fsm_agent.runtime import configs; print(configs.config_dir()); print(configs.load_rules('default').digest)"


def asked(path, cwd):
    """What a fresh interpreter with *path* alone before its libraries finds, from another folder."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", ASK],
        cwd=cwd,
        env={"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=True,
    )
    folder, digest = done.stdout.split()
    return Path(folder), digest


def test_a_checkout_and_an_editable_install_find_the_same_tables(tmp_path):
    # an editable install is the checkout's own path, added by a .pth file
    assert asked(ROOT, tmp_path) == (ROOT / "configs", configs.load_rules("default").digest)


def test_the_layout_that_the_wheel_declares_finds_the_same_tables(tmp_path):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    site = tmp_path / "site"
    for package in wheel["packages"]:
        shutil.copytree(ROOT / package, site / package)
    for source, target in wheel["force-include"].items():
        shutil.copytree(ROOT / source, site / target)
    assert asked(site, tmp_path) == (site / "fsm_agent" / "_configs", configs.load_rules("default").digest)


def test_a_built_wheel_finds_the_same_tables(tmp_path):
    wheels = pytest.importorskip("hatchling.builders.wheel")
    copy = tmp_path / "copy"
    for name in ("fsm_agent", "configs"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, copy / name)
    (copy / "README.md").write_text("fsm_agent", encoding="utf-8")
    (built,) = wheels.WheelBuilder(str(copy)).build(directory=str(tmp_path / "dist"))
    site = tmp_path / "site"
    with zipfile.ZipFile(built) as archive:
        archive.extractall(site)
    assert asked(site, tmp_path) == (site / "fsm_agent" / "_configs", configs.load_rules("default").digest)


def test_an_installation_without_its_tables_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(configs, "__file__", str(tmp_path / "fsm_agent" / "runtime" / "configs.py"))
    with pytest.raises(ConfigError, match="install the package again"):
        configs.config_dir()


def test_an_unreadable_file_is_refused_with_the_systems_reason(tmp_path):
    path = tmp_path / "gone.toml"
    path.write_text("schema = 1\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="it cannot be read"):
        configs._parse(path / "below.toml")


def test_the_shipped_classifier_loads():
    assert load_classifier() is not None


AGAIN = {
    "id": "retry-once",
    "state": "failed",
    "signal": ["unclassified_error", "unverified"],
    "when": {"effect": "read", "signal_count": "<=2", "retries_left": ">=1"},
    "decide": "retry",
    "why": "two more reads harm nothing",
}


def test_a_row_of_ones_own_takes_the_place_of_the_tables_row_of_its_id():
    table = configs.load_rules("default", {"retries": 2}, [AGAIN])
    shipped = configs.load_rules("default")
    assert [row.id for row in table.rows].count("retry-once") == 1
    assert len(table.rows) == len(shipped.rows)
    assert next(row for row in table.rows if row.id == "retry-once").why == AGAIN["why"]
    assert (table.name, table.params["retries"]) == ("own", 2)


@pytest.mark.parametrize(
    "row",
    [
        {**AGAIN, "id": "twice"},  # beside the table's own row both would answer
        {**AGAIN, "decide": "no such decision"},
        {**AGAIN, "state": "unknown-result", "signal": "outcome_unknown"},  # a law: it may have happened
    ],
)
def test_rows_of_ones_own_that_make_no_sound_table_are_refused(row):
    with pytest.raises(RulesError):
        configs.load_rules("default", {}, [row])
