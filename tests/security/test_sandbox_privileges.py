"""Attacks on the sandbox from inside: kernel settings, namespaces, memory and files that limits might not see.

Nothing outside is written: an attempt to open is proof enough.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hipsynth.profiling import sandbox
from hipsynth.profiling.sandbox import SandboxLimits, SandboxResult

pytestmark = pytest.mark.usefixtures("sandboxed", "system_python")
PYTHON = "/usr/bin/python3"
MIB = 1 << 20
LIMITS = SandboxLimits(wall_s=30, memory_bytes=256 * MIB, file_bytes=MIB, scratch_bytes=4 * MIB)
# CLONE_NEWUSER, and system call numbers of x86-64.
NEW_USER, UNSHARE, MEMFD_CREATE, SHMGET, PTRACE = 0x10000000, 272, 319, 29, 101


def attack(code: str, scratch: Path, *, processes: int = 1) -> SandboxResult:
    limits = SandboxLimits(**{**vars(LIMITS), "processes": processes})
    return sandbox.run([PYTHON, "-I", "-S", "-c", code], scratch, limits)


def call(*numbers: object) -> str:
    """Code that makes one system call and prints its result and errno."""
    arguments = ", ".join(map(str, numbers))
    return f"import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall({arguments}), ctypes.get_errno())"


def test_a_program_of_root_is_not_root_on_the_host(tmp_path: Path) -> None:
    """Seen from outside: the owner of what it writes."""
    assert attack("open('made', 'w')", tmp_path).status == "ok"
    owner = (tmp_path / "made").stat().st_uid
    assert owner != 0 and (os.geteuid() == 0 or owner == os.geteuid())


@pytest.mark.parametrize("name", ["kernel/core_pattern", "kernel/poweroff_cmd", "kernel/randomize_va_space",
                                  "vm/drop_caches", "kernel/panic", "fs/file-max"])  # fmt: skip
def test_kernel_settings_cannot_be_opened_for_writing(name: str, tmp_path: Path) -> None:
    done = attack(f"import os; os.close(os.open('/proc/sys/{name}', os.O_WRONLY)); print('OPENED')", tmp_path)
    assert done.status == "failed" and "OPENED" not in done.stdout


@pytest.mark.parametrize("name", ["/proc/sysrq-trigger", "/proc/1/mem", "/sys/kernel/uevent_helper", "/dev/mem"])
def test_kernel_interfaces_cannot_be_opened_for_writing(name: str, tmp_path: Path) -> None:
    done = attack(f"import os; os.close(os.open('{name}', os.O_WRONLY)); print('OPENED')", tmp_path)
    assert done.status == "failed" and "OPENED" not in done.stdout


def test_it_has_no_capability(tmp_path: Path) -> None:
    code = "print([line for line in open('/proc/self/status') if line.startswith(('Cap', 'NoNewPrivs', 'Seccomp:'))])"
    shown = attack(code, tmp_path).stdout
    assert shown.count("0000000000000000") == 5 and "NoNewPrivs:\\t1" in shown and "Seccomp:\\t2" in shown, shown


@pytest.mark.parametrize("processes", [1, 8])
@pytest.mark.parametrize("numbers", [(UNSHARE, NEW_USER), (PTRACE, 0, 0, 0, 0)])
def test_forbidden_calls_kill_whether_or_not_it_may_fork(
    processes: int, numbers: tuple[object, ...], tmp_path: Path
) -> None:
    done = attack(call(*numbers), tmp_path, processes=processes)
    assert (done.status, done.reason, done.stdout) == ("killed", "forbidden_call", "")


def test_a_program_that_may_fork_makes_no_namespace_by_clone(tmp_path: Path) -> None:
    done = attack(call(56, NEW_USER | 17, 0, 0, 0, 0), tmp_path, processes=8)
    assert (done.status, done.reason) == ("killed", "forbidden_call")
    forked = attack("import os; print(os.waitpid(os.fork() or os._exit(3), 0)[1] >> 8)", tmp_path, processes=8)
    assert (forked.status, forked.stdout) == ("ok", "3\n")


@pytest.mark.parametrize("numbers", [(MEMFD_CREATE, "b'x'", 0), (SHMGET, 0, 4096, 0o1600)])
def test_memory_that_no_limit_sees_is_refused(numbers: tuple[object, ...], tmp_path: Path) -> None:
    assert attack(call(*numbers), tmp_path).stdout == "-1 13\n"


def test_deleted_files_count(tmp_path: Path) -> None:
    code = (
        "import os, time\nheld = []\nfor i in range(40):\n  f = open('f', 'wb'); f.write(bytes(1 << 19)); f.flush()\n"
        "  os.unlink('f'); held.append(f); time.sleep(.05)"
    )
    done = attack(code, tmp_path)
    assert (done.status, done.reason) == ("killed", "disk")


def test_a_folder_that_only_root_may_enter_is_shown_but_not_changed(tmp_path: Path) -> None:
    private, scratch = tmp_path / "private", tmp_path / "scratch"
    private.mkdir(mode=0o700)
    scratch.mkdir()
    (private / "data").write_text("kept")
    (private / "data").chmod(0o600)
    code = f"print(open('{private}/data').read()); open('{private}/data', 'w')"
    done = sandbox.run([PYTHON, "-I", "-S", "-c", code], scratch, LIMITS, read_only=[private])
    assert done.stdout == "kept\n" and done.status == "failed"
    assert (private / "data").read_text() == "kept"
    assert (private.stat().st_uid, private.stat().st_mode & 0o777) == (os.geteuid(), 0o700)
