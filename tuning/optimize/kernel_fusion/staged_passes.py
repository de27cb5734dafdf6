"""A group's elements in the LDS while it makes all passes of a loop: loaded before the first pass, stored after the
last one."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hipsynth.source.edits import Edit, edit_text
from hipsynth.source.tokens import find_closing
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import ArrayUses, FusedLaunch
from hipsynth.tuning.optimize.kernel_fusion.group_places import covers_elements, parse_subscript

MOST_BYTES = 32 << 10  # of a group's arrays, so that two groups fit on a CU
_CONDITIONS = frozenset({"if", "else", "return", "for", "while", "do", "switch", "?", "&&", "||"})
_SUM = re.compile(r"[\w\s.+*/%()-]*")


@dataclass(frozen=True)
class StagedPasses:
    """The arrays (parameters of the kernel, the one that is read first) of which each group has `elements` for itself,
    as tiles in the LDS."""

    call: FusedLaunch
    arrays: tuple[str, ...]
    elements: int
    loads: tuple[bool, ...]  # whether a tile is loaded: one that the first pass fills is not

    def find_names(self) -> dict[str, str]:
        """What the arrays, and the place of their first element, are called in the new kernel."""
        tokens = self.call.program.tokens[self.call.kernel.first : self.call.kernel.last]
        used = " ".join([token.text for token in tokens] + [p.name for p in self.call.kernel.parameters])
        names = dict(zip(self.arrays, ("from", "to"), strict=False))
        return {name: choose_free_name(new, used) for name, new in {**names, "": "first", "tiles": "tiles"}.items()}

    def write_text(self) -> tuple[list[str], str, list[str]]:
        """(What stands before the loop of passes, the body of a pass, what stands behind the loop)."""
        names = self.find_names()
        kind = next(p.base for p in self.call.kernel.parameters if p.name == self.arrays[0])
        first, tiles, size = names[""], names["tiles"], self.elements
        loop = f"  for (int i = threadIdx.x; i < {size}; i += blockDim.x)"
        before = [f"  __shared__ {kind} {tiles}[{len(self.arrays)}][{size}];"]
        before += [f"  {kind}* {names[array]} = {tiles}[{number}];" for number, array in enumerate(self.arrays)]
        before += [f"  const int {first} = blockIdx.x * {size};"]
        loads = [
            f"{tiles}[{number}][i] = {array}[{first} + i];"
            for number, (array, loaded) in enumerate(zip(self.arrays, self.loads, strict=True))
            if loaded
        ]
        before += [_write_loop(loop, loads), "  __syncthreads();"]
        stores = [f"{array}[{first} + i] = {tiles}[{number}][i];" for number, array in enumerate(self.arrays)]
        return before, _StagedBody(self.call, names).text(), [_write_loop(loop, stores)]


class _StagedBody(FusedLaunch):
    """The body of a launch with elements of tiles in place of those of arrays."""

    def __init__(self, call: FusedLaunch, names: Mapping[str, str]) -> None:
        super().__init__(call.program, call.launch, call.kernel)
        self.names = names

    def _rename_tokens(self, start: int, end: int, names: Mapping[str, str]) -> str:
        tokens, first = self.program.tokens, self.names[""]
        base, last = tokens[start].start, tokens[end - 1].end
        source = self.program.unit.text
        edits = []
        for i in range(start, end):
            if tokens[i].text not in self.names or not self.uses_name(i, tokens[i].text):
                continue
            opening, closing = tokens[i + 1], tokens[find_closing(tokens, i + 1)]
            inside = source[opening.end : closing.start].decode(errors="surrogateescape")
            head, tail = ("", "") if _SUM.fullmatch(inside) else ("(", ")")
            edits.append(Edit(tokens[i].start - base, opening.end - base, f"{self.names[tokens[i].text]}[{head}"))
            edits.append(Edit(closing.start - base, closing.start - base, f"{tail} - {first}"))
        return edit_text(source[base:last], edits)


def stage_passes(
    call: FusedLaunch,
    uses: Mapping[str, ArrayUses],
    arrays: Sequence[str],
    elements: int,
    lanes: int,
    first_pass: Mapping[str, int],
) -> StagedPasses:
    """The plan for arrays (parameters of the kernel) of whose `elements` each group of `lanes` work-items has its own.
    `first_pass`: the values of names in the first pass. Raises NotUnderstood where some may lie outside the arrays, or
    do not fit."""
    tokens, kernel = call.program.tokens, call.kernel
    parameters = {parameter.name: parameter for parameter in kernel.parameters}
    kinds = {parameters[name].base for name in arrays}
    size = type_bytes(next(iter(kinds))) if len(kinds) == 1 else None
    if size is None or len(arrays) * elements * size > MOST_BYTES:
        raise NotUnderstood("arrays of different types, or too many elements")
    if _CONDITIONS & {token.text for token in tokens[kernel.first : kernel.last]}:
        raise NotUnderstood("elements that are not accessed in all cases")
    loads = []
    for name in arrays:
        use = uses[call.passed[name]]
        trees = [parse_subscript(text) for text in use.subscripts]
        loads.append(name == arrays[0] or not covers_elements(trees, lanes, first_pass, elements))
    return StagedPasses(call, tuple(arrays), elements, tuple(loads))


def _write_loop(head: str, statements: Sequence[str]) -> str:
    if len(statements) == 1:
        return f"{head} {statements[0]}"
    return "\n    ".join([f"{head} {{", *statements]) + "\n  }"
