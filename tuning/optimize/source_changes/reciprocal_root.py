"""Reciprocal square roots: `x / sqrtf(y)` becomes `x * rsqrtf(y)`.

Root and quotient are rounded correctly each, which takes two dozen instructions; a reciprocal root takes a handful, and
is as near to the exact number, within 1 ulp. Zeros, infinities and negative numbers give the same.

`rsqrtf` scales subnormal numbers before and after the instruction. Where the source shows that the operand is not
subnormal, such as a sum of squares and 0.01f, `__frsqrt_rn` gives the same result by the instruction alone.
"""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, edit_text, join_insertions
from hipsynth.source.layout import read_indent
from hipsynth.source.tokens import find_closing
from hipsynth.tuning.optimize.analysis.float_bounds import LEAST_NORMAL, FloatBounds
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger

_ROOTS = frozenset({"sqrtf", "__fsqrt_rn"})  # of floats
_ONE = frozenset({"1", "1.0f", "1.f", "1.0F", "1.F"})
_RECIPROCAL = "rsqrtf"
_OF_NORMAL = "__frsqrt_rn"  # v_rsq_f32
_NOTE = f"// Never subnormal: {_OF_NORMAL} is one instruction.\n"
_BEFORE_OPERAND = frozenset({"*", "/", "%", ".", "->", ")", "]"})


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with all its quotients by roots written so, where its slowest kernels, or functions of the device,
    have any."""
    edits = list(_list_edits(program))
    slow = [
        kernel
        for kernel in program.kernels
        if (run := timed.of(kernel.name)) and run.duration_ns >= LEAST_CHANGED_SHARE * timed.duration_ns
    ]
    of_device = [function for function in program.functions if _has_edit(function, edits)]
    names = [kernel.name for kernel in slow if _has_edit(kernel, edits) or of_device]
    if names:
        text = edit_text(program.unit.text, join_insertions(edits))
        yield SourceChange(names[0], text, "a root and a division take two dozen instructions, a reciprocal root few")


CHANGER = SourceChanger("SQ_INSTS_VALU", list_changes)


def _has_edit(function: KernelDefinition, edits: list[Edit]) -> bool:
    return any(function.start <= edit.start < function.end for edit in edits)


def _list_edits(program: ParsedProgram) -> Iterator[Edit]:
    for function in (*program.kernels, *program.functions):
        if "__host__" in program.read_head(function):
            continue  # the host has no such function
        bounds = FloatBounds(Body(program, function))
        noted = -1  # the start of the line that has a note
        for at in range(function.first + 1, function.last - 2):
            edit = _edit_root(program, bounds, at)
            if edit is None:
                continue
            line = program.unit.text.rfind(b"\n", 0, edit.start) + 1
            if edit.text.endswith(_OF_NORMAL) and line != noted and line > function.start:
                noted = line
                yield Edit(line, line, read_indent(program.unit.text, edit.start) + _NOTE)
            yield edit


def _edit_root(program: ParsedProgram, bounds: FloatBounds, at: int) -> Edit | None:
    """The edit of a division by a root, or of a reciprocal root, whose sign or name is at a token."""
    tokens = program.tokens
    opening = at + 1 if tokens[at].text == _RECIPROCAL else at + 2
    is_quotient = tokens[at].text == "/" and tokens[at + 1].text in _ROOTS
    if not (is_quotient or tokens[at].text == _RECIPROCAL) or tokens[opening].text != "(":
        return None
    close = find_closing(tokens, opening)
    is_normal = close > 0 and bounds.find_least(opening + 1, close) >= LEAST_NORMAL
    root = _OF_NORMAL if is_normal else _RECIPROCAL
    if not is_quotient:
        return Edit(tokens[at].start, tokens[at].end, root) if is_normal else None
    if tokens[at - 1].text in _ONE and tokens[at - 2].text not in _BEFORE_OPERAND:
        return Edit(tokens[at - 1].start, tokens[at + 1].end, root)
    return Edit(tokens[at].start, tokens[at + 1].end, f"* {root}")
