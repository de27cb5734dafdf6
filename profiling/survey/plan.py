"""How a program is built and run: what every way of finding out (make, CMake, compile commands, guessing) gives."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class SourceUnit:
    """One file of a program; `language`: hip, c++ or c. Folders are absolute."""

    path: Path
    language: str = "hip"
    includes: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()  # NAME or NAME=VALUE
    undefines: tuple[str, ...] = ()
    standard: str = ""  # such as c++17
    options: tuple[str, ...] = ()  # what shapes device code: -O2, -ffast-math, -munsafe-fp-atomics
    preludes: tuple[Path, ...] = ()  # -include

    def flags(self) -> str:
        """The unit's compiler flags as one string, split like a shell does."""
        words = list(self.options)
        words += [f"-std={self.standard}"] if self.standard else []
        words += [f"-D{text}" for text in self.defines] + [f"-U{text}" for text in self.undefines]
        for folder in self.includes:
            words += ["-I", str(folder)]
        for path in self.preludes:
            words += ["-include", str(path)]
        return shlex.join(words)


@dataclass(frozen=True)
class CodeObject:
    """A file of device code that the program loads itself: compiled from `unit` to `output` in the run's folder."""

    unit: SourceUnit
    output: Path


@dataclass(frozen=True)
class Call:
    """How a program is started in its folder: arguments, file on its standard input, shell lines that run before."""

    arguments: tuple[str, ...] = ()
    stdin: str = ""
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildPlan:
    """One way to build a program. `origin` says who found it: make, cmake, commands, script or guess."""

    name: str
    units: tuple[SourceUnit, ...]
    folder: Path  # where it is built and run
    origin: str
    libraries: tuple[str, ...] = ()  # names after -l
    relocatable: bool = False  # -fgpu-rdc: device code of all files is linked
    code_objects: tuple[CodeObject, ...] = ()
    calls: tuple[Call, ...] = ()  # run lines found beside the program, the best first
    written: tuple[tuple[Path, str], ...] = ()  # files that configuring writes into the folders of the sources


@dataclass(frozen=True)
class Program:
    """One program: the file with its main(), and the ways to build it, the most trusted first.

    `refusal`: (reason, message) when the file cannot be a program for this survey, such as CUDA source.
    """

    id: str  # path of the main file relative to the surveyed folder
    main: Path
    plans: tuple[BuildPlan, ...] = ()
    refusal: tuple[str, str] = ("", "")
    calls: tuple[Call, ...] = ()  # run lines from scripts and the documentation
    reads_arguments: bool = False  # main() uses its argument list
    libraries: tuple[str, ...] = ()  # external libraries whose headers it includes, GPU libraries first
