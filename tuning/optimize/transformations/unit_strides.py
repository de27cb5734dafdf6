"""Along which axis of the grid neighbouring work-items touch neighbouring elements, as the subscripts say."""

from __future__ import annotations

from collections import Counter

from hipsynth.source.tokens import find_closing
from hipsynth.tuning.optimize.analysis.kernel_body import Body
from hipsynth.tuning.optimize.transformation_plan import AXES
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView

_BEFORE = frozenset({"[", "+", "=", "-"})  # tokens beside a term that is added as it is
_AFTER = frozenset({"]", "+", "-", ";", ","})


def count_unit_strides(view: KernelView) -> Counter[int]:
    """Accesses of the kernel's text whose address moves by one element along each axis."""
    body = Body(view.program, view.kernel)
    axes = _find_axes(body)
    counts: Counter[int] = Counter()
    for i in range(view.kernel.first, view.kernel.last):
        if body.tokens[i].text == "[":
            counts.update(_added_axes(body, i + 1, find_closing(body.tokens, i), axes))
    return counts


def _find_axes(body: Body) -> dict[int, int]:
    """Local variables that grow by one from a work-item to the next along an axis, by their declarations."""
    axes: dict[int, int] = {}
    for i in range(body.kernel.first, body.kernel.last - 1):
        if body.tokens[i].start not in body.locals or body.tokens[i + 1].text != "=":
            continue
        end = next((j for j in range(i, body.kernel.last) if body.tokens[j].text in (";", ",")), body.kernel.last)
        threads = [body.tokens[j + 2].text for j in range(i, end - 2) if body.tokens[j].text == "threadIdx"]
        if len(threads) == 1 and threads[0] in AXES and not {"/", "%"} & {body.tokens[j].text for j in range(i, end)}:
            axes[body.tokens[i].start] = AXES.index(threads[0])
        elif len(added := _added_axes(body, i + 2, end, axes)) == 1:
            axes[body.tokens[i].start] = added[0]
    return axes


def _added_axes(body: Body, start: int, end: int, axes: dict[int, int]) -> list[int]:
    """The axes of the variables that an expression adds as they are, outside parentheses."""
    axes_added, depth = [], 0
    for i in range(start, end):
        text = body.tokens[i].text
        depth += (text in ("(", "[")) - (text in (")", "]"))
        axis = axes.get(body.local(body.tokens[i]))
        added = body.tokens[i - 1].text in _BEFORE and body.tokens[i + 1].text in _AFTER
        if axis is not None and added and depth == 0 and body.tokens[i - 1].text != "-":
            axes_added.append(axis)
    return axes_added
