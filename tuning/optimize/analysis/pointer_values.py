"""What host code gives to its pointers: values of variables and of functions' parameters, and what functions return."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.source.declarations import FunctionDeclaration
from hipsynth.source.entities import Entity
from hipsynth.source.tokens import CLOSING, OPENING, Span, find_closing, find_opening, split_at
from hipsynth.tuning.optimize.analysis.program_model import STATEMENT_STARTS, LaunchStatement, ParsedProgram

Words = tuple[str, ...]
_DECLARED_BY = frozenset({"*", "&", "auto", "const", "__restrict__"})
_ENDS = frozenset({",", ";"})
_OTHER_NAMES = frozenset({"hipHostGetDevicePointer", "hipGetSymbolAddress"})
_APPEND = frozenset({"push_back", "emplace_back", "push_front", "emplace_front", "insert", "emplace", "assign"})
_MEMBERS = frozenset({".", "->"})


@dataclass(frozen=True)
class HostParameter:
    """A parameter of a function: the function's name, and its place among the parameters."""

    function: str
    place: int


@dataclass(frozen=True)
class PointerValues:
    """The expressions that pointers get in a program, by the names of variables with the places of their declarations.

    `elements`: those of the elements and members of arrays and structures; `parameters`: of functions that are called;
    `calls`: the arguments of each call; `returned`: the expressions that functions and lambdas return; `swapped`: the
    variables that are exchanged."""

    program: ParsedProgram
    values: dict[str, list[Span]] = field(default_factory=dict)
    elements: dict[str, list[Span]] = field(default_factory=dict)
    parameters: dict[str, HostParameter] = field(default_factory=dict)
    calls: dict[str, list[list[Span]]] = field(default_factory=dict)
    returned: dict[str, list[Span]] = field(default_factory=dict)
    swapped: list[set[str]] = field(default_factory=list)
    bodies: dict[str, list[tuple[int, int]]] = field(default_factory=dict)  # of functions: bytes

    def __post_init__(self) -> None:
        for name, value in self._without_swaps(list(self._list_values())):
            self.values.setdefault(name, []).append(value)
        for name, value in self._list_elements():
            self.elements.setdefault(name, []).append(value)
        kernels = {kernel.name for kernel in self.program.kernels}
        for function in self.program.declared:
            if function.name not in kernels:
                self._read_function(function)
        self.swapped.extend(self._list_swapped())
        for name, value in itertools.chain(self._list_stored(), self._list_found(), self._list_bound()):
            self.values.setdefault(name, []).append(value)

    def spell(self, span: Span) -> Words:
        """The words of an expression: variables with the places of their declarations."""
        return tuple(self.spell_token(i) for i in range(*span))

    def spell_token(self, at: int) -> str:
        """A token's text, of a variable as names have it."""
        variable = self._find_entity(at)
        text = self.program.tokens[at].text
        is_member = self.program.tokens[at - 1].text in _MEMBERS
        return text if variable is None or is_member else f"{text}@{variable.place[1]}"

    def is_number(self, at: int) -> bool:
        """Whether a token names a variable that is a number."""
        variable = self._find_entity(at)
        return variable is not None and variable.shape in ("integer", "real")

    def _find_entity(self, at: int) -> Entity | None:
        """The variable, parameter or member that a token names."""
        token = self.program.tokens[at]
        entities = [each for each in self.program.entities(token) if each.user and each.category != "function"]
        return entities[0] if token.identifier and len(entities) == 1 else None

    def is_inside(self, name: str, span: Span) -> bool:
        """Whether a name is that of a variable which is declared among tokens."""
        tokens, place = self.program.tokens, int(name.partition("@")[2] or -1)
        return tokens[span[0]].start <= place < tokens[span[1] - 1].end

    def is_new(self, name: str, function: str) -> bool:
        """Whether a name is that of a variable which each call of a function has anew."""
        place = int(name.partition("@")[2] or -1)
        if not any(start <= place < end for start, end in self.bodies.get(function, ())):
            return False
        tokens = self.program.tokens
        at = first = next(i for i, token in enumerate(tokens) if token.start == place)
        while tokens[first - 1].text not in (";", "{", "}"):
            first -= 1
        return "static" not in {token.text for token in tokens[first:at]}

    # --- variables ---------------------------------------------------------------------------------------------------

    def _list_values(self) -> Iterator[tuple[str, Span]]:
        """The variables that are declared with a value or assigned one, with it; members by their whole text."""
        tokens = self.program.tokens
        for i in range(2, len(tokens) - 1):
            text = tokens[i].text
            is_built = text in ("(", "{") and tokens[i - 2].text in _DECLARED_BY
            if text != "=" and not is_built and not (text == ":" and self._follows_declared(i)):
                continue
            first = self._find_variable(i)
            if first >= 0 and (text == "=" or first == i - 1):
                yield "".join(self.spell((first, i))), self._read_value(i + 1)

    def _list_elements(self) -> Iterator[tuple[str, Span]]:
        """The arrays and structures of which elements or members are given a value, with it."""
        tokens = self.program.tokens
        for i in range(2, len(tokens) - 1):
            text = tokens[i].text
            if text == "(" and tokens[i - 1].text in _APPEND and (first := self._find_variable(i - 2)) >= 0:
                for part in split_at(tokens, i + 1, find_closing(tokens, i), ","):
                    yield self.spell_token(first), part
                continue
            first = self._find_variable(i) if text in ("=", "{", "(") else -1
            if first < 0:
                continue
            name, opening = self.spell_token(first), i + 1 if text == "=" else i
            if text == "=" and tokens[opening].text != "{" and first < i - 1:
                yield name, self._read_value(opening)
            elif tokens[opening].text in ("{", "(") and (text == "=" or self._follows_declared(first + 1)):
                inside = opening + 1, find_closing(tokens, opening)
                yield from ((name, self._skip_designator(part)) for part in self._split_braces(inside))

    def _split_braces(self, span: Span) -> Iterator[Span]:
        """The values of a list, also of lists in it."""
        for start, end in split_at(self.program.tokens, *span, ","):
            if start < end and self.program.tokens[start].text == "{":
                yield from self._split_braces((start + 1, end - 1))
            elif start < end:
                yield start, end

    def _skip_designator(self, span: Span) -> Span:
        """The value in `.member = value`."""
        parts = split_at(self.program.tokens, *span, "=")
        return parts[-1] if self.program.tokens[span[0]].text == "." and len(parts) == 2 else span

    def _find_variable(self, end: int) -> int:
        """The first token of the `name`, `name.member` or `name[...]` that ends before a token; -1 for others."""
        tokens, at = self.program.tokens, end - 1
        while True:
            if tokens[at].text == "]":
                at = find_opening(tokens, at) - 1
            elif not tokens[at].identifier:
                return -1
            elif tokens[at - 1].text in _MEMBERS:
                at -= 2
            else:
                return -1 if tokens[at - 1].text == "::" else at

    def _follows_declared(self, at: int) -> bool:
        """Whether the name before a token is declared there."""
        name = self.program.tokens[at - 1]
        return any(entity.user and entity.place[1] == name.start for entity in self.program.entities(name)
                   if entity.category == "variable")  # fmt: skip

    def _read_value(self, start: int) -> Span:
        """An expression, up to a comma, semicolon or bracket that ends it."""
        tokens, depth, end = self.program.tokens, 0, start
        while end < len(tokens) and (depth or tokens[end].text not in _ENDS):
            depth += (tokens[end].text in OPENING) - (tokens[end].text in CLOSING)
            if depth < 0:
                break
            behind = skip_template(self.program, end)
            end = behind if tokens[behind].text in ("(", "{", "::") and behind > end else end + 1
        return start, end

    def _without_swaps(self, values: list[tuple[str, Span]]) -> Iterator[tuple[str, Span]]:
        """The values without those of `t = a; a = b; b = t;`, which leave two pointers as different as they were."""
        at = 0
        while at < len(values):
            three = values[at : at + 3]
            names, sources = [name for name, _ in three], ["".join(self.spell(span)) for _, span in three]
            if len(three) == 3 and sources == [*names[1:], names[0]]:
                self.swapped.append(set(names[1:]))
                at += 3
                continue
            yield values[at]
            at += 1

    def _list_swapped(self) -> Iterator[set[str]]:
        """The variables of each `swap(a, b)`."""
        tokens = self.program.tokens
        for i in range(1, len(tokens) - 1):
            if tokens[i].text == "swap" and tokens[i + 1].text == "(":
                spans = split_at(tokens, i + 2, find_closing(tokens, i + 1), ",")
                object_ = [(i - 2, i - 1)] if tokens[i - 1].text in _MEMBERS else []  # a.swap(b)
                yield {"".join(self.spell(span)) for span in [*object_, *spans]}

    def _list_bound(self) -> Iterator[tuple[str, Span]]:
        """The variables that get a part of a value: `auto [a, b] = value`, `tie(a, b) = value`, `exchange(a, b)`."""
        tokens = self.program.tokens
        for i in range(1, len(tokens) - 1):
            opening = i + 1
            is_binding = tokens[i].text in ("auto", "&", "&&") and tokens[opening].text == "["
            is_call = tokens[i].text in ("tie", "exchange") and tokens[opening].text == "("
            if not is_binding and not is_call:
                continue
            close = find_closing(tokens, opening)
            parts = split_at(tokens, opening + 1, close, ",")
            if tokens[i].text == "exchange" and len(parts) == 2:
                yield "".join(self.spell(parts[0])), parts[1]
            elif tokens[close + 1].text in ("=", ":"):
                value = self._read_value(close + 2)
                yield from (("".join(self.spell(part)), value) for part in parts)

    # --- functions ---------------------------------------------------------------------------------------------------

    def _read_function(self, function: FunctionDeclaration) -> None:
        """Notes what a function returns, and the arguments of its calls."""
        tokens, name = self.program.tokens, function.name
        self.returned.setdefault(name, []).extend(self.list_returned((function.first, function.last)))
        self.bodies.setdefault(name, []).append((function.start, function.end))
        calls = list(self._list_calls(function))
        if calls:
            self.calls.setdefault(name, []).extend(calls)
        close = find_closing(tokens, function.named + 1)
        spans = split_at(tokens, function.named + 2, close, ",")
        for place, (parameter, span) in enumerate(zip(function.parameters, spans, strict=False)):
            at = next((i for i in range(*span) if tokens[i].text == parameter.name), -1)
            if at >= 0:
                self.parameters[self.spell_token(at)] = HostParameter(name, place)

    def list_returned(self, span: Span) -> Iterator[Span]:
        """The expressions of the returns among tokens."""
        for i in range(*span):
            if self.program.tokens[i].text == "return":
                yield self._read_value(i + 1)

    def _list_calls(self, function: FunctionDeclaration) -> Iterator[list[Span]]:
        """The arguments of each call that gives as many as there are parameters."""
        tokens = self.program.tokens
        for i in range(len(tokens) - 1):
            is_name = tokens[i].text == function.name and tokens[i].start != function.name_start
            if not is_name or not any(each.category == "function" for each in self.program.entities(tokens[i])):
                continue
            opening = skip_template(self.program, i + 1)
            if tokens[opening].text == "(":
                spans = split_at(tokens, opening + 1, find_closing(tokens, opening), ",")
                if len(spans) == len(function.parameters):
                    yield spans

    def _list_stored(self) -> Iterator[tuple[str, Span]]:
        """The variables whose address calls pass to functions that store a parameter there, with what is passed for
        that: `*to = from;`."""
        tokens = self.program.tokens
        for i in range(1, len(tokens) - 2):
            to = self.parameters.get(self.spell_token(i + 1)) if tokens[i].text == "*" else None
            if to is None or tokens[i + 2].text != "=" or tokens[i - 1].text not in STATEMENT_STARTS:
                continue
            stored = [self.parameters.get(self.spell_token(at)) for at in range(*self._read_value(i + 3))]
            for call, each in itertools.product(self.calls.get(to.function, ()), filter(None, stored)):
                if each.function == to.function and tokens[call[to.place][0]].text == "&":
                    yield self.spell_token(call[to.place][0] + 1), call[each.place]

    def _list_found(self) -> Iterator[tuple[str, Span]]:
        """The variables that calls of the runtime set to another name of an array, with the array."""
        tokens = self.program.tokens
        for i in range(len(tokens) - 1):
            if tokens[i].text in _OTHER_NAMES and tokens[i + 1].text == "(":
                to, array, *_ = split_at(tokens, i + 2, find_closing(tokens, i + 1), ",")
                named = [at for at in range(*to) if tokens[at].identifier]
                yield self.spell_token(named[-1] if named else to[0]), array


def skip_template(program: ParsedProgram, at: int) -> int:
    """The token behind the template arguments that begin at a token; the token itself without any."""
    tokens = program.tokens
    if tokens[at].text != "<":
        return at
    depths = itertools.accumulate(
        {"<": 1, ">": -1, ">>": -2, ";": -99}.get(tokens[i].text, 0) for i in range(at, len(tokens))
    )
    end = next((at + i for i, depth in enumerate(depths) if depth <= 0), at)
    return at if tokens[end].text == ";" else end + 1


def find_arguments(program: ParsedProgram, launch: LaunchStatement) -> list[Span]:
    """The tokens of each argument of a launch."""
    tokens = program.tokens
    close = next(i for i, token in enumerate(tokens) if token.end >= launch.end) - 1
    parts = split_at(tokens, find_opening(tokens, close) + 1, close, ",")
    return parts[len(parts) - len(launch.arguments) :]
