"""Names of kernels: from a signature or a mangled name to what the source calls the kernel."""

from __future__ import annotations

import re

_CLONE = " [clone .kd]"  # of kernel descriptors
_ANONYMOUS = "(anonymous namespace)"


def short_name(signature: str) -> str:
    """`void ns::axpy<float>(float, float*)` -> `ns::axpy<float>`: no return type, no parameters."""
    text = signature.removesuffix(_CLONE).replace(_ANONYMOUS, "{}")
    if text.endswith(")"):
        text = text[: _find_opening(text)]
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, ">": 1, "(": -1, "<": -1}.get(text[at], 0)
        if text[at] == " " and depth == 0:
            text = text[at + 1 :]
            break
    return text.replace("{}", _ANONYMOUS)


def base_name(name: str) -> str:
    """The word at a kernel's definition: `axpy` of `void ns::axpy<ns::T>(float*)` and of `_ZN2ns4axpyIDF16_EEvv`."""
    if name.startswith("_Z"):
        return _last_source_name(name[2:])
    text, depth, start = short_name(name), 0, 0
    for at, letter in enumerate(text):
        depth += {"<": 1, "(": 1, ">": -1, ")": -1}.get(letter, 0)
        if depth == 0 and text.startswith("::", at):
            start = at + 2
    return text[start:].partition("<")[0].strip()


def _find_opening(text: str) -> int:
    """The position of the bracket whose partner ends the text."""
    depth = 0
    for at in range(len(text) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def _last_source_name(mangled: str) -> str:
    """The last of the length-prefixed names that a mangled name begins with (Itanium C++ ABI, 5.1.3)."""
    name, rest = "", mangled.lstrip("NKL")
    while (digits := re.match(r"L?(\d+)", rest)) is not None:
        end = digits.end() + int(digits[1])
        name, rest = rest[digits.end() : end], rest[end:]
    return name
