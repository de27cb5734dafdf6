"""Files that a command writes for its user: whole or not at all."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hipsynth.synth.core.errors import BadInput


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """A text file that appears at `path` when the block ends well, and not otherwise.

    What is there but no regular file (a pipe, /dev/stdout) is written to, never replaced. Raises BadInput when the
    path cannot be written or the disk is full.
    """
    special = path.exists() and not path.is_file() and not path.is_dir()
    fresh = path if special else path.with_name(path.name + ".partial")
    try:
        if path.is_dir():
            raise IsADirectoryError(f"{path} is a folder")
        path.parent.mkdir(parents=True, exist_ok=True)
        with fresh.open("w") as file:
            yield file
        if not special:
            fresh.replace(path)
    except OSError as error:
        if not special:
            _forget(fresh)
        raise BadInput(
            f"{path}: cannot be written", cause=str(error), remedy="choose another --out, or free some space"
        ) from error


def _forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return
