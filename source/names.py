"""Kernel names: converts a mangled name or a signature to the name in the source."""

from __future__ import annotations

import functools
import subprocess

from hipsynth.toolchain import find_toolchain

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
    name = name.removesuffix(_CLONE)
    if name.startswith("_Z"):
        name = demangle(name)
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


@functools.lru_cache(maxsize=65536)
def demangle(symbol: str) -> str:
    """The signature that a mangled name stands for, by LLVM's demangler; a name that it does not know stays as it is.

    Takes a few milliseconds for each new name. Raises MissingDependency without the compiler's tools.
    """
    objdump = find_toolchain().objdump
    tool = objdump.with_name(objdump.name.replace("objdump", "cxxfilt"))
    process = subprocess.run([tool], input=f"{symbol}\n", capture_output=True, text=True, timeout=60, check=True)
    return process.stdout.rstrip("\n")
