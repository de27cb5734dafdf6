"""Turns compile and link command lines into build plans.

Input is the output of `make -n -w`, shell scripts or compile_commands.json. Each compiler call becomes a Step; steps
are connected through the files that they write and read.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from hipsynth.core.languages import SOURCE_SUFFIXES, SourceLanguage
from hipsynth.profiling.survey.build_plan import BuildPlan, CodeObject, SourceUnit

COMPILERS = re.compile(
    r"(?:hipcc|(?:amd|rocm-?)?clang(?:\+\+)?|g\+\+|gcc|c\+\+|cc|mpicxx|mpic\+\+|mpicc|nvcc)(?:-[\d.]+)?$"
)
_HOST_ONLY = re.compile(r"(?:g\+\+|gcc|c\+\+|cc|mpicxx|mpic\+\+|mpicc)(?:-[\d.]+)?$")
_ARCHIVERS = re.compile(r"(?:llvm-|hip)?ar$")
_DIRECTORY = re.compile(r"make(?:\[\d+\])?: (Entering|Leaving) directory ['`](.*)'$")
_STREAM_NUMBER = re.compile(r"((?:^|\s))\d(?=[<>])")  # the 2 of 2>&1
_PIECE = re.compile(r"""(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s'"\\;&|])+""")  # a word of the shell
_CONTROL = frozenset({";", "&&", "||", "|", "&", "(", ")", ";;"})
_IGNORED_WORDS = frozenset({"then", "else", "do", "{", "}", "!", "time", "exec", "env", "@", "-", "+"})
# Options with a separate value that do not affect what is compiled.
_SKIP_NEXT = frozenset(
    {"-MF", "-MT", "-MQ", "-Xlinker", "-Xcompiler", "-arch", "--offload-arch", "--amdgpu-target", "-target", "-T",
     "-framework", "-Xclang", "-u", "-z", "-rpath", "--compiler-options", "-gencode", "-ccbin", "-Xptxas", "-mllvm"}
)  # fmt: skip
_PLACES = ("-I", "-isystem", "-iquote", "-idirafter")
KEPT_OPTION = re.compile(r"-(?:O[0-3s]|Ofast|ffast-math|fno-fast-math|m(?:no-)?unsafe-fp-atomics|ffp-contract=\w+)$")
# Of the compilers' option -x; None: each file's own.
_LANGUAGES = {
    "hip": SourceLanguage.HIP, "cu": SourceLanguage.HIP, "cuda": SourceLanguage.HIP, "c++": SourceLanguage.CPP,
    "c": SourceLanguage.C, "none": None,
}  # fmt: skip
MOST_PATTERNS = 3  # parts of one path that are patterns; more would walk the whole file system
_MACHINE_CODE = frozenset({".o", ".obj", ".a", ".so", ".bc", ".lo"})


@dataclass
class CompileStep:
    """One compiler or archiver call."""

    folder: Path
    compiler: str
    inputs: list[Path] = field(default_factory=list)
    output: Path | None = None
    links: bool = True
    device_only: bool = False
    relocatable: bool = False
    archive: bool = False
    libraries: list[str] = field(default_factory=list)
    units: list[SourceUnit] = field(default_factory=list)


class Command(NamedTuple):
    """A simple shell command: working folder, argv without redirections, redirected input and output."""

    folder: Path
    words: list[str]
    stdin: str = ""
    stdout: str = ""  # including the operator, > or >>

    def text(self) -> str:
        """The command as one shell line that works from any folder."""
        sent = f" < {shlex.quote(self.stdin)}" if self.stdin else ""
        return f"cd {shlex.quote(str(self.folder))} && {shlex.join(self.words)}{sent} {self.stdout}".rstrip()


def simple_commands(text: str, folder: Path) -> Iterator[Command]:
    """Yields the simple shell commands in a script or in the output of `make -n -w`, tracking folder changes."""
    stack = [folder]
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        match = _DIRECTORY.match(line)
        if match:
            if match.group(1) == "Entering":
                stack.append(Path(match.group(2)))
            elif len(stack) > 1:
                stack.pop()
            continue
        yield from _split_line(line, stack[-1])


def _split_line(line: str, folder: Path) -> Iterator[Command]:
    lexer = shlex.shlex(_STREAM_NUMBER.sub(r"\1", _strip_comment(line)), posix=True, punctuation_chars=";&|()<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        words = [*lexer, ";"]
    except ValueError:
        return
    current: list[str] = []
    streams = {"<": "", ">": ""}
    redirection = ""
    for word in words:
        if redirection:
            streams |= {redirection[0]: word if redirection == "<" else f"{redirection} {shlex.quote(word)}"}
            redirection = ""
        elif word in _CONTROL:
            if current[:1] == ["cd"] and len(current) == 2:
                folder = Path(os.path.normpath(folder / current[1]))
            elif current:
                yield Command(folder, current, streams["<"], streams[">"])
            current, streams = [], {"<": "", ">": ""}
        elif set(word) <= set("<>&") and word:
            redirection = word if word in ("<", ">", ">>") else "&"
        elif current or not (word in _IGNORED_WORDS or re.match(r"\w+=", word)):
            current.append(word)


def _strip_comment(line: str) -> str:
    """The line without a comment: from a `#` that begins a word outside of quotes."""
    for piece in _PIECE.finditer(line):
        if piece[0].startswith("#"):
            return line[: piece.start()]
    return line


def is_build_step(words: list[str]) -> bool:
    """Whether a command calls a compiler or an archiver."""
    return _compiler_at(words) is not None or bool(_ARCHIVERS.match(Path(words[0]).name))


def _compiler_at(words: list[str]) -> int | None:
    return next((n for n, word in enumerate(words[:3]) if COMPILERS.match(Path(word).name)), None)


def steps_of(commands: Iterable[Command]) -> list[CompileStep]:
    """Parses the compiler and archiver calls among commands; other commands are skipped."""
    steps = []
    for folder, words, *_ in commands:
        at = _compiler_at(words)
        if at is not None:
            steps.append(parse_compiler(words[at:], folder))
        elif words and _ARCHIVERS.match(Path(words[0]).name) and len(words) > 2:
            names = [word for word in words[2:] if not word.startswith("-")]
            paths = [_resolve_path(folder, word) for word in names]
            steps.append(CompileStep(folder, "ar", paths[1:], paths[0] if paths else None, links=False, archive=True))
        elif words[1:3] == ["-E", "copy"] and len(words) == 5:  # by CMake
            source, target = (_resolve_path(folder, word) for word in words[3:])
            steps += [replace(step, output=target) for step in steps if step.output == source and step.device_only]
    return steps


def parse_compiler(words: list[str], folder: Path) -> CompileStep:
    """Parses the argv of one compiler call run in `folder`."""
    return _CompilerCall(words, folder).step


class _CompilerCall:
    """Parses a compiler's argv from left to right into `step`."""

    def __init__(self, words: list[str], folder: Path) -> None:
        self.folder = folder
        self.step = CompileStep(folder, Path(words[0]).name)
        self.model = SourceUnit(folder)
        self.language: SourceLanguage | None = None
        self.sources: list[tuple[Path, SourceLanguage]] = []
        self.rest = iter(words[1:])
        for word in self.rest:
            self._take(word)
        for path, language in self.sources:
            self.step.units.append(replace(self.model, path=path, language=language))
        self._default_output()

    def _take(self, word: str) -> None:
        step = self.step
        if word == "-o":
            step.output = _resolve_path(self.folder, next(self.rest, "a.out"))
        elif word in ("-c", "-S", "-E", "-M", "-MM", "-fsyntax-only", "-shared"):
            step.links = False
        elif word in ("--genco", "--cuda-device-only", "--offload-device-only"):
            step.links, step.device_only = False, True
        elif word == "-fgpu-rdc":
            step.relocatable = True
        elif word == "-x":
            self.language = _LANGUAGES.get(next(self.rest, ""))
        elif word in _SKIP_NEXT:
            next(self.rest, None)
        elif word.startswith("-"):
            self._option(word)
        else:
            self._file(word)

    def _option(self, word: str) -> None:
        model = self.model
        place = next((name for name in _PLACES if word.startswith(name)), None)
        if place:
            value = word[len(place) :] or next(self.rest, ".")
            self.model = replace(model, includes=(*model.includes, _resolve_path(self.folder, value)))
        elif word.startswith("-D"):
            self.model = replace(model, defines=(*model.defines, word[2:] or next(self.rest, "")))
        elif word.startswith("-U"):
            self.model = replace(model, undefines=(*model.undefines, word[2:] or next(self.rest, "")))
        elif word == "-include":
            self.model = replace(model, preludes=(*model.preludes, _resolve_path(self.folder, next(self.rest, ""))))
        elif word.startswith(("-std=", "--std=")):
            self.model = replace(model, standard=word.partition("=")[2])
        elif word.startswith("-l"):
            self.step.libraries.append(word[2:] or next(self.rest, ""))
        elif word.startswith("-fopenmp"):
            self.step.libraries.append("omp")
        elif word == "-L":
            next(self.rest, None)
        elif KEPT_OPTION.match(word):
            self.model = replace(model, options=(*model.options, word))

    def _file(self, word: str) -> None:
        if sum(any(mark in part for mark in "*?[") for part in Path(word).parts) in range(1, MOST_PATTERNS + 1):
            word = re.sub(r"\*+", "*", word)  # expand globs as the shell would, where ** is *
            base, pattern = (Path("/"), word.lstrip("/")) if word.startswith("/") else (self.folder, word)
            try:
                matches = sorted(base.glob(pattern))
            except OSError:  # a folder has gone meanwhile
                matches = []
            for path in matches:
                self._add(Path(os.path.normpath(path)))
        else:
            self._add(_resolve_path(self.folder, word))

    def _add(self, path: Path) -> None:
        if path.suffix in SOURCE_SUFFIXES or self.language:
            self.sources.append((path, self.language or self._language_of(path)))
        elif path.suffix in _MACHINE_CODE or ".so." in path.name:
            self.step.inputs.append(path)

    def _language_of(self, path: Path) -> SourceLanguage:
        if path.suffix in (".hip", ".cu"):
            return SourceLanguage.HIP
        if path.suffix == ".c":
            return SourceLanguage.C
        return SourceLanguage.CPP if _HOST_ONLY.match(self.step.compiler) else SourceLanguage.HIP

    def _default_output(self) -> None:
        if self.step.output is None and self.step.units:
            name = "a.out" if self.step.links else self.step.units[0].path.stem + ".o"
            self.step.output = self.folder / name


def _resolve_path(folder: Path, word: str) -> Path:
    return Path(os.path.normpath(folder / word))


def plans_of(steps: Iterable[CompileStep], folder: Path, origin: str) -> list[BuildPlan]:
    """One plan per link step, with all units behind its objects and archives. `origin` is stored in the plans."""
    return [plan for _, plan in linked_plans(steps, folder, origin)]


def linked_plans(steps: Iterable[CompileStep], folder: Path, origin: str) -> Iterator[tuple[CompileStep, BuildPlan]]:
    """Like `plans_of`, each plan with its link step."""
    compile_steps: dict[Path, CompileStep] = {}
    loose: list[CodeObject] = []
    for step in steps:
        if step.output is not None:
            compile_steps[step.output] = step
        if step.device_only and step.output is not None:
            loose += [CodeObject(unit, step.output) for unit in step.units]
    for step in compile_steps.values():
        if step.links and (step.units or step.inputs):
            units, libraries, relocatable = _collect_units(step, compile_steps)
            name = step.output.name if step.output else ""
            if units:
                yield (
                    step,
                    BuildPlan(name, tuple(units), folder, origin, tuple(libraries), relocatable, tuple(loose)),
                )


def _collect_units(
    step: CompileStep, compile_steps: dict[Path, CompileStep]
) -> tuple[list[SourceUnit], list[str], bool]:
    """Units, external libraries and relocatability behind a step; -lNAME resolves to an archive built by a step."""
    units: dict[Path, SourceUnit] = {}
    libraries: list[str] = []
    relocatable = False
    queue, visited = [step], set()
    while queue:
        current = queue.pop(0)
        if id(current) in visited:
            continue
        visited.add(id(current))
        relocatable = relocatable or current.relocatable
        for unit in current.units:
            units.setdefault(unit.path, unit)
        for name in current.libraries:
            inside = [compile_steps[path] for path in compile_steps if path.name in (f"lib{name}.a", f"lib{name}.so")]
            queue += inside
            libraries += [] if inside else [name]
        queue += [compile_steps[path] for path in current.inputs if path in compile_steps]
    return list(units.values()), list(dict.fromkeys(libraries)), relocatable
