"""What the elements of an allocation are: the types of the kernel parameters that it is passed as say it."""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hipsynth.profiling.preview.launch import is_read_only, parameter_types
from hipsynth.simulator.observation import Elements, KnownElements, KnownInput, Output
from hipsynth.source.names import demangle
from hipsynth.source.outline import blank_opaque

_WIDTHS = ("", "1", "2", "3", "4")
_FLOATING: Mapping[Elements, frozenset[str]] = {
    Elements.DOUBLES: frozenset(f"double{width}" for width in _WIDTHS),
    Elements.FLOATS: frozenset(f"float{width}" for width in _WIDTHS),
    Elements.BFLOATS: frozenset(
        ("__hip_bfloat16", "hip_bfloat16", "__hip_bfloat162", "__hip_bfloat16_raw", "__bf16", "bfloat16")
    ),
    Elements.HALVES: frozenset(("__half", "half", "__half2", "half2", "__half_raw", "__half2_raw", "_Float16")),
}
_INTEGERS = frozenset(
    (
        *(
            "int",
            "unsigned",
            "signed",
            "long",
            "short",
            "bool",
            "size_t",
            "ssize_t",
            "ptrdiff_t",
            "intptr_t",
            "uintptr_t",
        ),
        *(f"{sign}int{bits}_t" for sign in ("", "u") for bits in (8, 16, 32, 64)),
        *(f"{sign}{kind}{width}" for sign in ("", "u") for kind in ("int", "long", "short") for width in _WIDTHS),
        *(f"{kind}{width}" for kind in ("longlong", "ulonglong", "uchar") for width in _WIDTHS),
    )
)
_SIGNED_WORDS = frozenset(("signed", "int", "int32_t", *(f"int{width}" for width in _WIDTHS)))
_WORDS = frozenset(("unsigned", "uint32_t", *(f"uint{width}" for width in _WIDTHS))) | _SIGNED_WORDS
_HALF_WORDS = re.compile(r"half|_Float16|bfloat16|__bf16|fp16", re.IGNORECASE)
_RECORD = re.compile(r"HIP_vector_type|[a-z][234]\b")
_SIGNS = frozenset(("signed", "unsigned"))
# Words of a type that say nothing of its elements.
_NEUTRAL = re.compile(r"const|volatile|restrict|__restrict(?:__)?|struct|HIP_vector_type|std|\d+u?")


# A cast to a pointer, or a copy of bytes to something else.
_RETYPES = re.compile(
    r"(?:_cast\s*<|\()\s*(?!(?:const\s+)?void\b)[A-Za-z_][\w:\s]*(?:<[^<>]*>\s*)?\*[\s*]*(?:const\s*)?(?:__restrict(?:__)?\s*)?"
    r"(?:>|\)\s*[\w&(])|\b(?:__builtin_)?memcpy\s*\(|\bbit_cast\b"
)


def _list_words(text: str) -> set[str]:
    return {word for word in re.findall(r"\w+", text) if not _NEUTRAL.fullmatch(word)}


def reads_other_types(text: str) -> bool:
    """Whether a source may read memory as of another type: it casts pointers but to `void*`, or copies bytes."""
    return _RETYPES.search(blank_opaque(text)) is not None


@functools.lru_cache(maxsize=4096)
def classify_pointer(text: str) -> Elements:
    """What a pointer's type says of what it points to: UNKNOWN for structures, pointers, `void` and plain `char`,
    which may be raw memory, and for what is no pointer."""
    base, star, rest = text.partition("*")
    words = _list_words(base)
    if not star or "*" in rest or not words:
        return Elements.UNKNOWN
    for elements, names in _FLOATING.items():
        if words <= names:
            return elements
    if words <= _INTEGERS or (words <= _INTEGERS | {"char"} and words & _SIGNS):
        return Elements.INTEGERS
    return Elements.UNKNOWN


def widest_floating(types: Iterable[str]) -> Elements:
    """The widest kind of floating-point numbers that types name, also within others such as `Pair<float>`; INTEGERS if
    they name none."""
    words = set(re.findall(r"\w+", " ".join(types)))
    return next((elements for elements, names in _FLOATING.items() if words & names), Elements.INTEGERS)


@dataclass(frozen=True)
class ParameterTypes:
    """The types of kernels' parameters. `written`: by name of a kernel, as its source has them, for names that are not
    mangled. `plain_chars`: the source reads no memory as of another type, so that `char*` points to characters."""

    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    plain_chars: bool = False

    def list_types(self, kernel: str) -> tuple[str, ...]:
        """The types of the parameters of a kernel, given by its symbol; () if they are not known."""
        if kernel.startswith("_Z"):
            return _demangled_types(kernel)
        return self.written.get(kernel, ())

    def list_uses(self, output: Output) -> list[str]:
        """The types of the parameters that an output's allocation is passed as, as far as they are known."""
        types = ((self.list_types(use.kernel), use.parameter) for use in output.uses)
        return [names[at] for names, at in types if at < len(names)]

    def holds_records(self, output: Output) -> bool:
        """Whether the elements of an output may have several parts: those of structures and vectors."""
        uses = self.list_uses(output)
        return not uses or any(_RECORD.search(text) or classify_pointer(text) is Elements.UNKNOWN for text in uses)

    def classify_input(self, output: Output) -> Elements:
        """As classify(), but also integers of 32 bits are of a kind."""
        elements = self.classify(output)
        names = [word for text in self.list_uses(output) for word in _list_words(text)]
        if elements is not Elements.INTEGERS or not _WORDS.issuperset(names):
            return elements
        return Elements.WORDS if _SIGNED_WORDS.issuperset(names) else Elements.UNSIGNED_WORDS

    def _classify_uses(self, output: Output) -> set[Elements]:
        uses = self.list_uses(output)
        return {Elements.INTEGERS if self._points_to_chars(text) else classify_pointer(text) for text in uses}

    def _points_to_chars(self, text: str) -> bool:
        return self.plain_chars and text.count("*") == 1 and _list_words(text) == {"char"}

    def holds_numbers_only(self, output: Output) -> bool:
        """Whether all that is known of an output says that its elements are floating-point numbers of one kind."""
        kinds = self._classify_uses(output)
        return len(kinds) == 1 and kinds.isdisjoint({Elements.UNKNOWN, Elements.INTEGERS})

    def classify(self, output: Output) -> Elements:
        """What the elements of an output are; UNKNOWN where no parameter says it, or several differ. A kernel that
        takes floating-point numbers for integers, to compare or to move them, does not make them integers."""
        kinds = self._classify_uses(output)
        kinds.discard(Elements.UNKNOWN)
        if len(kinds) > 1:
            kinds.discard(Elements.INTEGERS)
        return kinds.pop() if len(kinds) == 1 else Elements.UNKNOWN


@functools.lru_cache(maxsize=4096)
def _demangled_types(symbol: str) -> tuple[str, ...]:
    return tuple(parameter_types(demangle(symbol)))


def list_elements(outputs: Iterable[Output], types: ParameterTypes) -> tuple[KnownElements, ...]:
    """What the allocations of a run hold, as far as parameters of kernels say it."""
    buffers = (
        KnownElements(output.index, output.bytes, types.classify(output))
        for output in outputs
        if output.kind == "buffer"
    )
    return tuple(buffer for buffer in buffers if buffer.elements is not Elements.UNKNOWN)


def list_inputs(outputs: Iterable[Output], types: ParameterTypes) -> tuple[KnownInput, ...]:
    """What the inputs of a run hold, as far as parameters of kernels say it: the same of all with these contents."""
    kinds: defaultdict[int, set[tuple[Elements, bool]]] = defaultdict(set)
    for output in outputs:
        uses = types.list_uses(output)
        constant = bool(uses) and len(uses) == len(output.uses) and all(map(is_read_only, uses))
        for contents in output.inputs:
            kinds[contents].add((types.classify_input(output), constant))
    return tuple(
        KnownInput(contents, *rows.pop())
        for contents, rows in kinds.items()
        if len(rows) == 1 and all(elements is not Elements.UNKNOWN for elements, _ in rows)
    )


def may_hold_halves(text: str) -> bool:
    """Whether a program names a type of 16 bits."""
    return bool(_HALF_WORDS.search(text))
