"""Journals of results: a line is written whole, whatever the operating system takes at a time."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.core.journal import Journal, ResultJournal, read_records


def write_in_parts(monkeypatch: pytest.MonkeyPatch, left: int = 1 << 30) -> None:
    """From now on a file named "log" takes 10 bytes at a time, and `left` bytes in all."""
    real, room = os.write, [left]

    def write(descriptor: int, data: bytes) -> int:
        if Path(f"/proc/self/fd/{descriptor}").readlink().name != "log":
            return real(descriptor, data)
        if room[0] <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        count = real(descriptor, data[: min(10, room[0])])
        room[0] -= count
        return count

    monkeypatch.setattr(os, "write", write)


def test_lines_that_are_taken_in_parts_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_in_parts(monkeypatch)
    results = ResultJournal(tmp_path / "log", str)
    results.add("a", "a result that is longer than a part")
    results.add("b", "another one")
    assert results.read() == {"a": "a result that is longer than a part", "b": "another one"}


def test_a_journal_that_is_taken_in_parts_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_in_parts(monkeypatch)
    with Journal(tmp_path / "log") as journal:
        for number in range(3):
            journal.append({"number": number})
    assert [record["number"] for _, _, record in read_records(tmp_path / "log")] == [0, 1, 2]


def test_a_result_that_finds_no_space_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = ResultJournal(tmp_path / "log", str)
    results.add("a", "first")
    with monkeypatch.context() as patched:
        write_in_parts(patched, left=15)
        with pytest.raises(BadInput, match="no space"):
            results.add("b", "second")
    results.add("c", "third")
    assert results.read() == {"a": "first", "c": "third"}
