"""Metrics: their definitions (metrics.toml), the roofline, what limits a kernel, and how uncertain a figure is."""

from hipsynth.profiling.metrics.definitions import (
    DURATION,
    TABLE_PATH,
    Expression,
    Table,
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
    "Expression",
    "Table",
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
