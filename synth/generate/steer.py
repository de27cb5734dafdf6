"""Steers the policy towards labels that a corpus lacks: weights of families and parameters, never what they allow.

A program's choices stay valid under the default policy, since only weights change and none becomes zero.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hipsynth.synth.generate.headers import ParameterValues, template_of
from hipsynth.synth.generate.policy import Distribution, Policy

# Fitted to 565 labels per device, one half of which steered the weights of the other.
STRENGTH = 2.0  # exponent of a worth
PRIOR = 6.0  # average labels that every alternative is assumed to have besides its own
LIMIT = 4.0  # a weight changes at most so many times


@dataclass(frozen=True)
class Label:
    """One label: its program's family and parameters, at the sizes of the run, and how useful more
    such labels are, relative to others."""

    family: str
    params: ParameterValues
    worth: float


def steer_policy(policy: Policy, labels: Sequence[Label]) -> Policy:
    """The policy with larger weights for families, parameter values and sizes whose labels are worth more."""
    mean = sum(label.worth for label in labels) / len(labels) if labels else 1.0
    families: dict[str, list[float]] = defaultdict(list)
    alternatives: dict[tuple[str, str, int], list[float]] = defaultdict(list)
    for label in labels:
        family = template_of(label.family)
        families[family].append(label.worth / mean)
        for name, value in label.params.items():
            distribution = policy.parameters.get((family, name))
            index = None if distribution is None else find_alternative(distribution, value)
            if index is not None:
                alternatives[family, name, index].append(label.worth / mean)
    return replace(
        policy,
        families={name: weight * _weight_factor(families[name]) for name, weight in policy.families.items()},
        parameters={
            (family, name): replace(
                distribution,
                weights=tuple(
                    weight * _weight_factor(alternatives[family, name, index])
                    for index, weight in enumerate(distribution.weights)
                ),
            )
            for (family, name), distribution in policy.parameters.items()
        },
    )


def find_alternative(distribution: Distribution, value: object) -> int | None:
    """The index of the alternative that gives a value; None if none does."""
    if distribution.values:
        return distribution.values.index(value) if value in distribution.values else None
    if not isinstance(value, int):
        return None
    return next((n for n, (low, high) in enumerate(distribution.bins) if low <= value <= high), None)


def _weight_factor(worths: Iterable[float]) -> float:
    """How much larger a weight becomes: less certain if there are few labels."""
    worth_values = list(worths)
    worth = (sum(worth_values) + PRIOR) / (len(worth_values) + PRIOR)
    return float(max(1 / LIMIT, min(LIMIT, worth**STRENGTH)))


def describe_changes(before: Policy, after: Policy, most: int = 12) -> Iterator[str]:
    """The largest changes, one line each: what is drawn, and its share before and after in percent."""
    rows = [
        ("family", name, _weight_share(before.families, name), _weight_share(after.families, name))
        for name in before.families
    ]
    for (family, parameter), old in before.parameters.items():
        new = after.parameters[family, parameter]
        for index, weight in enumerate(old.weights):
            named = str(old.values[index]) if old.values else "{} to {}".format(*old.bins[index])
            rows.append(
                (f"{family}.{parameter}", named, weight / sum(old.weights), new.weights[index] / sum(new.weights))
            )
    rows.sort(key=lambda row: (-abs(math.log(row[3] / row[2])) if row[2] else 0.0, row[0], row[1]))
    for label, named, old_share, new_share in rows[:most]:
        yield f"  {label:<24} {named:<24} {100 * old_share:5.1f} -> {100 * new_share:5.1f} %"


def _weight_share(weights: Mapping[str, float], name: str) -> float:
    return weights[name] / sum(weights.values())
