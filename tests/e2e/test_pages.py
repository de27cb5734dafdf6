"""The pages that verbs write, in a real browser: nothing is loaded, nothing sticks out, and axe finds no violation."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from test_workbench import serious_violations

from tools.screenshots import find_chromium

ROOT = Path(__file__).resolve().parents[2]
STENCILS = ROOT / "corpus" / "handwritten" / "stencil2d"
NAIVE, FASTER = (str(STENCILS / f"stencil2d_{name}.hip") for name in ("column_lanes", "row_lanes"))
COMMANDS = {
    "profile": ("profile", NAIVE, "--arch", "gfx942"),
    "compare": ("compare", NAIVE, FASTER, "--arch", "gfx942", "--lines"),
    "corpus": ("stats", str(ROOT / "corpus" / "release" / "v1")),
}

pytestmark = pytest.mark.full


@pytest.fixture(scope="module", params=COMMANDS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page, as its verb writes it."""
    needs.simulator()
    needs.sandbox()
    path = tmp_path_factory.mktemp("pages") / f"{request.param}.html"
    command = [sys.executable, "-m", "hipsynth.cli.main", *COMMANDS[request.param], "--html", str(path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if find_chromium() is None:
        pytest.skip("needs Debian's chromium")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        running = tools.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        yield running
        running.close()


@pytest.mark.parametrize("width", [1400, 390])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page_is_whole_and_readable(written: Path, browser: Any, scheme: str, width: int) -> None:
    context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
    page = context.new_page()
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
    page.on("request", lambda asked: wrong.append(asked.url) if asked.url.startswith("http") else None)
    page.goto(written.as_uri())
    for summary in page.locator("summary").all():
        summary.click()
    assert not wrong
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    assert serious_violations(page) == []
    context.close()


@pytest.mark.parametrize("written", ["profile"], indirect=True)
def test_figures_of_a_narrow_profile_are_not_cut(written: Path, browser: Any) -> None:
    """The bars of a kernel, with their shares and times, fit beside each other."""
    page = browser.new_page(viewport={"width": 390, "height": 900})
    page.goto(written.as_uri())
    cut = "[...document.querySelectorAll('.grid .wide')].filter((box) => box.scrollWidth > box.clientWidth).length"
    assert page.evaluate(cut) == 0
    page.close()
