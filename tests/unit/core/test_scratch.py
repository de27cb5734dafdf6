"""Scratch folders are deleted whatever happens to their process, and only those."""

from __future__ import annotations

import errno
import fcntl
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsynth.core import scratch
from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.scratch import process_folder, remove_tree, scratch_folder

ROOT = Path(__file__).resolve().parents[3]
HOLDER = """
import sys
from hipsynth.core.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "file").touch()
    print(folder, flush=True)
    sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A TMPDIR of the test's own, and a process that has not used one yet."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setattr(scratch, "_own", None)
    yield temporary
    scratch._remove_own()


def start() -> tuple[subprocess.Popen[str], Path]:
    """A process inside a scratch folder, and that folder."""
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", HOLDER], cwd=ROOT, text=True, **pipes)
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_exists_for_its_block(place: Path) -> None:
    with scratch_folder() as folder, scratch_folder(prefix="other-") as other:
        (folder / "file").touch()
        assert folder.parent == other.parent == process_folder()
        assert folder.parent.parent == place
        assert other.name.startswith("other-")
        assert folder.stat().st_mode & 0o077 == 0
    assert list(process_folder().iterdir()) == []


def test_nothing_stays_after_a_normal_end(place: Path) -> None:
    process, folder = start()
    assert (folder / "file").exists()
    process.communicate("\n", timeout=30)
    assert process.returncode == 0
    assert list(place.iterdir()) == []


def test_the_next_process_removes_what_a_killed_one_left(place: Path) -> None:
    doomed, left = start()
    living, kept = start()
    os.kill(doomed.pid, signal.SIGKILL)
    doomed.communicate(timeout=30)
    assert left.exists()
    process_folder()
    assert not left.parent.exists()
    assert (kept / "file").exists()
    living.communicate("\n", timeout=30)


def test_only_abandoned_folders_of_ours_are_removed(place: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    (place / f"{scratch.PREFIX}link").symlink_to(outside)
    (place / f"{scratch.PREFIX}file").touch()
    (place / "hipsynth-other").mkdir()
    held = place / f"{scratch.PREFIX}held"
    held.mkdir()
    left = place / f"{scratch.PREFIX}left"
    left.mkdir()
    (left / "link").symlink_to(outside)
    descriptor = os.open(held, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    own = process_folder()
    os.close(descriptor)
    expected = {held.name, own.name, "hipsynth-other", f"{scratch.PREFIX}link", f"{scratch.PREFIX}file"}
    assert {path.name for path in place.iterdir()} == expected
    assert (outside / "file").exists()


def test_folders_of_other_users_stay(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    left = place / f"{scratch.PREFIX}left"
    left.mkdir()
    monkeypatch.setattr(os, "geteuid", lambda: left.stat().st_uid + 1)
    process_folder()
    assert left.exists()


def test_a_folder_taken_for_abandoned_before_its_lock_is_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make_and_lose(**options: str) -> str:
        folder = place / f"{options['prefix']}{len(made)}"
        made.append(folder)
        if len(made) > 1:
            folder.mkdir()
        return str(folder)

    monkeypatch.setattr(tempfile, "mkdtemp", make_and_lose)
    assert process_folder() == made[1]


def test_a_deleted_process_folder_is_made_again() -> None:
    process_folder().rmdir()
    with scratch_folder() as folder:
        assert folder.is_dir()


def _in_fork(queue: multiprocessing.Queue[str]) -> None:
    with scratch_folder() as folder:
        queue.put(str(folder))


def test_a_fork_has_its_own_folder_and_leaves_its_parents(place: Path) -> None:
    own = process_folder()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_in_fork, args=(queue,))
    process.start()
    theirs = Path(queue.get(timeout=30))
    process.join(30)
    assert process.exitcode == 0
    assert theirs.parent != own
    assert list(place.iterdir()) == [own]
    assert scratch._own is not None and not taken(own)


def taken(folder: Path) -> bool:
    """Whether the lock of a folder can be taken."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    finally:
        os.close(descriptor)
    return True


def test_an_unusable_place_is_an_error_with_a_remedy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(MissingDependency, match="nowhere") as caught, scratch_folder():
        pass
    assert "TMPDIR" in caught.value.remedy
    (tmp_path / "file").touch()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "file"))
    with pytest.raises(MissingDependency, match="cannot hold temporary files"):
        process_folder()


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, BadInput),
        (errno.EFBIG, BadInput),
        (errno.EROFS, MissingDependency),
        (errno.EACCES, MissingDependency),
    ],
)
def test_a_full_or_read_only_place(monkeypatch: pytest.MonkeyPatch, number: int, kind: type[Exception]) -> None:
    def refuse(**_: str) -> str:
        raise OSError(number, os.strerror(number))

    process_folder()
    monkeypatch.setattr(tempfile, "mkdtemp", refuse)
    with pytest.raises(kind, match="temporary files") as caught, scratch_folder():
        pass
    assert "TMPDIR" in caught.value.remedy  # type: ignore[attr-defined]


def test_a_tree_without_permissions_or_end_is_deleted(tmp_path: Path) -> None:
    top = tmp_path / "tree"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").touch()
    (top / "0.doomed").write_text("in the way")
    (top / "1.doomed").mkdir()
    (top / "link").symlink_to(tmp_path)
    here = Path.cwd()
    try:
        os.chdir(top)
        for _ in range(3000):  # deeper than recursion and path names allow
            Path("deep").mkdir()
            os.chdir("deep")
    finally:
        os.chdir(here)
    (top / "a" / "b").chmod(0)
    (top / "a").chmod(0)
    top.chmod(0)
    remove_tree(top)
    assert list(tmp_path.iterdir()) == [tmp_path / "temporary"]
