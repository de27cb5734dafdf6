"""The programs of corpus/handwritten do what their headers say (studies/handwritten.py), and the gallery shows it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import needs
import pytest

from hipsynth.profiling.metrics import bottleneck
from hipsynth.simulator import devices
from hipsynth.simulator.limits import RunLimits
from studies import gallery, handwritten
from studies.handwritten import HandwrittenStep, ProgramFigures

STEPS = list(handwritten.list_steps())
BY_NAME = {step.name: step for step in STEPS}
PROBLEMS = gallery.group_steps()
SAMPLE = STEPS[::35]
PARADIGMS = ("per-thread", "per-wave", "per-tile", "persistent", "work queue", "privatised", "multi-pass")
NOTICEABLE = 0.05  # relative change below which a step counts as no different
LEAST = 100
ALL_IN_FULL = RunLimits(sampling_units=0)


@pytest.fixture(scope="module", autouse=True)
def simulator() -> None:
    needs.simulator()
    needs.compiler()


def test_headers_are_complete() -> None:
    assert len(STEPS) >= LEAST and len(BY_NAME) == len(STEPS)
    for step in STEPS:
        assert step.path == handwritten.CORPUS / step.problem / f"{step.name}.hip"
        assert step.idea and step.paradigm in PARADIGMS, step.name
        assert set(step.bound) == set(devices.recorded_architectures()) and set(step.bound.values()) <= set(
            bottleneck.UNITS
        )
        assert bool(step.after) == bool(step.moves) and all(way in ("up", "down") for _, way in step.moves), step.name


@pytest.mark.parametrize("problem", PROBLEMS)
def test_steps_follow_each_other(problem: str) -> None:
    steps = PROBLEMS[problem]
    assert [step.number for step in steps] == list(range(1, len(steps) + 1))
    assert [step.after for step in steps] == ["", *(step.name for step in steps[:-1])]


def test_the_gallery_has_a_section_for_every_problem() -> None:
    assert list(gallery.split_sections(gallery.PAGE.read_text())) == list(PROBLEMS)


def list_contradictions(
    step: HandwrittenStep, found: Mapping[str, ProgramFigures], before: Mapping[str, ProgramFigures] | None
) -> list[str]:
    """Where the figures per architecture contradict the header of `step`; `before`: those of the step before it."""
    problems = []
    for arch in devices.recorded_architectures():
        mine = found[arch]
        if mine.limiting_unit != step.bound.get(arch):
            problems.append(
                f"{step.name} on {arch}: bound by {mine.limiting_unit}, the header says {step.bound.get(arch)}"
            )
        if before is None:
            continue
        for counter, move in step.moves:
            old, new = before[arch].find_value(counter), mine.find_value(counter)
            change = new - old if move == "up" else old - new
            if change < NOTICEABLE * max(abs(old), abs(new)) or not change:
                problems.append(f"{step.name} on {arch}: {counter} {old:,.0f} -> {new:,.0f}, the header says {move}")
    return problems


def check_results(step: HandwrittenStep) -> None:
    """At a small size, where every grid runs in full, the program's own check passes."""
    for arch in devices.list_architectures():
        done = handwritten.profile_step(step, arch, step.check, ALL_IN_FULL)
        assert (done.status, done.exit_code) == ("ok", 0), f"{arch}: {done.message} {done.stdout}"


def profiled(step: HandwrittenStep) -> dict[str, ProgramFigures]:
    return gallery.profile_steps([step])[step.name]


@pytest.mark.parametrize("step", SAMPLE, ids=lambda step: step.name)
def test_a_program_does_what_its_header_says(step: HandwrittenStep) -> None:
    check_results(step)
    before = profiled(BY_NAME[step.after]) if step.after else None
    assert not list_contradictions(step, profiled(step), before)


@pytest.mark.full
@pytest.mark.parametrize("step", [step for step in STEPS if step not in SAMPLE], ids=lambda step: step.name)
def test_every_program_checks_its_results(step: HandwrittenStep) -> None:
    check_results(step)


@pytest.mark.full
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_step_does_what_its_header_says(problem: str) -> None:
    """And its row of docs/reference/gallery.md is fresh: `python -m studies.gallery PROBLEM` rewrites a section."""
    steps = PROBLEMS[problem]
    found = gallery.profile_steps(steps)
    assert not [text for s in steps for text in list_contradictions(s, found[s.name], found.get(s.after))]
    page = gallery.split_sections(gallery.PAGE.read_text())
    assert page[problem].rstrip("\n") == gallery.render_section(steps, found).rstrip("\n")


class Made(ProgramFigures):
    """Figures with a given bottleneck and duration."""

    def __init__(self, unit: str, duration: float) -> None:
        super().__init__(())
        self.__dict__.update(unit=unit, duration=duration)

    @property
    def limiting_unit(self) -> str:
        return str(self.__dict__["unit"])

    def find_value(self, name: str) -> float:
        return float(self.__dict__["duration"])


def made(unit: str, duration: float) -> Mapping[str, ProgramFigures]:
    return {arch: Made(unit, duration) for arch in devices.recorded_architectures()}


def header(tmp_path: Path, *lines: str) -> HandwrittenStep:
    path = tmp_path / "b.hip"
    path.write_text("".join(f"// {line}\n" for line in lines) + "int main() {}\n")
    return handwritten.read_step(path)


def test_a_wrong_header_is_found(tmp_path: Path) -> None:
    lines = [
        "Idea.",
        "step: a 2 b, after c",
        "paradigm: per-tile",
        "bound: gfx90a hbm, gfx942 hbm",
        "moves: Duration down",
    ]
    step = header(tmp_path, *lines, "check: 8 9")
    assert (step.idea, step.problem, step.number, step.after, step.check) == ("Idea.", "a", 2, "c", ("8", "9"))
    assert not list_contradictions(step, made("hbm", 50), made("hbm", 100))
    assert len(list_contradictions(step, made("lds", 50), made("hbm", 100))) == 2  # the bottleneck, on two devices
    for duration in (98, 100, 120):  # hardly less, the same, more
        assert len(list_contradictions(step, made("hbm", duration), made("hbm", 100))) == 2
    with pytest.raises(ValueError, match="check"):
        header(tmp_path, *lines)
    with pytest.raises(ValueError, match="moves"):
        header(tmp_path, *lines[:-1], "check:")
