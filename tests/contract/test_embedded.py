"""A log in a report is the log: packed and found again byte for byte, or refused with what is wrong."""

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core.errors import CorruptError
from fsm_agent.stores.embedded import is_report, pack, unpack
from fsm_agent.stores.transfer import read_log


def report(packed):
    return f'<!doctype html>\n<html><template id="fsm-agent-log" data-format="x">\n{packed}\n</template></html>'.encode()


@given(st.binary(max_size=5000))
def test_what_is_packed_is_found_again(log):
    assert unpack(report(pack(log))) == log
    assert pack(log) == pack(log)
    assert max(map(len, pack(log).splitlines())) <= 120


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"<!doctype html>\n<p>nothing</p>", "carries no log"),
        (report(pack(b"x")) + report(pack(b"x")), "carries 2 logs"),
        (report("AAAA"), "cannot be unpacked"),
        (report("A"), "cannot be unpacked"),
        (report(""), "is cut off"),
        (report(pack(b"x" * 500)[:-12] + "="), "unpacked|cut off"),
    ],
)
def test_what_carries_no_whole_log_is_refused(data, says):
    with pytest.raises(CorruptError, match=says):
        unpack(data)
    with pytest.raises(CorruptError, match=says):
        list(read_log(data))


def test_what_follows_the_log_in_the_same_letters_is_refused():
    import base64

    packed = base64.b64encode(gzip.compress(b"a") + b"more").decode()
    with pytest.raises(CorruptError, match="something follows"):
        unpack(report(packed))


def test_a_report_is_known_by_its_beginning():
    assert is_report(b"<!DOCTYPE html>")
    assert not is_report(b'{"at":1')


def test_a_report_file_is_read_as_its_log(tmp_path):
    line = b'{"$checkpoint":{}}\n{"at":1}\n'
    (tmp_path / "run.html").write_bytes(report(pack(line)))
    with pytest.raises(CorruptError, match="log line 2"):
        list(read_log(tmp_path / "run.html"))
    (tmp_path / "empty.jsonl").write_bytes(b"")
    with pytest.raises(CorruptError, match="the file is empty"):
        list(read_log(tmp_path / "empty.jsonl"))
