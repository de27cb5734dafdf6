"""Makes names as programmers choose them: of the same kind as the old one, in one style per copy, and unused.

What people choose is in plausible_names.tsv: how often a kind of entity (a local integer, a kernel, ...) has a name,
and how often a word occurs in names. A style says how words are written and how often a name is a usual one.
"""

from __future__ import annotations

import functools
import random
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, count
from pathlib import Path

TABLE = Path(__file__).with_name("plausible_names.tsv")


def word_list(text: str) -> list[str]:
    """Splits a white-space-separated table of words."""
    return text.split()


# Names that the language, the system headers or the HIP launch syntax define.
RESERVED = frozenset(
    word_list("""
    alignas alignof and and_eq asm assert auto bitand bitor bool break case catch char char8_t char16_t char32_t class
    co_await co_return co_yield compl concept const consteval constexpr constinit const_cast continue decltype default
    defined delete do double dynamic_cast else enum errno explicit export extern false float final for friend goto if
    import inline int long main module mutable namespace new noexcept not not_eq nullptr operator or or_eq override
    private protected public register reinterpret_cast requires restrict return short signed sizeof static static_assert
    static_cast std struct switch template this thread_local throw true try typedef typeid typename union unsigned using
    virtual void volatile wchar_t while xor xor_eq threadIdx blockIdx blockDim gridDim warpSize dim3 linux unix
    environ stdin stdout stderr NULL EOF TRUE FALSE half
    """)
)


@dataclass(frozen=True)
class Style:
    """How one author writes names. `usual` multiplies the share of usual names, `longer` shifts the number of words of
    the others; `short` cuts words to abbreviations."""

    weight: int
    variable: str = "snake"  # the casing of variables, functions and types: snake, camel or pascal
    function: str = "snake"
    type: str = "pascal"
    usual: float = 1.0
    longer: float = 0.0
    pointer: str = ""  # before the names of pointers: p, d_
    short: bool = False
    kernel_suffix: str = ""


STYLES = {
    "snake": Style(8),
    "snake with _t": Style(2, type="snake_t"),
    "snake, marked kernels": Style(2, kernel_suffix="kernel"),
    "camel": Style(7, "camel", "camel"),
    "camel, marked kernels": Style(2, "camel", "camel", kernel_suffix="kernel"),
    "pascal functions": Style(2, "camel", "pascal"),
    "snake variables, camel functions": Style(3, "snake", "camel"),
    "math": Style(4, usual=1.25, longer=-0.4),
    "hungarian": Style(2, "camel", "pascal", pointer="p"),
    "abbreviations": Style(3, short=True),
    "domain words": Style(3, usual=0.7, longer=0.4),
}

# The share of names that more than one file of the table's sources has, by category.
_USUAL = {"variable": 0.85, "parameter": 0.9, "field": 0.3, "kernel": 0.38, "function": 0.43, "method": 0.34} | {
    "type": 0.16, "macro": 0.63, "type parameter": 0.85, "value parameter": 0.4,
}  # fmt: skip
# Number of words of a name that is not a usual one -> weight, by kind of entity.
_LENGTHS: dict[str, Sequence[int]] = {
    "variable": (60, 34, 6, 0),
    "function": (28, 48, 20, 4),
    "type": (35, 45, 18, 2),
    "constant": (40, 46, 12, 2),
}
_KINDS = {"kernel": "function", "method": "function", "namespace": "variable", "macro": "constant", "label": "variable"}
_TYPES = {"type", "type parameter"}
_UPPER = {"constant", "macro"}
# Power of the table's weights. Below 1, because a program's functions draw separately, so that together they would have
# the most usual names more often than a program of one author.
EVENNESS = 0.8
_VOWELS = frozenset("aeiou")


@dataclass(frozen=True)
class _Weighted:
    """Entries to choose from by weight."""

    entries: tuple[str, ...]
    sums: tuple[float, ...]

    @staticmethod
    def of(rows: Sequence[tuple[str, float]]) -> _Weighted:
        return _Weighted(tuple(name for name, _ in rows), tuple(accumulate(weight for _, weight in rows)))

    def choose(self, rng: random.Random) -> str:
        return self.entries[bisect(self.sums, rng.random() * self.sums[-1])]


@functools.cache
def _name_rows() -> dict[str, list[tuple[str, float]]]:
    """The table: kind -> (name, weight)."""
    rows: dict[str, list[tuple[str, float]]] = {}
    for line in TABLE.read_text().splitlines():
        if line and not line.startswith("#"):
            kind, name, weight = line.split("\t")
            rows.setdefault(kind, []).append((name, float(weight)))
    return rows


@functools.cache
def _all_names(kind: str) -> _Weighted:
    return _Weighted.of(_name_rows()[kind])


@functools.cache
def _usual_names(kind: str, casing: str) -> _Weighted | None:
    """The usual names of a kind that fit a casing; None if there are none."""
    rows = [(name, weight**EVENNESS) for name, weight in _name_rows().get(kind, []) if _fits_casing(name, casing)]
    return _Weighted.of(rows) if rows else None


def _fits_casing(name: str, casing: str) -> bool:
    if name.isupper() or (name.islower() and "_" not in name):
        return True
    if name[0] == "k" and name[1:2].isupper():  # constants of every style: kBlock
        return True
    return {
        "snake": name.islower(),
        "snake_t": name.islower(),
        "camel": "_" not in name.strip("_") and name[0].islower(),
        "pascal": "_" not in name and name[0].isupper(),
    }[casing]


class Namer:
    """Makes unique names in one random style. `taken(name)` tells whether a name is already in use;
    `local_taken`, which the caller may replace, does so for local names."""

    def __init__(self, rng: random.Random, taken: Callable[[str], bool]) -> None:
        self.rng = rng
        self.taken = taken
        self.local_taken = taken
        self.given: set[str] = set()
        self.style = STYLES[_Weighted.of([(name, style.weight) for name, style in STYLES.items()]).choose(rng)]

    def make(self, category: str, *, local: bool = False, shape: str = "", old: str = "") -> str:
        """A new name in the style of `category` ("variable", "parameter", "function", "kernel", "type", "macro", ...).

        A `local` name is visible in one function only, so it may also occur in headers; `shape` is that of `Entity`.
        The name is not `old`, except one of at most two letters: others would be as likely.
        """
        names_taken = self.local_taken if local else self.taken
        kind = " ".join(word for word in (shape, "local" if local and category == "variable" else category) if word)
        for attempt in count():
            name = self._usual_name(category, kind) if attempt < 6 else ""
            name = name or self._compose_name(category, shape, attempt)
            again = name == old and (len(name) > 2 or not self.given)  # the first name differs, so that a copy does
            if again or name in self.given or name in RESERVED or names_taken(name):
                continue
            self.given.add(name)
            return name
        raise AssertionError("unreachable: names never run out")

    def _choose_casing(self, category: str) -> str:
        if category in _TYPES:
            return self.style.type
        return self.style.function if _KINDS.get(category, category) == "function" else self.style.variable

    def _usual_name(self, category: str, kind: str) -> str:
        names = _usual_names(kind, self._choose_casing(category))
        share = _USUAL.get(category, 0.0) * self.style.usual
        return names.choose(self.rng) if names and self.rng.random() < share else ""

    def _compose_name(self, category: str, shape: str, attempt: int) -> str:
        group = _KINDS.get(category, category if category in _LENGTHS else "type" if category in _TYPES else "variable")
        words = self._choose_words(group, attempt)
        if category in _UPPER:
            return "_".join(words).upper()
        if category == "kernel" and self.style.kernel_suffix:
            words = [*words, self.style.kernel_suffix]
        if shape == "pointer" and self.style.pointer:
            words = [self.style.pointer, *words]
        return _join_words(words, self._choose_casing(category))

    def _choose_words(self, group: str, attempt: int) -> list[str]:
        lengths = _LENGTHS[group]
        number = _Weighted.of([(str(n), weight) for n, weight in enumerate(lengths, 1)]).choose(self.rng)
        wanted = int(number) + (self.rng.random() < abs(self.style.longer)) * (1 if self.style.longer > 0 else -1)
        first, rest = _all_names("first word" if group == "function" else "word"), _all_names("word")
        words = [first.choose(self.rng), *(rest.choose(self.rng) for _ in range(max(1, wanted) - 1 + attempt // 12))]
        words = [word for at, word in enumerate(words) if word not in words[:at]]
        if self.style.short:
            words = [_abbreviate_word(word) for word in words]
        return words if attempt < 60 else [*words, str(attempt)]


def _abbreviate_word(word: str) -> str:
    """A long word as its start, or without its later vowels: `num`, `cnt`, `idx`."""
    if len(word) <= 4:
        return word
    bare = word[0] + "".join(c for c in word[1:] if c not in _VOWELS)
    return bare[:4] if len(word) % 2 else word[:4]


def _join_words(words: Sequence[str], casing: str) -> str:
    if casing.startswith("snake"):
        return "_".join(words) + casing.removeprefix("snake")
    pascal = "".join(word[:1].upper() + word[1:] for word in words)
    return pascal if casing == "pascal" else words[0] + pascal[len(words[0]) :]
