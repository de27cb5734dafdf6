"""Which elements the work-groups of a kernel access: its subscripts, evaluated for all work-items of several groups."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hipsynth.core.expressions import Node
from hipsynth.source.arithmetic import evaluate_arithmetic, parse_arithmetic
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import FusedLaunch

GROUPS = (0, 1, 2, 5, 1022)  # whose work-items' elements are looked at
# The number of a work-item in a grid of one axis.
OWN_NUMBER = re.compile(
    r"blockIdx\.x\*blockDim\.x\+threadIdx\.x|blockDim\.x\*blockIdx\.x\+threadIdx\.x|"
    r"threadIdx\.x\+blockIdx\.x\*blockDim\.x|threadIdx\.x\+blockDim\.x\*blockIdx\.x"
)
Integers = npt.NDArray[np.int64]


def keeps_apart(trees: Sequence[Node], lanes: int, names: Mapping[str, int], elements: int = 0) -> int:
    """How many elements each group of `lanes` work-items has for itself, where all accesses of group g lie from g times
    that number on; 0 if they do not. `names`: values of parameters and constants; `elements`: that number, if it is
    known. Raises NotUnderstood for subscripts of other names."""
    places = _evaluate_places(trees, lanes, names)
    smallest, largest = np.min(places, axis=(0, 2)), np.max(places, axis=(0, 2))
    elements = elements or int(largest[0]) + 1
    starts = np.array(GROUPS) * elements
    return 0 if (smallest < starts).any() or (largest >= starts + elements).any() else elements


def covers_elements(trees: Sequence[Node], lanes: int, names: Mapping[str, int], elements: int) -> bool:
    """Whether the accesses of a group's work-items take each of its elements. Raises as keeps_apart()."""
    places = _evaluate_places(trees, lanes, names)
    return bool(places) and len(np.unique([place[0] for place in places])) == elements


def _evaluate_places(trees: Sequence[Node], lanes: int, names: Mapping[str, int]) -> list[Integers]:
    """The places of each subscript, of shape (groups, lanes)."""
    places = {"blockIdx.x": np.array(GROUPS)[:, None], "threadIdx.x": np.arange(lanes)[None, :], "blockDim.x": lanes}
    with np.errstate(divide="raise"):
        elements = [evaluate_arithmetic(tree, {**names, **places}.get) for tree in trees]
    if any(element is None for element in elements):
        raise NotUnderstood("a subscript of another form")
    return [np.broadcast_to(element, (len(GROUPS), lanes)) for element in elements]


def parse_subscript(text: str | None) -> Node:
    """A subscript in coordinates and parameters. Raises NotUnderstood for one that unsigned numbers may give another
    value, and for one of another form."""
    words = text or "?"
    tree = parse_arithmetic(words)
    if tree is None or not re.fullmatch(r"[\w.()+*/%&|^-]+", words) or ("-" in words and re.search(r"[/%]", words)):
        raise NotUnderstood("a subscript of another form")
    return tree


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
