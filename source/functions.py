"""The functions that a parsed file defines, read from libclang's syntax tree."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hipsynth.source import clang
from hipsynth.source.clang import CONTAINER_KINDS, FUNCTION_KINDS, TU, CCursor
from hipsynth.source.cursor_kinds import Kind

_TEMPLATE_PARAMETERS = {
    k.value for k in (Kind.TEMPLATE_TYPE_PARAMETER, Kind.TEMPLATE_NON_TYPE_PARAMETER, Kind.TEMPLATE_TEMPLATE_PARAMETER)
}
_KERNEL, _PARAMETER, _BODY = Kind.CUDAGLOBAL_ATTR.value, Kind.PARM_DECL.value, Kind.COMPOUND_STMT.value
_CONTINUE, _RECURSE = 1, 2
_STUB = "__device_stub__"  # the host's name of a kernel


@dataclass(frozen=True)
class FunctionNode:
    """A function with a body. Places are byte offsets in the file: of its name, of the braces, of each parameter with
    its default value. `mangled` is "" for a template."""

    name: str
    place: int
    body: tuple[int, int]
    kernel: bool
    mangled: str
    template_names: tuple[str, ...]
    parameters: tuple[tuple[int, int, str], ...]


def find_functions(tu: TU) -> list[FunctionNode]:
    """The functions of the main file that have a body, in source order; of classes and namespaces, too."""
    functions: list[FunctionNode] = []

    def visit(cursor: CCursor, _parent: CCursor, _data: Any) -> int:
        if cursor.kind in FUNCTION_KINDS:
            node = _read_function(tu, cursor)
            if node is not None:
                functions.append(node)
            return _CONTINUE
        return _RECURSE if cursor.kind in CONTAINER_KINDS else _CONTINUE

    tu.lib.clang_visitChildren(tu.lib.clang_getTranslationUnitCursor(tu.handle), clang.Visitor(visit), None)
    return _without_instances(functions)


def _without_instances(nodes: Iterable[FunctionNode]) -> list[FunctionNode]:
    """One function for each place: the tree also has the instances of templates."""
    functions: dict[int, FunctionNode] = {}
    for node in nodes:
        if node.place not in functions or node.template_names:
            functions[node.place] = node
    return [functions[place] for place in sorted(functions)]


def _read_function(tu: TU, cursor: CCursor) -> FunctionNode | None:
    """The function of a cursor; None if it has no body in the main file."""
    file, place = tu.spelling_place(cursor)
    body: list[tuple[int, int]] = []
    kernel: list[bool] = []
    names: list[str] = []
    parameters: list[tuple[int, int, str]] = []

    def visit(child: CCursor, _parent: CCursor, _data: Any) -> int:
        if child.kind == _BODY:
            body.append(tu.extent(child))
        elif child.kind == _KERNEL:
            kernel.append(True)
        elif child.kind in _TEMPLATE_PARAMETERS:
            names.append(spell_cursor(tu, child))
        elif child.kind == _PARAMETER:
            parameters.append((*tu.extent(child), spell_cursor(tu, child)))
        return _CONTINUE

    tu.lib.clang_visitChildren(cursor, clang.Visitor(visit), None)
    if file != tu.file or not body:
        return None
    template = cursor.kind == Kind.FUNCTION_TEMPLATE.value
    mangled = "" if template else clang.text_of(tu.lib.clang_Cursor_getMangling(cursor))
    name = spell_cursor(tu, cursor).partition("<")[0]
    if _STUB in mangled:
        mangled = mangled.replace(f"{len(_STUB + name)}{_STUB}{name}", f"{len(name)}{name}")
    return FunctionNode(name, place, body[-1], bool(kernel), mangled, tuple(names), tuple(parameters))


def spell_cursor(tu: TU, cursor: CCursor) -> str:
    """A cursor's name."""
    return clang.text_of(tu.lib.clang_getCursorSpelling(cursor))
