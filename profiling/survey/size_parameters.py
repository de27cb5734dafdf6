"""Finds the sizes of a program that can be chosen without editing it: arguments, options, macros.

Chosen among the numbers that its sources read (`source.program_inputs`), from its usage text and its command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hipsynth.source.program_inputs import NumberInput, argument_inputs, evaluate_number, macro_inputs, option_inputs

MOST_KNOBS = 12
LEAST_MACRO = 8  # smaller ones are rarely sizes
MOST_CHARS = 300_000  # of the sources
# Numbers that are no amount of work, or that a kernel is written for.
_FIXED = re.compile(
    r"block|\bblk|thread|tile|wave|warp|dev(ice)?(_?id)?\b|gpu|seed|verb|print|check|valid|type|mode|port|version",
    re.IGNORECASE,
)
_ITERATIONS = re.compile(
    r"iter|rep(s|eat)?|step|times|trial|loop|epoch|warm|sweep|cycles|nt\b|frames|samples|^-[irt]$", re.IGNORECASE
)
# A line of a help text: -x, --width   width of the matrix
_HELP = re.compile(r"(?:(-\w)[ \t]*)?(?:[,|/][ \t]*)?(--?[A-Za-z][\w-]+)[ =\t]+([^\n]+)")
_AMOUNT = re.compile(
    r"size|length|width|height|dimension|number of|elements|rows|col(umn)?s\b|nodes|points|iterations", re.IGNORECASE
)
_USAGE = re.compile(r"usage\s*(?::\s*)?\S+((?:[ \t]+(?:\[[^\]\n]+\]|<[^>\n]+>|[A-Za-z_]\w*))+)", re.IGNORECASE)
_USAGE_WORD = re.compile(r"\[[^\]\n]+\]|<[^>\n]+>|[A-Za-z_]\w*")
_OPTION = re.compile(r"(--?[A-Za-z][\w-]*)(?:[ =]+<?([A-Za-z_]\w*)>?)?")
_PLAIN = re.compile(r"\d+")
_GIVEN = re.compile(r"(--?[A-Za-z][\w-]*=)(\d+)")


@dataclass(frozen=True)
class Knob:
    """A number that the program can be given. `kind`: argument (at position `place`, from 1), option or macro.

    `value`: what it is without a change, 0 if unknown. `repeats`: by its name a number of iterations, not a size.
    """

    kind: str
    place: str
    value: int
    name: str  # what the program calls it, "" if unknown

    @property
    def repeats(self) -> bool:
        return bool(_ITERATIONS.search(self.name))


def knobs_of(texts: Iterable[str], usage: str, arguments: Sequence[str], defines: Iterable[str]) -> list[Knob]:
    """The knobs of a program, iterations first, then in the order of their appearance.

    `texts`: its sources without comments; `usage`: what it printed; `arguments`: its command line; `defines`: macros
    that its build sets. Arguments that are given take precedence over what the sources say.
    """
    code = "\n".join(texts)[:MOST_CHARS]
    knobs: dict[tuple[str, str], Knob] = {}
    for knob in (
        *_given_knobs(arguments, code),
        *_declared_macros(defines),
        *(_knob(number_input) for number_input in (*argument_inputs(code), *option_inputs(code))),
        *_described_knobs(f"{usage}\n{code}", taken=bool(arguments)),
        *_help_knobs(usage),
        *(_knob(number_input) for number_input in macro_inputs(code, LEAST_MACRO)),
    ):
        knobs.setdefault((knob.kind, knob.place), knob)
    useful = [knob for knob in knobs.values() if not _FIXED.search(knob.name)]
    return sorted(useful, key=lambda knob: not knob.repeats)[:MOST_KNOBS]


def _knob(number_input: NumberInput) -> Knob:
    return Knob(number_input.kind, number_input.place, number_input.value, number_input.name)


def _given_knobs(arguments: Sequence[str], code: str) -> list[Knob]:
    """The numbers of the current command line."""
    names = {number_input.place: number_input.name for number_input in argument_inputs(code)}
    knobs = []
    for at, word in enumerate(arguments, 1):
        before = arguments[at - 2] if at > 1 and arguments[at - 2].startswith("-") else ""
        if match := _GIVEN.fullmatch(word):
            knobs.append(Knob("argument", str(at), int(match[2]), match[1]))
        elif _PLAIN.fullmatch(word) and int(word) > 1:
            knobs.append(Knob("argument", str(at), int(word), before or names.get(str(at), "")))
    return knobs


def _declared_macros(defines: Iterable[str]) -> list[Knob]:
    split = [text.partition("=")[::2] for text in defines]
    return [Knob("macro", name, evaluate_number(value), name) for name, value in split if evaluate_number(value) > 1]


def _described_knobs(text: str, *, taken: bool) -> list[Knob]:
    """Arguments and options of a usage line such as `usage: app [n] [-i iterations]`, without values."""
    knobs: list[Knob] = []
    for line in _USAGE.findall(text):
        place = 0
        for word in _USAGE_WORD.findall(line):
            inner = word.strip("[]<>")
            if option := _OPTION.fullmatch(inner):
                if option[2]:
                    knobs.append(Knob("option", option[1], 0, option[2]))
                continue
            place += 1
            if not taken and not re.search(r"file|path|name|options?\b|\.", inner, re.IGNORECASE):
                knobs.append(Knob("argument", str(place), 0, inner))
    return knobs


def _help_knobs(usage: str) -> list[Knob]:
    """The options of a help text that stand for amounts, without values."""
    knobs = []
    for line in usage.split("\n"):
        match = _HELP.fullmatch(line.lstrip(" \t"))
        if match is None:
            continue
        short, name, words = match.groups()
        if _AMOUNT.search(f"{name} {words}"):
            knobs.append(Knob("option", short or name, 0, f"{name} {words[:40]}"))
    return knobs
