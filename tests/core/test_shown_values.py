"""What an audit and an explanation look like at a prompt and in a notebook: one line, or a table with everything escaped."""

import xml.etree.ElementTree as ET

from fsm_agent.core.audit.answers import Explained, Link, Why
from fsm_agent.core.audit.audit import Audit
from fsm_agent.core.audit.checker import Finding
from fsm_agent.core.events import Head

EVIL = "<script>alert('x')</script> & more"
HEAD = Head(3, b"\0" * 32)


def why(**more):
    return Why(
        **{
            "run": "r1",
            "subject": "T6",
            "state": "failed",
            "reason": EVIL,
            "waits": "",
            "commands": (),
            "decision": None,
            "chain": (),
            **more,
        }
    )


def decision():
    return Explained(
        seq=2,
        at=1,
        task="T6",
        state="failed",
        signal="not_found",
        decide="escalate",
        rule="nobody-plans",
        where="default:12",
        why="w",
        reason=EVIL,
        facts={},
        near=(),
        otherwise=(),
    )


def table(html):
    """Return the texts of an HTML fragment that must be well-formed, and its tags."""
    root = ET.fromstring(f"<div>{html}</div>")
    return ["".join(e.itertext()) for e in root.iter("td")], {e.tag for e in root.iter()}


def test_an_explanation_is_one_line():
    assert repr(why()) == "<why T6 of run r1: failed>"
    assert repr(why(decision=decision())) == "<why T6 of run r1: failed, escalate by row nobody-plans>"


def test_an_explanation_is_a_table_with_everything_escaped():
    shown = why(decision=decision(), waits="a person", chain=(Link(seq=1, words=EVIL),))
    cells, tags = table(shown._repr_html_())
    assert cells == [
        "failed",
        EVIL,
        "a person",
        "escalate by row nobody-plans (default:12)",
        EVIL,
        f"1: {EVIL}",
    ]
    assert tags == {"div", "p", "table", "tr", "th", "td"}
    assert table(why(reason="")._repr_html_())[0] == ["failed"]


def test_an_audit_is_one_line_and_its_findings_are_a_table():
    clean = Audit(run="r1", verdict="clean", events=3, transitions=1, decisions=1, findings=(), head=HEAD)
    assert repr(clean) == "<audit of run r1: clean, 3 events, 0 findings>"
    assert table(clean._repr_html_()) == ([], {"div", "p"})
    found = Audit(
        run="r1",
        verdict="violations",
        events=3,
        transitions=1,
        decisions=1,
        findings=(Finding(seq=2, check="chain", rule="A1", message=EVIL),),
        head=HEAD,
    )
    assert table(found._repr_html_())[0] == ["2", "chain", EVIL]
