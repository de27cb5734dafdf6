"""Statistics of a corpus: counts, failures, duplicates, and the distribution of its metrics."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from hipsynth.core.store import Corpus
from hipsynth.profiling import metrics
from hipsynth.profiling.reports.coverage import AXES, heaviest_kernels, measure_coverage
from hipsynth.profiling.reports.documents import (
    BinCoverage,
    CorpusStatistics,
    DuplicateCounts,
    FailureCounts,
    MeasurementCounts,
    MetricQuantiles,
    ProgramCounts,
)
from hipsynth.source.skeletons import control_skeleton

QUANTILES = (0.0, 0.05, 0.25, 0.5, 0.75, 0.95, 1.0)  # those of MetricQuantiles


def corpus_statistics(corpus: Corpus) -> CorpusStatistics:
    """Counts and describes a corpus."""
    programs, rows, failures = corpus.programs(), corpus.measurements(), corpus.failures()
    items = rows.group_by(["measurement_id", "arch", "language", "flags", "device", "backend"]).aggregate([])
    return CorpusStatistics(
        corpus=str(corpus.root),
        schema_version=corpus.manifest.schema_version,
        programs=ProgramCounts(
            total=programs.num_rows,
            by_origin=_count_values(programs, "origin"),
            by_language=_count_values(programs, "language"),
            by_family=_count_families(programs),
            lineages=len(set(programs["lineage"].to_pylist())),
        ),
        measurements=MeasurementCounts(
            total=items.num_rows,
            kernels=rows.num_rows,
            by_arch=_count_values(items, "arch"),
            by_language=_count_values(items, "language"),
            by_flags=_count_values(items, "flags"),
            by_device=_count_values(items, "device"),
            by_backend=_count_values(items, "backend"),
        ),
        labels=rows.num_rows,
        skeletons=len({control_skeleton(text) for text in set(programs["text"].to_pylist()) if text}),
        opcodes=len(corpus.opcodes()),
        bottlenecks=count_bottlenecks(rows),
        covered=label_space_coverage(rows),
        failures=FailureCounts(failures.num_rows, _count_values(failures, "reason")),
        duplicates=count_duplicates(rows),
        metrics={metric: metric_quantiles(rows, metric) for metric in metrics.all_ids() if metric in corpus.metric_ids},
        damaged=tuple(corpus.damaged),
        notes=tuple(corpus.notes),
    )


def count_bottlenecks(rows: pa.Table) -> dict[str, dict[str, int]]:
    """Per architecture, how many simulated kernels each unit limits, most frequent first."""
    by_arch: dict[str, Counter[str]] = {}
    for arch, limits in zip(rows["arch"].to_pylist(), rows["limits"].to_pylist(), strict=True):
        if limits:
            by_arch.setdefault(arch, Counter())[limits["bottleneck"]] += 1
    return {
        arch: dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))
        for arch, counts in sorted(by_arch.items())
    }


def _count_families(programs: pa.Table) -> dict[str, int]:
    """How often each family occurs, its compositions together."""
    families = Counter(family.partition("/")[0] for family in programs["family"].to_pylist())
    return dict(sorted(families.items(), key=lambda pair: (-pair[1], pair[0])))


def label_space_coverage(rows: pa.Table) -> dict[str, dict[str, BinCoverage]]:
    """Per axis of the label space and architecture: how many bins have labels, and how many equally full bins would be
    as varied. A label is the heaviest kernel of an item."""
    coverage = measure_coverage(heaviest_kernels(rows.to_pylist()))
    archs = sorted({arch for arch, _ in coverage.counts})
    return {
        axis: {
            arch: BinCoverage(len(coverage.counts[arch, axis]), round(coverage.effective_bins(arch, axis), 2))
            for arch in archs
            if (arch, axis) in coverage.counts
        }
        for axis in AXES
    }


def _count_values(table: pa.Table, column: str) -> dict[str, int]:
    """How often each value occurs, most frequent first."""
    counts = Counter(value or "" for value in table[column].to_pylist())
    return dict(sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])))


def metric_quantiles(rows: pa.Table, metric: str) -> MetricQuantiles:
    """Quantiles of a metric over kernels, and its numbers of unknown and zero values."""
    values = np.array([value for value in rows[metric].to_pylist() if value is not None], dtype=float)
    quantiles = (float(np.quantile(values, share)) if len(values) else None for share in QUANTILES)
    return MetricQuantiles(rows.num_rows - len(values), int((values == 0).sum()), *quantiles)


def count_duplicates(rows: pa.Table) -> DuplicateCounts:
    """Numbers of kernels whose twelve metrics equal those of an earlier one on the same target: within and across
    lineages."""
    keys = ["lineage", "arguments", "arch", "flags", "device", "kernel_index", *metrics.paper_ids()]
    key_columns = [key for key in keys if key in rows.column_names]
    columns: list[list[object]] = [rows[key].to_pylist() for key in key_columns]
    same_lineage = Counter(zip(*columns, strict=True))
    anywhere = Counter(key[1:] for key in zip(*columns, strict=True))
    within = sum(count - 1 for count in same_lineage.values())
    return DuplicateCounts(within, sum(count - 1 for count in anywhere.values()) - within)
