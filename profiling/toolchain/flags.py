"""Splits and checks the user's compiler flags, and sorts them into device and host flags."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from hipsynth.synth.core.errors import UsageError

# Flags whose value is the next argument.
_PAIRED = frozenset({"-D", "-U", "-I", "-include", "-isystem", "-mllvm"})
# Flags passed to host compiles: those that affect preprocessing and language, not optimisation.
_HOST_PREFIXES = ("-D", "-U", "-I", "-std=", "--std=", "-include", "-isystem")
OPENMP = "-fopenmp"  # passed to the host side only
# Flags that choose inputs, outputs, targets or tools, which the toolchain sets itself.
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
_QUIET = ("-Wall", "-Wextra", "-Werror", "-Wno-", "-Wpedantic")  # accepted and ignored
_MLLVM_REFUSED = ("-load", "-o", "-info-output-file", "-time", "-print", "-debug", "-stats", "-help", "-version")


@dataclass(frozen=True)
class Flags:
    """Parsed flags. `text`: as given; `device`, `host`: argument lists for the two sides."""

    text: str
    device: tuple[str, ...]
    host: tuple[str, ...]

    @property
    def plain(self) -> bool:
        """Whether a precompiled header is usable: no flag affects hip_runtime.h or where includes are found."""
        return not any(word.startswith(("-D", "-U", "-I", "-i")) for word in self.device)

    @property
    def names_files(self) -> bool:
        """Whether the flags name files or folders, so that a build depends on more than the source's folder."""
        return any(word.startswith(("-I", "-i")) for word in self.device)


@functools.lru_cache(maxsize=1024)
def parse(flags: str) -> Flags:
    """Splits flags like a shell and checks them.

    Raises UsageError (reason "bad_flag") for reserved flags, arguments that are not flags and unbalanced quotes. Flags
    that clang does not know are reported later, by driver.template.
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
    """Normalizes `-D N=1` to `-DN=1` and `--std=` to `-std=`."""
    if group[0] in ("-D", "-U", "-I"):
        return [group[0] + group[1]]
    if group[0].startswith("--std="):
        return [group[0][1:]]
    return group


def _check(flags: str, group: Sequence[str]) -> None:
    word = group[0]
    if not word.startswith("-") or word == "-":
        raise _bad(flags, f"{word!r} is not a flag (files and response files are not allowed here)")
    if word in _PAIRED and len(group) < 2:
        raise _bad(flags, f"{word} requires a value")
    if word == "-mllvm" and group[1].lstrip("-").startswith(tuple(text.lstrip("-") for text in _MLLVM_REFUSED)):
        raise _bad(flags, f"-mllvm {group[1]} is not accepted")
    if word.startswith(_QUIET):
        return
    if word in _RESERVED_EXACT or word.startswith(_RESERVED_PREFIXES):
        raise _bad(flags, f"{word} chooses inputs, outputs, targets or tools, which hipsynth sets itself")


def _bad(flags: str, cause: str) -> UsageError:
    return UsageError(
        f"cannot use the compiler flags {flags!r}",
        cause=cause,
        remedy='use flags that affect code generation, e.g. --flags="-O3 -ffast-math" or --flags=-DN=1024',
        reason="bad_flag",
    )
