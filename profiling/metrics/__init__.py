"""Metrics: definitions (metrics.toml), roofline, bottleneck analysis, and sampling uncertainty."""

from hipsynth.profiling.metrics.definitions import (
    DURATION,
    TABLE_PATH,
    MetricExpression,
    MetricTable,
    TableError,
    all_ids,
    answer_ids,
    compute,
    denormalise,
    evaluate_all,
    extra_ids,
    normalise,
    paper_ids,
    parse_table,
    table,
)

__all__ = [
    "DURATION",
    "TABLE_PATH",
    "MetricExpression",
    "MetricTable",
    "TableError",
    "all_ids",
    "answer_ids",
    "compute",
    "denormalise",
    "evaluate_all",
    "extra_ids",
    "normalise",
    "paper_ids",
    "parse_table",
    "table",
]
