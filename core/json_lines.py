"""Files with one JSON object a line, that people read and tools append to. Lines with checksums: see journal.py.

Blank lines count for nothing. A last line that an interrupted writer cut is left out by readers, and the next append
replaces it. Any other line that cannot be read is damage: BadInput with its number.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from io import BufferedRandom
from pathlib import Path
from typing import Any, TypeVar

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import open_regular, whole_file, write_error

FILE_BYTES = 1 << 31
T = TypeVar("T")


def read_json_lines(
    path: Path, decode: Callable[[dict[str, Any]], T], noun: str, remedy: str, *, missing_ok: bool = False
) -> Iterator[T]:
    """What `decode` makes of each line's object, of a file of at most FILE_BYTES; none of a missing file if that is
    allowed. Raises BadInput for damage: a line is no `noun` if `decode` raises KeyError, TypeError or ValueError."""
    if missing_ok and not path.exists() and not path.is_symlink():
        return
    with open_regular(path, FILE_BYTES) as file:
        for number, line in enumerate(file, 1):
            if not line.strip() or _is_cut(line):
                continue
            try:
                row = json.loads(line)
                if not isinstance(row, dict):
                    raise TypeError("it is no JSON object")
                document = decode(row)
            except (KeyError, TypeError, ValueError, RecursionError) as error:
                raise BadInput(f"{path}: line {number} is no {noun}", cause=str(error), remedy=remedy) from error
            yield document


def read_documents(path: Path, kind: type[T], remedy: str, *, missing_ok: bool = False) -> Iterator[T]:
    """As read_json_lines(), for the lines of a dataclass."""
    return read_json_lines(path, partial(from_json, kind), kind.__name__, remedy, missing_ok=missing_ok)


def append_json_line(path: Path, row: Mapping[str, object]) -> None:
    """Adds a line, in place of one that was cut; makes the file and its folder. Raises BadInput."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a+b") as file:
            _end_last_line(file)
            file.write(json.dumps(row).encode() + b"\n")
    except OSError as error:
        raise write_error(path, error) from error


def write_json_lines(
    path: Path, rows: Iterable[Mapping[str, object]], *, sort_keys: bool = False, ensure_ascii: bool = True
) -> None:
    """Writes all rows atomically, in json.dumps()'s form. Raises BadInput."""
    with whole_file(path) as file:
        for row in rows:
            file.write(json.dumps(row, sort_keys=sort_keys, ensure_ascii=ensure_ascii) + "\n")


def _end_last_line(file: BufferedRandom) -> None:
    """Removes a last line that was cut, and ends one that only lacks its line end."""
    size = file.seek(0, 2)
    if not size:
        return
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        start = content.rfind(b"\n") + 1
        last = content[start:]
    if last and _is_cut(last):
        file.truncate(start)
    elif last:
        file.write(b"\n")


def _is_cut(line: bytes) -> bool:
    """Whether a line is the beginning of an object: it has neither a line end nor the object's end."""
    if line.endswith(b"\n") or not line.startswith(b"{"):
        return False
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return True
    return False
