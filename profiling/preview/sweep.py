"""Previews of many launches along a line: one kernel and block, one number that grows.

Few launches are interpreted. Between two of them, counts are interpolated: each by the rule of RULES that fits best to
a launch between them. The span is used only if another one, interpreted as a check, has the time and metrics that
interpolation gives. Else launches are told apart by the alignment of their number, then spans are halved, in the end
down to single launches. The timing model computes time and metrics of each launch from its counts, its true grid and
its buffers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.profiling.metrics import is_hit_rate
from hipsynth.profiling.preview.interpret import BASIC, BUSIEST, Interpreter, Preview, ScaledCounts
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.programs import PreviewFailure, no_interpretation, unknown_kernel
from hipsynth.profiling.preview.size_rules import CHECK_POSITION

TOLERANCE = 0.03  # relative, of time and metrics at a check
HIT_RATE_TOLERANCE = 1.0  # in points: rates near zero have large relative errors
MOST_EXACT_LAUNCHES = 8  # launches of a span up to which each is interpreted
ALIGNED = 64  # the largest power of two that is told apart
RULES = ("a power, per work-group", "a power, of the launch", "a straight line, of the launch")
Floats = npt.NDArray[np.float64]
Places = npt.NDArray[np.int64]


@dataclass(frozen=True)
class SweptPreview:
    """A launch's preview, or why it has none; `interpreted`: it was not interpolated."""

    preview: Preview | PreviewFailure
    interpreted: bool = True


class Line:
    """Launches of one kernel, block and build, in the order of the number that grows."""

    def __init__(self, interpreter: Interpreter, numbers: Sequence[float], launches: Sequence[DeviceLaunch]) -> None:
        self.interpreter, self.launches, self.numbers = interpreter, launches, numbers
        self.known: dict[int, ScaledCounts | None] = {}
        self.failures: dict[int, PreviewFailure] = {}

    def previews(self) -> list[SweptPreview]:
        """One for each launch."""
        swept: dict[int, SweptPreview] = {}
        for low, high, inside, rule in self._smooth_spans():
            for index, counted in zip(inside, self._interpolate_counts(low, high, inside, rule), strict=True):
                swept[index] = SweptPreview(self._scale_at(index, counted), interpreted=False)
        for index, preview in self.known.items():
            swept[index] = SweptPreview(self.failures[index] if preview is None else self._scale_at(index, preview))
        return [swept[index] for index in range(len(self.launches))]

    def _smooth_spans(self) -> Iterator[tuple[int, int, list[int], Places]]:
        """Pairs of interpreted launches, those between them to interpolate, and by which rules; interprets others."""
        todo = [(list(range(len(self.launches))), False)]
        while todo:
            members, alike = todo.pop()
            low, high, half = members[0], members[-1], len(members) // 2
            if len(members) <= MOST_EXACT_LAUNCHES or self._count_at(low) is None or self._count_at(high) is None:
                for index in members:
                    self._count_at(index)
                continue
            rule = self._choose_rules(low, high, members[half])
            if rule is not None and self._agrees_between(
                low, high, members[round(CHECK_POSITION * len(members))], rule
            ):
                yield low, members[half], members[1:half], rule
                yield members[half], high, members[half + 1 : -1], rule
            elif alike:
                todo += [(members[: half + 1], True), (members[half:], True)]
            else:
                todo += [(group, True) for group in self._by_alignment(members)]

    def _by_alignment(self, members: Sequence[int]) -> list[list[int]]:
        """The launches by the power of two that divides their number: rows of an array begin in the same places of
        cache lines."""
        groups: dict[int, list[int]] = {}
        for index in members:
            number = int(self.numbers[index])
            groups.setdefault(math.gcd(number, ALIGNED), []).append(index)
        return list(groups.values())

    def _count_at(self, index: int) -> ScaledCounts | None:
        """The counts of a launch, interpreted once."""
        if index not in self.known:
            launch = self.launches[index]
            self.failures[index] = unknown_kernel(launch.kernel)
            try:
                self.known[index] = self.interpreter.of_module(launch).count(launch)
            except BadInput as error:
                self.known[index] = None
                self.failures[index] = no_interpretation(launch.kernel, error)
        return self.known[index]

    def _scale_at(self, index: int, counted: ScaledCounts) -> Preview:
        launch = self.launches[index]
        return self.interpreter.of_module(launch).scale_counts(launch, counted)

    def _choose_rules(self, low: int, high: int, middle: int) -> Places | None:
        """The rule that fits each count of a launch between two best; None if it has no counts."""
        true = self._count_at(middle)
        if true is None:
            return None
        errors = np.abs(self._candidate_counts(low, high, [middle])[:, 0] - np.array(_list_values(true)))
        rule: Places = np.argmin(errors, axis=0)
        return rule

    def _agrees_between(self, low: int, high: int, index: int, rule: Places) -> bool:
        true = self._count_at(index)
        if true is None:
            return False
        (guess,) = self._interpolate_counts(low, high, [index], rule)
        return previews_agree(self._scale_at(index, guess), self._scale_at(index, true))

    def _interpolate_counts(self, low: int, high: int, indices: Sequence[int], rule: Places) -> list[ScaledCounts]:
        """The counts of launches between two interpreted ones."""
        like = self.known[low]
        assert like is not None
        rows = np.take_along_axis(self._candidate_counts(low, high, indices), rule[None, None, :], axis=0)[0]
        return [_replace_counts(like, row) for row in rows.tolist()]

    def _candidate_counts(self, low: int, high: int, indices: Sequence[int]) -> Floats:
        """[rule, launch, count]: the counts of launches between two interpreted ones by each rule."""
        first, last = self.known[low], self.known[high]
        assert first is not None and last is not None
        ends = np.array([_list_values(first), _list_values(last)])
        sizes = np.array([self._count_scales(i, first) for i in (low, high, *indices)])
        numbers = np.array([self.numbers[i] for i in (low, high, *indices)], dtype=np.float64)[:, None]
        logs = np.log(np.maximum(numbers, 1e-9))
        linear, power = (_relative_position(scale) for scale in (numbers, logs))
        per_group = _interpolate_power(ends / sizes[:2], power) * sizes[2:]
        return np.stack([per_group, _interpolate_power(ends, power), ends[0] + linear * (ends[1] - ends[0])])

    def _count_scales(self, index: int, like: ScaledCounts) -> list[float]:
        """The scale of each count: the launch's work-groups, those of its busiest CU, or 1."""
        groups = float(math.prod(self.launches[index].grid))
        busiest = float(math.ceil(groups / self.interpreter.spec["topology.cus"]))
        sizes = [groups] * len(like.counters) + [busiest if name == BUSIEST else groups for name in like.work]
        return sizes + [1.0] * len(_number_names(like))


def _relative_position(scale: Floats) -> Floats:
    """The position of each later number between the first two, as a fraction."""
    width = scale[1] - scale[0]
    return (scale[2:] - scale[0]) / width if width else np.full_like(scale[2:], 0.5)


def _interpolate_power(ends: Floats, share: Floats) -> Floats:
    """Between two ends along a power of the number; along a line where one of them is 0."""
    logs = np.log(np.where(ends > 0, ends, 1.0))
    straight = ends[0] + share * (ends[1] - ends[0])
    powers: Floats = np.where((ends > 0).all(axis=0), np.exp(logs[0] + share * (logs[1] - logs[0])), straight)
    return powers


def previews_agree(guess: Preview, true: Preview) -> bool:
    """Whether two previews say the same time and metrics."""
    pairs = [(guess.duration_ns, true.duration_ns, 0.0)]
    for name in BASIC:
        a, b = guess.metrics[name], true.metrics[name]
        if a is None or b is None:
            if a is not b:
                return False
            continue
        pairs.append((a, b, HIT_RATE_TOLERANCE if is_hit_rate(name) else 0.0))
    return all(math.isclose(a, b, rel_tol=TOLERANCE, abs_tol=points) for a, b, points in pairs)


def _number_names(counted: ScaledCounts) -> list[str]:
    return [name for name, value in counted.occupancy.items() if not isinstance(value, str)]


def _list_values(counted: ScaledCounts) -> list[float]:
    numbers = [float(counted.occupancy[name]) for name in _number_names(counted)]
    return [*counted.counters.values(), *counted.work.values(), *numbers]


def _replace_counts(like: ScaledCounts, values: Sequence[float]) -> ScaledCounts:
    first, second = len(like.counters), len(like.counters) + len(like.work)
    return replace(
        like,
        counters=dict(zip(like.counters, values[:first], strict=True)),
        work=dict(zip(like.work, values[first:second], strict=True)),
        occupancy={**like.occupancy, **dict(zip(_number_names(like), values[second:], strict=True))},
    )
