"""Approximations by the hardware's instructions instead of exact functions, only where the user allows them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation

ALLOWED_BY = "fast-math"
# Functions that have an approximation by the hardware's instructions, called `__NAME`.
FAST = frozenset({"expf", "exp10f", "logf", "log2f", "log10f", "sinf", "cosf", "tanf", "powf", "sincosf"})
_JAMMED_CALL = re.compile(rf"\b({'|'.join(sorted(FAST))})(?=\()")


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    if ALLOWED_BY in view.allow and not view.plan.fast and any(fast_calls(view.program, view.kernel, view.plan)):
        yield replace(view.plan, fast=True)


def fast_calls(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """Calls of approximations instead of exact functions."""
    tokens = program.tokens
    for i in range(kernel.first, kernel.last):
        if tokens[i].text in FAST and tokens[i + 1].text == "(" and tokens[i - 1].text not in (".", "::"):
            yield Edit(tokens[i].start, tokens[i].start, "__")


TRANSFORMATION = Transformation(
    helps=("valu", "issue"),
    counter="SQ_INSTS_VALU",
    list_plans=list_plans,
    is_planned=lambda plan: plan.fast,
    edit_body=fast_calls,
    edit_jammed=lambda text: _JAMMED_CALL.sub(r"__\1", text),
)
