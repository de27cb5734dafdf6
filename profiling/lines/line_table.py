"""Which source line each instruction belongs to: the code object's debug line table, read by llvm-symbolizer."""

from __future__ import annotations

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
from hipsynth.core.languages import SUFFIXES
from hipsynth.core.program import Program, Project
from hipsynth.toolchain import CompileLimits, driver, sandbox

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

    A build from the cache may name the same file at an earlier place, so a file name alone is enough.
    """
    sources = [source.path for source in project.sources] if project else []
    names = {path.name: str(path) for path in sources}
    is_library = library_files()

    def name(text: str) -> str:
        path = Path(text)
        if is_library(text):
            return ""
        if path.name in names:
            return names[path.name]
        if not project or (len(sources) == 1 and path.suffix == sources[0].suffix):
            return str(sources[0]) if sources else text_name
        return _path_below(path, project.folder)

    return name


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


def _path_below(path: Path, folder: Path) -> str:
    try:
        return str(folder / path.resolve().relative_to(folder.resolve()))
    except ValueError:
        return str(path)


def module_of(modules: Sequence[Module], symbol: str, checksum: int) -> Module | None:
    """The code object and disassembly that define a kernel, with this CRC-32 if it is not 0; None if none does, or
    several do. `symbol`: in a result, where further builds of one kernel have a number."""
    name = symbol.partition("#")[0]
    defining = [module for module in modules if name in toolchain.kernels_in(module[0])]
    if checksum:
        defining = [module for module in defining if zlib.crc32(module[0].read_bytes()) == checksum]
    return defining[0] if len(defining) == 1 else None
