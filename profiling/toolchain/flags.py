"""Compiler flags as the user gives them: split, checked, and parted into what the device and the host side get."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from hipsynth.synth.core.errors import UsageError

# Flags with their value in the next word.
_PAIRED = frozenset({"-D", "-U", "-I", "-include", "-isystem", "-mllvm"})
# What a host compile gets of the user's flags: what decides the program's text, not how it is optimised.
_HOST_PREFIXES = ("-D", "-U", "-I", "-std=", "--std=", "-include", "-isystem")
OPENMP = "-fopenmp"  # for the host alone: threads of the program itself
# Flags that choose inputs, outputs, targets or tools: ours to choose.
_RESERVED_EXACT = frozenset(
    {"-o", "-c", "-S", "-E", "-x", "-v", "-###", "-M", "-MM", "-MD", "-MMD", "-T", "-Xclang", "-Xlinker", "-pipe"}
    | {"-Xoffload-linker", "--version", "--help", "-fsyntax-only", "-emit-llvm", "-emit-ast", "-shared", "-static"}
)
_RESERVED_PREFIXES = (
    "@", "-o", "--offload", "--cuda", "--rocm", "--hip", "--gpu", "-l", "-L", "-B", "-W", "-fplugin", "-fpass-plugin",
    "-load", "--sysroot", "-isysroot", "--config", "-fuse-ld", "-fuse-cuid", "--target", "-target", "-mprintf-kind",
    "-resource-dir", "-save-temps", "-specs", "--gcc", "-MF", "-MJ", "-fcrash", "-gen-reproducer", "-ftime-trace",
    "-fdiagnostics", "-fmodule", "-ivfs", "-no-canonical", "-print", "--print", "-dump", "-working-directory",
    "-stdlib", "-nogpu", "-fgpu-rdc", "-flto", "-fprofile", "-foffload", "-fopenmp=", "-fopenmp-", "-fcoverage",
    "-march", "-mcpu", "-fsanitize", "-serialize-diagnostics", "--serialize-diagnostics", "-fproc-stat", "-fsave",
    "-Xarch", "-Xcuda",
)  # fmt: skip
_QUIET = ("-Wall", "-Wextra", "-Werror", "-Wno-", "-Wpedantic")  # warnings change nothing here: accepted, dropped
_MLLVM_REFUSED = ("-load", "-o", "-info-output-file", "-time", "-print", "-debug", "-stats", "-help", "-version")


@dataclass(frozen=True)
class Flags:
    """`text` as given; `device` and `host` are argument lists; `plain` says whether a precompiled header may serve."""

    text: str
    device: tuple[str, ...]
    host: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """No flag that could change what hip_runtime.h means or where includes come from."""
        return not any(word.startswith(("-D", "-U", "-I", "-i")) for word in self.device)

    @property
    def names_files(self) -> bool:
        """Whether the flags bring in files or folders, so that a build depends on more than the source's folder."""
        return any(word.startswith(("-I", "-i")) for word in self.device)


@functools.lru_cache(maxsize=1024)
def parse(flags: str) -> Flags:
    """Splits like a shell and checks. Raises UsageError (reason "bad_flag") for flags that are ours to choose,
    stray words and unbalanced quotes; flags that clang does not know are found when it first sees them.
    """
    try:
        words = shlex.split(flags)
    except ValueError as error:
        raise _bad(flags, f"the flags cannot be split: {error}") from error
    device: list[str] = []
    host: list[str] = []
    position = 0
    while position < len(words):
        group = words[position : position + (2 if words[position] in _PAIRED else 1)]
        position += len(group)
        _check(flags, group)
        if group[0].startswith(_QUIET) or group[0] == "-w":
            continue
        group = _joined(group)
        if group[0] != OPENMP:
            device += group
        if group[0].startswith(_HOST_PREFIXES) or group[0] == OPENMP:
            host += group
    return Flags(flags, tuple(device), tuple(host))


def _joined(group: list[str]) -> list[str]:
    """`-D N=1` and `--std=c++17` in their one-word forms."""
    if group[0] in ("-D", "-U", "-I"):
        return [group[0] + group[1]]
    if group[0].startswith("--std="):
        return [group[0][1:]]
    return group


def _check(flags: str, group: Sequence[str]) -> None:
    word = group[0]
    if not word.startswith("-") or word == "-":
        raise _bad(flags, f"{word!r} is not a flag (no files or response files here)")
    if word in _PAIRED and len(group) < 2:
        raise _bad(flags, f"{word} wants a value")
    if word == "-mllvm" and group[1].lstrip("-").startswith(tuple(text.lstrip("-") for text in _MLLVM_REFUSED)):
        raise _bad(flags, f"-mllvm {group[1]} is not accepted")
    if word.startswith(_QUIET):
        return
    if word in _RESERVED_EXACT or word.startswith(_RESERVED_PREFIXES):
        raise _bad(flags, f"{word} chooses inputs, outputs, targets or tools, which this program chooses itself")


def _bad(flags: str, cause: str) -> UsageError:
    return UsageError(
        f"cannot use the compiler flags {flags!r}",
        cause=cause,
        remedy='flags that shape code are welcome, e.g. --flags="-O3 -ffast-math" or --flags=-DN=1024',
        reason="bad_flag",
    )
