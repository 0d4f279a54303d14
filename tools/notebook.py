"""The example notebook, carried out as Jupyter would, inside a running loop, without Jupyter.

``python tools/notebook.py`` carries ``examples/notebook.ipynb`` out and writes what its cells show into it.
"""

import ast
import asyncio
import contextlib
import inspect
import io
import json
import os
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
NOTEBOOK = ROOT / "examples" / "notebook.ipynb"


async def _cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Carry a cell out; return its outputs as the format has them."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    shown: Any = None
    with contextlib.redirect_stdout(io.StringIO()) as out:
        await _eval(compile(tree, "<cell>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
        if last is not None:
            code = compile(ast.Expression(last.value), "<cell>", "eval", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            shown = await _eval(code, names)
    outputs: list[dict[str, Any]] = []
    if out.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": _lines(out.getvalue())})
    if shown is not None:
        data = {"text/plain": _lines(repr(shown))}
        if hasattr(shown, "_repr_html_"):
            data["text/html"] = _lines(shown._repr_html_())
        outputs.append(
            {"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"}
        )
    return outputs


async def _eval(code: Any, names: dict[str, Any]) -> Any:
    found = eval(code, names)  # noqa: S307 - a cell is a program
    return await found if inspect.isawaitable(found) else found


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def carried_out(notebook: dict[str, Any]) -> dict[str, Any]:
    """Return *notebook* with what its cells show today; they run in a directory of their own."""

    async def run() -> list[dict[str, Any]]:
        names: dict[str, Any] = {"__name__": "__main__"}
        cells = []
        for cell in notebook["cells"]:
            if cell["cell_type"] != "code":
                cells.append(cell)
                continue
            cells.append({**cell, "outputs": await _cell("".join(cell["source"]), names)})
        return cells

    here = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return {**notebook, "cells": asyncio.run(run())}
        finally:
            os.chdir(here)


def text(notebook: dict[str, Any]) -> str:
    """Return the file of *notebook*."""
    return json.dumps(notebook, ensure_ascii=False, indent=1, sort_keys=True) + "\n"


if __name__ == "__main__":
    NOTEBOOK.write_text(text(carried_out(json.loads(NOTEBOOK.read_text(encoding="utf-8")))), encoding="utf-8")
