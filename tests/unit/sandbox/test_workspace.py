"""The folder of a job is copied into a file system in memory and back; what a hostile job leaves there does no harm."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import SandboxLimits, SandboxResult, transfer
from hipsynth.toolchain.sandbox.transfer import CopyIn, CopyOut, open_path

pytestmark = pytest.mark.usefixtures("sandboxed")
MIB = 1 << 20
LIMITS = SandboxLimits(cpu_s=10, idle_s=10, wall_s=60, scratch_bytes=8 * MIB, file_bytes=256 * MIB, processes=8)


def shell(script: str, folder: Path, limits: SandboxLimits = LIMITS) -> SandboxResult:
    return sandbox.run_sandboxed(["/bin/sh", "-c", script], folder, limits)


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def written_state(path: Path) -> tuple[int, int, int, int]:
    """All of a file's status but when it was read."""
    status = path.stat()
    return status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns


def test_a_job_finds_its_files_and_the_user_what_it_made_of_them(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/kept").write_text("kept")
    (tmp_path / "data/changed").write_text("old")
    (tmp_path / "removed").write_text("x")
    (tmp_path / "run.sh").write_text("#!/bin/sh\ncat data/kept\n")
    (tmp_path / "run.sh").chmod(0o755)
    (tmp_path / "link").symlink_to("data/kept")
    kept = written_state(tmp_path / "data/kept")
    done = shell("./run.sh; cat link; echo new > data/changed; rm removed; mkdir -p a/b; echo y > a/b/made", tmp_path)
    assert (done.status, done.stdout) == ("ok", "keptkept"), done
    assert listing(tmp_path) == ["a", "a/b", "a/b/made", "data", "data/changed", "data/kept", "link", "run.sh"]
    assert (tmp_path / "data/changed").read_text() == "new\n" and (tmp_path / "a/b/made").read_text() == "y\n"
    assert written_state(tmp_path / "data/kept") == kept and (tmp_path / "link").is_symlink()


def test_times_and_the_right_to_execute_come_back(tmp_path: Path) -> None:
    assert (
        shell("echo x > made; chmod 755 made; touch -d @1000 made; echo x > closed; chmod 0 closed", tmp_path).reason
        == ""
    )
    made = (tmp_path / "made").stat()
    assert (made.st_mtime, stat.S_IMODE(made.st_mode)) == (1000, 0o755)
    assert (tmp_path / "closed").read_text() == "x\n"


def test_a_file_that_was_put_in_the_place_of_a_folder(tmp_path: Path) -> None:
    (tmp_path / "a/b").mkdir(parents=True)
    (tmp_path / "c").write_text("c")
    assert shell("rm -r a; echo x > a; rm c; mkdir c; echo y > c/d", tmp_path).status == "ok"
    assert (tmp_path / "a").read_text() == "x\n" and (tmp_path / "c/d").read_text() == "y\n"


def test_no_link_of_a_job_is_followed(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    (folder / "data").mkdir(parents=True)
    (folder / "data/file").write_text("x")
    script = f"rm -r data; ln -s {outside} data; ln -s {outside}/secret file; mkfifo pipe"
    assert shell(script, folder).status == "ok"
    assert listing(folder) == ["data", "file"] and (folder / "data").is_symlink() and (folder / "file").is_symlink()
    assert (outside / "secret").read_text() == "secret" and listing(outside) == ["secret"]
    again = shell("cat file data/secret", folder)  # where the links lead is not shown
    assert again.status == "failed" and "secret\n" not in again.stdout


def test_holes_stay_holes(tmp_path: Path) -> None:
    script = "for n in 1 2 3 4; do truncate -s 200M hole$n; done; printf x | dd of=hole1 bs=1 seek=150M conv=notrunc"
    assert shell(script, tmp_path).status == "ok"
    assert sum(path.stat().st_blocks for path in tmp_path.iterdir()) * 512 < MIB
    with (tmp_path / "hole1").open("rb") as file:
        file.seek(150 << 20)
        assert file.read(2) == b"x\0"


def test_a_folder_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(bytes(9 * MIB))
    done = shell("echo started", tmp_path)
    assert (done.status, done.reason, done.stdout) == ("killed", "disk", "")
    assert (tmp_path / "large").stat().st_size == 9 * MIB
    (tmp_path / "large").unlink()
    assert shell("echo started", tmp_path).stdout == "started\n"


def test_a_job_that_did_not_notice_its_full_disk_failed(tmp_path: Path) -> None:
    done = shell("head -c 9M /dev/zero > full; exit 0", tmp_path)
    assert (done.status, done.reason) == ("killed", "disk")


def test_a_job_that_moves_its_folder_leaves_the_users_as_it_was() -> None:
    with sandbox.job_folder() as job:
        folder = job / "run"
        folder.mkdir()
        (folder / "file").write_text("x")
        done = shell("cd .. && mv run away && ln -s /usr run", folder)
        # Root's jobs run as another user, whom the folder above theirs does not belong to.
        assert (done.status, done.reason) == (("failed", "exit_code") if os.geteuid() == 0 else ("killed", "moved"))
        assert listing(folder) == ["file"] and not folder.is_symlink()


def test_what_comes_back_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transfer, "MOST_DEPTH", 3)
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "1/2/3/4/5").mkdir(parents=True)
    for number in range(9):
        (source / f"f{number}").touch()
    target.mkdir()
    (target / "old").touch()
    with open_path(source) as left, open_path(target) as right:
        CopyOut({}, left=7).copy_folder(left, right)
    assert listing(target) == ["1", "1/2", "1/2/3", "f0", "f1", "f2"]


def test_files_that_were_copied_in_are_known_by_their_stamps(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "inner").mkdir(parents=True)
    (source / "inner/file").write_text("x")
    target.mkdir()
    copy = CopyIn(None)
    with open_path(source) as left, open_path(target) as right:
        copy.copy_folder(left, right)
    assert list(copy.stamps) == ["inner/file"] and (target / "inner/file").read_text() == "x"
    (source / "inner/file").unlink()  # as if the job's copy had not changed: it is not copied
    with open_path(target) as left, open_path(source) as right:
        CopyOut(copy.stamps).copy_folder(left, right)
    assert listing(source) == ["inner"]
