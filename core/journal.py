"""Append-only logs of JSON records, from which interrupted work resumes. Each line has a checksum."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Generic, TypeVar

from hipsynth.core.errors import BadInput
from hipsynth.core.files import open_regular, replace_atomically, write_error, write_whole
from hipsynth.core.reasons import Reason

# Each record is passed to the operating system at once (safe against kill -9); fsync is called at least this often.
SYNC_EVERY_S = 0.5
R = TypeVar("R")
FILE_BYTES, LINE_BYTES = 1 << 40, 64 << 20  # a record holds a program's text, or the end of its output


def encode_record(record: Mapping[str, object]) -> bytes:
    """One line: eight hex digits of CRC-32, a space, compact JSON, a newline."""
    body = json.dumps(record, separators=(",", ":")).encode()
    return b"%08x %s\n" % (zlib.crc32(body), body)


def decode_line(line: bytes) -> dict[str, object] | None:
    """The record of one line, or None if the line is incomplete or damaged."""
    if not line.endswith(b"\n") or len(line) < 11 or line[8:9] != b" ":
        return None
    body = line[9:-1]
    try:
        if int(line[:8], 16) != zlib.crc32(body):
            return None
        record = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


def read_records(path: Path) -> Iterator[tuple[int, int, dict[str, object]]]:
    """(offset, length, record) of every complete record; none if there is no file. Ignores an incomplete last line.

    Raises BadInput for damage before it, and for what is not a file in its folder."""
    offset = 0
    for number, line in enumerate(_read_lines(path), 1):
        record = decode_line(line)
        if record is None:
            if not line.endswith(b"\n"):
                return  # only the last line ends without one
            raise damaged_record(path, number, "its checksum does not match")
        yield offset, len(line), record
        offset += len(line)


def _read_lines(path: Path) -> Iterator[bytes]:
    """The lines of a journal. A line longer than any record ends a damaged file; only its beginning is given."""
    if not path.exists() and not path.is_symlink():
        return
    with open_regular(path, FILE_BYTES, inside=path.parent) as file:
        while line := file.readline(LINE_BYTES):
            yield line if len(line) < LINE_BYTES else line[:9] + b"\n"
            if len(line) == LINE_BYTES:
                return


def damaged_record(path: Path, number: int, cause: str) -> BadInput:
    """The error for a damaged line of a journal."""
    return BadInput(
        f"{path}:{number}: damaged record",
        cause=cause,
        remedy=f"delete line {number} (`sed -i {number}d {shlex.quote(str(path))}`) and run the same command again",
        reason=Reason.CORRUPT,
    )


def remove_damaged_lines(path: Path) -> list[int]:
    """Removes the damaged lines of a journal; returns their numbers, counted from 1. Intact ones keep their order."""
    bad = [
        number for number, line in enumerate(_read_lines(path), 1) if line.endswith(b"\n") and decode_line(line) is None
    ]
    if bad:
        with replace_atomically(path, durable=True) as fresh, fresh.open("wb") as file:
            file.writelines(line for line in _read_lines(path) if decode_line(line) is not None)
    return bad


def read_at(path: Path, places: Sequence[tuple[int, int]]) -> Iterator[dict[str, object]]:
    """The records at the (offset, length) positions from `read_records` or `append`. Raises BadInput if one changed."""
    if not places:
        return
    with open_regular(path, FILE_BYTES, inside=path.parent) as file:
        for offset, length in places:
            file.seek(offset)
            record = decode_line(file.read(length))
            if record is None:
                raise BadInput(
                    f"{path}: changed while it was read", remedy="run the command again", reason=Reason.CORRUPT
                )
            yield record


def _write_all(descriptor: int, data: bytes) -> None:
    """Writes all bytes; the operating system may take a part of them at a time."""
    while data:
        data = data[os.write(descriptor, data) :]


class Journal:
    """A journal opened for appending by one process. Opening it truncates an incomplete last line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        end = 0
        for offset, length, _ in read_records(path):
            end = offset + length
        try:
            self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            if os.fstat(self._fd).st_size > end:
                os.ftruncate(self._fd, end)
        except OSError as error:
            raise write_error(path, error) from error
        self._end = end
        self._synced = time.monotonic()

    def append(self, record: Mapping[str, object]) -> tuple[int, int]:
        """Appends one record, completely or not at all; returns its (offset, length)."""
        line = encode_record(record)
        offset = self._end
        try:
            os.lseek(self._fd, offset, os.SEEK_SET)
            _write_all(self._fd, line)
        except OSError as error:
            os.ftruncate(self._fd, offset)
            raise write_error(self.path, error) from error
        self._end += len(line)
        if time.monotonic() - self._synced > SYNC_EVERY_S:
            self.sync()
        return offset, len(line)

    def sync(self) -> None:
        os.fsync(self._fd)
        self._synced = time.monotonic()

    def clear(self) -> None:
        """Empties the journal; call it only after its records are stored in shards."""
        os.ftruncate(self._fd, 0)
        self._end = 0
        self.sync()

    def close(self) -> None:
        if self._fd >= 0:
            self.sync()
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Journal:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, tb: TracebackType | None) -> None:
        self.close()


def _encode_result(key: str, result: object) -> bytes:
    return encode_record({"key": key, "result": result})


class ResultJournal(Generic[R]):
    """Results by key. Incomplete and invalid lines are ignored: their items are done again.

    `checked` returns the result that a line holds; KeyError, TypeError or ValueError rejects it.
    """

    def __init__(self, path: Path, checked: Callable[[object], R]) -> None:
        self.path = path
        self.checked = checked

    def read(self) -> dict[str, R]:
        """The results by key. Raises BadInput if the journal is not a file in its folder."""
        records: dict[str, R] = {}
        for record in map(decode_line, _read_lines(self.path)):
            with contextlib.suppress(ValueError, KeyError, TypeError, RecursionError):
                if record is not None:
                    records[str(record["key"])] = self.checked(record["result"])
        return records

    def add(self, key: str, result: R) -> None:
        """Appends a result, after a line end if the line before is incomplete. Raises BadInput."""
        line = _encode_result(key, result)
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o644)
            try:
                size = os.fstat(descriptor).st_size
                torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
                _write_all(descriptor, b"\n" + line if torn else line)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise write_error(self.path, error) from error

    def sort(self) -> None:
        """Puts the lines in the order of their keys, each once, so that the file does not tell which result came first.
        Raises BadInput."""
        write_whole(self.path, b"".join(_encode_result(key, result) for key, result in sorted(self.read().items())))
