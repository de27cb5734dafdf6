"""The workbench in a real browser: what one types is predicted, then executed; by keyboard, in light and dark."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest
from test_serve import Server

PICTURES = Path(__file__).resolve().parents[2] / "docs" / "images"
PATIENCE_MS = 120_000.0

pytestmark = pytest.mark.full


def browser_program() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-headless-shell"))), None)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    if browser_program() is None:
        pytest.skip("needs Debian's chromium")
    needs.simulator()
    needs.sandbox()
    running = Server(tmp_path_factory.mktemp("serve"))
    yield running
    running.stop()


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, server: Server) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=browser_program(), args=["--no-sandbox"])
        context = browser.new_context(color_scheme=request.param, viewport={"width": 1500, "height": 1000})
        made = context.new_page()
        made.set_default_timeout(PATIENCE_MS)
        wrong: list[str] = []
        made.on("pageerror", lambda error: wrong.append(str(error)))
        made.on("console", lambda said: wrong.append(said.text) if "Content Security" in said.text else None)
        made.on(
            "request", lambda asked: None if asked.url.startswith((server.url, "blob:")) else wrong.append(asked.url)
        )
        made.goto(f"{server.url}/?token={server.token}")
        made.scheme = request.param
        yield made
        assert not wrong
        browser.close()


def executed(page: Any) -> None:
    page.locator(".side .state", has_text="executed").first.wait_for()


def test_from_typing_to_executed_figures(page: Any) -> None:
    executed(page)
    assert "token" not in page.url
    page.locator(".gutter [class^=heat]").first.wait_for()
    rows = page.locator("#figures tbody tr")
    assert rows.count() == 11, "the duration, and ten metrics: GFLOPS stand once, not once a level"
    head = page.locator("#figures thead").inner_text()
    assert all(word in head for word in ("predicted", "80 % interval", "executed", "difference"))
    if os.environ.get("HIPSYNTH_UPDATE_GOLDEN"):
        page.screenshot(path=PICTURES / f"workbench-{page.scheme}.png")

    source = page.get_by_label("Source of program A")
    text = source.input_value()
    source.fill(text.replace("a * x[i]", "a * nothing[i]"))
    messages = page.get_by_label("Messages of the compiler")
    messages.wait_for()
    assert "line 5" in messages.inner_text()
    source.fill(text.replace("a * x[i]", "a * a * a * x[i]"))
    messages.wait_for(state="hidden")
    executed(page)


def test_two_versions_side_by_side_by_keyboard(page: Any) -> None:
    executed(page)
    page.get_by_role("button", name="Compare with a copy").press("Enter")
    focused = page.locator("textarea:focus")
    assert focused.get_attribute("aria-label") == "Source of program B"
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert page.locator("textarea:focus").count() == 0, "the keyboard is not trapped"
    page.get_by_label("Program B", exact=True).get_by_label("Device").select_option("mi250")
    page.locator("#figures thead", has_text="B / A").wait_for()
    page.locator(".series-1 .point").first.wait_for()
    point = page.locator("#roofline .point").first
    point.focus()
    assert "FLOP/B" in point.get_attribute("aria-label")
    page.keyboard.press("ArrowRight")
    assert page.locator("#roofline .point:focus").count() == 1


def test_programs_are_kept_over_a_reload(page: Any) -> None:
    executed(page)
    source = page.get_by_label("Source of program A")
    source.fill(source.input_value().replace("saxpy", "kept_kernel"))
    page.get_by_label("Program A", exact=True).get_by_label("Flags").fill("-O1")
    page.get_by_role("button", name="Compare with a copy").click()
    page.get_by_label("Program B", exact=True).get_by_label("Device").select_option("mi250")
    page.reload()
    executed(page)
    assert "kept_kernel" in page.get_by_label("Source of program A").input_value()
    assert page.get_by_label("Program A", exact=True).get_by_label("Flags").input_value() == "-O1"
    assert page.get_by_label("Program B", exact=True).get_by_label("Device").input_value() == "mi250"


def test_figures_of_an_older_text_are_dimmed(page: Any) -> None:
    executed(page)
    assert "us executed" in page.locator("#durations").inner_text()
    assert page.locator("#durations").bounding_box()["y"] < 400, "the duration is above the fold"
    source = page.get_by_label("Source of program A")
    text = source.input_value()
    source.fill(text.replace("a * x[i]", "a * nothing[i]"))
    assert page.locator("#results.stale").count() == 1, "until it is answered"
    source.fill(text)
    page.locator("#results:not(.stale)").wait_for()


def test_a_narrow_screen_does_not_scroll_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    executed(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
