"""What the README shows is what the program does: its commands are printed for CI, its drawings are made anew.

``python tools/readme.py run|test`` prints the shell block that follows ``<!-- command: NAME -->``.
``python tools/readme.py write`` runs every command line that stands in ``<!-- generated: … -->`` and puts what it
prints between that line and ``<!-- end -->``; it needs the package installed.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
README = ROOT / "README.md"
CHINESE = ROOT / "README.zh-CN.md"
GENERATED = re.compile(r"(<!-- generated: (?P<words>[^\n]+?) -->\n).*?(<!-- end -->)", re.DOTALL)


def command(name: str) -> str:
    """Return the shell block of the README called *name*."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"<!-- command: {re.escape(name)} -->\s*```bash\n(.*?)```", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"README.md: it has no command called {name!r}")
    return found[1]


def snippet(heading: str) -> str:
    """Return the first Python block after the bold word *heading*."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"\*\*{re.escape(heading)}\*\*.*?```python\n(.*?)```", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"README.md: it has no Python block after {heading!r}")
    return found[1]


def current(text: str) -> str:
    """Return *text* with every generated block as its command prints it today."""
    return GENERATED.sub(lambda block: f"{block[1]}{_block(block['words'])}{block[3]}", text)


def _block(words: str) -> str:
    printed = _printed(words.split())
    language = "mermaid" if "mermaid" in words.split() else "text"
    return f"```{language}\n{printed}```\n"


def _printed(words: list[str]) -> str:
    """Return what the command line prints; it runs in this process."""
    import contextlib
    import io

    from fsm_agent.faces.cli import run

    with contextlib.redirect_stdout(io.StringIO()) as out:
        code = run(words)
    if code != 0:
        raise SystemExit(
            f"README.md: fsm-agent {' '.join(words)} ended with exit code {code}; mend its comment"
        )
    return out.getvalue()


def main(name: str) -> None:
    """Print the command *name*, or write what is generated."""
    if name != "write":
        print(command(name))
        return
    for page in (README, CHINESE):
        page.write_text(current(page.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    main(sys.argv[1])
