"""Sources of PyTorch's C++ extensions: their device code alone, which needs no PyTorch."""

from __future__ import annotations

import re
from collections.abc import Iterator

from hipsynth.source.outline import blank_opaque

_INCLUDE = re.compile(r"^[ \t]*#[ \t]*include[ \t]*[<\"](?:torch|ATen|c10|pybind11)/[^\n]*", re.MULTILINE)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\\r?\n|\\.)*", re.MULTILINE)
_OPENING = re.compile(r"\s*(?:inline\s+)?(?:namespace(?:\s+[\w:]+)?|extern\s*\"?\s*\w*\s*\"?)\s*\Z")
_OF_DEVICE = re.compile(r"\b__(?:global|device)__\b")
_OF_PYTORCH = re.compile(r"\b(?:torch|at|c10|py)\s*::|\bpybind11\b|\b(?:TORCH|AT|C10|PYBIND11)_\w+")
_FUNCTION = re.compile(r"([A-Za-z_]\w*)\s*\([^{}]*\)[^{}();]*\{")
_NO_LINE_END = re.compile(r"[^\n]")
HIP_HEADER = "#include <hip/hip_runtime.h>"


def uses_pytorch(text: str) -> bool:
    """Whether a source includes headers of PyTorch."""
    return _INCLUDE.search(text) is not None


def keep_device_code(text: str) -> str:
    """The source without what needs PyTorch: includes of its headers, and host code that uses it, or calls what does.
    Lines keep their numbers."""
    opaque = blank_opaque(text)
    code = _DIRECTIVE.sub(_blank_match, opaque)
    host = [(start, end) for start, end in _iterate_items(code) if not _OF_DEVICE.search(code, start, end)]
    removed = {item for item in host if _OF_PYTORCH.search(code, *item)}
    while names := {match[1] for start, end in removed if (match := _FUNCTION.search(code, start, end))}:
        calls = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b")
        more = {item for item in host if item not in removed and calls.search(code, *item)}
        if not more:
            break
        removed |= more
    letters = list(text)
    for start, end in removed:
        letters[start:end] = _NO_LINE_END.sub(" ", text[start:end])
    for directive in _DIRECTIVE.finditer(opaque):  # which belong to no item
        letters[slice(*directive.span())] = text[slice(*directive.span())]
    headers = iter([HIP_HEADER])
    return _INCLUDE.sub(lambda _: next(headers, ""), "".join(letters))


def _blank_match(match: re.Match[str]) -> str:
    return _NO_LINE_END.sub(" ", match[0])


def _iterate_items(code: str) -> Iterator[tuple[int, int]]:
    """The definitions and declarations outside all braces but those of namespaces, as [start, end)."""
    start, depth = 0, 0
    for mark in re.finditer(r"[{};]", code):
        if mark[0] == "{":
            if depth == 0 and _OPENING.match(code, start, mark.start()):
                start = mark.end()
            else:
                depth += 1
            continue
        if mark[0] == "}":
            depth = max(0, depth - 1) if depth else 0
        if depth == 0:
            if mark[0] == ";" or code[start : mark.start()].strip():
                yield start, mark.end()
            start = mark.end()
