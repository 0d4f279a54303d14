"""The tools of the research plan: they read the Markdown files of a folder, and write one report."""

import re
from pathlib import Path
from typing import Any

from fsm_agent import CallContext, Reconciled, Toolbox, ToolError

MOST_FILES = 500
MOST_BYTES = 1_000_000
"""Larger files are passed over."""

tools = Toolbox()


@tools.read
def search(folder: str, deep: bool = False) -> dict[str, Any]:
    """List the Markdown files of a folder; with deep=true those of the folders in it too."""
    place = Path(folder)
    if not place.is_dir():
        raise ToolError("not_found", f"there is no folder {folder}", applied="no")
    found = sorted(place.rglob("*.md") if deep else place.glob("*.md"))
    files = [str(file) for file in found if file.is_file() and file.stat().st_size <= MOST_BYTES]
    return {"files": files[:MOST_FILES], "left_out": len(found) - len(files[:MOST_FILES])}


@tools.read
def extract(files: list[str], subject: str) -> dict[str, Any]:
    """Return every line of the files that says something about the subject, with its file and line."""
    word = re.compile(rf"\b{re.escape(subject)}s?\b", re.IGNORECASE)
    points = []
    for name in files:
        for number, line in enumerate(Path(name).read_text(encoding="utf-8").splitlines(), 1):
            text = line.strip().removeprefix("- ").strip()
            if word.search(text) and not text.startswith("#"):
                points.append({"text": text, "source": f"{name}:{number}"})
    if not points:
        raise ToolError("not_found", f"nothing about {subject} in {len(files)} files", applied="no")
    return {"subject": subject, "points": points}


@tools.read
def synthesize(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """Set two extracts side by side, as Markdown; every point keeps its source."""
    lines = [f"# {a['subject'].capitalize()} and {b['subject']}"]
    for side in (a, b):
        lines += ["", f"## {side['subject'].capitalize()}", ""]
        lines += [f"- {point['text']} ({point['source']})" for point in side["points"]]
    return {"text": "\n".join(lines) + "\n"}


def mark(key: str) -> str:
    """Return the last line of a report: by it the effect is found again."""
    return f"<!-- written under {key} -->\n"


@tools.write(timeout_s=10, settle_s=0.2)
def write_report(path: str, text: str, *, ctx: CallContext) -> dict[str, Any]:
    """Write the report: whole, or not at all."""
    file = Path(path)
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_name(f".{file.name}.{ctx.idempotency_key}.part")
    data = (text + mark(ctx.idempotency_key)).encode()
    part.write_bytes(data)
    part.replace(file)
    return {"path": path, "bytes": len(data)}


@write_report.reconcile
def find_report(path: str, text: str, *, ctx: CallContext) -> Reconciled:
    """See whether the file is there and carries the mark of exactly this call."""
    file = Path(path)
    data = file.read_bytes() if file.is_file() else b""
    if data.endswith(mark(ctx.idempotency_key).encode()):
        return Reconciled.applied({"path": path, "bytes": len(data)})
    return Reconciled.absent(f"{path} does not carry the mark of this call")
