"""What a large corpus takes in time and money, from measured label speeds.

    python benchmarks/label_speed.py --count 60 --sizes 4 --json > labels.json
    python benchmarks/corpus_cost.py labels.json --programs 60 [--price DOLLARS] [--cores N]...

Prints a Markdown table. Of each device, label_speed gives the time of a label and compiling's share of it; a build is
compiled once for all its labels, so with b builds and n labels in t seconds of which a share c is compiling:

    seconds of a build = c t / b        seconds of a run = (1 - c) t / n
    core hours of a corpus = (builds * seconds of a build + labels * seconds of a run) / 3600

with the mean over the devices. Jobs are independent, so N cores take 1/N of the time. PRICE is that of a core hour.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CORPORA = (  # name, builds, labels
    ("955,000 builds, one label each", 955_000, 955_000),
    ("955,000 builds, four sizes each", 955_000, 3_820_000),
    ("10 million labels, four sizes a build", 2_500_000, 10_000_000),
)


@dataclass(frozen=True)
class CorpusCosts:
    """Seconds of one core for a build and for a run."""

    build_s: float
    run_s: float

    def compute_core_hours(self, builds: int, labels: int) -> float:
        return (builds * self.build_s + labels * self.run_s) / 3600


def compute_costs(devices: Mapping[str, Mapping[str, Any]], programs: int) -> CorpusCosts:
    """The mean over devices; `devices` is the table `labels` of label_speed, measured on this many programs."""
    figures = []
    for row in devices.values():
        labels, share = row["labels"], row["share"].get("compiling", 0.0)
        total = labels / row["labels_per_s"]
        figures.append((share * total / programs, (1 - share) * total / labels))
    return CorpusCosts(sum(b for b, _ in figures) / len(figures), sum(r for _, r in figures) / len(figures))


def render_table(costs: CorpusCosts, cores: Sequence[int], price: float) -> str:
    """The Markdown table: a row per corpus."""
    days = " | ".join(f"days on {n} cores" for n in cores)
    lines = [f"| corpus | core hours | {days} | at ${price:g} a core hour |", "|---|---|" + "---|" * (len(cores) + 1)]
    for name, builds, labels in CORPORA:
        hours = costs.compute_core_hours(builds, labels)
        times = " | ".join(f"{hours / 24 / n:,.1f}" for n in cores)
        lines.append(f"| {name} | {hours:,.0f} | {times} | ${hours * price:,.0f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("labels", type=Path, help="what `label_speed.py --json` printed")
    parser.add_argument("--programs", type=int, required=True, help="its --count")
    parser.add_argument("--price", type=float, default=0.04, help="dollars for a core hour (default: 0.04)")
    parser.add_argument("--cores", type=int, action="append", help="repeatable (default: 2, 96, 1000)")
    options = parser.parse_args()
    cost = compute_costs(json.loads(options.labels.read_text())["labels"], options.programs)
    print(f"{cost.build_s:.2f} s for a build, {cost.run_s:.2f} s for a run, on one core\n")
    print(render_table(cost, options.cores or [2, 96, 1000], options.price))


if __name__ == "__main__":
    main()
