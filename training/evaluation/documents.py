"""The documents of evaluations: what `synth evaluate --json` and `synth report --json` print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

Shares = Mapping[str, float | None]  # by bound in percent ("2" to "10"): 0 to 1, null without scored values


@dataclass(frozen=True, kw_only=True)
class MetricScores:
    """Scores of one metric: `n` scored values, `zeros` of them truly 0; shares within relative errors, by three rules
    (docs/explanation/prediction.md); the median error, null if infinite; the rank correlation, null if undefined."""

    n: int
    zeros: int
    within: Shares
    within_rounded: Shares
    within_strict: Shares
    median_rel_error: float | None
    spearman: float | None


@dataclass(frozen=True, kw_only=True)
class DurationScores(MetricScores):
    """Of the duration; `without`: of the preview without its correction, and of its largest bound alone."""

    without: Mapping[str, MetricScores]


@dataclass(frozen=True, kw_only=True)
class PartScores:
    """Scores of all metrics on `n` samples; `valid_json`: the share of answers that were valid JSON in unconstrained
    decoding, null if that was not measured."""

    n: int
    valid_json: float | None
    metrics: Mapping[str, MetricScores]


@dataclass(frozen=True, kw_only=True)
class OrderScores:
    """Means over groups of variants: Kendall's tau, and how much longer the chosen variant takes than the fastest."""

    kendall_tau: float | None
    regret: float | None


@dataclass(frozen=True, kw_only=True)
class RankingScores:
    """How well predictors order variants of one kind; `groups` have an order."""

    groups: int
    predictors: Mapping[str, OrderScores]


@dataclass(frozen=True, kw_only=True)
class SplitScores(PartScores):
    """Scores of the model on one split; `leak`: the share of its samples with a relative in training; `languages`: the
    scores of the samples in each language, if there are several."""

    valid_json_n: int
    leak: float
    languages: Mapping[str, PartScores] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class PredictorScores(SplitScores):
    """Scores of the default predictor on one split, also of what it alone predicts. `inside_intervals`: the share of
    true values inside 80 % intervals, by metric and "duration_ns"; `no_preview`: samples without an answer;
    `bottleneck_agreement`: how often the limiting unit is right; `devices`: the duration by device."""

    duration: DurationScores
    inside_intervals: Mapping[str, float]
    no_preview: int
    bottleneck_agreement: float | None
    ranking: Mapping[str, RankingScores]
    devices: Mapping[str, MetricScores]


@dataclass(frozen=True, kw_only=True)
class BaselineScores(PartScores):
    """Scores of a baseline: on the split by lineage, and on each split."""

    splits: Mapping[str, PartScores]


@dataclass(frozen=True)
class EvaluatedModel:
    """`config`: the recipe's name."""

    path: str
    base: str
    config: str


@dataclass(frozen=True, kw_only=True)
class EvaluationDocument:
    """The document of `synth evaluate --json`. `excluded`: samples that were not scored, by reason;
    `without_code_features`: samples, trained on or tested, of whose code boosting knows nothing; `fingerprint`: of
    model, labels and previews."""

    model: EvaluatedModel
    format: str
    train_samples: int
    backends: tuple[str, ...]
    splits: Mapping[str, SplitScores | PredictorScores]
    baselines: Mapping[str, BaselineScores]
    about_baselines: Mapping[str, str]
    without_code_features: int
    excluded: Mapping[str, int]
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class PredictedSample:
    """A scored sample with its normalised truths and predictions, by predictor; a line of predictions.json."""

    split: str
    key: str
    arch: str
    flags: str
    program_id: str
    family: str
    kernel: str
    truth: Mapping[str, float | None]
    predicted: Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class ReportSummary:
    """The document of `synth report --json`; `samples` are labelled builds, `evaluated`: with a model's accuracy."""

    report: str
    bytes: int
    samples: int
    families: int
    backends: tuple[str, ...]
    evaluated: bool
