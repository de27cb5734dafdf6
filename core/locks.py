"""Locks (flock) of files and folders. They end with the process that took them, however that ends."""

from __future__ import annotations

import errno
import fcntl
import os

_WITHOUT_LOCKS = frozenset({errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK})  # what a file system without locks answers
_unshared: set[int] = set()  # descriptors that forked processes close


def take_lock(descriptor: int) -> bool:
    """Takes the lock of an open file or folder; False if another process has it.

    True on file systems without locks, where nobody can take one. Raises OSError for any other failure.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _WITHOUT_LOCKS:
            raise
    return True


def take_own_lock(descriptor: int) -> bool:
    """Like take_lock(), but processes that are forked from now on do not share the lock. End it by release_lock()."""
    _unshared.add(descriptor)
    return take_lock(descriptor)


def release_lock(descriptor: int) -> None:
    """Closes the descriptor, which ends the lock; does nothing in a process that was forked meanwhile."""
    if descriptor in _unshared:
        _unshared.discard(descriptor)
        os.close(descriptor)


def _release_after_fork() -> None:
    for descriptor in list(_unshared):
        release_lock(descriptor)


os.register_at_fork(after_in_child=_release_after_fork)
