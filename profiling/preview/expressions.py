"""Evaluates C++ expressions of host code; what is not known, or not understood, is UNKNOWN."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from hipsynth.profiling.preview.tokens import Cursor
from hipsynth.profiling.preview.values import (
    BINARY,
    FLOATS,
    SIZES,
    UNKNOWN,
    Alias,
    Dim,
    Function,
    HostAllocation,
    Object,
    Reference,
    Unknown,
    Vector,
    binary,
    known,
    whole,
)

LEVELS = [["||"], ["&&"], ["|"], ["^"], ["&"], ["==", "!="], ["<", ">", "<=", ">="], ["<<", ">>"], ["+", "-"]]
LEVELS += [["*", "/", "%"]]
ASSIGNS = {"=", "+=", "-=", "*=", "/=", "%=", "<<=", ">>=", "&=", "|=", "^="}
CASTS = {"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast"}
TYPE_WORDS = {"const", "volatile", "unsigned", "signed", "struct", "typename", "long", "int", "short", "char", "double"}
TYPE_WORDS |= {"float", "bool", "void", "auto", "constexpr", "static", "inline"}
Scope = dict[str, Any]


class TooMuch(Exception):
    """The host code does more than is worth evaluating."""


def number(text: str) -> Any:
    """The value of a C++ number."""
    plain = text.replace("'", "").lower()
    digits = re.match(r"0x[0-9a-f]+|0b[01]+|\d+(?=[ulz]*$)", plain)
    if digits and re.fullmatch(r"[ulz]*", plain[digits.end() :]):
        octal = len(digits.group()) > 1 and digits.group()[0] == "0" and digits.group().isdigit()
        return int(digits.group(), 8 if octal else 0) if set(digits.group()) - {"0"} else 0
    match = re.match(r"\d*\.?\d*(?:e[-+]?\d+)?", plain)
    return float(match.group()) if match and match.group().strip(".") else UNKNOWN


class Expressions(Cursor):
    """Evaluates expressions over `words`, starting at `at`. Subclasses call functions of the program."""

    MOST_STEPS = 40_000

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.steps = 0
        self.places: list[Alias | None] = []  # of the arguments of the call that was read last
        self.scopes: list[Scope] = [{}]  # innermost last; the first is global

    # --- positions

    def skip(self) -> None:
        """Past the bracket at the current position and its partner."""
        self.at = self.partner.get(self.at, self.at) + 1

    def angle_end(self, at: int) -> int | None:
        """The position after the template arguments that begin at `at`, or None if these are none."""
        depth, i = 0, at
        while i < min(len(self.words), at + 200):
            word = self.words[i]
            if word == "<":
                depth += 1
            elif word in (">", ">>", ">>>"):
                depth -= len(word)
                if depth <= 0:
                    return i + 1 if depth == 0 else None
            elif word in (";", "{", "&&", "||", "<<<") or (word in ")]}" and len(word) == 1):
                return None
            i = self.partner.get(i, i) + 1 if word in ("(", "[") else i + 1
        return None

    # --- names

    def lookup(self, name: str) -> Any:
        for scope in reversed(self.scopes):
            if name in scope:
                value = scope[name]
                return value.get() if isinstance(value, Alias) else value
        return UNKNOWN

    def home(self, name: str) -> Scope:
        return next((scope for scope in reversed(self.scopes) if name in scope), self.scopes[-1])

    def place(self, name: str) -> Alias | None:
        """Where the value of a name is kept; None if it has none."""
        held = self.home(name).get(name)
        if isinstance(held, Alias):
            return held
        return None if held is None else Alias(self.home(name), name)

    def store(self, name: str, value: Any) -> None:
        held = self.home(name).get(name)
        if isinstance(held, Alias):
            held.set(value)
        else:
            self.home(name)[name] = value

    # --- levels

    def expression(self) -> Any:
        """An expression with commas: the value of the last part."""
        value = self.assignment()
        while self.take(","):
            value = self.assignment()
        return value

    def assignment(self) -> Any:
        self.steps += 1
        if self.steps > self.MOST_STEPS:
            raise TooMuch
        start = self.at
        value = self.ternary()
        sign = self.peek()
        if sign not in ASSIGNS:
            return value
        self.at += 1
        right = self.assignment()
        value = right if sign == "=" else binary(sign[:-1], value, right)
        self.assign(self.words[start : self.at], value)
        return value

    def assign(self, target: Sequence[str], value: Any) -> None:
        words = [w for w in target[: next(i for i, w in enumerate(target) if w in ASSIGNS)] if w not in ("*", "(", ")")]
        if len(words) == 1:
            home = self.home(words[0])
            held = home.get(words[0])
            if isinstance(held, Reference):
                held.set(value)
            else:
                home[words[0]] = value
        elif len(words) >= 3 and len(words) % 2 and {*words[1::2]} <= {".", "->"}:
            held = self.lookup(words[0])
            for name in words[2:-1:2]:
                held = held.fields.get(name, UNKNOWN) if isinstance(held, Object) else UNKNOWN
            words = [words[0], ".", words[-1]]
            if isinstance(held, Dim) and words[2] in ("x", "y", "z"):
                self.home(words[0])[words[0]] = Dim(**{**held.__dict__, words[2]: value})
            elif isinstance(held, Object):
                held.fields[words[2]] = value

    def ternary(self) -> Any:
        condition = self.binary_level(0)
        if not self.take("?"):
            return condition
        first = self.assignment()
        self.take(":")
        second = self.assignment()
        if known(condition):
            return first if condition else second
        return first if repr(first) == repr(second) else UNKNOWN

    def binary_level(self, level: int) -> Any:
        if level == len(LEVELS):
            return self.unary()
        value = self.binary_level(level + 1)
        while self.peek() in LEVELS[level]:
            sign = self.words[self.at]
            self.at += 1
            right = self.binary_level(level + 1)
            if sign in ("&&", "||"):
                value = self._logical(sign, value, right)
            else:
                value = binary(sign, value, right) if sign in BINARY else UNKNOWN
        return value

    @staticmethod
    def _logical(sign: str, a: Any, b: Any) -> Any:
        decides = [value for value in (a, b) if known(value) and bool(value) == (sign == "||")]
        if decides:
            return int(sign == "||")
        return int(sign == "&&") if known(a, b) else UNKNOWN

    def unary(self) -> Any:
        word = self.peek()
        if word in ("-", "+", "!", "~", "++", "--", "*", "&"):
            self.at += 1
            return self._signed(word)
        if word == "sizeof":
            return self._sizeof()
        if word == "(" and (end := self._cast_end()) is not None:
            self.at = end
            return self.unary()
        return self.postfix(self.primary())

    def _signed(self, sign: str) -> Any:
        start = self.at
        value = self.unary()
        if sign == "&":
            name = self.words[start]
            held = self.home(name).get(name)
            if isinstance(held, Object) and self.words[start + 1 : start + 2] in (
                ["."],
                ["->"],
            ):
                return Reference(held.fields, self.words[start + 2])
            if isinstance(held, Alias):
                return Reference(held.scope, held.name)
            return Reference(self.home(name), name) if re.match(r"[A-Za-z_]\w*$", name) else UNKNOWN
        if sign == "*":
            return value.get() if isinstance(value, Reference) else value if isinstance(value, Object) else UNKNOWN
        if sign in ("++", "--"):
            value = binary(sign[0], value, 1)
            if self.words[start + 1 : start + 2] not in (["["], ["."], ["->"]):
                self.store(self.words[start], value)
            return value
        if not known(value):
            return UNKNOWN
        if sign == "~":
            return ~value if isinstance(value, int) else UNKNOWN
        return int(not value) if sign == "!" else -value if sign == "-" else value

    def _cast_end(self) -> int | None:
        """The position after a C cast that begins here."""
        end = self.partner.get(self.at, self.at)
        inside = self.words[self.at + 1 : end]
        after = self.words[end + 1] if end + 1 < len(self.words) else ""
        if not inside or not re.match(r"[\w(\"'.!~*&-]", after) or not self.is_type(inside):
            return None
        return end + 1

    def is_type(self, words: Sequence[str]) -> bool:
        plain = [w for w in words if w not in ("*", "&", "const", "::", "std")]
        return bool(plain) and (
            all(w in TYPE_WORDS or w in SIZES for w in plain)
            or (words[-1] == "*" and all(re.match(r"\w+$", w) for w in plain) and self.lookup(plain[0]) is UNKNOWN)
        )

    def _sizeof(self) -> Any:
        self.at += 1
        if self.peek() != "(":
            return self.size_of([self.words[self.at]])
        end = self.partner.get(self.at, self.at)
        inside = self.words[self.at + 1 : end]
        self.skip()
        return self.size_of(inside)

    def size_of(self, words: Sequence[str]) -> Any:
        """The bytes of a type, or of the elements of a container that `words` names."""
        if "*" in words[1:] and not any(isinstance(self.lookup(w), Vector) for w in words):
            return 8
        text = "".join(w for w in words if w not in ("const", "typename", "struct", "std", "::"))
        for name in (text, words[-1]):
            if name in SIZES:
                return SIZES[name]
        if text.startswith(("unsigned", "signed", "long")):
            kind = text.removeprefix("unsigned").removeprefix("signed")
            return 8 if "long" in kind else SIZES.get(kind, 4)
        held = self.lookup(words[0])
        if isinstance(held, list) and all(isinstance(w, str) for w in held):  # a template parameter or alias
            return self.size_of(held)
        if isinstance(held, Vector):
            return held.element if len(words) > 1 else binary("*", held.length, held.element)
        return SIZES.get("float") if isinstance(held, float) else UNKNOWN

    def postfix(self, value: Any) -> Any:
        while True:
            word = self.peek()
            if word in ("++", "--"):
                name = self.words[self.at - 1]
                self.at += 1
                if known(value):
                    self.store(name, binary(word[0], value, 1))
            elif word in (".", "->"):
                self.at += 2
                name = self.words[self.at - 1] if self.at <= len(self.words) else ""
                self._pass_template()
                value = value.get() if isinstance(value, Reference) else value
                value = self.member(value, name)
            elif word == "[":
                end = self.partner.get(self.at, self.at)
                self.at += 1
                value = self.element(value, self.expression())
                self.at = end + 1
            elif word == "(" and isinstance(value, Function | Object):
                value = self.call(value, self.call_arguments())
            else:
                return value

    def element(self, value: Any, index: Any) -> Any:
        if isinstance(value, Vector) and value.items and isinstance(index, int) and 0 <= index < len(value.items):
            return value.items[int(index)]
        if isinstance(value, str) and isinstance(index, int) and 0 <= index <= len(value):
            return ord(value[index]) if index < len(value) else 0
        return UNKNOWN

    def call_arguments(self) -> list[Any]:
        """The values between the bracket here and its partner; `places`: where those are kept that are names."""
        end = self.partner.get(self.at, self.at)
        self.at += 1
        values: list[Any] = []
        places: list[Alias | None] = []
        while self.at < end:
            start = self.at
            values.append(self.assignment())
            places.append(self.place(self.words[start]) if self.at == start + 1 else None)
            if not self.take(","):
                break
        self.at, self.places = end + 1, places
        return values

    def primary(self) -> Any:
        word = self.peek()
        if word == "(":
            end = self.partner.get(self.at, self.at)
            self.at += 1
            value = self.expression()
            self.at = end + 1
            return value
        if word == "{":
            values = self.call_arguments()
            return Vector(len(values), 4, values)
        if word == "[":
            return self.lambda_()
        self.at += 1
        if re.match(r"\.?\d", word):
            return number(word)
        if word[:1] == "'" and len(word) == 3:
            return ord(word[1])
        if word[:1] == '"':
            return self._text(word)
        if word[:1] in "'" or word in ("", ";", ")", "}"):
            self.at -= word in (";", ")", "}")
            return UNKNOWN
        return self.named(word)

    def _text(self, word: str) -> str:
        """The text in quotes here, with those that follow it."""
        text = word[1:-1]
        while self.peek()[:1] == '"':
            text += self.peek()[1:-1]
            self.at += 1
        return text

    def _pass_template(self) -> None:
        """Past the template arguments of a method that is called, which are between its name and `(`."""
        if self.peek() == "<":
            end = self.angle_end(self.at)
            if end is not None and self.words[end : end + 1] == ["("]:
                self.at = end

    def qualified(self, word: str) -> str:
        """The last part of a qualified name that begins with `word`; `std::numeric_limits<int>::max` included."""
        while self.peek() == "::" and self.at + 1 < len(self.words):
            self.at += 2
            word = self.words[self.at - 1]
        return word

    def named(self, word: str) -> Any:
        name = self.qualified(word)
        if name in ("true", "false", "nullptr", "hipSuccess"):
            return int(name == "true")
        if name == "new":
            return self._new()
        given: list[str] = []
        if self.peek() == "<" and (name in CASTS or not known(self.lookup(name))):
            end = self.angle_end(self.at)
            if end is not None:
                given = self.words[self.at + 1 : end - 1]
                self.at = end
                name = self.qualified(name)
        if name in CASTS:
            return self._converted(given)
        if self.peek() == "<<<":
            return self.launch(name, given)
        if self.peek() in ("(", "{") and (self.peek() == "(" or name in SIZES or self.is_class(name)):
            return self.called(name, given)
        return self.lookup(name)

    def _converted(self, given: list[str]) -> Any:
        values = self.call_arguments()
        value = values[-1] if values else UNKNOWN
        if "*" in given or not isinstance(value, int | float):
            return value
        return float(value) if FLOATS & set(given) else whole(value)

    def _new(self) -> Any:
        start = self.at
        while self.peek() not in ("[", "(", ";", "{", ""):
            self.at += 1
        kind = self.words[start : self.at]
        if self.peek() != "[":
            return self.made(kind, self.call_arguments() if self.peek() in ("(", "{") else [])
        end = self.partner.get(self.at, self.at)
        self.at += 1
        length = self.expression()
        self.at = end + 1
        size = self.size_of(kind)
        return Vector(length, size if known(size) else 4)

    # --- what a program adds

    def evaluate(self, words: list[str], scope: Scope) -> Any:
        """The value of an expression, with the names of `scope` as well."""
        return UNKNOWN

    def is_class(self, name: str) -> bool:
        """Whether values of this type may be made with braces."""
        return name == "dim3"

    def made(self, kind: list[str], values: list[Any]) -> Any:
        """`new kind(values)`."""
        return UNKNOWN

    def called(self, name: str, given: list[str]) -> Any:
        self.call_arguments()
        return UNKNOWN

    def call(self, function: Any, values: list[Any]) -> Any:
        return UNKNOWN

    def member(self, value: Any, name: str) -> Any:
        return UNKNOWN

    def launch(self, name: str, given: list[str]) -> Any:
        return UNKNOWN

    def lambda_(self) -> Any:
        self.skip()
        return UNKNOWN


def value_of(words: list[str]) -> Any:
    """The value of an expression in which every name is 0, as in #if."""

    class Directive(Expressions):
        def named(self, word: str) -> Any:
            return int(word == "true")

    try:
        value = Directive(words).expression()
    except (TooMuch, RecursionError, IndexError):
        return 0
    return 0 if isinstance(value, Unknown | HostAllocation) else value
