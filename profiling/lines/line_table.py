"""Which source line each instruction belongs to: the code object's debug line table, read by llvm-symbolizer."""

from __future__ import annotations

import functools
import json
import sys
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsynth import toolchain
from hipsynth.core.errors import BadInput
from hipsynth.core.files import copy_regular, read_regular
from hipsynth.core.folders import is_includable
from hipsynth.core.languages import SUFFIXES
from hipsynth.core.program import Program, Project
from hipsynth.toolchain import CompileLimits, driver, sandbox
from hipsynth.toolchain.flags import parse_flags
from hipsynth.toolchain.translation_unit import paths_in_flags

FLAG = "-gline-tables-only"  # adds the line table and leaves the machine code as it is
MOST_BYTES = 256 << 20

Module = tuple[Path, Path]  # code object and disassembly


@dataclass(frozen=True, order=True)
class SourceLocation:
    """A line of a user's file; file "" and line 0 if an instruction belongs to none."""

    file: str = ""
    line: int = 0


def source_locations(
    code_object: Path, addresses: Iterable[int], own_name: Callable[[str], str], limits: CompileLimits
) -> dict[int, SourceLocation]:
    """The place of each instruction address: of the innermost inlined frame that lies in the user's files.

    `own_name`: the user's name of a file in the line table, "" for files of the toolchain. Raises the errors of
    run_tool.
    """
    wanted = sorted(set(addresses))
    tools = toolchain.find_toolchain()
    symbolizer = tools.objdump.with_name(tools.objdump.name.replace("objdump", "symbolizer"))
    with sandbox.job_folder() as scratch:
        copy_regular(code_object, scratch / "kernel.co")
        (scratch / "addresses").write_text("".join(f"{address:#x}\n" for address in wanted))
        script = 'exec "$0" --obj=kernel.co --inlines --output-style=JSON < addresses > places'
        driver.run_tool(tools, ["/bin/sh", "-c", script, str(symbolizer)], scratch, limits, code_object.name)
        text = read_regular(scratch / "places", MOST_BYTES, inside=scratch).decode(errors="replace")
    try:
        documents = [json.loads(line) for line in text.splitlines() if line.strip()]
        return {int(row["Address"], 16): _pick_location(row.get("Symbol", []), own_name) for row in documents}
    except (ValueError, KeyError, TypeError) as error:
        raise BadInput(f"{code_object.name}: its line table cannot be read", cause=str(error)) from error


def _pick_location(frames: Sequence[Mapping[str, Any]], own_name: Callable[[str], str]) -> SourceLocation:
    for frame in frames:  # innermost first
        name = own_name(frame["FileName"])
        if name and frame["Line"]:
            return SourceLocation(name, int(frame["Line"]))
    return SourceLocation()


def own_files(program: Program) -> Callable[[str], str]:
    """Maps a file of the line table to the name that the user knows it by; "" for files of the toolchain."""
    return own_files_of(program.project, f"{program.name or 'program'}{SUFFIXES[program.language]}")


def own_files_of(project: Project | None, text_name: str = "") -> Callable[[str], str]:
    """As own_files(); without a project, every file of the user is the text of that name.

    A program can write any name into its line table (`#line`). Only files of the folders that it may read have a name,
    since reports show their text. A build from the cache, and a script that ran in a copy of its folder, name their
    files at another place: the end of a path is enough.
    """
    if project is None:
        is_library = library_files()
        return lambda text: "" if is_library(text) else text_name
    return _name_files(project)


def _name_files(project: Project) -> Callable[[str], str]:
    sources = [source.path for source in project.sources]
    names = {path.name: str(path) for path in sources}
    same_suffix = sources[0].suffix if len(sources) == 1 and not project.is_script else ""
    folders = _readable_folders(project)
    is_library = library_files()

    @functools.cache
    def name(text: str) -> str:
        path = Path(text)
        if is_library(text):
            return ""
        own_path = _first_path(path, folders, _path_inside) or _first_path(path, folders, _path_by_end)
        if own_path or path.name in names:
            return own_path or names[path.name]
        return str(sources[0]) if same_suffix and path.suffix == same_suffix else ""

    return name


def _readable_folders(project: Project) -> tuple[Path, ...]:
    """The folders that the program's files lie in, or include others from."""
    folders = [project.folder, *(source.path.absolute().parent for source in project.sources), *(project.roots or ())]
    for source in project.sources:
        folders += paths_in_flags(parse_flags(source.flags), source.path.resolve().parent)
    return tuple(dict.fromkeys(folder for folder in folders if folder.resolve() != Path("/")))


def own_scripts() -> Callable[[str], str]:
    """As own_files(), for a Python process, whose kernels may be in any file."""
    is_library = library_files()
    return lambda text: "" if is_library(text) else text


def library_files() -> Callable[[str], bool]:
    """Whether a file of the line table is no user's: of the toolchain, of the system or of Python, or none at all."""
    libraries = (Path("/usr"), Path(sys.prefix), Path(sys.base_prefix))
    system = [folder.resolve() for folder in (*toolchain.find_toolchain().folders, *libraries)]

    def is_library(text: str) -> bool:
        return not text or text.startswith("<") or any(Path(text).is_relative_to(folder) for folder in system)

    return is_library


def _first_path(path: Path, folders: Sequence[Path], find: Callable[[Path, Path], str]) -> str:
    return next(filter(None, (find(path, folder) for folder in folders)), "")


def _path_inside(path: Path, folder: Path) -> str:
    """The path of a file that programs in `folder` may include, else nothing."""
    inside = folder.resolve()
    resolved = path.resolve()
    return str(folder / resolved.relative_to(inside)) if is_includable(resolved, inside) else ""


def _path_by_end(path: Path, folder: Path) -> str:
    """The path of the file in `folder` that the longest end of `path` names, else nothing."""
    ends = (folder.joinpath(*path.parts[start:]) for start in range(1, len(path.parts)))
    return next((inside for end in ends if end.is_file() and (inside := _path_inside(end, folder))), "")


def module_of(modules: Sequence[Module], symbol: str, checksum: int) -> Module | None:
    """The code object and disassembly that define a kernel, with this CRC-32 if it is not 0; None if none does, or
    several do. `symbol`: in a result, where further builds of one kernel have a number."""
    name = symbol.partition("#")[0]
    defining = [module for module in modules if name in toolchain.kernels_in(module[0])]
    if checksum:
        defining = [module for module in defining if zlib.crc32(module[0].read_bytes()) == checksum]
    return defining[0] if len(defining) == 1 else None
