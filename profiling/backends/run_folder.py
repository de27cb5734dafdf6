"""Places a program's executable in the copied folder in which it runs, where programs look for their files."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

from hipsynth.profiling.sim.api import Artefacts


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


def _is_executable(path: Path) -> bool:
    if not path.is_file() or path.is_symlink():
        return False
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"
