"""Wave-aggregated atomics: one atomic addition per wavefront and address, from which each lane computes the value that
its own addition would have returned (queues, compactions)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.program_model import (
    ATOMIC_ADDS,
    STATEMENT_STARTS,
    KernelDefinition,
    ParsedProgram,
)
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.atomics import TYPES
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import ATOMICS, Transformation

CALL = "add_of_wave"
AGGREGATE = f"""// Adds the same number for every active lane; lanes that add to one address share an atomic addition.
// Returns what each lane would have found, in the order of the lanes.
template <typename T>
__device__ __forceinline__ T {CALL}(T* to, int number) {{
  static_assert(sizeof(T) == sizeof(int) && T(0.5) == T(0), "for integers of 4 bytes");
  const unsigned long long address = reinterpret_cast<unsigned long long>(to);
  const unsigned lane = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
  while (true) {{
    const unsigned low = __builtin_amdgcn_readfirstlane(static_cast<unsigned>(address));
    const unsigned high = __builtin_amdgcn_readfirstlane(static_cast<unsigned>(address >> 32));
    if (address != (static_cast<unsigned long long>(high) << 32 | low)) continue;
    const unsigned long long together = __ballot(1);
    const unsigned before = __popcll(together & ((1ull << lane) - 1));
    T found = 0;
    if (before == 0) found = atomicAdd(to, static_cast<T>(number * __popcll(together)));
    return static_cast<T>(__builtin_amdgcn_readfirstlane(static_cast<int>(found))) + static_cast<T>(number * before);
  }}
}}

"""
_NUMBER = re.compile(r"\d+[uU]?")


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    bases = {parameter.base for parameter in view.kernel.parameters if parameter.base and not parameter.constant}
    if view.plan.aggregate or view.plan.jam or view.kernel.fixed or not bases & (TYPES.keys() - {"float"}):
        return
    if any(aggregate_calls(view.program, view.kernel, view.plan)):
        yield replace(view.plan, aggregate=True)


def aggregate_calls(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """Edits of the atomic additions of a number whose results are used."""
    tokens = program.tokens
    for i in range(kernel.first, kernel.last):
        used = (
            tokens[i].text in ATOMIC_ADDS and tokens[i - 1].text not in STATEMENT_STARTS and tokens[i + 1].text == "("
        )
        parts = split_at(tokens, i + 2, find_closing(tokens, i + 1), ",") if used else []
        if len(parts) == 2 and parts[1][1] - parts[1][0] == 1 and _NUMBER.fullmatch(tokens[parts[1][0]].text):
            yield Edit(tokens[i].start, tokens[i].end, CALL)


TRANSFORMATION = Transformation(
    helps=ATOMICS,
    counter="TCC_ATOMIC",
    list_plans=list_plans,
    is_planned=lambda plan: plan.aggregate,
    edit_body=aggregate_calls,
    helper=AGGREGATE,
)
