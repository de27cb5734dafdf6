"""Translates expressions of host code into Python text, with the types that C++ gives them."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hipsynth.profiling.preview.contents.terms import (
    FUNCTIONS,
    INT,
    KINDS,
    RAND_MAX,
    REAL,
    SIZE,
    WHOLE,
    Array,
    Kind,
    Outer,
    Scalar,
    Text,
    Untranslatable,
    array_of,
    kind_of,
)
from hipsynth.profiling.preview.expressions import ASSIGNS, CASTS, LEVELS, number
from hipsynth.profiling.preview.tokens import Cursor

MOST_WORDS = 400


class ExpressionTranslator(Cursor):
    """Translates expressions of a statement of host code. `outer`: what a name outside it is."""

    def __init__(self, words: Sequence[str], outer: Outer) -> None:
        if len(words) > MOST_WORDS:
            raise Untranslatable
        super().__init__(list(words))
        self.outer = outer
        self.lines: list[str] = []
        self.depth = 1
        self.locals: list[dict[str, Text]] = [{}]
        self.scalars: dict[str, Scalar] = {}
        self.arrays: dict[str, Array] = {}
        self.changed: set[str] = set()
        self.uses: Counter[str] = Counter()  # of elements of arrays
        self.steps: list[Sequence[str]] = []  # what `continue` must do, by loop
        self.made = 0
        self.guarded = 0  # parts of expressions around that may not be computed, or more than once

    # --- words

    def need(self, word: str) -> None:
        if self.peek() != word:
            raise Untranslatable
        self.at += 1

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def fresh(self, name: str) -> str:
        self.made += 1
        return f"v_{name}_{self.made}"

    # --- expressions

    def value(self) -> Text:
        value = self._ternary()
        sign = self.peek()
        if sign not in ASSIGNS:
            return value
        if not value.place:
            raise Untranslatable
        self.at += 1
        stored, positive = self._stored(value, sign, self.value()), value.kind.unsigned
        if "[" not in value.place:
            return Text(f"({value.place} := {stored})", value.kind, positive)
        kept = self._before("kept", stored)
        self.emit(f"{value.place} = {kept}")
        return Text(kept, value.kind, positive)

    def _before(self, name: str, text: str) -> str:
        """A variable with a value that is computed before the statement. Raises Untranslatable where it may not be."""
        if self.guarded:
            raise Untranslatable
        variable = self.fresh(name)
        self.emit(f"{variable} = {text}")
        return variable

    def _stored(self, target: Text, sign: str, value: Text) -> str:
        for name in (*self.scalars, *self.arrays):
            if target.place == f"s_{name}" or target.place.startswith(f"{array_of(name)}["):
                self.changed.add(name)
                self.uses[name] -= sign == "="
        made = value if sign == "=" else self.operated(sign[:-1], target, value)
        return self.converted(made, target.kind)

    def converted(self, value: Text, kind: Kind) -> str:
        """The value as one of another type."""
        if kind.real:
            return value.text if value.kind.real else f"float({value.text})"
        text = f"int({value.text})" if value.kind.real else value.text
        if value.grown and not kind.signed:
            return f"({text} & {kind.mask})"
        if value.grown:
            return f"_narrowed({text}, {kind.bits})"
        if value.kind == kind or (value.positive and value.kind.bits < kind.bits) or value.text.isdigit():
            return text
        if kind.signed and value.kind.signed and value.kind.bits <= kind.bits:
            return text
        return f"_narrowed({text}, {kind.bits})" if kind.signed else f"({text} & {kind.mask})"

    def cast(self, value: Text, kind: Kind) -> Text:
        """The value as one of another type; a positive one that does not fit may become negative."""
        fits = kind.real or value.kind.real or value.kind.bits < kind.bits + (value.kind.signed and not value.grown)
        return Text(self.converted(value, kind), kind, (value.positive and fits) or kind.unsigned)

    def _ternary(self) -> Text:
        condition = self._level(0)
        if not self.take("?"):
            return condition
        self.guarded += 1
        first = self.value()
        self.need(":")
        second = self.value()
        self.guarded -= 1
        kind = self.common(first, second)
        return Text(f"({first.text} if {condition.text} else {second.text})", kind, first.positive and second.positive)

    def _level(self, level: int) -> Text:
        if level == len(LEVELS):
            return self.unary()
        value = self._level(level + 1)
        while self.peek() in LEVELS[level]:
            sign = self.peek()
            self.at += 1
            self.guarded += sign in ("&&", "||")
            value = self.operated(sign, value, self._level(level + 1))
            self.guarded -= sign in ("&&", "||")
        return value

    @staticmethod
    def common(a: Text, b: Text) -> Kind:
        """The type that both operands of an operation are converted to."""
        if a.kind.real or b.kind.real:
            return REAL
        bits = max(32, a.kind.bits, b.kind.bits)
        return Kind(bits, all(one.kind.signed or one.kind.bits < bits for one in (a, b)))

    def operated(self, sign: str, a: Text, b: Text) -> Text:
        if sign in ("&&", "||"):
            return Text(f"bool({a.text} {'and' if sign == '&&' else 'or'} {b.text})", INT, True)
        if sign in ("==", "!=", "<", ">", "<=", ">="):
            return Text(f"({a.text} {sign} {b.text})", INT, True)
        kind, positive = self.common(a, b), a.positive and b.positive
        if sign in ("<<", ">>"):
            kind = Kind(max(32, a.kind.bits), a.kind.signed or a.kind.bits < 32)
        if kind.real and sign not in ("+", "-", "*", "/"):
            raise Untranslatable
        if sign in ("/", "%") and not kind.real:
            return self._divided(sign, a, b, kind, positive)
        text = f"({a.text} {sign} ({b.text} & 63))" if sign in ("<<", ">>") else f"({a.text} {sign} {b.text})"
        if kind.unsigned and sign in ("+", "-", "*", "<<"):
            text = f"({text} & {kind.mask})"
        grown = sign in ("*", "<<") and kind.signed and not kind.real
        return Text(text, kind, (positive and sign != "-") or kind.unsigned, grown=grown)

    @staticmethod
    def _divided(sign: str, a: Text, b: Text, kind: Kind, positive: bool) -> Text:
        if positive or not kind.signed:
            return Text(f"({a.text} {'//' if sign == '/' else '%'} {b.text})", kind, True)
        return Text(f"_{'quotient' if sign == '/' else 'remainder'}({a.text}, {b.text})", kind)

    def unary(self) -> Text:
        word = self.peek()
        if word in ("-", "+", "!", "~"):
            self.at += 1
            return self._signed(word, self.unary())
        if word in ("++", "--"):
            self.at += 1
            return self._moved(self.unary(), word, False)
        if word == "(" and (kind := kind_of(self.words[self.at + 1 : self.partner.get(self.at, self.at)])):
            self.at = self.partner[self.at] + 1
            value = self.unary()
            return self.cast(value, kind)
        value = self._primary()
        while self.peek() in ("++", "--"):
            self.at += 1
            value = self._moved(value, self.words[self.at - 1], True)
        return value

    @staticmethod
    def _signed(sign: str, value: Text) -> Text:
        if sign == "!":
            return Text(f"(not {value.text})", INT, True)
        if sign == "+":
            return Text(value.text, value.kind, value.positive)
        kind = value.kind if value.kind.real or value.kind.bits >= 32 else INT
        if kind.real and sign == "~":
            raise Untranslatable
        text = f"({sign}{value.text})"
        return Text(
            text if kind.real or kind.signed else f"({text} & {kind.mask})", kind, not (kind.real or kind.signed)
        )

    def _moved(self, value: Text, sign: str, after: bool) -> Text:
        if not value.place:
            raise Untranslatable
        if "[" in value.place:
            kept = self._before("kept", value.place)
            self.emit(f"{value.place} = {self._stored(value, sign[0] + '=', Text('1', value.kind, True))}")
            return Text(kept if after else value.place, value.kind)
        moved = f"({value.place} := {self._stored(value, sign[0] + '=', Text('1', value.kind, True))})"
        back = "-" if sign == "++" else "+"
        return Text(f"({moved} {back} 1)" if after else moved, value.kind, value.positive and sign == "++")

    def _primary(self) -> Text:
        word = self.peek()
        if word == "(":
            close = self.partner.get(self.at, len(self.words))
            self.at += 1
            value = self.value()
            if self.at != close:
                raise Untranslatable
            self.at += 1
            return replace(value, text=f"({value.text})", place="")
        self.at += 1
        if re.match(r"\.?\d", word):
            return self._number(word)
        if word in ("true", "false"):
            return Text(str(int(word == "true")), INT, True)
        if word == "std" and self.take("::"):
            word = self.peek()
            self.at += 1
        if word in CASTS and self.take("<"):
            close = self.words.index(">", self.at)
            kind = kind_of(self.words[self.at : close])
            self.at = close + 1
            if kind is None or self.peek() != "(":
                raise Untranslatable
            return self.cast(self._primary(), kind)
        if self.peek() == "(":
            return self._call(word)
        return self._named(word)

    @staticmethod
    def _number(word: str) -> Text:
        value = number(word)
        if not isinstance(value, int | float):
            raise Untranslatable
        if isinstance(value, float):
            return Text(repr(value), REAL, True)
        letters = word.lower().lstrip("0123456789'") if not word.lower().startswith("0x") else word.lower()[2:]
        kind = Kind(64 if "l" in letters or value >> 32 else 32, "u" not in letters)
        return Text(str(value), kind, True)

    def _call(self, name: str) -> Text:
        kind = KINDS.get(name)
        self.need("(")
        values = []
        while self.peek() not in (")", ""):
            values.append(self.value())
            self.take(",")
        self.need(")")
        if kind is not None and len(values) == 1:
            return self.cast(values[0], kind)
        if name in ("rand", "random") and not values:
            return Text("_rand()", INT, True)
        if name not in FUNCTIONS or not values:
            raise Untranslatable
        common = functools.reduce(lambda a, b: Text("", self.common(a, b)), values).kind if name in WHOLE else REAL
        positive = all(one.positive for one in values) or name in ("abs", "fabs", "exp", "sqrt")
        return Text(f"_f_{name}({', '.join(one.text for one in values)})", common, positive)

    def _named(self, name: str) -> Text:
        while (
            self.peek() in (".", "->")
            and self.peek(2) != "("
            and isinstance(self.outer(f"{name}.{self.peek(1)}"), Array)
        ):
            name = f"{name}.{self.peek(1)}"
            self.at += 2
        if name == "RAND_MAX":
            return Text(str(RAND_MAX), INT, True)
        held = self.name(name)
        if isinstance(held, Text):
            return held
        if isinstance(held, Scalar):
            positive = held.sure and name not in self._written and held.value >= 0
            return Text(f"s_{name}", held.kind, positive or held.kind.unsigned, f"s_{name}")
        if self.take("["):
            index = self.value()
            self.need("]")
            if index.kind.real:
                raise Untranslatable
            at = self._before("index", index.text) if ":=" in index.text else index.text
            place = f"{array_of(name)}[{at}]"
            self.uses[name] += 1
            return Text(place, held.kind, held.kind.unsigned, place)
        if self.take("."):
            return self._member(name, held)
        raise Untranslatable

    def _member(self, name: str, held: Array) -> Text:
        method = self.peek()
        self.at += 1
        self.need("(")
        self.need(")")
        if method in ("size", "length"):
            return Text(f"len({array_of(name)})", SIZE, True)
        if method in ("back", "front"):
            self.uses[name] += 1
            place = f"{array_of(name)}[{-1 if method == 'back' else 0}]"
            return Text(place, held.kind, False, place)
        raise Untranslatable

    @functools.cached_property
    def _written(self) -> set[str]:
        return {word for word in set(self.words) if self.assigned(self.words, word)}

    def name(self, name: str) -> Text | Scalar | Array:
        for scope in reversed(self.locals):
            if name in scope:
                return scope[name]
        if not re.match(r"[A-Za-z_][\w.]*$", name):
            raise Untranslatable
        found = self.scalars.get(name) or self.arrays.get(name) or self.outer(name)
        if isinstance(found, Scalar):
            self.scalars[name] = found
        elif isinstance(found, Array):
            self.arrays[name] = found
        else:
            raise Untranslatable
        return found

    @staticmethod
    def assigned(body: Sequence[str], name: str) -> bool:
        moved = ("++", "--")
        return any(
            word == name and ({*body[i + 1 : i + 2]} & {*ASSIGNS, *moved} or {*body[max(0, i - 1) : i]} & {*moved})
            for i, word in enumerate(body)
        )
