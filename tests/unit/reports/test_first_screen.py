"""The first screen of a profile fits a terminal and says the same as the full text."""

from __future__ import annotations

from dataclasses import replace

import click
import pytest
from profiling_samples import failure, kernel, result, target

from hipsynth.profiling.reports.autotunings import list_used
from hipsynth.profiling.reports.first_screen import BAR, EMPTY, FULL, MOST_LINES, draw_bar, render_screen
from hipsynth.profiling.reports.terminal import render_results
from hipsynth.simulator.autotunings import Autotuning, TriedConfiguration


@pytest.mark.parametrize("kernels", [1, 2, 3, 9, 40])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_whatever_ran(kernels: int, width: int) -> None:
    many = [kernel(name=f"kernel_{number}", scale=1 + number) for number in range(kernels)]
    results = [result(target(arch), *many) for arch in ("gfx90a", "gfx942")] + [failure(target(), "run_failed")] * 3
    lines = render_screen(results, width).splitlines()
    assert len(lines) <= MOST_LINES
    assert max(map(len, lines)) <= width
    assert "--counters" in lines[-1] or width < 60
    assert any(f"kernel_{kernels - 1}" in line for line in lines), "the slowest comes first"


def test_long_lines_go_on_in_the_next_one_or_end_with_a_word() -> None:
    wide, narrow = (render_screen([result(target(), kernel(name="copy"))], width) for width in (200, 60))
    words = [line.split() for line in (wide, narrow)]
    assert [word for word in words[1] if word not in words[0]] == [] and "…" not in narrow
    assert len(narrow.splitlines()) > len(wide.splitlines())
    many = render_screen([result(target(), *(kernel(name=f"k{n}") for n in range(9)))], 45)
    cut = [line for line in many.splitlines() if line.endswith("…")]
    known = set(render_results([result(target(), kernel())], 400).split())
    assert cut and all(line[:-1].split()[-1] in {word.rstrip(",;") for word in known} for line in cut)


def test_targets_are_in_the_order_of_the_full_text() -> None:
    slow, fast = result(target("gfx90a"), kernel(scale=0.1)), result(target("gfx942"), kernel(scale=9))
    shown = [line for line in render_screen([slow, fast], 100).splitlines() if line.startswith("copy")]
    assert ["gfx90a" in line for line in shown] == [True, False]


@pytest.mark.parametrize("width", [40, 200])
def test_what_an_autotuner_chose_comes_first(width: int) -> None:
    rows = [
        TriedConfiguration({"BLOCK": 64 << n, "num_warps": 4}, 100.0 + n if n < 20 else None, n == 0) for n in range(21)
    ]
    tuned = replace(result(target(), kernel()), autotunings=(Autotuning("k", {"n": 8}, tuple(rows)),))
    lines = render_screen([tuned], width).splitlines()
    assert lines[0].startswith("k autotuned for n=8") and "num_warps=4" in lines[1] and "BLOCK=64" in lines[2]
    assert len(lines) <= MOST_LINES and max(map(len, lines)) <= width
    assert any(line.startswith(kernel().name) for line in lines), "and then the kernel"
    full = render_results([tuned], 400)
    assert "1.05 x  BLOCK=2048" in full and full.count("BLOCK=") == 21


def test_builds_that_were_not_chosen_are_in_the_table_alone() -> None:
    rows = [TriedConfiguration({"BLOCK": block}, 100.0 + block, block == 64) for block in (64, 128)]
    builds = [replace(kernel(name="k"), meta={"BLOCK": block, "N": 7}) for block in (128, 64, 128)]
    ran = replace(result(target(), *builds, kernel(name="other")), autotunings=(Autotuning("k", {}, tuple(rows)),))
    assert [one.meta.get("BLOCK") for one in list_used(ran)] == [64, None]
    screen, full = render_screen([ran], 100), render_results([ran], 100)
    assert screen.count("N=7") == full.count("N=7") == 1 and "BLOCK=64, N=7" in screen
    assert "2 builds that were tried and not chosen" in full


def test_kernels_that_are_left_out_are_counted() -> None:
    results = [result(target(), *(kernel(name=f"k{number}") for number in range(20)))]
    text = render_screen(results, 100)
    shown = sum(line.startswith("k") for line in text.splitlines())
    assert f"{20 - shown} more of 20" in text


def test_verdicts_are_those_of_the_full_text() -> None:
    results = [result(target(), kernel())]
    full = [line.strip() for line in render_results(results, 400).splitlines()]
    verdicts = [line.strip() for line in render_screen(results, 400).splitlines()[1:3]]
    assert verdicts and set(verdicts) <= set(full)


def test_colours_change_no_text() -> None:
    results = [result(target(), kernel())]
    coloured = render_screen(results, 90, lambda text, role: click.style(text, bold=role == "name", fg="cyan"))
    assert coloured != render_screen(results, 90) == click.unstyle(coloured)


@pytest.mark.parametrize(("share", "full"), [(-1.0, 0), (0.0, 0), (0.5, BAR // 2), (1.0, BAR), (3.0, BAR)])
def test_a_bar_is_as_long_as_its_share(share: float, full: int) -> None:
    bar = draw_bar(share)
    assert len(bar) == BAR and bar.count(FULL) == full and bar.count(EMPTY) == BAR - full
