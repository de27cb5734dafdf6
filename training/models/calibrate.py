"""Calibrates 80 % intervals of a language model from its errors on samples it was not trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from hipsynth.profiling import metrics as table
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.models.predict import (
    DURATION_FACT,
    Predictor,
    auxiliary_facts,
    normalised_values,
    physical_values,
)

ENDS = (0.1, 0.9)
FEWEST = 20  # samples with a value; fewer say nothing of a tenth of them


def calibrate_intervals(predictor: Predictor, samples: Sequence[LabelledSample]) -> dict[str, tuple[float, float]]:
    """Per metric, and DURATION_FACT: what to add to an answer (hit rates, in points) or to multiply it by, for the ends
    of the interval that holds 80 % of the samples. Without metrics of too few samples."""
    answers = predictor.answers([(s.text, s.arch, s.flags) for s in samples])
    errors_by_metric: dict[str, list[float]] = {}
    for sample, answer in zip(samples, answers, strict=True):
        values: Mapping[str, object] = physical_values(normalised_values(answer)) | {
            DURATION_FACT: auxiliary_facts(answer).get(DURATION_FACT)
        }
        for name, predicted in values.items():
            true = sample.duration_ns if name == DURATION_FACT else sample.metrics.get(name)
            if true is None or not isinstance(predicted, float):
                continue
            if has_additive_error(name):
                errors_by_metric.setdefault(name, []).append(true - predicted)
            elif true > 0 and predicted > 0:
                errors_by_metric.setdefault(name, []).append(true / predicted)
    ends = {name: np.quantile(errors, ENDS) for name, errors in errors_by_metric.items() if len(errors) >= FEWEST}
    return {name: (float(low), float(high)) for name, (low, high) in ends.items()}


def has_additive_error(name: str) -> bool:
    """Whether errors of a metric are differences: a hit rate near zero has no ratio."""
    row = table.metric_table().metrics.get(name)
    return row is not None and row.kind == "hit_rate"
