"""Draws docs/images/roofline.svg for the README: programs of corpus/handwritten, profiled on the simulator.

    python -m studies.readme_picture

Each kernel is a dot at its arithmetic intensity and rate, below the roofs of the device. Takes about a minute.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from hipsynth.profiling.metrics import roofline
from hipsynth.simulator import devices

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "images" / "roofline.svg"
DEVICE = "mi300x"
# Program below corpus/handwritten, and where its name stands: offset in points, alignment.
PROGRAMS: dict[str, tuple[tuple[int, int], str]] = {
    "grid_stride/vector_add": ((0, -14), "center"),
    "per_thread/fma_chain": ((0, -14), "center"),
    "roofline/fma_ladder": ((4, -16), "center"),
    "reduction/atomic_sum": ((0, -14), "center"),
}
# Level -> colour of its roof, and how far its label stands off it in points.
LEVELS = {"L1": ("#5f8528", 5), "L2": ("#b0740f", -13), "HBM": ("#2f6db3", 5)}
INTENSITIES = (0.01, 1000.0)
SLOPE = 26.5  # degrees of a bandwidth roof in this figure


def profile_program(program: str) -> list[tuple[float, float]]:
    """Arithmetic intensity (FLOP/B at the HBM) and GFLOP/s of each kernel of the program on the device."""
    source = ROOT / "corpus" / "handwritten" / f"{program}.hip"
    arch = devices.load_device(DEVICE).arch
    command = [sys.executable, "-m", "hipsynth.cli.main", "profile", source, "--json", "--arch", arch]
    process = subprocess.run([*map(str, command), "--flags=-O3"], cwd=ROOT, capture_output=True, text=True, check=True)
    kernels: list[dict[str, Any]] = json.loads(process.stdout)["results"][0]["kernels"]
    return sorted((k["metrics"]["HBM_Arithmetic_Intensity"], k["metrics"]["HBM_GFLOPS"]) for k in kernels)


def draw_roofs(axes: Any, limits: roofline.Ceilings) -> None:
    low, high = INTENSITIES
    for level, (colour, off) in LEVELS.items():
        ridge = roofline.ridge_intensity(level, limits)
        heights = [roofline.attainable_gflops(x, level, limits) for x in (low, ridge)]
        axes.plot([low, ridge], heights, color=colour, lw=1.5)
        name = {"L1": "vL1D", "L2": "L2", "HBM": "HBM"}[level]
        axes.annotate(
            f"{name} {limits.bandwidth[level] / 1000:.1f} TB/s", (low, heights[0]), (4 - off / 3, off), color=colour,
            textcoords="offset points", rotation=SLOPE, rotation_mode="anchor", fontsize=9,
        )  # fmt: skip
    first = roofline.ridge_intensity("L1", limits)
    axes.plot([first, high], [limits.peak, limits.peak], color="#555555", lw=1.5)
    axes.annotate(
        f"peak {limits.peak / 1000:.0f} TFLOP/s", (high, limits.peak), (-4, 4), textcoords="offset points",
        ha="right", fontsize=9, color="#555555",
    )  # fmt: skip


def main() -> int:
    plt.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = plt.subplots(figsize=(7.6, 4.0))
    draw_roofs(axes, roofline.device_ceilings(DEVICE))
    for program, (offset, side) in PROGRAMS.items():
        profiled = profile_program(program)
        axes.plot(*zip(*profiled, strict=True), "o-", color="#b3261e", ms=6, lw=0.8, zorder=3)
        middle = profiled[len(profiled) // 2]
        axes.annotate(Path(program).name, middle, offset, textcoords="offset points", ha=side, fontsize=9)
        print(f"{program}: " + ", ".join(f"{x:.4g} FLOP/B {y:,.0f} GFLOP/s" for x, y in profiled))
    axes.set(xscale="log", yscale="log", xlim=INTENSITIES, ylim=(10, 5e5))
    axes.set_xlabel("arithmetic intensity at the HBM, FLOP/B")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{devices.load_device(DEVICE).title}, simulated on a CPU", fontsize=11)
    axes.grid(True, which="major", color="#e4e4e4", lw=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    PICTURE.parent.mkdir(parents=True, exist_ok=True)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})
    return 0


if __name__ == "__main__":
    sys.exit(main())
