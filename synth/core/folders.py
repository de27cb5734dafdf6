"""Copies a program's folder, so that it finds its data but cannot modify the original."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

SKIPPED_FOLDERS = frozenset({".git", ".svn", ".hg", "CMakeFiles", "node_modules", "__pycache__"})
COPY_FILE_BYTES, COPY_BYTES, COPY_FILES = 64 << 20, 256 << 20, 5000


def copy_folder(source: Path, target: Path, *, links: bool = False) -> None:
    """Copies the files below `source` to the new folder `target`.

    Leaves out SKIPPED_FOLDERS, symbolic links (with `links` they stay links), files above COPY_FILE_BYTES, and files
    beyond COPY_BYTES in total or COPY_FILES in number.
    """
    target.mkdir(parents=True)
    spent = count = 0
    for path in _files(source, links):
        size = path.lstat().st_size
        if size > COPY_FILE_BYTES or spent + size > COPY_BYTES:
            continue
        spent, count = spent + size, count + 1
        if count > COPY_FILES:
            return
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # leaves out files that the user cannot read
            shutil.copyfile(path, copy, follow_symlinks=False)


def _files(folder: Path, links: bool) -> Iterator[Path]:
    for current, names, files in os.walk(folder):
        linked = [name for name in names if (Path(current) / name).is_symlink()]
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        for name in sorted([*files, *linked]):
            path = Path(current) / name
            if links if path.is_symlink() else path.is_file():
                yield path
