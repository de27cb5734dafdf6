"""Learned corrections of previews: regressors of log(true / previewed) quantities, and of their uncertainty."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.profiling.metrics.definitions import answer_ids, is_hit_rate
from hipsynth.training.analytic.features import feature_vector
from hipsynth.training.analytic.quantities import NAMES, Quantities, metrics_of
from hipsynth.training.analytic.trees import Trees, load_model, save_model

VERSION = 1
COVERED = 0.8  # share of true values that an interval should hold
LEAST_WIDTH = 0.005  # of intervals, in log units: what other allocations and launches of a program change
DURATION, SENSITIVITY, SAMPLING = "duration_ns", "sensitivity", "sampling_error"
FOLDS = 5
THRESHOLDS = (0.0, 0.01, 0.02, 0.04, 0.08, 0.16, 0.32, math.inf)
MOST_LOSS = 0.2
FLOOR = 1e-3  # a quantity below this, per launch, counts as none
LARGEST = 3.0  # of a learned log ratio
PARAMETERS = {
    "objective": "regression_l1",
    "learning_rate": 0.06,
    "num_leaves": 31,
    "min_data_in_leaf": 12,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "lambda_l2": 1.0,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 42,
}
ROUNDS, WIDTH_ROUNDS = 300, 120


Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Example:
    """A labelled launch: features and quantities of its preview, the true quantities, and its kind of program."""

    features: Mapping[str, float]
    previewed: Mapping[str, float]
    truth: Quantities
    arch: str
    family: str


@dataclass(frozen=True)
class CorrectedPrediction:
    """A prediction: metrics in physical units and the duration; `intervals` hold COVERED of the true values."""

    metrics: dict[str, float | None]
    duration_ns: float
    intervals: dict[str, tuple[float, float]]


@dataclass
class AnalyticModel:
    """A fitted correction. `thresholds`: the smallest log ratio of a quantity that is applied, since most previews need
    no correction; `widths`: models of |log error| by metric, and `factors`: their calibration."""

    columns: dict[str, int] = field(default_factory=dict)
    corrections: dict[str, Trees] = field(default_factory=dict)
    thresholds: dict[str, float] = field(default_factory=dict)
    widths: dict[str, Trees] = field(default_factory=dict)
    factors: dict[str, float] = field(default_factory=dict)
    about: dict[str, Any] = field(default_factory=dict)

    # --- fitting

    @classmethod
    def fit(cls, examples: Sequence[Example], about: Mapping[str, Any] | None = None) -> AnalyticModel:
        """Fits corrections to all examples, and widths to the errors that FOLDS models, each without the families that
        it is tested on, make: users ask about kinds of programs that no label is of. Raises BadInput with too few
        examples."""
        if len(examples) < 2 * FOLDS:
            raise BadInput("too few labels to learn from", remedy="profile more programs into the corpus")
        names = sorted({name for example in examples for name in example.features})
        model = cls({name: i for i, name in enumerate(names)}, about=dict(about or {}))
        table = model.table([e.features for e in examples])
        model.corrections = _fit_corrections(table, examples)
        folds = np.array([zlib.crc32(e.family.encode()) % FOLDS for e in examples])
        ratios = _unseen_ratios(table, examples, folds)
        model.thresholds = {name: best_threshold(ratios[name], _log_ratio_targets(examples, name)) for name in NAMES}
        model._fit_widths(
            table, examples, folds, {n: apply_threshold(r, model.thresholds[n]) for n, r in ratios.items()}
        )
        return model

    def table(self, rows: Sequence[Mapping[str, float]]) -> Floats:
        return np.array([feature_vector(self.columns, row) for row in rows], dtype=np.float64)

    def _fit_widths(
        self, table: Floats, examples: Sequence[Example], folds: npt.NDArray[np.int64], ratios: Mapping[str, Floats]
    ) -> None:
        import lightgbm

        errors: dict[str, list[float]] = {name: [math.nan] * len(examples) for name in (*answer_ids(), DURATION)}
        for i, example in enumerate(examples):
            fixed = correct_quantities(example.previewed, {n: float(ratios[n][i]) for n in NAMES})
            for name, error in log_errors(fixed, example.truth, example.arch).items():
                errors[name][i] = error
        settings = {**PARAMETERS, "objective": "quantile", "alpha": COVERED, "num_leaves": 15, "min_data_in_leaf": 20}
        for name, values in errors.items():
            array = np.array(values)
            good = np.isfinite(array)
            if good.sum() < 2 * FOLDS:
                continue
            data = lightgbm.Dataset(table[good], array[good], params={"verbosity": -1})
            self.widths[name] = Trees(lightgbm.train(settings, data, num_boost_round=WIDTH_ROUNDS).model_to_string())
            self.factors[name] = _calibrate_widths(settings, table[good], array[good], folds[good])

    # --- prediction

    def predict(
        self, rows: Sequence[Mapping[str, float]], previewed: Sequence[Mapping[str, float]], archs: Sequence[str]
    ) -> list[CorrectedPrediction]:
        """Corrected predictions for previews, given their features, quantities and architectures."""
        if not rows:
            return []
        table = self.table(rows)
        used = {name: model for name, model in self.corrections.items() if math.isfinite(self.thresholds[name])}
        raw = _predict_ratios(used, table)
        ratios = {name: apply_threshold(raw[name], self.thresholds.get(name, math.inf)) for name in NAMES}
        widths = self._widths(rows, table)
        corrected = []
        for i, (q, arch) in enumerate(zip(previewed, archs, strict=True)):
            fixed = correct_quantities(q, {name: ratios[name][i] for name in NAMES})
            metrics = metrics_of(fixed, arch)
            values = {**metrics, DURATION: fixed["duration"]}
            intervals = {
                name: prediction_interval(name, value, float(widths[name][i]))
                for name, value in values.items()
                if value is not None and name in widths
            }
            corrected.append(CorrectedPrediction(metrics, fixed["duration"], intervals))
        return corrected

    def _widths(self, rows: Sequence[Mapping[str, float]], table: Floats) -> dict[str, Floats]:
        """The half width of each value's interval, by row, in log units or points of a hit rate."""
        sampling = np.array([row.get(SAMPLING, 0.0) for row in rows])
        widths = {}
        for name, model in self.widths.items():
            learned = np.maximum(LEAST_WIDTH, self.factors[name] * model.predict(table))
            widths[name] = np.maximum(learned, 100 * sampling if is_hit_rate(name) else sampling)
        if DURATION in widths:  # data that nobody knows yet changes it by as much
            widths[DURATION] = np.maximum(widths[DURATION], [row.get(SENSITIVITY, 0.0) for row in rows])
        return widths

    # --- files

    def save(self, path: Path) -> None:
        """Writes the model, with equal bytes for an equal model."""
        members = {
            "columns": self.columns,
            "thresholds": self.thresholds,
            "factors": self.factors,
            "about": self.about,
            "corrections": {name: model.text for name, model in self.corrections.items()},
            "widths": {name: model.text for name, model in self.widths.items()},
        }
        save_model(path, VERSION, members)

    @classmethod
    def load(cls, path: Path) -> AnalyticModel:
        """Raises BadInput for a file that is damaged or of another version."""
        return load_model(path, VERSION, cls._from_document)

    @classmethod
    def _from_document(cls, document: Mapping[str, Any]) -> AnalyticModel:
        corrections, widths = (
            {name: Trees(text) for name, text in document[part].items()} for part in ("corrections", "widths")
        )
        for trees in widths.values():
            trees.predict(np.zeros((1, len(document["columns"]))))  # raises ValueError for damaged ones
        factors, about = document["factors"], document["about"]
        return cls(document["columns"], corrections, document["thresholds"], widths, factors, about)


def _unseen_ratios(table: Floats, examples: Sequence[Example], folds: npt.NDArray[np.int64]) -> dict[str, Floats]:
    """The log ratios that FOLDS models, each without the families that it is asked for, predict."""
    log_ratios = {name: np.zeros(len(examples)) for name in NAMES}
    for fold in range(FOLDS):
        inside, outside = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if not len(inside) or not len(outside):
            continue
        models = _fit_corrections(table[outside], [examples[int(i)] for i in outside])
        for name, ratios in _predict_ratios(models, table[inside]).items():
            log_ratios[name][inside] = ratios
    return log_ratios


def apply_threshold(ratios: Floats, threshold: float) -> Floats:
    """The log ratios that are large enough, else 0."""
    return np.where(np.abs(ratios) >= threshold, ratios, 0.0)


def best_threshold(ratios: Floats, targets: Floats) -> float:
    """The threshold with which predicted log ratios leave the smallest error, each counted as at most MOST_LOSS."""
    good = np.isfinite(targets)
    if not good.any():
        return math.inf

    def loss(threshold: float) -> float:
        return float(np.minimum(np.abs(targets[good] - apply_threshold(ratios[good], threshold)), MOST_LOSS).mean())

    return min(THRESHOLDS, key=lambda threshold: (loss(threshold), -threshold))


def _log_ratio_targets(examples: Sequence[Example], name: str) -> Floats:
    """log(true / previewed), NaN where one of them is nothing."""
    values = []
    for e in examples:
        true, previewed = e.truth[name], e.previewed[name]
        values.append(math.log(true / previewed) if true > FLOOR and previewed > FLOOR else math.nan)
    return np.array(values)


def _fit_corrections(table: Floats, examples: Sequence[Example]) -> dict[str, Trees]:
    import lightgbm

    models = {}
    for name in NAMES:
        target = np.clip(_log_ratio_targets(examples, name), -LARGEST, LARGEST)
        good = np.isfinite(target)
        if good.sum() >= FOLDS:
            data = lightgbm.Dataset(table[good], target[good], params={"verbosity": -1})
            models[name] = Trees(lightgbm.train(PARAMETERS, data, num_boost_round=ROUNDS).model_to_string())
    return models


def _predict_ratios(models: Mapping[str, Trees], table: Floats) -> dict[str, Floats]:
    zero = np.zeros(len(table))
    return {name: models[name].predict(table) if name in models else zero for name in NAMES}


def correct_quantities(previewed: Mapping[str, float], ratios: Mapping[str, float]) -> Quantities:
    """Quantities times exp(ratio); misses never exceed what can miss."""
    corrected = {name: previewed[name] * math.exp(ratios[name]) for name in NAMES}
    corrected["l1_requests"] = min(corrected["l1_requests"], corrected["lookups"])
    corrected["l2_misses"] = min(corrected["l2_misses"], corrected["l2_requests"])
    return corrected


def log_errors(predicted: Quantities, true: Quantities, arch: str) -> dict[str, float]:
    """|log error| of each metric and of DURATION, for hit rates the error in points."""
    ours, theirs = metrics_of(predicted, arch), metrics_of(true, arch)
    errors = {DURATION: abs(math.log(max(predicted["duration"], 1.0) / max(true["duration"], 1.0)))}
    for name, value in theirs.items():
        other = ours[name]
        if value is None or other is None:
            continue
        if is_hit_rate(name):
            errors[name] = abs(value - other)
        elif value > 0 and other > 0:
            errors[name] = abs(math.log(other / value))
    return errors


def prediction_interval(name: str, value: float, width: float) -> tuple[float, float]:
    """The interval around a value for a width in log units, or in points for a hit rate."""
    if is_hit_rate(name):
        return max(0.0, value - width), min(100.0, value + width)
    return value * math.exp(-width), value * math.exp(width)


def _calibrate_widths(
    settings: Mapping[str, Any],
    table: Floats,
    errors: Floats,
    folds: npt.NDArray[np.int64],
) -> float:
    """The factor on predicted widths with which COVERED of the errors of unseen folds lie inside."""
    import lightgbm

    shares: list[float] = []
    for fold in range(FOLDS):
        inside, outside = folds == fold, folds != fold
        if not inside.any() or outside.sum() < FOLDS:
            continue
        data = lightgbm.Dataset(table[outside], errors[outside], params={"verbosity": -1})
        width = lightgbm.train(dict(settings), data, num_boost_round=WIDTH_ROUNDS).predict(table[inside], num_threads=1)
        shares += list(errors[inside] / np.maximum(1e-4, np.asarray(width)))
    return max(1.0, float(np.quantile(shares, COVERED))) if shares else 1.0
