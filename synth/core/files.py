"""Atomic writes of files and folders: a reader sees either the complete old content or the complete new content."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from hipsynth.synth.core.errors import BadInput

PARTIAL = ".partial"


def write_error(path: Path, error: OSError) -> BadInput:
    """The BadInput that reports a failed write; its reason is "disk_full" if there is no space left."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return BadInput(
            f"{path}: cannot be written, no space left",
            cause=str(error),
            remedy="free some space and run the same command again: what is finished is kept",
            reason="disk_full",
        )
    remedy = "choose another folder, or check the permissions of this one"
    return BadInput(f"{path}: cannot be written", cause=str(error), remedy=remedy)


@contextmanager
def replacing(
    path: Path, *, durable: bool = False, is_finished: Callable[[Path], bool] = lambda _: False
) -> Iterator[Path]:
    """Yields a temporary path next to `path`; the file or folder created there replaces `path` if the block succeeds.

    If the block raises, `path` is unchanged and the temporary one is removed. `durable` calls fsync on a file.
    If another process has created a folder at `path` in the meantime and `is_finished` accepts it, that one is kept.
    Raises BadInput when something cannot be written (see write_error).
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_native_id()}{PARTIAL}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        yield fresh
        if fresh.is_dir():
            _replace_folder(fresh, path, is_finished)
            return
        if durable:
            _force_to_disk(fresh)
        fresh.replace(path)
        if durable:
            _force_to_disk(path.parent)
    except BaseException as error:
        _remove(fresh)
        if isinstance(error, OSError):
            raise write_error(path, error) from error
        raise


def write_whole(path: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Writes text (UTF-8) or bytes to `path` atomically; raises BadInput."""
    with replacing(path, durable=durable) as fresh, fresh.open("wb") as file:
        file.write(content.encode() if isinstance(content, str) else content)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Yields a text file that replaces `path` if the block succeeds; raises BadInput.

    A `path` that is not a regular file (a pipe, /dev/stdout) is written to directly, never replaced.
    """
    if path.is_dir():
        raise write_error(path, IsADirectoryError(f"{path} is a folder"))
    if not path.exists() or path.is_file():
        with replacing(path) as fresh, fresh.open("w") as file:
            yield file
        return
    try:
        with path.open("w") as file:
            yield file
    except OSError as error:
        raise write_error(path, error) from error


def _replace_folder(fresh: Path, path: Path, is_finished: Callable[[Path], bool]) -> None:
    if not is_finished(path):
        shutil.rmtree(path, ignore_errors=True)
    try:
        fresh.rename(path)
    except OSError:
        if not is_finished(path):
            raise
        _remove(fresh)


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
