"""The list of checks in ``docs/audit.md``, made from the checks themselves.

``python tools/checks.py`` writes it between the lines ``<!-- checks -->`` and ``<!-- end of checks -->``.
"""

import re
from pathlib import Path

from fsm_agent.core.audit.check import BATCH, GROUPS, LOG, Check
from fsm_agent.core.audit.checks import CHECKS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "audit.md"
BLOCK = re.compile(r"(<!-- checks -->\n).*?(<!-- end of checks -->)", re.DOTALL)


def looked_at(check: Check) -> str:
    """Return in words what a check looks at."""
    if check.on == LOG:
        return "the log, once"
    if check.on == BATCH:
        return "every batch"
    return "every event" if "*" in check.on else ", ".join(f"`{kind}`" for kind in check.on)


def listed() -> str:
    """Return the list: a table per group."""
    lines = []
    for group, words in GROUPS.items():
        lines += [f"**{group}: {words}**", "", "| | check | demands | looks at |", "|---|---|---|---|"]
        lines += [
            f"| {c.rule} | `{c.id}` | {c.says} | {looked_at(c)} |"
            for c in CHECKS.values()
            if c.rule[0] == group
        ]
        lines.append("")
    return "\n".join(lines)


def current(text: str) -> str:
    """Return *text* with the list as it is today."""
    return BLOCK.sub(lambda block: f"{block[1]}\n{listed()}{block[2]}", text)


if __name__ == "__main__":
    PAGE.write_text(current(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
