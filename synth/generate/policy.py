"""The policy: how often each family, size, type and operation is drawn; loaded from TOML and validated."""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.languages import TRITON
from hipsynth.core.reasons import Reason
from hipsynth.synth.generate.choices import Choices
from hipsynth.synth.generate.headers import (
    FamilyTemplate,
    ParameterValue,
    ParameterValues,
    TemplateParameter,
    load_templates,
    templates_dir,
)

LOG_STEPS = 1 << 20
ROUNDING = (35, 25, 15, 25)  # weights of powers of two, multiples of 256, round decimals, any integer
TRIES = 200  # draws of a family's parameters until its constraints hold


def _log_uniform(choices: Choices, low: int, high: int) -> int:
    """An integer of [low, high], log-uniform, rounded as people choose sizes: to a power of two, a multiple of 256,
    two decimal digits, or not at all."""
    exact = round(low * (high / low) ** (choices.integer(0, LOG_STEPS) / LOG_STEPS))
    match choices.weighted(ROUNDING):
        case 0:
            value = 1 << round(math.log2(exact))
        case 1:
            value = exact // 256 * 256 or exact
        case 2:
            unit = int(10 ** max(0, math.floor(math.log10(exact)) - 1))
            value = exact // unit * unit
        case _:
            value = exact
    return min(max(value, low), high)


class PolicyError(BadInput):
    """The policy file is invalid."""

    reason = Reason.POLICY


@dataclass(frozen=True)
class DistributionTable:
    """A distribution as the policy file states it. A bin is lowest, highest, weight."""

    values: tuple[ParameterValue, ...] | None = None
    weights: tuple[float, ...] | None = None
    bins: tuple[tuple[int, int, float], ...] | None = None
    log: tuple[tuple[int, int, float], ...] | None = None


@dataclass(frozen=True)
class PolicyTable:
    """The sections of a policy file: weights of families, and those that differ where programs are written in Triton;
    distributions of parameters, common ones and by family; weights of productions by group; percentages of style."""

    families: Mapping[str, float]
    common: Mapping[str, DistributionTable]
    parameters: Mapping[str, Mapping[str, DistributionTable]]
    productions: Mapping[str, Mapping[str, int]]
    style: Mapping[str, int]
    triton: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Distribution:
    """Weighted values, or weighted integer bins: uniform inside a bin, or log-uniform."""

    values: tuple[ParameterValue, ...]
    bins: tuple[tuple[int, int], ...]
    weights: tuple[float, ...]
    log: bool = False

    def draw(self, choices: Choices) -> ParameterValue:
        """A random value."""
        index = choices.weighted(self.weights)
        if self.values:
            return self.values[index]
        return _log_uniform(choices, *self.bins[index]) if self.log else choices.integer(*self.bins[index])


@dataclass(frozen=True)
class Policy:
    """A validated policy; family and production weights are relative."""

    families: Mapping[str, float]
    parameters: Mapping[tuple[str, str], Distribution]  # (family, parameter)
    productions: Mapping[str, Mapping[str, float]]
    style: Mapping[str, int]  # percent
    triton: Mapping[str, float] = field(default_factory=dict)  # weights of families that differ for Triton

    @property
    def digest(self) -> str:
        """A hash of all weights."""
        weights = {f"{family}.{name}": d.weights for (family, name), d in self.parameters.items()}
        text = json.dumps([self.families, weights, self.productions, self.style, self.triton], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def family(self, choices: Choices, languages: Sequence[str] = ()) -> str:
        """A random family name for programs in these languages."""
        weights = {**self.families, **(self.triton if TRITON in languages else {})}
        return list(weights)[choices.weighted(list(weights.values()))]

    def draw(self, template: FamilyTemplate, choices: Choices, overrides: ParameterValues) -> dict[str, ParameterValue]:
        """Values of all parameters of a family, redrawn until its constraints hold; `overrides` are not drawn.

        Raises BadInput for an override of an unknown parameter, PolicyError if TRIES draws violate the constraints.
        """
        for name in overrides:
            if name not in {p.name for p in template.parameters}:
                raise BadInput(f"{template.family} has no parameter {name!r}")
        for _ in range(TRIES):
            params = {
                p.name: overrides[p.name] if p.name in overrides else self._draw_value(template, p, choices)
                for p in template.parameters
            }
            if not template.check(params):
                return params
        raise PolicyError(f"{template.family}: constraints do not hold in {TRIES} draws", cause=template.check(params))

    def _draw_value(self, template: FamilyTemplate, parameter: TemplateParameter, choices: Choices) -> ParameterValue:
        distribution = self.parameters.get((template.family, parameter.name))
        if distribution is not None:
            return distribution.draw(choices)
        if parameter.choices:
            return choices.pick(parameter.choices)
        return choices.integer(parameter.lo, parameter.hi)


def _parse_distribution(where: str, spec: DistributionTable) -> Distribution:
    rows = spec.bins if spec.log is None else spec.log
    if sum(value is not None for value in (spec.values, spec.bins, spec.log)) != 1:
        raise PolicyError(f"{where}: needs values with weights, bins, or log")
    if spec.values is not None:
        result = Distribution(spec.values, (), spec.weights or (1,) * len(spec.values))
    else:
        result = _parse_bins(where, rows or (), spec.log is not None)
    count = len(result.values or result.bins)
    if len(result.weights) != count or not count or min(result.weights) < 0 or sum(result.weights) <= 0:
        raise PolicyError(f"{where}: needs one non-negative weight per alternative, and one positive")
    return result


def _parse_bins(where: str, rows: Sequence[tuple[int, int, float]], log: bool) -> Distribution:
    if not all(low <= high for low, high, _ in rows):
        raise PolicyError(f"{where}: the lowest value of a bin is above its highest")
    if log and any(r[0] < 1 for r in rows):
        raise PolicyError(f"{where}: log bins begin at 1 or above")
    return Distribution((), tuple((r[0], r[1]) for r in rows), tuple(r[2] for r in rows), log)


def _check_distribution(where: str, distribution: Distribution, parameter: TemplateParameter) -> Distribution:
    values = distribution.values or [v for low, high in distribution.bins for v in (low, high)]
    bad = [v for v in values if not parameter.accepts(v)]
    if bad:
        raise PolicyError(f"{where}: {bad} are not values of this parameter", remedy="see the template's header")
    return distribution


def _restrict_distribution(distribution: Distribution, parameter: TemplateParameter) -> Distribution | None:
    """A common distribution restricted to the values this parameter accepts; None if there are none."""
    weights = distribution.weights
    if distribution.values:
        weighted = [(v, w) for v, w in zip(distribution.values, weights, strict=True) if parameter.accepts(v)]
        return Distribution(tuple(v for v, _ in weighted), (), tuple(w for _, w in weighted)) if weighted else None
    if parameter.choices:
        return None
    bins = [(max(lo, parameter.lo), min(hi, parameter.hi)) for lo, hi in distribution.bins]
    live = [(b, w) for b, w in zip(bins, weights, strict=True) if b[0] <= b[1]]
    if not live:
        return None
    return Distribution((), tuple(b for b, _ in live), tuple(w for _, w in live), distribution.log)


def parse_policy(data: object, templates: Mapping[str, FamilyTemplate]) -> Policy:
    """Validates a policy against the templates `templates` by family; raises PolicyError naming the first problem."""
    try:
        table = from_json(PolicyTable, data)
    except (TypeError, ValueError) as error:
        raise PolicyError("the policy lacks a section or has a wrong value", cause=str(error)) from error
    if set(table.families) != set(templates):
        odd = sorted(set(table.families) ^ set(templates))
        raise PolicyError(f"policy and templates disagree on the families {odd}")
    if odd := sorted(set(table.triton) - set(templates)):
        raise PolicyError(f"triton: no such families: {odd}")
    if any(w < 0 for w in (*table.families.values(), *table.triton.values())) or not any(table.families.values()):
        raise PolicyError("family weights must be non-negative, one positive")
    for section, families in table.parameters.items():
        if section not in templates or set(families) - {p.name for p in templates[section].parameters}:
            raise PolicyError(f"parameters.{section}: no such family or parameter")
    result: dict[tuple[str, str], Distribution] = {}
    for family, template in templates.items():
        for parameter in template.parameters:
            restriction = table.parameters.get(family, {}).get(parameter.name)
            where = f"{'parameters.' + family if restriction else 'common'}.{parameter.name} ({family})"
            if restriction:
                result[family, parameter.name] = _check_distribution(
                    where, _parse_distribution(where, restriction), parameter
                )
            elif parameter.name in table.common:
                cut = _restrict_distribution(_parse_distribution(where, table.common[parameter.name]), parameter)
                if cut is not None:
                    result[family, parameter.name] = cut
    _check_numbers("style", table.style, 100)
    for group, weights in table.productions.items():
        _check_numbers(f"productions.{group}", weights, None)
    return Policy(dict(table.families), result, table.productions, table.style, table.triton)


def _check_numbers(where: str, numbers: Mapping[str, int], most: int | None) -> None:
    for name, value in numbers.items():
        if value < 0 or (most is not None and value > most):
            raise PolicyError(f"{where}.{name}: {value!r} is not an integer from 0 to {most or 'any weight'}")


def load_policy(path: Path) -> Policy:
    """A policy from a TOML file; raises PolicyError if it cannot be read or is invalid."""
    try:
        data = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise PolicyError(f"{path}: cannot be read", cause=str(error)) from error
    return parse_policy(data, load_templates())


@lru_cache(maxsize=1)
def default_policy() -> Policy:
    """The policy in templates/policy/default.toml."""
    return load_policy(templates_dir() / "policy" / "default.toml")
