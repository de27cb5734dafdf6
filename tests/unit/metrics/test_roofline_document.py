"""The roofline's document, and the component that draws it: the same numbers, on axes that follow from the device."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from hipsynth.core.documents import to_json
from hipsynth.profiling.metrics import roofline
from hipsynth.profiling.metrics.roofline import PlottedKernel
from hipsynth.simulator.devices import list_devices, load_device

COMPONENT = Path(roofline.__file__).parents[1] / "reports" / "web" / "roofline.js"
METRICS = {
    "HBM_GFLOPS": 500.0,
    "L1_Cache_Arithmetic_Intensity": 0.25,
    "L2_Cache_Arithmetic_Intensity": 0.5,
    "HBM_Arithmetic_Intensity": 1.0,
}
COPY = {"HBM_GFLOPS": 0.0, "HBM_Arithmetic_Intensity": 0.0}


def peaks_at_the_nominal_clock(device: str) -> dict[str, float]:
    table = load_device(device)
    nominal = table["clock.core_mhz"] / table["clock.matrix_mhz"]
    return {precision: nominal * rate for precision, rate in roofline.matrix_peaks(device).items()}


def test_matrix_peaks_are_those_of_the_data_sheet_at_its_clock() -> None:
    new, old = peaks_at_the_nominal_clock("mi300x"), peaks_at_the_nominal_clock("mi250")
    assert new["FP16 matrix"] == pytest.approx(1307.4e3, rel=0.001)  # CDNA3 white paper
    assert new["FP64 matrix"] == pytest.approx(163.4e3, rel=0.001)
    assert new["FP8 matrix"] == pytest.approx(2614.9e3, rel=0.001)
    assert old["FP16 matrix"] == pytest.approx(362.1e3 / 2, rel=0.001)  # one of the two dies
    assert "FP8 matrix" not in old


@pytest.mark.parametrize("device", list_devices())
def test_axes_follow_from_the_device_alone(device: str) -> None:
    empty = roofline.plot_kernels(device, [])
    full = roofline.plot_kernels(device, [PlottedKernel("saxpy", METRICS), PlottedKernel("copy", COPY)])
    assert empty.axes == full.axes and empty.peaks == full.peaks
    lowest, highest = empty.axes.gflops
    assert all(10**lowest < peak.gflops <= 10**highest for peak in full.peaks)
    assert [point.level for point in full.points] == ["L1", "L2", "HBM"]
    assert full.unplotted == ("copy",)
    json.dumps(to_json(full), allow_nan=False)


def drawn(plot: roofline.RooflinePlot, tmp_path: Path, options: str = "{}") -> ElementTree.Element:
    node = shutil.which("node")
    if node is None:
        pytest.skip("needs node")
    shutil.copy(COMPONENT, tmp_path / "roofline.mjs")
    text = json.dumps(to_json(plot))
    script = f"import {{draw, exported}} from './roofline.mjs'; exported({text}); " + (
        f"console.log(draw({text}, {options}))"
    )
    done = subprocess.run([node, "--input-type=module", "-e", script], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ElementTree.fromstring(done.stdout)


SVG = "{http://www.w3.org/2000/svg}"


def markers(svg: ElementTree.Element) -> list[ElementTree.Element]:
    return [g for g in svg.iter(f"{SVG}g") if g.get("class") == "point"]


def test_points_stand_where_their_numbers_are(tmp_path: Path) -> None:
    document = roofline.plot_kernels(
        "mi300x", [PlottedKernel("saxpy<float>&co", METRICS, "predicted", low=300.0, high=800.0)]
    )
    points = markers(drawn(document, tmp_path))
    assert len(points) == 3
    assert all(p.get("tabindex") == "0" and "saxpy<float>&co, predicted" in (p.get("aria-label") or "") for p in points)
    assert "500 GFLOP/s" in (points[0].get("aria-label") or "")
    places = [tuple(map(float, re.findall(r"[-\d.]+", p.get("transform") or ""))) for p in points]
    low, high = document.axes.intensity
    width = 720 - 64 - 20
    wanted = [64 + (math.log10(x) - low) / (high - low) * width for x in (0.25, 0.5, 1.0)]
    assert [x for x, _ in places] == pytest.approx(wanted, abs=0.1)
    assert len({y for _, y in places}) == 1


def test_levels_are_chosen_and_far_points_stay_inside(tmp_path: Path) -> None:
    far = METRICS | {"HBM_Arithmetic_Intensity": 1e7, "HBM_GFLOPS": 1e-6}
    (point,) = markers(
        drawn(roofline.plot_kernels("mi250", [PlottedKernel("far", far)]), tmp_path, "{levels: ['HBM']}")
    )
    x, y = map(float, re.findall(r"[-\d.]+", point.get("transform") or ""))
    assert 0 < x <= 720 and 0 < y <= 440
    assert "outside the plot" in (point.get("aria-label") or "")
