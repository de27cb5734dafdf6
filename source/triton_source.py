"""Python scripts with Triton kernels, read by Python's own parser: their kernels, and where in the text things are.

Nothing of the script is executed.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason

LANGUAGE_MODULE = "triton.language"
UNKNOWN_COUNT = -1
_LINE_END = re.compile(rb"\r\n?|\n")  # as Python counts lines


@dataclass(frozen=True)
class JitFunction:
    """A function with a `jit` decorator. `decorator`: as it is written, without arguments; `configurations`: how many
    the autotuner chooses from, 0 without one, UNKNOWN_COUNT if they are no list in the decorator."""

    name: str
    node: ast.FunctionDef = field(repr=False)
    decorator: str
    configurations: int

    @property
    def called(self) -> frozenset[str]:
        """The names of functions that it calls by their names alone."""
        calls = (node for node in ast.walk(self.node) if isinstance(node, ast.Call))
        return frozenset(call.func.id for call in calls if isinstance(call.func, ast.Name))


@dataclass(frozen=True)
class TritonSource:
    """A script's text, its bytes and its tree; positions are those of the bytes."""

    text: str
    data: bytes = field(repr=False)
    tree: ast.Module = field(repr=False)
    functions: tuple[JitFunction, ...]
    line_starts: tuple[int, ...] = field(repr=False)

    def start_of(self, node: ast.expr | ast.stmt) -> int:
        return self.line_starts[node.lineno - 1] + node.col_offset

    def end_of(self, node: ast.expr | ast.stmt) -> int:
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.line_starts[node.end_lineno - 1] + node.end_col_offset

    def text_of(self, node: ast.expr | ast.stmt) -> str:
        return self.data[self.start_of(node) : self.end_of(node)].decode()

    def functions_named(self, name: str) -> list[JitFunction]:
        return [function for function in self.functions if function.name == name]

    def reached_from(self, kernel: JitFunction) -> list[JitFunction]:
        """The script's other jit functions that a kernel may call, also through others."""
        reached: dict[str, list[JitFunction]] = {}
        todo = set(kernel.called)
        while todo:
            name = todo.pop()
            if name not in reached:
                reached[name] = [function for function in self.functions_named(name) if function is not kernel]
                todo.update(*(function.called for function in reached[name]))
        return [function for functions in reached.values() for function in functions]

    @property
    def language(self) -> str:
        """What the script calls `triton.language`, "" if it has no name for it."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    if alias.name == LANGUAGE_MODULE:
                        return alias.asname or LANGUAGE_MODULE
            elif isinstance(node, ast.ImportFrom) and node.module == "triton":
                for alias in node.names:
                    if alias.name == "language":
                        return alias.asname or alias.name
        return ""


def read_triton_source(text: str) -> TritonSource:
    """Parses a script. Raises BadInput if Python cannot."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise BadInput("the script is not Python", cause=str(error), reason=Reason.SYNTAX_ERROR) from None
    data = text.encode()
    starts = (0, *(match.end() for match in _LINE_END.finditer(data)))
    functions = tuple(filter(None, map(_read_function, ast.walk(tree))))
    return TritonSource(text, data, tree, functions, starts)


def called_name(node: ast.AST) -> str:
    """The last word of what is called or named: "jit" of `triton.jit`; "" for other expressions."""
    if isinstance(node, ast.Call):
        return called_name(node.func)
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _read_function(node: ast.AST) -> JitFunction | None:
    if not isinstance(node, ast.FunctionDef):
        return None
    jit = [decorator for decorator in node.decorator_list if called_name(decorator) == "jit"]
    if not jit:
        return None
    spelled = ast.unparse(jit[0].func if isinstance(jit[0], ast.Call) else jit[0])
    tuned = [decorator for decorator in node.decorator_list if called_name(decorator) == "autotune"]
    return JitFunction(node.name, node, spelled, max(map(_count_configurations, tuned), key=abs, default=0))


def _count_configurations(decorator: ast.expr) -> int:
    configs = list_configurations(decorator)
    return UNKNOWN_COUNT if configs is None else len(configs)


def list_configurations(decorator: ast.expr) -> list[ast.Call] | None:
    """The calls `triton.Config(...)` in an autotuner's list; None if the list is not written there."""
    if not isinstance(decorator, ast.Call):
        return None
    named = [keyword.value for keyword in decorator.keywords if keyword.arg == "configs"]
    configs = next(iter([*named, *decorator.args]), None)
    if not isinstance(configs, ast.List | ast.Tuple):
        return None
    calls = [element for element in configs.elts if isinstance(element, ast.Call) and called_name(element) == "Config"]
    return calls if len(calls) == len(configs.elts) else None


def iterate_calls(node: ast.AST, name: str) -> Iterator[ast.Call]:
    """The calls of what ends in `name`, in the order of the text."""
    calls = [part for part in ast.walk(node) if isinstance(part, ast.Call) and called_name(part) == name]
    yield from sorted(calls, key=lambda call: (call.lineno, call.col_offset))


def read_default_arguments(source: TritonSource) -> tuple[str, ...]:
    """What a script takes where it gets no arguments, as far as it says `int(sys.argv[1]) if ... else 512`."""
    numbers: dict[int, str] = {}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.IfExp) and isinstance(node.orelse, ast.Constant):
            for place in ast.walk(node.body):
                if not isinstance(place, ast.Subscript) or ast.unparse(place.value) != "sys.argv":
                    continue
                if isinstance(place.slice, ast.Constant) and isinstance(place.slice.value, int):
                    numbers[place.slice.value] = str(node.orelse.value)
    positions = sorted(numbers)
    return tuple(numbers[at] for at in positions) if positions == list(range(1, len(positions) + 1)) else ()
