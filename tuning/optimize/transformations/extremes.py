"""Extremes of a group: where all work-items look for the largest or least number by atomic operations on the same few
addresses, each lane keeps its own in a register, and a group changes memory once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.pointer_copies import is_passed_alone
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.atomics import LONG_TYPES, count_fixed_addresses, find_atomic_statements
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import ATOMICS, Transformation

IS_LEAST = {"atomicMin": "true", "atomicMax": "false"}
# Not of floating point, whose atomic operations may pass over what is not a number, or keep it.
TYPES = frozenset({"int", "unsigned", "unsigned int", *LONG_TYPES}) - {"double"}
SHAPES = ((1024, 16), (256, 8), (1024, 4), (256, 1))  # lanes of a group, work-items of a lane
_JAMMED_CALL = re.compile(r"\b(?P<name>atomicMin|atomicMax)\((?P<address>[^,]*),")  # no commas in what is fixed

EXTREMES = """// The largest or least numbers that a group has for memory, each for one address: of a lane in registers,
// of a wavefront by shuffles, of the group, which changes memory once.
template <typename T, bool... kLeast>
struct GroupExtremes {
  static constexpr int kCount = sizeof...(kLeast);
  static constexpr bool kIsLeast[kCount] = {kLeast...};
  T* to[kCount] = {};  // nullptr: no number yet
  T best[kCount] = {};
  template <int k, typename V>
  __device__ __forceinline__ void take(T* address, V number) {
    const T other = static_cast<T>(number);
    if (to[k] == nullptr || (kIsLeast[k] ? other < best[k] : other > best[k])) best[k] = other;
    to[k] = address;
  }
  template <int k = 0>
  __device__ void flush() {
    __shared__ T* places[16];
    __shared__ T numbers[16];
    for (int d = 32; d > 0; d /= 2) {
      const unsigned long long address = __shfl_xor(reinterpret_cast<unsigned long long>(to[k]), d);
      const T number = __shfl_xor(best[k], d);
      if (address != 0) take<k>(reinterpret_cast<T*>(address), number);
    }
    const unsigned wave = threadIdx.x / 64, waves = (blockDim.x + 63) / 64;
    __syncthreads();  // those of another address have been read
    if (threadIdx.x % 64 == 0) places[wave] = to[k], numbers[wave] = best[k];
    __syncthreads();
    if (threadIdx.x == 0) {
      for (unsigned i = 1; i < waves; ++i) {
        if (places[i] != nullptr) take<k>(places[i], numbers[i]);
      }
      if (to[k] != nullptr && kIsLeast[k]) atomicMin(to[k], best[k]);
      if (to[k] != nullptr && !kIsLeast[k]) atomicMax(to[k], best[k]);
    }
    if constexpr (k + 1 < kCount) flush<k + 1>();
  }
};

"""


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    plan = view.plan
    other_plan = plan.split or plan.extremes or plan.lanes
    if not view.kernel.independent or other_plan or not find_type(view.program, view.kernel):
        return
    base = replace(view.base, axis=0, extremes=True, jam=False, adjacent=False, rows=1)
    for lanes, factor in SHAPES:
        if lanes * factor <= max(view.extent(0), 256):
            yield replace(base, shape=(lanes, 1, 1), coarsen=factor)


def find_type(program: ParsedProgram, kernel: KernelDefinition) -> str:
    """The type of the numbers at the addresses; "" if the kernel has other atomic operations, other addresses, or
    looks at such a number in another way."""
    tokens, span = program.tokens, range(kernel.first, kernel.last)
    calls = find_atomic_statements(program, kernel, IS_LEAST.keys())
    if sum("tomic" in tokens[i].text for i in span) != len(calls):
        return ""
    if not count_fixed_addresses(program, kernel, IS_LEAST.keys()):
        return ""
    arrays = {parameter.name: parameter.base for parameter in kernel.parameters if parameter.base}
    addresses = [split_at(tokens, call + 2, find_closing(tokens, call + 1), ",")[0] for call in calls]
    named = {tokens[i].text for address in addresses for i in range(*address)} & arrays.keys()
    uses = sum(tokens[i].text in named for i in span)
    types = {arrays[name] for name in named}
    is_alone = uses == len(calls) and all(is_passed_alone(program, kernel, name) for name in named)
    return types.pop() if is_alone and len(types) == 1 and types <= TYPES else ""


def take_extremes(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """Edits of the atomic operations."""
    calls = find_atomic_statements(program, kernel, IS_LEAST.keys())
    for i, number in zip(calls, _number_calls(_read_call(program, call) for call in calls), strict=True):
        yield Edit(program.tokens[i].start, program.tokens[i].end, f"lane_extremes.take<{number}>")


def take_jammed(text: str) -> str:
    """The same for work-items that are executed together: what one does is followed by what the next one does."""
    matches = list(_JAMMED_CALL.finditer(text))
    numbers = _number_calls((match["name"], re.sub(r"\s", "", match["address"])) for match in matches)
    taken = iter(numbers)
    return _JAMMED_CALL.sub(lambda match: f"lane_extremes.take<{next(taken)}>({match['address']},", text)


def name_words(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Mapping[str, str]:
    """The type of what a lane has."""
    calls = dict.fromkeys(_read_call(program, i) for i in find_atomic_statements(program, kernel, IS_LEAST.keys()))
    return {"KIND": f"GroupExtremes<{', '.join([find_type(program, kernel), *(IS_LEAST[name] for name, _ in calls)])}>"}


def _read_call(program: ParsedProgram, at: int) -> tuple[str, str]:
    """The function and the address of a call."""
    address, *_ = split_at(program.tokens, at + 2, find_closing(program.tokens, at + 1), ",")
    return program.tokens[at].text, "".join(token.text for token in program.tokens[slice(*address)])


def _number_calls(calls: Iterable[tuple[str, str]]) -> list[int]:
    """Calls of one function for one address have one number, in the order of the first ones."""
    numbers: dict[tuple[str, str], int] = {}
    return [numbers.setdefault(call, len(numbers)) for call in calls]


TRANSFORMATION = Transformation(
    helps=ATOMICS,
    counter="TCC_ATOMIC",
    list_plans=list_plans,
    is_evident=lambda view, plan: view.bottleneck == "atomics",
    is_planned=lambda plan: plan.extremes,
    edit_body=take_extremes,
    edit_jammed=take_jammed,
    helper=EXTREMES,
    parameter=("KIND& lane_extremes", "lane_extremes"),
    first=("KIND lane_extremes;",),
    last=("lane_extremes.flush();",),
    words=name_words,
)
