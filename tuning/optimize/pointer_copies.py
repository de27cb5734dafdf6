"""Which arguments of launches may be one array: host code may copy a pointer (`target = same ? in : out`)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from hipsynth.source.parse import Token
from hipsynth.source.tokens import CLOSING, OPENING
from hipsynth.tuning.optimize.program_model import KernelDefinition, LaunchStatement, ParsedProgram

Words = tuple[str, ...]
_WORD = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|->|::|\S")
_NAME = re.compile(r"[A-Za-z_]\w*(@\d+)?")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})
_ENDS = frozenset({",", ";"})
_NOTHING = frozenset({"nullptr", "NULL", "new"})
_DECLARED_BY = frozenset({"*", "&", "auto", "const", "__restrict__"})


@dataclass(frozen=True)
class PointerCopies:
    """The copies of pointers in a program: the expressions that each variable is given, their names with the place of
    the declaration."""

    program: ParsedProgram
    values: dict[str, list[Words]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in _without_swaps(list(_list_values(self.program))):
            self.values.setdefault(name, []).append(value)

    def may_be_one(self, one: tuple[LaunchStatement, str], other: tuple[LaunchStatement, str]) -> bool:
        """Whether two arguments, each with its launch, may point into one array, by what the host code copies."""
        return self._meet(*(self._read_argument(*each) for each in (one, other)))

    def has_copies(self, launch: LaunchStatement, pairs: Iterable[tuple[int, int]]) -> bool:
        """Whether two arguments of a launch, by their places, are written differently and may point into one array."""
        passed = [[(launch, launch.arguments[place]) for place in pair] for pair in pairs]
        return any(a[1] != b[1] and self.may_be_one(a, b) for a, b in passed)

    def _read_argument(self, launch: LaunchStatement, argument: str) -> Words:
        tokens = (token for token in self.program.tokens if launch.start <= token.start < launch.end)
        names = {token.text: _spell_token(self.program, token) for token in tokens}
        return tuple(names.get(word, word) for word in _WORD.findall(argument))

    def _meet(self, one: Words, other: Words) -> bool:
        """Whether two expressions may point into one array; choices by the same condition are compared by sides."""
        choices = [_split_choice(self._unfold(words)) for words in (one, other)]
        if choices[0] and choices[1] and choices[0][0] == choices[1][0]:
            return any(self._meet(a, b) for a, b in zip(choices[0][1:], choices[1][1:], strict=True))
        return bool(self._find_arrays(one) & self._find_arrays(other))

    def _unfold(self, words: Words) -> Words:
        """The only expression that a variable is given, if the words are its name."""
        values = self.values.get(words[0], []) if len(words) == 1 else []
        return _strip_brackets(values[0]) if len(values) == 1 else _strip_brackets(words)

    def _find_arrays(self, words: Words) -> set[str]:
        """What an expression may point into: the variables that it names, and those that they are copies of."""
        arrays: set[str] = set()
        new = set(_list_roots(words))
        while new:
            arrays |= new
            new = {root for name in new for value in self.values.get(name, []) for root in _list_roots(value)} - arrays
        return arrays


def has_distinct_pointers(program: ParsedProgram, kernel: KernelDefinition) -> bool:
    """Whether every launch passes different arrays for all pointers, as far as expressions and copies tell, or the
    source says that they differ; the output check covers the rest."""
    places = [i for i, parameter in enumerate(kernel.parameters) if parameter.base]
    if all("__restrict" in kernel.parameters[i].text for i in places):
        return bool(kernel.launches)
    passed = [[launch.arguments[i] for i in places] for launch in kernel.launches]
    arrays = [[argument for argument in arguments if argument not in _NOTHING] for arguments in passed]
    if not passed or any(len(set(arguments)) < len(arguments) for arguments in arrays):
        return False
    pairs = [
        pair for pair in itertools.combinations(places, 2) if not all(_is_constant(kernel, place) for place in pair)
    ]
    copies = PointerCopies(program)
    return not any(copies.has_copies(launch, pairs) for launch in kernel.launches)


def _is_constant(kernel: KernelDefinition, place: int) -> bool:
    """Whether a parameter points to what the kernel may not write: two such may be one array."""
    return kernel.parameters[place].text.split("*")[0].split().count("const") > 0


def _spell_token(program: ParsedProgram, token: Token) -> str:
    """A token's text, a variable's with the place of its declaration; 0 for variables that are numbers."""
    entities = [entity for entity in program.entities(token) if entity.user and entity.category != "function"]
    if not token.identifier or len(entities) != 1:
        return token.text
    return "0" if entities[0].shape in ("integer", "real") else f"{token.text}@{entities[0].place[1]}"


def _list_values(program: ParsedProgram) -> Iterator[tuple[str, Words]]:
    """The variables that are declared with a value or assigned one, with the words of it."""
    tokens = program.tokens
    for i in range(2, len(tokens) - 1):
        if not tokens[i - 1].identifier or tokens[i - 2].text in (".", "->", "::"):
            continue
        is_declared = tokens[i].text in ("(", "{") and tokens[i - 2].text in _DECLARED_BY
        if tokens[i].text == "=" or is_declared:
            yield (
                _spell_token(program, tokens[i - 1]),
                tuple(_spell_token(program, token) for token in _read_value(tokens, i + 1)),
            )


def _read_value(tokens: Sequence[Token], start: int) -> Sequence[Token]:
    """The tokens of an expression, up to a comma, semicolon or bracket that ends it."""
    depth, end = 0, start
    while end < len(tokens) and (depth or tokens[end].text not in _ENDS):
        depth += (tokens[end].text in OPENING) - (tokens[end].text in CLOSING)
        if depth < 0:
            break
        end += 1
    return tokens[start:end]


def _without_swaps(values: list[tuple[str, Words]]) -> Iterator[tuple[str, Words]]:
    """The values without those of `t = a; a = b; b = t;`, which leave two pointers as different as they were."""
    at = 0
    while at < len(values):
        three = values[at : at + 3]
        names, sources = [name for name, _ in three], [words for _, words in three]
        if len(three) == 3 and sources == [(names[1],), (names[2],), (names[0],)]:
            at += 3
            continue
        yield values[at]
        at += 1


def _strip_brackets(words: Words) -> Words:
    """An expression without brackets and casts around all of it."""
    while words:
        close = _find_close(words, 0) if words[0] == "(" else -1
        if close == len(words) - 1:
            words = words[1:-1]
        elif close > 0 and words[close - 1] == "*":
            words = words[close + 1 :]
        elif words[0] in _CASTS and "(" in words and _find_close(words, words.index("(")) == len(words) - 1:
            words = words[words.index("(") + 1 : -1]
        else:
            break
    return words


def _find_close(words: Words, opening: int) -> int:
    depths = itertools.accumulate((word in OPENING) - (word in CLOSING) for word in words[opening:])
    return next((opening + at for at, depth in enumerate(depths) if depth == 0), -1)


def _split_words(words: Words, separators: str) -> list[Words]:
    """The parts of an expression between signs outside brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for word in words:
        depth += (word in OPENING) - (word in CLOSING)
        if depth == 0 and word in separators:
            parts.append([])
        else:
            parts[-1].append(word)
    return [tuple(part) for part in parts]


def _split_choice(words: Words) -> tuple[Words, Words, Words] | None:
    """The condition and both sides of `a ? b : c`."""
    condition = _split_words(words, "?")[0]
    inner = depth = 0
    for at in range(len(condition) + 1, len(words)):
        depth += (words[at] in OPENING) - (words[at] in CLOSING)
        if depth == 0 and words[at] == ":" and inner == 0:
            return condition, words[len(condition) + 1 : at], words[at + 1 :]
        if depth == 0 and words[at] in "?:":
            inner += 1 if words[at] == "?" else -1
    return None


def _list_roots(words: Words) -> Iterator[str]:
    """The variables or members whose pointers an expression copies or moves; none for calls and numbers."""
    words = _strip_brackets(words)
    if choice := _split_choice(words):
        yield from itertools.chain(_list_roots(choice[1]), _list_roots(choice[2]))
    elif len(parts := _split_words(words, "+-")) > 1:
        yield from itertools.chain.from_iterable(map(_list_roots, parts))
    elif words[:1] == ("&",) and words[-1:] == ("]",):
        last = max(i for i in range(len(words)) if words[i] == "[" and _find_close(words, i) == len(words) - 1)
        yield from _list_roots(words[1:last])
    elif words and _NAME.fullmatch(words[0]) and words[0] not in _NOTHING:
        while words[-2:] == ("(", ")") and words[-4:-2] in ((".", "data"), (".", "get")):
            words = words[:-4]
        if "(" not in words and "*" not in words:
            yield "".join(words)
