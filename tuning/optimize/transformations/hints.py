"""Pointers that do not alias are declared so: loads move across stores, and uniform ones become scalar loads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hipsynth.source.declarations import FunctionParameter
from hipsynth.tuning.optimize.analysis.pointer_copies import has_distinct_pointers
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import Transformation


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    pointers = [parameter for parameter in view.kernel.parameters if parameter.base]
    if view.plan.restrict or view.kernel.fixed or all(map(_is_restricted, pointers)):
        return
    if has_distinct_pointers(view.program, view.kernel):
        yield replace(view.plan, restrict=True)


def _is_restricted(parameter: FunctionParameter) -> bool:
    return "__restrict" in parameter.text


def restrict_pointer(parameter: FunctionParameter) -> str:
    """The declaration with __restrict__, if it is a plain pointer."""
    if not parameter.base or _is_restricted(parameter) or "&" in parameter.text:
        return parameter.text
    return re.sub(rf"\*\s*(const\s+)?{parameter.name}$", rf"* \1__restrict__ {parameter.name}", parameter.text)


TRANSFORMATION = Transformation((), "SQ_INSTS_SMEM", list_plans)
