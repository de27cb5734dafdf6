"""Copies a program's folder, so that it finds its data but cannot modify the original, and the files that it made."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from hipsynth.core.files import leads_to_file
from hipsynth.core.languages import INCLUDED_SUFFIXES

SKIPPED_FOLDERS = frozenset({".git", ".svn", ".hg", "CMakeFiles", "node_modules", "__pycache__"})
CORPUS_MANIFEST, RELEASE_FACTS = "manifest.json", "release.json"  # what a corpus and a release have
SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")  # of temporary files
COPY_FILE_BYTES, COPY_BYTES, COPY_FILES = 64 << 20, 256 << 20, 5000
KEPT_BYTES, KEPT_FILES, KEPT_DEPTH = 1 << 30, 5000, 32


def is_shared_folder(folder: Path) -> bool:
    """Whether many programs' files lie in a folder, and the user's own: the home folder, one above it, or one of
    temporary files. `folder`: without links."""
    home = Path(os.path.expanduser("~")).resolve()  # noqa: PTH111 - Path.home() fails where there is none
    temporary = (Path(tempfile.gettempdir()).resolve(), *map(Path, SHARED_FOLDERS))
    return folder in (home, *home.parents, *temporary)


def is_includable(path: Path, folder: Path) -> bool:
    """Whether programs in a folder may include a file: any below it, but of a shared folder only headers and sources
    right in it. Both without links."""
    if is_shared_folder(folder):
        return path.parent == folder and path.suffix in INCLUDED_SUFFIXES
    return path.is_relative_to(folder)


def copy_folder(source: Path, target: Path, *, links: bool = False) -> None:
    """Copies the files below `source` to the new folder `target`; of their rights, only that to execute.

    Leaves out SKIPPED_FOLDERS, symbolic links (with `links` they stay links), files above COPY_FILE_BYTES, and files
    beyond COPY_BYTES in total or COPY_FILES in number.
    """
    target.mkdir(parents=True)
    spent = count = 0
    for path in walk_files(source, links=links):
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
            if not path.is_symlink() and path.stat().st_mode & stat.S_IXUSR:
                copy.chmod(0o755)


def walk_files(folder: Path, *, links: bool = False) -> Iterator[Path]:
    """The files below a folder but in SKIPPED_FOLDERS, and with `links` the symbolic links, which are not followed."""
    for current, names, files in os.walk(folder):
        linked = [name for name in names if os.path.islink(os.path.join(current, name))]  # noqa: PTH114, PTH118
        names[:] = sorted(name for name in names if name not in SKIPPED_FOLDERS)
        for name in sorted([*files, *linked]):
            path = Path(current) / name
            is_file = leads_to_file(path)
            if links if os.path.islink(path) else is_file:  # noqa: PTH114
                yield path


Stamp = tuple[int, int, int]


def stamp_files(folder: Path) -> dict[str, Stamp]:
    """Relative path -> what changes when a file does, for the first KEPT_FILES regular files below an untrusted folder.

    Follows no links, and goes KEPT_DEPTH folders deep.
    """
    stamps: dict[str, Stamp] = {}
    queue = [("", 0)]
    while queue:
        inside, depth = queue.pop()
        try:
            with os.scandir(folder / inside) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    path = os.path.join(inside, entry.name)  # noqa: PTH118
                    if entry.is_dir(follow_symlinks=False) and depth < KEPT_DEPTH:
                        queue.append((path, depth + 1))
                    elif entry.is_file(follow_symlinks=False) and len(stamps) < KEPT_FILES:
                        at = entry.stat(follow_symlinks=False)
                        stamps[path] = (at.st_size, at.st_mtime_ns, at.st_ino)
        except OSError:  # a folder that may not be read
            continue
    return stamps


def changed_files(folder: Path, before: Mapping[str, Stamp]) -> list[str]:
    """The files below `folder` that are new or were written since `before`, as relative paths, sorted."""
    return sorted(path for path, stamp in stamp_files(folder).items() if before.get(path) != stamp)


def copy_out(folder: Path, names: Iterable[str], target: Path) -> list[str]:
    """Copies files out of an untrusted folder in which nothing runs any more; returns those that were left out.

    `target` must be new or empty. Only regular files are copied, up to KEPT_BYTES in total, without rights or owner.
    """
    left, omitted = KEPT_BYTES, []
    for name in names:
        try:
            source = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            omitted.append(name)
            continue
        with open(source, "rb") as file:  # noqa: PTH123 - a descriptor
            status = os.fstat(source)
            if not stat.S_ISREG(status.st_mode) or status.st_size > left:
                omitted.append(name)
                continue
            left -= status.st_size
            copy = target / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            with copy.open("xb") as out:
                shutil.copyfileobj(file, out)
    return omitted
