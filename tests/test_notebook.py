"""The example notebook shows what its cells show today, whether or not Jupyter is there."""

import json
import re

import pytest

from tests.test_readme import tool

notebook = tool("notebook")


def shown(cell):
    """Return what a cell shows, whatever line of its table a row stands on."""
    return re.sub(r"\(default:\d+\)", "(default)", json.dumps(cell.get("outputs"), sort_keys=True))


@pytest.fixture
def document():
    return json.loads(notebook.NOTEBOOK.read_text(encoding="utf-8"))


def test_the_cells_show_what_the_notebook_says(document):
    today = notebook.carried_out(document)
    for was, now in zip(document["cells"], today["cells"], strict=True):
        assert shown(was) == shown(now), "python tools/notebook.py"


def test_the_format_is_one_that_jupyter_reads(document):
    assert (document["nbformat"], document["nbformat_minor"]) == (4, 5)
    assert len({cell["id"] for cell in document["cells"]}) == len(document["cells"])
    for cell in document["cells"]:
        assert cell["cell_type"] in ("code", "markdown")
        assert all(line.endswith("\n") for line in cell["source"][:-1])
    assert sum(bool(cell.get("outputs")) for cell in document["cells"]) >= 5


def test_an_output_that_is_out_of_date_is_found(document):
    stale = json.loads(json.dumps(document))
    shown = next(cell for cell in stale["cells"] if cell.get("outputs"))
    shown["outputs"][0] = {"name": "stdout", "output_type": "stream", "text": ["old\n"]}
    assert notebook.carried_out(stale)["cells"] != stale["cells"]
