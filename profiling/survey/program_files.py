"""The files of a surveyed folder that a program is built from and reads, as far as their names are in its text."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import SOURCE_BYTES, read_regular
from hipsynth.profiling.survey.build_plan import SourceUnit, SurveyedProgram
from hipsynth.profiling.survey.scripts import is_script_plan
from hipsynth.profiling.survey.sources import Folder, read_text

MOST_LISTED = 500  # files of a folder that a text names
_WORD, _HAS_NAME = re.compile(r"[\w./+-]+"), re.compile(r"\w")


def digest_program(program: SurveyedProgram, folder: Folder) -> str:
    """A hash of how a program is built and called, and of the files that it is known to read; equal wherever the folder
    lies."""
    plans = repr((program.plans, program.calls)).replace(str(folder.root), "{folder}")
    digest = hashlib.sha256(plans.encode(errors="surrogateescape"))
    for path in find_program_files(program, folder):
        digest.update(os.fsencode(os.path.relpath(path, folder.root)) + _digest_content(path))
    return digest.hexdigest()[:24]


def _digest_content(path: Path) -> bytes:
    """What changes with a file: a hash of its content, of large ones size and time of the last change."""
    try:
        return hashlib.sha256(read_regular(path, SOURCE_BYTES)).digest()
    except BadInput:
        with contextlib.suppress(OSError):
            state = path.stat()
            return f"{state.st_size} {state.st_mtime_ns}".encode()
        return b"?"


def find_program_files(program: SurveyedProgram, folder: Folder) -> list[Path]:
    """Sources and headers of all plans, also of code objects that the program loads; a script's modules; and files that
    these texts or the command lines name. Names that a program puts together are not known."""
    if any(map(is_script_plan, program.plans)):
        sources = {*program.main.parent.glob("*.py"), *_imported_files(program.main, folder)}
    else:
        sources = {program.main, *folder.closure(program.main), *_compiled_files(program, folder)}
    return sorted(sources | set(_named_files(program, sources, folder.root)))


def _compiled_files(program: SurveyedProgram, folder: Folder) -> Iterator[Path]:
    for plan in program.plans:
        units: list[SourceUnit] = [*plan.units, *(loaded.unit for loaded in plan.code_objects)]
        for unit in units:
            for path in (unit.path, *unit.preludes):
                yield from folder.closure(path, includes=unit.includes)


def _imported_files(script: Path, folder: Folder) -> set[Path]:
    """A script and the folder's modules that it imports, of each name the nearest, and so on."""
    files, queue = {script}, [script]
    while queue:
        importer = queue.pop()
        modules = (folder.find_module(importer, name) for name in _imported_names(read_text(importer, folder.root)))
        fresh = {path for path in modules if path is not None} - files
        files |= fresh
        queue += fresh
    return files


def _imported_names(text: str) -> set[tuple[str, ...]]:
    """The modules and packages that the text of a Python file may import, as the parts of their dotted names."""
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return set()
    names = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names += [".".join(filter(None, (node.module, alias.name))) for alias in node.names]
    parts = [tuple(name.split(".")) for name in names]
    return {name[: end + 1] for name in parts for end in range(len(name))}


def _named_files(program: SurveyedProgram, sources: Iterable[Path], root: Path) -> Iterator[Path]:
    """The files below `root` that texts and command lines name, seen from where the program runs or its main file is,
    and those right in folders that they name."""
    calls = [*program.calls, *(call for plan in program.plans for call in plan.calls)]
    words = {
        word for call in calls for text in (*call.arguments, call.stdin, *call.before) for word in _read_words(text)
    }
    words |= {word for path in sources for word in _read_words(read_text(path, root)) if "." in word or "/" in word}
    starts = {program.main.parent, *(plan.folder for plan in program.plans)}
    for path in {Path(os.path.normpath(start / word)) for start in starts for word in words}:
        if path.is_relative_to(root) and path != root:
            yield from _list_files(path, root)


def _read_words(text: str) -> set[str]:
    """The words of a text that may be paths."""
    return {word.rstrip(".") for word in _WORD.findall(text) if _HAS_NAME.search(word)}


def _list_files(path: Path, root: Path) -> list[Path]:
    """The file, or those right in the folder; none behind a link out of `root`, or where there is nothing to read."""
    try:
        if not path.exists() or not path.resolve().is_relative_to(root):
            return []
        listed = sorted(path.iterdir())[:MOST_LISTED] if path.is_dir() else [path]
        return [file for file in listed if file.is_file()]
    except OSError:
        return []
