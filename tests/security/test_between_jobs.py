"""Jobs share sandboxes, one after another: no job changes what the next one finds, and none outlives its end."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator

import pytest
from leftovers import left_running

from hipsynth.core.scratch import process_folder
from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import SandboxLimits, SandboxResult

pytestmark = pytest.mark.usefixtures("sandboxed", "system_python")
PYTHON = "/usr/bin/python3"
MIB = 1 << 20
LIMITS = SandboxLimits(cpu_s=5, idle_s=5, wall_s=30, memory_bytes=96 * MIB, file_bytes=128 * MIB, processes=8)

# TOPS: the job's folder and those above it, without the root of the file system and /tmp.
PREAMBLE = """import ctypes, os, signal, time
TOPS = ['/'.join(os.getcwd().split('/')[:n]) for n in range(2, 9)]
TOPS = [p for n, p in enumerate(TOPS) if p != '/tmp' and p not in TOPS[:n]]"""

# What a job does, and what a later one prints if nothing of it is left.
LEAVES = {
    "a file in /tmp": ("open('/tmp/left', 'w')", "os.path.exists('/tmp/left')", "False"),
    "a file in /dev/shm": ("open('/dev/shm/left', 'w')", "os.listdir('/dev/shm')", "[]"),
    "a closed /tmp": ("os.chmod('/tmp', 0)", "oct(os.stat('/tmp').st_mode)", "0o41777"),
    "a file in the root folder": ("open('/left', 'w')", "os.path.exists('/left')", "False"),
    "a file beside its folder": ("open('../left', 'w')", "os.path.exists('../left')", "False"),
    "a closed folder of jobs": ("os.chmod('../..', 0)", "os.path.isdir('../..')", "True"),
    "a closed folder of temporary files": (
        "[os.chmod(p, 0) for p in TOPS if os.path.isdir(p)]",
        "[oct(os.stat(p).st_mode & 0o111) for p in TOPS if os.path.isdir(p)][:1]",
        "['0o111']",
    ),
    "a folder of temporary files that was moved": (
        "[os.rename(p, '/tmp/moved') for p in TOPS if os.path.isdir(p)]",
        "os.path.exists('/tmp/moved')",
        "False",
    ),
    "a message queue": (
        "ctypes.CDLL(None).syscall(240, b'left', os.O_RDWR | os.O_CREAT, 0o600, None)",
        "ctypes.CDLL(None).syscall(240, b'left', os.O_RDWR)",
        "-1",
    ),
    "a changed library": ("open('/usr/lib/left', 'w')", "os.path.exists('/usr/lib/left')", "False"),
    "a limit": (
        "import resource as r; r.prlimit(1, r.RLIMIT_AS, (1 << 30, 1 << 30))",
        "__import__('resource').getrlimit(__import__('resource').RLIMIT_AS)",
        "(-1, -1)",
    ),
    "a processor": (
        "os.sched_setaffinity(1, {min(os.sched_getaffinity(0))})",
        "len(os.sched_getaffinity(0))",
        str(len(os.sched_getaffinity(0))),
    ),
    "a priority": (
        "os.setpriority(os.PRIO_USER, 0, 15)",
        "os.getpriority(os.PRIO_PROCESS, 0)",
        str(os.getpriority(os.PRIO_PROCESS, 0)),
    ),
    "a scheduler": ("os.sched_setscheduler(1, os.SCHED_BATCH, os.sched_param(0))", "os.sched_getscheduler(0)", "0"),
    "a stopped supervisor": ("os.kill(1, 19)", "os.getppid()", "1"),
    "a variable": ("os.environ['LEFT'] = '1'", "'LEFT' in os.environ", "False"),
    "a daemon": (
        "os.fork() or (os.setsid(), os.fork() and os._exit(0), open('alive', 'w'), time.sleep(30))",
        "[p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]",
        "[]",
    ),
    "a process without signals": (
        "os.fork() or ([signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15, 20)], time.sleep(30))",
        "[p for p in os.listdir('/proc') if p.isdigit() and int(p) not in (1, os.getpid())]",
        "[]",
    ),
}


def job(code: str, limits: SandboxLimits = LIMITS) -> SandboxResult:
    with sandbox.job_folder() as folder:
        run = folder / "run"
        run.mkdir()
        return sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", f"{PREAMBLE}\n{code}"], run, limits)


@pytest.fixture(autouse=True)
def clean() -> Iterator[None]:
    yield
    assert not left_running() and not list((process_folder() / "jobs").iterdir())


@pytest.mark.parametrize("what", LEAVES)
def test_nothing_is_left_for_the_next_job(what: str) -> None:
    code, look, expected = LEAVES[what]
    first = job(code)  # one that waited would exceed its limit on idle time
    assert first.status in ("ok", "failed"), first
    for _ in range(2):
        assert job(f"print({look})").stdout == f"{expected}\n"


MEMORY = {
    "/tmp": "open('/tmp/a', 'wb').write(bytes(120 << 20)); time.sleep(2)",
    "/dev/shm": "f = open('/dev/shm/a', 'wb'); os.unlink('/dev/shm/a'); f.write(bytes(120 << 20)); time.sleep(2)",
    "empty files in memory": "[open(f'/tmp/{n}', 'w').close() for n in range(150_000)]; time.sleep(2)",
    "many processes": "[os.fork() for _ in range(2)]; x = bytearray(30 << 20); time.sleep(2)",
    "page tables": (
        "import mmap; m = mmap.mmap(-1, 1 << 38, flags=0x4022, prot=1); x = sum(m[n << 21] for n in range(60_000))\n"
        "time.sleep(2)"
    ),
}


@pytest.mark.parametrize("what", MEMORY)
def test_all_memory_counts(what: str) -> None:
    done = job(MEMORY[what])
    assert (done.status, done.reason) == ("killed", "memory") and done.peak_memory_bytes > LIMITS.memory_bytes, done


DISK = {
    "empty files": "for n in range(60_000): open(f'{n}', 'w').close()\ntime.sleep(2)",
    "empty folders": "for n in range(60_000): os.mkdir(f'{n}')\ntime.sleep(2)",
    "in folders": "for n in range(40): os.mkdir(f'{n}'); open(f'{n}/f', 'wb').write(bytes(1 << 20))\ntime.sleep(2)",
}

# Each holds 40 MiB that no folder shows, or beside the job's folder, and then prints how much was allowed.
HIDDEN = {
    "deleted and mapped": (
        "import mmap\nf = open('f', 'w+b'); os.unlink('f'); f.write(bytes(1 << 20)); f.flush()\n"
        "held.append(mmap.mmap(f.fileno(), 1 << 20)); f.close()"
    ),
    "deleted by a process that cannot be looked into": (
        "ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\nf = open('f', 'wb'); os.unlink('f')\n"
        "f.write(bytes(1 << 20)); f.flush(); held.append(f)"
    ),
    "beside its folder": "f = open(f'../{n}', 'wb'); f.write(bytes(1 << 20)); f.close(); held.append(n)",
    "beside that of its job": "f = open(f'../../{n}', 'wb'); f.write(bytes(1 << 20)); f.close(); held.append(n)",
}


@pytest.mark.parametrize("what", HIDDEN)
def test_the_kernel_limits_all_that_a_job_writes(what: str) -> None:
    body = HIDDEN[what].replace("\n", "\n        ")
    code = (
        f"held = []\ntry:\n    for n in range(40):\n        {body}\nexcept OSError: pass\nprint(len(held), flush=True)"
    )
    done = job(code, SandboxLimits(**{**vars(LIMITS), "scratch_bytes": 20 * MIB, "memory_bytes": 1 << 30}))
    assert int(done.stdout or 0) <= 20, done


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=[pytest.mark.full] * (what == "empty folders")) for what in DISK]
)
def test_all_files_count(what: str) -> None:
    done = job(DISK[what], SandboxLimits(**{**vars(LIMITS), "scratch_bytes": 20 * MIB}))
    assert (done.status, done.reason) == ("killed", "disk"), done


def test_a_fork_bomb_ends() -> None:
    done = job("while True: os.fork()", SandboxLimits(**{**vars(LIMITS), "processes": 20, "memory_bytes": 1 << 30}))
    # The kernel refuses more processes, and those refused end: on a busy machine the clock can be the first to see it.
    assert done.reason in ("processes", "memory", "cpu_time"), done
    after = job("print(sum(name.isdigit() for name in os.listdir('/proc')))")
    assert after.exit_code == 0 and int(after.stdout) <= 4, after


def test_a_job_has_only_its_own_descriptors() -> None:
    with open("/etc/passwd") as file:  # noqa: PTH123 - a descriptor that must not be inherited
        os.set_inheritable(file.fileno(), True)
        shown = job(
            "print([os.readlink(f'/proc/self/fd/{n}') for n in sorted(map(int, os.listdir('/proc/self/fd')))[:-1]])"
        )
    assert shown.stdout.startswith("['/dev/null', 'pipe:[") and shown.stdout.count(",") == 2, shown


def test_the_supervisor_cannot_be_looked_into() -> None:
    code = """
for name in ('mem', 'environ', 'maps', 'fd/3', 'root/usr', 'cwd/usr'):
    try:
        os.close(os.open(f'/proc/1/{name}', os.O_RDONLY))
        print('OPENED', name)
    except PermissionError:
        pass
"""
    done = job(code)
    assert (done.status, done.stdout) == ("ok", ""), done


def test_other_processes_of_the_user_are_not_there() -> None:
    with subprocess.Popen(["sleep", "30"]) as other:
        try:
            seen = job("print(sorted(int(p) for p in os.listdir('/proc') if p.isdigit()), os.getpid())").stdout
            assert str(other.pid) not in seen.split() and seen.startswith("[1, ")
        finally:
            other.kill()
