"""Build plans from a CMakeLists.txt: CMake itself configures it in the sandbox, ninja tells the commands it would run.

Nothing is built. The compilers are known from the start, so CMake does not test them; packages are stand-ins
(stand_ins.cmake). A project that cannot be configured with only ROCm present is configured again with all packages.
"""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cmake
import ninja

from hipsynth.profiling import sandbox, toolchain
from hipsynth.profiling.survey.build_files import rocm
from hipsynth.profiling.survey.build_files.calls import seen_from
from hipsynth.profiling.survey.build_files.commands import linked_plans, simple_commands, steps_of
from hipsynth.profiling.survey.libraries import present_packages
from hipsynth.profiling.survey.plan import BuildPlan, Call, CodeObject
from hipsynth.profiling.survey.sources import HEADER_ENDINGS, SOURCE_ENDINGS, read_text
from hipsynth.synth.core.scratch import scratch_folder

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
_STANDARDS = (98, 11, 14, 17, 20, 23, 26)
_BINUTILS = ("ADDR2LINE", "AR", "DLLTOOL", "LINKER", "NM", "OBJCOPY", "OBJDUMP", "RANLIB", "READELF", "STRIP")
_QUERY = ".cmake/api/v1/query/codemodel-v2"
MOST_FILES, MOST_WRITTEN, MOST_CHARS = 20_000, 200, 1 << 20
_KEPT_ENDINGS = (HEADER_ENDINGS | SOURCE_ENDINGS) - {""}
_ERROR = re.compile(r"^CMake Error(?: at ([^\n]+?:\d+)[^\n]*?| in ([^\n]+?))?:\s*(\S[^\n]*)", re.MULTILINE)
_TEST = re.compile(r"^add_test\(\S+ (.*)\)$", re.MULTILINE)
_QUOTED = re.compile(r'"((?:\\.|[^"\\])*)"')


@dataclass(frozen=True)
class Configured:
    """The result of configuring: `plans` of all programs, `folders` that were read; or the `problem` why not."""

    plans: tuple[BuildPlan, ...] = ()
    folders: frozenset[Path] = frozenset()
    problem: str = ""


@dataclass(frozen=True)
class _Target:
    """An executable: its CMakeLists.txt is in `source`; `binary`: the folder in which CMake would build it."""

    name: str
    source: Path
    binary: Path
    output: Path


def cmake_plans(listfile: Path, root: Path, arch: str, shows: Sequence[Path] = ()) -> Configured:
    """Configures the project of `listfile` for `arch`, with default options.

    `root` and `shows` are all that CMake sees of the user's files. Generated files are part of the plans, under the
    names that they would have if the project were built in its own folder.
    """
    if not sandbox.available():
        return Configured(problem="CMake needs the sandbox: see `synth doctor`")
    first = Configured()
    for every_package in (False, True):
        with scratch_folder() as scratch:
            made = _Run(listfile, root, arch, shows, scratch).configured(every_package)
        if not made.problem:
            return made
        first = first if first.problem else made
    return first


class _Run:
    """One configuration, in a build folder below `scratch`."""

    def __init__(self, listfile: Path, root: Path, arch: str, shows: Sequence[Path], scratch: Path) -> None:
        self.top, self.root, self.arch = listfile.parent, root, arch
        self.build = scratch.resolve() / "work"
        self.compiler = toolchain.find()
        self.cmake, self.ninja = _programs()
        self.mounts = {rocm.PLACE: rocm.stand_in(scratch / "rocm", arch, _compilers(self.compiler))}
        self.shows = [root, *shows, self.cmake.parents[1], self.ninja, _STAND_INS, *self.compiler.folders]

    def configured(self, every_package: bool) -> Configured:
        query = self.build / _QUERY
        query.parent.mkdir(parents=True)
        query.touch()
        settings = [f"-D{name}={value}" for name, value in self._settings(every_package).items()]
        quiet = ("--log-level=ERROR", "-Wno-dev", "-Wno-deprecated", "--no-warn-unused-cli")
        done = self._run([self.cmake, "-S", self.top, "-B", self.build, "-G", "Ninja", *quiet, *settings])
        if done.status != "ok":
            return Configured(problem=self._problem(done))
        targets, others, folders = self._reply()
        built = self._run([self.ninja, "-t", "commands", *(target.name for target in targets), *others])
        if built.status != "ok":
            return Configured(problem=self._problem(built))
        plans = self._plans(built.stdout, {target.output: target for target in targets})
        return Configured(tuple(plans), frozenset(folders))

    def _run(self, command: Sequence[str | Path]) -> sandbox.SandboxResult:
        return sandbox.run(
            command, self.build, _LIMITS, read_only=self.shows, env=rocm.ENVIRONMENT, mounts=self.mounts
        )

    def _settings(self, every_package: bool) -> dict[str, str | Path]:
        """Cache variables: compilers that CMake need not examine, and what the stand-ins need to know."""
        version = self.compiler.compiler_version.split("version ")[-1].split()[0]
        found: dict[str, str | Path] = {
            "CMAKE_PROJECT_TOP_LEVEL_INCLUDES": _STAND_INS,
            "CMAKE_MAKE_PROGRAM": self.ninja,
            "CMAKE_POLICY_VERSION_MINIMUM": "3.5",
            "CMAKE_PREFIX_PATH": rocm.PLACE,
            "CMAKE_HIP_COMPILER_ROCM_ROOT": rocm.PLACE,
            "CMAKE_HIP_COMPILER_ROCM_LIB": f"{rocm.PLACE}/lib",
            "CMAKE_HIP_PLATFORM": "amd",
            "CMAKE_HIP_ARCHITECTURES": self.arch,
            "CMAKE_CUDA_COMPILER": "NOTFOUND",
            "CMAKE_SIZEOF_VOID_P": "8",
            "CMAKE_SKIP_RPATH": "ON",
            "FETCHCONTENT_FULLY_DISCONNECTED": "ON",
            "HIP_HIPCC_EXECUTABLE": f"{rocm.PLACE}/bin/hipcc",
            "HIP_COMPILER": "clang",
            "HIP_RUNTIME": "rocclr",
            "HIP_PLATFORM": "amd",
            "MODEL": "hip",  # mini-apps with several programming models select one with this variable
            "HIPSYNTH_PRESENT": present_packages(),
            "HIPSYNTH_TOOLS": _TOOL_PACKAGES,
            "HIPSYNTH_VERSION": self.compiler.headers_version.split()[-1],
            "HIPSYNTH_ALL": "ON" if every_package else "OFF",
            "HIPSYNTH_SWITCHES": f"(^|_)({'|'.join(_SWITCHES)})$",
            **dict.fromkeys(_SWITCHES, "ON"),
        }
        found |= {f"CMAKE_{tool}": f"{rocm.PLACE}/bin/{tool.lower()}" for tool in _BINUTILS}
        for language, name in (("C", "amdclang"), ("CXX", "hipcc"), ("HIP", "amdclang++")):
            prefix = f"CMAKE_{language}"
            found |= {
                f"{prefix}_COMPILER": f"{rocm.PLACE}/bin/{name}",
                f"{prefix}_COMPILER_AR": f"{rocm.PLACE}/bin/ar",
                f"{prefix}_COMPILER_RANLIB": f"{rocm.PLACE}/bin/ranlib",
                f"{prefix}_COMPILER_ID": "Clang",
                f"{prefix}_COMPILER_ID_RUN": "1",
                f"{prefix}_COMPILER_VERSION": version,
                f"{prefix}_COMPILER_WORKS": "1",
                f"{prefix}_ABI_COMPILED": "1",
                f"{prefix}_SIZEOF_DATA_PTR": "8",
                f"{prefix}_STANDARD_COMPUTED_DEFAULT": "17",
                f"{prefix}_EXTENSIONS_COMPUTED_DEFAULT": "ON",
            }
        # CMake knows the features of C and C++ compilers; those of HIP it would find out with compilations.
        features = {f"CMAKE_HIP{number}_COMPILE_FEATURES": f"hip_std_{number}" for number in _STANDARDS}
        return found | {
            "CMAKE_HIP_COMPILER_FORCED": "1", "CMAKE_HIP_COMPILE_FEATURES": ";".join(features.values()), **features,
        }  # fmt: skip

    def _problem(self, done: sandbox.SandboxResult) -> str:
        """One line: CMake's first error, or the limit that it exceeded."""
        error = _ERROR.search(done.stderr)
        if done.status in ("timeout", "killed"):
            return f"CMake exceeded its limit on {done.reason}"
        if error is None:
            return f"CMake failed: {done.stderr.strip()[:200]}"
        place = error[1] or error[2]
        return f"CMake: {place + ': ' if place else ''}{error[3].strip()}"[:300]

    # --- what CMake and ninja answered; a project may have changed any of it ---

    def _reply(self) -> tuple[list[_Target], list[str], set[Path]]:
        """The executables, the names of custom targets, and the source folders, from CMake's file API."""
        replies = self.build / ".cmake/api/v1/reply"
        targets: list[_Target] = []
        others: list[str] = []
        try:
            index = max(path.name for path in replies.glob("index-*.json"))
            (model,) = (entry for entry in self._json(replies / index)["objects"] if entry["kind"] == "codemodel")
            configuration = self._json(replies / model["jsonFile"])["configurations"][0]
            folders = {self.top / entry["source"] for entry in configuration["directories"]}
            for entry in configuration["targets"]:
                target = self._json(replies / entry["jsonFile"])
                if target["type"] == "EXECUTABLE":
                    paths = target["paths"]
                    source, binary = self.top / paths["source"], self.build / paths["build"]
                    if source.resolve().is_relative_to(self.root):
                        output = _normal(self.build / target["artifacts"][0]["path"])
                        targets.append(_Target(target["name"], source, self._own(binary), self._own(output)))
                elif target["type"] == "UTILITY":
                    others.append(target["name"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return [], [], set()
        return targets, others, {_normal(folder) for folder in folders}

    def _json(self, path: Path) -> Any:
        return json.loads(read_text(path, self.build))

    def _own(self, path: Path) -> Path:
        return Path(self._renamed(str(path)))

    def _renamed(self, text: str) -> str:
        """Text with the build folder's path replaced by the project's: the build folder does not outlive the run."""
        return text.replace(str(self.build), str(self.top))

    def _plans(self, text: str, targets: Mapping[Path, _Target]) -> Iterator[BuildPlan]:
        written = tuple(self._written())
        calls = self._calls(targets)
        steps = steps_of(simple_commands(self._renamed(text), self.top))
        for step, plan in linked_plans(steps, self.top, "cmake"):
            target = targets.get(step.output) if step.output else None
            if target is not None:
                yield replace(
                    plan,
                    folder=target.source,
                    code_objects=tuple(_loaded(plan.code_objects, target)),
                    calls=tuple(calls.get(target.output, ())),
                    written=written,
                )

    def _written(self) -> Iterator[tuple[Path, str]]:
        """The sources and headers that configuring generated."""
        paths = (path for path in self._files() if path.suffix in _KEPT_ENDINGS and "CMakeFiles" not in path.parts)
        for path in sorted(itertools.islice(paths, MOST_WRITTEN)):
            text = self._renamed(read_text(path, self.build))
            if not self._own(path).exists() and len(text) <= MOST_CHARS:
                yield self._own(path), text

    def _files(self) -> Iterator[Path]:
        walk = (Path(place) / name for place, _, names in os.walk(self.build) for name in names)
        yield from itertools.islice(walk, MOST_FILES)

    def _calls(self, targets: Mapping[Path, _Target]) -> dict[Path, list[Call]]:
        """Output of an executable -> its calls in tests."""
        found: dict[Path, list[Call]] = {}
        for file in sorted(path for path in self._files() if path.name == "CTestTestfile.cmake"):
            for line in _TEST.findall(self._renamed(read_text(file, self.build))):
                words = [re.sub(r"\\(.)", r"\1", word) for word in _QUOTED.findall(line)]
                at = next((n for n, word in enumerate(words) if Path(word) in targets), None)
                if at is not None:
                    target = targets[Path(words[at])]
                    rest = (seen_from(target.source, target.source, word, self.root) for word in words[at + 1 :])
                    found.setdefault(target.output, []).append(Call(tuple(rest)))
        return found


def _programs() -> tuple[Path, Path]:
    """The cmake and the ninja of this Python's environment."""
    return Path(cmake.CMAKE_BIN_DIR) / "cmake", (Path(ninja.BIN_DIR) / "ninja").resolve()


def _compilers(found: toolchain.Toolchain) -> dict[str, str]:
    """Scripts for the tools that CMake runs. Compilers are real ones, for the checks that a project makes of them."""
    flags = shlex.join(["-D__HIP_PLATFORM_AMD__=1", f"--rocm-path={found.root}", *found.include_flags])
    call = f'exec {shlex.quote(str(found.clang))} {flags} {{}} "$@"'
    names = ("hipcc", "amdclang++", "clang++")
    return {
        **dict.fromkeys(names, call.format("--driver-mode=g++")),
        **dict.fromkeys(("amdclang", "clang"), call.format("--driver-mode=gcc")),
        **dict.fromkeys(("ar", "ranlib"), ""),
        "git": 'test "$1" = --version || exit 1; echo git version 2.40.0',
    }


def _loaded(objects: Sequence[CodeObject], target: _Target) -> Iterator[CodeObject]:
    """The code objects of the target's folder, with the place in it where the program, run there, looks for them."""
    for made in objects:
        above = next((place for place in (target.binary, target.output.parent) if made.output.is_relative_to(place)), None)
        if above is not None and made.unit.path.is_relative_to(target.source):
            yield replace(made, output=target.source / made.output.relative_to(above))


def _normal(path: Path) -> Path:
    return Path(os.path.normpath(path))
