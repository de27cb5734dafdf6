"""Attacks on the sandbox from inside: kernel settings, namespaces, memory and files that limits might not see.

Nothing outside is written: an attempt to open is proof enough.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pytest

from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import SandboxLimits, SandboxResult

pytestmark = pytest.mark.usefixtures("sandboxed", "system_python")
PYTHON = "/usr/bin/python3"
MIB = 1 << 20
LIMITS = SandboxLimits(wall_s=30, memory_bytes=256 * MIB, file_bytes=MIB, scratch_bytes=4 * MIB)
# CLONE_NEWUSER, and system call numbers of x86-64.
NEW_USER, UNSHARE, MEMFD_CREATE, SHMGET, PTRACE = 0x10000000, 272, 319, 29, 101


def attack(code: str, scratch: Path, *, processes: int = 1) -> SandboxResult:
    limits = SandboxLimits(**{**vars(LIMITS), "processes": processes})
    return sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", code], scratch, limits)


def call(*numbers: object) -> str:
    """Code that makes one system call and prints its result and errno."""
    arguments = ", ".join(map(str, numbers))
    return f"import ctypes; c = ctypes.CDLL(None, use_errno=True); print(c.syscall({arguments}), ctypes.get_errno())"


def test_a_program_of_root_is_not_root_on_the_host(tmp_path: Path) -> None:
    """Seen from outside: the user of its process."""
    owners: list[int] = []

    def look(_: str, output: bytes) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # others end meanwhile
                owners.extend([process.stat().st_uid] if output in (process / "cmdline").read_bytes() else [])

    code = "import time; print('only in this program', end='', flush=True); time.sleep(.1)"
    assert sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", code], tmp_path, LIMITS, on_output=look).status == "ok"
    assert owners and 0 not in owners and (os.geteuid() == 0 or set(owners) == {os.geteuid()})


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


def test_nothing_of_proc_can_be_opened_for_writing(tmp_path: Path) -> None:
    code = """
import os
for place, folders, files in os.walk('/proc'):
    folders[:] = [name for name in folders if not (place == '/proc' and name.isdigit())]
    for path in [os.path.join(place, name) for name in files]:
        try:
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            print('OPENED', path)
        except OSError:
            pass
print('pressure', os.listdir('/proc/pressure') if os.path.exists('/proc/pressure') else [])
"""
    done = attack(code, tmp_path)
    assert (done.status, done.stdout) == ("ok", "pressure []\n"), done


LOCKS = {
    "flock": "fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)",
    "flock, shared": "fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "a record": "fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)",
    "a record of a descriptor": "fcntl.fcntl(file, 37, bytes(32))",
    "a lease": "fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_RDLCK)",
}


@pytest.mark.parametrize("what", LOCKS)
def test_files_of_the_host_cannot_be_locked(what: str, tmp_path: Path) -> None:
    scratch, shown = tmp_path / "scratch", tmp_path / "shown"
    scratch.mkdir()
    shown.write_text("x")
    shown.chmod(0o644)
    code = f"import fcntl\nfile = open({str(shown)!r})\ntry: {LOCKS[what]}\nexcept OSError as e: print(e.errno)"
    done = sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", code], scratch, LIMITS, read_only=[shown])
    assert done.stdout == "37\n", done  # ENOLCK


SHARED = {
    "without a file": "mmap.mmap(-1, 1 << 20)",
    "without a file, validated": "mmap.mmap(-1, 1 << 20, flags=0x23)",
    "of /dev/zero": "mmap.mmap(os.open('/dev/zero', os.O_RDWR), 1 << 20, flags=1)",
}


@pytest.mark.parametrize("processes", [1, 8])
@pytest.mark.parametrize("what", SHARED)
def test_shared_memory_that_no_limit_sees_is_refused(what: str, processes: int, tmp_path: Path) -> None:
    done = attack(
        f"import mmap, os\ntry: {SHARED[what]}; print('MAPPED')\nexcept OSError: pass", tmp_path, processes=processes
    )
    assert (done.status, done.stdout) == ("ok", ""), done


def test_dev_zero_still_reads_zeros(tmp_path: Path) -> None:
    assert attack("print(open('/dev/zero', 'rb').read(4))", tmp_path).stdout == "b'\\x00\\x00\\x00\\x00'\n"


@pytest.mark.parametrize("numbers", [(MEMFD_CREATE, "b'x'", 0), (SHMGET, 0, 4096, 0o1600)])
def test_memory_that_no_limit_sees_is_refused(numbers: tuple[object, ...], tmp_path: Path) -> None:
    assert attack(call(*numbers), tmp_path).stdout == "-1 13\n"


def test_deleted_files_count(tmp_path: Path) -> None:
    code = (
        "import os, time\nheld = []\ntry:\n  for i in range(40):\n"
        "    f = open('f', 'wb'); f.write(bytes(1 << 19)); f.flush(); os.unlink('f'); held.append(f); time.sleep(.05)\n"
        "except OSError: time.sleep(60)"  # nothing was left before the sandbox looked
    )
    done = attack(code, tmp_path)
    assert (done.status, done.reason) == ("killed", "disk")


DEEDS = {
    "mode": "os.fchmod(0, 0o666)",
    "times": "os.utime(0, (1, 1))",
    "an attribute": "os.setxattr(0, 'user.left', b'1')",
    "contents": "f = os.open('/proc/self/fd/0', os.O_RDWR)\n    try: os.pwrite(f, b'x', 0)\n    finally: os.close(f)",
    "length": "os.close(os.open('/proc/self/fd/0', os.O_WRONLY | os.O_TRUNC))",
    "its folder": "print(os.open('/proc/self/fd/0/..', os.O_RDONLY))",
}


@pytest.mark.parametrize("given", ["path", "descriptor"])
@pytest.mark.parametrize("what", DEEDS)
def test_the_file_on_standard_input_is_read_and_nothing_else(what: str, given: str, tmp_path: Path) -> None:
    scratch, data = tmp_path / "scratch", tmp_path / "data"
    scratch.mkdir()
    data.write_text("first\nsecond\n")
    data.chmod(0o600)
    before = data.stat()
    code = f"import os\ntry:\n    {DEEDS[what]}\nexcept OSError: pass\nimport sys; print(sys.stdin.read())"
    with data.open("rb") as file:
        stdin = data if given == "path" else file.fileno()
        done = sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", code], scratch, LIMITS, stdin=stdin)
    assert done.stdout == "first\nsecond\n\n", done
    after = data.stat()
    assert data.read_text() == "first\nsecond\n" and os.listxattr(data) == []
    assert (after.st_mode, after.st_mtime_ns) == (before.st_mode, before.st_mtime_ns)


def test_a_folder_that_only_root_may_enter_is_shown_but_not_changed(tmp_path: Path) -> None:
    private, scratch = tmp_path / "private", tmp_path / "scratch"
    private.mkdir(mode=0o700)
    scratch.mkdir()
    (private / "data").write_text("kept")
    (private / "data").chmod(0o600)
    code = f"print(open('{private}/data').read()); open('{private}/data', 'w')"
    done = sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", code], scratch, LIMITS, read_only=[private])
    assert done.stdout == "kept\n" and done.status == "failed"
    assert (private / "data").read_text() == "kept"
    assert (private.stat().st_uid, private.stat().st_mode & 0o777) == (os.geteuid(), 0o700)
