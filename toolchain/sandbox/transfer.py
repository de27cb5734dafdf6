"""Copies a job's folder into the file system of a sandbox, and what the job left of it back.

What comes back was made by an untrusted program: links are never followed, only regular files, folders and links are
copied, holes stay holes, and numbers and depth are bounded. Nothing of the program may run meanwhile.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from hipsynth.core.scratch import allow_entry, open_folder, remove_tree

MOST_ENTRIES, MOST_DEPTH = 100_000, 64  # of what is copied back; the rest is left out
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
_PART_BYTES = 1 << 30  # that one call of sendfile copies at most

Stamp = tuple[int, int, int]  # inode, time of the last change (which no program can set), size


@dataclass
class CopyIn:
    """Copies of the user's files for jobs that run as user `owner` (None: as this one); `stamps`: of each copy."""

    owner: int | None
    stamps: dict[str, Stamp] = field(default_factory=dict)

    def copy_folder(self, source: int, target: int, inside: str = "") -> None:
        """Copies files, folders and links from folder `source` to the empty folder `target` (descriptors)."""
        self._give_away(target, os.fstat(source).st_mode | 0o700)
        for name, kind in list_entries(source):
            if kind == stat.S_IFDIR:
                os.mkdir(name, 0o700, dir_fd=target)
                with open_path(name, _FOLDER, source) as deeper, open_path(name, _FOLDER, target) as copy:
                    self.copy_folder(deeper, copy, f"{inside}{name}/")
            elif kind == stat.S_IFREG:
                self._copy_file(source, target, name, inside)
            elif kind == stat.S_IFLNK:
                os.symlink(os.readlink(name, dir_fd=source), name, dir_fd=target)

    def _copy_file(self, source: int, target: int, name: str, inside: str) -> None:
        with open_path(name, _READ, source) as file, open_path(name, _WRITE, target) as copy:
            _copy_data(file, copy)
            self._give_away(copy, os.fstat(file).st_mode)
            self.stamps[inside + name] = _file_stamp(os.fstat(copy))

    def _give_away(self, descriptor: int, mode: int) -> None:
        os.fchmod(descriptor, mode & 0o777)
        if self.owner is not None:
            os.fchown(descriptor, self.owner, self.owner)


@dataclass
class CopyOut:
    """Applies a job's changes of its folder to the user's copy. Files with stamps in `before` have not changed."""

    before: dict[str, Stamp]
    left: int = MOST_ENTRIES

    def copy_folder(self, source: int, target: int, inside: str = "", depth: int = 0) -> None:
        """Copies from the job's folder `source` what is new or changed to `target`, and removes there what is gone."""
        present = dict(list_entries(target))
        kept_entries = set()
        for name, kind in list_entries(source):
            self.left -= 1
            if self.left < 0 or (kind == stat.S_IFDIR and depth == MOST_DEPTH):
                continue
            if kind not in (stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
                continue
            kept_entries.add(name)
            if kind != present.get(name):
                _remove_entry(target, name, present.get(name))
            if kind == stat.S_IFDIR:
                self._copy_subfolder(source, target, name, inside, depth)
            elif kind == stat.S_IFREG:
                self._copy_file(source, target, name, inside)
            else:
                _copy_link(source, target, name)
        for name in present.keys() - kept_entries:
            _remove_entry(target, name, present[name])

    def _copy_subfolder(self, source: int, target: int, name: str, inside: str, depth: int) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o755, dir_fd=target)
        deeper = open_folder(source, name)
        if deeper is None:
            return
        try:
            with open_path(name, _FOLDER, target) as copy:
                self.copy_folder(deeper, copy, f"{inside}{name}/", depth + 1)
        finally:
            os.close(deeper)

    def _copy_file(self, source: int, target: int, name: str, inside: str) -> None:
        status = os.stat(name, dir_fd=source, follow_symlinks=False)
        if self.before.get(inside + name) == _file_stamp(status):
            return
        allow_entry(source, name, 0o400)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=target)
        with open_path(name, _READ, source) as file, open_path(name, _WRITE, target) as copy:
            _copy_data(file, copy)
            os.fchmod(copy, (status.st_mode & 0o777) | 0o600)


def _copy_link(source: int, target: int, name: str) -> None:
    text = os.readlink(name, dir_fd=source)
    with contextlib.suppress(FileNotFoundError):
        if os.readlink(name, dir_fd=target) == text:
            return
        os.unlink(name, dir_fd=target)
    os.symlink(text, name, dir_fd=target)


def _remove_entry(folder: int, name: str, kind: int | None) -> None:
    if kind == stat.S_IFDIR:
        remove_tree(Path(f"/proc/self/fd/{folder}") / name)
    elif kind is not None:
        os.unlink(name, dir_fd=folder)


def _copy_data(source: int, target: int) -> None:
    """Copies the bytes and the time of a file; its holes stay holes, of which a program can make huge files."""
    status = os.fstat(source)
    os.ftruncate(target, status.st_size)
    for start, end in _data_ranges(source, status.st_size):
        os.lseek(target, start, os.SEEK_SET)
        while start < end:
            sent = os.sendfile(target, source, start, min(_PART_BYTES, end - start))
            if sent == 0:
                raise OSError(errno.EIO, "a file became shorter while it was copied")
            start += sent
    os.utime(target, ns=(status.st_atime_ns, status.st_mtime_ns))


def _data_ranges(file: int, size: int) -> Iterator[tuple[int, int]]:
    """Start and end of each part of a file that is no hole."""
    end = 0
    while end < size:
        try:
            start = os.lseek(file, end, os.SEEK_DATA)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole follows
                return
            raise
        end = os.lseek(file, start, os.SEEK_HOLE)
        yield start, end


def _file_stamp(status: os.stat_result) -> Stamp:
    return status.st_ino, status.st_ctime_ns, status.st_size


def list_entries(folder: int) -> list[tuple[str, int]]:
    """Name and kind (as of stat.S_IFMT) of everything in a folder, sorted by name."""
    with os.scandir(folder) as entries:
        return sorted((entry.name, stat.S_IFMT(entry.stat(follow_symlinks=False).st_mode)) for entry in entries)


@contextlib.contextmanager
def open_path(path: Path | str, flags: int = _FOLDER, within: int | None = None) -> Iterator[int]:
    """A descriptor of a file or folder, below the folder `within` if given; links are not followed there."""
    descriptor = os.open(path, flags | (os.O_NOFOLLOW if within is not None else 0), 0o600, dir_fd=within)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
