"""A corpus as one HTML page that needs nothing else: distributions, rooflines, bottlenecks, and an example of each.

Python counts (this module), the page draws (web/corpus.js with web/roofline.js). The content security policy names the
hashes of both, so that no text of a corpus can become code.
"""

from __future__ import annotations

import base64
import hashlib
import html
import itertools
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.documents import to_json
from hipsynth.core.errors import BadInput
from hipsynth.core.store import Corpus, StoredRow
from hipsynth.profiling import metrics
from hipsynth.profiling.metrics import roofline
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.profiling.metrics.roofline import RooflinePlot
from hipsynth.profiling.reports.documents import CorpusStatistics
from hipsynth.profiling.reports.html_parts import WEB, embed_json, roofline_script

CELLS = 5  # of a roofline plot, per decade and axis
LOOKED_AT = 1000  # labels of a bin among which an example is looked for
SHOWN_METRICS = (*metrics.paper_ids(), "VALU_Active_Threads", "IPC", "LDS_Bank_Conflict_Rate")

# Charts: (title, unit, value of a row, bins per decade; 0: ten bins of a percentage)
CHARTS: tuple[tuple[str, str, str, int], ...] = (
    ("Kernel time", "ns", "duration_ns", 2),
    ("Work-items of a launch", "", "work_items", 2),
    ("L1 hit rate", "%", "L1_Cache_Hit_Rate", 0),
    ("L2 hit rate", "%", "L2_Cache_Hit_Rate", 0),
    ("Intensity at HBM", "FLOP/B", "HBM_Arithmetic_Intensity", 2),
    ("Performance", "GFLOP/s", "HBM_GFLOPS", 2),
    ("L2 bandwidth", "GB/s", "L2_Cache_Bandwidth", 2),
    ("Fabric read bandwidth", "GB/s", "L2_Fabric_Read_BW", 2),
)
COLUMNS = ("program_id", "arguments", "arch", "device", "flags", "family", "kernel", "dispatches", "grid", "block")


@dataclass(frozen=True)
class CountBar:
    """How many kernels, their share of those of the architecture, and the number of an example."""

    share: float
    count: int
    example: int


@dataclass(frozen=True)
class LimitRow:
    """The kernels that a unit limits, by architecture."""

    name: str
    cells: Mapping[str, CountBar]


@dataclass(frozen=True)
class BottleneckShares:
    """Rows of limits with the share of kernels that each limits, one column per architecture."""

    archs: tuple[str, ...]
    rows: tuple[LimitRow, ...]


@dataclass(frozen=True)
class HistogramChart:
    """A histogram: the ends of its bins, and by architecture the bars of the bins that hold something."""

    title: str
    unit: str
    ends: tuple[tuple[float, float], ...]
    bars: Mapping[str, Mapping[int, CountBar]]


@dataclass(frozen=True)
class RooflineCell:
    """A cell of the roofline's density plot: column and row, how many kernels lie in it, the number of one."""

    x: int
    y: int
    count: int
    example: int


@dataclass(frozen=True)
class RooflineCells:
    """A device's roofs, and the cells of its plot that hold kernels, by memory level."""

    document: RooflinePlot
    per_decade: int
    cells: Mapping[str, tuple[RooflineCell, ...]]


@dataclass(frozen=True)
class ExampleLabel:
    """A label in full: facts in words and numbers, and the values of SHOWN_METRICS."""

    facts: Mapping[str, str | float]
    metrics: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class PageData:
    """What the page draws. `metrics`: title and unit of each of SHOWN_METRICS; `sources`: texts of programs by id."""

    metrics: tuple[tuple[str, str], ...]
    totals: tuple[tuple[str, int], ...]
    families: Mapping[str, int]
    bottlenecks: BottleneckShares
    rooflines: tuple[RooflineCells, ...]
    charts: tuple[HistogramChart, ...]
    examples: tuple[ExampleLabel, ...]
    sources: Mapping[str, str]


def corpus_page(corpus: Corpus, statistics: CorpusStatistics) -> str:
    """The page of a corpus; `statistics` is its document (corpus_statistics). Raises BadInput if it has no label."""
    rows = _shown_rows(corpus)
    if not rows:
        raise BadInput(f"{corpus.root}: no label to show", remedy="profile programs into it first")
    examples = _Examples(corpus, rows)
    table = metrics.metric_table().metrics
    data = PageData(
        metrics=tuple((table[name].title, table[name].unit) for name in SHOWN_METRICS),
        totals=_corpus_totals(statistics),
        families=statistics.programs.by_family,
        bottlenecks=_bottleneck_shares(rows, examples),
        rooflines=tuple(_roofline_cells(device, rows, examples) for device in sorted({row["device"] for row in rows})),
        charts=tuple(_build_chart(*chart, rows, examples) for chart in CHARTS),
        examples=examples.documents(),
        sources=examples.sources(),
    )
    return _assemble_page(corpus.root.name, data)


def _shown_rows(corpus: Corpus) -> Sequence[StoredRow]:
    table = corpus.measurements()
    wanted = [*COLUMNS, "duration_ns", "limits", *SHOWN_METRICS]
    rows: list[StoredRow] = table.select([name for name in wanted if name in table.column_names]).to_pylist()
    return [{**row, "work_items": math.prod(row["grid"]) * math.prod(row["block"])} for row in rows]


def _corpus_totals(statistics: CorpusStatistics) -> tuple[tuple[str, int], ...]:
    """The totals at the top of the page; entries that the corpus does not record are left out."""
    counts = (
        ("programs", statistics.programs.total),
        ("lineages", statistics.programs.lineages),
        ("control skeletons", statistics.skeletons),
        ("runs", statistics.measurements.total),
        ("labels", statistics.labels),
        ("opcodes", statistics.opcodes),
        ("failed runs", statistics.failures.total),
    )
    return tuple((name, count) for name, count in counts if count)


class _Examples:
    """The labels that the page shows in full: one for each thing to click on, of as few programs as it takes."""

    def __init__(self, corpus: Corpus, rows: Sequence[StoredRow]) -> None:
        self._corpus, self._rows = corpus, rows
        self._chosen: dict[int, int] = {}  # number of a row -> number of the example
        self._programs: set[str] = set()

    def of(self, numbers: Sequence[int]) -> int:
        """The number of an example among these rows."""
        near = numbers[:LOOKED_AT]
        chosen_numbers = (number for number in near if number in self._chosen)
        related = (number for number in near if self._rows[number]["program_id"] in self._programs)
        number = next(itertools.chain(chosen_numbers, related), numbers[0])
        self._programs.add(self._rows[number]["program_id"])
        return self._chosen.setdefault(number, len(self._chosen))

    def documents(self) -> tuple[ExampleLabel, ...]:
        """The examples in order of their numbers."""
        return tuple(_example_label(self._rows[number]) for number in self._chosen)

    def sources(self) -> dict[str, str]:
        """The source of each program that the examples show."""
        programs = self._corpus.programs().select(["id", "text"]).to_pylist()
        return {row["id"]: row["text"] for row in programs if row["id"] in self._programs}


def _example_label(row: StoredRow) -> ExampleLabel:
    names = ("program_id", "family", "kernel", "device", "flags", "arguments", "dispatches")
    shape = {name: " x ".join(map(str, row[name])) for name in ("grid", "block")}
    limit = {"limited by": unit_name(row["limits"]["bottleneck"])} if row["limits"] else {}
    facts = {**{name: row[name] for name in names}, **shape, **limit, "ns": row["duration_ns"]}
    return ExampleLabel(facts, tuple(_round_value(row.get(name)) for name in SHOWN_METRICS))


def _round_value(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.4g}")


def _bottleneck_shares(rows: Sequence[StoredRow], examples: _Examples) -> BottleneckShares:
    """Per unit and architecture: the share of the kernels that it limits, and an example."""
    shares: dict[str, dict[str, list[int]]] = {}
    for number, row in enumerate(rows):
        if row["limits"]:
            shares.setdefault(row["limits"]["bottleneck"], {}).setdefault(row["arch"], []).append(number)
    totals = Counter(row["arch"] for row in rows if row["limits"])
    units = sorted(shares, key=lambda unit: -sum(map(len, shares[unit].values())))
    limits = tuple(
        LimitRow(
            unit_name(unit),
            {arch: _build_bar(len(ns) / totals[arch], ns, examples) for arch, ns in shares[unit].items()},
        )
        for unit in units
    )
    return BottleneckShares(tuple(sorted(totals)), limits)


def _build_bar(share: float, numbers: Sequence[int], examples: _Examples) -> CountBar:
    return CountBar(share, len(numbers), examples.of(numbers))


def _build_chart(
    title: str, unit: str, name: str, per_decade: int, rows: Sequence[StoredRow], examples: _Examples
) -> HistogramChart:
    """A histogram by architecture: bins with their ends, the share of the kernels in each, and an example."""
    counts: dict[str, dict[int, list[int]]] = {}
    for number, row in enumerate(rows):
        value = row.get(name)
        if value is not None and (value > 0 or not per_decade):
            place = math.floor(per_decade * math.log10(value)) if per_decade else min(9, int(value // 10))
            counts.setdefault(row["arch"], {}).setdefault(place, []).append(number)
    places = sorted({place for bins in counts.values() for place in bins})
    ends = [_bin_ends(place, per_decade) for place in range(places[0], places[-1] + 1)] if places else []
    totals = {arch: sum(map(len, bins.values())) for arch, bins in counts.items()}
    bars = {
        arch: {
            place - places[0]: _build_bar(len(ns) / totals[arch], ns, examples) for place, ns in sorted(bins.items())
        }
        for arch, bins in sorted(counts.items())
    }
    return HistogramChart(title, unit, tuple(ends), bars)


def _bin_ends(place: int, per_decade: int) -> tuple[float, float]:
    if per_decade:
        return 10 ** (place / per_decade), 10 ** ((place + 1) / per_decade)
    return 10 * place, 10 * (place + 1)


def _roofline_cells(device: str, rows: Sequence[StoredRow], examples: _Examples) -> RooflineCells:
    """The roofs of a device, and how many of its kernels lie in each cell of the plot, by memory level."""
    cells: dict[str, dict[tuple[int, int], list[int]]] = {level: {} for level in roofline.LEVELS}
    for number, row in enumerate(rows):
        gflops = row.get(roofline.THROUGHPUT)
        for level, (_, intensity) in roofline.LEVELS.items():
            if row["device"] == device and gflops and row.get(intensity):
                cells[level].setdefault((_cell_index(row[intensity]), _cell_index(gflops)), []).append(number)
    points = {
        level: tuple(RooflineCell(x, y, len(ns), examples.of(ns)) for (x, y), ns in sorted(cell.items()))
        for level, cell in cells.items()
    }
    return RooflineCells(roofline.plot_kernels(device, []), CELLS, points)


def _cell_index(value: float) -> int:
    return math.floor(CELLS * math.log10(value))


def _assemble_page(name: str, data: PageData) -> str:
    """The page with its style, script and data inlined, and a policy that allows these alone."""
    script = roofline_script() + (WEB / "corpus.js").read_text()
    style = (WEB / "corpus.css").read_text()
    allowed = f"script-src {_script_hash(script)}; style-src {_script_hash(style)}"
    parts = {
        "@@POLICY@@": f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'",
        "@@NAME@@": html.escape(name),
        "@@STYLE@@": style,
        "@@SCRIPT@@": script,
        "@@DATA@@": embed_json(to_json(data)),
    }
    return _fill_template((WEB / "corpus.html").read_text(), parts)


def _fill_template(text: str, parts: Mapping[str, str]) -> str:
    """Fills the placeholders of the template; inserted text is not searched for placeholders."""
    pieces: Iterable[str] = re.split("(" + "|".join(map(re.escape, parts)) + ")", text)
    return "".join(parts.get(piece, piece) for piece in pieces)


def _script_hash(text: str) -> str:
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
