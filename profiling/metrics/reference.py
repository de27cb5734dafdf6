"""Writes docs/reference/metrics.md: `python -m hipsynth.profiling.metrics.reference [--check]`."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from hipsynth.profiling import metrics

DOC_PATH = Path(__file__).resolve().parents[2] / "docs" / "reference" / "metrics.md"


def render_page() -> str:
    """The page as Markdown."""
    return "\n".join(_page_lines()) + "\n"


def _page_lines() -> Iterator[str]:
    facts = metrics.metric_table()
    yield "# Metrics"
    yield ""
    yield "Generated from `profiling/metrics/metrics.toml` by `python -m hipsynth.profiling.metrics.reference`."
    yield ""
    yield "Counters are summed over instances and are means per dispatch; `duration_ns` is the kernel's mean duration"
    yield "in ns, so bytes per ns are GB/s and FLOPs per ns are GFLOP/s. A metric is unknown (`null`) if a counter is"
    yield "missing or a divisor is zero. A value divided by the scale is in the range of the paper's Table 2."
    yield ""
    yield "| metric | title | unit | level | better | scale |"
    yield "|---|---|---|---|---|---|"
    for row in facts.metrics.values():
        scale = f"{row.scale:g}" if row.scale is not None else "-"
        yield f"| `{row.id}` | {row.title} | {row.unit} | {row.level} | {row.better} | {scale} |"
    yield ""
    yield "## Formulas"
    for row in facts.metrics.values():
        yield from _formula_lines(row)
    yield ""
    yield "## Named sub-expressions"
    for expression in facts.expressions.values():
        yield from _formula_lines(expression)
    yield ""
    yield "## Counters"
    yield ""
    yield "| counter | architectures | meaning |"
    yield "|---|---|---|"
    for counter in facts.counters.values():
        yield f"| `{counter.id}` | {', '.join(counter.archs)} | {counter.doc} |"


def _formula_lines(row: metrics.MetricExpression) -> Iterator[str]:
    yield ""
    yield f"### `{row.id}`"
    yield ""
    yield f"{row.doc} Unit: {row.unit}. Source: {row.source}."
    yield ""
    texts = dict(row.text)
    if len(set(texts.values())) == 1:
        yield f"    {next(iter(texts.values()))}"
    else:
        for arch, text in texts.items():
            yield f"    {arch}: {text}"


def main(arguments: list[str]) -> int:
    """Writes the page; with --check only compares it, and returns 1 if it is stale."""
    if "--check" in arguments:
        fresh = DOC_PATH.exists() and DOC_PATH.read_text() == render_page()
        print("fresh" if fresh else f"{DOC_PATH} is stale: run python -m hipsynth.profiling.metrics.reference")
        return 0 if fresh else 1
    DOC_PATH.parent.mkdir(parents=True, exist_ok=True)
    DOC_PATH.write_text(render_page())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
