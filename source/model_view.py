"""Selects the part of a source that a model reads: all of it, or kernels and launches; cuts it to fit the context."""

from __future__ import annotations

import re

from hipsynth.core.languages import TRITON, language_of

VIEWS = ("whole", "kernels")

_DEVICE_WORK = re.compile(r"<<<|hipLaunchKernel|\bhipMalloc")
# Host lines that determine a kernel's work on the device: launches, allocations, launch shapes, integer constants,
# problem sizes.
_HOST_LINE = re.compile(
    r"<<<|hipLaunchKernel|\bhipMalloc\w*\s*\(|\bdim3\b|\bdevice_vector\b"
    r"|\bargv\s*\[|\batoi\s*\(|^\s*int \w+ = \d+;"
    r"|\b(?:constexpr|const)\s+(?:std::)?(?:int|unsigned|long|auto|size_t|u?int\d+_t)\b[^(]*[={]"
)
_COMMENT = re.compile(r"/\*.*?\*/|(?m:^[ \t]*//[^\n]*$)", re.DOTALL)
_DEVICE = re.compile(r"__global__|__device__|__constant__|__shared__")
_DECLARATION = re.compile(r"^(?:template|struct|class|union|enum|using|typedef|constexpr|const|static\s+const)\b")
_FUNCTION = re.compile(r"\)\s*(?:const\s*)?(?:noexcept\s*)?\{")
_REPORTING = re.compile(r"printf|std::cerr|std::cout|hipGetErrorString")


def view_source(text: str, view: str) -> tuple[str, int]:
    """The part of a source that a model reads, and the number of lines left out.

    "whole" is the text itself. "kernels" keeps device code, types, constants and macros, and of host functions only
    the lines with launches, allocations, launch shapes and constants; a source without a kernel is kept whole, and so
    is a script.
    """
    if view == "whole" or language_of(text) == TRITON:
        return text, 0
    kept_lines = [line for chunk in _top_level_chunks(_COMMENT.sub("", text)) for line in _kept_lines(chunk)]
    if not any("__global__" in line for line in kept_lines):
        return text, 0
    return "\n".join(kept_lines) + "\n", len(text.splitlines()) - len(kept_lines)


def _top_level_chunks(text: str) -> list[str]:
    """Top-level pieces: preprocessor lines with their continuations, and declarations up to a brace or semicolon."""
    pieces: list[str] = []
    current: list[str] = []
    depth = 0
    for line in text.splitlines():
        stripped = line.strip()
        if not current and not stripped:
            continue
        current.append(line)
        code = stripped.split("//")[0].rstrip()
        directive = current[0].lstrip().startswith("#")
        if not directive:
            depth += code.count("{") - code.count("}")
        is_complete = not code.endswith("\\") if directive else depth <= 0 and code.endswith((";", "}"))
        if is_complete:
            pieces.append("\n".join(current))
            current, depth = [], 0
    if current:
        pieces.append("\n".join(current))
    return pieces


def _kept_lines(chunk: str) -> list[str]:
    lines = [line for line in chunk.splitlines() if line.strip()]
    first = lines[0].lstrip() if lines else ""
    if first.startswith("#"):
        return [] if first.startswith("#include") or _REPORTING.search(chunk) else lines
    if _DEVICE.search(chunk):
        return lines
    if _FUNCTION.search(chunk):
        return [line for line in lines if _HOST_LINE.search(line)] if _DEVICE_WORK.search(chunk) else []
    return lines if _DECLARATION.match(first) else []


def cut_source(text: str, keep_lines: int) -> tuple[str, int]:
    """Cuts lines from the middle of a source so that `keep_lines` remain, and inserts a comment with their number.

    Keeps two thirds at the top, where kernels are, and one third at the end, where launches are.
    Returns the text and the number of lines cut.
    """
    lines = text.splitlines()
    if len(lines) <= keep_lines:
        return text, 0
    head = max(1, keep_lines * 2 // 3)
    tail = max(0, keep_lines - head)
    cut_count = len(lines) - head - tail
    kept_lines = [*lines[:head], f"// {cut_count} lines cut to fit the context", *lines[len(lines) - tail :]]
    return "\n".join(kept_lines) + "\n", cut_count
