"""Evaluates the host code of a HIP program as far as its kernel launches need: sizes, launch shapes, arguments.

Not a compiler: declarations, assignments, branches and calls are followed, loops only if they launch kernels; what the
program reads or computes element by element is not known.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hipsynth.profiling.preview import calls, options
from hipsynth.profiling.preview.declarations import Declarations, find_declarations
from hipsynth.profiling.preview.expressions import TYPE_WORDS, Scope, TooMuch, value_of
from hipsynth.profiling.preview.launching import HostLaunch
from hipsynth.profiling.preview.noting import DECLARED, Noting
from hipsynth.profiling.preview.statements import GROWING, Statements
from hipsynth.profiling.preview.tokens import Preprocessor, arguments
from hipsynth.profiling.preview.values import (
    SIZES,
    UNKNOWN,
    Alias,
    Class,
    Dim,
    Function,
    GuessedType,
    HostAllocation,
    Object,
    Vector,
    binary,
    known,
    laid_out,
    unqualified,
)

MOST_DEPTH = 24
OF_SIZE = {1: "char", 2: "short", 4: "float", 8: "double", 12: "float3", 16: "float4", 32: "double4"}


class Host(Noting):
    """Follows a program from main()."""

    def __init__(self, words: list[str], given: Sequence[str], properties: Mapping[str, int]) -> None:
        super().__init__(words)
        self.given, self.properties = list(given), properties
        self.found: Declarations = find_declarations(self)
        self.launchers, self.constant = self.found.launchers, self.found.kernels
        self.template_parameters = self.found.template_parameters
        self.getopt = options.Getopt(self.given)
        self.argv = Vector(1 + len(self.given), 8, ["program", *self.given])
        self.depth = 0

    def run(self) -> None:
        """Evaluates the globals, then main(); without main(), every host function that launches a kernel."""
        try:
            for start, end in self.found.globals:
                self.at = start
                self.statement(end)
            entry = self.found.functions.get("main")
            if entry:
                values = [1 + len(self.given), self.argv]
                self.call(entry[0], values[: len(entry[0].parameters)])
        except (TooMuch, RecursionError, IndexError):
            pass

    # --- declarations

    def alias(self) -> None:
        start = self.at
        while self.peek() not in (";", ""):
            self.at += 1
        words = self.words[start + 1 : self.at]
        if "=" in words:
            self.scopes[-1][words[0]] = words[words.index("=") + 1 :]
        elif words and self.words[start] == "typedef":
            self.scopes[-1][words[-1]] = words[:-1]
        self.at += 1

    def _type(self, end: int) -> list[str] | None:
        """The type that begins here, if what follows it is a declared name."""
        start = self.at
        while self.at < end:
            word = self.peek()
            if word in TYPE_WORDS or word in ("static", "thread_local", "__shared__", "__constant__", "__device__"):
                self.at += 1
                continue
            break
        plain = [w for w in self.words[start : self.at] if w not in ("const", "static", "constexpr", "volatile")]
        if not plain or plain in (["struct"], ["typename"]):
            if not re.match(r"[A-Za-z_]", self.peek()):
                return None
            self.at += 1
            while self.peek() == "::":
                self.at += 2
        if self.peek() == "<":
            stop = self.angle_end(self.at)
            if stop is None:
                return None
            self.at = stop
            while self.peek() == "::":
                self.at += 2
        while self.peek() in ("*", "&", "&&", "const", "__restrict__"):
            self.at += 1
        name, after = self.peek(), self.peek(1)
        if name == "[" and "auto" in plain:
            return self.words[start : self.at]
        good = re.match(r"[A-Za-z_]\w*$", name) and after in ("=", "(", "{", ";", ",", "[", ":", ")")
        return self.words[start : self.at] if good and name not in SIZES else None

    def _enum(self, end: int) -> bool:
        while self.at < end and self.peek() not in ("{", ";"):
            self.at += 1
        value: Any = -1
        for part in arguments(self.words, self.at)[0] if self.peek() == "{" else []:
            value = self.evaluate(part[2:], {}) if part[1:2] == ["="] else binary("+", value, 1)
            self.introduce(part[0], value)
        self.to_semicolon(end)
        return True

    def declaration(self, end: int) -> bool:
        start = self.at
        if self.peek() == "enum":
            return self._enum(end)
        kind = self._type(end)
        if not kind or kind[0] in ("delete", "return", "throw", "else"):
            self.at = start
            return False
        while self.at < end:
            while self.peek() in ("*", "&"):
                kind = [*kind, self.peek()]
                self.at += 1
            name = self.peek()
            self.at += 1
            self.introduce(name, self._initial(kind, name))
            self.scopes[-1][name + DECLARED] = kind
            self.fills.forget((id(self.scopes[-1]), name))
            if not self.take(","):
                break
        self.to_semicolon(end)
        return True

    def introduce(self, name: str, value: Any) -> None:
        """Gives a name its value in this scope; a global one that two namespaces give different values is not known."""
        held = self.scopes[-1].get(name)
        differ = len(self.scopes) == 1 and known(held, value) and held != value
        self.scopes[-1][name] = UNKNOWN if differ else value

    def _initial(self, kind: list[str], name: str) -> Any:
        word = self.peek()
        pointer = "*" in kind
        base = unqualified([w for w in kind if w not in ("const", "static", "constexpr", "auto", "*", "&", "volatile")])
        if word == "[":
            return self._array(base)
        if word == "=":
            self.at += 1
            start = self.at
            value = self.assignment()
            if "&" in kind and self.at == start + 1 and re.match(r"[A-Za-z_]\w*$", self.words[start]):
                return self.place(self.words[start]) or value
            if isinstance(value, Vector) and value.items is not None and not pointer:
                return self.construct(base, value.items) if base else value
            return calls.converted(base, value) if not pointer else value
        if word in ("(", "{"):
            values = self.call_arguments()
            if word == "{" and base[:1] == ["vector"] and values and known(*values):
                return Vector(len(values), self.construct(base, [0]).element, values)
            return values[0] if pointer and values else self.construct(base, values)
        if pointer or (base and base[0] in SIZES):
            return UNKNOWN
        return self.construct(base, [])

    def _array(self, base: list[str]) -> Any:
        length: Any = 1
        while self.peek() == "[":
            close = self.partner.get(self.at, self.at)
            self.at += 1
            length = UNKNOWN if self.at == close or not known(length) else length * self._known(self.expression())
            self.at = close + 1
        items = None
        if self.take("="):
            given = self.assignment()
            items = given.items if isinstance(given, Vector) else None
            length = len(items) if items and not known(length) else length
        size = self.size_of(base) if base else 4
        return Vector(length, size if known(size) else 4, items)

    @staticmethod
    def _known(value: Any) -> Any:
        return value if known(value) else 0

    def construct(self, base: list[str], values: list[Any]) -> Any:
        """A value of a type, made from values: a number, dim3, container, or object of a class of the program."""
        name = base[0] if base else ""
        alias = self.lookup(name) if name else UNKNOWN
        if isinstance(alias, list) and alias and alias != base:
            return self.construct(unqualified([w for w in alias if w != "const"]), values)
        if name == "dim3":
            return values[0] if values and isinstance(values[0], Dim) else Dim(*values[:3])
        if name in ("vector", "array", "unique_ptr", "valarray", "device_vector", "host_vector"):
            size = self.size_of(base[2:-1]) if len(base) > 3 else 4
            length = values[0] if values else 0
            if isinstance(length, Vector):
                return length
            fill = values[1] if len(values) > 1 and known(values[1]) else 0
            return Vector(length, size if known(size) else 4, fill=fill)
        if name in self.found.classes:
            return self.make_object(self.found.classes[name], base, values)
        return calls.converted(base, values[0]) if values else (0 if name in SIZES else UNKNOWN)

    def make_object(self, of: Class, base: list[str], values: list[Any]) -> Object:
        made = Object(of)
        given = self.template_values(base[2:-1]) if len(base) > 3 and base[1] == "<" else []
        made.fields.update(zip(of.template, given, strict=False))
        for name, kind, initial in of.fields:
            made.layout.append((name, *self.extent(kind, made.fields)))
            made.fields[name] = 0 if "*" in kind else self._member_value(kind, [], made.fields)
            if initial:
                made.fields[name] = self.evaluate(initial, made.fields)
        makers = [m for m in of.methods.get(of.name, []) if len(m.parameters) == len(values)]
        if makers:
            self.call(makers[0], values, made)
        elif values:
            for (name, kind, _), value in zip(of.fields, values, strict=False):
                made.fields[name] = member_value(kind, value)
        return made

    def _member_value(self, kind: list[str], values: list[Any], scope: Scope) -> Any:
        """A member of a type as its initialiser makes it."""
        base = unqualified([w for w in kind if w not in ("const", "volatile", "struct")])
        if "*" in kind:
            return values[0] if values else 0
        self.scopes.append(scope)
        made = UNKNOWN if not base or (not values and base[0] in SIZES) else self.construct(base, values)
        self.scopes.pop()
        return made

    def extent(self, kind: list[str], scope: Scope) -> tuple[int, int]:
        """The bytes of an element of a member, and how many elements it has; 0 bytes if that is not known."""
        array = kind.index("[") if "[" in kind else len(kind)
        self.scopes.append(scope)
        size = 8 if "*" in kind[:array] else self.size_of([w for w in kind[:array] if w != "const"])
        self.scopes.pop()
        length: Any = 1
        for part in " ".join(kind[array:]).split("]"):
            if part.strip(" ["):
                length = binary("*", length, self.evaluate(part.strip(" [").split(), scope))
        plain = unqualified([w for w in kind[:array] if w not in ("const", "struct")])
        if known(size) and "*" not in kind and plain[0] in self.found.classes:
            size, parts = self._parts(plain[0])
            length = binary("*", length, parts)
        return (int(size), int(length)) if known(size, length) else (0, 1)

    def size_of(self, words: Sequence[str]) -> Any:
        size = super().size_of(words)
        plain = unqualified([w for w in words if w not in ("const", "struct")])
        if known(size) or not plain or plain[0] not in self.found.classes:
            return size
        part, parts = self._parts(plain[0])
        return part * parts or UNKNOWN

    def _parts(self, name: str) -> tuple[int, int]:
        """The bytes of an object of a class as (alignment, number of parts of it); zeros if they are not known."""
        sizes = [self.extent(kind, {}) for _, kind, _ in self.found.classes[name].fields]
        if not sizes or not all(one for one, _ in sizes):
            return 0, 0
        widest = max(min(16, one & -one) for one, _ in sizes)
        return widest, laid_out(sizes)[1] // widest

    def evaluate(self, words: list[str], scope: Scope) -> Any:
        inner = Host.__new__(Host)
        Statements.__init__(inner, words)
        inner.given, inner.properties, inner.found = self.given, self.properties, self.found
        inner.launches, inner.unknown_shapes, inner.getopt, inner.argv = [], [], self.getopt, self.argv
        inner.depth, inner.this = self.depth, self.this
        inner.fills, inner.kept, inner.quiet = self.fills, self.kept, self.quiet
        inner.scopes = [*self.scopes, scope]
        return inner.assignment()

    # --- calls

    def is_class(self, name: str) -> bool:
        return name in self.found.classes or super().is_class(name)

    def called(self, name: str, given: list[str]) -> Any:
        if name == "hipLaunchKernelGGL":
            return self._launch_call()
        start = self.at
        values = self.call_arguments()
        places = self.places
        if name in ("dim3", "make_uint3", "make_int3") or name in self.found.classes or name == "vector":
            return self.construct([name, *(["<", *given, ">"] if given else [])], values)
        held = self.lookup(name)
        if isinstance(held, Function):
            return self.call(held, values)
        if self.this is not None and name in self.this.of.methods:
            options.declare(self.this, values, self.given)
            return self.call(fitting(self.this.of.methods[name], values), values, self.this, places=places)
        if name == "swap" and len(values) == 2:
            return self._swap(self.words[start + 1], self.words[start + 3], values)
        if name in self.found.functions:
            return self.call(fitting(self.found.functions[name], values), values, given=given, places=places)
        if name in SIZES or isinstance(held, list):
            return calls.converted([name] if name in SIZES else held, values[0]) if values else 0
        return calls.library(self, name, values, given, self.words[start : self.at])

    def _swap(self, a: str, b: str, values: list[Any]) -> Any:
        for name, value in ((a, values[1]), (b, values[0])):
            if name in self.home(name):
                self.home(name)[name] = value
        return UNKNOWN

    def made(self, kind: list[str], values: list[Any]) -> Any:
        base = unqualified(kind)
        return self.construct(base, values) if base and base[0] in self.found.classes else UNKNOWN

    def call(
        self,
        function: Any,
        values: list[Any],
        on: Object | None = None,
        given: Sequence[str] = (),
        places: Sequence[Alias | None] = (),
    ) -> Any:
        if not isinstance(function, Function) or self.depth >= MOST_DEPTH:
            return UNKNOWN
        scope: Scope = self._deduced(function, values)
        scope.update(zip(function.template, self.template_values(given), strict=False))
        self._bind(function, scope, values, places)
        if on:
            scope["this"] = on
        saved = self.at, self.scopes, self.returned, self.this, self.leaving
        self.scopes = [
            self.scopes[0],
            *([on.fields] if on else []),
            *([function.scope] if function.scope else []),
            scope,
        ]
        self.depth += 1
        self.returned, self.this, self.leaving = None, on or self.this, ""
        if on:
            kinds = {name: kind for name, kind, _ in on.of.fields}
            for name, words in function.initial:
                given_values = [self.evaluate(part, scope) for part in arguments(["(", *words, ")"], 0)[0]]
                on.fields[name] = self._member_value(kinds.get(name, ["auto"]), given_values, on.fields)
        self.at = function.body[0]
        self.block()
        result = UNKNOWN if self.returned is None else self.returned
        self.at, self.scopes, self.returned, self.this, self.leaving = saved
        self.depth -= 1
        return result

    def _bind(self, function: Function, scope: Scope, values: list[Any], places: Sequence[Alias | None]) -> None:
        """Gives parameters their values; reference parameters are other names of what was passed."""
        for i, words in enumerate(function.parameters):
            name = next((w for w in reversed(words) if re.match(r"[A-Za-z_]\w*$", w)), "")
            place = places[i] if i < len(places) and "&" in words and "const" not in words else None
            scope[name + DECLARED] = words[: words.index(name)] if name in words else words
            if i < len(values):
                scope[name] = values[i] if place is None else place
            elif i < len(function.defaults) and function.defaults[i]:
                scope[name] = self.evaluate(function.defaults[i], scope)

    @staticmethod
    def _deduced(function: Function, values: list[Any]) -> Scope:
        """Types that template parameters have because of the containers that are passed: some type of that size."""
        found: Scope = {}
        for words, value in zip(function.parameters, values, strict=False):
            for name in set(function.template) & set(words):
                if isinstance(value, Vector) and value.element in OF_SIZE:
                    found[name] = GuessedType([OF_SIZE[value.element]])
        return found

    def member(self, value: Any, name: str) -> Any:
        if isinstance(value, str) and self.peek() == "(":
            return calls.of_text(value, name, self.call_arguments())
        if isinstance(value, Dim) and name in ("x", "y", "z"):
            return getattr(value, name)
        if isinstance(value, Object):
            if self.peek() == "(":
                values = self.call_arguments()
                read = options.option(value, values)
                if read is not UNKNOWN:
                    return read
                places = self.places
                if value.options and any(v is self.argv for v in values):
                    return UNKNOWN  # it parses the command line, which the options already follow
                options.declare(value, values, self.given)
                if name not in value.of.methods:
                    held = value.fields.get(name, UNKNOWN)
                    return self.call(held, values) if isinstance(held, Function) else UNKNOWN
                return self.call(fitting(value.of.methods[name], values), values, value, places=places)
            return value.fields.get(name, UNKNOWN)
        if isinstance(value, Vector) and self.peek() == "(":
            values = self.call_arguments()
            if name in GROWING:
                value.length, value.items = binary("+", value.length, 1), None
            elif name == "insert":
                value.length, value.items = UNKNOWN, None
            elif name == "get" and value.items and isinstance(value.items[0], HostAllocation):
                return value.items[0]  # a smart pointer in braces: {pointer, deleter}
            if name in ("resize", "assign", "reserve") and values and name != "reserve":
                value.length = values[0]
            return {"size": value.length, "length": value.length}.get(name, value)
        if self.peek() == "(":
            self.call_arguments()
            if isinstance(value, HostAllocation) and name in ("get", "data", "release"):
                return value
        return self.properties.get(name, UNKNOWN)

    def lambda_(self) -> Any:
        self.skip()
        parameters: list[list[str]] = []
        if self.peek() == "(":
            parameters, _ = arguments(self.words, self.at)
            self.skip()
        while self.peek() not in ("{", ";", ""):
            self.at += 1
        body = (self.at, self.partner.get(self.at, self.at))
        self.skip()
        merged: Scope = {}
        for scope in self.scopes[1:]:
            merged.update(scope)
        return Function("lambda", parameters, body, merged)


def fitting(functions: Sequence[Function], values: Sequence[Any]) -> Function:
    """The overload with as many parameters as there are values, else the first."""
    return next((f for f in functions if len(f.parameters) == len(values)), functions[0])


def member_value(kind: list[str], value: Any) -> Any:
    """A number, or the numbers of an array, as a member of a type has them."""
    base = [w for w in kind[: kind.index("[") if "[" in kind else None] if w != "const"]
    if "[" in kind and isinstance(value, Vector) and value.items is not None:
        return Vector(value.length, value.element, [calls.converted(base, item) for item in value.items])
    return value if "*" in kind else calls.converted(base, value)


def host_launches(
    text: str,
    given: Sequence[str] = (),
    properties: Mapping[str, int] | None = None,
    defines: Mapping[str, str] | None = None,
) -> tuple[list[HostLaunch], list[str]]:
    """The launches of a program that is run with arguments `given` on a device with these `properties`, in order and
    without those that only repeat a shape, and the kernels whose launch shapes are not known."""
    host = Host(Preprocessor(value_of, defines).run(text), given, properties or {})
    host.run()
    first: dict[tuple[Any, ...], HostLaunch] = {}
    for launch in host.launches:
        first.setdefault((*launch.shape, tuple(v for v in launch.arguments if known(v))), launch)
    return list(first.values()), host.unknown_shapes
