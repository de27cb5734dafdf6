"""Group-aggregated atomics: where work-items take places in an array by an atomic addition (queues, compaction), a
group counts those of all its work-items, adds to memory once, and then stores. Its work-items are executed up to the
addition, and their rest by a function of its own when the group has taken its places."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from hipsynth.source.edits import Edit
from hipsynth.source.parse import Token
from hipsynth.source.tokens import find_closing, split_at, text_between
from hipsynth.tuning.optimize.analysis.effects import CALLS_WITH_EFFECTS
from hipsynth.tuning.optimize.analysis.item_rest import ItemRest, find_rest
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_model import (
    ATOMIC_ADDS,
    STATEMENT_STARTS,
    KernelDefinition,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.atomics import TYPES
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import ATOMICS, RestFunction, Transformation

PLACES = """// The place that a work-item takes: the element that counts those taken, and the number among them.
struct Place {
  static constexpr unsigned kNone = ~0u, kBeyond = ~1u;
  unsigned element = kNone, number = 0;
};

// Places that the work-items of a group take, by the element of an array that counts those taken. A wavefront counts
// those of one element in registers and those of others in the LDS, from where the group adds to memory once.
template <typename T>
struct Places {
  static constexpr unsigned kSlots = 256;
  struct Slot {
    unsigned element, taken;
  };
  T* memory;
  Slot* slots;
  unsigned own = Place::kNone, begin = 0;  // the element in registers, and where its places begin
  __device__ Places(T* array, Slot* lds) : memory(array), slots(lds) {
    for (unsigned i = lane(); i < kSlots; i += lanes()) slots[i] = {Place::kNone, 0};
    __syncthreads();
  }
  __device__ unsigned lane() const { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
  __device__ unsigned lanes() const { return blockDim.x * blockDim.y * blockDim.z; }
  __device__ __forceinline__ unsigned element(T* to) const {
    const long offset = to - memory;
    return offset >= 0 && offset < Place::kBeyond ? static_cast<unsigned>(offset) : Place::kBeyond;
  }
  // Takes all places that the work-items of a lane need, `each` of them so many.
  template <unsigned kItems>
  __device__ __forceinline__ void take(Place (&places)[kItems], unsigned each) {
    unsigned sum = 0;
#pragma unroll
    for (Place& place : places) {
      for (unsigned long long left = __ballot(place.element < Place::kBeyond); left != 0;) {
        const unsigned first = __builtin_amdgcn_readlane(place.element, __ffsll(left) - 1);
        const unsigned long long same = __ballot(place.element == first);
        const unsigned more = each * __popcll(same);
        if (own == Place::kNone) own = first;
        const unsigned found = first == own ? sum : add(first, more);
        if (first == own) sum += more;
        const unsigned before = __builtin_amdgcn_mbcnt_hi(same >> 32, __builtin_amdgcn_mbcnt_lo(same, 0));
        if (place.element == first) place.number = found + each * before;
        left &= ~same;
      }
    }
    if (own != Place::kNone) begin = add(own, sum);
    __syncthreads();
    for (unsigned i = lane(); i < kSlots; i += lanes()) {
      if (slots[i].element != Place::kNone) slots[i].taken = atomicAdd(memory + slots[i].element, slots[i].taken);
    }
    __syncthreads();
    begin += start(own);
  }
  // The number that the group has taken before; in memory if another element has the slot.
  __device__ unsigned add(unsigned element, unsigned more) {
    Slot& slot = slots[element % kSlots];
    unsigned found = 0;
    if (__builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0)) == 0) {
      const unsigned holder = atomicCAS(&slot.element, Place::kNone, element);
      if (holder == Place::kNone || holder == element) {
        found = atomicAdd(&slot.taken, more);
      } else {
        found = atomicAdd(memory + element, more);
      }
    }
    return __builtin_amdgcn_readfirstlane(found);
  }
  __device__ unsigned start(unsigned element) const {
    const Slot slot = slots[element % kSlots];
    return slot.element == element ? slot.taken : 0;
  }
  __device__ __forceinline__ T find(T* to, Place place, unsigned each) const {
    if (place.element == Place::kBeyond) return atomicAdd(to, each);
    return static_cast<T>(place.number + (place.element == own ? begin : start(place.element)));
  }
};

"""
_NUMBER = re.compile(r"[1-9]\d*[uU]?")
_PASSED = re.compile(r"[A-Za-z_]\w*((\.data\(\))?\.get\(\))?")
_CHOICES = frozenset({"?", "&&", "||"})
_EFFECTS = (*CALLS_WITH_EFFECTS, "clock", "wall_clock")
SHAPES = ((1024, 8), (256, 16))  # lanes of a group, work-items of a lane


@dataclass(frozen=True)
class PlaceAddition:
    """The one atomic addition of a kernel: its tokens, those of its address, the array of that, the number, and its
    statement, which stands in a block or is all that a condition has. `constant_arrays`: those that the kernel reads
    and does not store to."""

    span: tuple[int, int]
    address: tuple[int, int]
    array: str
    number: str
    statement: Statement
    in_block: bool
    constant_arrays: frozenset[str]


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    other_plan = view.plan.split or view.plan.aggregate or view.plan.places or view.plan.private or view.plan.bins
    if other_plan or not view.kernel.independent:
        return
    try:
        addition = find_addition(view.program, view.kernel)
        find_rest(Body(view.program, view.kernel), addition.statement, addition.span, addition.constant_arrays)
    except NotUnderstood:
        return
    for lanes, factor in SHAPES:
        if lanes * factor <= view.extent(0):
            yield replace(
                view.base, shape=(lanes, 1, 1), axis=0, coarsen=factor, places=True, jam=False, adjacent=False, rows=1
            )


def find_addition(program: ParsedProgram, kernel: KernelDefinition) -> PlaceAddition:
    """Raises NotUnderstood unless everything before the addition may be executed twice."""
    tokens = program.tokens
    atomics = [i for i in range(kernel.first, kernel.last) if "tomic" in tokens[i].text]
    if len(atomics) != 1 or tokens[atomics[0]].text not in ATOMIC_ADDS or tokens[atomics[0] + 1].text != "(":
        raise NotUnderstood("not one atomic addition")
    (at,) = atomics
    body = Body(program, kernel)
    body.check_plain()
    close = find_closing(tokens, at + 1)
    parts = split_at(tokens, at + 2, close, ",")
    is_used = tokens[at - 1].text not in STATEMENT_STARTS
    if not is_used or len(parts) != 2 or parts[1][1] - parts[1][0] != 1:
        raise NotUnderstood("a result that is not used, or another number")
    if not _NUMBER.fullmatch(tokens[parts[1][0]].text):
        raise NotUnderstood("another number")
    statement, in_block = _find_statement(parse_statements(tokens, kernel.first, kernel.last), at, True)
    if _CHOICES & {token.text for token in tokens[statement.start : statement.end]}:
        raise NotUnderstood("an addition that may be left out")
    array, constant_arrays = _check_memory(body, statement, at, parts[0])
    number = tokens[parts[1][0]].text
    return PlaceAddition((at, close + 1), parts[0], array, number, statement, in_block, constant_arrays)


def _find_statement(siblings: Sequence[Statement], at: int, in_block: bool) -> tuple[Statement, bool]:
    """The simple statement that a token is part of, in no loop."""
    statement = next(sibling for sibling in siblings if sibling.start <= at < sibling.end)
    if statement.kind == "simple":
        return statement, in_block
    inside = [part for part in statement.parts if part.start <= at < part.end]
    if statement.kind not in ("block", "if") or not inside:
        raise NotUnderstood("an addition in a loop or condition")
    return _find_statement(inside, at, statement.kind == "block")


def _check_memory(body: Body, statement: Statement, at: int, address: tuple[int, int]) -> tuple[str, frozenset[str]]:
    """The array of the address, and those that are read and not changed. Raises NotUnderstood unless nothing is stored
    before the addition, and nothing that may be read up to it is changed after it."""
    tokens, kernel = body.tokens, body.kernel
    names = {parameter.name: parameter for parameter in kernel.parameters if parameter.base}
    counted = {tokens[i].text for i in range(*address)} & names.keys()
    if len(counted) != 1 or names[next(iter(counted))].base not in TYPES.keys() - {"float"}:
        raise NotUnderstood("a number of another type")
    stored: set[str] = counted
    for i in range(kernel.first, kernel.last):
        if not tokens[i].identifier or tokens[i - 1].text == ".":
            continue
        if _may_store_elsewhere(body, i):
            raise NotUnderstood(f"{tokens[i].text} may store")
        if not body.assigns(i, kernel.last):
            continue
        if body.local(tokens[i]) < 0 or tokens[i + 1].text in (".", "->"):
            stored = stored | {tokens[i].text}
            if i < statement.start or tokens[i].text not in names:
                raise NotUnderstood("a store before the addition")
    if any(tokens[i].text in (*ASSIGN, *STEP) for i in range(*address)):
        raise NotUnderstood("an address with effects")
    read = [i for i in range(kernel.first, statement.end) if tokens[i].text in names and not _is_target(body, i, at)]
    if any(tokens[i].text in stored and i not in range(*address) for i in read):
        raise NotUnderstood("an array that is read and stored to")
    constant_arrays = {tokens[i].text for i in read} - counted
    _check_launches(kernel, stored, constant_arrays)
    return next(iter(counted)), frozenset(constant_arrays)


def _is_target(body: Body, i: int, at: int) -> bool:
    """Whether an array's name is what the addition's own statement stores to."""
    return body.assigns(i, body.kernel.last) and i <= at


def _may_store_elsewhere(body: Body, i: int) -> bool:
    """Whether a name is a local pointer, or of a function that may change memory."""
    tokens = body.tokens
    if tokens[i].start in body.locals:
        before = tokens[i - 2 if tokens[i - 1].text in ("const", "__restrict__") else i - 1].text
        return before in ("*", "&", "auto")
    if tokens[i + 1].text != "(":
        return tokens[i - 1].text == "*" and tokens[i - 2].text in STATEMENT_STARTS
    if tokens[i].text.startswith(_EFFECTS):
        return True
    if not any(entity.user and entity.category == "function" for entity in body.program.entities(tokens[i])):
        return False
    functions = [function for function in body.program.functions if function.name == tokens[i].text]
    return not functions or any(
        re.search(r"[*&]", parameter.text) for function in functions for parameter in function.parameters
    )


def _check_launches(kernel: KernelDefinition, stored: set[str], read: set[str]) -> None:
    """Raises NotUnderstood if a launch may pass one array as two."""
    for launch in kernel.launches:
        passed = dict(zip((parameter.name for parameter in kernel.parameters), launch.arguments, strict=True))
        used = [re.sub(r"\s", "", passed[name]) for name in (*stored, *read)]
        if len(set(used)) < len(used) or not all(map(_PASSED.fullmatch, used)):
            raise NotUnderstood("arrays that may overlap")


def split_items(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """The edit of a work-item up to the addition: it says which element counts its place, and ends."""
    addition, rest = _find_parts(program, kernel, plan)
    address = text_between(program.unit, program.tokens, *addition.address)
    lines = ["// the rest follows when the group has taken its places"]
    lines += [f"lane_place.element = lane_places.element({address});"]
    lines += [f"lane_{value.name} = {value.expression};" for value in rest.values]
    lines += ["return;"] if rest.returns else []
    start = program.tokens[addition.statement.start].start
    yield Edit(start, rest.end, "\n".join(lines if addition.in_block else ["{", *lines, "}"]))


def write_rest(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> RestFunction:
    """What a work-item executes once it has its place."""
    addition, rest = _find_parts(program, kernel, plan)
    tokens: Sequence[Token] = program.tokens
    address = text_between(program.unit, tokens, *addition.address)
    first, end = addition.span
    call = f"lane_places.find({address}, lane_place, {addition.number})"
    places = f"const Places<{_find_type(kernel, addition)}>& lane_places"
    return RestFunction(
        text=rest.write(Edit(tokens[first].start, tokens[end - 1].end, call)),
        parameters=(places, "Place lane_place", *(f"{value.type} {value.name}" for value in rest.values)),
        values=("lane_places", "lane_place_of[at_x]", *(f"lanes_{value.name}[at_x]" for value in rest.values)),
        condition="lane_place_of[at_x].element != Place::kNone",
    )


def _find_type(kernel: KernelDefinition, addition: PlaceAddition) -> str:
    return next(parameter.base for parameter in kernel.parameters if parameter.name == addition.array)


def _find_parts(
    program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan
) -> tuple[PlaceAddition, ItemRest]:
    if plan.jam or plan.split or plan.private or plan.aggregate or plan.turns > 1 or plan.copies.keys() != {0}:
        raise NotUnderstood("places of work-items that are executed in another way")
    addition = find_addition(program, kernel)
    return addition, find_rest(Body(program, kernel), addition.statement, addition.span, addition.constant_arrays)


def name_words(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Mapping[str, str]:
    """The array with the numbers of places, and the variables that pass from one part of a work-item to the other."""
    addition, rest = _find_parts(program, kernel, plan)
    kind = _find_type(kernel, addition)
    parameters = [f"Places<{kind}>& lane_places", "Place& lane_place"]
    values = ["lane_places", "lane_place_of[at_x]"]
    return {
        "ARRAY": addition.array,
        "TYPE": kind,
        "NUMBER": addition.number,
        "COUNT": str(plan.coarsen),
        "PARAMETERS": "\n".join([*parameters, *(f"{value.type}& lane_{value.name}" for value in rest.values)]),
        "VALUES": ", ".join([*values, *(f"lanes_{value.name}[at_x]" for value in rest.values)]),
        "VARIABLES": "\n".join(f"{value.type} lanes_{value.name}[{plan.coarsen}];" for value in rest.values),
    }


TRANSFORMATION = Transformation(
    helps=ATOMICS,
    counter="TCC_ATOMIC",
    list_plans=list_plans,
    is_evident=lambda view, plan: view.bottleneck == "atomics",
    is_planned=lambda plan: plan.places,
    edit_body=split_items,
    helper=PLACES,
    parameter=("PARAMETERS", "VALUES"),
    first=(
        "__shared__ Places<TYPE>::Slot lane_slots[Places<TYPE>::kSlots];",
        "Places<TYPE> lane_places(ARRAY, lane_slots);",
        "Place lane_place_of[COUNT];",
        "VARIABLES",
    ),
    again=("lane_places.take(lane_place_of, NUMBER);",),
    rest=write_rest,
    words=name_words,
)
