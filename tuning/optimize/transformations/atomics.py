"""Privatised atomics: a group adds in the LDS, and its sums go to memory once. For additions of numbers of 4 or of 8
bytes whose results are not used, to arrays that the kernel does not look at. Where all work-items add to the same few
addresses, each lane first adds up in registers what its work-items add."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Set
from dataclasses import replace

from hipsynth.source.edits import Edit
from hipsynth.source.tokens import find_closing, split_at
from hipsynth.tuning.optimize.analysis.atomic_arrays import check_arrays_alone
from hipsynth.tuning.optimize.analysis.kernel_body import ASSIGN, STEP, Body
from hipsynth.tuning.optimize.analysis.program_model import (
    ATOMIC_ADDS,
    STATEMENT_STARTS,
    KernelDefinition,
    ParsedProgram,
)
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.transformation import ATOMICS, Transformation

_JAMMED_CALL = re.compile(r"\b(unsafeAtomicAdd|atomicAdd)\(")
TYPES = {"int": 4, "unsigned": 4, "unsigned int": 4, "float": 4}
LONG_TYPES = ("double", "long long", "unsigned long long", "unsigned long long int")
# Numbers that can be added -> the type of the table's words.
WORDS = dict.fromkeys(TYPES, "unsigned") | dict.fromkeys(LONG_TYPES, "unsigned long long")

SUMS = """// Sums of what a group adds to memory: a table in the LDS by address. What finds its slot taken goes there.
template <typename Word, unsigned kSlots = 8192 / sizeof(Word)>
struct Sums {
  unsigned long long address[kSlots];
  Word value[kSlots];
  __device__ unsigned lane() const { return (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x; }
  __device__ void clear() {
    for (unsigned i = lane(); i < kSlots; i += blockDim.x * blockDim.y * blockDim.z) address[i] = value[i] = 0;
    __syncthreads();
  }
  template <typename T, typename V>
  __device__ __forceinline__ void add(T* to, V more) {
    static_assert(sizeof(T) == sizeof(Word), "the table holds words");
    T amount = static_cast<T>(more);
    const unsigned long long key = reinterpret_cast<unsigned long long>(to) << 3 | kind(T());
    const unsigned low = __builtin_amdgcn_readfirstlane(static_cast<unsigned>(key));
    const unsigned high = __builtin_amdgcn_readfirstlane(static_cast<unsigned>(key >> 32));
    if (__ballot(key == (static_cast<unsigned long long>(high) << 32 | low)) == ~0ull) {
      // The whole wavefront adds to one address.
      for (int d = 32; d > 0; d /= 2) amount += __shfl_xor(amount, d);
      if ((lane() & 63) != 0) return;
    }
    unsigned slot = static_cast<unsigned>((key >> 3) / sizeof(Word)) % kSlots;
    unsigned long long found = address[slot];
    if (found != key && found == 0) found = atomicCAS(&address[slot], 0ull, key);
    if (found == 0 || found == key) {
      atomicAdd(reinterpret_cast<T*>(&value[slot]), amount);
    } else {
      atomicAdd(to, amount);
    }
  }
  __device__ void flush() {
    __syncthreads();
    for (unsigned i = lane(); i < kSlots; i += blockDim.x * blockDim.y * blockDim.z) {
      const unsigned long long to = address[i] >> 3;
      if (address[i] == 0) continue;
      if ((address[i] & 7) == kind(Word())) {
        atomicAdd(reinterpret_cast<Word*>(to), value[i]);
      } else if constexpr (sizeof(Word) == sizeof(float)) {
        unsafeAtomicAdd(reinterpret_cast<float*>(to), __uint_as_float(value[i]));
      } else {
        unsafeAtomicAdd(reinterpret_cast<double*>(to), __longlong_as_double(value[i]));
      }
    }
  }
  static __device__ unsigned kind(float) { return 1; }
  static __device__ unsigned kind(double) { return 1; }
  template <typename T>
  static __device__ unsigned kind(T) { return 2; }
};

"""


LANE_SUMS = """// Sums of a lane on their way to those of its group, each of an address that all lanes add to.
template <typename Word, int kCount>
struct LaneSums {
  using Group = Sums<Word, 64>;
  Group& group;
  unsigned long long address[kCount] = {};
  Word value[kCount] = {};
  explicit __device__ LaneSums(Group& sums) : group(sums) {}
  template <int kNumber, typename T, typename V>
  __device__ __forceinline__ void add(T* to, V more) {
    const T sum = __builtin_bit_cast(T, value[kNumber]) + static_cast<T>(more);
    value[kNumber] = __builtin_bit_cast(Word, sum);
    address[kNumber] = reinterpret_cast<unsigned long long>(to) << 3 | group.kind(T());
  }
  template <typename T, typename V>
  __device__ __forceinline__ void add(T* to, V more) {
    group.add(to, more);
  }
  __device__ void flush() {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const unsigned long long adding = __ballot(address[i] != 0);
      if (adding == 0) continue;
      const unsigned long long key = __shfl(address[i], __ffsll(adding) - 1);  // the others add 0
      if ((key & 7) == group.kind(Word())) {
        group.add(reinterpret_cast<Word*>(key >> 3), value[i]);
      } else if constexpr (sizeof(Word) == sizeof(float)) {
        group.add(reinterpret_cast<float*>(key >> 3), __builtin_bit_cast(float, value[i]));
      } else {
        group.add(reinterpret_cast<double*>(key >> 3), __builtin_bit_cast(double, value[i]));
      }
    }
  }
};

"""
MOST_ADDRESSES = 4  # that lanes keep sums of in registers


def list_plans(view: KernelView) -> Iterator[TransformationPlan]:
    calls = list(private_calls(view.program, view.kernel, view.plan))
    others = sum(1 for word in view.words if word.lower().startswith("atomic")) > 1 or "atomicCAS" in view.words
    other_plan = view.plan.split or view.plan.private or view.plan.bins
    if not view.kernel.independent or other_plan or not calls or others or not find_word(view.program, view.kernel):
        return
    try:
        check_arrays_alone(
            Body(view.program, view.kernel), find_atomic_statements(view.program, view.kernel, ATOMIC_ADDS)
        )
    except NotUnderstood:
        return
    for lanes, factor in ((256, 1), (256, 8), (1024, 4), (1024, 16)):
        if lanes * factor <= max(view.extent(0), 256):
            yield replace(
                view.base, shape=(lanes, 1, 1), axis=0, coarsen=factor, private=True, jam=False, adjacent=False, rows=1
            )


def private_calls(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Iterator[Edit]:
    """Edits of the atomic additions whose results are not used."""
    tokens, is_fixed = program.tokens, count_fixed_addresses(program, kernel) > 0
    for number, i in enumerate(find_atomic_statements(program, kernel, ATOMIC_ADDS)):
        yield Edit(tokens[i].start, tokens[i].end, f"lane_sums.add<{number}>" if is_fixed else "lane_sums.add")


def find_atomic_statements(program: ParsedProgram, kernel: KernelDefinition, functions: Set[str]) -> list[int]:
    """The tokens of the calls of some atomic functions whose results are not used."""
    tokens = program.tokens
    return [
        i
        for i in range(kernel.first, kernel.last)
        if tokens[i].text in functions and tokens[i - 1].text in STATEMENT_STARTS and tokens[i + 1].text == "("
    ]


def count_fixed_addresses(program: ParsedProgram, kernel: KernelDefinition, functions: Set[str] = ATOMIC_ADDS) -> int:
    """The number of such calls if each has an address that is the same for all work-items; else 0."""
    tokens, calls = program.tokens, find_atomic_statements(program, kernel, functions)
    names = {parameter.name for parameter in kernel.parameters} - {
        tokens[i].text for i in range(kernel.first, kernel.last) if tokens[i + 1].text in ASSIGN | STEP
    }
    pointers = {parameter.name for parameter in kernel.parameters if parameter.base}
    for call in calls:
        address, *_ = split_at(tokens, call + 2, find_closing(tokens, call + 1), ",")
        places = [i for i in range(*address) if tokens[i].identifier and tokens[i - 1].text not in ("->", ".")]
        words = [tokens[i].text for i in places]
        if not names.issuperset(words) or len(pointers.intersection(words)) != 1:
            return 0
    return len(calls) if len(calls) <= MOST_ADDRESSES else 0


def find_word(program: ParsedProgram, kernel: KernelDefinition) -> str:
    """The type of the words that the kernel's atomic additions change, in arrays or in members of structures; "" for
    others, and for words of two sizes. A wrong answer does not compile."""
    bases = {parameter.name: parameter.base for parameter in kernel.parameters if parameter.base}
    written = {parameter.base for parameter in kernel.parameters if parameter.base and not parameter.constant}
    tokens, words = program.tokens, set[str]()
    for i in range(kernel.first, kernel.last):
        if tokens[i].text in ATOMIC_ADDS:
            address, *_ = split_at(tokens, i + 2, find_closing(tokens, i + 1), ",")
            names = [token.text for token in tokens[slice(*address)]]
            first = next((bases[name] for name in names if name in bases), "")  # others are of subscripts
            targets = {first} if first else written  # through a local pointer
            if {"->", "."} & set(names):
                words |= {_find_member_word(program, target) for target in targets}
            else:
                words |= {WORDS.get(target, "") for target in targets}
    words.discard("")
    return words.pop() if len(words) == 1 else ""


def _find_member_word(program: ParsedProgram, structure: str) -> str:
    """The word of a structure's members: of eight bytes if it has a double or a long one."""
    tokens = program.tokens
    for i, token in enumerate(tokens[:-2]):
        if token.text == "struct" and tokens[i + 1].text == structure and tokens[i + 2].text == "{":
            members = {member.text for member in tokens[i + 3 : find_closing(tokens, i + 2)]}
            return WORDS["double"] if members & {"double", "long"} else WORDS["float"]
    return ""


def name_words(program: ParsedProgram, kernel: KernelDefinition, plan: TransformationPlan) -> Mapping[str, str]:
    """What stands for words in capitals in the statements that a kernel gets."""
    word, count = find_word(program, kernel), count_fixed_addresses(program, kernel)
    if not count:
        return {
            "TABLE": f"Sums<{word}> lane_sums",
            "SUMS": "lane_sums",
            "KIND": f"Sums<{word}>",
            "BEGIN": "",
            "END": "",
        }
    kind = f"LaneSums<{word}, {count}>"
    begin, end = f"{kind} lane_sums(group_sums);", "lane_sums.flush();"
    return {"TABLE": f"{kind}::Group group_sums", "SUMS": "group_sums", "KIND": kind, "BEGIN": begin, "END": end}


TRANSFORMATION = Transformation(
    helps=ATOMICS,
    counter="TCC_ATOMIC",
    list_plans=list_plans,
    is_planned=lambda plan: plan.private,
    edit_body=private_calls,
    edit_jammed=lambda text: _JAMMED_CALL.sub("lane_sums.add(", text),
    helper=SUMS + LANE_SUMS,
    parameter=("KIND& lane_sums", "lane_sums"),
    first=("__shared__ TABLE;", "SUMS.clear();", "BEGIN"),
    last=("END", "SUMS.flush();"),
    words=name_words,
)
