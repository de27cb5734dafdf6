"""Which arguments of launches may be one array: host code may copy a pointer (`target = same ? in : out`)."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from hipsynth.source.tokens import Span, find_closing, find_opening, split_at, strip_parentheses
from hipsynth.source.type_sizes import type_bytes
from hipsynth.tuning.optimize.analysis.hidden_pointers import find_hidden_pointers
from hipsynth.tuning.optimize.analysis.pointer_values import PointerValues, find_arguments, skip_template
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram

_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast"})
_NOTHING = frozenset({"nullptr", "NULL", "new"})
_SAME_ARRAY = frozenset({"data", "get", "begin", "data_ptr"})  # methods that give the array of their object
_MEMBERS = frozenset({".", "->"})
_MOST_CALLS = 3  # of functions in functions
_BASE = re.compile(r"[\w@]+")


@dataclass(frozen=True)
class PointerCopies:
    """The arrays that expressions of the host code may point into, by the copies of pointers in a program."""

    program: ParsedProgram

    @cached_property
    def _values(self) -> PointerValues:
        return PointerValues(self.program)

    def may_be_one(self, one: tuple[LaunchStatement, int], other: tuple[LaunchStatement, int]) -> bool:
        """Whether two arguments, each with its launch, may point into one array, by what the host code copies."""
        first, second = (find_arguments(self.program, launch)[place] for launch, place in (one, other))
        return self._meet(first, second)

    def has_copies(self, launch: LaunchStatement, pairs: Iterable[tuple[int, int]]) -> bool:
        """Whether two arguments of a launch, by their places, are written differently and may point into one array."""
        return any(
            launch.arguments[a] != launch.arguments[b] and self.may_be_one((launch, a), (launch, b)) for a, b in pairs
        )

    def list_copies(self, at: int) -> list[str]:
        """The variables, arrays and structures that are given what the variable at a token points to."""
        name, values = self._values.spell_token(at), self._values
        assigned = itertools.chain(values.values.items(), values.elements.items())
        return [other for other, spans in assigned if any(name in self._list_roots(span) for span in spans)]

    # --- comparison --------------------------------------------------------------------------------------------------

    def _meet(self, one: Span, other: Span, depth: int = 0) -> bool:
        """Whether two expressions may point into one array; choices by the same condition are compared by sides."""
        choices = [self._split_choice(self._unfold(span)) for span in (one, other)]
        if choices[0] and choices[1] and self._is_same(choices[0][0], choices[1][0]):
            return any(self._meet(a, b, depth) for a, b in zip(choices[0][1:], choices[1][1:], strict=True))
        some, others = self._find_arrays(one), self._find_arrays(other)
        return self._share(some, others, depth) or self._meet_by_swaps(one, other, depth)

    def _meet_by_swaps(self, one: Span, other: Span, depth: int) -> bool:
        """Whether they may be one array after swaps, which leave variables as different as they were."""
        exchanged = [self._find_exchanged({"".join(self._values.spell(span))}) for span in (one, other)]
        if exchanged[0] == exchanged[1]:
            pairs = itertools.combinations([self._follow_copies({name}) for name in exchanged[0]], 2)
            return any(self._share(a, b, depth) for a, b in pairs)
        some, others = (self._find_all_arrays(self._find_arrays(span)) for span in (one, other))
        return self._share(some, others, depth)

    def _find_exchanged(self, names: set[str]) -> set[str]:
        """Variables with all whose values they may get by swaps."""
        before: set[str] = set()
        while before != names:
            before, names = names, names.union(*(pair for pair in self._values.swapped if pair & names))
        return names

    def _find_all_arrays(self, names: set[str]) -> set[str]:
        """Variables with all that they may be copies of, also after swaps."""
        before: set[str] = set()
        while before != names:
            before, names = names, self._follow_copies(self._find_exchanged(names))
        return names

    def _is_same(self, one: Span, other: Span) -> bool:
        return self._values.spell(one) == self._values.spell(other)

    def _unfold(self, span: Span) -> Span:
        """The only expression that a variable is given, if the expression is its name."""
        values = self._values.values.get(self._values.spell_token(span[0]), []) if span[1] - span[0] == 1 else []
        return self._strip_casts(values[0] if len(values) == 1 else span)

    def _share(self, some: set[str], others: set[str], depth: int) -> bool:
        """Whether two variables, one of each set, may point into one array."""
        pairs = itertools.product(some, others)
        return bool(some & others) or any(self._is_one_element(a, b) or self._is_passed(a, b, depth) for a, b in pairs)

    def _is_one_element(self, one: str, other: str) -> bool:
        """Whether one of two variables is an element or member that may be given what the other one is."""
        bases = [_find_base(name) for name in (one, other)]
        if bases[0] == bases[1]:
            return _may_have_one_subscript(one, other)
        if not any(base in self._values.elements for base in bases):
            return False
        arrays = [{name} | self._list_element_arrays(base) for name, base in zip((one, other), bases, strict=True)]
        return bool(arrays[0] & arrays[1])

    def _list_element_arrays(self, base: str) -> set[str]:
        return set().union(*map(self._find_arrays, self._values.elements.get(base, ())))

    def _is_passed(self, one: str, other: str, depth: int) -> bool:
        """Whether calls pass for a parameter what the other variable is, or what they pass for that."""
        first, second = (self._values.parameters.get(name) for name in (one, other))
        if depth >= _MOST_CALLS or first is second is None:
            return False
        if first and second and first.function == second.function:
            calls = self._values.calls.get(first.function, ())
            return any(self._meet(call[first.place], call[second.place], depth + 1) for call in calls)
        parameter, rest = (first, other) if first else (second, one)
        assert parameter is not None
        calls = self._values.calls.get(parameter.function, ())
        return any(self._share(self._find_arrays(call[parameter.place]), {rest}, depth + 1) for call in calls)

    # --- expressions -------------------------------------------------------------------------------------------------

    def _find_arrays(self, span: Span) -> set[str]:
        """What an expression may point into: the variables that it names, and those that they are copies of."""
        return self._follow_copies(set(self._list_roots(span)))

    def _follow_copies(self, new: set[str]) -> set[str]:
        arrays: set[str] = set()
        while new:
            arrays |= new
            values = [value for name in new for value in self._values.values.get(name, ())]
            new = {root for value in values for root in self._list_roots(value)} - arrays
        return arrays

    def _list_roots(self, span: Span, depth: int = 0) -> Iterator[str]:
        """The variables or members whose pointers an expression copies or moves; none for numbers."""
        tokens, (start, end) = self.program.tokens, self._strip_casts(span)
        if start >= end or depth > _MOST_CALLS or tokens[start].text in _NOTHING:
            return
        if choice := self._split_choice((start, end)):
            parts = list(choice[1:])
        elif (opening := self._find_list((start, end))) >= 0:
            parts = split_at(tokens, opening + 1, end - 1, ",")
        elif len(parts := self._split_sum((start, end))) == 1:
            yield from self._list_roots_of_operand((start, end), depth)
            return
        yield from itertools.chain.from_iterable(self._list_roots(part, depth) for part in parts)

    def _find_list(self, span: Span) -> int:
        """The brace of an expression that is `{...}` or `Type{...}`; -1 for others."""
        tokens, (start, end) = self.program.tokens, span
        opening = find_opening(tokens, end - 1) if tokens[end - 1].text == "}" else -1
        return opening if opening in (start, start + 1) else -1

    def _list_roots_of_operand(self, span: Span, depth: int) -> Iterator[str]:
        tokens, (start, end) = self.program.tokens, span
        if tokens[start].text == "&" and tokens[end - 1].text == "]":
            yield from self._list_roots((start + 1, find_opening(tokens, end - 1)), depth)
            return
        opening = find_opening(tokens, end - 1) if tokens[end - 1].text == ")" else -1
        called = self._find_called(opening)
        if opening < 0 and tokens[start].identifier and not self._values.is_number(end - 1):
            yield "".join(self._values.spell(span))
        elif called > start and tokens[called - 1].text in _MEMBERS:
            yield self._name_method(span, called, opening)
        elif called >= start:
            yield from self._list_roots_of_call(called, split_at(tokens, opening + 1, end - 1, ","), depth)

    def _name_method(self, span: Span, called: int, opening: int) -> str:
        """The name of what a method returns: its object, or one for each call with arguments, as of an allocator."""
        is_array, has_arguments = self.program.tokens[called].text in _SAME_ARRAY, opening + 2 < span[1]
        text = "".join(self._values.spell((span[0], called - 1 if is_array else span[1])))
        return f"{text}#{span[0]}" if has_arguments and not is_array else text

    def _find_called(self, opening: int) -> int:
        """The token that names what is called with the bracket at a token; -1 for no call."""
        tokens = self.program.tokens
        named = (i for i in range(opening - 1, -1, -1) if tokens[i].identifier)
        return next((i for i in named if skip_template(self.program, i + 1) == opening), -1) if opening > 0 else -1

    def _list_roots_of_call(self, at: int, arguments: list[Span], depth: int) -> Iterator[str]:
        """What a function may return: its arguments; of one that the file defines, what its returns name."""
        name, values = self.program.tokens[at].text, self._values
        lambdas = [span for span in values.values.get(values.spell_token(at), ()) if self._is_lambda(span)]
        for span in lambdas:
            returned = {root for value in values.list_returned(span) for root in self._list_roots(value, depth + 1)}
            yield from (root for root in returned if not values.is_inside(_find_base(root), span))
        if name not in values.returned:
            yield from itertools.chain.from_iterable(self._list_roots(each, depth + 1) for each in arguments)
            return
        returned = {root for value in values.returned[name] for root in self._list_roots(value, depth + 1)}
        for root in self._follow_copies(returned):
            parameter = values.parameters.get(root)
            if parameter and parameter.function == name and parameter.place < len(arguments):
                yield from self._list_roots(arguments[parameter.place], depth + 1)
            elif not values.is_new(_find_base(root), name):
                yield root

    def _is_lambda(self, span: Span) -> bool:
        return self.program.tokens[span[0]].text == "["

    def _strip_casts(self, span: Span) -> Span:
        """An expression without parentheses and casts around all of it."""
        tokens = self.program.tokens
        while span[0] < span[1]:
            start, end = span = strip_parentheses(tokens, span)
            is_cast = tokens[start].text in _CASTS
            opening = skip_template(self.program, start + 1) if is_cast else start
            close = find_closing(tokens, opening) if tokens[opening].text == "(" else -1
            if is_cast and close == end - 1:
                span = opening + 1, close
            elif not is_cast and 0 < close < end - 1 and tokens[close - 1].text == "*":
                span = close + 1, end
            else:
                break
        return span

    def _split_sum(self, span: Span) -> list[Span]:
        """The parts of an expression between the signs + and - outside brackets."""
        tokens = self.program.tokens
        return [part for each in split_at(tokens, *span, "+") for part in split_at(tokens, *each, "-")]

    def _split_choice(self, span: Span) -> tuple[Span, Span, Span] | None:
        """The condition and both sides of `a ? b : c`."""
        tokens = self.program.tokens
        condition, *rest = split_at(tokens, *span, "?")
        if not rest:
            return None
        sides = split_at(tokens, rest[0][0], span[1], ":")
        inner = len(split_at(tokens, *sides[0], "?"))  # as many choices are open in the first side
        if inner >= len(sides):
            return None
        return condition, (sides[0][0], sides[inner - 1][1]), (sides[inner][0], span[1])


def _find_base(name: str) -> str:
    """The array or structure that a variable is an element or member of; the variable itself if it is neither."""
    match = _BASE.match(name)
    return match[0] if match else name


def _may_have_one_subscript(one: str, other: str) -> bool:
    """Whether two different elements of an array of pointers may be one: their subscripts are not both numbers, and
    name other variables."""
    if "." in one or "->" in one or "[" not in one or "[" not in other:
        return False
    named = [set(re.findall(r"[A-Za-z_]\w*@?\w*", name.partition("[")[2])) for name in (one, other)]
    return named[0] != named[1]


def is_passed_alone(program: ParsedProgram, kernel: KernelDefinition, name: str) -> bool:
    """Whether no launch passes what may be a parameter's array as another argument, too, and the kernel has no other
    pointer to it."""
    if find_hidden_pointers(program, kernel):
        return False
    at = [parameter.name for parameter in kernel.parameters].index(name)
    others = [(at, place) for place in range(len(kernel.parameters)) if place != at]
    copies = PointerCopies(program)
    return not any(
        launch.arguments.count(launch.arguments[at]) > 1 or copies.has_copies(launch, others)
        for launch in kernel.launches
    )


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
    if find_hidden_pointers(program, kernel):
        return False
    others = [(place, i) for place in places for i in range(len(kernel.parameters)) if _may_hold_pointers(kernel, i)]
    pairs = [
        pair for pair in itertools.combinations(places, 2) if not all(_is_constant(kernel, place) for place in pair)
    ] + others
    copies = PointerCopies(program)
    return not any(copies.has_copies(launch, pairs) for launch in kernel.launches)


def _may_hold_pointers(kernel: KernelDefinition, place: int) -> bool:
    """Whether a parameter is a structure, whose members may be pointers."""
    parameter = kernel.parameters[place]
    return "*" not in parameter.text and not type_bytes(re.sub(r"\bconst\b", "", parameter.type).strip())


def _is_constant(kernel: KernelDefinition, place: int) -> bool:
    """Whether a parameter points to what the kernel may not write: two such may be one array."""
    return kernel.parameters[place].text.split("*")[0].split().count("const") > 0
