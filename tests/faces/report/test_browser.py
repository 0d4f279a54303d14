"""A report in a real browser: its styles count, its policy is heeded, and a script that somebody puts into it does not run."""

import os
import shutil
import subprocess

import pytest

from tests.core.kit import lab
from tests.faces.report.test_report import of

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")


def shown(page, tmp_path):
    """What the browser makes of a page, and what it complains about."""
    (tmp_path / "page.html").write_bytes(page)
    words = [
        BROWSER,
        "--headless",
        "--disable-gpu",
        "--enable-logging=stderr",
        f"--user-data-dir={tmp_path / 'own'}",
    ]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        words.append("--no-sandbox")
    done = subprocess.run(
        [*words, "--dump-dom", (tmp_path / "page.html").as_uri()],
        capture_output=True,
        text=True,
        timeout=90,
        check=True,
        env={**os.environ, "HOME": str(tmp_path)},
    )
    return done.stdout, [line for line in done.stderr.splitlines() if "Content Security Policy" in line]


@pytest.fixture(scope="module")
def report():
    with lab([{"id": "w", "tool": "burn", "args": {"n": "<script>document.title='no'</script>"}}]) as it:
        it.approve("w")
        it.returns("w", {"html": "<img src=x onerror=\"document.title='no'\">"})
    return of(it)


def test_nothing_in_a_report_is_against_its_own_policy(report, tmp_path):
    dom, complaints = shown(report, tmp_path)
    assert complaints == []
    assert "<title>r: done" in dom
    assert "&lt;script&gt;" in dom


@pytest.mark.parametrize(
    "put_in",
    [
        b"<script>document.title='pwned'</script>",
        b"<style>body{display:none}</style>",
        b"<img src='data:image/png;base64,AAAA' onerror=\"document.title='pwned'\">",
    ],
)
def test_what_is_put_into_a_report_later_does_not_run(report, put_in, tmp_path):
    dom, complaints = shown(report.replace(b"<main>", b"<main>" + put_in, 1), tmp_path)
    assert complaints
    assert "<title>pwned" not in dom
