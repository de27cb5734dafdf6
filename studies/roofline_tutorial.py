"""Takes naive kernels to their roofs: the tables and pictures of the tutorials in docs/.

    python -m studies.roofline_tutorial [stencil product attention] [--budget 60] [--page]

`synth optimize` and then `synth swizzle` change each program; every version is profiled on the simulator. Prints the
tables, or writes them into the pages. Some five minutes for all of them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from hipsynth.core.errors import HipsynthError
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling.metrics import roofline
from hipsynth.profiling.metrics.bottleneck import UNITS
from hipsynth.simulator import devices
from hipsynth.tuning.optimize.documents import SearchStep, list_path
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.swizzle.documents import SwizzleStatus
from hipsynth.tuning.swizzle.search import SwizzleSettings, search_mappings
from hipsynth.tuning.trial import run_trial, target_of
from studies.markdown import format_table, write_tables
from studies.readme_picture import INTENSITIES, draw_roofs

ROOT = Path(__file__).resolve().parents[1]
DOCS, IMAGES = ROOT / "docs", ROOT / "docs" / "images"
HANDWRITTEN = ROOT / "corpus" / "handwritten"
ARCH, DEVICE = "gfx942", "mi300x"
COLOURS = {"naive": "#b3261e", "optimize": "#2f6db3", "swizzle": "#5f8528"}
COLUMNS = ("version", "kernel", "time, us", "limited by", "L2 hits, %", "FLOP/B", "GFLOP/s", "of its roof, %")
STEP_COLUMNS = ("step", "kernel", "why it was tried")
SLOW = 120.0  # seconds of the search on the clock for each of its budget's tenths, on a machine with other work
LEAST_ROW_SHARE = 0.04  # share of a program's time from which a kernel has a row


@dataclass(frozen=True)
class Tutorial:
    """A naive program, the page about it, and its picture."""

    program: Path
    page: Path
    picture: str


TUTORIALS = {
    "stencil": Tutorial(
        HANDWRITTEN / "stencil2d" / "stencil2d_column_lanes.hip",
        DOCS / "tutorial-to-the-roof.md",
        "to-the-roof.svg",
    ),
    "product": Tutorial(
        HANDWRITTEN / "gemm" / "gemm_naive.hip", DOCS / "tutorial-product.md", "product-to-the-roof.svg"
    ),
    "attention": Tutorial(
        HANDWRITTEN / "attention" / "attention_three_launches.hip",
        DOCS / "tutorial-attention.md",
        "attention-to-the-roof.svg",
    ),
}


@dataclass(frozen=True)
class ProgramVersion:
    """A version of a program, and the records of its kernels."""

    name: str
    text: str
    kernels: Sequence[KernelRecord]

    @property
    def duration_ns(self) -> float:
        """Of all launches."""
        return sum(kernel.dispatches * kernel.duration_ns for kernel in self.kernels)

    @property
    def notable_kernels(self) -> list[KernelRecord]:
        """The kernels that take a part of the time that matters."""
        return [k for k in self.kernels if k.dispatches * k.duration_ns >= LEAST_ROW_SHARE * self.duration_ns]


def find_point(kernel: KernelRecord) -> tuple[float, float]:
    """FLOP/B at the HBM, GFLOP/s."""
    return kernel.metrics["HBM_Arithmetic_Intensity"] or 0.0, kernel.metrics["HBM_GFLOPS"] or 0.0


def find_roof(kernel: KernelRecord) -> float:
    """The GFLOP/s under the line of the HBM and the peak of the units that the kernel computes with, for floats."""
    limits = roofline.device_ceilings(DEVICE)
    intensity, _ = find_point(kernel)
    uses_matrix_cores = kernel.counters.get("SQ_INSTS_MFMA", 0) > 0
    peak = roofline.matrix_peaks(DEVICE)["FP32 matrix"] if uses_matrix_cores else limits.compute["FP32"]
    return min(peak, intensity * limits.bandwidth["HBM"])


def format_kernel(version: ProgramVersion, kernel: KernelRecord) -> tuple[str, ...]:
    intensity, gflops = find_point(kernel)
    roof = find_roof(kernel)
    share = f"{100 * gflops / roof:.0f}" if roof else ""
    hits = kernel.metrics["L2_Cache_Hit_Rate"] or 0.0
    limit = UNITS.get(kernel.limits.bottleneck, kernel.limits.bottleneck) if kernel.limits else ""
    time_us = kernel.dispatches * kernel.duration_ns / 1e3
    figures = f"{time_us:.1f}", limit, f"{hits:.1f}", f"{intensity:.3f}", f"{gflops:,.0f}", share
    return version.name, f"`{kernel.name}`", *figures


def run_version(name: str, text: str) -> ProgramVersion:
    """Raises HipsynthError if the program does not run."""
    trial = run_trial(text, target_of(ARCH))
    if not trial.ok:
        raise HipsynthError(f"the {name} version does not run", cause=trial.message, reason=trial.reason)
    return ProgramVersion(name, text, trial.kernels)


def format_step(step: SearchStep) -> tuple[str, ...]:
    return f"`{step.transformation}`", f"`{step.kernel}`", step.reason


def draw_points(tutorial: Tutorial, versions: Sequence[ProgramVersion]) -> None:
    figure, axes = plt.subplots(figsize=(7.6, 4.0))
    draw_roofs(axes, roofline.device_ceilings(DEVICE))
    for version in versions:
        points = [find_point(kernel) for kernel in version.notable_kernels]
        axes.plot(*zip(*points, strict=True), "o", color=COLOURS[version.name], ms=7, zorder=3, label=version.name)
    axes.set(xscale="log", yscale="log", xlim=INTENSITIES, ylim=(10, 5e5))
    axes.set_xlabel("arithmetic intensity at the HBM, FLOP/B")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{tutorial.program.stem} on {devices.load_device(DEVICE).title}", fontsize=11)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    save_figure(figure, axes, tutorial.picture)


def save_figure(figure: Any, axes: Any, name: str) -> None:
    axes.grid(True, which="major", color="#e4e4e4", lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / name, metadata={"Date": None})


def follow_tutorial(tutorial: Tutorial, budget_s: float) -> Iterator[str]:
    """Makes the versions and the pictures; the tables. Raises HipsynthError."""
    target = target_of(ARCH)
    versions = [run_version("naive", tutorial.program.read_text())]
    request = OptimizeRequest(versions[0].text, target, budget_s, clock_s=SLOW * budget_s / 10)
    faster = optimize_program(request, print)
    versions.append(run_version("optimize", faster.text))
    mapped = search_mappings(faster.text, SwizzleSettings(target, budget_s=budget_s), print)
    if any(answer.status == SwizzleStatus.IMPROVED for answer in mapped.answers):
        versions.append(run_version("swizzle", mapped.text))
    draw_points(tutorial, versions)
    times = " → ".join(f"{version.duration_ns / 1e3:,.1f}" for version in versions)
    gain = versions[0].duration_ns / versions[-1].duration_ns
    yield f"All launches together: {times} us, {gain:.1f} times as fast.\n"
    yield format_table(
        COLUMNS, [format_kernel(version, kernel) for version in versions for kernel in version.notable_kernels]
    )
    for answer in mapped.answers:
        yield f"`synth swizzle` of `{answer.name}` in the result: {answer.reason}.\n"
    path = list_path(faster.steps, faster.step)
    yield format_table(STEP_COLUMNS, [format_step(step) for step in path])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tutorials", nargs="*", metavar="NAME", help=f"of {', '.join(TUTORIALS)}; all by default")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of the search, and of the mappings")
    parser.add_argument("--page", action="store_true", help="write the tables into the pages")
    options = parser.parse_args()
    unknown = set(options.tutorials) - TUTORIALS.keys()
    if unknown:
        parser.error(f"no tutorial is called {', '.join(sorted(unknown))}; there are {', '.join(TUTORIALS)}")
    plt.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.family": "sans-serif"})
    for name in options.tutorials or TUTORIALS:
        text = "\n".join(["", *follow_tutorial(TUTORIALS[name], options.budget)])
        print(text)
        if options.page:
            write_tables(TUTORIALS[name].page, text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
