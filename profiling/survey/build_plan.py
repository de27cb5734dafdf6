"""How a program is built and run: the common result of make, CMake, compile commands, scripts and guessing."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.languages import SourceLanguage
from hipsynth.core.reasons import Reason


@dataclass(frozen=True)
class SourceUnit:
    """One file of a program. Folders are absolute."""

    path: Path
    language: SourceLanguage = SourceLanguage.HIP
    includes: tuple[Path, ...] = ()
    defines: tuple[str, ...] = ()  # NAME or NAME=VALUE
    undefines: tuple[str, ...] = ()
    standard: str = ""  # such as c++17
    options: tuple[str, ...] = ()  # options that affect device code: -O2, -ffast-math, -munsafe-fp-atomics
    preludes: tuple[Path, ...] = ()  # -include

    def flags(self) -> str:
        """The unit's compiler flags as one string, quoted for a shell."""
        argv = list(self.options)
        argv += [f"-std={self.standard}"] if self.standard else []
        argv += [f"-D{text}" for text in self.defines] + [f"-U{text}" for text in self.undefines]
        for folder in self.includes:
            argv += ["-I", str(folder)]
        for path in self.preludes:
            argv += ["-include", str(path)]
        return shlex.join(argv)


@dataclass(frozen=True)
class CodeObject:
    """A code object that the program loads at run time: compiled from `unit` to `output` in the run folder."""

    unit: SourceUnit
    output: Path


@dataclass(frozen=True)
class Invocation:
    """How a program is started in its folder: arguments, file on standard input, shell lines to run first."""

    arguments: tuple[str, ...] = ()
    stdin: str = ""
    before: tuple[str, ...] = ()


@dataclass(frozen=True)
class BuildPlan:
    """One way to build a program. `origin`: make, cmake, commands, script or guess; python or pytest for a Python file,
    which has no units."""

    name: str
    units: tuple[SourceUnit, ...]
    folder: Path  # working folder of build and run
    origin: str
    libraries: tuple[str, ...] = ()  # names after -l
    relocatable: bool = False  # -fgpu-rdc: device code of all files is linked
    code_objects: tuple[CodeObject, ...] = ()
    calls: tuple[Invocation, ...] = ()  # run lines from the build files, most likely first
    written: tuple[tuple[Path, str], ...] = ()  # (path, text) of files that configuring generates


NO_MAIN = Reason.NO_MAIN  # the refusal of a folder with HIP sources that belong to no main() of the surveyed folder


@dataclass(frozen=True)
class SurveyedProgram:
    """One program: the file with its main() and its build plans, most reliable first.

    `refusal`: (reason, message) if the file cannot be surveyed, such as CUDA source.
    """

    id: str  # path of the main file relative to the surveyed folder
    main: Path
    plans: tuple[BuildPlan, ...] = ()
    refusal: tuple[Reason, str] = (Reason.NONE, "")
    calls: tuple[Invocation, ...] = ()  # run lines from scripts and the documentation
    reads_arguments: bool = False  # main() uses its argument list
    libraries: tuple[str, ...] = ()  # external libraries whose headers it includes, GPU libraries first
    not_configured: str = ""  # why the nearest CMake project could not be configured, if one could not
