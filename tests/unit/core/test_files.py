"""Output files are written atomically, and devices are never replaced."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from hipsynth.synth.core.errors import BadInput
from hipsynth.synth.core.files import replacing, whole_file, write_whole


def test_a_file_appears_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "new" / "file.txt"
    with whole_file(path) as file:
        file.write("all of it")
        assert not path.exists()
    assert path.read_text() == "all of it"
    assert list(path.parent.iterdir()) == [path]


def test_a_failure_keeps_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "file.txt"
    path.write_text("old")
    with pytest.raises(BadInput, match="cannot be written") as caught, whole_file(path) as file:
        file.write("half")
        raise OSError(28, "No space left on device")
    assert "No space left" in caught.value.cause
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("bad", [".", "file/below"])
def test_a_path_that_cannot_be_a_file(tmp_path: Path, bad: str) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(BadInput, match="cannot be written"), whole_file(tmp_path / bad) as file:
        file.write("nothing")


def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(path.read_text()))
    reader.start()
    with whole_file(path) as file:
        file.write("through")
    reader.join(5)
    assert got == ["through"] and path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("content", ["text: ü", b"\x00bytes"])
def test_text_and_bytes_are_written_whole(tmp_path: Path, content: str | bytes) -> None:
    write_whole(tmp_path / "new" / "file", content, durable=True)
    found = (tmp_path / "new" / "file").read_bytes()
    assert found == (content if isinstance(content, bytes) else content.encode())


def test_no_space_has_a_reason_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no space") as caught, replacing(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.reason == "disk_full"


def test_a_folder_replaces_another_unless_that_one_is_finished(tmp_path: Path) -> None:
    def make(name: str, *, keep: bool = False) -> None:
        with replacing(tmp_path / "folder", is_finished=lambda path: keep and path.is_dir()) as fresh:
            fresh.mkdir()
            (fresh / name).touch()

    make("first")
    make("second")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["second"]
    make("third", keep=True)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["second"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_error_of_another_kind_passes_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), replacing(tmp_path / "file") as fresh:
        fresh.write_text("half")
        raise KeyError("other")
    assert not list(tmp_path.iterdir())
