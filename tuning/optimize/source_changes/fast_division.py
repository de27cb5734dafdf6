"""Fast division: `i / width` and `i % width` by a number that a whole launch shares become a multiplication.

GPUs divide no integers: a quotient of `int` takes 25 instructions on gfx942, a multiplication by its inverse 7. The
host works out the two factors of each such number once a launch and passes them as a parameter (T. Granlund and P. L.
Montgomery, Division by invariant integers using multiplication, PLDI 1994, figures 4.1 and 5.1); quotients are exact
for all numbers. Of 64 bits, those below 2^32 are multiplied. A divisor may be a parameter of the kernel, or a variable
or expression of such.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.edits import Edit, edit_text, join_insertions
from hipsynth.source.tokens import Span, find_closing
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, LaunchStatement, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.function_text import COLUMNS, choose_free_name
from hipsynth.tuning.optimize.helper_text import find_head, select_helpers
from hipsynth.tuning.optimize.source_changes.integer_types import TYPE_WORDS, IntegerTypes
from hipsynth.tuning.optimize.source_changes.launch_numbers import LaunchNumbers
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger

WHY = "a division of integers takes 25 instructions, a multiplication by its inverse 7"
_SIGNED = """\
// Divides exactly by a number that a launch shares (Granlund and Montgomery, Division by invariant integers, 1994).
struct Divisor {
  int value, factor = 0, shift = 0;
  explicit Divisor(int divisor) : value(divisor) {
    const unsigned long size = divisor < 0 ? -static_cast<long>(divisor) : divisor;
    while (2ul << shift < size) ++shift;
    if (size) factor = static_cast<int>((1ul << (32 + shift)) / size + 1);
  }
  __device__ int quotient(int number) const {
    const int rounded = ((__mulhi(number, factor) + number) >> shift) - (number >> 31);
    return (rounded ^ (value >> 31)) - (value >> 31);
  }
  __device__ int remainder(int number) const { return number - quotient(number) * value; }
};
"""
_UNSIGNED = """\
// Divides exactly by a number that a launch shares (Granlund and Montgomery, Division by invariant integers, 1994).
struct UnsignedDivisor {
  unsigned value, factor = 0, bits = 0;
  explicit UnsignedDivisor(unsigned divisor) : value(divisor) {
    while (1ul << bits < divisor) ++bits;
    if (divisor) factor = static_cast<unsigned>((((1ul << bits) - divisor) << 32) / divisor + 1);
  }
  __device__ unsigned quotient(unsigned number) const {
    const unsigned high = __umulhi(number, factor);
    return bits ? (high + ((number - high) >> 1)) >> (bits - 1) : number;
  }
  __device__ unsigned remainder(unsigned number) const { return number - quotient(number) * value; }
};
"""
_LONG = """\
// Divides exactly by a number that a launch shares (Granlund and Montgomery, Division by invariant integers, 1994);
// numbers below 2^32 are multiplied by its inverse.
struct NAME {
  TYPE value;
  unsigned factor = 0, bits = 0;
  explicit NAME(TYPE divisor) : value(divisor) {
    if (divisor < 1 || divisor >> 32) return;
    while (1ul << bits < divisor) ++bits;
    factor = static_cast<unsigned>((((1ul << bits) - divisor) << 32) / divisor + 1);
  }
  __device__ TYPE quotient(TYPE number) const {
    if (__builtin_expect(number >> 32 || !factor, 0)) return number / value;
    const unsigned low = static_cast<unsigned>(number), high = __umulhi(low, factor);
    return bits ? (high + ((low - high) >> 1)) >> (bits - 1) : low;
  }
  __device__ TYPE remainder(TYPE number) const { return number - quotient(number) * value; }
};
"""
# A remainder and the quotient behind it, whose branches compilers do not join.
_TAKE_DIGIT = """\
  // The last digit of a number, which keeps the others.
  template <typename T> __device__ T take_digit(T& number) const {
    const T before = number;
    number = quotient(before);
    return before - number * value;
  }
"""
_LAST_METHOD = re.compile(r"  __device__ (?:unsigned )?long remainder\(.*\n")
_STRUCTS = {
    "int": "Divisor", "unsigned": "UnsignedDivisor", "long": "LongDivisor", "unsigned long": "UnsignedLongDivisor",
}  # fmt: skip
_LONGS = (_LONG.replace("NAME", _STRUCTS[kind]).replace("TYPE", kind) for kind in ("long", "unsigned long"))
_DEFINITIONS = "".join([_SIGNED, _UNSIGNED, *_LONGS])
_METHODS = {"/": "quotient", "%": "remainder"}
_ASSIGNED = frozenset({"/=", "%="})
_BRANCHES = frozenset({"if", "else", "for", "while", "do", "case", "default", "?", "&&", "||", "sizeof", "decltype"})
_CHAINED = frozenset({"*", *_METHODS})
_SIGNS = "( [ { } , ; = + < > ? : return && || == != <= >= += -= *= /= %= & | ^ << >>"
_BEFORE = frozenset(_SIGNS.split())  # an operand that nothing binds more strongly
_WORD, _SIZE = re.compile(r"[\w.]+"), re.compile(r"\w+\.size\(\)")
_SIMPLE = re.compile(r"[\w.]+")
# An argument that may be written twice.
_REPEATABLE_ARGUMENT = re.compile(r"(?!.*(?:\+\+|--))(?:[\w\s.+*/%-]|\.size\(\)|\(\w[\w ]*\)\s*(?=\w))*")


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with the divisions of its slow kernels written so, if they have any."""
    edits: list[Edit] = []
    kernels = []
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if run is None or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns:
            continue
        try:
            kernel_edits = _KernelDivisions(program, kernel).edits()
        except NotUnderstood:
            continue
        edits += kernel_edits
        kernels += [kernel] if kernel_edits else []
    if kernels:
        used = " ".join(edit.text for edit in edits)
        helpers = select_helpers(_DEFINITIONS, used, program.text)
        if "take_digit" in used:
            helpers = _LAST_METHOD.sub(lambda method: method[0] + _TAKE_DIGIT, helpers)
        first = min(find_head(program.unit.text, kernel.start) for kernel in kernels)
        edits.append(Edit(first, first, helpers + "\n"))
        text = edit_text(program.unit.text, join_insertions(edits))
        yield SourceChange(" + ".join(kernel.name for kernel in kernels), text, WHY)


CHANGER = SourceChanger("SQ_INSTS_VALU", list_changes)


@dataclass(frozen=True)
class _LaunchNumber:
    """A number that a launch shares: its expression on the host, where the kernel's parameters stand in braces."""

    type: str
    expression: str


@dataclass
class _KernelDivisions:
    program: ParsedProgram
    kernel: KernelDefinition
    divisors: dict[_LaunchNumber, str] = field(default_factory=dict)  # what the kernel calls each

    def __post_init__(self) -> None:
        self.body = Body(self.program, self.kernel)
        self.types = IntegerTypes(self.body)
        self.numbers = LaunchNumbers(self.types)
        self.tokens = self.program.tokens

    def edits(self) -> list[Edit]:
        """The edits of the kernel and its launches; none without such a division. Raises NotUnderstood."""
        kernel, tokens = self.kernel, self.tokens
        names = [i for i, token in enumerate(tokens) if token.text == kernel.name and tokens[i + 1].text == "("]
        defined = [i for i in names if kernel.start <= tokens[i].start < tokens[kernel.first].start]
        if not kernel.launches or len(defined) != 1 or "Divisor" in self.program.text:
            return []
        self.body.check_plain(lambdas=True)
        edits = list(self._edit_divisions())
        if not edits:
            return []
        if any(i not in defined and self._is_declared(i) for i in names):
            raise NotUnderstood("a declaration ahead of the definition")
        close = tokens[find_closing(tokens, defined[0] + 1)].start
        parameters = [f"{_STRUCTS[number.type]} {name}" for number, name in self.divisors.items()]
        launches = (self._edit_launch(launch) for launch in kernel.launches)
        return [*edits, self._append(close, tokens[defined[0] + 1].end, parameters), *launches]

    def _is_declared(self, at: int) -> bool:
        """Whether a name with brackets is no launch by a macro."""
        close = find_closing(self.tokens, at + 1)
        return self.tokens[close + 1].text == ";" and self.tokens[at - 1].text == "void"

    def _edit_launch(self, launch: LaunchStatement) -> Edit:
        names = [parameter.name for parameter in self.kernel.parameters]
        arguments = dict(zip(names, launch.arguments, strict=True))
        passed = []
        for number in self.divisors:
            values = {name: arguments[name] for name in names if f"{{{name}}}" in number.expression}
            if not all(map(_REPEATABLE_ARGUMENT.fullmatch, values.values())):
                raise NotUnderstood("an argument that cannot be written twice")
            if self._needs_types(number, values) or self._may_have_fractions(number, values.values(), launch):
                values = {name: self._convert(name, value, launch) for name, value in values.items()}
            else:
                values = {name: value if _SIMPLE.fullmatch(value) else f"({value})" for name, value in values.items()}
            passed.append(f"{_STRUCTS[number.type]}({_strip_brackets(number.expression.format(**values))})")
        close = next(i for i in range(len(self.tokens)) if self.tokens[i].end >= launch.end) - 1
        depth, first = 0, close
        while first == close or depth:
            depth += (self.tokens[first].text == ")") - (self.tokens[first].text == "(")
            first -= 1
        return self._append(self.tokens[close].start, self.tokens[first + 1].end, passed)

    def _needs_types(self, number: _LaunchNumber, names: Iterable[str]) -> bool:
        """Whether another type of an argument could change the number: sums and products of 32 bits are the same in
        wider types, as far as they count."""
        kinds = {self.types.find_parameter(name) for name in names}
        if _SIMPLE.fullmatch(number.expression.strip("{}")):
            return kinds != {number.type}
        is_wide = any(kind.endswith("long") for kind in (number.type, *kinds))
        return is_wide or bool({"/", "%", ">"} & set(number.expression))

    def _may_have_fractions(self, number: _LaunchNumber, values: Iterable[str], launch: LaunchStatement) -> bool:
        """Whether a number is made of arguments that may be no integers, which the parameters' types cut first."""
        if _SIMPLE.fullmatch(number.expression.strip("{}")):
            return False
        words = (word for value in values for word in _WORD.findall(_SIZE.sub("0", value)))
        return not all(
            word.isdigit()
            or word in TYPE_WORDS
            or self.types.find_host_type(word, (launch.start, launch.end)) not in ("", "auto")
            for word in words
        )

    def _convert(self, name: str, value: str, launch: LaunchStatement) -> str:
        """What a launch passes for a parameter, of the parameter's type."""
        kind = self.types.find_parameter(name)
        same = value.isdigit() or self.types.find_host_type(value, (launch.start, launch.end)) == kind
        return value if same else f"static_cast<{kind}>({value})"

    def _append(self, at: int, first: int, items: list[str]) -> Edit:
        """Items at the end of a list, in lines that begin below the list's first one."""
        text = self.program.unit.text
        column, indent = at - (text.rfind(b"\n", 0, at) + 1), first - (text.rfind(b"\n", 0, first) + 1)
        written = ""
        for item in items:
            is_long = column + len(item) + 2 > COLUMNS
            written += f",\n{' ' * indent}{item}" if is_long else f", {item}"
            column = indent + len(item) if is_long else column + len(item) + 2
        return Edit(at, at, written)

    # --- expressions -------------------------------------------------------------------------------------------------

    def _edit_divisions(self) -> Iterator[Edit]:
        """An edit for each product, quotient or chain of such that contains a division by a number of the launch."""
        i = self.kernel.first
        while i < self.kernel.last:
            if self.tokens[i].text in _ASSIGNED and (edit := self._edit_assignment(i)):
                yield edit
            operands = self._read_chain(i)
            if edits := self._edit_digit(operands):
                yield from edits
                i = operands[-1][1]
                while self.tokens[i].start < edits[1].end:
                    i += 1
                continue
            text = self._write_chain(operands) if len(operands) > 1 else None
            if text is None:
                i += 1
                continue
            end = operands[-1][1]
            yield Edit(self.tokens[i].start, self.tokens[end - 1].end, text)
            i = end

    def _edit_digit(self, operands: list[tuple[int, int]]) -> list[Edit]:
        """`w = i % width; i /= width;` of 64 bits as `w = by_width.take_digit(i);`; [] for other chains."""
        tokens = self.tokens
        if len(operands) != 2 or tokens[operands[1][0] - 1].text != "%" or operands[0][1] - operands[0][0] > 1:
            return []
        (at, _), divisor = operands
        number, kind = self._find_number(divisor), self.types.find((at, at + 1))
        start, end = self._find_statement(at)
        by = [token.text for token in tokens[slice(*divisor)]]
        quotient = [tokens[at].text, "/=", *by, ";"]
        follows = [token.text for token in tokens[end : end + len(quotient)]] == quotient
        once = [token.text for token in tokens[start:end]].count(tokens[at].text) == 1
        is_known = number is not None and kind.endswith("long") and self.types.join(kind, number.type) == kind
        if number is None or not (is_known and follows and once) or self.body.local(tokens[at]) < 0:
            return []
        name = self._name_divisor(_LaunchNumber(kind, number.expression), divisor)
        last = tokens[end + len(quotient) - 1].end
        return [
            Edit(tokens[at].start, tokens[divisor[1] - 1].end, f"{name}.take_digit({tokens[at].text})"),
            Edit(tokens[end - 1].end, last, ""),
        ]

    def _find_statement(self, at: int) -> tuple[int, int]:
        """The tokens of the simple statement that a token is in; an empty range for one that may not execute it."""
        tokens, start, end = self.tokens, at, at
        while tokens[start - 1].text not in (";", "{", "}"):
            start -= 1
        while tokens[end].text not in (";", "{", "}"):
            end += 1
        words = [token.text for token in tokens[start:end]]
        is_simple = tokens[end].text == ";" and words.count("(") == words.count(")") and not _BRANCHES & set(words)
        return (start, end + 1) if is_simple else (at, at)

    def _edit_assignment(self, at: int) -> Edit | None:
        """`i /= width;` as `i = by_width.quotient(i);`; None for other assignments."""
        tokens = self.tokens
        end = next(i for i in range(at, self.kernel.last) if tokens[i].text in (";", "{"))
        name, before = tokens[at - 1], tokens[at - 2].text
        if self.body.local(name) < 0 or before not in (";", "{", "}", ")"):
            return None
        number = self._find_number((at + 1, end))
        kind = self.types.join(self.types.find((at - 1, at)), number.type) if number is not None else ""
        if number is None or not kind:
            return None
        divisor = self._name_divisor(_LaunchNumber(kind, number.expression), (at + 1, end))
        text = f"= {divisor}.{_METHODS[tokens[at].text[0]]}({name.text})"
        return Edit(tokens[at].start, tokens[end - 1].end, text)

    def _read_chain(self, at: int) -> list[tuple[int, int]]:
        """The operands of the chain of * / % that begins at a token; fewer than two where there is none."""
        if not self._begins_operand(at):
            return []
        operands = []
        end = self.types.find_operand_end(at)
        while end > at:
            operands.append((at, end))
            if self.tokens[end].text not in _CHAINED:
                break
            at = end + 1
            end = self.types.find_operand_end(at)
        return operands

    def _begins_operand(self, at: int) -> bool:
        """Whether nothing that binds as strongly as a product stands before a token: no cast, sign or member."""
        tokens, before = self.tokens, self.tokens[at - 1].text
        if before == "-":
            return tokens[at - 2].identifier or tokens[at - 2].text in ")]" or tokens[at - 2].text.isdigit()
        return before in _BEFORE and not (before == ">" and tokens[at].text == "(")

    def _write_chain(self, operands: list[tuple[int, int]]) -> str | None:
        """The chain with its divisions replaced; None if it has none."""
        (start, end), *others = operands
        text, is_changed = self._write_operand((start, end))
        kind = self.types.find((start, end))
        for operand in others:
            sign = self.tokens[operand[0] - 1]
            number = self._find_number(operand) if sign.text in _METHODS else None
            kind = self.types.join(kind, self.types.find(operand))
            if number is not None and kind in _STRUCTS:
                name = self._name_divisor(_LaunchNumber(kind, number.expression), operand)
                text, is_changed = f"{name}.{_METHODS[sign.text]}({_strip_brackets(text)})", True
                continue
            more, is_more = self._write_operand(operand)
            text, is_changed = f"{text} {sign.text} {more}", is_changed or is_more
        return text if is_changed else None

    def _write_operand(self, operand: Span) -> tuple[str, bool]:
        """An operand with the divisions in its brackets replaced, and whether there are any."""
        start, end = operand
        begin, edits, i = self.tokens[start].start, [], start + 1
        while i < end:
            operands = self._read_chain(i)
            text = self._write_chain(operands) if len(operands) > 1 else None
            last = operands[-1][1] if text is not None else i + 1
            if text is not None:
                edits.append(Edit(self.tokens[i].start - begin, self.tokens[last - 1].end - begin, text))
            i = last
        source = self.program.unit.text[begin : self.tokens[end - 1].end]
        return edit_text(source, edits), bool(edits)

    # --- divisors ----------------------------------------------------------------------------------------------------

    def _name_divisor(self, number: _LaunchNumber, operand: Span) -> str:
        if number not in self.divisors:
            named = (token.text for token in self.tokens[slice(*operand)] if token.identifier)
            words = dict.fromkeys(word for word in named if word not in TYPE_WORDS)
            used = " ".join([self.program.text, *self.divisors.values()])
            self.divisors[number] = choose_free_name("_".join(["by", *words]), used)
        return self.divisors[number]

    def _find_number(self, span: Span) -> _LaunchNumber | None:
        """The number of the launch that an expression is; None for one that may differ between work-items, and for
        constants, by which compilers divide fast."""
        kind, text = self.types.find(span), self.numbers.write(span)
        return _LaunchNumber(kind, text) if kind in _STRUCTS and text is not None and "{" in text else None


def _strip_brackets(text: str) -> str:
    """The text without the brackets around all of it."""
    depth = 0
    for at, sign in enumerate(text):
        depth += (sign == "(") - (sign == ")")
        if depth == 0:
            return text[1:-1] if sign == ")" and at == len(text) - 1 and text[0] == "(" else text
    return text
