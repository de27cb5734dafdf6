"""Records the kernel launches that host code makes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hipsynth.profiling.preview import calls
from hipsynth.profiling.preview.contents.fills import Bytes, Fills
from hipsynth.profiling.preview.statements import Statements
from hipsynth.profiling.preview.tokens import arguments
from hipsynth.profiling.preview.values import (
    UNKNOWN,
    Function,
    GuessedType,
    HostAllocation,
    Object,
    Reference,
    TemplateParameters,
    Vector,
    known,
    whole,
)

MOST_LAUNCHES = 256
UNTOLD = "?"  # a template argument that the host code does not tell


@dataclass(frozen=True)
class HostLaunch:
    """A launch as far as it is known: grid in work-groups; arguments are numbers, Buffers or UNKNOWN; arguments of the
    template are numbers, types or UNTOLD."""

    kernel: str
    template: tuple[str, ...]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    dynamic_lds: int
    arguments: tuple[Any, ...] = field(compare=False, default=())
    contents: Callable[[], Mapping[int, Bytes]] = field(compare=False, repr=False, default=dict)  # of Buffers, by id()
    read_only: tuple[bool, ...] = field(
        compare=False, repr=False, default=()
    )  # whether the kernel only reads an argument
    written: frozenset[int] = field(compare=False, repr=False, default=frozenset())  # that earlier launches may change

    @property
    def shape(self) -> tuple[Any, ...]:
        return self.kernel, self.template, self.grid, self.block


class Launching(Statements):
    """Follows launches in both notations."""

    def __init__(self, words: list[str]) -> None:
        super().__init__(words)
        self.fills = Fills()
        self.constant: Mapping[str, list[bool]] = {}  # kernel -> whether each parameter is constant
        self.template_parameters: Mapping[str, TemplateParameters] = {}  # of kernels
        self.launches: list[HostLaunch] = []
        self.unknown_shapes: list[str] = []  # kernels with launches whose shape is not known

    def launch(self, name: str, given: list[str]) -> Any:
        """`name<given><<<grid, block, lds>>>(arguments)`, at its `<<<`."""
        self.at += 1
        shape = []
        while self.peek() not in (">>>", ";", ""):
            shape.append(self.assignment())
            if not self.take(","):
                break
        while self.peek() not in (">>>", ";", ""):
            self.at += 1
        self.at += 1
        values = self.call_arguments() if self.peek() == "(" else []
        self._record(name, given, shape, values)
        return UNKNOWN

    def _launch_call(self) -> Any:
        parts, end = arguments(self.words, self.at)
        words = [w for w in parts[0] if w not in ("(", ")")] if parts else []
        given = words[words.index("<") + 1 : -1] if "<" in words else []
        self.at += 1
        if parts:
            self.at += len(parts[0]) + 1
        values = []
        while self.at < end - 1:
            values.append(self.assignment())
            if not self.take(","):
                break
        self.at = end
        if words:
            plain = words[: words.index("<")] if "<" in words else words
            self._record(plain[-1], given, values[:3], values[4:])
        return UNKNOWN

    def _record(self, name: str, given: list[str], shape: list[Any], values: list[Any]) -> None:
        dims = [calls.dimensions(value) for value in shape[:2]]
        lds = shape[2] if len(shape) > 2 and known(shape[2]) else 0
        held = self.lookup(name)
        name = held.name if isinstance(held, Function) else held if isinstance(held, str) else name
        if len(dims) < 2 or dims[0] is None or dims[1] is None:
            self.unknown_shapes.append(name)
            return
        shown = self.template_arguments(name, given)
        fixed = [value.get() if isinstance(value, Reference) else value for value in values]
        if len(self.launches) < MOST_LAUNCHES:
            written = self.fills.changed(list(_buffers(fixed)))
            contents = self.contents_of(name, fixed)
            constant = tuple(self.constant.get(name, []))
            one = HostLaunch(name, shown, dims[0], dims[1], whole(lds), tuple(fixed), contents, constant, written)
            self.launches.append(one)

    def contents_of(self, kernel: str, arguments: list[Any]) -> Callable[[], Mapping[int, Bytes]]:
        """What the buffers among arguments hold at a launch; one that the kernel writes counts as written by it."""
        known = self.fills.of_kernel(kernel, list(_buffers(arguments)))
        constant = self.constant.get(kernel, [])
        written = [value for i, value in enumerate(arguments) if i >= len(constant) or not constant[i]]
        self.fills.launched(kernel, list(_buffers(written)))
        return functools.partial(self.fills.contents, known, len(self.fills.steps))

    def template_arguments(self, kernel: str, given: list[str]) -> tuple[str, ...]:
        """The template arguments of a launch: those `given`, then the defaults of the kernel's parameters."""
        values = self.template_values(given)
        parameters = self.template_parameters.get(kernel, [])
        scope = {name: value for (name, _), value in zip(parameters, values, strict=False)}
        self.scopes.append(scope)
        for name, default in parameters[len(values) :]:
            scope[name] = self.template_value(default)
            values.append(scope[name])
        self.scopes.pop()
        return tuple(map(spelled, values))

    def template_values(self, given: Sequence[str]) -> list[Any]:
        """What the words between `<` and `>` mean, each as template_value() says."""
        return [self.template_value(part) for part in arguments(["(", *given, ")"], 0)[0]]

    def template_value(self, words: list[str]) -> Any:
        """A template argument: a number, or the words of a type; UNKNOWN if there are no words."""
        if not words:
            return UNKNOWN
        if not self.is_type(words) and known(value := self.evaluate(words, {})):
            return value
        held = [self.lookup(word) for word in words]
        parts = [one if isinstance(one, list) else [word] for one, word in zip(held, words, strict=True)]
        kind = GuessedType if any(isinstance(one, GuessedType) for one in held) else list
        return kind(word for part in parts for word in part)


def spelled(argument: Any) -> str:
    """A template_value() as text."""
    if isinstance(argument, GuessedType) or not (isinstance(argument, list) or known(argument)):
        return UNTOLD
    return " ".join(argument) if isinstance(argument, list) else str(argument)


def _buffers(values: Iterable[Any]) -> Iterator[Any]:
    """The buffers among values and their members."""
    for value in values:
        if isinstance(value, Object):
            yield from _buffers(value.fields.values())
        elif isinstance(value, Vector) and value.items is not None:
            yield from _buffers(value.items)
        elif isinstance(value, Vector | HostAllocation):
            yield value
