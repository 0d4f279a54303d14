"""Anchored heads: whole or not there, forward only, one file or one per run."""

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import CorruptError, StoreError, StoreUnusableError
from fsm_agent.core.events import Head
from fsm_agent.stores.anchors import read_anchor, write_anchor

RUN_IDS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20)


def head(seq, fill=0):
    return Head(seq, bytes([fill]) * 32)


@pytest.mark.parametrize("inside", ["heads.jsonl", "new/dir/heads.jsonl", "own/"])
def test_an_anchor_is_read_back_as_it_was_written(tmp_path, inside):
    place = f"{tmp_path}/{inside}"
    assert read_anchor(place, "r") is None
    for seq in (1, 5, 5, 9):
        write_anchor(place, "r", head(seq, seq))
        assert read_anchor(place, "r") == head(seq, seq)
    write_anchor(place, "a/../报销", head(3))
    assert (read_anchor(place, "a/../报销"), read_anchor(place, "r")) == (head(3), head(9, 9))
    assert read_anchor(place, "other") is None


def test_the_format_is_one_json_object_per_run(tmp_path):
    write_anchor(tmp_path / "heads", "b", head(2, 0xAB))
    write_anchor(tmp_path / "heads", "a", head(1))
    found = [json.loads(line) for line in (tmp_path / "heads").read_text().splitlines()]
    assert found == [{"run": "b", "seq": 2, "hash": "ab" * 32}, {"run": "a", "seq": 1, "hash": "00" * 32}]
    (tmp_path / "own").mkdir()
    write_anchor(tmp_path / "own", "a", head(1))
    assert [path.name for path in (tmp_path / "own").iterdir()] == ["a.anchor.json"]


def test_an_anchor_does_not_move_back_or_aside(tmp_path):
    write_anchor(tmp_path / "heads", "r", head(5))
    for wrong in (head(4), head(0), head(5, 1)):
        with pytest.raises(CorruptError, match="stands at seq 5"):
            write_anchor(tmp_path / "heads", "r", wrong)
    assert read_anchor(tmp_path / "heads", "r") == head(5)


@given(st.dictionaries(RUN_IDS, st.integers(0, 2**40), max_size=4))
def test_anchors_of_many_runs_do_not_touch_each_other(tmp_path_factory, runs):
    for place in (tmp_path_factory.mktemp("anchors") / "heads", tmp_path_factory.mktemp("anchors")):
        for run, seq in runs.items():
            write_anchor(place, run, head(seq))
        assert {run: read_anchor(place, run) for run in runs} == {run: head(seq) for run, seq in runs.items()}


def test_threads_that_write_to_one_file_lose_nothing(tmp_path):
    def write(run):
        for seq in range(8):
            write_anchor(tmp_path / "heads", run, head(seq))

    threads = [threading.Thread(target=write, args=(f"r{n}",)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [read_anchor(tmp_path / "heads", f"r{n}") for n in range(4)] == [head(7)] * 4
    assert [path.name for path in tmp_path.iterdir()] == ["heads"]


@pytest.mark.parametrize(
    "text",
    ["x", "[]", "{}", '{"run":1,"seq":1,"hash":"00"}', '{"run":"r","seq":1,"hash":"00"}', "\0", '{"run":"r"'],
)
def test_a_file_that_holds_no_anchors_is_corrupt_and_stays(tmp_path, text):
    (tmp_path / "heads").write_text(text)
    with pytest.raises(CorruptError, match="line 1"):
        read_anchor(tmp_path / "heads", "r")
    with pytest.raises(CorruptError, match="line 1"):
        write_anchor(tmp_path / "heads", "r", head(1))
    assert (tmp_path / "heads").read_text() == text


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path):
    for place in ("/proc/fsm/heads", "/dev/null/heads"):
        with pytest.raises(StoreError, match="anchor /"):
            write_anchor(place, "r", head(1))


def unreadable(place):
    """Places at which nothing can be read, whoever asks."""
    (place / "file").write_text("x")
    yield str(place / "file" / "below") + "/"
    (place / "loop").symlink_to(place / "loop")
    yield str(place / "loop") + "/"
    (place / "heads" / "r.anchor.json").mkdir(parents=True)
    yield str(place / "heads") + "/"


def test_a_place_that_cannot_be_read_is_a_clear_error_and_no_head(tmp_path):
    """Without the head nobody can say whether a log has lost its end, so nobody goes on as if it had not."""
    for place in unreadable(tmp_path):
        with pytest.raises(StoreUnusableError, match="cannot be read"):
            read_anchor(place, "r")
        with pytest.raises(StoreError, match="anchor"):
            write_anchor(place, "r", head(1))
