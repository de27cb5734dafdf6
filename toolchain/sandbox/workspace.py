"""The writable folder of a sandbox: a file system in memory, so that the kernel limits what jobs write.

A job's folder is copied into it before the job starts, and what the job changed is copied back after it has ended. The
job sees the folder at its own path and never touches the user's disk. The file system is reached by a descriptor that
the supervisor sends, which stays usable when the sandbox has ended.
"""

from __future__ import annotations

import contextlib
import errno
import os
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.scratch import open_folder, remove_contents
from hipsynth.toolchain.sandbox.transfer import MOST_ENTRIES, CopyIn, CopyOut, Stamp, open_path

ENTRY_BYTES = 1 << 10  # memory that an empty file or folder takes at least


class WorkspaceFull(Exception):
    """A job's folder does not fit into the file system of its sandbox."""


@dataclass(frozen=True)
class CopiedFolder:
    """A job's folder in the sandbox: its inode, and the stamp of each file by its path inside."""

    inode: int
    stamps: dict[str, Stamp]


class Workspace:
    """The file system in memory that a sandbox shows at the path `mount`.

    `descriptor`: of its root. `owner`: the user that jobs run as, None if it is this process's.
    """

    def __init__(self, descriptor: int, mount: Path, owner: int | None) -> None:
        self.descriptor, self.mount, self.owner = descriptor, mount, owner
        self._root = Path(f"/proc/self/fd/{descriptor}")
        self._free_at_first = self._free_space()

    def used_bytes(self) -> int:
        """Bytes that its files hold, at least ENTRY_BYTES each; deleted files that are in use count."""
        return used_bytes(self.descriptor)

    def copy_in(self, folder: Path) -> CopiedFolder:
        """Copies a folder at or below `mount`. Raises WorkspaceFull."""
        place = self._root
        for name in folder.relative_to(self.mount).parts:
            place = place / name
            place.mkdir(mode=0o711)
        copy = CopyIn(self.owner)
        try:
            with open_path(folder) as source, open_path(place) as target:
                copy.copy_folder(source, target)
                return CopiedFolder(os.fstat(target).st_ino, copy.stamps)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise WorkspaceFull from error

    def copy_out(self, folder: Path, before: CopiedFolder) -> bool:
        """Applies the job's changes to `folder`; returns False without copying if the job replaced the folder
        itself."""
        self._root.chmod(0o755)  # of which a job may have taken its rights
        with contextlib.ExitStack() as stack:
            place = self.descriptor
            for name in (".", *folder.relative_to(self.mount).parts):
                inner = open_folder(place, name)
                if inner is None:
                    return False
                stack.callback(os.close, inner)
                place = inner
            if os.fstat(place).st_ino != before.inode:
                return False
            CopyOut(before.stamps).copy_folder(place, stack.enter_context(open_path(folder)))
        return True

    def clear(self) -> bool:
        """Removes all files; whether the file system is then as new."""
        self._root.chmod(0o755)
        if self.used_bytes() <= MOST_ENTRIES * ENTRY_BYTES:  # above that, a new sandbox is quicker
            with open_path(self._root) as top:
                remove_contents(top)
        return self._free_space() == self._free_at_first

    def _free_space(self) -> tuple[int, int]:
        status = os.fstatvfs(self.descriptor)
        return status.f_ffree, status.f_bfree


def used_bytes(descriptor: int) -> int:
    """Bytes that the files of a file system in memory hold, at least ENTRY_BYTES each."""
    status = os.fstatvfs(descriptor)
    return (status.f_blocks - status.f_bfree) * status.f_frsize + (status.f_files - status.f_ffree) * ENTRY_BYTES
