"""The variables outside functions that kernels use, such as `__device__ float total;`, also in functions that they
call."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hipsynth.source.tokens import Span
from hipsynth.tuning.optimize.kernel_body import Body
from hipsynth.tuning.optimize.program_model import KernelDefinition, ParsedProgram

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
    for at, place in _list_variables(program, (kernel.first, kernel.last)):
        used.add(place)
        is_element = program.tokens[at + 1].text == "[" and program.tokens[at - 1].text != "&"
        if not is_element or body.assigns(at, kernel.last):
            written.add(place)
    for span in _list_called(program, kernel):
        inside = {place for _, place in _list_variables(program, span)}
        used |= inside
        written |= inside
    return DeviceVariables(frozenset(used), frozenset(written))


def _list_variables(program: ParsedProgram, span: Span) -> Iterator[tuple[int, int]]:
    """The tokens that name such a variable, each with the place of its declaration."""
    for at in range(*span):
        for entity in program.entities(program.tokens[at]):
            is_global = entity.user and entity.category == "variable" and not entity.local and not entity.shared
            if is_global and not _is_fixed(program, entity.place[1]):
                yield at, entity.place[1]


def _is_fixed(program: ParsedProgram, place: int) -> bool:
    """Whether the variable that is declared at a place is a constant for kernels."""
    tokens = program.tokens
    at = next((i for i, token in enumerate(tokens) if token.start == place), 0)
    first = at
    while first and tokens[first - 1].text not in (";", "{", "}"):
        first -= 1
    return bool(_FIXED & {token.text for token in tokens[first:at]})


def _list_called(program: ParsedProgram, kernel: KernelDefinition) -> Iterator[Span]:
    """The bodies of the functions that a kernel calls, and of those that these call."""
    spans, visited = [(kernel.first, kernel.last)], set[str]()
    while spans:
        words = {token.text for span in spans for token in program.tokens[slice(*span)]}
        called = [each for each in program.functions if each.name in words - visited]
        visited |= {each.name for each in called}
        spans = [(each.first, each.last) for each in called]
        yield from spans
