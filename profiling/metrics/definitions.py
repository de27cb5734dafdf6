"""The metric table (metrics.toml): evaluation of its formulas from counters, and the paper's normalisation."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from hipsynth.core.errors import UsageError
from hipsynth.core.expressions import FormulaError, Node, evaluate_expression, iterate_names, parse_expression

TABLE_PATH = Path(__file__).with_name("metrics.toml")
DURATION = "duration_ns"
THROUGHPUT = "HBM_GFLOPS"
# The three throughputs of the paper are one number: tables for people have it once, under a name that says so.
EQUAL_TO_THROUGHPUT = frozenset({"L1_Cache_GFLOPS", "L2_Cache_GFLOPS"})
THROUGHPUT_NAME, THROUGHPUT_TITLE = "L1/L2/HBM_GFLOPS", "L1/L2/HBM GFLOPS"
_EXPRESSION_KEYS = {"title", "unit", "formula", "doc", "source"}
_METRIC_KEYS = _EXPRESSION_KEYS | {"kind", "better", "level", "range", "scale", "own"}
_COUNTER_KEYS = {"doc", "show", "archs"}


class TableError(ValueError):
    """metrics.toml is inconsistent; the message names the row."""


@dataclass(frozen=True)
class Counter:
    """A hardware counter, summed over instances, named without `_sum`. `archs` lists architectures that have it."""

    id: str
    doc: str
    show: bool
    archs: tuple[str, ...]


@dataclass(frozen=True)
class MetricExpression:
    """A named sub-expression. `formula` and `text` map each architecture to the parsed tree and the source text."""

    id: str
    title: str
    unit: str
    formula: Mapping[str, Node]
    text: Mapping[str, str]
    doc: str
    source: str


@dataclass(frozen=True)
class Metric(MetricExpression):
    """One metric. Value / `scale` is in the paper's 0..1 range; None if the paper does not have the metric. `own`: this
    project defines it, not the vendor's tools."""

    kind: str  # hit_rate | bandwidth | intensity | throughput | time | utilisation | conflict_rate
    better: str  # higher | lower
    level: str  # L1 | L2 | HBM | LDS | kernel
    range: tuple[float, float]
    scale: float | None
    own: bool

    @property
    def is_simulator_only(self) -> bool:
        """Whether it needs counters that hardware does not have."""
        return any("EXACT_" in text for text in self.text.values())


@dataclass(frozen=True)
class MetricTable:
    """The validated content of metrics.toml: no unknown names, no cycles, a formula for every architecture."""

    version: int
    archs: tuple[str, ...]
    counters: Mapping[str, Counter]
    others: Mapping[str, Counter]  # reported by the simulator, used by no formula
    expressions: Mapping[str, MetricExpression]
    metrics: Mapping[str, Metric]
    answer_order: tuple[str, ...]  # the twelve, as printed in the paper's Figure 3
    table_order: tuple[str, ...]  # the twelve, as in the paper's Table 4


@cache
def metric_table() -> MetricTable:
    """The validated metric table of this installation."""
    with TABLE_PATH.open("rb") as file:
        return parse_table(tomllib.load(file))


def paper_ids() -> tuple[str, ...]:
    """The twelve metrics of the paper, in the order of its accuracy table."""
    return metric_table().table_order


def shown_ids() -> tuple[str, ...]:
    """The paper's metrics as tables for people have them: the three equal throughputs once."""
    return tuple(metric for metric in paper_ids() if metric not in EQUAL_TO_THROUGHPUT)


def display_name(metric: str) -> str:
    """A metric's name in terminals and editors: its id, or that of the three equal throughputs."""
    return THROUGHPUT_NAME if metric == THROUGHPUT else metric


def display_title(metric: str) -> str:
    """A metric's title on pages, in the same words as its name."""
    return THROUGHPUT_TITLE if metric == THROUGHPUT else metric_table().metrics[metric].title


def is_hit_rate(metric: str) -> bool:
    """Whether a metric is a hit rate in per cent, whose errors are counted in points."""
    row = metric_table().metrics.get(metric)
    return row is not None and row.kind == "hit_rate"


def answer_ids() -> tuple[str, ...]:
    """The twelve metrics of the paper, in the order of its printed answer."""
    return metric_table().answer_order


def all_ids() -> tuple[str, ...]:
    """Every metric: the paper's twelve, then the extra columns."""
    return tuple(metric_table().metrics)


def extra_ids() -> tuple[str, ...]:
    """The metrics other than the paper's twelve."""
    return tuple(metric for metric in all_ids() if metric not in paper_ids())


def compute_metrics(
    counters: Mapping[str, float], duration_ns: float, arch: str, only: Sequence[str] | None = None
) -> dict[str, float | None]:
    """Metric id -> value in physical units, None if a counter is missing or a divisor is zero; by default all.

    `counters` and `duration_ns` are values of one dispatch, or means per dispatch.
    Raises UsageError for an architecture without formulas.
    """
    facts = metric_table()
    if arch not in facts.archs:
        raise UsageError(f"no metric formulas for {arch!r}", remedy=f"one of: {', '.join(facts.archs)}")
    return evaluate_all(facts, counters, duration_ns, arch, only)


def evaluate_all(
    facts: MetricTable, counters: Mapping[str, float], duration_ns: float, arch: str, only: Sequence[str] | None = None
) -> dict[str, float | None]:
    """`compute_metrics` for any validated table; evaluates each name once."""
    values_by_id: dict[str, float | None] = {}
    rows: dict[str, MetricExpression] = {**facts.expressions, **facts.metrics}

    def lookup(name: str) -> float | None:
        if name == DURATION:
            return float(duration_ns)
        if name in rows:
            if name not in values_by_id:
                values_by_id[name] = evaluate_expression(rows[name].formula[arch], lookup)
            return values_by_id[name]
        value = counters.get(name)
        return None if value is None else float(value)

    return {metric: lookup(metric) for metric in only or facts.metrics}


def normalise_metric(metric_id: str, value: float | None) -> float | None:
    """Physical value -> fraction of the paper's Table 2 range, not clipped. Raises UsageError without a scale."""
    return None if value is None else value / _metric_scale(metric_id)


def denormalise_metric(metric_id: str, value: float | None) -> float | None:
    """The inverse of `normalise_metric`."""
    return None if value is None else value * _metric_scale(metric_id)


def _metric_scale(metric_id: str) -> float:
    metric = metric_table().metrics.get(metric_id)
    if metric is None or metric.scale is None:
        scaled = ", ".join(metric_table().table_order)
        raise UsageError(f"metric {metric_id!r} has no normalisation scale", remedy=f"one of: {scaled}")
    return metric.scale


def parse_table(data: Mapping[str, Any]) -> MetricTable:
    """Validates the parsed TOML document and builds the table; raises TableError naming the first invalid row."""
    archs = tuple(data["archs"])
    counters = {key: _parse_counter(key, row, archs) for key, row in data["counters"].items()}
    others = {key: _parse_counter(key, row, archs) for key, row in data.get("others", {}).items()}
    if twice := set(counters) & set(others):
        raise TableError(f"others.{min(twice)}: two rows carry this name")
    expressions = {key: _parse_expression_row(key, row, archs) for key, row in data["expressions"].items()}
    metrics = {key: _parse_metric(key, row, archs) for key, row in data["metrics"].items()}
    facts = MetricTable(
        version=data["version"],
        archs=archs,
        counters=counters,
        others=others,
        expressions=expressions,
        metrics=metrics,
        answer_order=tuple(data["paper"]["answer_order"]),
        table_order=tuple(data["paper"]["table_order"]),
    )
    _check_names(facts)
    for arch in archs:
        _check_cycles(facts, arch)
    _check_orders(facts)
    return facts


def _parse_counter(key: str, row: Mapping[str, Any], archs: tuple[str, ...]) -> Counter:
    _check_keys(f"counters.{key}", row, _COUNTER_KEYS, {"doc"})
    return Counter(key, row["doc"], bool(row.get("show", False)), tuple(row.get("archs", archs)))


def _parse_formulas(
    where: str, row: Mapping[str, Any], archs: tuple[str, ...]
) -> tuple[dict[str, Node], dict[str, str]]:
    formulas: Mapping[str, str] = row["formula"]
    for key in formulas:
        if key != "any" and key not in archs:
            raise TableError(f"{where}: formula for unknown architecture {key!r}")
    text = {}
    for arch in archs:
        source = formulas.get(arch, formulas.get("any"))
        if source is None:
            raise TableError(f"{where}: no formula for {arch}")
        text[arch] = " ".join(source.split())
    try:
        return {arch: parse_expression(source) for arch, source in text.items()}, text
    except FormulaError as error:
        raise TableError(f"{where}: {error}") from error


def _parse_expression_row(key: str, row: Mapping[str, Any], archs: tuple[str, ...]) -> MetricExpression:
    where = f"expressions.{key}"
    _check_keys(where, row, _EXPRESSION_KEYS, _EXPRESSION_KEYS)
    formula, text = _parse_formulas(where, row, archs)
    return MetricExpression(key, row["title"], row["unit"], formula, text, row["doc"], row["source"])


def _parse_metric(key: str, row: Mapping[str, Any], archs: tuple[str, ...]) -> Metric:
    where = f"metrics.{key}"
    _check_keys(where, row, _METRIC_KEYS, _METRIC_KEYS - {"scale", "own"})
    formula, text = _parse_formulas(where, row, archs)
    low, high = row["range"]
    return Metric(
        id=key,
        title=row["title"],
        unit=row["unit"],
        formula=formula,
        text=text,
        doc=row["doc"],
        source=row["source"],
        kind=row["kind"],
        better=row["better"],
        level=row["level"],
        range=(float(low), float(high)),
        scale=float(row["scale"]) if "scale" in row else None,
        own=bool(row.get("own", False)),
    )


def _check_keys(where: str, row: Mapping[str, Any], allowed: set[str], required: set[str]) -> None:
    for key in row:
        if key not in allowed:
            raise TableError(f"{where}: unknown key {key!r}")
    for key in sorted(required):
        if key not in row:
            raise TableError(f"{where}: {key} is missing")


def _check_names(facts: MetricTable) -> None:
    """Checks that formulas use only counters of their architecture, expressions, metrics and the duration."""
    rows: dict[str, MetricExpression] = {**facts.expressions, **facts.metrics}
    clashes = set(facts.expressions) & set(facts.metrics) | set(rows) & set(facts.counters) | set(rows) & {DURATION}
    if clashes:
        raise TableError(f"{min(clashes)}: two rows carry this name")
    for row in rows.values():
        for arch, node in row.formula.items():
            for name in iterate_names(node):
                counter = facts.counters.get(name)
                if name not in rows and name != DURATION and counter is None:
                    raise TableError(f"{row.id}: unknown name {name!r} in its {arch} formula")
                if counter is not None and arch not in counter.archs:
                    raise TableError(f"{row.id}: counter {name} does not exist on {arch}")


def _check_cycles(facts: MetricTable, arch: str) -> None:
    rows: dict[str, MetricExpression] = {**facts.expressions, **facts.metrics}
    finished: set[str] = set()

    def visit(key: str, path: tuple[str, ...]) -> None:
        if key in path:
            raise TableError(f"{key}: formulas refer to each other in a circle: {' -> '.join((*path, key))}")
        if key in finished or key not in rows:
            return
        for name in iterate_names(rows[key].formula[arch]):
            visit(name, (*path, key))
        finished.add(key)

    for key in rows:
        visit(key, ())


def _check_orders(facts: MetricTable) -> None:
    scaled = {key for key, metric in facts.metrics.items() if metric.scale is not None}
    for label, order in (("answer_order", facts.answer_order), ("table_order", facts.table_order)):
        if len(set(order)) != len(order) or set(order) != scaled:
            raise TableError(f"paper.{label}: must list exactly the metrics that have a scale, each once")
