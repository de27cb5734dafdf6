"""Launch syntax: `kernel<<<grid, block, bytes, stream>>>(...)` becomes `hipLaunchKernelGGL(...)`, and the reverse."""

from __future__ import annotations

import random
from collections.abc import Sequence

from hipsynth.source.declarations import LAUNCH_CLOSE, LAUNCH_OPEN
from hipsynth.source.edits import Edit
from hipsynth.source.parse import ParsedUnit, Token
from hipsynth.source.tokens import compiled_tokens, find_closing, split_at, text_between
from hipsynth.synth.frontend.rewrite_sites import Site

MACRO, NAME = "hipLaunchKernelGGL", "HIP_KERNEL_NAME"
_BEFORE = frozenset(";{})")  # what ends the statement before


def plan_sites(unit: ParsedUnit, rng: random.Random) -> list[Site]:
    """One site per launch that is a statement of its own."""
    tokens = compiled_tokens(unit)
    sites: list[Site] = []
    for i, token in enumerate(tokens):
        edit = None
        if token.text == LAUNCH_OPEN:
            edit = _to_macro(unit, tokens, i)
        elif token.text == MACRO and tokens[i + 1 : i + 2] and tokens[i + 1].text == "(":
            edit = _to_chevrons(unit, tokens, i)
        if edit is not None:
            sites.append((edit,))
    return sites


def _to_macro(unit: ParsedUnit, tokens: Sequence[Token], at: int) -> Edit | None:
    start = _kernel_start(tokens, at)
    end = next((i for i in range(at, len(tokens)) if tokens[i].text == LAUNCH_CLOSE), -1)
    close = find_closing(tokens, end + 1) if 0 <= end < len(tokens) - 1 and tokens[end + 1].text == "(" else -1
    if start < 1 or close < 0 or tokens[start - 1].text not in _BEFORE or tokens[close + 1].text != ";":
        return None
    shape = [text_between(unit, tokens, a, b) for a, b in split_at(tokens, at + 1, end, ",")]
    if not 2 <= len(shape) <= 4 or any(part.startswith("{") for part in shape):
        return None
    kernel = text_between(unit, tokens, start, at)
    if "," in kernel:
        kernel = f"{NAME}({kernel})"
    arguments = text_between(unit, tokens, end + 2, close)
    words = [kernel, *shape, *["0"] * (4 - len(shape)), *([arguments] if arguments else [])]
    return Edit(tokens[start].start, tokens[close].end, f"{MACRO}({', '.join(words)})")


def _kernel_start(tokens: Sequence[Token], at: int) -> int:
    """The index at which the name of the kernel before `<<<` begins, with namespaces and template arguments; -1."""
    i = at - 1
    if tokens[i].text == ">":
        depth = 0
        while i >= 0:
            depth += (tokens[i].text == ">") - (tokens[i].text == "<")
            i -= 1
            if depth == 0:
                break
    while i >= 2 and tokens[i].identifier and tokens[i - 1].text == "::":
        i -= 2
    return i if i >= 0 and tokens[i].identifier else -1


def _to_chevrons(unit: ParsedUnit, tokens: Sequence[Token], at: int) -> Edit | None:
    close = find_closing(tokens, at + 1)
    parts = split_at(tokens, at + 2, close, ",") if close > 0 else []
    if len(parts) < 5 or at < 1 or tokens[at - 1].text not in _BEFORE or tokens[close + 1].text != ";":
        return None
    words = [text_between(unit, tokens, a, b) for a, b in parts[:5]]
    kernel = words[0].removeprefix(f"{NAME}(").removesuffix(")") if words[0].startswith(NAME) else words[0]
    shape = words[1:5]
    while len(shape) > 2 and shape[-1] == "0":
        shape.pop()
    stream = text_between(unit, tokens, parts[5][0], close) if len(parts) > 5 else ""
    return Edit(tokens[at].start, tokens[close].end, f"{kernel}<<<{', '.join(shape)}>>>({stream})")
