"""Metrics: definitions (metrics.toml), roofline, bottleneck analysis, and sampling uncertainty."""

from hipsynth.profiling.metrics.definitions import (
    DURATION,
    TABLE_PATH,
    MetricExpression,
    MetricTable,
    TableError,
    all_ids,
    answer_ids,
    compute_metrics,
    denormalise_metric,
    evaluate_all,
    extra_ids,
    metric_table,
    normalise_metric,
    paper_ids,
    parse_table,
)

__all__ = [
    "DURATION",
    "TABLE_PATH",
    "MetricExpression",
    "MetricTable",
    "TableError",
    "all_ids",
    "answer_ids",
    "compute_metrics",
    "denormalise_metric",
    "evaluate_all",
    "extra_ids",
    "metric_table",
    "normalise_metric",
    "paper_ids",
    "parse_table",
]
