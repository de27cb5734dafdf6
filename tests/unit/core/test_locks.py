"""Locks of folders: who has one, what file systems without them do, and what forked processes have of them."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest
from corpus_samples import METRICS, item

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.files import sole_writer
from hipsynth.core.locks import take_lock
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.store import Corpus, CorpusWriter


def fail_with(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK])
def test_a_file_system_without_locks_is_written_to(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(number, monkeypatch)
    with sole_writer(tmp_path / "out"), CorpusWriter(tmp_path / "corpus", METRICS) as writer:
        writer.add(item(1))
    assert Corpus.open(tmp_path / "corpus").measurements().num_rows == 1


def test_other_failures_of_a_lock_are_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("hipsynth.core.scratch._own", None)
    fail_with(errno.EIO, monkeypatch)
    with pytest.raises(BadInput, match="cannot be written"), sole_writer(tmp_path / "out"):
        pass
    with pytest.raises(BadInput, match="cannot be written"):
        CorpusWriter(tmp_path / "corpus", METRICS)
    with pytest.raises(MissingDependency, match="cannot hold"), scratch_folder():
        pass


def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(Path, "iterdir", refuse)
        with pytest.raises(BadInput, match="cannot be written"), sole_writer(tmp_path):
            pass
    with sole_writer(tmp_path):
        pass


def test_a_forked_process_does_not_keep_a_corpus_locked(tmp_path: Path) -> None:
    """It lives until the writer has closed the corpus and another one has opened it."""
    reader, writer = os.pipe()
    first = CorpusWriter(tmp_path, METRICS)
    child = os.fork()
    if child == 0:
        os.close(writer)
        os.read(reader, 1)
        os._exit(0)
    try:
        first.close()
        with CorpusWriter(tmp_path, METRICS):
            pass
    finally:
        os.close(reader)
        os.close(writer)
        os.waitpid(child, 0)


def test_a_lock_is_taken_once(tmp_path: Path) -> None:
    first, second = (os.open(tmp_path, os.O_RDONLY) for _ in range(2))
    assert [take_lock(first), take_lock(second), take_lock(first)] == [True, False, True]
    os.close(first)
    assert take_lock(second)
    os.close(second)
