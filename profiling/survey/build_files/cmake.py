"""Build plans from a CMakeLists.txt: CMake itself configures it in the sandbox, ninja tells the commands it would run.

Nothing is built. The compilers are known from the start, so CMake does not test them; packages are stand-ins
(stand_ins.cmake). A project that fails is configured again with what it may lack: packages besides those of ROCm, or a
copy of its folder that it can write to.
"""

from __future__ import annotations

import functools
import importlib.metadata
import itertools
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hipsynth import toolchain
from hipsynth.core.folders import copy_folder
from hipsynth.core.languages import INCLUDED_SUFFIXES
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.survey.build_files import rocm
from hipsynth.profiling.survey.build_files.commands import linked_plans, simple_commands, steps_of
from hipsynth.profiling.survey.build_files.run_lines import seen_from
from hipsynth.profiling.survey.build_plan import BuildPlan, CodeObject, Invocation
from hipsynth.profiling.survey.libraries import present_packages
from hipsynth.profiling.survey.sources import read_text
from hipsynth.toolchain import sandbox

_LIMITS = sandbox.SandboxLimits(
    **sandbox.time_limits(20),
    memory_bytes=1 << 30,
    output_bytes=8 << 20,
    file_bytes=16 << 20,
    scratch_bytes=256 << 20,
    processes=64,
)
_STAND_INS = Path(__file__).resolve().with_name("stand_ins.cmake")
_TOOL_PACKAGES = "git|perl|pkgconfig|python3?|pythoninterp"  # CMake searches these itself
_SWITCHES = [f"{verb}_{name}" for verb in ("COMPILE", "ENABLE", "USE", "WITH", "BUILD") for name in ("HIP", "ROCM")]
_COMPILERS = {"C": "amdclang", "CXX": "hipcc", "HIP": "amdclang++"}
# What CMake would find out with compilations, for each language.
_COMPILER_FACTS = {
    "COMPILER_ID": "Clang",
    "COMPILER_ID_RUN": "1",
    "COMPILER_FRONTEND_VARIANT": "GNU",
    "COMPILER_WORKS": "1",
    "COMPILER_AR": f"{rocm.PLACE}/bin/ar",
    "COMPILER_RANLIB": f"{rocm.PLACE}/bin/ranlib",
    "ABI_COMPILED": "1",
    "SIZEOF_DATA_PTR": "8",
    "STANDARD_COMPUTED_DEFAULT": "17",
    "EXTENSIONS_COMPUTED_DEFAULT": "ON",
}
_HIP_STANDARDS = (98, 11, 14, 17, 20, 23, 26)
_BINUTILS = ("ADDR2LINE", "AR", "DLLTOOL", "LINKER", "NM", "OBJCOPY", "OBJDUMP", "RANLIB", "READELF", "STRIP")
_SETTINGS = {
    "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
    "CMAKE_PREFIX_PATH": rocm.PLACE,
    "CMAKE_SIZEOF_VOID_P": "8",
    "CMAKE_SKIP_RPATH": "ON",
    "CMAKE_CUDA_COMPILER": "NOTFOUND",
    "CMAKE_HIP_PLATFORM": "amd",
    "CMAKE_HIP_COMPILER_ROCM_ROOT": rocm.PLACE,
    "CMAKE_HIP_COMPILER_ROCM_LIB": f"{rocm.PLACE}/lib",
    # CMake knows what C and C++ compilers can do, but asks one for HIP.
    "CMAKE_HIP_COMPILER_FORCED": "1",
    "CMAKE_HIP_COMPILE_FEATURES": ";".join(f"hip_std_{number}" for number in _HIP_STANDARDS),
    **{f"CMAKE_HIP{number}_COMPILE_FEATURES": f"hip_std_{number}" for number in _HIP_STANDARDS},
    **{f"CMAKE_{tool}": f"{rocm.PLACE}/bin/{tool.lower()}" for tool in _BINUTILS},
    "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
    "HIP_HIPCC_EXECUTABLE": f"{rocm.PLACE}/bin/hipcc",
    "HIP_COMPILER": "clang",
    "HIP_RUNTIME": "rocclr",
    "HIP_PLATFORM": "amd",
    "MODEL": "hip",  # mini-apps with several programming models select one with this variable
    **dict.fromkeys(_SWITCHES, "ON"),
    "HIPSYNTH_SWITCHES": f"(^|_)({'|'.join(_SWITCHES)})$",
    "HIPSYNTH_TOOLS": _TOOL_PACKAGES,
}
_QUERY = ".cmake/api/v1/query/codemodel-v2"
PACKAGES, COPY = "packages", "copy"
_TURNED_DOWN = "hipsynth-turned-down"  # a file that stand_ins.cmake makes if an optional package is not found
MOST_FILES, MOST_WRITTEN, MOST_CHARS = 20_000, 200, 1 << 20
_ERROR = re.compile(
    r"^CMake Error(?: at ([^\n]+?:\d+)[^\n]*?| in ([^\n]+?))?:\s*(\S[^\n]*(?:\n  \S[^\n]*)*)", re.MULTILINE
)
_CANNOT_WRITE = re.compile(r"Read-only file system|open(?:ed)?(?: file)? for writ", re.IGNORECASE)
_NAME = re.compile(r"\w[\w./+@:-]*")
_TEST = re.compile(r"^add_test\(\S+ (.*)\)$", re.MULTILINE)
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"')


@dataclass(frozen=True)
class CMakeConfiguration:
    """The result of configuring: `plans` of all programs, `folders` that were read; or the `problem` why not.

    `stopped`: it exceeded a limit. `lacks`: what it might succeed with, PACKAGES or COPY.
    """

    plans: tuple[BuildPlan, ...] = ()
    folders: frozenset[Path] = frozenset()
    problem: str = ""
    stopped: bool = False
    lacks: frozenset[str] = frozenset()


@dataclass(frozen=True)
class _Target:
    """An executable: its CMakeLists.txt is in `source`; `binary`: the folder in which CMake would build it."""

    name: str
    source: Path
    binary: Path
    output: Path


def cmake_plans(listfile: Path, root: Path, arch: str, shows: Sequence[Path] = ()) -> CMakeConfiguration:
    """Configures the project of `listfile` for `arch`, with default options.

    `root` and `shows` are all that CMake sees of the user's files. Generated files are part of the plans, under the
    names that they would have if the project were built in its own folder.
    """
    if not (_package_program("cmake") and _package_program("ninja") and sandbox.is_available()):
        return CMakeConfiguration(
            problem="CMake projects need the packages cmake and ninja, and the sandbox: see `synth doctor`"
        )
    granted: frozenset[str] = frozenset()
    first: CMakeConfiguration | None = None
    while True:
        with scratch_folder() as scratch:
            configured = _Run(listfile, root, arch, shows, scratch, granted).configured()
        first = first or configured
        if not configured.lacks - granted:
            return first if configured.problem else configured
        granted |= configured.lacks


class _Run:
    """One configuration, in folders below `scratch`. `granted`: of PACKAGES and COPY."""

    def __init__(
        self, listfile: Path, root: Path, arch: str, shows: Sequence[Path], scratch: Path, granted: frozenset[str]
    ) -> None:
        self.top, self.root, self.arch, self.granted = listfile.parent, root, arch, granted
        self.work = scratch.resolve() / "work"
        self.build, self.copy = self.work / "build", self.work / "copy"
        self.compiler = toolchain.find_toolchain()
        cmake, ninja = _package_program("cmake"), _package_program("ninja")
        assert cmake and ninja
        self.cmake, self.ninja = cmake, ninja
        self.mounts = {rocm.PLACE: rocm.stand_in(scratch / "rocm", arch, _tool_scripts(self.compiler))}
        self.shows = [root, *shows, self.cmake.parents[1], self.ninja, _STAND_INS, *self.compiler.folders]

    def configured(self) -> CMakeConfiguration:
        query = self.build / _QUERY
        query.parent.mkdir(parents=True)
        query.touch()
        source = self.top
        if COPY in self.granted:
            copy_folder(self.root, self.copy)
            source = self.copy / self.top.relative_to(self.root)
        settings = [f"-D{name}={value}" for name, value in self._cache_variables().items()]
        quiet = ("--log-level=ERROR", "-Wno-author", "-Wno-deprecated", "-Wno-unused-cli")
        process = self._run_cmake([self.cmake, "-S", source, "-B", self.build, "-G", "Ninja", *quiet, *settings])
        if process.status != sandbox.JobStatus.OK:
            return self._describe_failure(process)
        targets, names, folders = self._read_reply()
        built = self._run_cmake([self.ninja, "-C", self.build, "-t", "commands", *names])
        if built.status != sandbox.JobStatus.OK:
            return self._describe_failure(built)
        plans = self._make_plans(built.stdout, {target.output: target for target in targets})
        return CMakeConfiguration(tuple(plans), frozenset(folders))

    def _run_cmake(self, command: Sequence[str | Path]) -> sandbox.SandboxResult:
        return sandbox.run_sandboxed(
            command, self.work, _LIMITS, read_only=self.shows, env=rocm.ENVIRONMENT, mounts=self.mounts
        )

    def _cache_variables(self) -> dict[str, str | Path]:
        """The cache variables."""
        version = self.compiler.compiler_version.split("version ")[-1].split()[0]
        settings: dict[str, str | Path] = {
            **_SETTINGS,
            "CMAKE_PROJECT_TOP_LEVEL_INCLUDES": _STAND_INS,
            "CMAKE_MAKE_PROGRAM": self.ninja,
            "CMAKE_HIP_ARCHITECTURES": self.arch,
            "HIPSYNTH_PRESENT": present_packages(),
            "HIPSYNTH_VERSION": self.compiler.headers_version.split()[-1],
            "HIPSYNTH_ALL": "ON" if PACKAGES in self.granted else "OFF",
            "HIPSYNTH_TURNED_DOWN": self.build / _TURNED_DOWN,
        }
        for language, name in _COMPILERS.items():
            facts = {"COMPILER": f"{rocm.PLACE}/bin/{name}", "COMPILER_VERSION": version, **_COMPILER_FACTS}
            settings |= {f"CMAKE_{language}_{fact}": value for fact, value in facts.items()}
        return settings

    def _describe_failure(self, process: sandbox.SandboxResult) -> CMakeConfiguration:
        """CMake's first error in one line, or the limit that it exceeded."""
        if process.status in (sandbox.JobStatus.TIMEOUT, sandbox.JobStatus.KILLED):
            return CMakeConfiguration(problem=f"CMake exceeded its limit on {process.reason}", stopped=True)
        error = _ERROR.search(process.stderr)
        message = process.stderr if error is None else ": ".join(filter(None, (error[1] or error[2], error[3])))
        lacks = {PACKAGES} if (self.build / _TURNED_DOWN).exists() else set()
        lacks |= {COPY} if _CANNOT_WRITE.search(process.stderr) else set()
        problem = " ".join(self._restore_paths(message).split())
        return CMakeConfiguration(problem=f"CMake: {problem}"[:300], lacks=frozenset(lacks))

    # --- what CMake and ninja answered; a project may have changed any of it ---

    def _read_reply(self) -> tuple[list[_Target], list[str], set[Path]]:
        """The executables, the names of them and of custom targets, and the source folders, from CMake's file API."""
        replies = self.build / ".cmake/api/v1/reply"
        targets: list[_Target] = []
        others: list[str] = []
        try:
            index = max(path.name for path in replies.glob("index-*.json"))
            (model,) = (entry for entry in self._read_json(replies / index)["objects"] if entry["kind"] == "codemodel")
            configuration = self._read_json(replies / model["jsonFile"])["configurations"][0]
            folders = {self._own_path(self.top / entry["source"]) for entry in configuration["directories"]}
            for entry in configuration["targets"]:
                target = self._read_json(replies / entry["jsonFile"])
                if target["type"] == "EXECUTABLE":
                    paths = target["paths"]
                    source, binary = self._own_path(self.top / paths["source"]), self.build / paths["build"]
                    if source.resolve().is_relative_to(self.root):
                        output = _normalise_path(self.build / target["artifacts"][0]["path"])
                        targets.append(_Target(target["name"], source, self._own_path(binary), self._own_path(output)))
                elif target["type"] == "UTILITY":
                    others.append(target["name"])
            names = [name for name in (*(target.name for target in targets), *others) if _NAME.fullmatch(name)]
        except (ValueError, KeyError, TypeError, AttributeError, OSError, RuntimeError):
            return [], [], set()
        return targets, names, {_normalise_path(folder) for folder in folders}

    def _read_json(self, path: Path) -> Any:
        return json.loads(read_text(path, self.work))

    def _own_path(self, path: Path) -> Path:
        return Path(self._restore_paths(str(path)))

    def _restore_paths(self, text: str) -> str:
        """Text with the paths of the user's folders in place of those that do not outlive the run."""
        return text.replace(str(self.build), str(self.top)).replace(str(self.copy), str(self.root))

    def _make_plans(self, text: str, targets: Mapping[Path, _Target]) -> Iterator[BuildPlan]:
        written = tuple(self._generated_files())
        calls = self._test_calls(targets)
        commands = (
            command._replace(
                folder=self._own_path(command.folder), words=[self._restore_paths(word) for word in command.words]
            )
            for command in simple_commands(text, self.build)
        )
        for step, plan in linked_plans(steps_of(commands), self.top, "cmake"):
            target = targets.get(step.output) if step.output else None
            if target is not None:
                yield replace(
                    plan,
                    folder=target.source,
                    code_objects=tuple(_loaded_objects(plan.code_objects, target)),
                    calls=tuple(calls.get(target.output, ())),
                    written=written,
                )

    def _generated_files(self) -> Iterator[tuple[Path, str]]:
        """The sources and headers that configuring generated."""
        generated = (path for path in self._list_generated() if "CMakeFiles" not in path.parts)
        named = (path for path in generated if path.suffix in INCLUDED_SUFFIXES)
        for path in sorted(path for path in named if not path.is_symlink())[:MOST_WRITTEN]:
            text = self._restore_paths(read_text(path, self.work))
            if not self._own_path(path).exists() and len(text) <= MOST_CHARS:
                yield self._own_path(path), text

    def _list_generated(self) -> Iterator[Path]:
        walk = (Path(place) / name for place, _, names in os.walk(self.work) for name in names)
        yield from itertools.islice(walk, MOST_FILES)

    def _test_calls(self, targets: Mapping[Path, _Target]) -> dict[Path, list[Invocation]]:
        """Output of an executable -> its calls in tests."""
        invocations: dict[Path, list[Invocation]] = {}
        named = {name: target for target in targets.values() for name in (target.name, str(target.output))}
        for file in sorted(path for path in self._list_generated() if path.name == "CTestTestfile.cmake"):
            for line in _TEST.findall(read_text(file, self.work)):
                words = [self._restore_paths(re.sub(r"\\(.)", r"\1", word)) for word in _QUOTED.findall(line)]
                at = next((n for n, word in enumerate(words) if word in named), None)
                if at is not None:
                    target = named[words[at]]
                    rest = (seen_from(target.source, target.source, word, self.root) for word in words[at + 1 :])
                    invocations.setdefault(target.output, []).append(Invocation(tuple(rest)))
        return invocations


@functools.cache
def _package_program(package: str) -> Path | None:
    """The executable named like a package of this Python's environment, wherever the package puts it."""
    try:
        files = importlib.metadata.files(package) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    paths = [file for file in files if file.parts[-2:] == ("bin", package)]
    paths.sort(key=lambda file: file.parts[0] == "..")  # in the package itself: no script that starts it
    return next((Path(path.locate()).resolve() for path in paths), None)


def _tool_scripts(tools: toolchain.Toolchain) -> dict[str, str]:
    """Scripts for the tools that CMake runs. Compilers are real ones, for the checks that a project makes of them."""
    flags = shlex.join(["-D__HIP_PLATFORM_AMD__=1", f"--rocm-path={tools.root}", *tools.include_flags])
    call = f'exec {shlex.quote(str(tools.clang))} {flags} {{}} "$@"'
    names = ("hipcc", "amdclang++", "clang++")
    return {
        **dict.fromkeys(names, call.format("--driver-mode=g++")),
        **dict.fromkeys(("amdclang", "clang"), call.format("--driver-mode=gcc")),
        **dict.fromkeys(("ar", "ranlib"), ""),
        "git": 'test "$1" = --version || exit 1; echo git version 2.40.0',
    }


def _loaded_objects(objects: Sequence[CodeObject], target: _Target) -> Iterator[CodeObject]:
    """The code objects of the target's folder, with the place in it where the program, run there, looks for them."""
    for object_path in objects:
        above = next(
            (place for place in (target.binary, target.output.parent) if object_path.output.is_relative_to(place)), None
        )
        if above is not None and object_path.unit.path.is_relative_to(target.source):
            yield replace(object_path, output=target.source / object_path.output.relative_to(above))


def _normalise_path(path: Path) -> Path:
    return Path(os.path.normpath(path))
