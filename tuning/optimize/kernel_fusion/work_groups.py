"""Kernel fusion by work-groups: joins launches whose groups leave what they write to the same group of the next one.

Three launches with a group for each row (mean, variance, normalisation) become one: a barrier stands between the
bodies, and what the group has just read is still in its caches. Each array that one launch writes and another one uses
must be accessed at the group's own elements alone: at `blockIdx.x`, or in its row `blockIdx.x * n + i` with `i < n`.
"""

from __future__ import annotations

import re

from hipsynth.source.tokens import find_closing
from hipsynth.tuning.optimize.kernel_fusion.fused_launches import FusedLaunch, has_one_axis, shared_subscripts

BARRIER = "  __syncthreads();\n"
_ACROSS_GROUPS = re.compile(r"cooperative_groups|this_grid|grid_group|__threadfence\w*|asm|__asm__")
_NOT_NEGATIVE = re.compile(r"threadIdx|blockDim|\.|[xyz]|[+*()]|\d+u?")
_GROUP = r"\(?blockIdx\.x\)?"
_ROW = re.compile(rf"{_GROUP}\*(?P<n>\w+)\+\(?\$(?P<end>\w+)\$\)?|\(?\$(?P<end_>\w+)\$\)?\+{_GROUP}\*(?P<n_>\w+)")


class GroupLaunch(FusedLaunch):
    """A launch whose work-groups are to go on with what they did in another one."""

    def fits(self) -> bool:
        """Whether the body can be a part of another kernel, and all work-items of a group reach its end."""
        first, last = self.kernel.first, self.kernel.last
        words = {token.text for token in self.program.tokens[first:last]}
        if self.kernel.fixed or any(_ACROSS_GROUPS.fullmatch(word) for word in words):
            return False
        return self._is_plain() and not ("return" in words and self.program.has_barrier(first, last))

    def _describe_variable(self, place: int) -> str | None:
        """`$n$` for the variable of a loop from a number that is not negative to n."""
        tokens = self.program.tokens
        at = self.body.find_declaration(place)
        opening = next((i for i in range(at - 1, at - 4, -1) if tokens[i].text == "("), 0)
        if tokens[opening - 1].text != "for" or tokens[at + 1].text != "=":
            return None
        closing = find_closing(tokens, opening)
        ends = [i for i in range(at, closing) if tokens[i].text == ";"]
        if len(ends) != 2 or not all(_NOT_NEGATIVE.fullmatch(t.text) for t in tokens[at + 2 : ends[0]]):
            return None
        if [t.text for t in tokens[ends[0] + 1 : ends[0] + 3]] != [tokens[at].text, "<"]:
            return None
        if not self._only_grows(place, ends[1] + 1, closing):
            return None
        bound = self._canonical_expression(ends[0] + 3, ends[1])
        return f"${bound}$" if bound and re.fullmatch(r"\w+", bound) else None

    def _only_grows(self, place: int, start: int, end: int) -> bool:
        """Whether a loop's variable is changed by the loop's step [start, end) alone, which adds to it."""
        tokens = self.program.tokens
        step = [t.text for t in tokens[start:end]]
        if not (("++" in step and len(step) == 2) or (step[1:2] == ["+="] and "-" not in step)):
            return False
        others = [i for i in range(self.kernel.first, self.kernel.last) if self.body.local(tokens[i]) == place]
        outside = [i for i in others if not start <= i < end and tokens[i].start != place]
        return not any(self.body.assigns(i, self.kernel.last) or tokens[i - 1].text == "&" for i in outside)


def can_join_groups(before: FusedLaunch, after: FusedLaunch) -> bool:
    """Whether a group finds what it needs of another launch in what the same group of that launch wrote."""
    if not has_one_axis(after.program, after.launch.grid):
        return False
    return all(
        len(regions := {_find_region(subscript) for subscript in subscripts}) == 1 and regions != {None}
        for subscripts in shared_subscripts(before, after)
    )


def _find_region(subscript: str | None) -> str | None:
    """The elements that a group has at a subscript and no other group: "" for the one of its number, n for those of its
    row of n; None if they may be another group's."""
    if subscript is None:
        return None
    if re.fullmatch(_GROUP, subscript):
        return ""
    match = _ROW.fullmatch(subscript)
    if match is None:
        return None
    length, end = match["n"] or match["n_"], match["end"] or match["end_"]
    return length if length == end else None
