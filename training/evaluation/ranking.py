"""Scores how well a predictor orders the variants of a program by duration, as optimisers and flag sweeps need."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations

import numpy as np

from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.evaluation.documents import OrderScores, RankingScores

TIE = 0.01  # variants whose durations differ by less, relative to the longer one, have no order
FEWEST = 2  # variants of a group


def kendall_tau(truth: Sequence[float], predicted: Sequence[float | None]) -> float | None:
    """Kendall's tau over the pairs whose true values differ by more than TIE; a predicted tie or a missing prediction
    counts 0. None without such a pair."""
    signs = []
    for i, j in combinations(range(len(truth)), 2):
        if abs(truth[i] - truth[j]) <= TIE * max(truth[i], truth[j]):
            continue
        a, b = predicted[i], predicted[j]
        signs.append(0.0 if a is None or b is None else math.copysign(1, truth[i] - truth[j]) * np.sign(a - b))
    return float(np.mean(signs)) if signs else None


def slowdown_of_choice(truth: Sequence[float], predicted: Sequence[float | None]) -> float:
    """How much longer the variant that is predicted to be fastest takes than the fastest one, as a share; of several
    that are predicted to be, their mean. Without any prediction, the mean over all, which a blind choice costs."""
    best = min(truth)
    numbers = [p for p in predicted if p is not None]
    chosen = [t for p, t in zip(predicted, truth, strict=True) if not numbers or p == min(numbers)]
    return sum(t / best - 1 for t in chosen) / len(chosen)


def steps_of_a_problem(sample: LabelledSample) -> tuple[str, ...] | None:
    """Handwritten optimisation steps of one problem, with the same build and device."""
    return (sample.family, sample.arch, sample.flags, sample.device) if sample.origin == "handwritten" else None


def builds_of_a_program(sample: LabelledSample) -> tuple[str, ...] | None:
    """Flag sets of one program at one size on one device."""
    return sample.program_id, sample.arguments, sample.arch, sample.device


def sizes_of_a_program(sample: LabelledSample) -> tuple[str, ...] | None:
    """The key under which runs of one build at several sizes are put in order."""
    return sample.program_id, sample.arch, sample.flags, sample.device


GROUPS: Mapping[str, Callable[[LabelledSample], tuple[str, ...] | None]] = {
    "sizes": sizes_of_a_program,
    "flags": builds_of_a_program,
    "steps": steps_of_a_problem,
}


def rank_variants(
    samples: Sequence[LabelledSample], predicted: Mapping[str, Sequence[float | None]]
) -> dict[str, RankingScores]:
    """By kind of variants: the number of groups that have an order, and by predictor the means of Kendall's tau and of
    the regret. `predicted`: durations by predictor, parallel to the samples."""
    variants: dict[str, RankingScores] = {}
    for kind, key_of in GROUPS.items():
        groups: dict[tuple[str, ...], list[int]] = {}
        for index, sample in enumerate(samples):
            if (key := key_of(sample)) is not None:
                groups.setdefault(key, []).append(index)
        truths = [[samples[i].duration_ns for i in places] for places in groups.values()]
        ordered = [
            (places, truth)
            for places, truth in zip(groups.values(), truths, strict=True)
            if len(places) >= FEWEST and kendall_tau(truth, truth) is not None
        ]
        by: dict[str, OrderScores] = {}
        for name, values in predicted.items():
            taus = [kendall_tau(truth, [values[i] for i in places]) or 0.0 for places, truth in ordered]
            lost = [slowdown_of_choice(truth, [values[i] for i in places]) for places, truth in ordered]
            by[name] = OrderScores(kendall_tau=_mean_or_none(taus), regret=_mean_or_none(lost))
        variants[kind] = RankingScores(groups=len(ordered), predictors=by)
    return variants


def _mean_or_none(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
