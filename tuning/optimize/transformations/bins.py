"""Bins in the LDS: where the source tells that atomic additions change a few elements of one array alone, as those of a
histogram of bytes, each group counts in an array of its own and adds it to memory once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.pointer_copies import is_passed_alone
from hipsynth.tuning.optimize.analysis.program_constants import find_constants
from hipsynth.tuning.optimize.analysis.program_model import (
    ATOMIC_ADDS,
    STATEMENT_STARTS,
    KernelDefinition,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.analysis.value_range import RangeReader
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.atomics import TYPES
from hipsynth.tuning.optimize.transformations.jam import can_jam
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import ATOMICS, Transformation

MOST_BINS = 4096  # 16 KB, so that four groups fit on a CU
SHAPES = ((1024, 64), (1024, 16), (256, 16))  # lanes of a group, work-items of a lane
# The same, if a lane executes neighbouring ones together; how often a group does so before it adds to memory.
JAMMED = ((1024, 16, 4), (1024, 16, 1), (1024, 8, 1))
_CALL = re.compile(r"\b(?:unsafeAtomicAdd|atomicAdd)\(")
_ADD = "lane_bins.add("

BINS = """// Elements of an array of which a group has copies in the LDS, which it adds to memory once.
template <typename T, unsigned kCount>
struct Bins {
  T* memory;
  T* counts;
  __device__ unsigned lane() const { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
  __device__ unsigned lanes() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ void clear() const {
    for (unsigned i = lane(); i < kCount; i += lanes()) counts[i] = 0;
    __syncthreads();
  }
  template <typename V>
  __device__ __forceinline__ void add(T* to, V more) const { atomicAdd(&counts[to - memory], static_cast<T>(more)); }
  __device__ void flush() const {
    __syncthreads();
    for (unsigned i = lane(); i < kCount; i += lanes()) {
      if (counts[i] != 0) atomicAdd(memory + i, counts[i]);
    }
  }
};

"""


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    plan = view.plan
    other_plan = plan.split or plan.aggregate or plan.places or plan.private or plan.bins
    if other_plan or not view.kernel.independent:
        return
    try:
        _, bins = find_bins(view.program, view.kernel)
    except NotUnderstood:
        return
    base = replace(view.base, axis=0, bins=bins, jam=False, adjacent=False, rows=1)
    for lanes, factor, turns in JAMMED if can_jam(view, 0) else ():
        if lanes * factor * turns <= view.extent(0):
            jammed = replace(base, shape=(lanes, 1, 1), coarsen=factor, turns=turns)
            yield replace(jammed, jam=True, adjacent=True, restrict=True)
    for lanes, factor in SHAPES:
        if lanes * factor <= view.extent(0):
            yield replace(base, shape=(lanes, 1, 1), coarsen=factor)


def find_bins(program: ParsedProgram, kernel: KernelDefinition) -> tuple[str, int]:
    """(The array that all atomic additions of a kernel change, and nothing else uses, under no other name; how many
    elements these may be). Raises NotUnderstood."""
    tokens, body = program.tokens, Body(program, kernel)
    reader = RangeReader(body, find_constants(program))
    arrays, bins, places = set[str](), 0, set[int]()
    for i in range(kernel.first, kernel.last):
        if "tomic" not in tokens[i].text:
            continue
        words = [token.text for token in tokens[i + 1 : i + 5]]
        is_plain = tokens[i].text in ATOMIC_ADDS and tokens[i - 1].text in STATEMENT_STARTS
        if not is_plain or words[:2] != ["(", "&"] or words[3] != "[":
            raise NotUnderstood("another use of atomics")
        close = find_closing(tokens, i + 4)
        low, high = reader.find_range(i + 5, close)
        if low < 0 or high >= MOST_BINS or tokens[close + 1].text != ",":
            raise NotUnderstood("an element of unknown place")
        arrays.add(words[2])
        places.add(i + 3)
        bins = max(bins, int(high) + 1)
    (name,) = arrays if len(arrays) == 1 else ("",)
    types = {parameter.name: parameter.base for parameter in kernel.parameters}
    used = {i for i in range(kernel.first, kernel.last) if tokens[i].text == name}
    if types.get(name) not in TYPES or used != places:
        raise NotUnderstood("not additions to one array alone")
    if not is_passed_alone(program, kernel, name):
        raise NotUnderstood("an array that launches pass twice")
    return name, bins


def add_to_bins(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """Edits of the atomic additions."""
    for i in range(kernel.first, kernel.last):
        if program.tokens[i].text in ATOMIC_ADDS:
            yield Edit(program.tokens[i].start, program.tokens[i + 1].end, _ADD)


def name_words(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Mapping[str, str]:
    """The array, its type, and how many elements the LDS has."""
    name, bins = find_bins(program, kernel)
    kind = next(parameter.base for parameter in kernel.parameters if parameter.name == name)
    return {"ARRAY": name, "TYPE": kind, "COUNT": str(bins)}


TRANSFORMATION = Transformation(
    helps=ATOMICS,
    counter="TCC_ATOMIC",
    list_plans=list_plans,
    is_evident=lambda view, plan: view.bottleneck == "atomics",
    is_planned=lambda plan: plan.bins > 0,
    edit_body=add_to_bins,
    edit_jammed=lambda text: _CALL.sub(_ADD, text),
    helper=BINS,
    parameter=("const Bins<TYPE, COUNT>& lane_bins", "lane_bins"),
    first=(
        "__shared__ TYPE lane_counts[COUNT];",
        "const Bins<TYPE, COUNT> lane_bins{ARRAY, lane_counts};",
        "lane_bins.clear();",
    ),
    last=("lane_bins.flush();",),
    words=name_words,
)
