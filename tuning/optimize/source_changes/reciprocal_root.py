"""Reciprocal square roots: `x / sqrtf(y)` becomes `x * rsqrtf(y)`.

Root and quotient are rounded correctly each, which takes two dozen instructions; a reciprocal root takes a handful, and
is as near to the exact number, within 1 ulp. Zeros, infinities and negative numbers give the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, apply_edits
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange, SourceChanger

NOTABLE = 0.1  # share of the program's time from which a kernel is worth it
_ROOTS = frozenset({"sqrtf", "__fsqrt_rn"})  # of floats
_ONE = frozenset({"1", "1.0f", "1.f", "1.0F", "1.F"})
_BEFORE_OPERAND = frozenset({"*", "/", "%", ".", "->", ")", "]"})


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with all its quotients by roots written so, where its slowest kernels, or functions of the device,
    have any."""
    edits = list(_list_edits(program))
    slow = [
        kernel
        for kernel in program.kernels
        if (run := timed.of(kernel.name)) and run.duration_ns >= NOTABLE * timed.duration_ns
    ]
    of_device = [function for function in program.functions if _has_edit(function, edits)]
    names = [kernel.name for kernel in slow if _has_edit(kernel, edits) or of_device]
    if names:
        text = apply_edits(program.unit.text, edits).decode(errors="surrogateescape")
        yield SourceChange(names[0], text, "a root and a division take two dozen instructions, a reciprocal root few")


CHANGER = SourceChanger("SQ_INSTS_VALU", list_changes)


def _has_edit(function: KernelDefinition, edits: list[Edit]) -> bool:
    return any(function.start <= edit.start < function.end for edit in edits)


def _list_edits(program: ParsedProgram) -> Iterator[Edit]:
    tokens = program.tokens
    for function in (*program.kernels, *program.functions):
        if b"__host__" in program.unit.text[function.start : tokens[function.first].start]:
            continue  # the host has no such function
        for at in range(function.first + 1, function.last - 2):
            if tokens[at].text != "/" or tokens[at + 1].text not in _ROOTS or tokens[at + 2].text != "(":
                continue
            is_one = tokens[at - 1].text in _ONE and tokens[at - 2].text not in _BEFORE_OPERAND
            if is_one:
                yield Edit(tokens[at - 1].start, tokens[at + 1].end, "rsqrtf")
            else:
                yield Edit(tokens[at].start, tokens[at + 1].end, "* rsqrtf")
