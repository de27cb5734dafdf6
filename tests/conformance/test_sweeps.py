"""Do sweeps of the timing and cache model follow the curves that documentation, recordings or physics demand?"""

from __future__ import annotations

import dataclasses

import pytest

from hipsynth.simulator import devices
from studies.sweeps import __main__ as command
from studies.sweeps import pages
from studies.sweeps.sweep import (
    DEVICES,
    KnownFault,
    Sweep,
    SweepPoint,
    SweepResult,
    judge_sweep,
    list_sweeps,
    run_sweep,
)


def by_sweep() -> list[object]:
    marks = {True: (), False: (pytest.mark.full,)}
    return [pytest.param(sweep, id=sweep.name, marks=marks[sweep.quick]) for sweep in list_sweeps()]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sweep", by_sweep())
def test_every_demand_is_met(sweep: Sweep, device: str) -> None:
    result = run_sweep(sweep, device)
    assert result.failures == ()
    # The demands are no empty words: where a quantity is out of all proportion at one point, some are missed.
    for factor in (0.1, 10):
        assert any(missed(sweep, result, index, factor) for index in range(len(result.points))), factor


def missed(sweep: Sweep, result: SweepResult, index: int, factor: float) -> list[str]:
    """Failures that multiplying the main quantity of one point adds."""
    points = list(result.points)
    values = points[index].values
    changed = {**values, sweep.y[0]: values[sweep.y[0]] * factor}
    points[index] = dataclasses.replace(points[index], values=changed)
    table = devices.load_device(result.device)
    expected = sweep.find_failures(result.points, table)
    return [text for text in sweep.find_failures(points, table) if text not in expected]


def toy(known: tuple[KnownFault, ...]) -> Sweep:
    return Sweep("toy", "Toy", "demands", "kernel", "x", ("y",), True, lambda _: iter(()), lambda *_: [], known)


def test_known_faults_are_told_apart_and_must_still_fail() -> None:
    points = (SweepPoint("a", 1, {"y": 1.0}),)
    fault = KnownFault("mi250", ("a at 1",), "a cause")
    result = judge_sweep(toy((fault,)), "mi250", points, ["a at 1: wrong", "b at 1: wrong"])
    assert result.failures == ("b at 1: wrong",) and result.known_failures == ((fault, "a at 1: wrong"),)
    (stale,) = judge_sweep(toy((fault,)), "mi250", points, []).failures
    assert "remove it from KNOWN" in stale
    assert judge_sweep(toy((fault,)), "mi300x", points, []).failures == ()


def test_the_page_shows_points_and_verdicts() -> None:
    fault = KnownFault("mi250", ("a at 1",), "a cause")
    points = (SweepPoint("a", 1, {"y": 1234.0}), SweepPoint("a", 2, {"y": 0.5}))
    result = SweepResult("mi250", points, ("a at 2: wrong",), ((fault, "a at 1: wrong"),))
    text = pages.render_page({toy((fault,)): [result]})
    assert "**1 demands not met**" in text and "a cause. 1 points, such as: a at 1: wrong" in text
    assert "| a | 1 | 1,234 |" in text and "| a | 2 | 0.5 |" in text


def test_every_sweep_is_on_the_page_with_its_figure() -> None:
    text = command.PAGE.read_text()
    assert list_sweeps()
    for sweep in list_sweeps():
        assert f"## {sweep.title}\n" in text and sweep.demands.strip() in text, sweep.name
        assert (command.IMAGES / f"{sweep.name}.svg").exists(), sweep.name
