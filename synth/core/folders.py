"""Copies of folders: a program finds its data in one, and writes nothing into the original."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

SKIPPED_FOLDERS = frozenset({".git", ".svn", ".hg", "CMakeFiles", "node_modules", "__pycache__"})
COPY_FILE_BYTES, COPY_BYTES, COPY_FILES = 64 << 20, 256 << 20, 5000


def copy_folder(source: Path, target: Path) -> None:
    """Copies what lies below `source`; big files, those beyond the limits, and version control stay behind."""
    target.mkdir(parents=True)
    spent = count = 0
    for path in _files(source):
        size = path.stat().st_size
        if size > COPY_FILE_BYTES or spent + size > COPY_BYTES:
            continue
        spent, count = spent + size, count + 1
        if count > COPY_FILES:
            return
        copy = target / path.relative_to(source)
        copy.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(PermissionError):  # a file that the user cannot read is left out
            shutil.copyfile(path, copy)


def _files(folder: Path) -> Iterator[Path]:
    for current, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(current) / name
            if path.is_file() and not path.is_symlink():
                yield path
