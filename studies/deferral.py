"""Draws docs/images/deferral.svg: what `synth predict --defer` costs, and how right it is, by how much it executes.

    python -m studies.deferral [--every K]     # predicts and executes corpus/handwritten, writes studies/deferral.json
    python -m studies.deferral --draw          # from studies/deferral.json

Each program is predicted and executed in the simulator, and both are timed. The least sure predictions are replaced by
what was executed, one after the other. Figures are simulated, and say nothing about hardware.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from hipsynth.core.errors import HipsynthError
from hipsynth.core.program import load_program
from hipsynth.core.workers import map_unordered
from hipsynth.simulator.devices import default_device
from hipsynth.training.analytic.documents import execute_for_comparison
from hipsynth.training.analytic.predict import AnalyticPrediction, AnalyticPredictor, LaunchAssumptions
from hipsynth.training.models.documents import SimulatedKernel

ROOT = Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / "corpus" / "handwritten"
FIGURES, PICTURE = ROOT / "studies" / "deferral.json", ROOT / "docs" / "images" / "deferral.svg"
ARCHES, FLAGS, MOST_GOOD_ERROR, JOB_SECONDS = ("gfx90a", "gfx942"), "-O3", 0.1, 600.0


@dataclass(frozen=True)
class DeferralTrial:
    """A program on one architecture: how unsure its prediction is (half the log width of the 80 % interval of the
    duration; None: no answer), whether `--defer` executes it, predicted / executed duration of the kernel that takes
    longest, and the seconds that each took."""

    program: str
    arch: str
    width: float | None
    deferred: bool
    ratio: float | None
    predict_s: float
    execute_s: float

    @property
    def error(self) -> float:
        return math.inf if self.ratio is None else abs(self.ratio - 1)


@dataclass(frozen=True)
class DeferralPoint:
    """With the `executed` least sure answers executed: seconds, relative to executing all; share of right answers."""

    executed: int
    cost: float
    right: float


def try_deferral(job: tuple[Path, str]) -> DeferralTrial | None:
    """None for a program that the simulator does not execute to its end."""
    path, arch = job
    program, device = load_program(path), default_device(arch)
    predictor = AnalyticPredictor.load()
    start = time.monotonic()
    prediction = predictor.predict(program.text, arch, FLAGS, device, LaunchAssumptions())
    middle = time.monotonic()
    rows = execute_for_comparison(program, arch, FLAGS, device, ())
    end = time.monotonic()
    kernels = [row for row in rows if isinstance(row, SimulatedKernel) and row.duration_ns]
    if not kernels:
        return None
    main = max(kernels, key=lambda kernel: kernel.duration_ns)
    duration = average_duration(prediction, main)
    unsure = any(kernel.abstained for kernel in prediction.kernels)
    ratio = None if duration is None else duration / main.duration_ns
    return DeferralTrial(path.stem, arch, find_width(prediction), unsure, ratio, middle - start, end - middle)


def average_duration(prediction: AnalyticPrediction, executed: SimulatedKernel) -> float | None:
    """The mean duration in ns of the predicted launches of a kernel and shape, as what was executed has it; None
    without any."""
    wanted = executed.instance, executed.grid, executed.block
    same = [kernel for kernel in prediction.kernels if (kernel.instance, kernel.grid, kernel.block) == wanted]
    times = [kernel.duration_ns for kernel in same if kernel.duration_ns is not None]
    return statistics.fmean(times) if times else None


def find_width(prediction: AnalyticPrediction) -> float | None:
    """Half the log width of the interval of the duration, of the least sure kernel; None if one has no interval."""
    widths = []
    for kernel in prediction.kernels:
        low, high = kernel.intervals.get("duration_ns", (0.0, 0.0))
        if low <= 0:
            return None
        widths.append(math.log(high / low) / 2)
    return max(widths, default=None)


def build_curve(trials: Sequence[DeferralTrial]) -> list[DeferralPoint]:
    """From executing nothing to executing everything: what `--defer` executes first, then by how unsure."""
    order = sorted(trials, key=lambda t: (not t.deferred, -(math.inf if t.width is None else t.width)))
    total_execute_s = sum(t.execute_s for t in trials)
    total_predict_s = sum(t.predict_s for t in trials)
    points = []
    for n in range(len(order) + 1):
        right = n + sum(t.error <= MOST_GOOD_ERROR for t in order[n:])
        points.append(
            DeferralPoint(
                n, (total_predict_s + sum(t.execute_s for t in order[:n])) / total_execute_s, right / len(order)
            )
        )
    return points


def measure_deferral(every: int, workers: int) -> list[DeferralTrial]:
    """All programs, or every K-th, on the architectures in turn."""
    paths = sorted(PROGRAMS.glob("*/*.hip"))[::every]
    jobs = [(path, ARCHES[n % 2]) for n, path in enumerate(paths)]
    trials = []
    for outcome in map_unordered(try_deferral, jobs, workers, "local", JOB_SECONDS):
        if isinstance(outcome.error, HipsynthError):
            print(f"{jobs[outcome.index][0].stem}: {outcome.error.reason}", flush=True)
            continue
        measured = outcome.get()
        if measured is not None:
            trials.append(measured)
            seconds = f"{measured.predict_s:.2f} s, {measured.execute_s:.2f} s"
            print(f"{measured.program} {measured.arch}: {measured.ratio}, {seconds}", flush=True)
    return sorted(trials, key=lambda t: (t.program, t.arch))


def draw_curve(trials: Sequence[DeferralTrial]) -> None:
    plt.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.family": "sans-serif"})
    points = build_curve(trials)
    figure, axes = plt.subplots(figsize=(7.0, 3.6))
    shares = [100 * p.right for p in points]
    costs = [100 * p.cost for p in points]
    axes.plot(costs, shares, color="#b3261e", lw=1.8, label="the least sure first")
    axes.plot([costs[0], costs[-1]], [shares[0], 100], "--", color="#777777", lw=1.2, label="in any order")
    chosen = sum(t.deferred for t in trials)
    axes.plot(costs[chosen], shares[chosen], "o", color="#b3261e", ms=7)
    axes.annotate("--defer", (costs[chosen], shares[chosen]), (8, -14), textcoords="offset points", fontsize=9)
    axes.set_xlabel("seconds, % of executing every program")
    axes.set_ylabel("durations within 10 %, %")
    axes.set_title("Predictions, the unsure ones executed (all simulated)", fontsize=11)
    axes.grid(True, color="#e4e4e4", lw=0.7)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right", fontsize=9)
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


def format_lines(trials: Sequence[DeferralTrial]) -> list[str]:
    """The table of docs/log/prediction.md."""
    points, chosen = build_curve(trials), sum(t.deferred for t in trials)
    wanted = {"nothing": 0, "what `--defer` does": chosen}
    wanted |= {f"{share} % of the programs": round(len(trials) * share / 100) for share in (25, 50, 75)}
    rows = [f"| {label} | {points[n].executed} | {100 * points[n].cost:.0f} % | {100 * points[n].right:.0f} % |"
            for label, n in sorted(wanted.items(), key=lambda item: item[1])]  # fmt: skip
    seconds = sum(t.predict_s for t in trials), sum(t.execute_s for t in trials)
    return [
        f"{len(trials)} programs: predicting took {seconds[0]:.0f} s in all, executing {seconds[1]:.0f} s",
        "| executed | programs | seconds, of executing all | durations within 10 % |",
        "|---|---|---|---|",
        *rows,
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="take every K-th program only")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--draw", action="store_true", help="only draw what was measured before")
    options = parser.parse_args()
    if not options.draw:
        trials = measure_deferral(options.every, options.workers)
        FIGURES.write_text(json.dumps([asdict(t) for t in trials], indent=1) + "\n")
    trials = [DeferralTrial(**row) for row in json.loads(FIGURES.read_text())]
    print("\n".join(format_lines(trials)))
    draw_curve(trials)
    return 0


if __name__ == "__main__":
    sys.exit(main())
