"""The one loader of the shipped configuration."""

import pytest

from fsm_agent.core.errors import ConfigError, NotFoundError, RulesError
from fsm_agent.runtime import configs


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
    ],
)
def test_what_is_no_toml_is_refused_with_its_place(tmp_path, data, found):
    path = tmp_path / "bad.toml"
    path.write_bytes(data)
    with pytest.raises(ConfigError, match=found) as caught:
        configs.load_rules(path)
    assert "bad.toml" in str(caught.value)


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


def test_the_shipped_classifier_loads():
    assert configs.load_classifier() is not None
