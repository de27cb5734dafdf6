"""How evenly a corpus covers the space of labels: what limits its kernels, and bins of their metrics.

The space has one axis for the bottleneck and one for each metric in AXES, for each architecture. A label is the kernel
of a run with the largest total time.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from hipsynth.core.store import StoredRow

RATES = ("L1_Cache_Hit_Rate", "L2_Cache_Hit_Rate")  # in percent: ten bins
LOGARITHMS = ("HBM_Arithmetic_Intensity", "HBM_GFLOPS", "L2_Cache_Bandwidth", "L2_Fabric_Read_BW")  # two bins a decade
AXES = ("bottleneck", *RATES, *LOGARITHMS)
ZERO = "0"
MOST = 8.0  # a bin counts as at most so many times too thin


def heaviest_kernels(rows: Iterable[StoredRow]) -> list[StoredRow]:
    """The label of each item: of its kernels, the one with the largest total time."""
    heaviest: dict[str, StoredRow] = {}
    for row in rows:
        best = heaviest.get(row["measurement_id"])
        if best is None or _total_time(row) > _total_time(best):
            heaviest[row["measurement_id"]] = row
    return list(heaviest.values())


def _total_time(row: StoredRow) -> float:
    return float(row["duration_ns"] * row["dispatches"])


def label_bins(row: StoredRow) -> dict[str, str]:
    """The bin of a label on every axis on which it has a value."""
    limits = row.get("limits")
    bins = {"bottleneck": str(limits["bottleneck"])} if limits else {}
    for name in RATES:
        if row.get(name) is not None:
            bins[name] = str(min(9, int(row[name] // 10)))
    for name in LOGARITHMS:
        if (value := row.get(name)) is not None:
            bins[name] = str(math.floor(2 * math.log10(value))) if value > 0 else ZERO + "."
    return bins


@dataclass
class LabelCoverage:
    """Labels per bin, by (architecture, axis)."""

    counts: dict[tuple[str, str], Counter[str]] = field(default_factory=dict)

    def add(self, row: StoredRow) -> None:
        """Counts a label."""
        for axis, name in label_bins(row).items():
            self.counts.setdefault((row["arch"], axis), Counter())[name] += 1

    def effective_bins(self, arch: str, axis: str) -> float:
        """How many equally full bins would be as varied: the exponential of the entropy."""
        counts = self.counts.get((arch, axis), Counter())
        total = counts.total()
        return math.exp(-sum(n / total * math.log(n / total) for n in counts.values())) if total else 0.0

    def score_rarity(self, row: StoredRow) -> float:
        """How welcome more labels like this one are, 1 if all bins are equally full: the mean over the axes of how many
        times thinner its bin, with half of its neighbours, is than the average one."""
        rarities = [self._bin_thinness(row["arch"], axis, name) for axis, name in label_bins(row).items()]
        return sum(rarities) / len(rarities) if rarities else 1.0

    def _bin_thinness(self, arch: str, axis: str, name: str) -> float:
        counts = self.counts[arch, axis]
        densities = {each: self._bin_density(counts, axis, each) for each in counts}
        average = sum(densities.values()) / len(densities)
        return min(MOST, average / densities[name])

    def _bin_density(self, counts: Counter[str], axis: str, name: str) -> float:
        if axis == "bottleneck" or name.endswith("."):
            return counts[name]
        return (2 * counts[name] + counts[str(int(name) - 1)] + counts[str(int(name) + 1)]) / 4


def measure_coverage(rows: Iterable[StoredRow]) -> LabelCoverage:
    """The coverage of labels."""
    coverage = LabelCoverage()
    for row in rows:
        coverage.add(row)
    return coverage
