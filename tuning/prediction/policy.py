"""The cheapest plan to a right answer, known afterwards: what a model is taught to find beforehand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hipsynth.training.analytic.preview_journal import PreviewFeatures
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.evaluation.scores import relative_error
from hipsynth.tuning.prediction.tools import VALUES, RecordedTools, label_values, price_table

WITHIN = 0.10
PLANS: tuple[tuple[str, ...], ...] = (("preview",), ("execute",), ("preview", "execute"))


@dataclass(frozen=True)
class CallPlan:
    """Calls in their order, the share of values within 10 % of the label that the last one gives, and the reward: that
    share, less the price of the calls."""

    calls: tuple[str, ...]
    share: float
    reward: float


def share_within(values: Mapping[str, float], truth: Mapping[str, float]) -> float:
    """The share of VALUES that are within 10 % of the truth."""
    return sum(relative_error(truth[name], values[name]) <= WITHIN for name in VALUES) / len(VALUES)


def reward_of(share: float, calls: tuple[str, ...]) -> float:
    """The share of right values, less the price of the calls."""
    table = price_table()
    return share - table.price_weight * table.price(calls)


def evaluate_plans(sample: LabelledSample, preview: PreviewFeatures | None) -> dict[tuple[str, ...], CallPlan]:
    """PLANS of a sample with what each is worth; one whose last call fails has a share of 0."""
    tools, truth = RecordedTools(sample, preview), label_values(sample)
    plans: dict[tuple[str, ...], CallPlan] = {}
    for calls in PLANS:
        values = tools.call(calls[-1]).values
        share = 0.0 if values is None else share_within(values, truth)
        plans[calls] = CallPlan(calls, share, reward_of(share, calls))
    return plans


def best_plan(sample: LabelledSample, preview: PreviewFeatures | None) -> CallPlan:
    """The plan with the highest reward; of equals the first of PLANS."""
    plans = evaluate_plans(sample, preview)
    return max(plans.values(), key=lambda plan: plan.reward)
