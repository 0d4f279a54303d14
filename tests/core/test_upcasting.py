"""Old events are read as new ones, and their bytes stay what was hashed: an old log is folded, audited and exported."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fsm_agent.core import upcasting
from fsm_agent.core.audit.audit import audit
from fsm_agent.core.audit.replay import replay
from fsm_agent.core.engine.decide import state_digest
from fsm_agent.core.errors import CorruptError
from fsm_agent.core.events import Record, chain, from_body, genesis, is_canonical, to_body
from fsm_agent.core.upcasting import Upcasters
from tests.core.kit import lab


def renamed(old, new):
    """What a change of shape does that calls *old* by the name *new* from now on."""

    def up(data):
        return {new if name == old else name: what for name, what in data.items()}

    return up


def split(data):
    """A second change: the text of a note is a list of lines."""
    return {**data, "text": data["text"].split("\n")} if isinstance(data["text"], str) else dict(data)


THREE = Upcasters({("note_added", 1): renamed("words", "text"), ("note_added", 2): split})


@pytest.fixture
def later(monkeypatch):
    """A later release, in which decisions were called otherwise once: ``choice`` is ``decide`` from version 2 on."""
    rows = {("decided", 1): renamed("choice", "decide"), ("decided", 2): renamed("row", "rule")}
    monkeypatch.setattr(upcasting, "UPCASTERS", Upcasters(rows))


def log():
    with lab([{"id": "a", "tool": "look"}]) as it:
        it.fails("a")
        it.until_due()
        it.returns("a", 1)
    return it


IT = log()
BODIES = [r.body for r in IT.records]


def rehashed(bodies):
    previous, out = genesis("r").hash, []
    for seq, body in enumerate(bodies, 1):
        previous = chain(previous, body)
        out.append(Record(seq, body, previous))
    return out


def as_written_before(body, version=1):
    """The body as an earlier release would have written it."""
    raw = orjson.loads(body)
    if raw["type"] == "decided":
        names = {"decide": "choice", "rule": "row"} if version == 1 else {"rule": "row"}
        raw["data"] = {names.get(name, name): what for name, what in raw["data"].items()}
        raw["v"] = version
    return orjson.dumps(raw, option=orjson.OPT_SORT_KEYS)


def test_a_log_of_an_older_release_is_folded_and_audited_like_one_of_this(later):
    for version in (1, 2):
        old = rehashed([as_written_before(body, version) for body in BODIES])
        assert state_digest(replay("r", old, IT.store.blob)) == state_digest(IT.run)
        found = audit("r", old, IT.store.blob)
        assert (found.verdict, found.findings) == ("clean", ())
        assert [r.body for r in old] != BODIES


def test_what_is_written_now_is_of_the_latest_version_and_both_stand_in_one_log(later):
    old = [as_written_before(body) for body in BODIES[:6]]
    new = [to_body(from_body(as_written_before(body))) for body in BODIES[6:]]
    versions = {orjson.loads(body)["v"] for body in (*old, *new) if b'"decided"' in body}
    assert versions == {1, 3}
    assert audit("r", rehashed([*old, *new]), IT.store.blob).verdict == "clean"


def test_an_old_event_that_is_not_canonical_is_found_as_such(later):
    body = next(as_written_before(b) for b in BODIES if b'"decided"' in b)
    event = from_body(body)
    assert is_canonical(event, body)
    assert not is_canonical(event, body.replace(b'"v":1', b'"v": 1'))
    assert not is_canonical(event, body.replace(b'"v":1', b'"v":1,"v":1'))
    assert not is_canonical(from_body(BODIES[0]), BODIES[0] + b" ")


@pytest.mark.parametrize("version", [4, 0, -1, True, "1", None, 1.0])
def test_a_version_that_there_is_not_is_refused(later, version):
    raw = orjson.loads(next(b for b in BODIES if b'"decided"' in b))
    body = orjson.dumps({**raw, "v": version}, option=orjson.OPT_SORT_KEYS)
    with pytest.raises(CorruptError, match="this program reads versions 1 to 3"):
        from_body(body)


def test_an_old_event_that_lacks_what_its_version_had_is_no_event(monkeypatch):
    monkeypatch.setattr(upcasting, "UPCASTERS", THREE)
    body = b'{"at":1,"data":{},"seq":1,"type":"note_added","v":2}'
    with pytest.raises(CorruptError, match="the stored bytes are no event"):
        from_body(body)


@given(st.text(), st.sampled_from([1, 2, 3]))
def test_every_version_says_the_same_once_it_is_read(text, version):
    written = {1: {"words": text}, 2: {"text": text}, 3: {"text": text.split("\n")}}[version]
    before = dict(written)
    assert THREE.up("note_added", version, written) == {"text": text.split("\n")}
    assert written == before


def test_rows_without_a_gap_are_asked_for():
    for rows in ({("a", 2): split}, {("a", 1): split, ("a", 3): split}, {("a", 0): split}):
        with pytest.raises(ValueError, match=r"upcasters of a: version [12] has no row"):
            Upcasters(rows)
    assert (THREE.version_of("note_added"), THREE.version_of("decided")) == (3, 1)


def test_the_shipped_rows_are_about_types_that_there_are():
    from fsm_agent.core.events import TYPES

    assert {type_ for type_, _ in upcasting.UPCASTERS.rows} <= set(TYPES)
