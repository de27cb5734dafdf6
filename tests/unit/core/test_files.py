"""Files are written atomically, devices never replaced; reads are bounded and stay in their folder."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.core.files import (
    open_regular,
    read_program_file,
    read_regular,
    replace_atomically,
    require_writable,
    resolve_path,
    sole_writer,
    whole_file,
    write_whole,
)


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


def write_through(path: Path, text: str) -> None:
    """Writes a text as the other verbs do: bit by bit."""
    with whole_file(path) as file:
        file.write(text)


@pytest.mark.parametrize("write", [write_through, write_whole])
def test_a_pipe_is_written_to_and_stays_a_pipe(tmp_path: Path, write: Callable[[Path, str], None]) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    require_writable(path)
    got: list[str] = []
    reader = threading.Thread(target=lambda: got.append(path.read_text()), daemon=True)
    reader.start()
    write(path, "through")
    reader.join(5)
    assert got == ["through"] and path.is_fifo()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("write", [write_through, write_whole])
def test_the_target_of_a_link_is_replaced(tmp_path: Path, write: Callable[[Path, str], None]) -> None:
    target, link = tmp_path / "elsewhere" / "file", tmp_path / "link"
    link.symlink_to(target)
    for text in ("first", "second"):
        require_writable(link)
        write(link, text)
        assert link.is_symlink() and target.read_text() == text
    assert list(target.parent.iterdir()) == [target]


def test_the_file_of_standard_output_is_written_behind_what_it_has(tmp_path: Path) -> None:
    code = "import pathlib, sys; from hipsynth.core.files import write_whole; print('one', flush=True); " \
        "write_whole(pathlib.Path(sys.argv[1]), 'two\\n'); print('three')"  # fmt: skip
    link = tmp_path / "out"
    link.symlink_to("/proc/self/fd/1")
    with (tmp_path / "file").open("w") as file:
        subprocess.run([sys.executable, "-c", code, link], stdout=file, check=True)
    assert (tmp_path / "file").read_text().split() == ["one", "two", "three"] and link.is_symlink()


@pytest.mark.parametrize("content", ["text: ü", b"\x00bytes"])
def test_text_and_bytes_are_written_whole(tmp_path: Path, content: str | bytes) -> None:
    write_whole(tmp_path / "new" / "file", content, durable=True)
    found = (tmp_path / "new" / "file").read_bytes()
    assert found == (content if isinstance(content, bytes) else content.encode())


def test_no_space_has_a_reason_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no space") as caught, replace_atomically(tmp_path / "file"):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert caught.value.reason == "disk_full"


def test_a_folder_replaces_another_unless_that_one_is_finished(tmp_path: Path) -> None:
    def make(name: str, *, keep: bool = False) -> None:
        with replace_atomically(tmp_path / "folder", is_finished=lambda path: keep and path.is_dir()) as fresh:
            fresh.mkdir()
            (fresh / name).touch()

    make("first")
    make("second")
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["second"]
    make("third", keep=True)
    assert [path.name for path in (tmp_path / "folder").iterdir()] == ["second"]
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_an_error_of_another_kind_passes_and_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), replace_atomically(tmp_path / "file") as fresh:
        fresh.write_text("half")
        raise KeyError("other")
    assert not list(tmp_path.iterdir())


def refusal(path: Path, limit: int = 100, inside: Path | None = None) -> str:
    with pytest.raises(BadInput) as caught:
        read_regular(path, limit, inside=inside)
    assert caught.value.remedy
    return caught.value.reason


def test_a_regular_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert read_regular(path, 100) == b"x" * 100
    assert refusal(path, 99) == "too_large"
    with open_regular(path, 100, inside=tmp_path) as file:
        assert file.readline() == b"x" * 100


def test_what_is_no_file_is_never_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    assert refusal(tmp_path / "pipe") == "not_a_file"
    assert refusal(Path("/dev/zero")) == "not_a_file"
    assert refusal(tmp_path / "link") == "not_a_file"
    assert refusal(tmp_path) == "not_a_file"
    assert refusal(tmp_path / "loop") == "unreadable_file"
    assert refusal(tmp_path / "nul\0") == "unreadable_file"
    assert refusal(tmp_path / "none") == "missing_file"


def test_a_file_without_a_size_is_bounded() -> None:
    """Files of /proc have size 0 and yet content."""
    assert read_regular(Path("/proc/self/stat"), 10_000)
    assert refusal(Path("/proc/self/maps"), 100) == "too_large"


def test_links_may_not_leave_the_folder(tmp_path: Path) -> None:
    folder, outside = tmp_path / "folder", tmp_path / "outside"
    folder.mkdir()
    outside.mkdir()
    (outside / "file").write_text("secret")
    (folder / "file").write_text("ours")
    (folder / "link").symlink_to("../outside/file")
    (folder / "sub").symlink_to("../outside")
    (folder / "own").symlink_to("file")
    (tmp_path / "alias").symlink_to("folder")
    for name in ("link", "sub/file", "../outside/file"):
        assert refusal(folder / name, inside=folder) == "outside", name
        assert read_regular(folder / name, 100) == b"secret"
    assert read_regular(folder / "own", 100, inside=folder) == b"ours"
    assert read_regular(tmp_path / "alias" / "file", 100, inside=tmp_path / "alias") == b"ours"


def test_a_sole_writer_removes_what_killed_ones_left(tmp_path: Path) -> None:
    kept = [tmp_path / name for name in ("programs.jsonl.partial", "a.hip", "a.hip.partial", "b.hip.12-34.partial.hip")]
    left = [tmp_path / "a.hip.7385-7386.partial", tmp_path / "index.json.1-2.partial"]
    for path in (*kept, *left):
        path.write_text("x")
    folder = tmp_path / "tree.1-1.partial"
    (folder / "inside").mkdir(parents=True)
    with sole_writer(tmp_path):
        assert all(path.exists() for path in kept)
        assert not any(path.exists() for path in (*left, folder))
        live = tmp_path / "c.hip.5-6.partial"
        live.write_text("x")
        with pytest.raises(BadInput, match="another command"), sole_writer(tmp_path):
            pass
        assert live.exists(), "its writer holds the lock"


def test_links_in_a_circle_are_named(tmp_path: Path) -> None:
    loop = tmp_path / "loop.hip"
    loop.symlink_to(loop)
    with pytest.raises(BadInput, match="links that lead in a circle"):
        resolve_path(loop)
    assert resolve_path(tmp_path / "absent.hip") == tmp_path.resolve() / "absent.hip"


def test_a_programs_file_is_not_read_through_a_link_that_leads_out(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    assert read_program_file(folder, "record", 100) == b""
    (folder / "record").write_bytes(b"ours")
    assert read_program_file(folder, "record", 100) == b"ours"
    (tmp_path / "secret").write_bytes(b"secret")
    for target in (tmp_path / "secret", tmp_path / "nothing"):
        (folder / "record").unlink()
        (folder / "record").symlink_to(target)
        with pytest.raises(BadInput):
            read_program_file(folder, "record", 100)
