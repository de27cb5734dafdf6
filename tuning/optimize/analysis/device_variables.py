"""The variables outside functions that kernels use, such as `__device__ float total;`, also in functions that they
call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.entities import Entity
from hipsynth.source.tokens import Span, find_opening
from hipsynth.tuning.optimize.analysis.called_text import list_called, list_words
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram

_MADE = "<builtin>"  # the file of what macros make of parts, `d_##name`
_FIXED = frozenset({"const", "constexpr", "__constant__"})


@dataclass(frozen=True)
class DeviceVariables:
    """The variables that a kernel uses and that may change while the program runs, by the places of their
    declarations; `written`: those of which it does more than to read elements."""

    used: frozenset[int]
    written: frozenset[int]

    def may_conflict(self, other: DeviceVariables) -> bool:
        """Whether one of two kernels may change what the other one uses."""
        return bool(self.written & other.used or self.used & other.written)


def find_device_variables(program: ParsedProgram, kernel: KernelDefinition) -> DeviceVariables:
    """Those of a kernel. What functions use counts as written."""
    body, used, written = Body(program, kernel), set[int](), set[int]()
    for at, place in _list_places(program, (kernel.first, kernel.last)):
        used.add(place)
        is_element = program.tokens[at + 1].text == "[" and program.tokens[at - 1].text != "&"
        if not is_element or body.assigns(at, kernel.last):
            written.add(place)
    for span in list_called(program, (kernel.first, kernel.last)):
        inside = {place for _, place in list_variables(program, span) if not _is_fixed(program, place)}
        used |= inside
        written |= inside
    return DeviceVariables(frozenset(used), frozenset(written))


def _list_places(program: ParsedProgram, span: Span) -> Iterator[tuple[int, int]]:
    """The tokens that name such a variable, each with the place of its declaration."""
    for at in range(*span):
        for _, place in list_variables(program, (at, at + 1)):
            if not _is_fixed(program, place):
                yield at, place


def _is_fixed(program: ParsedProgram, place: int) -> bool:
    """Whether the variable that is declared at a place is a constant for kernels."""
    first, at = find_declaration(program, place)
    return bool(_FIXED & {token.text for token in program.tokens[first:at]})


def list_variables(program: ParsedProgram, span: Span) -> Iterator[tuple[str, int]]:
    """Those that a piece of code names itself, or by macros; the place is -1 for a name that a macro makes of parts."""
    tokens = program.tokens[slice(*span)]
    written_out = list_words(program, span) - {token.text for token in tokens}
    for token in tokens:
        yield from ((each.name, _find_place(each)) for each in program.entities(token) if _is_outside(each))
    for token in program.tokens if written_out else ():
        for entity in program.entities(token):
            if token.text in written_out and _is_outside(entity):
                yield entity.name, _find_place(entity)


def _is_outside(entity: Entity) -> bool:
    is_here = entity.user or entity.place[0] == _MADE
    return is_here and entity.category == "variable" and not entity.local and not entity.shared


def _find_place(entity: Entity) -> int:
    return entity.place[1] if entity.user else -1


def find_declaration(program: ParsedProgram, place: int) -> Span:
    """The tokens of a declaration up to the name that is declared at a place."""
    at = first = next((i for i, token in enumerate(program.tokens) if token.start == place), 0)
    while first and program.tokens[first - 1].text not in (";", "{", "}"):
        first -= 1
        if program.tokens[first].text == "," and program.tokens[first - 1].text == "}":
            first = find_opening(program.tokens, first - 1)  # the values of the variable before
    return first, at
