"""Compares assembly before and after a front-end pass: it must be identical except for symbol names.

Every symbol is replaced by the number of its first appearance, so two listings are equal only if all instructions,
operands, offsets, sections and data are equal and symbols correspond one to one.
"""

from __future__ import annotations

import difflib
import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import CompileFailed, MissingDependency

# Lines that only carry names, paths or versions.
_DROPPED = re.compile(r"^\s*(?:\.file\b|\.ident\b|\.addrsig|\.section\s+\"?\.note\.GNU-stack|;|#|//)")
_COMMENT = re.compile(r"\s+(?:;|#|//)(?!ASM).*$")
_WORD = re.compile(r"[\w$.]+")
_DEFINES = re.compile(
    r"^\s*(?:\.globl|\.weak|\.hidden|\.protected|\.local|\.type|\.comm|\.lcomm|\.set|\.size|\.amdhsa_kernel"
    r"|\.amdgpu_lds)\s+([\w$.]+)|^([A-Za-z_$.][\w$.]*):"
)
_CUID = re.compile(r"__hip_cuid_[0-9a-f]+")
_ARGUMENT = re.compile(r"^( {6,}(?:- )?\.name:\s+)\S")  # of a kernel's argument; the kernel's own is less indented
_METADATA = re.compile(r"^\s*(?:- )?\.(?!name\b|symbol\b)\w+:\s")
_STRING = re.compile(r'^(\s*\.asciz\s+)"(.*)"$')


def normalise(assembly: str) -> list[str]:
    """The lines of a listing with symbols numbered in order of appearance, without comments and file names.

    Covers `clang -S` output for AMDGPU and x86-64, the metadata block of AMDGPU code objects included.
    """
    lines = [_CUID.sub("__hip_cuid_", line.rstrip()) for line in assembly.splitlines()]
    lines = [_COMMENT.sub("", line) if '"' not in line else line for line in lines if line and not _DROPPED.match(line)]
    numbers: dict[str, str] = {}
    symbols = _symbols(lines)

    def number(match: re.Match[str]) -> str:
        word = match[0]
        if word in symbols:
            return name(word)
        local = word.startswith(".L") and word.split(".")[1][1:] in symbols
        if local:  # .L<symbol>.<what>: the compiler's own labels about a symbol
            return ".L" + number_parts(word[2:])
        return number_parts(word)

    def number_parts(word: str) -> str:
        return ".".join(name(p) if p in symbols else p for p in word.split("."))

    def name(symbol: str) -> str:
        return numbers.setdefault(symbol, f"sym{len(numbers)}")

    return [_line(line, number, symbols) for line in _without_name_sizes(lines, symbols)]


def _without_name_sizes(lines: Sequence[str], symbols: set[str]) -> Iterator[str]:
    """Drops the `.size` of strings that hold a symbol's name, because it is the length of the name."""
    previous = ""
    for line in lines:
        string = _STRING.match(previous)
        if not (string and string[2] in symbols and line.lstrip().startswith(".size")):
            yield line
        previous = line


def _symbols(lines: Sequence[str]) -> set[str]:
    found = set()
    for line in lines:
        match = _DEFINES.match(line)
        if match:
            found.add(match[1] or match[2])
    return {s for s in found if s.startswith(".L__const.") or not s.startswith((".", "__hip_cuid_"))}


def _line(line: str, number: Callable[[re.Match[str]], str], symbols: set[str]) -> str:
    argument = _ARGUMENT.match(line)
    if argument:
        return argument[1] + "ARG"
    if _METADATA.match(line):
        return line
    string = _STRING.match(line)
    if string and string[2].partition("\\000")[0] not in symbols:
        return line
    return _WORD.sub(number, line)


def compare(before: str, after: str) -> list[str]:
    """A unified diff of two listings after normalisation; empty if they are identical."""
    return list(difflib.unified_diff(normalise(before), normalise(after), "before", "after", lineterm="", n=2))


@dataclass(frozen=True)
class Assembler:
    """Compiles sources to assembly: a clang++ and the driver arguments that find HIP's headers and bitcode.

    `headers`: a folder for HIP's headers, which take most of the time: compiled once for each set of flags.
    """

    compiler: str
    args: tuple[str, ...]
    headers: Path
    timeout: float = 120.0

    def device(self, text: bytes, arch: str, flags: Sequence[str] = ("-O3",), folder: str | None = None) -> str:
        """Device assembly for one architecture."""
        return self._run(
            text, (f"--offload-arch={arch}", "--cuda-device-only", "--no-gpu-bundle-output", *flags), folder
        )

    def host(self, text: bytes, flags: Sequence[str] = ("-O1",), folder: str | None = None) -> str:
        """Host assembly; the device side is not compiled."""
        return self._run(text, ("--offload-arch=gfx90a", "--cuda-host-only", "-fuse-cuid=none", *flags), folder)

    def _run(self, text: bytes, more: Sequence[str], folder: str | None) -> str:
        quote = ("-iquote", folder) if folder else ()
        return self._compile(text, (*quote, *more, *self._use_headers(more), "-o", "-")).decode()

    def _use_headers(self, more: Sequence[str]) -> Sequence[str]:
        """The flags that load HIP's headers; none where macros or folders may change them."""
        if any(flag.startswith(("-D", "-I")) for flag in more):
            return ()
        path = self.headers / f"{'_'.join(more)}.pch"
        if not path.exists():
            self._compile(b"#include <hip/hip_runtime.h>\n", (*more, "-Xclang", "-emit-pch", "-o", str(path)))
        return "-Xclang", "-include-pch", "-Xclang", str(path)

    def _compile(self, text: bytes, more: Sequence[str]) -> bytes:
        command = [self.compiler, *self.args, "-w", "-S", *more, "-"]
        try:
            done = subprocess.run(command, input=text, capture_output=True, timeout=self.timeout, check=False)
        except FileNotFoundError as error:
            raise MissingDependency(f"{self.compiler} is not installed", remedy="run `synth doctor`") from error
        except subprocess.TimeoutExpired as error:
            raise CompileFailed("the compiler did not finish", cause=f"over {self.timeout} s") from error
        if done.returncode != 0:
            raise CompileFailed("the program does not compile", diagnostics=done.stderr.decode(errors="replace"))
        return done.stdout
