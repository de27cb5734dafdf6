"""The tutorials: what their tables say, and that the search still finds it."""

from __future__ import annotations

import re
from pathlib import Path

import needs
import pytest

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.tuning.optimize.documents import SearchStep, StepOutcome, list_path
from studies import roofline_tutorial

_GAIN = re.compile(r"All launches together: .* us, ([\d.]+) times as fast\.")


def list_step(number: int, parent: int, name: str) -> SearchStep:
    return SearchStep(number, parent, name, "k", {}, 2000.0, 1000.0, True, "limited by hbm", StepOutcome.KEPT, {})


def test_the_steps_of_a_table_are_those_that_led_to_the_result() -> None:
    steps = [list_step(0, -1, "fuse"), list_step(1, 0, "unroll"), list_step(2, 0, "jam"), list_step(3, 2, "hints")]
    path = list_path(steps, 3)
    assert [step.transformation for step in path] == ["fuse", "jam", "hints"]
    assert roofline_tutorial.format_step(path[0]) == ("`fuse`", "`k`", "limited by hbm")
    assert list_path(steps, -1) == []


@pytest.mark.parametrize("matrix", [False, True], ids=["vector", "matrix"])
def test_a_roof_is_the_line_of_the_memory_or_the_peak_of_the_units(matrix: bool) -> None:
    def find_roof(intensity: float) -> float:
        metrics = {"HBM_Arithmetic_Intensity": intensity, "HBM_GFLOPS": 100.0}
        counters = {"SQ_INSTS_MFMA": 7.0 if matrix else 0.0}
        return roofline_tutorial.find_roof(KernelRecord("k", 1, (1, 1, 1), (64, 1, 1), 1.0, counters, metrics))

    assert find_roof(0.5) == pytest.approx(find_roof(1.0) / 2)
    assert find_roof(1e4) == find_roof(1e5) > 1e4
    assert find_roof(1e5) == pytest.approx(136970.24 if matrix else 81715.2)


@pytest.mark.full
@pytest.mark.parametrize("name", roofline_tutorial.TUTORIALS)
def test_the_search_finds_what_the_page_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.simulator()
    needs.compiler()
    monkeypatch.setattr(roofline_tutorial, "IMAGES", tmp_path)
    tutorial = roofline_tutorial.TUTORIALS[name]
    (printed,) = _GAIN.findall(tutorial.page.read_text())
    (again,) = _GAIN.findall("\n".join(roofline_tutorial.follow_tutorial(tutorial, 60.0)))
    assert float(again) == pytest.approx(float(printed), rel=0.05)
    assert (tmp_path / tutorial.picture).read_text().startswith("<?xml")
