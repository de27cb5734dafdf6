"""The types of a kernel's integer expressions, as C++ converts them: int, unsigned, long, unsigned long (of 64 bits, as
`long long` is), or none that is known."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from hipsynth.source.coordinates import COORDINATES
from hipsynth.source.tokens import CLOSING, OPENING, Span, find_closing
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_constants import find_constants

_RANKS = ("int", "unsigned", "long", "unsigned long")  # each is converted to the later one
_TYPES = {
    **dict.fromkeys(("int", "short", "char", "unsigned char", "unsigned short", "bool"), "int"),
    **dict.fromkeys(("int32_t", "int16_t", "int8_t", "uint16_t", "uint8_t", "signed int"), "int"),
    **dict.fromkeys(("unsigned", "unsigned int", "uint32_t", "uint"), "unsigned"),
    **dict.fromkeys(("long long", "long", "long int", "long long int", "int64_t", "ptrdiff_t"), "long"),
    **dict.fromkeys(("unsigned long long", "unsigned long", "uint64_t", "size_t"), "unsigned long"),
}
_NARROW = frozenset(["short", "char", "bool", "int16_t", "int8_t", "uint16_t", "uint8_t"])  # whose values are cut
TYPE_WORDS = frozenset(word for name in _TYPES for word in name.split())
_LEFT_OUT = frozenset({"const", "constexpr", "std", "::"})
_OPERATORS = frozenset("+-*/%")
_CHOICES = frozenset({"min", "max"})
_NUMBER = re.compile(r"(?:\d+|0[xX][\da-fA-F]+)([uU]?)((?:ll?|LL?)?)")


@dataclass(frozen=True)
class IntegerTypes:
    """Reads types in the body of a kernel."""

    body: Body

    @cached_property
    def _constants(self) -> dict[str, int]:
        return find_constants(self.body.program)

    def is_constant(self, name: str) -> bool:
        """Whether a name is a constant of the file."""
        return name in self._constants

    def join(self, left: str, right: str) -> str:
        """The type that both operands of a sum, product or quotient are converted to; "" if it is not known."""
        return max(left, right, key=_RANKS.index) if left and right else ""

    def find(self, span: Span) -> str:
        """The type of an expression."""
        tokens, (start, end) = self.body.tokens, span
        at, kind = start, ""
        while at < end:
            stop = self.find_operand_end(at)
            if not at < stop <= end:
                return ""
            operand = self._find_operand((at, stop))
            kind = self.join(kind, operand) if at > start else operand
            if stop == end:
                return kind
            if tokens[stop].text not in _OPERATORS:
                return ""
            at = stop + 1
        return ""

    def is_integer(self, span: Span) -> bool:
        """Whether an expression is one of integers alone: numbers, coordinates, variables, and elements of arrays."""
        return bool(self.find(span)) or all(self._is_integer_token(i) for i in range(*span))

    def _is_integer_token(self, at: int) -> bool:
        """Whether a token is a sign, or stands for an integer or an array of such; a member's is that of its object."""
        tokens, text = self.body.tokens, self.body.tokens[at].text
        if not re.match(r"[\w\"'.]", text):
            return text != "->"
        if text == "." or tokens[at - 1].text == ".":
            return tokens[at - 2 if text != "." else at - 1].text in COORDINATES
        if not tokens[at].identifier or tokens[at + 1].text == "(":
            return bool(_NUMBER.fullmatch(text))
        return text in COORDINATES or bool(self._find_name(at) or self._find_element(at))

    def _find_element(self, at: int) -> str:
        """The type of the elements of the array that a name stands for; "" for others."""
        tokens, place = self.body.tokens, self.body.local(self.body.tokens[at])
        if tokens[at + 1].text != "[":
            return ""
        if place < 0:
            bases = {parameter.name: parameter.base for parameter in self.body.kernel.parameters}
            return _TYPES.get(bases.get(tokens[at].text, ""), "")
        words = [tokens[i].text for i in range(*self.body.find_declared_type(place))]
        return _TYPES.get(" ".join(word for word in words if word not in {"__shared__", *_LEFT_OUT}), "")

    def find_operand_end(self, at: int) -> int:
        """The token behind the operand that begins at a token: a number, a name with what follows it, an expression in
        brackets, or a cast of such; `at` for anything else."""
        tokens = self.body.tokens
        if tokens[at].text == "(":
            close = find_closing(tokens, at)
            return self.find_operand_end(close + 1) if self._is_cast(at, close) else close + 1
        if _NUMBER.fullmatch(tokens[at].text):
            return at + 1
        if tokens[at].text == "static_cast":
            return find_closing(tokens, next(i for i in range(at, len(tokens)) if tokens[i].text == "(")) + 1
        if not tokens[at].identifier:
            return at
        end = at + 1
        while tokens[end].text in ("[", "(", ".", "->", "::"):
            end = find_closing(tokens, end) + 1 if tokens[end].text in "[(" else end + 2
        return end

    def _is_cast(self, start: int, close: int) -> bool:
        words = [token.text for token in self.body.tokens[start + 1 : close]]
        return bool(words) and all(word in TYPE_WORDS for word in words)

    def _find_operand(self, span: Span) -> str:
        tokens, (start, end) = self.body.tokens, span
        text, length = tokens[start].text, end - start
        if text == "(":
            close = find_closing(tokens, start)
            return self.find((start + 1, close)) if close == end - 1 else self._read_type((start + 1, close))
        if text == "static_cast":
            return self._read_type((start + 2, next(i for i in range(start, end) if tokens[i].text == ">")))
        if number := _NUMBER.fullmatch(text):
            return ("unsigned " if number[1] else "") + "long" if number[2] else "unsigned" if number[1] else "int"
        if length == 3 and text in COORDINATES:
            return "unsigned"
        if text in _CHOICES and tokens[start + 1].text == "(" and find_closing(tokens, start + 1) == end - 1:
            return self._find_choice((start + 2, end - 1))
        if length > 1 and tokens[start + 1].text == "[" and find_closing(tokens, start + 1) == end - 1:
            return self._find_element(start)
        return self._find_name(start) if length == 1 else ""

    def _find_choice(self, span: Span) -> str:
        """The type of the least or largest of two numbers of one type."""
        tokens, (start, end) = self.body.tokens, span
        commas = [i for i in range(start, end) if tokens[i].text == ","]
        kinds = {self.find((start, commas[0])), self.find((commas[0] + 1, end))} if len(commas) == 1 else set()
        return kinds.pop() if len(kinds) == 1 else ""

    def _find_name(self, at: int) -> str:
        token = self.body.tokens[at]
        place = self.body.local(token)
        if place >= 0:
            return self.find_local(place)
        return self.find_parameter(token.text) or ("int" if self.is_constant(token.text) else "")

    def find_parameter(self, name: str) -> str:
        """The type of a parameter; "" for one of another type, and for other names."""
        kernel = self.body.kernel
        kinds = [kernel.resolve_type(parameter.type) for parameter in kernel.parameters if parameter.name == name]
        return _TYPES.get(kinds[0].removeprefix("const ").removesuffix(" const"), "") if kinds else ""

    def find_local(self, place: int) -> str:
        """The type of a local variable, by its declaration."""
        at = self.body.find_declaration(place)
        value = self._find_value(at)
        kind = self._read_declared(at)
        return (self.find(value) if value is not None else "") if kind == "auto" else kind

    def find_host_type(self, name: str, span: Span) -> str:
        """The type of a variable or parameter of the host code that a name among bytes [start, end) stands for."""
        program = self.body.program
        named = [token for token in program.tokens if token.text == name and span[0] <= token.start < span[1]]
        places = {entity.place[1] for token in named for entity in program.entities(token) if entity.user}
        at = next((i for i, token in enumerate(program.tokens) if token.text == name and token.start in places), None)
        return self._read_declared(at) if at is not None and len(places) == 1 else ""

    def _read_declared(self, at: int) -> str:
        """The type that the declaration of a name begins with; "" for pointers, references and arrays."""
        tokens = self.body.tokens
        first = start = self._find_statement(at)
        while tokens[start].text in TYPE_WORDS | _LEFT_OUT:
            start += 1
        if tokens[start].text == "auto":
            return "auto"
        pointer = tokens[at - 1].text in ("*", "&") or tokens[at + 1].text == "["
        return "" if pointer else self._read_type((first, start))

    def _find_statement(self, at: int) -> int:
        """The first token of the declaration that a name is in, of a parameter its own one."""
        tokens, depth = self.body.tokens, 0
        comma, first = at, at
        while depth or tokens[first - 1].text not in (";", "{", "}", "("):
            first -= 1
            depth += (tokens[first].text in CLOSING) - (tokens[first].text in OPENING)
            comma = first + 1 if tokens[first].text == "," and not depth and comma == at else comma
        is_parameter = tokens[first - 1].text == "(" and tokens[first - 2].text != "for"
        return comma if is_parameter and comma != at else first

    def _read_type(self, span: Span) -> str:
        words = [token.text for token in self.body.tokens[slice(*span)] if token.text not in _LEFT_OUT]
        return _TYPES.get(" ".join(words), "")

    def _find_value(self, at: int) -> Span | None:
        """The initial value in a declaration `name = value`."""
        tokens = self.body.tokens
        if tokens[at + 1].text != "=":
            return None
        end = at + 2
        while tokens[end].text not in (",", ";", ")"):
            end = find_closing(tokens, end) + 1 if tokens[end].text in "([{" else end + 1
        return at + 2, end

    def find_initial_value(self, place: int) -> Span | None:
        """The expression whose value a local integer has from its declaration on; None if it changes, or if its type
        cuts values."""
        at = self.body.find_declaration(place)
        words = {token.text for token in self.body.tokens[self._find_statement(at) : at]}
        return None if words & _NARROW or not self.find_local(place) else self.body.constants.get(place)

    def is_narrow(self, parameter: str) -> bool:
        """Whether a parameter's type cuts the values that launches pass."""
        kinds = [each.type for each in self.body.kernel.parameters if each.name == parameter]
        return any(_NARROW & set(kind.split()) for kind in kinds)

    def is_changed(self, name: str, place: int) -> bool:
        """Whether the kernel assigns a variable or takes its address; `place`: as `Body.local` has it."""
        kernel, tokens = self.body.kernel, self.body.tokens
        uses = [
            i
            for i in range(kernel.first, kernel.last)
            if tokens[i].text == name and self.body.local(tokens[i]) == place and tokens[i].start != place
        ]
        taken = (tokens[i - 1].text == "&" and tokens[i - 2].text in ("(", ",", "=") for i in uses)
        return any(taken) or any(self.body.assigns(i, kernel.last) for i in uses)
