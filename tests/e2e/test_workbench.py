"""The workbench in a real browser: what one types is predicted, then executed; by keyboard, in light and dark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import needs
import pytest
from test_serve import ServeProcess

from tools import bundle_editor, vsix
from tools.screenshots import PICTURES, find_chromium, shrink_picture

PATIENCE_MS = 120_000.0

pytestmark = pytest.mark.full


def update_picture(page: Any, name: str) -> None:
    """Writes the documentation's picture anew, if that is asked for."""
    if os.environ.get("HIPSYNTH_UPDATE_GOLDEN"):
        page.screenshot(path=PICTURES / name)
        shrink_picture(PICTURES / name)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    if find_chromium() is None:
        pytest.skip("needs Debian's chromium")
    needs.simulator()
    needs.sandbox()
    running = ServeProcess(tmp_path_factory.mktemp("serve"))
    yield running
    running.stop()


@pytest.fixture(params=["light", "dark"])
def page(request: pytest.FixtureRequest, server: ServeProcess) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as tools:
        browser = tools.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
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


def text_of(page: Any, index: int = 0) -> str:
    """The text in an editor."""
    text: str = page.evaluate(f"document.querySelectorAll('.editor')[{index}].editor.text")
    return text


def write(page: Any, text: str, index: int = 0) -> None:
    """Puts a text in place of a program's."""
    page.evaluate(
        "([text, index]) => { document.querySelectorAll('.editor')[index].editor.text = text; }", [text, index]
    )


def until(page: Any, holds: Callable[[], bool]) -> None:
    """Waits for what the page's policy does not let the browser ask for."""
    for _ in range(int(PATIENCE_MS / 100)):
        if holds():
            return
        page.wait_for_timeout(100)
    raise AssertionError("it never holds")


def choose(page: Any, program: str, menu: str, entry: str) -> None:
    page.get_by_label(f"Program {program}", exact=True).get_by_label(menu).select_option(entry)


def test_from_typing_to_executed_figures(page: Any) -> None:
    executed(page)
    assert "token" not in page.url
    page.locator(".cm-share .cm-gutterElement[class*=cm-heat]").first.wait_for()
    rows = page.locator("#figures tbody tr")
    assert rows.count() == 11, "the duration, and ten metrics: GFLOPS stand once, not once a level"
    head = page.locator("#figures thead").inner_text()
    assert all(word in head for word in ("predicted", "80 % interval", "executed", "difference"))
    update_picture(page, f"workbench-{page.scheme}.png")

    text = text_of(page)
    write(page, text.replace("a * x[i]", "a * nothing[i]"))
    messages = page.get_by_label("Messages of the compiler")
    messages.wait_for()
    assert "line 5" in messages.inner_text()
    page.locator(".cm-lintRange-error", has_text="nothing").wait_for()
    write(page, text.replace("a * x[i]", "a * a * a * x[i]"))
    messages.wait_for(state="hidden")
    page.locator(".cm-lintRange-error").wait_for(state="detached")
    executed(page)
    page.get_by_label("Source of program A").focus()
    page.keyboard.press("Control+End")
    page.keyboard.type("\nint main(", delay=5)
    assert text_of(page).endswith("\nint main()"), "brackets are closed"
    messages.wait_for()
    for _ in range(3):
        page.keyboard.press("Control+z")
    messages.wait_for(state="hidden")


def test_two_versions_side_by_side_by_keyboard(page: Any) -> None:
    executed(page)
    page.get_by_role("button", name="Compare with a copy").press("Enter")
    focused = page.get_by_label("Source of program B")
    assert focused.evaluate("node => node.getRootNode().activeElement === node")
    page.keyboard.press("Escape")
    page.keyboard.press("Tab")
    assert focused.evaluate("node => node.getRootNode().activeElement !== node"), "the keyboard is not trapped"
    choose(page, "B", "Device", "mi250")
    page.locator("#figures thead", has_text="B / A").wait_for()
    page.locator(".series-1 .point").first.wait_for()
    point = page.locator("#roofline .point").first
    point.focus()
    assert "FLOP/B" in point.get_attribute("aria-label")
    page.keyboard.press("ArrowRight")
    assert page.locator("#roofline .point:focus").count() == 1


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_a_program_that_is_removed_and_added_again_is_predicted(page: Any) -> None:
    executed(page)
    second = page.get_by_label("Program B", exact=True)
    page.get_by_role("button", name="Compare with a copy").click()
    write(page, text_of(page, 1).replace("saxpy", "second"), 1)
    second.locator(".state", has_text="predicted").wait_for()
    page.get_by_role("button", name="Remove B").click()
    page.get_by_role("button", name="Compare with a copy").click()
    state = second.locator(".state")
    until(page, lambda: state.inner_text() not in ("", "predicting"))
    assert "predicted" in state.inner_text() or "execut" in state.inner_text()


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_work_on_a_program_ends_with_it(page: Any) -> None:
    executed(page)
    page.get_by_label("Execute programs").fill("0")
    page.get_by_role("button", name="Compare with a copy").click()
    page.get_by_label("Program B", exact=True).locator(".state", has_text="predicted").wait_for()
    sent: list[tuple[str, str]] = []
    page.on("request", lambda request: sent.append((request.method, urlsplit(request.url).path)))
    page.get_by_label("Program B", exact=True).get_by_role("button", name="Optimize").click()
    until(page, lambda: any(path.startswith("/v1/jobs/") for _, path in sent))
    page.get_by_role("button", name="Remove B").click()
    until(page, lambda: any(method == "DELETE" for method, _ in sent))


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_a_kernel_without_a_named_namespace_has_one_row_of_figures(page: Any) -> None:
    executed(page)
    write(page, text_of(page).replace("__global__", "namespace { __global__").replace("int main", "}\nint main"))
    line = page.locator("#durations", has_text="us executed").filter(has_text="us predicted")
    page.locator("#durations", has_text="us executed").wait_for(state="detached")
    line.wait_for()
    assert page.locator("#kernel option").all_inner_texts() == ["saxpy"]


def test_a_triton_script_from_its_text_to_executed_lines(page: Any) -> None:
    needs.package("triton")
    executed(page)
    choose(page, "A", "Example", "Triton: a softmax of rows")
    page.locator("#durations", has_text="predicted").filter(has_text="softmax").wait_for()
    flags = page.get_by_label("Program A", exact=True).get_by_label("Flags")
    assert flags.is_disabled(), "a script sets its own"
    page.get_by_role("button", name="Execute").click()
    executed(page)
    assert "us executed" in page.locator("#durations").inner_text()
    page.locator(".cm-share .cm-gutterElement[class*=cm-heat]").first.wait_for()
    if page.scheme == "light":
        update_picture(page, "workbench-triton.png")
    write(page, text_of(page).replace("e = tl.exp(", "e = (tl.exp("))
    messages = page.get_by_label("Messages of the compiler")
    messages.wait_for()
    assert "SyntaxError" in messages.inner_text()
    page.locator(".cm-lintRange-error").first.wait_for()


def test_programs_are_kept_over_a_reload(page: Any) -> None:
    executed(page)
    write(page, text_of(page).replace("saxpy", "kept_kernel"))
    page.get_by_label("Program A", exact=True).get_by_label("Flags").fill("-O1")
    page.get_by_role("button", name="Compare with a copy").click()
    choose(page, "B", "Device", "mi250")
    page.reload()
    executed(page)
    assert "kept_kernel" in text_of(page)
    assert page.get_by_label("Program A", exact=True).get_by_label("Flags").input_value() == "-O1"
    assert page.get_by_label("Program B", exact=True).get_by_label("Device").input_value() == "mi250"


def test_figures_of_an_older_text_are_dimmed(page: Any) -> None:
    executed(page)
    assert "us executed" in page.locator("#durations").inner_text()
    assert page.locator("#durations").bounding_box()["y"] < 400, "the duration is above the fold"
    text = text_of(page)
    write(page, "int only;")
    page.get_by_text("These figures are of an older text.").wait_for()
    assert page.locator("#results.stale").count() == 1
    write(page, text)
    page.locator("#results:not(.stale)").wait_for()


def test_a_narrow_screen_does_not_scroll_sideways(page: Any) -> None:
    page.set_viewport_size({"width": 390, "height": 844})
    executed(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_a_link_opens_the_programs_that_it_was_made_of(page: Any) -> None:
    executed(page)
    write(page, text_of(page).replace("saxpy", "shared_kernel"))
    page.get_by_role("button", name="Share as a link").click()
    until(page, lambda: "#p=" in page.url)
    link = page.url
    write(page, "int only;")
    page.goto("about:blank")
    page.goto(link)
    page.locator(".cm-line", has_text="shared_kernel").first.wait_for()
    assert "#" not in page.url, "edits from now on are not in the link"


def test_an_example_without_main_is_predicted_and_executed_with_a_launch_that_is_named(page: Any) -> None:
    executed(page)
    choose(page, "A", "Example", "stencil: a kernel without main()")
    page.locator("#durations", has_text="stencil").get_by_text("us executed").wait_for()
    notes = page.locator(".side .notes").inner_text()
    assert "no main(): stencil is launched with" in notes and "width = 1024" in notes
    choose(page, "A", "Flag set", "-O1")
    assert page.get_by_label("Program A", exact=True).get_by_label("Flags").input_value() == "-O1"


def test_instructions_stand_under_the_lines_that_they_come_from(page: Any) -> None:
    executed(page)
    rows = page.locator("#isa tr[data-line='5'] td:first-child")
    rows.first.wait_for()
    words = " ".join(rows.all_inner_texts())
    assert "global_load" in words and "global_store" in words and "s_endpgm" not in words
    page.locator("#isa .source-row button", has_text="y[i] = a * x[i]").first.click()
    assert "y[i]" in page.locator(".cm-marked").inner_text(), "the line is marked in the text"
    assert page.locator("#isa tr.marked").count() >= rows.count()


@pytest.mark.parametrize("page", ["light"], indirect=True)
def test_a_faster_version_is_found_shown_and_taken(page: Any) -> None:
    executed(page)
    choose(page, "A", "Example", "transpose: uncoalesced stores")
    page.locator("#durations", has_text="transpose").get_by_text("us executed").wait_for()
    page.get_by_label("Search for faster versions").fill("40")
    page.get_by_role("button", name="Swizzle").click()
    page.locator(".findings", has_text="transpose:").wait_for()
    page.get_by_role("button", name="Optimize").click()
    page.locator(".findings", has_text="s on the clock, budget: 40 s of work").wait_for()
    page.get_by_role("button", name="Apply").wait_for(timeout=2 * PATIENCE_MS)
    found = page.locator(".findings").inner_text()
    assert "times as fast" in found and "verified: outputs equal" in found and "s of work used" in found
    assert page.get_by_label("Changes").locator(".added").count() > 0
    before = text_of(page)
    page.get_by_role("button", name="Apply").click()
    assert text_of(page) != before and page.locator(".proposal").is_hidden()
    executed(page)
    page.get_by_label("Source of program A").focus()
    page.keyboard.press("Control+z")
    assert text_of(page) == before, "it can be undone"


@pytest.mark.parametrize("width", [1500, 390])
def test_axe_finds_no_serious_violation(page: Any, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 1000})
    executed(page)
    page.get_by_role("button", name="Compare with a copy").click()
    write(page, "int only;")
    page.get_by_label("Program A", exact=True).get_by_label("Messages of the compiler").wait_for()
    assert page.locator("#results.stale").count() == 1
    assert serious_violations(page) == []


def serious_violations(page: Any) -> list[str]:
    """What axe complains of, with the elements."""
    vsix.install_packages(bundle_editor.SOURCE)
    page.evaluate((bundle_editor.SOURCE / "node_modules" / "axe-core" / "axe.min.js").read_text())
    found = page.evaluate("axe.run()")["violations"]
    assert len(page.evaluate("axe.getRules()")) > 50
    return [
        f"{rule['id']}: {node['html'][:200]} {node['failureSummary'][:300]}"
        for rule in found
        if rule["impact"] in ("serious", "critical")
        for node in rule["nodes"]
    ]


def test_the_editor_is_what_its_sources_give() -> None:
    assert bundle_editor.main(["--check"]) == 0
