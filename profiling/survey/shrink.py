"""Looks for a smaller command line of a program that does not fit its budget."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.profiling.survey.build_plan import BuildPlan, Invocation
from hipsynth.profiling.survey.size_parameters import Knob, knobs_of
from hipsynth.profiling.survey.sources import read_text
from hipsynth.simulator.budget_outcome import Spending
from hipsynth.source.outline import without_comments

ATTEMPTS = 5
# Divisors of iterations and of sizes, one pair for each attempt: iterations first where launches repeat.
_REPEATING = ((10, 1), (50, 4), (200, 16), (1000, 64), (10_000, 256))
_LARGE = ((1, 4), (4, 16), (10, 64), (100, 256), (1000, 1024))
MANY = 16  # launches of one kernel from which on there seem to be iterations
LEAST_SIZE, LEAST_REPEATS = 16, 1
# For numbers whose usual value is unknown: what the usual one is taken for.
GUESSED_SIZE, GUESSED_REPEATS = 4096, 100


@dataclass(frozen=True)
class Proposal:
    """A smaller start of a program: its call, and macros that its build sets as NAME=VALUE."""

    call: Invocation
    defines: tuple[str, ...] = ()


def propose_smaller(
    plan: BuildPlan, call: Invocation, printed: str, spending: Sequence[Spending]
) -> Iterator[Proposal]:
    """At most ATTEMPTS smaller starts of a program, larger ones first. The same inputs give the same proposals.

    `printed`: the output of its run with `call`, and `spending` its launches; if one kernel was launched many times,
    numbers of iterations are reduced before sizes.
    """
    texts = [without_comments(read_text(unit.path)) for unit in plan.units]
    defines = [text for unit in plan.units for text in unit.defines]
    knobs = knobs_of(texts, printed, call.arguments, defines)
    if not knobs:
        return
    repeating = max((row.launches for row in spending), default=0) >= MANY and any(knob.repeats for knob in knobs)
    proposals = {Proposal(call)}
    for repeats, sizes in _REPEATING if repeating else _LARGE:

        def value(knob: Knob, repeats: int = repeats, sizes: int = sizes) -> int:
            return shrink_knob(knob, repeats if knob.repeats else sizes)

        resized_call = start_with(call, knobs, value)
        if resized_call not in proposals:
            proposals.add(resized_call)
            yield resized_call


def shrink_knob(knob: Knob, divisor: int) -> int:
    """The value of a knob divided by `divisor`; sizes keep being multiples of 16 if they are."""
    usual = knob.value or (GUESSED_REPEATS if knob.repeats else GUESSED_SIZE)
    if divisor == 1:
        return knob.value
    if knob.repeats:
        return max(LEAST_REPEATS, usual // divisor)
    if usual <= LEAST_SIZE:
        return usual
    value = max(LEAST_SIZE, usual // divisor)
    return value // LEAST_SIZE * LEAST_SIZE if usual % LEAST_SIZE == 0 else value


def start_with(call: Invocation, knobs: Sequence[Knob], value: Callable[[Knob], int]) -> Proposal:
    """The call with the `value` of every knob, 0 for an unknown one that is to stay; macros only if no argument or
    option can be given."""
    words = list(call.arguments)
    by_place = {int(knob.place): knob for knob in knobs if knob.kind == "argument"}
    last = max((place for place, knob in by_place.items() if _is_changed(knob, value) or not knob.value), default=0)
    for place in sorted(place for place in by_place if place <= last):
        knob = by_place[place]
        number = value(knob) or shrink_knob(knob, 2)  # an unknown one must be given for those behind it
        if place <= len(words):
            head = words[place - 1].rpartition("=")
            words[place - 1] = f"{head[0]}{head[1]}{number}"
        elif place == len(words) + 1:
            words.append(str(number))
    options = [knob for knob in knobs if knob.kind == "option" and knob.place not in words] if not by_place else []
    for knob in options:
        if _is_changed(knob, value):
            words += [knob.place, str(value(knob))]
    defines: tuple[str, ...] = ()
    if not by_place and not options:
        macros = [knob for knob in knobs if knob.kind == "macro" and _is_changed(knob, value)]
        defines = tuple(f"{knob.place}={value(knob)}" for knob in macros)
    return Proposal(replace(call, arguments=tuple(words)), defines)


def _is_changed(knob: Knob, value: Callable[[Knob], int]) -> bool:
    return value(knob) != knob.value


def with_defines(plan: BuildPlan, defines: Sequence[str]) -> BuildPlan:
    """The plan with these macros set in every file, instead of what it sets them to."""
    names = {text.partition("=")[0] for text in defines}
    units = []
    for unit in plan.units:
        kept_defines = tuple(text for text in unit.defines if text.partition("=")[0] not in names)
        units.append(replace(unit, defines=(*kept_defines, *defines)))
    return replace(plan, units=tuple(units))


def _displayed_path(path: Path) -> str:
    """A path as the user would write it: relative if it lies below the current folder."""
    here = Path.cwd()
    return str(path.relative_to(here) if path.is_relative_to(here) else path)


def command_line(main: Path, plan: BuildPlan, root: Path, proposal: Proposal, budget_s: float) -> str:
    """The command that profiles the program so."""
    words = ["synth", "profile", _displayed_path(main)]
    if plan.origin != "guess" or len(plan.units) > 1:
        words += ["--project", _displayed_path(plan.folder if plan.folder.is_relative_to(root) else root)]
    words += ["--budget", f"{budget_s:g}s"]
    for text in proposal.defines:
        words += ["-D", text]
    return shlex.join([*words, *(["--", *proposal.call.arguments] if proposal.call.arguments else [])])
