"""How far the labels of a corpus, whose large grids are sampled, are from full runs, and whether they say so.

    python benchmarks/label_error.py [--count N] [--seed S]
    python benchmarks/label_error.py SAMPLED EXACT

Makes N programs and profiles them twice, as `synth profile DIR --out CORPUS` does and with `--exact`, in a folder that
is then removed; or compares two corpora of the same programs. The sampler's own estimates (`sampling.error`: two
standard deviations, by counter) and the bounds that `synth profile` prints (profiling/metrics/uncertainty.py) should
hold 95 % of the errors. Counters that sampling does not touch count nowhere.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsynth.core.errors import PartialFailure
from hipsynth.core.store import Corpus
from hipsynth.profiling.metrics.definitions import answer_ids, is_hit_rate
from hipsynth.profiling.metrics.uncertainty import DURATION, END_STATE, metric_error_bounds

KEY = ("program_id", "arguments", "arch", "flags", "device", "kernel_index")
EXACT_TO = 1e-4  # relative; smaller differences of a counter come from rounding
FEWEST = 1000.0  # events that a counter needs to be compared


@dataclass(frozen=True)
class LabelComparison:
    """One sampled label beside its full run. `bounds_hold`: whether the sampler's estimate and the printed bound hold
    the relative error of each counter and the duration, where the error or the estimate is not zero."""

    name: str
    arch: str
    duration: float
    stated: float
    hit_points: float
    metrics: Mapping[str, float]
    bounds_hold: Mapping[str, tuple[bool, bool]]


def compare_labels(sampled: Mapping[str, Any], exact: Mapping[str, Any]) -> LabelComparison:
    """Compares rows of two corpora's measurements."""
    error_shares = dict(sampled["sampling"]["error"])
    printed = metric_error_bounds(error_shares)
    figures = {**dict(sampled["counters"]), DURATION: sampled["duration_ns"]}
    true = {**dict(exact["counters"]), DURATION: exact["duration_ns"]}
    errors = {
        name: abs(figures[name] / value - 1)
        for name, value in true.items()
        if value >= FEWEST and name in figures and name not in END_STATE
    }
    both = [(name, sampled[name], exact[name]) for name in answer_ids()]
    measured = [(name, a, b) for name, a, b in both if a is not None and b is not None]
    return LabelComparison(
        f"{sampled['family']} {sampled['kernel']} {sampled['arguments']}",
        sampled["arch"],
        sampled["duration_ns"] / exact["duration_ns"] - 1,
        printed.get(DURATION, 0.0),
        max((abs(a - b) for name, a, b in measured if is_hit_rate(name)), default=0.0),
        {name: abs(a / b - 1) for name, a, b in measured if not is_hit_rate(name) and b},
        {
            name: (error <= max(error_shares.get(name, 0.0), EXACT_TO), error <= max(printed.get(name, 0.0), EXACT_TO))
            for name, error in errors.items()
            if max(error, error_shares.get(name, 0.0)) > EXACT_TO
        },
    )


def compare_corpora(sampled: Path, exact: Path) -> Iterator[LabelComparison]:
    """Each sampled label of the first corpus beside that of the same run in the second."""
    full = {tuple(row[name] for name in KEY): row for row in Corpus.open(exact).measurements().to_pylist()}
    for row in Corpus.open(sampled).measurements().to_pylist():
        other = full.get(tuple(row[name] for name in KEY))
        if other is not None and row["sampling"] and row["sampling"]["strategy"] == "sampled":
            yield compare_labels(row, other)


def find_quantile(values: Sequence[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def format_row(arch: str, rows: Sequence[LabelComparison]) -> str:
    times = [abs(row.duration) for row in rows]
    metrics = [error for row in rows for error in row.metrics.values()]
    counter_checks = [both for row in rows for name, both in row.bounds_hold.items() if name != DURATION]
    duration_checks = [row.bounds_hold.get(DURATION, (True, True)) for row in rows]
    points = [row.hit_points for row in rows]
    cells = [
        arch,
        str(len(rows)),
        *(f"{100 * value:.2f} %" for value in (statistics.median(times), find_quantile(times, 0.95), max(times))),
        *(f"{100 * value:.2f} %" for value in (find_quantile(metrics, 0.95), max(metrics))),
        *(f"{value:.2f}" for value in (find_quantile(points, 0.95), max(points))),
        *(
            f"{100 * statistics.fmean(both[i] for both in of):.0f} %"
            for i in (0, 1)
            for of in (duration_checks, counter_checks)
        ),
    ]
    return f"| {' | '.join(cells)} |"


def print_tables(rows: Sequence[LabelComparison], worst: int) -> None:
    print("| architecture | sampled labels | duration: median | 95th | worst | 11 metrics: 95th | worst |", end=" ")
    print("hit rates, points: 95th | worst | own estimate holds durations | counters |", end=" ")
    print("printed bound holds durations | counters |")
    print("|---|" + "---:|" * 12)
    for arch in sorted({row.arch for row in rows}):
        print(format_row(arch, [row for row in rows if row.arch == arch]))
    for row in sorted(rows, key=lambda row: -abs(row.duration))[:worst]:
        print(f"{row.arch} {100 * row.duration:+.2f} % (stated {100 * row.stated:.2f} %) {row.name}")


def make_corpora(folder: Path, count: int, seed: int) -> tuple[Path, Path]:
    """The programs' corpora, sampled and in full."""

    def run_synth(*words: str) -> None:
        process = subprocess.run([sys.executable, "-m", "hipsynth.cli.main", *words], check=False, stdout=sys.stderr)
        if process.returncode != PartialFailure.exit_code:  # then the other programs have labels
            process.check_returncode()

    programs, sampled, exact = str(folder / "programs"), folder / "sampled", folder / "exact"
    run_synth("generate", "--count", str(count), "--seed", str(seed), "--out", programs)
    run_synth("profile", programs, "--out", str(sampled), "--flags=-O3")
    run_synth("profile", programs, "--out", str(exact), "--flags=-O3", "--exact", "--timeout", "900")
    return sampled, exact


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", nargs="*", type=Path, metavar="CORPUS", help="the sampled and the full one")
    parser.add_argument("--count", type=int, default=40)
    parser.add_argument("--seed", type=int, default=77)
    parser.add_argument("--worst", type=int, default=5, metavar="N", help="show the N labels that are furthest off")
    chosen = parser.parse_args()
    if len(chosen.corpora) == 2:
        print_tables(list(compare_corpora(*chosen.corpora)), chosen.worst)
        return
    with tempfile.TemporaryDirectory() as folder:
        print_tables(list(compare_corpora(*make_corpora(Path(folder), chosen.count, chosen.seed))), chosen.worst)


if __name__ == "__main__":
    main()
