"""The programs a CMakeLists.txt would build, found by interpreting a subset of CMake; no command is executed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.profiling.survey.build_files.cmake_files import Configured
from hipsynth.profiling.survey.build_files.cmake_lang import Interpreter, Scope, glob_files, parse
from hipsynth.profiling.survey.build_files.commands import KEPT_OPTION, Command, steps_of
from hipsynth.profiling.survey.plan import BuildPlan, Call, CodeObject, SourceUnit
from hipsynth.profiling.survey.sources import SOURCE_ENDINGS, read_text

_KEYWORDS = frozenset(
    {"PRIVATE", "PUBLIC", "INTERFACE", "SYSTEM", "BEFORE", "AFTER", "EXCLUDE_FROM_ALL", "WIN32"}
    | {"LINK_PUBLIC", "LINK_PRIVATE", "LINK_INTERFACE_LIBRARIES", "general", "optimized", "debug"}
)
_COMMAND_WORDS = frozenset(  # keywords that begin another section of add_custom_command
    {"ARGS", "MAIN_DEPENDENCY", "DEPENDS", "OUTPUT", "BYPRODUCTS", "WORKING_DIRECTORY", "COMMENT", "VERBATIM", "TARGET"}
    | {"SOURCES", "DEPFILE", "USES_TERMINAL", "COMMAND_EXPAND_LISTS", "APPEND", "POST_BUILD", "PRE_BUILD", "PRE_LINK"}
)
# Options that a build for an AMD device turns on, such as -DENABLE_HIP=ON.
_SWITCHES = {
    f"{verb}_{name}": "ON" for verb in ("COMPILE", "ENABLE", "USE", "WITH", "BUILD") for name in ("HIP", "ROCM")
}
_GENERATOR = re.compile(r"\$<\$?<?[^>]*>?:?([^>]*)>")


@dataclass
class _Target:
    """An executable or library, filled in while its build files are read."""

    name: str
    folder: Path
    sources: list[Path] = field(default_factory=list)
    includes: list[Path] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    standard: str = ""
    relocatable: bool = False
    executable: bool = True


def cmake_plans(listfile: Path, root: Path) -> list[BuildPlan]:
    """The executables of a CMakeLists.txt and its subdirectories, with default options. Reads only below `root`."""
    reader = _Reader(listfile.parent, root)
    reader.read(listfile.parent, Scope(dict(_SWITCHES)))
    return reader.plans()


class _Reader:
    """State of one simulated configure run; one method per supported CMake command."""

    def __init__(self, top: Path, root: Path) -> None:
        self.top, self.root = top, root
        self.targets: dict[str, _Target] = {}
        self.tests: dict[str, list[Call]] = {}
        self.languages: dict[Path, str] = {}
        self.code_objects: dict[Path, list[CodeObject]] = {}
        self.configured = Configured(root)
        self.folder = top
        self.properties = _Target("", top)  # directory properties inherited by later targets
        self.interpreter = Interpreter(
            {
                "set": self.set_variable, "unset": self.unset, "list": self.change_list,
                "option": self.option, "project": self.project,
                "string": self.string, "file": self.file, "configure_file": self.configure_file,
                "get_filename_component": self.component,
                "add_executable": self.executable, "hip_add_executable": self.executable, "add_library": self.library,
                "hip_add_library": self.library, "target_sources": self.sources, "add_test": self.test,
                "target_include_directories": self.target_includes, "include_directories": self.include_directories,
                "target_compile_definitions": self.target_defines, "add_definitions": self.definitions,
                "add_compile_definitions": self.compile_definitions, "target_compile_options": self.target_options,
                "add_compile_options": self.compile_options, "target_link_libraries": self.target_links,
                "link_libraries": self.link_libraries, "set_target_properties": self.target_properties,
                "set_source_files_properties": self.source_properties, "target_compile_features": self.features,
                "add_subdirectory": self.subdirectory, "include": self.include, "set_property": self.set_property,
                "find_package": self.find_package, "add_custom_command": self.custom, "add_custom_target": self.custom,
            }
        )  # fmt: skip

    def read(self, folder: Path, parent: Scope) -> None:
        scope = Scope(parent=parent)
        scope.variables |= {
            "CMAKE_CURRENT_SOURCE_DIR": str(folder), "CMAKE_CURRENT_LIST_DIR": str(folder),
            "CMAKE_SOURCE_DIR": str(self.top), "CMAKE_HOME_DIRECTORY": str(self.top), "UNIX": "1", "LINUX": "1",
            "CMAKE_SYSTEM_NAME": "Linux", "CMAKE_CXX_COMPILER_ID": "Clang", "CMAKE_HIP_COMPILER_ID": "Clang",
            "CMAKE_VERSION": "3.29.0", "CMAKE_SYSTEM_PROCESSOR": "x86_64", "HIP_PLATFORM": "amd",
            "HIP_HIPCC_EXECUTABLE": "hipcc", "CMAKE_HIP_COMPILER": "hipcc", "CMAKE_CXX_COMPILER": "hipcc",
            "CMAKE_CURRENT_BINARY_DIR": str(folder), "CMAKE_BINARY_DIR": str(self.top),
            "MODEL": "hip",  # mini-apps with several programming models select one with this variable
        }  # fmt: skip
        before, self.folder = self.folder, folder
        self.interpreter.run(parse(read_text(folder / "CMakeLists.txt", self.root)), scope)
        self.folder = before

    # --- variables ---

    def set_variable(self, words: list[str], scope: Scope) -> None:
        if not words:
            return
        name, rest = words[0], words[1:]
        if "CACHE" in rest:
            rest = rest[: rest.index("CACHE")]
            if scope.defined(name):
                return
        if rest[-1:] == ["PARENT_SCOPE"]:
            (scope.parent or scope).variables[name] = ";".join(rest[:-1])
            return
        scope.variables[name] = ";".join(rest)

    def unset(self, words: list[str], scope: Scope) -> None:
        scope.variables.pop(words[0] if words else "", None)

    def option(self, words: list[str], scope: Scope) -> None:
        if words and not scope.defined(words[0]):
            wanted = any(words[0].endswith(f"_{name}") for name in _SWITCHES)
            scope.variables[words[0]] = "ON" if wanted else words[2] if len(words) > 2 else "OFF"

    def project(self, words: list[str], scope: Scope) -> None:
        if words:
            scope.variables |= {"PROJECT_NAME": words[0], "PROJECT_SOURCE_DIR": str(self.folder)}
            scope.variables |= {"PROJECT_BINARY_DIR": str(self.folder), **_version(words)}
            scope.variables.setdefault("CMAKE_PROJECT_NAME", words[0])

    def change_list(self, words: list[str], scope: Scope) -> None:
        if len(words) < 2:
            return
        operation, name, rest = words[0], words[1], words[2:]
        items = [part for part in scope.get(name).split(";") if part]
        if operation == "APPEND":
            items += rest
        elif operation == "PREPEND":
            items = rest + items
        elif operation == "REMOVE_ITEM":
            items = [item for item in items if item not in rest]
        elif operation == "REMOVE_DUPLICATES":
            items = list(dict.fromkeys(items))
        elif operation == "FILTER" and len(rest) > 2:
            keep = rest[0] == "INCLUDE"
            items = [item for item in items if bool(re.search(rest[2], item)) == keep]
        else:
            return
        scope.variables[name] = ";".join(items)

    def string(self, words: list[str], scope: Scope) -> None:
        if words[:1] == ["TOUPPER"] and len(words) > 2:
            scope.variables[words[2]] = words[1].upper()
        elif words[:1] == ["TOLOWER"] and len(words) > 2:
            scope.variables[words[2]] = words[1].lower()
        elif words[:1] == ["REPLACE"] and len(words) > 4:
            scope.variables[words[3]] = ";".join(words[4:]).replace(words[1], words[2])
        elif words[:1] == ["APPEND"] and len(words) > 2:
            scope.variables[words[1]] = scope.get(words[1]) + "".join(words[2:])

    def file(self, words: list[str], scope: Scope) -> None:
        if words[:1] in (["GLOB"], ["GLOB_RECURSE"]) and len(words) > 2:
            skipped = ("CONFIGURE_DEPENDS", "RELATIVE", "LIST_DIRECTORIES", "FOLLOW_SYMLINKS")
            patterns = [word for word in words[2:] if word not in skipped]
            scope.variables[words[1]] = ";".join(
                glob_files(self.folder, patterns, words[0] == "GLOB_RECURSE", self.root)
            )
        elif words[:1] in (["WRITE"], ["APPEND"]):
            self.configured.write(words[1:], self.folder, words[0] == "APPEND")

    def configure_file(self, words: list[str], scope: Scope) -> None:
        self.configured.configure_file(words, self.folder, scope)

    def component(self, words: list[str], scope: Scope) -> None:
        if len(words) < 3:
            return
        path = Path(words[1])
        table = {
            "NAME": path.name, "NAME_WE": path.name.split(".")[0], "NAME_WLE": path.stem, "EXT": path.suffix,
            "DIRECTORY": str(path.parent), "PATH": str(path.parent),
        }  # fmt: skip
        scope.variables[words[0]] = table.get(words[2], os.path.normpath(self.folder / path))

    def find_package(self, words: list[str], scope: Scope) -> None:
        if words:
            scope.variables[f"{words[0]}_FOUND"] = scope.variables[f"{words[0].upper()}_FOUND"] = "1"

    # --- targets ---

    def _new(self, words: list[str], scope: Scope, executable: bool) -> None:
        if not words or "ALIAS" in words or "IMPORTED" in words:
            return
        shared = self.properties
        target = _Target(
            words[0], self.folder, [], [*shared.includes], [*shared.defines], [*shared.options], [*shared.links],
            self._standard(scope), executable=executable,
        )  # fmt: skip
        for name in ("CMAKE_CXX_FLAGS", "CMAKE_HIP_FLAGS", "HIP_HIPCC_FLAGS"):
            self._flags(target, scope.get(name).replace(";", " ").split())
        self.targets[words[0]] = target
        self._add_sources(target, words[1:])

    def _standard(self, scope: Scope) -> str:
        for language in ("HIP", "CXX", "CUDA"):
            if scope.get(f"CMAKE_{language}_STANDARD"):
                return "c++" + scope.get(f"CMAKE_{language}_STANDARD")
        return ""

    def executable(self, words: list[str], scope: Scope) -> None:
        self._new(words, scope, executable=True)

    def library(self, words: list[str], scope: Scope) -> None:
        self._new(words, scope, executable=False)

    def _add_sources(self, target: _Target, words: Iterable[str]) -> None:
        for word in words:
            path = self._path(word)
            if path.suffix in SOURCE_ENDINGS and path.is_file() and path not in target.sources:
                target.sources.append(path)

    def sources(self, words: list[str], _scope: Scope) -> None:
        if words and words[0] in self.targets:
            self._add_sources(self.targets[words[0]], words[1:])

    def _of(self, words: list[str]) -> tuple[_Target | None, list[str]]:
        """The target named by a target_... command, and its remaining arguments without keywords."""
        rest = [_plain(word) for word in words[1:] if word not in _KEYWORDS]
        return (self.targets.get(words[0]) if words else None), [word for word in rest if word]

    def target_includes(self, words: list[str], _scope: Scope) -> None:
        target, rest = self._of(words)
        if target:
            target.includes += [self._path(word) for word in rest]

    def include_directories(self, words: list[str], _scope: Scope) -> None:
        self.properties.includes += [self._path(word) for word in words if word not in _KEYWORDS]

    def target_defines(self, words: list[str], _scope: Scope) -> None:
        target, rest = self._of(words)
        if target:
            target.defines += [word.removeprefix("-D") for word in rest]

    def definitions(self, words: list[str], _scope: Scope) -> None:
        self._flags(self.properties, words)

    def compile_definitions(self, words: list[str], _scope: Scope) -> None:
        self.properties.defines += words

    def target_options(self, words: list[str], _scope: Scope) -> None:
        target, rest = self._of(words)
        if target:
            self._flags(target, rest)

    def compile_options(self, words: list[str], _scope: Scope) -> None:
        self._flags(self.properties, [_plain(word) for word in words])

    def features(self, words: list[str], _scope: Scope) -> None:
        target, rest = self._of(words)
        for word in rest:
            match = re.match(r"(?:cxx|hip)_std_(\d+)", word)
            if target and match:
                target.standard = "c++" + match.group(1)

    def target_links(self, words: list[str], _scope: Scope) -> None:
        target, rest = self._of(words)
        if target:
            target.links += rest

    def link_libraries(self, words: list[str], _scope: Scope) -> None:
        self.properties.links += words

    def target_properties(self, words: list[str], _scope: Scope) -> None:
        if "PROPERTIES" not in words:
            return
        at = words.index("PROPERTIES")
        self._properties(words[:at], words[at + 1 :])

    def set_property(self, words: list[str], _scope: Scope) -> None:
        if words[:1] == ["TARGET"] and "PROPERTY" in words:
            at = words.index("PROPERTY")
            self._properties(words[1:at], [words[at + 1], ";".join(words[at + 2 :])] if len(words) > at + 2 else [])

    def _properties(self, names: list[str], pairs: list[str]) -> None:
        for name in names:
            target = self.targets.get(name)
            for key, value in zip(pairs[::2], pairs[1::2], strict=False) if target else ():
                assert target is not None
                if key in ("CXX_STANDARD", "HIP_STANDARD"):
                    target.standard = "c++" + value
                elif key in ("HIP_SEPARABLE_COMPILATION", "CUDA_SEPARABLE_COMPILATION"):
                    target.relocatable = value.upper() in ("ON", "TRUE", "1", "YES")

    def source_properties(self, words: list[str], _scope: Scope) -> None:
        if "PROPERTIES" not in words:
            return
        at = words.index("PROPERTIES")
        pairs = dict(zip(words[at + 1 :: 2], words[at + 2 :: 2], strict=False))
        language = "hip" if "HIP_SOURCE_PROPERTY_FORMAT" in pairs else pairs.get("LANGUAGE", "").lower()
        for word in words[:at]:
            if language in ("hip", "cxx"):
                self.languages[self._path(word)] = language.replace("cxx", "c++")

    def _flags(self, target: _Target, words: Iterable[str]) -> None:
        for word in words:
            if word.startswith("-D") and len(word) > 2:
                target.defines.append(word[2:])
            elif word.startswith("-I") and len(word) > 2:
                target.includes.append(self._path(word[2:]))
            elif word.startswith("-std="):
                target.standard = word[5:]
            elif word == "-fgpu-rdc":
                target.relocatable = True
            elif word.startswith("-fopenmp"):
                target.links.append("omp")
            elif KEPT_OPTION.match(word):
                target.options.append(word)

    def test(self, words: list[str], _scope: Scope) -> None:
        command = words[words.index("COMMAND") + 1 :] if "COMMAND" in words else words[1:]
        if "WORKING_DIRECTORY" in command:
            command = command[: command.index("WORKING_DIRECTORY")]
        if command:
            name = _plain(command[0]).removeprefix("TARGET_FILE:")
            self.tests.setdefault(Path(name).name, []).append(Call(tuple(command[1:])))

    def custom(self, words: list[str], _scope: Scope) -> None:
        """Custom commands: only those that compile code objects for loading at run time matter."""
        for step in steps_of(Command(self.folder, command) for command in _commands(words)):
            if step.device_only and step.output is not None:
                made = self.code_objects.setdefault(self.folder, [])
                made += [CodeObject(unit, step.output) for unit in step.units]

    # --- other files ---

    def subdirectory(self, words: list[str], scope: Scope) -> None:
        folder = self._path(words[0]) if words else self.folder
        if (folder / "CMakeLists.txt").is_file() and folder.is_relative_to(self.root) and self.interpreter.depth < 30:
            self.interpreter.depth += 1
            outer = self.properties
            self.properties = _Target(
                "", folder, includes=[*outer.includes], defines=[*outer.defines], options=[*outer.options],
                links=[*outer.links],
            )  # fmt: skip
            self.read(folder, scope)
            self.properties = outer
            self.interpreter.depth -= 1

    def include(self, words: list[str], scope: Scope) -> None:
        path = self._path(words[0]) if words else self.folder
        if path.is_file() and path.is_relative_to(self.root):
            self.interpreter.depth += 1
            if self.interpreter.depth < 30:
                self.interpreter.run(parse(read_text(path, self.root)), scope)
            self.interpreter.depth -= 1

    def _path(self, word: str) -> Path:
        return Path(os.path.normpath(self.folder / word))

    # --- result ---

    def plans(self) -> list[BuildPlan]:
        """One plan per executable, including the sources of the project's own libraries that it links."""
        plans = []
        for target in self.targets.values():
            if target.executable:
                plans.append(self._plan(target))
        return [plan for plan in plans if plan.units]

    def _plan(self, target: _Target) -> BuildPlan:
        units: dict[Path, SourceUnit] = {}
        libraries: list[str] = []
        relocatable = False
        queue, seen = [target], set[str]()
        while queue:
            current = queue.pop(0)
            seen.add(current.name)
            relocatable = relocatable or current.relocatable
            includes = tuple(dict.fromkeys([*current.includes, *target.includes]))
            for path in current.sources:
                language = self.languages.get(path, "c" if path.suffix == ".c" else "hip")
                units.setdefault(
                    path,
                    SourceUnit(
                        path, language, includes, tuple(dict.fromkeys([*current.defines])),
                        standard=current.standard if language != "c" else "", options=tuple(current.options),
                    ),
                )  # fmt: skip
            for link in current.links:
                inside = self.targets.get(link)
                if inside is None:
                    libraries.append(link)
                elif inside.name not in seen:
                    queue.append(inside)
        runs = tuple(self.tests.get(target.name, ()))
        names = tuple(dict.fromkeys(libraries))
        loaded = tuple(self.code_objects.get(target.folder, ()))
        written = tuple(self.configured.texts.items())
        return BuildPlan(
            target.name, tuple(units.values()), target.folder, "cmake", names, relocatable, loaded, runs, written
        )


def _version(words: list[str]) -> dict[str, str]:
    """The variables that project(NAME VERSION 1.2.3) sets."""
    if "VERSION" not in words[:-1]:
        return {}
    version = words[words.index("VERSION") + 1]
    parts = [*version.split("."), "", "", "", ""]
    names = ("MAJOR", "MINOR", "PATCH", "TWEAK")
    found = {"VERSION": version, **{f"VERSION_{name}": part for name, part in zip(names, parts, strict=False)}}
    return {f"{prefix}_{name}": text for prefix in ("PROJECT", words[0]) for name, text in found.items()}


def _commands(words: Iterable[str]) -> list[list[str]]:
    """The command lines in the arguments of add_custom_command or add_custom_target."""
    lines: list[list[str]] = []
    inside = False
    for word in words:
        if word == "COMMAND":
            lines.append([])
            inside = True
        elif word in _COMMAND_WORDS:
            inside = word == "ARGS"
        elif inside and lines:
            lines[-1].append(_plain(word))
    return [line for line in lines if line]


def _plain(word: str) -> str:
    """Removes generator expressions: `$<BUILD_INTERFACE:x>` becomes x; a condition becomes its guarded value."""
    while True:
        shorter = _GENERATOR.sub(r"\1", word)
        if shorter == word:
            return word
        word = shorter
