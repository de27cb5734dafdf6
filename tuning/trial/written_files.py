"""The files that a program leaves in its folder, as a text that is compared like what it prints."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_program_file
from hipsynth.simulator.observation import RECORD_FILE
from hipsynth.simulator.scripts.compiled_kernels import CACHE
from hipsynth.simulator.scripts.trial import FILE

MOST_FILES, MOST_DEPTH = 256, 8  # whose content is compared; of folders in folders
TEXT_BYTES = 4 << 20  # of a run: what comes after, and what is no text, is compared by its digest
FILE_BYTES = 256 << 20  # longer ones by their size
_OURS = frozenset({RECORD_FILE, FILE, CACHE})  # in the folder of a run
_BYTECODE = "__pycache__"  # of Python's modules, with the times of their sources
_LETTERS = str.maketrans("0123456789", "ghijklmnop")  # of a digest, so that it holds no numbers


@dataclass(frozen=True)
class FileState:
    """A file in the folder of a run, by its path there; times are nanoseconds since 1970."""

    name: str
    bytes: int
    modified_ns: int


def list_file_states(folder: Path) -> frozenset[FileState]:
    """What lies in the folder of a run before it begins."""
    states = set()
    for name in _list_files(folder, folder, MOST_DEPTH):
        with contextlib.suppress(OSError):  # it is gone, or unreadable
            status = (folder / name).lstat()
            states.add(FileState(name, status.st_size, status.st_mtime_ns))
    return frozenset(states)


def describe_written_files(folder: Path, earlier: Collection[FileState] = ()) -> str:
    """Every file in the folder of a run that is not as it was `earlier`, in the order of paths: a line with its path,
    then its text or digest."""
    same = {state.name for state in list_file_states(folder) & frozenset(earlier)} if earlier else set()
    text = ""
    for number, name in enumerate(sorted(set(_list_files(folder, folder, MOST_DEPTH)) - same)):
        content = _describe_file(folder, name, TEXT_BYTES - len(text)) if number < MOST_FILES else ""
        text += f"file {name}:\n{content}\n"
    return text


def _list_files(folder: Path, top: Path, depth: int) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if (folder == top and entry.name in _OURS) or entry.name == _BYTECODE:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    if depth:
                        yield from _list_files(Path(entry.path), top, depth - 1)
                else:
                    yield str(Path(entry.path).relative_to(top))
    except OSError:  # the program took the right to read it away
        yield f"{folder.relative_to(top)} (unreadable)"


def _describe_file(folder: Path, name: str, text_bytes: int) -> str:
    try:
        data = read_program_file(folder, name, FILE_BYTES)
    except BadInput as error:  # a link, a pipe, or too long
        return str(error.reason)
    if len(data) <= text_bytes and b"\0" not in data:
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return hashlib.sha256(data).hexdigest().translate(_LETTERS)
