"""Further sizes of a program for a corpus: other arguments of the same build, or other constants of its sources."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation, SourceUnit
from hipsynth.profiling.survey.shrink import GUESSED_SIZE, start_with
from hipsynth.profiling.survey.size_parameters import Knob, knobs_of
from hipsynth.profiling.survey.sources import read_text
from hipsynth.source.outline import without_comments
from hipsynth.source.program_inputs import NamedConstant, size_constants

# Factors of all sizes together; each row is tried until sizes stop working. Half steps, so that sizes are not only
# powers of two.
LADDERS = (
    (1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 256, 1 / 1024),
    (2, 4, 8),
    (3 / 4, 3 / 8, 3 / 16, 3 / 32, 3 / 64),
    (3 / 2, 3),
)
ONE_AT_A_TIME = (1 / 4, 2, 1 / 16)  # of one size where there are several
# Constants need a build for each size, arguments only a run.
CONSTANT_LADDERS = ((1 / 2, 1 / 4, 1 / 8, 1 / 16), (2,), (3 / 4, 3 / 8))
MOST_BY_ARGUMENT, MOST_BY_CONSTANT = 28, 7
LEAST_SIZE, MOST_SIZE = 2, 1 << 28
STEP = 16  # sizes that are multiples of it stay so, since blocks often have to divide them
# Knobs whose value is an exponent: one step halves or doubles the size.
_EXPONENT = re.compile(r"log|exp|pow|bits|scale", re.IGNORECASE)


@dataclass(frozen=True)
class ResizedInvocation:
    """A start of a program in other sizes: its call, and the plan of its build, None for the build that exists.

    `ladder`: equal for sizes that follow each other, of which the next is not worth a try if one fails.
    """

    call: Invocation
    plan: BuildPlan | None
    ladder: int
    change: str = ""  # of its constants: N=512, M=256


def other_sizes(plan: BuildPlan, call: Invocation, printed: str) -> Iterator[ResizedInvocation]:
    """Other sizes of a program, always the same ones. `printed`: the output of its run with `call`."""
    texts = [without_comments(read_text(unit.path)) for unit in plan.units]
    defines = [text for unit in plan.units for text in unit.defines]
    knobs = [knob for knob in knobs_of(texts, printed, call.arguments, defines) if not knob.repeats]
    by_argument = [knob for knob in knobs if knob.kind != "macro"]
    if by_argument:
        yield from islice(_by_argument(call, by_argument), MOST_BY_ARGUMENT)
    else:
        yield from islice(_by_constant(plan, call), MOST_BY_CONSTANT)


def scale_size(value: int, factor: float) -> int:
    """A size times a factor; multiples of STEP stay such."""
    wanted = int(value * factor)
    if value % STEP == 0 and wanted >= STEP:
        wanted -= wanted % STEP
    return min(max(wanted, LEAST_SIZE), MOST_SIZE)


def _scaled_value(knob: Knob, factor: float) -> int:
    usual = knob.value or GUESSED_SIZE
    if _EXPONENT.search(knob.name):
        steps = round(abs(factor - 1)) if factor > 1 else -round(1 / factor - 1)
        return max(1, usual + max(-8, min(steps, 3)))
    return scale_size(usual, factor)


def _by_argument(call: Invocation, knobs: Sequence[Knob]) -> Iterator[ResizedInvocation]:
    seen_calls = {call}
    single = [(knob,) for knob in knobs] if len(knobs) > 1 else []
    rows = [(factors, tuple(knobs)) for factors in LADDERS] + [(ONE_AT_A_TIME, chosen) for chosen in single]
    for ladder, (factors, chosen) in enumerate(rows):
        for factor in factors:

            def value(knob: Knob, chosen: Sequence[Knob] = chosen, factor: float = factor) -> int:
                return _scaled_value(knob, factor) if knob in chosen else knob.value

            resized = start_with(call, knobs, value).call
            if resized not in seen_calls:
                seen_calls.add(resized)
                yield ResizedInvocation(resized, None, ladder)


def _by_constant(plan: BuildPlan, call: Invocation) -> Iterator[ResizedInvocation]:
    texts = {unit.path: read_text(unit.path) for unit in plan.units}
    constants = {path: size_constants(text) for path, text in texts.items()}
    if not any(constants.values()):
        return
    for ladder, factors in enumerate(CONSTANT_LADDERS):
        for factor in factors:
            edited = {
                path: _edit_constants(texts[path], constant, factor) for path, constant in constants.items() if constant
            }
            changes = dict.fromkeys(
                f"{constant.name}={scale_size(constant.value, factor)}"
                for group in constants.values()
                for constant in group
            )
            yield ResizedInvocation(call, _with_texts(plan, edited), ladder, ", ".join(changes))


def _edit_constants(text: str, constants: Sequence[NamedConstant], factor: float) -> str:
    for constant in reversed(constants):
        text = f"{text[: constant.start]}{scale_size(constant.value, factor)}{text[constant.end :]}"
    return text


def _with_texts(plan: BuildPlan, edited: dict[Path, str]) -> BuildPlan:
    """The plan with other texts of some files, which keep finding what lies beside them."""

    def unit_of(unit: SourceUnit) -> SourceUnit:
        return replace(unit, includes=(unit.path.parent, *unit.includes)) if unit.path in edited else unit

    kept_texts = tuple((path, text) for path, text in plan.written if path not in edited)
    written = tuple((unit.path, edited[unit.path]) for unit in plan.units if unit.path in edited)
    return replace(plan, units=tuple(map(unit_of, plan.units)), written=(*kept_texts, *written))
