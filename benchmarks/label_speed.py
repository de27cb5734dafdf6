"""How many labels of generated programs a second one core makes, and where the time goes.

    python benchmarks/label_speed.py [--count N] [--sizes S] [--seed K] [--check N] [--json]

Profiles N generated programs (default 60) at S sizes (default 4) on both architectures with -O3, one label after the
other, in the sandbox, as `synth profile DIR --out CORPUS` does. `--check N`: also runs every Nth sampled label in full,
and prints how far its durations and counters were off.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from hipsynth.core.program import Program, ProgramRun
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.matrix.job import MatrixJob, run_job
from hipsynth.profiling.matrix.targets import select_targets
from hipsynth.profiling.metrics.uncertainty import END_STATE
from hipsynth.simulator.limits import CORPUS_EFFORT, CORPUS_ERROR, CORPUS_UNITS, RunLimits
from hipsynth.synth.generate.producer import generate_programs

LIMITS = RunLimits(effort=CORPUS_EFFORT, sampling_units=CORPUS_UNITS, largest_error=CORPUS_ERROR)
FULL = RunLimits(time_s=600, wave_instructions=10**13, sampling_units=0)
LARGE = 1000  # counters below this are not compared
Cell = tuple[Program, Target, ProgramRun]


@dataclass
class LabelCosts:
    """Times of one architecture in seconds, and what limits the heaviest kernel of each label."""

    labels: int = 0
    failed: int = 0
    sampled: int = 0
    elapsed: list[float] = field(default_factory=list)
    parts: Counter[str] = field(default_factory=Counter)
    bottlenecks: Counter[str] = field(default_factory=Counter)

    def add_label(self, result: TargetResult, elapsed: float) -> None:
        self.elapsed.append(elapsed)
        self.parts.update(result.times)
        self.labels += result.status == RunStatus.OK
        self.failed += result.status != RunStatus.OK
        self.sampled += any(kernel.sampled for kernel in result.kernels)
        heaviest = max(result.kernels, key=lambda kernel: kernel.duration_ns * kernel.dispatches, default=None)
        if heaviest and heaviest.limits:
            self.bottlenecks[heaviest.limits.bottleneck] += 1

    def build_document(self) -> dict[str, Any]:
        total, ordered = sum(self.elapsed), sorted(self.elapsed)
        spent = {name: round(value / total, 3) for name, value in self.parts.items()}
        return {
            "labels": self.labels,
            "failed": self.failed,
            "sampled": self.sampled,
            "labels_per_s": self.labels / total,
            "median_s": statistics.median(ordered),
            "p90_s": ordered[int(0.9 * (len(ordered) - 1))],
            "largest_s": ordered[-1],
            "share": {**spent, "other": round(1 - sum(spent.values()), 3)},
            "limited_by": {name: round(n / self.labels, 3) for name, n in self.bottlenecks.most_common()},
        }


def profile_cell(cell: Cell, limits: RunLimits) -> TargetResult:
    program, target, run = cell
    return run_job(MatrixJob("sim", program, ((target, run),), limits))[0]


def list_cells(programs: list[Program]) -> Iterator[Cell]:
    """Cells of one build follow each other."""
    wanted, _ = select_targets((), ("-O3",), ())
    for program in programs:
        for target in wanted:
            for run in program.runs:
                yield program, target, run


def measure_deviations(result: TargetResult, full: TargetResult) -> Iterator[tuple[float, float]]:
    """Of each sampled kernel: relative error of its duration and of its worst counter."""
    for kernel, exact in zip(result.kernels, full.kernels, strict=True):
        if kernel.sampled:
            wrong = [
                abs(kernel.counters[name] / value - 1)
                for name, value in exact.counters.items()
                if value >= LARGE and name not in END_STATE
            ]
            yield abs(kernel.duration_ns / exact.duration_ns - 1), max(wrong, default=0.0)


def measure_errors(sampled: list[tuple[Cell, TargetResult]], every: int) -> dict[str, Any]:
    """Errors of every `every`-th sampled label against its full run, by device; those whose full run does not end in
    its time are left out."""
    errors: dict[str, list[tuple[float, float]]] = {}
    for cell, result in sampled[::every]:
        full = profile_cell(cell, FULL)
        if full.status != RunStatus.OK:
            print(f"left out: {cell[0].family} {' '.join(cell[2].arguments)} on {result.device}: {full.reason}")
            continue
        errors.setdefault(result.device, []).extend(measure_deviations(result, full))
    return {
        device: {
            "kernels": len(rows),
            "duration_median": statistics.median(d for d, _ in rows),
            "duration_largest": max(d for d, _ in rows),
            "duration_over_2_percent": sum(d > 0.02 for d, _ in rows),
            "counter_over_2_percent": sum(c > 0.02 for _, c in rows),
        }
        for device, rows in sorted(errors.items())
    }


def measure_labels(count: int, sizes: int, seed: int, check: int) -> dict[str, Any]:
    """The document: costs of labels and, with `check`, errors of sampled ones, by device."""
    costs: dict[str, LabelCosts] = {}
    sampled: list[tuple[Cell, TargetResult]] = []
    for cell in list_cells([replace(p, expected=None) for p in generate_programs(count, seed, runs=sizes)]):
        start = time.monotonic()
        result = profile_cell(cell, LIMITS)
        costs.setdefault(result.device, LabelCosts()).add_label(result, time.monotonic() - start)
        if any(kernel.sampled for kernel in result.kernels):
            sampled.append((cell, result))
    return {
        "labels": {device: cost.build_document() for device, cost in sorted(costs.items())},
        "errors": measure_errors(sampled, check) if check else {},
    }


def _format_shares(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {100 * value:.0f}" for name, value in values.items())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--sizes", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--check", type=int, default=0)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    result = measure_labels(options.count, options.sizes, options.seed, options.check)
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for device, row in result["labels"].items():
        print(f"{device}: {row['labels']} labels, {row['failed']} failed, {row['sampled']} sampled")
        print(f"  {row['labels_per_s']:.2f} labels/s on one core")
        print(f"  median {row['median_s']:.2f} s, 90 % under {row['p90_s']:.2f} s, longest {row['largest_s']:.1f} s")
        print(f"  percent of the time: {_format_shares(row['share'])}")
        print(f"  percent of labels limited by: {_format_shares(row['limited_by'])}")
    for device, row in result["errors"].items():
        print(f"{device}: {row['kernels']} sampled kernels against their full runs")
        print(f"  duration: median {100 * row['duration_median']:.2f} %, largest {100 * row['duration_largest']:.1f} %")
        over = f"{row['duration_over_2_percent']} durations, {row['counter_over_2_percent']} with a counter"
        print(f"  more than 2 % off: {over}")


if __name__ == "__main__":
    main()
