"""Group-aggregated atomics: where work-items take places in an array by an atomic addition (queues, compaction), a
group counts those of all its work-items in the LDS, adds to memory once, and then stores. Its work-items are executed
twice up to the addition, whose result the first time is the place within the group."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from hipsynth.source.edits import Edit
from hipsynth.source.parse import Token
from hipsynth.source.tokens import find_closing, split_at, text_between
from hipsynth.tuning.optimize.kernel_body import ASSIGN, STATEMENT_STARTS, STEP, Body
from hipsynth.tuning.optimize.program_model import ATOMIC_ADDS, KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.statements import NotUnderstood, Statement, parse_statements
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.atomics import TYPES
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import ATOMICS, Transformation

PLACES = """// Places in memory that the work-items of a group take: it counts them in the LDS, by the address of the
// number of those taken, and then adds to memory once. What finds its slot used adds to memory itself.
struct Places {
  static constexpr unsigned kSlots = 256;
  unsigned long long address[kSlots];
  unsigned taken[kSlots];
  __device__ unsigned lane() const { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
  __device__ unsigned lanes() const { return blockDim.x * blockDim.y * blockDim.z; }
  static __device__ unsigned slot(unsigned long long key) { return static_cast<unsigned>(key >> 2) % kSlots; }
  __device__ void clear() {
    for (unsigned i = lane(); i < kSlots; i += lanes()) address[i] = taken[i] = 0;
    __syncthreads();
  }
  // The place among those of the group, or in memory if another address has the slot; lanes take theirs together.
  template <typename T>
  __device__ __forceinline__ unsigned count(T* to, int number) {
    static_assert(sizeof(T) == sizeof(int) && T(0.5) == T(0), "for integers of 4 bytes");
    const unsigned long long key = reinterpret_cast<unsigned long long>(to);
    const unsigned own = __builtin_amdgcn_mbcnt_hi(~0u, __builtin_amdgcn_mbcnt_lo(~0u, 0u));
    while (true) {
      const unsigned low = __builtin_amdgcn_readfirstlane(static_cast<unsigned>(key));
      const unsigned high = __builtin_amdgcn_readfirstlane(static_cast<unsigned>(key >> 32));
      if (key != (static_cast<unsigned long long>(high) << 32 | low)) continue;
      const unsigned long long together = __ballot(1);
      const unsigned before = __popcll(together & ((1ull << own) - 1));
      unsigned found = 0;
      if (before == 0) {
        const unsigned long long holder = atomicCAS(&address[slot(key)], 0ull, key);
        unsigned* sum = holder == 0 || holder == key ? &taken[slot(key)] : reinterpret_cast<unsigned*>(to);
        found = atomicAdd(sum, static_cast<unsigned>(number * __popcll(together)));
      }
      return __builtin_amdgcn_readfirstlane(found) + number * before;
    }
  }
  __device__ void take() {
    __syncthreads();
    for (unsigned i = lane(); i < kSlots; i += lanes()) {
      if (address[i]) taken[i] = atomicAdd(reinterpret_cast<unsigned*>(address[i]), taken[i]);
    }
    __syncthreads();
  }
  // The place in memory of one that was counted.
  template <typename T>
  __device__ __forceinline__ T find(T* to, unsigned counted) const {
    const unsigned long long key = reinterpret_cast<unsigned long long>(to);
    return static_cast<T>(counted + (address[slot(key)] == key ? taken[slot(key)] : 0));
  }
};

"""
_NUMBER = re.compile(r"[1-9]\d*[uU]?")
_PASSED = re.compile(r"[A-Za-z_]\w*((\.data\(\))?\.get\(\))?")
_CHOICES = frozenset({"?", "&&", "||"})
_EFFECTS = ("printf", "memcpy", "memset", "assert", "abort", "__trap", "clock", "wall_clock")
SHAPES = ((1024, 8), (256, 16))  # lanes of a group, work-items of a lane


@dataclass(frozen=True)
class _Addition:
    """The one atomic addition of a kernel: its tokens, those of its address, the number, and its statement, which
    stands in a block or is all that a condition has."""

    span: tuple[int, int]
    address: tuple[int, int]
    number: str
    statement: Statement
    in_block: bool


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    other_plan = view.plan.split or view.plan.aggregate or view.plan.places or view.plan.private or view.plan.bins
    if other_plan or not view.kernel.independent:
        return
    try:
        find_addition(view.program, view.kernel)
    except NotUnderstood:
        return
    for lanes, factor in SHAPES:
        if lanes * factor <= view.extent(0):
            yield replace(
                view.base, shape=(lanes, 1, 1), axis=0, coarsen=factor, places=True, jam=False, adjacent=False, rows=1
            )


def find_addition(program: ParsedProgram, kernel: KernelDefinition) -> _Addition:
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
    _check_memory(body, statement, at, parts[0])
    return _Addition((at, close + 1), parts[0], tokens[parts[1][0]].text, statement, in_block)


def _find_statement(siblings: Sequence[Statement], at: int, in_block: bool) -> tuple[Statement, bool]:
    """The simple statement that a token is part of, in no loop."""
    statement = next(sibling for sibling in siblings if sibling.start <= at < sibling.end)
    if statement.kind == "simple":
        return statement, in_block
    inside = [part for part in statement.parts if part.start <= at < part.end]
    if statement.kind not in ("block", "if") or not inside:
        raise NotUnderstood("an addition in a loop or condition")
    return _find_statement(inside, at, statement.kind == "block")


def _check_memory(body: Body, statement: Statement, at: int, address: tuple[int, int]) -> None:
    """Raises NotUnderstood unless nothing is stored before the addition, and nothing that may be read up to it is
    changed after it."""
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
    _check_launches(kernel, stored, {tokens[i].text for i in read} - counted)


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


def count_places(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """The addition's statement: the first time, it counts and returns."""
    if plan.jam or plan.split or plan.private or plan.aggregate or plan.copies.keys() != {0}:
        raise NotUnderstood("places of work-items that are executed in another way")
    addition = find_addition(program, kernel)
    tokens: Sequence[Token] = program.tokens
    address = text_between(program.unit, program.tokens, *addition.address)
    start, (first, end) = tokens[addition.statement.start].start, addition.span
    text = program.unit.text
    before = text[text.rfind(b"\n", 0, start) + 1 : start].decode(errors="surrogateescape")
    indent = before[: len(before) - len(before.lstrip())]
    lines = [
        ("" if addition.in_block else "{\n" + indent)
        + "if (lane_counts) {  // where the group's places begin is not known",
        f"  lane_place = lane_places.count({address}, {addition.number});",
        "  return;",
        "}\n" + indent,
    ]
    yield Edit(start, start, f"\n{indent}".join(lines))
    yield Edit(tokens[first].start, tokens[end - 1].end, f"lane_places.find({address}, lane_place)")
    if not addition.in_block:
        close = tokens[addition.statement.end - 1].end
        yield Edit(close, close, f"\n{indent}}}")


TRANSFORMATION = Transformation(
    helps=ATOMICS,
    counter="TCC_ATOMIC",
    list_plans=list_plans,
    is_evident=lambda view, plan: view.bottleneck == "atomics",
    is_planned=lambda plan: plan.places,
    edit_body=count_places,
    helper=PLACES,
    parameter=(
        "Places& lane_places, const bool lane_counts, unsigned& lane_place",
        "lane_places, lane_counts, lane_place_of[at_x]",
    ),
    first=(
        "__shared__ Places lane_places;",
        "lane_places.clear();",
        "unsigned lane_place_of[PER_LANE];",
        "bool lane_counts = true;",
    ),
    again=("lane_places.take();", "lane_counts = false;"),
    words=lambda program, kernel, plan: {"PER_LANE": str(plan.coarsen)},
)
