"""Kernels whose work-items use nothing but their number in the grid: the places where they do, to pass it otherwise."""

from __future__ import annotations

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.program_model import (
    KernelDefinition,
    LaunchStatement,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.function_text import choose_free_name
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import has_one_axis
from hipsynth.tuning.optimize.kernel_fusion.group_places import OWN_NUMBER

_OWN_TOKENS = 11  # of such a number: three names with a member each, and two operators
_NUMBERS = ("blockIdx", "blockDim", "threadIdx")
_BEFORE = frozenset({
    "(", "=", ",", "+", "return", "[", "{", ";", "<", ">", "<=", ">=", "==", "!=", "&&", "||", "?", ":",
})  # fmt: skip
_AFTER_BINDS = frozenset({"*", "/", "%", ".", "[", "++", "--", "("})


def number_items(program: ParsedProgram, launch: LaunchStatement, kernel: KernelDefinition) -> tuple[str, list[Edit]]:
    """A name for the number of a work-item, and the edits that put it where the kernel computes that number. Raises
    NotUnderstood for kernels whose work-items use more, and for launches of more than one axis."""
    tokens = program.tokens
    if not kernel.independent or kernel.template or launch.template or launch.rest:
        raise NotUnderstood("a kernel whose work-items depend on their group")
    if not (has_one_axis(program, launch.grid) and has_one_axis(program, launch.block)):
        raise NotUnderstood("launches of more than one axis")
    words = [tokens[i].text for i in range(kernel.first, kernel.last)]
    if COORDINATES & program.spread_words(program.macros.keys() & set(words)):
        raise NotUnderstood("a macro that uses the numbers of a work-item")
    item = choose_free_name("item", " ".join([*words, *(parameter.name for parameter in kernel.parameters)]))
    edits = [
        Edit(tokens[i].start, tokens[i + _OWN_TOKENS - 1].end, item)
        for i in range(kernel.first, kernel.last)
        if _is_own_number(program, i)
    ]
    if any(words.count(name) != len(edits) for name in _NUMBERS) or "gridDim" in words or not edits:
        raise NotUnderstood("work-items that use more than their number")
    return item, edits


def _is_own_number(program: ParsedProgram, at: int) -> bool:
    """Whether the number of a work-item in the grid begins at a token, as a summand or a whole."""
    tokens = program.tokens
    if not OWN_NUMBER.fullmatch("".join(token.text for token in tokens[at : at + _OWN_TOKENS])):
        return False
    return tokens[at - 1].text in _BEFORE and tokens[at + _OWN_TOKENS].text not in _AFTER_BINDS
