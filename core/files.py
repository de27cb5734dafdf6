"""Atomic writes of files and folders (a reader sees either the complete old content or the complete new one), and reads
that cannot hang, exhaust the memory or leave a folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import stat
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import BinaryIO, TextIO

from hipsynth.core.errors import BadInput, is_disk_full
from hipsynth.core.locks import release_lock, take_own_lock
from hipsynth.core.reasons import Reason

PARTIAL = ".partial"
_UNFINISHED = re.compile(rf"\.\d+-\d+{re.escape(PARTIAL)}$")
SOURCE_BYTES = 8 << 20  # limit of a source or header; larger ones are data or attacks
RESULT_BYTES = 1 << 30  # limit of a file of results, such as the predictions of a model


def leads_to_file(path: str | Path) -> bool:
    """Whether a regular file is there, after links; false where Path.is_file raises: in a folder without rights, and
    for text that is no path or too long for one."""
    return os.path.isfile(path)  # noqa: PTH113


def leads_to_folder(path: str | Path) -> bool:
    """Whether a folder is there, as `leads_to_file`."""
    return os.path.isdir(path)  # noqa: PTH112


def leads_somewhere(path: str | Path) -> bool:
    """Whether anything is there, as `leads_to_file`."""
    return os.path.exists(path)  # noqa: PTH110


def hash_file(path: Path) -> str:
    """SHA-256 of a file of our own, as hexadecimal text. For files of others see open_regular()."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def open_regular(path: Path, limit: int, *, inside: Path | None = None) -> BufferedReader:
    """Opens a regular file of at most `limit` bytes for reading.

    A pipe or a device is refused without being opened. With `inside`, the opened file must lie in that folder after all
    symbolic links are followed. Raises BadInput, its reason "missing_file", "unreadable_file", "not_a_file",
    "too_large" or "outside".
    """
    try:
        _check_kind(path, path.stat())  # before it is opened: opening a device can have effects
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL character in the name
        raise _read_error(path, error) from error
    try:
        status = os.fstat(descriptor)
        _check_kind(path, status)  # again: the path may have been replaced in between
        if status.st_size > limit:
            raise _too_large(path, limit)
        if inside is not None:
            _check_inside(path, descriptor, inside)
        return os.fdopen(descriptor, "rb")
    except BaseException:
        os.close(descriptor)
        raise


def read_regular(path: Path, limit: int, *, inside: Path | None = None) -> bytes:
    """The content of a regular file of at most `limit` bytes, opened and refused like `open_regular`."""
    with open_regular(path, limit, inside=inside) as file:
        parts: list[bytes] = []
        left = limit + 1  # the size that stat gives is not binding: the file may grow, those of /proc have size 0
        try:
            while left > 0 and (part := os.read(file.fileno(), min(left, 1 << 20))):
                parts.append(part)
                left -= len(part)
        except OSError as error:
            raise _read_error(path, error) from error
    if left <= 0:
        raise _too_large(path, limit)
    return b"".join(parts)


def read_program_file(folder: Path, name: str, limit: int) -> bytes:
    """What a run left in its folder under this name, at most `limit` bytes; nothing if there is no such file.

    Raises BadInput, its reason that of open_regular(): "outside" where the program put a link to another place.
    """
    path = folder / name
    if not os.path.lexists(path):
        return b""
    try:
        return read_regular(path, limit, inside=folder)
    except BadInput as error:
        cause = "the program replaced or enlarged it"
        raise BadInput(f"{name} is not what the run wrote", cause=cause, reason=error.reason) from error


def resolve_path(path: Path) -> Path:
    """The path without symbolic links. Raises BadInput if they lead in a circle."""
    try:
        return path.resolve()
    except RuntimeError as error:  # of Python 3.11 and 3.12
        remedy = "give the path of a file or folder"
        raise BadInput(f"{path}: links that lead in a circle", remedy=remedy, reason=Reason.UNREADABLE_FILE) from error


def folder_around(path: Path, roots: Sequence[Path] | None) -> Path | None:
    """The first of `roots` that holds the file after all links, to read it `inside`; the first root if none does.

    None without roots: the file may lie anywhere.
    """
    if not roots:
        return None
    resolved = path.resolve()
    return next((root for root in roots if resolved.is_relative_to(root.resolve())), roots[0])


def copy_regular(source: Path, target: Path, limit: int = RESULT_BYTES) -> Path:
    """Copies a regular file of at most `limit` bytes that an untrusted program made in the folder it lies in.

    A link out of that folder is refused like a pipe (see `open_regular`). Returns `target`; raises BadInput, OSError.
    """
    with open_regular(source, limit, inside=source.parent) as file, target.open("wb") as out:
        shutil.copyfileobj(file, out)
    return target


def _check_kind(path: Path, status: os.stat_result) -> None:
    if stat.S_ISREG(status.st_mode):
        return
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
    raise BadInput(
        f"{path}: is not a file but {kind}", remedy="give the path of a regular file", reason=Reason.NOT_A_FILE
    )


def _check_inside(path: Path, descriptor: int, folder: Path) -> None:
    opened = Path(f"/proc/self/fd/{descriptor}").readlink()  # what was opened, not what is there now
    if not opened.is_relative_to(folder.resolve()):
        raise BadInput(
            f"{path}: lies outside the folder {folder}",
            cause=f"it is a link or a path to {opened}",
            remedy="replace it by a copy of the file",
            reason=Reason.OUTSIDE,
        )


def _too_large(path: Path, limit: int) -> BadInput:
    size = f"{limit >> 20} MiB" if limit >= 1 << 20 else f"{limit} bytes"
    return BadInput(f"{path}: is larger than {size}", remedy="give a smaller file", reason=Reason.TOO_LARGE)


def _read_error(path: Path, error: OSError | ValueError) -> BadInput:
    if isinstance(error, FileNotFoundError):
        return BadInput(f"{path}: no such file", cause=str(error), remedy="check the path", reason=Reason.MISSING_FILE)
    remedy = "check the path and the permissions of the file"
    return BadInput(f"{path}: cannot be read", cause=str(error), remedy=remedy, reason=Reason.UNREADABLE_FILE)


def write_error(path: Path, error: OSError) -> BadInput:
    """The BadInput that reports a failed write; its reason is "disk_full" if there is no space left."""
    if is_disk_full(error):
        return BadInput(
            f"{path}: cannot be written, no space left",
            cause=str(error),
            remedy="free some space and run the same command again: what is finished is kept",
            reason=Reason.DISK_FULL,
        )
    remedy = "choose another folder, or check the permissions of this one"
    return BadInput(f"{path}: cannot be written", cause=str(error), remedy=remedy)


@contextmanager
def replace_atomically(
    path: Path, *, durable: bool = False, is_finished: Callable[[Path], bool] = lambda _: False
) -> Iterator[Path]:
    """Yields a temporary path next to `path`; the file or folder created there replaces `path` if the block succeeds.

    If the block raises, `path` is unchanged and the temporary one is removed. `durable` calls fsync on a file.
    If another process has created a folder at `path` in the meantime and `is_finished` accepts it, that one is kept.
    Raises BadInput when something cannot be written (see write_error).
    """
    fresh = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_native_id()}{PARTIAL}")  # as _UNFINISHED says
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
        _remove_path(fresh)
        if isinstance(error, OSError):
            raise write_error(path, error) from error
        raise


def write_whole(path: Path, content: str | bytes, *, durable: bool = False) -> None:
    """Writes text (UTF-8) or bytes to `path` atomically, to links and devices as whole_file(); raises BadInput."""
    with _open_output(path, durable=durable) as file:
        file.write(content.encode() if isinstance(content, str) else content)


def require_writable(path: Path) -> None:
    """Raises BadInput if write_whole could not write the file: asked before long work, whose result would be lost."""
    if path.is_dir():
        raise write_error(path, IsADirectoryError(f"{path} is a folder"))
    if _is_stream(path):
        return
    path = resolve_path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise write_error(path, error) from error


def write_if_changed(path: Path, text: str) -> None:
    """Writes a generated file only if its content changed, so that what is built from it stays."""
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


@contextmanager
def whole_file(path: Path) -> Iterator[TextIO]:
    """Yields a text file that replaces `path` if the block succeeds, where that is a link its target; raises BadInput.

    What is not a regular file (a pipe, a device), and the file of standard output or error, is written to directly,
    never replaced.
    """
    with _open_output(path) as file, TextIOWrapper(file, encoding="utf-8") as text:
        yield text


@contextmanager
def _open_output(path: Path, *, durable: bool = False) -> Iterator[BinaryIO]:
    if path.is_dir():
        raise write_error(path, IsADirectoryError(f"{path} is a folder"))
    if not _is_stream(path):
        with replace_atomically(resolve_path(path), durable=durable) as fresh, fresh.open("wb") as file:
            yield file
        return
    standard = _standard_stream(path)
    try:
        with path.open("wb") if standard is None else os.fdopen(os.dup(standard), "wb") as file:
            yield file
    except OSError as error:
        raise write_error(path, error) from error


def _is_stream(path: Path) -> bool:
    """Whether what is written to the path must go into what is there: a pipe, a device, our own output."""
    return path.exists() and (not path.is_file() or _standard_stream(path) is not None)


def _standard_stream(path: Path) -> int | None:
    """The descriptor of standard output or error if `path` is the same file, such as /dev/stdout."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(path.stat(), os.fstat(descriptor)):
                return descriptor
    return None


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Makes the folder, locks it while the block runs, and removes what killed writers left in it (see
    `replace_atomically`). Raises BadInput if another process has it locked.

    Processes forked in the block do not hold the lock: it ends with this process, however that ends.
    """
    descriptor = lock_writing(folder, folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _remove_unfinished(folder)
        yield
    finally:
        release_lock(descriptor)


def lock_writing(folder: Path, path: Path, flags: int) -> int:
    """Makes the folder and opens and locks `path`, which keeps other writers of the folder out until release_lock().

    `flags`: for os.open. Returns the descriptor. Raises BadInput if another process has the lock, or it cannot be
    taken.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, flags | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise write_error(folder, error) from error
    try:
        if take_own_lock(descriptor):
            return descriptor
        raise BadInput(f"{folder}: another command is writing to it", remedy="wait until it ends")
    except BaseException as error:
        release_lock(descriptor)
        raise (write_error(folder, error) if isinstance(error, OSError) else error) from None


def _remove_unfinished(folder: Path) -> None:
    """Removes what replace_atomically() left in a folder whose lock is ours: its writers are dead."""
    try:
        for path in folder.iterdir():
            if _UNFINISHED.search(path.name):
                _remove_path(path)
    except OSError as error:
        raise write_error(folder, error) from error


def _replace_folder(fresh: Path, path: Path, is_finished: Callable[[Path], bool]) -> None:
    if not is_finished(path):
        shutil.rmtree(path, ignore_errors=True)
    try:
        fresh.rename(path)
    except OSError:
        if not is_finished(path):
            raise
        _remove_path(fresh)


def _force_to_disk(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove_path(path: Path) -> None:
    with contextlib.suppress(OSError):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
