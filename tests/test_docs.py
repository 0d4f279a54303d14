"""What the pages show is what the program does: snippets are carried out, links lead somewhere, references are current."""

import re

import pytest

from fsm_agent.core.events import TYPES
from fsm_agent.core.rules.analysis import KINDS
from fsm_agent.core.signals import DOMAIN
from fsm_agent.faces.repl.conditions import MEANINGS, read
from tests.test_readme import ROOT, tool

pages = tool("pages")
DOCS = ROOT / "docs"
CARRIED_OUT = [DOCS / "tutorial.md", *sorted((DOCS / "howto").glob("*.md"))]
ALL = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "README.zh-CN.md"]


def names(paths):
    return [str(path.relative_to(ROOT)) for path in paths]


@pytest.mark.parametrize("page", CARRIED_OUT, ids=names(CARRIED_OUT))
def test_every_snippet_of_a_page_does_what_the_page_says(page, tmp_path):
    found = list(pages.blocks(page))
    assert sum(block.word == "run" for block in found) >= 2
    assert pages.carry_out(page, tmp_path) == []


@pytest.mark.parametrize(
    ("page", "wrong"),
    [
        ("```bash\ntrue\n```\n", "nothing says what this block is for"),
        ("<!-- skip: -->\n```bash\ntrue\n```\n", "nothing says what this block is for"),
        ("<!-- run -->\n```bash\nexit 3\n```\n", "it ended with exit code 3"),
        ("<!-- run: 3 -->\n```bash\ntrue\n```\n", "it ended with exit code 0"),
        ("<!-- run -->\n```python\nraise ValueError\n```\n", "it ended with exit code 1"),
        ("<!-- run -->\n```bash\necho one\n```\n<!-- shows -->\n```text\ntwo\n```\n", "'two' is not among"),
        (
            "<!-- run -->\n```bash\necho a b\n```\n<!-- shows -->\n```text\na ... c\n```\n",
            "'a ... c' is not among",
        ),
    ],
)
def test_a_page_that_is_wrong_is_found_out(page, wrong, tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(page)
    (tmp_path / "work").mkdir()
    (fault,) = pages.carry_out(tmp_path / "page.md", tmp_path / "work")
    assert fault.startswith("page.md:1: ") or re.match(r"page\.md:\d+: ", fault)
    assert wrong in fault


def test_files_and_lines_with_gaps_are_understood(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    (tmp_path / "page.md").write_text(
        "<!-- file: a/b.txt -->\n```json\n{}\n```\n<!-- skip: too dear -->\n```bash\nexit 1\n```\n"
        "<!-- run -->\n```bash\ncat a/b.txt; echo one two three\n```\n<!-- shows -->\n```text\n{}\none ... three\n```\n"
    )
    (tmp_path / "work").mkdir()
    assert pages.carry_out(tmp_path / "page.md", tmp_path / "work") == []


@pytest.mark.parametrize("page", ALL, ids=names(ALL))
def test_every_link_leads_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = [link for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link and link[0] != "#"]
    assert [link for link in links if not (page.parent / link.partition("#")[0]).exists()] == []


def test_every_page_can_be_come_to():
    text = "".join(page.read_text(encoding="utf-8") for page in ALL)
    assert [page.name for page in DOCS.rglob("*.md") if f"{page.name})" not in text] == []


# ── the reference ─────────────────────────────────────────────────────────────────────────────────────────────


def test_the_reference_of_commands_is_current():
    commands = tool("commands")
    assert commands.PAGE.read_text(encoding="utf-8") == commands.page(), "python tools/commands.py"


def test_the_reference_of_rules_is_current_and_says_what_every_fact_means():
    rulebook = tool("rulebook")
    assert rulebook.PAGE.read_text(encoding="utf-8") == rulebook.page(), "python tools/rulebook.py"
    assert set(rulebook.FACTS) == set(DOMAIN)
    assert set(rulebook.FINDINGS) == set(KINDS)


def test_the_reference_of_events_has_every_type():
    text = (DOCS / "events.md").read_text(encoding="utf-8")
    rows = {
        name
        for cell in re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE)
        for name in re.findall(r"`(\w+)`", cell)
    }
    assert set(TYPES) <= rows


def test_every_form_of_a_break_point_that_is_listed_is_one():
    forms = [
        form.replace("STATE", "done").replace("NAME<N", "tokens<20%").replace("signal=NAME", "signal=success")
        for form, _ in MEANINGS
    ]
    for form in forms:
        assert read(form.replace("NAME", "retry"), {"T6"}).text


# ── in Chinese ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("page", "own"), [("docs/tutorial.md", "docs/tutorial.zh-CN.md"), ("README.md", "README.zh-CN.md")]
)
def test_a_page_in_chinese_has_the_same_snippets(page, own):
    """So what is tested of the one holds for the other."""
    a, b = ([block[1:] for block in pages.blocks(ROOT / name)] for name in (page, own))
    assert b == a


@pytest.mark.parametrize("own", ["docs/tutorial.zh-CN.md", "README.zh-CN.md"])
def test_a_page_in_chinese_is_in_chinese(own):
    text = (ROOT / own).read_text(encoding="utf-8")
    prose = re.sub(r"```.*?```|<!--.*?-->|`[^`]*`|\([^)]*\)", "", text, flags=re.DOTALL)
    chinese = len(re.findall(r"[\u4e00-\u9fff]", prose))
    latin = len(re.findall(r"[A-Za-z]+", prose))
    assert chinese > 5 * latin
