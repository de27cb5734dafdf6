"""Scratch folders that do not stay behind, not even after kill -9.

Every process makes one folder in $TMPDIR and holds a lock (flock) on it as long as it lives; all its scratch folders
lie inside. The kernel releases the lock however the process ends, so the next process can tell which folders are
abandoned and deletes them. Unlike process ids, locks also work between containers that share $TMPDIR; systemd-tmpfiles
respects them too.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import util
from pathlib import Path

from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency, is_disk_full
from hipsynth.core.locks import take_lock
from hipsynth.core.reasons import Reason

PREFIX = "hipsynth-process-"
KeepFolder = Callable[[contextlib.AbstractContextManager[Path]], Path]  # ExitStack.enter_context, or a verb's
_AS_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_ATTEMPTS = 100


@dataclass(frozen=True)
class _ProcessFolder:
    """This process's folder, and the descriptor that holds its lock."""

    path: Path
    descriptor: int


_own: _ProcessFolder | None = None
_making = threading.Lock()


@contextmanager
def scratch_folder(prefix: str = "scratch-", *, within: Path | None = None) -> Iterator[Path]:
    """A new empty folder that is deleted when the block ends; `within`: below this folder of `process_folder()`.

    Raises MissingDependency or BadInput like `process_folder`.
    """
    above = within or process_folder()
    try:
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=above))
    except OSError as error:
        raise _unusable_folder_error(above.parent, error) from error
    try:
        yield folder
    finally:
        remove_tree(folder)


def process_folder() -> Path:
    """The folder of this process, made at its first use and deleted at its end; a forked process makes its own.

    Raises MissingDependency if $TMPDIR is no folder that can be written to, BadInput (reason "disk_full") if it is
    full.
    """
    global _own
    with _making:
        if _own is None or not _own.path.is_dir():
            place = Path(os.environ.get("TMPDIR") or "/tmp").absolute()
            try:
                _own = _make_process_folder(place)
            except OSError as error:
                raise _unusable_folder_error(place, error) from error
            # Runs at the end of the main process and of multiprocessing's workers, after their children have ended.
            util.Finalize(None, _remove_own, exitpriority=-100)
            _sweep_dead_folders(place)
        return _own.path


def _unusable_folder_error(place: Path, error: OSError) -> HipsynthError:
    if is_disk_full(error):
        remedy = "free some space there, or set TMPDIR to a folder with space; what is finished is kept"
        return BadInput(
            f"{place}: no space for temporary files", cause=str(error), remedy=remedy, reason=Reason.DISK_FULL
        )
    remedy = "set TMPDIR to a folder that exists and that you can write to"
    return MissingDependency(f"{place}: cannot hold temporary files", cause=str(error), remedy=remedy)


def _make_process_folder(place: Path) -> _ProcessFolder:
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=place))
        # Another process may take it for abandoned before it is locked.
        with contextlib.suppress(FileNotFoundError), contextlib.ExitStack() as stack:
            descriptor = os.open(path, _AS_FOLDER)
            stack.callback(os.close, descriptor)
            if take_lock(descriptor) and path.stat().st_ino == os.fstat(descriptor).st_ino:
                stack.pop_all()
                return _ProcessFolder(path, descriptor)


def _remove_own() -> None:
    global _own
    if _own is not None:
        remove_tree(_own.path)
        os.close(_own.descriptor)
        _own = None


def _after_fork() -> None:
    """The child of a fork shares its parent's lock: it lets go of it, and makes its own folder when it needs one."""
    global _own, _making
    if _own is not None:
        os.close(_own.descriptor)
    _own, _making = None, threading.Lock()


os.register_at_fork(after_in_child=_after_fork)


def _sweep_dead_folders(place: Path) -> None:
    """Deletes the folders of dead processes of this user. Other processes may delete them at the same time, which is no
    error."""
    with contextlib.suppress(OSError), os.scandir(place) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError):
                    _sweep_one(place / entry.name)


def _sweep_one(path: Path) -> None:
    descriptor = os.open(path, _AS_FOLDER)
    try:
        if os.fstat(descriptor).st_uid == os.geteuid():
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # raises if its process lives
            remove_tree(path)
    finally:
        os.close(descriptor)


# --- deletion -------------------------------------------------------------------------------------------------------


def remove_tree(path: Path) -> None:
    """Deletes a folder that untrusted programs may have filled; files that cannot be deleted stay, without an error.

    Follows no link, opens folders without permissions, and needs neither recursion nor a descriptor per level: a folder
    10,000 levels deep is moved up level by level.
    """
    with contextlib.suppress(OSError):
        above = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _remove_in(above, path.name)
        finally:
            os.close(above)


def _remove_in(above: int, name: str) -> None:
    top = open_folder(above, name)
    if top is not None:
        try:
            remove_contents(top)
        finally:
            os.close(top)
        os.rmdir(name, dir_fd=above)


def remove_contents(top: int) -> None:
    """Deletes everything in the folder of a descriptor, like `remove_tree`."""
    fresh = (f"{number}.doomed" for number in itertools.count())
    for _ in range(_ATTEMPTS):  # a program that is just being killed may still write
        folders = _unlink_files(top, top, None)
        if not folders:
            return
        while folders:
            inner = open_folder(top, folders[-1])
            if inner is None:
                folders.pop()
                continue
            try:
                deeper = _unlink_files(inner, top, fresh)
            finally:
                os.close(inner)
            with contextlib.suppress(OSError):
                os.rmdir(folders.pop(), dir_fd=top)
            folders += deeper


def _unlink_files(folder: int, top: int, fresh: Iterator[str] | None) -> list[str]:
    """Deletes the files of a folder; moves its folders into `top` under the names `fresh`, or leaves them if None.

    Returns the folders' names.
    """
    names = []
    with os.scandir(folder) as entries:
        listed = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    for name, is_folder in listed:
        with contextlib.suppress(OSError):
            if not is_folder:
                os.unlink(name, dir_fd=folder)
            elif fresh is None:
                names.append(name)
            else:
                names.append(_move_up(folder, name, top, fresh))
    return names


def _move_up(folder: int, name: str, top: int, fresh: Iterator[str]) -> str:
    allow_entry(folder, name, 0o700)  # moving a folder changes its "..", which needs the right to write to it
    for target in fresh:
        try:
            os.rename(name, target, src_dir_fd=folder, dst_dir_fd=top)
            return target
        except (FileExistsError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
    raise AssertionError("the names never end")


def open_folder(top: int, name: str) -> int | None:
    """A descriptor of the folder `name` in `top`, with all rights for this user; None if it is gone or no folder."""
    with contextlib.suppress(OSError):
        allow_entry(top, name, 0o700)
        return os.open(name, _AS_FOLDER, dir_fd=top)
    return None


def allow_entry(folder: int, name: str, rights: int) -> None:
    """Gives this user rights (bits of 0o700) to a file or folder in the folder of a descriptor; follows no link."""
    place = os.open(name, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    try:
        mode = stat.S_IMODE(os.fstat(place).st_mode)
        if mode & rights != rights:
            Path(f"/proc/self/fd/{place}").chmod(mode | rights)
    finally:
        os.close(place)
