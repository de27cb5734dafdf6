"""Records the kernel launches that host code makes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from hipsynth.profiling.preview import calls
from hipsynth.profiling.preview.contents.fills import Bytes, Fills
from hipsynth.profiling.preview.statements import Statements
from hipsynth.profiling.preview.tokens import arguments
from hipsynth.profiling.preview.values import UNKNOWN, Buffer, Function, Object, Reference, Vector, known, whole

MOST_LAUNCHES = 256


@dataclass(frozen=True)
class HostLaunch:
    """A launch as far as it is known: grid in work-groups; arguments are numbers, Buffers or UNKNOWN."""

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
        parts = arguments(["(", *given, ")"], 0)[0]
        shown = tuple(self._argument(part[0]) if len(part) == 1 else "".join(part) for part in parts)
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

    def _argument(self, word: str) -> str:
        held = self.lookup(word)
        if isinstance(held, list):
            return "".join(held)
        return str(held) if known(held) else word


def _buffers(values: Iterable[Any]) -> Iterator[Any]:
    """The buffers among values and their members."""
    for value in values:
        if isinstance(value, Object):
            yield from _buffers(value.fields.values())
        elif isinstance(value, Vector) and value.items is not None:
            yield from _buffers(value.items)
        elif isinstance(value, Vector | Buffer):
            yield value
