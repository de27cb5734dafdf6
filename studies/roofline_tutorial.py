"""Takes one naive kernel to its roof, and draws the pictures of docs/tutorial-to-the-roof.md.

    python -m studies.roofline_tutorial [--budget 60]

`synth optimize` and then `synth swizzle` change the program; each version is profiled on the simulator. Prints the
table of the page. Takes a few minutes.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from hipsynth.core.errors import HipsynthError
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling.metrics import roofline
from hipsynth.simulator import devices
from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
from hipsynth.tuning.swizzle.search import KernelSwizzle, SwizzleSettings, search_mappings
from hipsynth.tuning.trial import run_trial, target_of
from studies.readme_picture import INTENSITIES, draw_roofs

ROOT = Path(__file__).resolve().parents[1]
IMAGES = ROOT / "docs" / "images"
PROGRAM = ROOT / "corpus" / "handwritten" / "stencil2d" / "stencil2d_column_lanes.hip"
ARCH, DEVICE = "gfx942", "mi300x"
COLOURS = {"naive": "#b3261e", "optimize": "#2f6db3", "swizzle": "#5f8528"}
LINE_BYTES = 128


@dataclass(frozen=True)
class ProgramVersion:
    """A version of the program, and the record of its longest kernel."""

    name: str
    text: str
    kernel: KernelRecord

    @property
    def point(self) -> tuple[float, float]:
        """FLOP/B at the HBM, GFLOP/s."""
        metrics = self.kernel.metrics
        return metrics["HBM_Arithmetic_Intensity"] or 0.0, metrics["HBM_GFLOPS"] or 0.0

    def row(self, limits: roofline.Ceilings) -> str:
        x, y = self.point
        share = 100 * y / roofline.attainable_gflops(x, "HBM", limits)
        hits = self.kernel.metrics["L2_Cache_Hit_Rate"] or 0.0
        limit = self.kernel.limits.bottleneck if self.kernel.limits else ""
        time = self.kernel.duration_ns / 1e3
        return f"| {self.name} | {time:.1f} | {limit} | {hits:.1f} | {x:.3f} | {y:,.0f} | {share:.0f} |"


def version(name: str, text: str) -> ProgramVersion:
    """Raises HipsynthError if the program does not run."""
    trial = run_trial(text, target_of(ARCH))
    if not trial.ok:
        raise HipsynthError(f"the {name} version does not run", cause=trial.message, reason=trial.reason)
    return ProgramVersion(name, text, max(trial.kernels, key=lambda kernel: kernel.duration_ns))


def draw_points(versions: list[ProgramVersion], limits: roofline.Ceilings) -> None:
    figure, axes = plt.subplots(figsize=(7.6, 4.0))
    draw_roofs(axes, limits)
    for version in versions:
        axes.plot(*version.point, "o", color=COLOURS[version.name], ms=7, zorder=3, label=version.name)
    axes.set(xscale="log", yscale="log", xlim=INTENSITIES, ylim=(10, 5e5))
    axes.set_xlabel("arithmetic intensity at the HBM, FLOP/B")
    axes.set_ylabel("GFLOP/s")
    axes.set_title(f"{PROGRAM.stem} on {devices.load_device(DEVICE).title}", fontsize=11)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    save(figure, axes, "to-the-roof.svg")


def draw_traffic(answer: KernelSwizzle) -> None:
    """The lines that each XCD has to bring into its L2, before and after the mapping."""
    before, after = answer.sharing["lines_by_xcd"], answer.sharing["lines_by_xcd_after"]
    assert isinstance(before, list) and isinstance(after, list)
    figure, axes = plt.subplots(figsize=(7.6, 3.2))
    for shift, (name, lines) in zip((-0.2, 0.2), (("optimize", before), ("swizzle", after)), strict=True):
        sizes = [line * LINE_BYTES / 2**20 for line in lines]
        axes.bar([i + shift for i in range(len(sizes))], sizes, 0.38, color=COLOURS[name], label=name)
    axes.set_xticks(range(len(before)))
    axes.set_xlabel("XCD")
    axes.set_ylabel("MiB into its L2")
    axes.set_title("What each XCD must bring into its L2", fontsize=11, loc="left")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2, frameon=False, fontsize=9)
    save(figure, axes, "l2-by-xcd.svg")


def save(figure: Any, axes: Any, name: str) -> None:
    axes.grid(True, which="major", color="#e4e4e4", lw=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(IMAGES / name, metadata={"Date": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of the search, and of the mappings")
    options = parser.parse_args()
    plt.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.family": "sans-serif"})
    target, limits = target_of(ARCH), roofline.device_ceilings(DEVICE)
    versions = [version("naive", PROGRAM.read_text())]
    faster = optimize_program(OptimizeRequest(versions[0].text, target, options.budget), print)
    versions.append(version("optimize", faster.text))
    mapped = search_mappings(faster.text, SwizzleSettings(target, budget_s=options.budget), print)
    (answer,) = mapped.answers
    print(f"swizzle: {answer.status}: {answer.reason} [{answer.mapping.label}]")
    if answer.status == "improved":
        versions.append(version("swizzle", mapped.text))
        draw_traffic(answer)
    draw_points(versions, limits)
    print("| version | time, us | limited by | L2 hits, % | FLOP/B | GFLOP/s | of the HBM line, % |")
    print("|---|---:|---|---:|---:|---:|---:|")
    print("\n".join(version.row(limits) for version in versions))
    return 0


if __name__ == "__main__":
    sys.exit(main())
