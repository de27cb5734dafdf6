"""Which elements the work-groups of a kernel access: its subscripts, evaluated for all work-items of several groups."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hipsynth.tuning.optimize.kernel_fusion_launches import FusedLaunch
from hipsynth.tuning.optimize.statements import NotUnderstood

GROUPS = (0, 1, 2, 5, 1022)  # whose work-items' elements are looked at
_COORDINATES = {"blockIdx.x": "group", "threadIdx.x": "lane", "blockDim.x": "lanes"}
# The number of a work-item in a grid of one axis.
OWN_NUMBER = re.compile(
    r"blockIdx\.x\*blockDim\.x\+threadIdx\.x|blockDim\.x\*blockIdx\.x\+threadIdx\.x|"
    r"threadIdx\.x\+blockIdx\.x\*blockDim\.x|threadIdx\.x\+blockDim\.x\*blockIdx\.x"
)
Integers = npt.NDArray[np.int64]
_OPERATORS: Mapping[type[ast.operator], Callable[[Integers, Integers], Integers]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}


def keeps_apart(trees: Sequence[ast.expr], lanes: int, names: Mapping[str, int], elements: int = 0) -> int:
    """How many elements each group of `lanes` work-items has for itself, where all accesses of group g lie from g times
    that number on; 0 if they do not. `names`: values of parameters and constants; `elements`: that number, if it is
    known. Raises NotUnderstood for subscripts of other names."""
    places = _evaluate_places(trees, lanes, names)
    smallest, largest = np.min(places, axis=(0, 2)), np.max(places, axis=(0, 2))
    elements = elements or int(largest[0]) + 1
    starts = np.array(GROUPS) * elements
    return 0 if (smallest < starts).any() or (largest >= starts + elements).any() else elements


def covers_elements(trees: Sequence[ast.expr], lanes: int, names: Mapping[str, int], elements: int) -> bool:
    """Whether the accesses of a group's work-items take each of its elements. Raises as keeps_apart()."""
    places = _evaluate_places(trees, lanes, names)
    return bool(places) and len(np.unique([place[0] for place in places])) == elements


def _evaluate_places(trees: Sequence[ast.expr], lanes: int, names: Mapping[str, int]) -> list[Integers]:
    """The places of each subscript, of shape (groups, lanes)."""
    values: dict[str, Integers] = {name: np.array(value) for name, value in names.items()}
    values["lanes"], values["lane"] = np.array(lanes), np.arange(lanes)[None, :]
    values["group"] = np.array(GROUPS)[:, None]
    return [np.broadcast_to(_evaluate_subscript(tree, values), (len(GROUPS), lanes)) for tree in trees]


def parse_subscript(text: str | None) -> ast.expr:
    """A subscript in coordinates and parameters. Raises NotUnderstood for one that Python would compute otherwise."""
    words = text or "?"
    for coordinate, name in _COORDINATES.items():
        words = words.replace(coordinate, name)
    if not re.fullmatch(r"[\w()+*/%&|^-]+", words) or ("-" in words and re.search(r"[/%]", words)):
        raise NotUnderstood("a subscript of another form")
    try:
        return ast.parse(words.replace("/", "//"), mode="eval").body
    except SyntaxError:
        raise NotUnderstood("a subscript of another form") from None


def _evaluate_subscript(tree: ast.expr, names: Mapping[str, Integers]) -> Integers:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return np.asarray(tree.value, np.int64)
    if isinstance(tree, ast.Name) and tree.id in names:
        return names[tree.id]
    if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATORS:
        return _OPERATORS[type(tree.op)](_evaluate_subscript(tree.left, names), _evaluate_subscript(tree.right, names))
    raise NotUnderstood("a subscript of another form")


def check_repeatable_body(call: FusedLaunch, variable: str) -> None:
    """Raises NotUnderstood for a kernel whose body cannot stand in a loop over a parameter: that changes it, or what is
    no array of its own."""
    body = call.body
    tokens, kernel = call.program.tokens, call.kernel
    if call.changed:
        raise NotUnderstood("a parameter that the body changes")
    arrays = {parameter.name for parameter in kernel.parameters if parameter.base}
    functions = {function.name for function in call.program.functions}
    for i in range(kernel.first, kernel.last):
        text = tokens[i].text
        outside = body.assigns(i, kernel.last) and body.local(tokens[i]) < 0 and text not in arrays
        if not tokens[i].identifier or tokens[i - 1].text == ".":
            continue
        is_address = tokens[i - 1].text == "&" and tokens[i - 2].text in ("(", ",", "=")
        if outside or (is_address and text == variable):
            raise NotUnderstood("something else is changed")
        if "tomic" in text or text in functions or text in ("printf", "assert", "gridDim"):
            raise NotUnderstood(f"it uses {text}")
