"""Print a command of the README, so that what CI runs is what a newcomer types.

``python tools/readme.py run|test`` prints the shell block that follows ``<!-- command: NAME -->``.
"""

import re
import sys
from pathlib import Path

README = Path(__file__).resolve().parent.parent / "README.md"


def command(name: str) -> str:
    """Return the shell block of the README called *name*."""
    text = README.read_text(encoding="utf-8")
    found = re.search(rf"<!-- command: {re.escape(name)} -->\s*```bash\n(.*?)```", text, re.DOTALL)
    if found is None:
        raise SystemExit(f"README.md: it has no command called {name!r}")
    return found[1]


if __name__ == "__main__":
    print(command(sys.argv[1]))
