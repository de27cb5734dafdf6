"""`synth stats`: count and describe the contents of a corpus."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hipsynth.cli.options import NamedPath, json_option
from hipsynth.cli.output import count_text, prepare_file, print_json
from hipsynth.core.languages import TRITON

if TYPE_CHECKING:
    from hipsynth.profiling.reports.documents import BinCoverage, CorpusStatistics, MetricQuantiles

EPILOG = """\b
Examples:
  synth stats corpus
  synth stats corpus --json
  synth stats corpus --html corpus.html
"""


@click.command(epilog=EPILOG)
@click.argument("corpus", type=NamedPath(readable=False, path_type=Path))
@click.option("--skip-damaged", is_flag=True, help="Leave damaged shards out instead of stopping.")
@click.option(
    "--html", "page", type=NamedPath(dir_okay=False, path_type=Path), help="Write a page with plots and examples, too."
)
@json_option
def command(corpus: Path, skip_damaged: bool, page: Path | None, as_json: bool) -> None:
    """Count the programs, measurements and failures of CORPUS, and show the distribution of its metrics."""
    from hipsynth.core.store import Corpus
    from hipsynth.profiling.reports.corpus_statistics import corpus_statistics

    prepare_file(page)
    opened = Corpus.open(corpus, skip_damaged=skip_damaged)
    for note in opened.notes:
        click.echo(f"note: {note}", err=True)
    statistics = corpus_statistics(opened)
    if page is not None:
        from hipsynth.core.files import write_whole
        from hipsynth.profiling.reports.corpus_page import corpus_page

        write_whole(page, corpus_page(opened, statistics))
    if as_json:
        print_json(statistics)
    else:
        click.echo("\n".join(_stat_lines(statistics)))


def _stat_lines(statistics: CorpusStatistics) -> Iterator[str]:
    programs, items = statistics.programs, statistics.measurements
    yield f"{statistics.corpus}: {count_text(programs.total, 'program')} of {count_text(programs.lineages, 'lineage')}"
    yield from _group_lines("origin", programs.by_origin)
    if len(programs.by_language) > 1 or TRITON in programs.by_language:
        yield from _group_lines("language", programs.by_language)
    yield from _group_lines("family", programs.by_family)
    yield f"{statistics.skeletons:,} control skeletons, {statistics.opcodes or 'no record of'} opcodes"
    yield f"{items.total:,} measurements, {items.kernels:,} kernels"
    yield from _group_lines("arch", items.by_arch)
    if len(items.by_language) > 1 or TRITON in items.by_language:
        yield from _group_lines("language", items.by_language)
    yield from _group_lines("flags", items.by_flags)
    yield from _group_lines("device", items.by_device)
    yield from _group_lines("backend", items.by_backend)
    yield from _limit_lines(statistics.bottlenecks)
    yield from _coverage_lines(statistics.covered)
    yield f"{statistics.failures.total:,} failures"
    yield from _group_lines("reason", statistics.failures.by_reason)
    copies = statistics.duplicates
    yield f"equal labels: {copies.same_lineage:,} within a lineage, {copies.other_lineage:,} across lineages"
    yield from _distribution_lines(statistics.metrics)
    for line in statistics.damaged:
        yield f"left out: {line}"


def _group_lines(name: str, counts: Mapping[str, int]) -> Iterator[str]:
    for value, count in counts.items():
        yield f"  {name:<8} {count:>8,}  {value or '(none)'}"


def _limit_lines(statistics: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """One line per limiting unit, one column per architecture."""
    from hipsynth.profiling.metrics.bottleneck import unit_name

    units = dict.fromkeys(unit for counts in statistics.values() for unit in counts)
    if units:
        yield "kernels limited by" + " " * 16 + "".join(f"{arch:>12}" for arch in statistics)
    for unit in units:
        cells = "".join(f"{counts.get(unit, 0):>12,}" for counts in statistics.values())
        yield f"  {unit_name(unit):<32}{cells}"


def _coverage_lines(statistics: Mapping[str, Mapping[str, BinCoverage]]) -> Iterator[str]:
    """One line per axis of the label space: bins with labels, and how many equally full ones would be as varied."""
    archs = sorted({arch for row in statistics.values() for arch in row})
    if archs:
        yield f"{'bins with labels (equally full)':<34}" + "".join(f"{arch:>16}" for arch in archs)
    for axis, row in statistics.items():
        if row:
            cells = (f"{row[arch].bins} ({row[arch].effective:.1f})" if arch in row else "-" for arch in archs)
            yield f"  {axis:<32}" + "".join(f"{cell:>16}" for cell in cells)


def _distribution_lines(rows: Mapping[str, MetricQuantiles]) -> Iterator[str]:
    from hipsynth.profiling import metrics

    facts = metrics.metric_table().metrics
    names = max(32, *(len(metric) + 2 for metric in rows)) if rows else 32
    yield f"{'metric':<{names}}{'unit':<20}" + "".join(
        f"{name:>12}" for name in ("p5", "p50", "p95", "zero", "unknown")
    )
    for metric, row in rows.items():
        unit = facts[metric].unit if metric in facts else ""
        values = "".join(f"{_value_text(value):>12}" for value in (row.p5, row.p50, row.p95))
        yield f"{metric:<{names}}{unit:<20}{values}{row.zero:>12,}{row.unknown:>12,}"


def _value_text(value: float | None) -> str:
    from hipsynth.profiling.reports.numbers import format_number

    return "-" if value is None else format_number(value)
