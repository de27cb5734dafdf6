"""Writes the tables of docs/log/prediction.md about the default predictor.

    synth evaluate MODEL corpus/release/v1 --json > release.json
    synth profile corpus/handwritten --device mi250 --device mi300x --flags=-O3 --out HANDWRITTEN
    synth evaluate MODEL HANDWRITTEN --json > handwritten.json
    python -m studies.prediction_tables release.json handwritten.json [--page]

All figures are against simulated labels.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.profiling.reports.numbers import format_percentage
from hipsynth.training.evaluation.documents import (
    BaselineScores,
    EvaluationDocument,
    MetricScores,
    PartScores,
    PredictorScores,
)
from hipsynth.training.evaluation.scores import mean_within
from studies.markdown import format_table, write_tables

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "log" / "prediction.md"
TITLES = {
    "lineage": "lineages",
    "random": "at random, as in the paper",
    "families": "families and compositions never trained on",
    "device": "devices never trained on, other programs too",
    "handwritten": "handwritten programs, default sizes",
}
HEAD = (
    "held out", "kernels", "without an answer", "mean of the twelve metrics, %", "worst metric, %", "best baseline, %",
    "duration within 10 %, %", "of the preview alone, %", "its median error, %",
    "intervals hold: metrics, %", "durations, %", "limiting unit right, %",
)  # fmt: skip
DURATION = "duration_ns"


def read_scores(path: Path) -> EvaluationDocument:
    """A document of `synth evaluate --json`."""
    return from_json(EvaluationDocument, json.loads(path.read_text()))


def format_predictor(split: str, scores: PredictorScores, baselines: Mapping[str, BaselineScores]) -> list[str]:
    """One split: shares within 10 % of the label, without rounding."""
    metrics = {
        name: metric_scores.within["10"]
        for name, metric_scores in scores.metrics.items()
        if metric_scores.within["10"] is not None
    }
    worst = min(metrics, key=lambda name: metrics[name] or 0.0)
    inside = [share for name, share in scores.inside_intervals.items() if name != DURATION]
    return [
        TITLES[split],
        f"{scores.n:,}",
        str(scores.no_preview),
        format_percentage(mean_within(scores)),
        f"{format_percentage(metrics[worst])} ({worst})",
        format_percentage(max((_average_metrics(by.splits.get(split)) for by in baselines.values()), default=None)),
        format_percentage(scores.duration.within["10"]),
        format_percentage(scores.duration.without["preview"].within["10"]),
        format_percentage(scores.duration.median_rel_error),
        format_percentage(statistics.fmean(inside) if inside else None),
        format_percentage(scores.inside_intervals.get(DURATION)),
        format_percentage(scores.bottleneck_agreement),
    ]


def _average_metrics(scores: PartScores | None) -> float:
    return (mean_within(scores) or 0.0) if scores else 0.0


def format_devices(splits: Mapping[str, PredictorScores]) -> list[list[str]]:
    """The durations of each split by device."""
    rows = []
    for split, scores in splits.items():
        for device, device_scores in sorted(scores.devices.items()):
            rows.append([TITLES[split], device, f"{device_scores.n:,}", *_format_duration(device_scores)])
    return rows


def _format_duration(scores: MetricScores) -> tuple[str, str]:
    return format_percentage(scores.within["10"]), format_percentage(scores.median_rel_error)


def render_tables(documents: Sequence[EvaluationDocument]) -> str:
    """The section's text."""
    splits: dict[str, PredictorScores] = {}
    rows = []
    for document in documents:
        for split, scores in document.splits.items():
            if split in TITLES and isinstance(scores, PredictorScores) and scores.n:
                splits[split] = scores
                rows.append(format_predictor(split, scores, document.baselines))
    orders = [
        f"{kind.replace('_', ' ')} of {TITLES[split]}: {ranking.predictors['model'].kendall_tau:.2f} "
        f"in {ranking.groups} groups"
        for split, scores in splits.items()
        for kind, ranking in scores.ranking.items()
        if ranking.groups and "model" in ranking.predictors and ranking.predictors["model"].kendall_tau is not None
    ]
    about = f"{datetime.now(UTC):%-d %B %Y}; baselines learned from {documents[0].train_samples:,} samples."
    parts = [f"\n{about}\n", format_table(HEAD, rows), "Durations by device:\n"]
    parts.append(
        format_table(("held out", "device", "kernels", "within 10 %, %", "median error, %"), format_devices(splits))
    )
    if orders:
        parts.append("Order of variants (Kendall's tau): " + "; ".join(orders) + ".\n")
    return "\n".join(parts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evaluations", type=Path, nargs="+", help="documents of `synth evaluate --json`")
    parser.add_argument("--page", action="store_true", help="write the tables into the page")
    options = parser.parse_args(arguments)
    text = render_tables([read_scores(path) for path in options.evaluations])
    print(text)
    if options.page:
        write_tables(PAGE, text)


if __name__ == "__main__":
    main()
