"""Scores: shares of predictions within relative-error bounds (the paper's Table 4), median error, rank correlation.

Rules, the same for models and baselines:

- Values are compared in the normalised range (the paper's Table 2); the relative error is the same in physical units.
- A true value of None (not available from the backend) is skipped; `n` counts the scored ones.
- A true value of exactly 0 has no relative error. The prediction is within every bound if it rounds to 0.000 (below
  0.0005 of the range, the paper's print resolution), otherwise its error is infinite.
- A missing prediction (unparsable answer) has an infinite error.
- `within` compares unrounded values. `within_rounded` first rounds both to three decimals, as the paper does, which
  gives higher scores because small values round to the same number. `within_strict` compares unrounded values, too, and
  of a true 0 it accepts nothing but 0: many true values are themselves smaller than what `within` takes for 0.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hipsynth.training.evaluation.documents import MetricScores, PartScores, Shares

BOUNDS = (2, 4, 6, 8, 10)  # percent: the columns of Table 4
ZERO = 0.0005  # a normalised value below this prints as 0.000
STRICT_ZERO = 1e-9
RULES = ("within", "within_rounded", "within_strict")

Values = Sequence[Mapping[str, float | None]]


def relative_error(truth: float, predicted: float | None, zero: float = ZERO) -> float:
    """|predicted - truth| / truth of two normalised values. If the truth is 0, it is 0 for a prediction below `zero`,
    else infinite."""
    if predicted is None or not math.isfinite(predicted):
        return math.inf
    if truth == 0.0:
        return 0.0 if abs(predicted) < zero else math.inf
    return abs(predicted - truth) / abs(truth)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's rank correlation, ties with average ranks; None if undefined (fewer than 2 values, or all equal)."""
    if len(a) < 2:
        return None
    ra, rb = _average_ranks(np.asarray(a, dtype=float)), _average_ranks(np.asarray(b, dtype=float))
    spread = float(ra.std() * rb.std())
    if spread == 0.0:
        return None
    return float(((ra - ra.mean()) * (rb - rb.mean())).mean() / spread)


def _average_ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean_rank = (ends - counts + ends - 1) / 2.0
    return np.asarray(mean_rank[inverse], dtype=np.float64)


def score_metric(truths: Sequence[float | None], predictions: Sequence[float | None]) -> MetricScores:
    """Scores of one metric: `n`, `zeros` (true values of 0), the shares of RULES, `median_rel_error`, `spearman`."""
    pairs = [(t, p) for t, p in zip(truths, predictions, strict=True) if t is not None]
    errors = [relative_error(t, p) for t, p in pairs]
    rounded = [relative_error(round(t, 3), None if p is None else round(p, 3)) for t, p in pairs]
    strict = [relative_error(t, p, STRICT_ZERO) for t, p in pairs]
    both = [(t, p) for t, p in pairs if p is not None and math.isfinite(p)]
    median = float(np.median(errors)) if errors else math.inf
    return MetricScores(
        n=len(pairs),
        zeros=sum(t == 0.0 for t, _ in pairs),
        within=_error_shares(errors),
        within_rounded=_error_shares(rounded),
        within_strict=_error_shares(strict),
        median_rel_error=median if math.isfinite(median) else None,
        spearman=rank_correlation([t for t, _ in both], [p for _, p in both]),
    )


def _error_shares(errors: Sequence[float]) -> dict[str, float | None]:
    """Share (0 to 1) of errors at or below each bound; None if there are no errors."""
    if not errors:
        return {str(bound): None for bound in BOUNDS}
    # 1e-9 keeps an error of exactly 2 % within the bound despite floating-point rounding.
    return {str(bound): sum(e <= bound / 100 + 1e-9 for e in errors) / len(errors) for bound in BOUNDS}


def score_metrics(ids: Sequence[str], truths: Values, predictions: Values, valid: float | None = 1.0) -> PartScores:
    """Scores of all metrics.

    `truths` and `predictions` are parallel lists of normalised values by metric id; `valid` is the share of answers
    that were valid JSON in unconstrained decoding.
    """
    metrics = {i: score_metric([t.get(i) for t in truths], [p.get(i) for p in predictions]) for i in ids}
    return PartScores(n=len(truths), valid_json=valid, metrics=metrics)


def shares_by(rule: str, scored: MetricScores) -> Shares:
    """The shares by one of RULES."""
    return {
        "within": scored.within,
        "within_rounded": scored.within_rounded,
        "within_strict": scored.within_strict,
    }[rule]


def mean_within(scored: PartScores, bound: int = 10, rule: str = "within") -> float | None:
    """The share within `bound` percent by a rule of RULES, averaged over the metrics; one number to compare predictors
    by."""
    shares = [shares_by(rule, row)[str(bound)] for row in scored.metrics.values()]
    numbers = [s for s in shares if s is not None]
    return sum(numbers) / len(numbers) if numbers else None
