"""Odd file names, locales, closed streams and temporary folders: each gives a result, or one typed error."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import needs
import pytest

from hipsynth.cli import main as entry
from hipsynth.core.folders import changed_files, copy_out, stamp_files
from hipsynth.core.scratch import scratch_folder

SOURCE = """#include <hip/hip_runtime.h>
__global__ void one(int* p) { *p = 1; }
int main() {
  int* p;
  if (hipMalloc(&p, 4) != hipSuccess) return 2;
  one<<<1, 1>>>(p);
  std::printf("fine\\n");
  return hipDeviceSynchronize();
}
"""
PLAIN_C = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
NAMES = {"newline": b"new\nline", "no UTF-8": b"bad\xff", "accent": "é".encode(), "spaces": b" x = y ", "dash": b"-O3",
         "quotes": b"a'b\"c", "percent": b"%n%s$HOME`id`"}  # fmt: skip


def synth(*words: bytes, cwd: bytes, env: dict[str, str] | None = None, shell: bytes = b"") -> tuple[int, bytes, bytes]:
    """Runs `synth` through a shell, which redirects its streams as `shell` says."""
    needs.compiler()
    needs.sandbox()
    command = [b"/bin/sh", b"-c", b'exec "$0" "$@" ' + shell, os.fsencode(sys.executable), b"-m"]
    done = subprocess.run(
        [*command, b"hipsynth.cli.main", *words],
        cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, timeout=120, check=False,
    )  # fmt: skip
    assert b"Traceback" not in done.stderr and b"hipsynth itself failed" not in done.stderr, done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.one_in(2)
@pytest.mark.parametrize("env", [{}, PLAIN_C], ids=["utf8", "C"])
@pytest.mark.parametrize("name", NAMES)
def test_a_file_may_have_any_name(name: str, env: dict[str, str], tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path / "f") + NAMES[name]
    os.mkdir(folder)  # noqa: PTH102 - bytes
    with open(folder + b"/" + NAMES[name] + b".hip", "w") as file:  # noqa: PTH123 - bytes
        file.write(SOURCE)
    code, out, err = synth(b"run", b"./" + NAMES[name] + b".hip", cwd=folder, env=env)
    assert (code, out) == (0, b"fine\n"), err


@pytest.mark.parametrize("verb", [b"profile", b"survey"])
def test_batches_take_odd_names_too(verb: bytes, tmp_path: Path) -> None:
    for name in (b"bad\xff.hip", b"new\nline.hip"):
        (tmp_path / os.fsdecode(name)).write_text(SOURCE)
    words = [b"--out", b"corpus", b"--arch", b"gfx90a", b"--flags=-O3"] if verb == b"profile" else []
    code, out, err = synth(verb, b".", *words, b"--workers", b"1", cwd=os.fsencode(tmp_path), env=PLAIN_C)
    assert code == 0 and (b"1 measured" in out or b"2 programs" in out), (out, err)


@pytest.mark.parametrize("shell", [b">&-", b"2>&-", b"<&-", b"<&- >&- 2>&-"])
def test_streams_may_be_closed(shell: bytes, tmp_path: Path) -> None:
    (tmp_path / "ok.hip").write_text(SOURCE)
    code, out, _ = synth(b"run", b"ok.hip", cwd=os.fsencode(tmp_path), shell=shell)
    assert (code, out) == (0, b"" if b">&- " in shell + b" " and shell + b" " != b"2>&- " else b"fine\n")
    code, _, _ = synth(b"run", b"none.hip", cwd=os.fsencode(tmp_path), shell=shell)
    assert code == 3


def test_a_full_device_on_stdout_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "ok.hip").write_text(SOURCE)
    code, _, err = synth(b"run", b"ok.hip", cwd=os.fsencode(tmp_path), shell=b">/dev/full")
    assert code == 3 and b"error: there is no space left" in err


@pytest.mark.parametrize("place", ["/nonexistent", "/proc", "/dev/null"])
def test_an_unusable_tmpdir_gives_a_result_or_an_error(place: str, tmp_path: Path) -> None:
    (tmp_path / "ok.hip").write_text(SOURCE + f"// {place}\n")
    code, out, err = synth(b"run", b"ok.hip", cwd=os.fsencode(tmp_path), env={"TMPDIR": place})
    assert (code, out) == (0, b"fine\n") or (code in (3, 4) and err.startswith(b"error: ") and b"try:" in err), err


def test_a_full_tmpdir_is_one_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/x")

    (tmp_path / "ok.hip").write_text(SOURCE)
    monkeypatch.setattr(tempfile, "mkdtemp", full)
    with pytest.raises(SystemExit) as ended:
        entry.main(["run", str(tmp_path / "ok.hip"), "--no-sandbox"])
    assert ended.value.code == 3 and "set TMPDIR to a folder with space" in capsys.readouterr().err


def test_what_a_program_leaves_is_deleted_and_copied_safely(tmp_path: Path) -> None:
    with scratch_folder() as folder:
        kept = folder
        before = stamp_files(folder)
        (folder / "data").write_text("data")
        (folder / "data").chmod(0o4777)
        (folder / "secret").symlink_to("/etc/passwd")
        (folder / "loop").symlink_to(folder)
        os.mkfifo(folder / "pipe")
        with (folder / "huge").open("wb") as file:
            file.truncate(1 << 40)  # a hole: takes no space
        deep = folder
        for _ in range(100):
            deep = deep / "d"
            deep.mkdir()
        (folder / "closed").mkdir()
        (folder / "closed" / "in").mkdir()
        (folder / "closed").chmod(0)
        names = changed_files(folder, before)
        assert names == ["data", "huge"]
        assert copy_out(folder, [*names, "secret", "pipe"], tmp_path / "out") == ["huge", "secret", "pipe"]
    assert not kept.exists()
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["data"]
    assert (tmp_path / "out" / "data").stat().st_mode & 0o7111 == 0


@pytest.mark.parametrize(
    "words",
    [("generate", "--count", "1", "--out", ""), ("profile", "x", "--out="), ("run", ""), ("run", "x", "--keep", "")],
)
def test_an_empty_path_is_a_usage_error(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        entry.main(list(words))
    assert ended.value.code == 2 and "empty" in capsys.readouterr().err
