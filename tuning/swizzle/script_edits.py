"""Replaces the program ids of a Triton kernel: a small function before it says which program computes what.

Only the calls of `tl.program_id` in the kernel change, at their places in the text.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.source.edits import Edit, apply_edits, join_insertions
from hipsynth.source.triton_source import JitFunction, TritonSource, called_name, iterate_calls
from hipsynth.tuning.swizzle import index_expression as e
from hipsynth.tuning.swizzle.edits import call_of
from hipsynth.tuning.swizzle.index_expression import IndexExpression
from hipsynth.tuning.swizzle.mapping import GroupMapping, Program, RowSpread, Spread
from hipsynth.tuning.trial.refusal import KernelRefusal

PROGRAM_ID, PROGRAM_COUNT = "program_id", "num_programs"
_SIZES = {"X": 0, "Y": 1, "Z": 2}
# Python's precedences, of the operators that an IndexExpression has.
_LEVELS = {"*": 5, "//": 5, "%": 5, "+": 4, "-": 4, "<<": 3, ">>": 3, "&": 2, "^": 2, "|": 2, "<": 1, "==": 1}


def find_refusal(source: TritonSource, name: str) -> KernelRefusal | None:
    """Why the programs of a kernel cannot be mapped, as far as the script tells."""
    same = source.functions_named(name)
    if not same:
        return KernelRefusal(Reason.NOT_IN_SCRIPT, "the script does not define it")
    if len(same) > 1:
        return KernelRefusal(Reason.UNSUPPORTED, "several functions have its name")
    [kernel] = same
    if source.functions_named(call_of(name)):
        return KernelRefusal(Reason.UNSUPPORTED, f"it is mapped already, by {call_of(name)}()")
    if not source.language:
        return KernelRefusal(Reason.UNSUPPORTED, "the script has no name for triton.language")
    if kernel.configurations not in (0, 1):
        text = "it is autotuned: which configuration is fastest may change with the mapping; give it one configuration"
        return KernelRefusal(Reason.AUTOTUNED, text)
    helpers = [function.name for function in source.reached_from(kernel) if _find_program_ids(function.node)]
    if helpers:
        text = f"{helpers[0]}(), which it calls, reads the program id: pass it on as an argument"
        return KernelRefusal(Reason.PROGRAM_ID_IN_HELPER, text)
    return _refuse_uses(kernel)


def _refuse_uses(kernel: JitFunction) -> KernelRefusal | None:
    calls = list(iterate_calls(kernel.node, PROGRAM_ID))
    if not calls:
        text = "it does not read its program id: its programs are all alike, or take their work from elsewhere"
        return KernelRefusal(Reason.PROGRAM_ID_ELSEWHERE, text)
    if len(_find_program_ids(kernel.node)) != len(calls) or any(_axis_of(call) is None for call in calls):
        text = "it reads its program id in another form than tl.program_id(axis) with a number as the axis"
        return KernelRefusal(Reason.PROGRAM_ID_ELSEWHERE, text)
    if _is_persistent(kernel):
        text = "it is persistent: its programs step through the work from their own number on, which maps it already"
        return KernelRefusal(Reason.PERSISTENT, text)
    return None


def _find_program_ids(node: ast.AST) -> list[ast.AST]:
    return [
        part for part in ast.walk(node)
        if isinstance(part, ast.Name | ast.Attribute) and called_name(part) == PROGRAM_ID
    ]  # fmt: skip


def _axis_of(call: ast.Call) -> int | None:
    """The axis of a call of tl.program_id; None if it is no number."""
    values = [*call.args, *(keyword.value for keyword in call.keywords if keyword.arg == "axis")]
    value = values[0].value if len(values) == 1 and isinstance(values[0], ast.Constant) else None
    return value if isinstance(value, int) and value in (0, 1, 2) else None


def _is_persistent(kernel: JitFunction) -> bool:
    """Whether a loop begins at the program's number and has a step."""
    numbers = {
        target.id
        for node in ast.walk(kernel.node)
        if isinstance(node, ast.Assign) and _find_program_ids(node.value) and isinstance(node.value, ast.Call)
        for target in node.targets
        if isinstance(target, ast.Name) and called_name(node.value) == PROGRAM_ID
    }
    loops = [node.iter for node in ast.walk(kernel.node) if isinstance(node, ast.For)]
    for call in loops:
        if isinstance(call, ast.Call) and called_name(call) in ("range", "static_range") and len(call.args) == 3:
            start = call.args[0]
            if _find_program_ids(start) or (isinstance(start, ast.Name) and start.id in numbers):
                return True
    return False


def write_mapped(source: TritonSource, mappings: Mapping[str, GroupMapping], grids: Mapping[str, Dim]) -> str:
    """The script with mapped kernels; `grids`: of the launches of each. Raises BadInput where that is refused."""
    edits: list[Edit] = []
    for name, mapping in mappings.items():
        refusal = find_refusal(source, name)
        if refusal is not None:
            raise BadInput(f"{name} cannot be mapped", cause=refusal.text, reason=refusal.code)
        edits += _map_kernel(source, source.functions_named(name)[0], mapping, grids[name])
    return apply_edits(source.data, join_insertions(edits)).decode()


def _map_kernel(source: TritonSource, kernel: JitFunction, mapping: GroupMapping, grid: Dim) -> Iterator[Edit]:
    calls = [(call, _axis_of(call)) for call in iterate_calls(kernel.node, PROGRAM_ID)]
    function = call_of(kernel.name)
    along_x = _program_along_x(mapping, grid, {axis or 0 for _, axis in calls})
    if along_x is not None:
        calls = [(call, axis) for call, axis in calls if axis == 0]
        lines = _write_along_x(source.language, function, mapping, along_x)
    else:
        lines = _write_for_axes(source.language, function, mapping)
    for call, axis in calls:
        argument = "" if along_x is not None else str(axis)
        yield Edit(source.start_of(call), source.end_of(call), f"{function}({argument})")
    first = kernel.node.decorator_list[0]
    at = source.line_starts[first.lineno - 1]
    indent = source.data[at : source.start_of(first)].decode().partition("@")[0]
    text = "\n".join([f"@{kernel.decorator}", *lines])
    blank = "\n\n\n" if not indent else "\n\n"
    yield Edit(at, at, "\n".join(f"{indent}{line}" for line in text.split("\n")) + blank)


def _program_along_x(mapping: GroupMapping, grid: Dim, axes: set[int]) -> Program | None:
    """The mapping as one of the number along x among the programs along x; None if it is not of that kind."""
    pid, count = e.name("pid"), e.name("n")
    if 0 in axes and len(mapping.steps) == 1 and isinstance(mapping.steps[0], RowSpread) and not mapping.grids:
        step = mapping.steps[0]
        return _strip_prefixes(Spread(step.parts, step.run).program(pid, count, "s0_"), 1)
    if axes != {0} or grid[1] * grid[2] != 1:
        return None
    program = [(text, _rename_names(value, {"id": pid})) for text, value in mapping.program()]
    return _strip_prefixes(program, len(mapping.steps))


def _strip_prefixes(program: Program, steps: int) -> Program:
    """Without the prefix of the only step."""
    if steps != 1:
        return program
    plain = {"s0_id": "mapped", "s0_in": "inside"}  # others are no words of Python
    renamed = {text: e.name(plain.get(text, text.removeprefix("s0_"))) for text, _ in program}
    return [(str(renamed[text].value), _rename_names(value, renamed)) for text, value in program]


def _rename_names(expression: IndexExpression, names: Mapping[str, IndexExpression]) -> IndexExpression:
    if expression.op == "name":
        return names.get(str(expression.value), expression)
    parts = tuple(_rename_names(part, names) for part in expression.parts)
    return IndexExpression(expression.op, parts, expression.value)


def _write_along_x(language: str, function: str, mapping: GroupMapping, program: Program) -> list[str]:
    *before, (_, last) = program or [("mapped", e.name("pid"))]
    used = {name for _, value in program for name in _names_in(value)}
    sizes = [f"    {axis} = {'n' if axis == 'X' else '1'}" for axis in _SIZES if axis in used]
    return [
        f"def {function}():  # which program computes what: {mapping.label}",
        f"    pid = {language}.{PROGRAM_ID}(0)",
        f"    n = {language}.{PROGRAM_COUNT}(0)",
        *sizes,
        *(f"    {text} = {write_expression(value, language)}" for text, value in before),
        f"    return {write_expression(last, language)}",
    ]


def _write_for_axes(language: str, function: str, mapping: GroupMapping) -> list[str]:
    program = [(text, _rename_names(value, {"id": e.name("pid")})) for text, value in mapping.program()]
    used = {name for _, value in program for name in _names_in(value)} | {"X", "Y"}
    last = program[-1][0] if program else "pid"
    annotation = f"axis: {language}.constexpr"
    return [
        f"def {function}({annotation}):  # which program computes what: {mapping.label}",
        *(f"    {axis} = {language}.{PROGRAM_COUNT}({number})" for axis, number in _SIZES.items()
          if axis in used | ({"Z"} if "n" in used else set())),
        *(["    n = X * Y * Z"] if "n" in used else []),
        f"    pid = ({language}.{PROGRAM_ID}(2) * Y + {language}.{PROGRAM_ID}(1)) * X + {language}.{PROGRAM_ID}(0)",
        *(f"    {text} = {write_expression(value, language)}" for text, value in program),
        f"    row = {last} // X",
        f"    coordinate = {last} - row * X",
        "    if axis == 1:",
        "        coordinate = row % Y",
        "    if axis == 2:",
        "        coordinate = row // Y",
        "    return coordinate",
    ]  # fmt: skip


def _names_in(expression: IndexExpression) -> Iterator[str]:
    if expression.op == "name":
        yield str(expression.value)
    for part in expression.parts:
        yield from _names_in(part)


def write_expression(expression: IndexExpression, language: str, inside: int = 0) -> str:
    """As Triton source over integers of the same names; `inside`: the precedence of what surrounds it."""
    if expression.op in ("name", "number"):
        return str(expression.value)
    if expression.op in ("min", "max", "select"):
        function = {"min": "minimum", "max": "maximum", "select": "where"}[expression.op]
        return f"{language}.{function}({', '.join(write_expression(part, language) for part in expression.parts)})"
    level = _LEVELS[expression.op]
    bits = level in (2, 3)  # brackets where readers would have to know Python's precedences
    left, right = (write_expression(part, language, 6 if bits and part.parts else level + number)
                   for number, part in enumerate(expression.parts))  # fmt: skip
    text = f"{left} {expression.op} {right}"
    return f"({text})" if level < inside else text
