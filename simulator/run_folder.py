"""Prepares the folder in which a program runs: a copy of its own, where it finds its data and changes no original."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.files import leads_to_file
from hipsynth.core.folders import copy_folder, is_shared_folder
from hipsynth.core.program import Project
from hipsynth.simulator.artefacts import Artefacts


@dataclass(frozen=True)
class PlacedProgram:
    """A program that is ready to run in `folder`. `mounts`: files that it may read, at these paths."""

    folder: Path
    artefacts: Artefacts
    arguments: tuple[str, ...] = ()
    mounts: Mapping[str, Path] | None = None


def place_program(project: Project | None, name: str, artefacts: Artefacts, folder: Path) -> PlacedProgram:
    """Makes `folder` as a copy of the project's folder with the executable in it; without a project it is empty, but
    for a script.

    Of the files that its arguments name, those that are `project.readable` will be visible read-only at their absolute
    paths, and no other. The home folder and folders of temporary files are not copied: they hold much that is not the
    program's.
    """
    if project is None:
        folder.mkdir(parents=True, exist_ok=True)
        return PlacedProgram(folder, put_script(artefacts, folder) if artefacts.interpreter else artefacts)
    if is_shared_folder(project.folder.resolve()):
        folder.mkdir(parents=True)
    else:
        copy_folder(project.folder, folder)
    placed = put_script(artefacts, folder) if artefacts.interpreter else put_executable(artefacts, folder, name)
    words = tuple(_readable_path(word, folder, project.readable) for word in project.arguments)
    elsewhere = {
        word: Path(word) for word in words if Path(word).is_absolute() and _resolve_file(word) in project.readable
    }
    return PlacedProgram(folder, placed, words, elsewhere)


def named_files(arguments: Iterable[str], folder: Path) -> frozenset[Path]:
    """The files that arguments name, seen from `folder`, without links."""
    files = (_resolve_file(folder / word) for word in arguments)
    return frozenset(path for path in files if path is not None)


def _readable_path(word: str, folder: Path, readable: frozenset[Path]) -> str:
    """The argument, made absolute if it names a readable file in the working folder that is missing from the copy."""
    path = None if _resolve_file(folder / word) else _resolve_file(word)
    return word if path is None or path not in readable or Path(word).is_absolute() else str(path)


def _resolve_file(path: str | Path) -> Path | None:
    """The resolved path of a regular file; None for anything else, and for text that is no path."""
    return Path(path).resolve() if leads_to_file(path) else None


def put_executable(artefacts: Artefacts, folder: Path, name: str) -> Artefacts:
    """Copies the executable to `folder`/`name`, unless a data file has that name; returns the updated artefacts.

    Replaces an older executable of the same name, as a rebuild would.
    """
    target = folder / (Path(name).name or "program")
    if _is_executable(target):
        target.unlink()
    if target.exists() or target.is_symlink():
        return artefacts
    shutil.copy(artefacts.executable, target)
    return replace(artefacts, executable=target)


def put_script(artefacts: Artefacts, folder: Path) -> Artefacts:
    """The script's copy in `folder`, which is a copy of its own folder unless that was not copied."""
    target = folder / artefacts.executable.name
    if not target.exists():
        shutil.copy(artefacts.executable, target)
    return replace(artefacts, executable=target)


def _is_executable(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
