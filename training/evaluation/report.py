"""Writes one self-contained HTML report of a corpus and optionally of a model."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from hipsynth.core.documents import to_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import whole_file
from hipsynth.core.store import Corpus
from hipsynth.profiling import metrics as table
from hipsynth.profiling.metrics import roofline
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.profiling.reports.corpus_statistics import count_bottlenecks
from hipsynth.profiling.reports.html_parts import embed_json, roofline_script
from hipsynth.profiling.reports.numbers import format_number
from hipsynth.profiling.uncertainty import expected_error
from hipsynth.simulator.devices import load_device
from hipsynth.source.model_view import view_source
from hipsynth.training.data.dataset import LabelledSample, load_samples
from hipsynth.training.evaluation.charts import category_colour, svg_histogram
from hipsynth.training.evaluation.documents import (
    EvaluationDocument,
    PartScores,
    PredictedSample,
    ReportSummary,
    SplitScores,
)
from hipsynth.training.evaluation.scores import mean_within, relative_error
from hipsynth.training.models.predict import physical_values

if TYPE_CHECKING:
    import jinja2

TEMPLATE = Path(__file__).with_name("report.html.j2")
SCRIPT = TEMPLATE.with_name("report.js")
INTENSITY = roofline.LEVELS["HBM"][1]
SIMULATED = ("sim",)  # backends that simulate; all others read hardware counters
BASELINE_TITLES = {
    "model": "model",
    "constant": "constant",
    "nearest_neighbour": "nearest neighbour",
    "gradient_boosting": "gradient boosting",
    "analytic": "preview, corrected",
}
Note = Callable[[str], None]


@dataclass(frozen=True)
class ModelAccuracy:
    """The evaluation of a model: its document, the predictions, and the samples that they are of."""

    document: EvaluationDocument
    rows: Sequence[PredictedSample]
    samples: Sequence[LabelledSample]


def write_report(
    corpus: Path, out: Path, model: Path | None = None, backend: str | None = None, note: Note | None = None
) -> ReportSummary:
    """Writes the report to `out` and returns a summary. Without a model, the report has no accuracy section.

    Reuses a saved evaluation of the model on this corpus, else evaluates the model. Raises BadInput if the corpus has
    no labels or `out` cannot be written.
    """
    samples = load_samples(corpus, backend)
    stored = Corpus.open(corpus)
    tools, devices = {s.backend for s in samples}, {s.device for s in samples}
    failures = Counter(_select_rows(stored.failures(), "backend", tools)["reason"].to_pylist())
    limits = count_bottlenecks(_select_rows(_select_rows(stored.measurements(), "backend", tools), "device", devices))
    accuracy = _measure_accuracy(corpus, model, backend, note) if model else None
    html = render_report(samples, failures, limits, str(corpus), accuracy)
    with whole_file(out) as file:
        file.write(html)
    return ReportSummary(
        report=str(out),
        bytes=len(html.encode()),
        samples=len(samples),
        families=len({s.family for s in samples}),
        backends=tuple(sorted({s.backend for s in samples})),
        evaluated=accuracy is not None,
    )


def _select_rows(rows: pa.Table, column: str, values: Collection[str]) -> pa.Table:
    """The rows that have one of the values in a column."""
    return rows.filter(pc.is_in(rows[column], pa.array(sorted(values), pa.string())))


def _measure_accuracy(corpus: Path, model: Path, backend: str | None, note: Note | None) -> ModelAccuracy:
    """The evaluation of a model on a corpus: the saved one if it is of both, else a new one."""
    from hipsynth.training.evaluation.evaluate import (
        Messages,
        evaluate_model,
        evaluation_fingerprint,
        load_evaluated,
        open_predictor,
        read_evaluation,
        save_evaluation,
    )
    from hipsynth.training.models.model_record import model_record
    from hipsynth.training.models.predict import Predictor

    samples = load_evaluated(corpus, model, backend)
    record = model_record(model)
    try:
        document, rows = read_evaluation(model)
        if record and document.fingerprint == evaluation_fingerprint(record, samples):
            return ModelAccuracy(document, rows, samples)
    except (BadInput, ValueError, KeyError, TypeError, RecursionError):
        pass
    if record is None:
        Predictor.load(model)  # raises MissingDependency with a remedy
    save_evaluation(evaluate_model(open_predictor(model), samples, messages=Messages(note) if note else None), model)
    document, rows = read_evaluation(model)
    return ModelAccuracy(document, rows, samples)


def render_report(
    samples: Sequence[LabelledSample],
    failures: Mapping[str, int],
    limits: Mapping[str, Mapping[str, int]],
    corpus: str,
    accuracy: ModelAccuracy | None,
) -> str:
    """The HTML text of a report.

    `failures` counts failed builds by reason, `limits` kernels by architecture and limiting unit.
    """
    families = sorted({s.family for s in samples})
    colours = {family: category_colour(index) for index, family in enumerate(families)}
    backends = sorted({s.backend for s in samples})
    document = accuracy.document if accuracy else None
    return _load_template().render(
        corpus=corpus,
        samples=samples,
        families=families,
        colours=colours,
        programs=len({s.program_id for s in samples}),
        lineages=len({s.lineage for s in samples}),
        backends=backends,
        simulated=[b for b in backends if b in SIMULATED],
        measured=[b for b in backends if b not in SIMULATED],
        roofs=(roofs := _device_rooflines(samples, colours)),
        roofline_data=embed_json(to_json([roof.shown for roof in roofs])),
        script=roofline_script() + SCRIPT.read_text(),
        family_rows=_family_rows(samples),
        target_rows=sorted(Counter((s.arch, s.device, s.flags) for s in samples).items()),
        origin_rows=sorted(Counter(s.origin for s in samples).items()),
        failures=sorted(failures.items(), key=lambda item: (-item[1], item[0])),
        limits=_limit_shares(limits),
        expected_errors=_expected_errors(samples),
        distributions=_draw_distributions(samples),
        archs=sorted({s.arch for s in samples}),
        document=document,
        accuracy=_accuracy_rows(document) if document else [],
        titles=BASELINE_TITLES,
        example=_median_example(accuracy) if accuracy else None,
        provenance=_report_provenance(samples, document),
        made=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
    )


def _load_template() -> jinja2.Template:
    import jinja2

    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["number"] = lambda value: "-" if value is None else format_number(value, 3)
    environment.filters["percent"] = lambda share: "-" if share is None else f"{100 * share:.1f}"
    return environment.from_string(TEMPLATE.read_text())


@dataclass(frozen=True)
class PlotDot:
    """A build on a roofline plot, as report.js draws it."""

    intensity: float
    gflops: float
    group: str
    colour: str
    said: str


@dataclass(frozen=True)
class PlottedBuilds:
    """What report.js draws of a device: its roofs, and a dot per build."""

    plot: roofline.RooflinePlot
    dots: tuple[PlotDot, ...]


@dataclass(frozen=True)
class DeviceChart:
    """`off`: the number of builds without floating-point work, which are not on the chart."""

    title: str
    arch: str
    off: int
    shown: PlottedBuilds


def _device_rooflines(samples: Sequence[LabelledSample], colours: Mapping[str, str]) -> list[DeviceChart]:
    """One roofline per device."""
    by_device: dict[str, list[LabelledSample]] = defaultdict(list)
    for sample in samples:
        by_device[sample.device].append(sample)
    charts = []
    for device, group in sorted(by_device.items()):
        dots = [_plot_dot(s, colours) for s in group if s.metrics[roofline.THROUGHPUT] > 0 and s.metrics[INTENSITY] > 0]
        roofline_data = PlottedBuilds(roofline.plot_kernels(device, []), tuple(sorted(dots, key=lambda dot: dot.group)))
        arch = load_device(device)
        charts.append(DeviceChart(arch.title, arch.arch, len(group) - len(dots), roofline_data))
    return charts


def _plot_dot(sample: LabelledSample, colours: Mapping[str, str]) -> PlotDot:
    x, y = sample.metrics[INTENSITY], sample.metrics[roofline.THROUGHPUT]
    description = roofline.describe_position(roofline.locate_kernel(sample.metrics, sample.device))
    title = f"{sample.kernel} ({sample.family})\n{sample.flags}\n{x:.3g} FLOP/B, {y:.4g} GFLOP/s\n{description}"
    return PlotDot(x, y, sample.family, colours[sample.family], title)


@dataclass(frozen=True, kw_only=True)
class FamilyRow:
    """Number of builds and programs of a family, the width of its bar in percent, and medians of some metrics; `time`
    in us."""

    family: str
    builds: int
    programs: int
    width: float
    hit: float
    gflops: float
    lanes: float | None
    useful: float | None
    time: float


def _family_rows(samples: Sequence[LabelledSample]) -> list[FamilyRow]:
    """The row of each family."""
    by_family: dict[str, list[LabelledSample]] = defaultdict(list)
    for sample in samples:
        by_family[sample.family].append(sample)
    most = max(len(group) for group in by_family.values())
    return [
        FamilyRow(
            family=family,
            builds=len(group),
            programs=len({s.program_id for s in group}),
            width=100 * len(group) / most,
            hit=median([s.metrics["L2_Cache_Hit_Rate"] for s in group]),
            gflops=median([s.metrics[roofline.THROUGHPUT] for s in group]),
            lanes=_median_known([s.facts.further_metrics.get("Exact_Lane_Utilisation") for s in group]),
            useful=_median_known([s.facts.further_metrics.get("Exact_L2_Useful_Bytes") for s in group]),
            time=median([s.duration_ns / 1000 for s in group]),
        )
        for family, group in sorted(by_family.items())
    ]


def _median_known(values: Sequence[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


@dataclass(frozen=True)
class UnitShare:
    """A unit, how many kernels it limits, and their share in percent."""

    unit: str
    count: int
    share: float


@dataclass(frozen=True)
class LimitChart:
    """Shares of the limiting units on one architecture."""

    arch: str
    rows: tuple[UnitShare, ...]


def _limit_shares(limits: Mapping[str, Mapping[str, int]]) -> list[LimitChart]:
    """Per architecture, the limiting units with the percentage of kernels that each one limits."""
    charts = []
    for arch, counts in limits.items():
        total = sum(counts.values())
        charts.append(LimitChart(arch, tuple(UnitShare(unit_name(u), n, 100 * n / total) for u, n in counts.items())))
    return charts


@dataclass(frozen=True)
class ErrorsOfMetric:
    """The expected error of a metric, as text, for each device."""

    title: str
    cells: tuple[str, ...]


@dataclass(frozen=True)
class ErrorTable:
    """Errors of each metric, one column per device."""

    devices: tuple[str, ...]
    rows: tuple[ErrorsOfMetric, ...]


def _expected_errors(samples: Sequence[LabelledSample]) -> ErrorTable:
    """Median and worst error of each metric against hardware recordings, for the simulated devices of the corpus."""
    devices = sorted({(s.arch, s.device) for s in samples if s.backend in SIMULATED})
    errors = expected_error.load_table().errors
    rows = []
    for metric in (*table.paper_ids(), table.DURATION):
        facts = table.metric_table().metrics.get(metric)
        cells = [errors.get((metric, device)) or errors.get((metric, arch)) for arch, device in devices]
        texts = tuple(str(cell) if cell else "no evidence" for cell in cells)
        rows.append(ErrorsOfMetric(facts.title if facts else "Duration", texts))
    return ErrorTable(tuple(device for _, device in devices), tuple(rows))


def _draw_distributions(samples: Sequence[LabelledSample]) -> list[dict[str, str]]:
    archs = sorted({s.arch for s in samples})
    charts = []
    for metric in table.paper_ids():
        facts = table.metric_table().metrics[metric]
        series = {arch: [s.metrics[metric] for s in samples if s.arch == arch] for arch in archs}
        svg = svg_histogram(series, facts.title, log=facts.kind != "hit_rate")
        charts.append({"title": facts.title, "unit": facts.unit, "svg": svg})
    return charts


@dataclass(frozen=True)
class AccuracyRow:
    """A metric: shares within 10 % by predictor, the best of them, and the model's median error and rank
    correlation."""

    title: str
    cells: Mapping[str, float | None]
    best: float | None
    zeros: int
    median: float | None
    rank: float | None


@dataclass(frozen=True)
class SplitAccuracy:
    """A split: the model's scores, a row per metric, and mean shares by predictor, in `order`."""

    name: str
    scored: SplitScores
    rows: tuple[AccuracyRow, ...]
    means: Mapping[str, float | None]
    order: tuple[str, ...]


def _accuracy_rows(document: EvaluationDocument) -> list[SplitAccuracy]:
    """The splits that have samples."""
    table_rows = []
    for name, scored in document.splits.items():
        if not scored.n:
            continue
        by: dict[str, PartScores] = {"model": scored} | {b: d.splits[name] for b, d in document.baselines.items()}
        rows = []
        for metric in table.paper_ids():
            cells = {predictor: s.metrics[metric].within["10"] for predictor, s in by.items()}
            best = max((c for c in cells.values() if c is not None), default=None)
            row = scored.metrics[metric]
            title = table.metric_table().metrics[metric].title
            rows.append(AccuracyRow(title, cells, best, row.zeros, row.median_rel_error, row.spearman))
        means = {predictor: mean_within(s) for predictor, s in by.items()}
        table_rows.append(SplitAccuracy(name, scored, tuple(rows), means, tuple(by)))
    return table_rows


@dataclass(frozen=True)
class ExampleMetric:
    """A metric's true and predicted values and the model's error, as texts; `good`: within 10 %."""

    title: str
    unit: str
    truth: str
    predicted: str
    boosted: str
    error: str
    good: bool


@dataclass(frozen=True)
class ExamplePrediction:
    """One held-out sample with its source and, for each metric, label and predictions."""

    sample: LabelledSample
    source: str
    rows: tuple[ExampleMetric, ...]
    split: str


def _median_example(accuracy: ModelAccuracy) -> ExamplePrediction | None:
    """The prediction with the median error of the lineage split (of all splits if that is empty)."""
    candidates = [row for row in accuracy.rows if row.split == "lineage"] or list(accuracy.rows)
    if not candidates:
        return None
    ranked = sorted(candidates, key=lambda row: (_mean_error(row), row.key))
    row = ranked[len(ranked) // 2]
    sample = next(s for s in accuracy.samples if (s.key, s.kernel) == (row.key, row.kernel))
    truth, predicted = physical_values(row.truth), physical_values(row.predicted["model"])
    baseline = row.predicted.get("gradient_boosting")  # None: no training sample of the model is in the corpus
    boosted = physical_values(baseline) if baseline else {}
    values = []
    for metric in table.paper_ids():
        error = relative_error(row.truth[metric] or 0.0, row.predicted["model"][metric])
        facts = table.metric_table().metrics[metric]
        values.append(
            ExampleMetric(
                title=facts.title,
                unit=facts.unit,
                truth=_short_number(truth[metric]),
                predicted=_short_number(predicted[metric]),
                boosted=_short_number(boosted.get(metric)),
                error="-" if error == float("inf") else f"{100 * error:.0f} %",
                good=error <= 0.1,
            )
        )
    return ExamplePrediction(sample, view_source(sample.text, "kernels")[0].strip(), tuple(values), row.split)


def _mean_error(row: PredictedSample) -> float:
    """The relative error, clipped to 1, averaged over the metrics."""
    model = row.predicted["model"]
    errors = [min(1.0, relative_error(t, model[m])) for m, t in row.truth.items() if t is not None]
    return sum(errors) / max(1, len(errors))


def _short_number(value: float | None) -> str:
    return "-" if value is None else format_number(value)


def _report_provenance(samples: Sequence[LabelledSample], document: EvaluationDocument | None) -> list[tuple[str, str]]:
    try:
        release = version("hipsynth")
    except PackageNotFoundError:
        release = "source checkout"
    rows = [("hipsynth", release)]
    rows += [("compiler", value) for value in sorted({s.facts.compiler for s in samples} - {""})]
    rows += [("headers", value) for value in sorted({s.facts.headers for s in samples} - {""})]
    backends = sorted({f"{s.backend} {s.facts.backend_version}".strip() for s in samples})
    rows += [("backend", value) for value in backends]
    rows += [("device table", device) for device in sorted({s.device for s in samples})]
    if document:
        model = document.model
        rows.append(("model", f"{model.path} (base {model.base}, recipe {model.config})"))
    return rows
