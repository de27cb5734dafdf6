"""Untrusted programs: forbidden actions are stopped and named in the result."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest

from hipsynth.core.errors import MissingDependency
from hipsynth.toolchain import sandbox
from hipsynth.toolchain.sandbox import SandboxLimits, SandboxResult, bubblewrap, jail, processes
from hipsynth.toolchain.sandbox.limits import MIB
from hipsynth.toolchain.sandbox.seccomp import seccomp_program

TIGHT = SandboxLimits(
    wall_s=10,
    memory_bytes=128 * MIB,
    file_bytes=MIB,
    scratch_bytes=4 * MIB,
    output_bytes=1000,
    open_files=32,
    threads=16,
)
PYTHON = "/usr/bin/python3"

needs_bubblewrap = pytest.mark.usefixtures("sandboxed")
needs_python = pytest.mark.usefixtures("system_python")


def python(code: str, scratch: Path, limits: SandboxLimits = TIGHT, isolate: bool = True) -> SandboxResult:
    return sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", code], scratch, limits, isolate=isolate)


@pytest.mark.parametrize("isolate", [True, False])
def test_a_closed_output_ends_the_program(isolate: bool, tmp_path: Path) -> None:
    """As of `synth run program | head`; it is no broken sandbox."""
    pieces: list[bytes] = []

    def read_once(_: str, data: bytes) -> None:
        if pieces:
            raise BrokenPipeError("closed")
        pieces.append(data)

    endless = ["/bin/sh", "-c", "while :; do echo line; done"]
    with pytest.raises(BrokenPipeError):
        sandbox.run_sandboxed(endless, tmp_path, TIGHT, isolate=isolate, on_output=read_once)
    assert pieces[0].startswith(b"line\n")


@pytest.mark.parametrize("isolate", [True, False])
def test_a_well_behaved_program_runs(isolate: bool, tmp_path: Path) -> None:
    result = sandbox.run_sandboxed(
        ["/bin/sh", "-c", "echo hello; echo oops >&2; pwd"], tmp_path, TIGHT, isolate=isolate
    )
    assert (result.status, result.reason, result.exit_code) == ("ok", "", 0)
    assert result.stdout == f"hello\n{tmp_path.resolve()}\n"
    assert result.stderr == "oops\n"
    assert result.isolated is (isolate and sandbox.is_available())


@pytest.mark.parametrize("isolate", [True, False])
def test_a_program_that_is_still_open_for_writing_is_started_when_it_is_not(isolate: bool, tmp_path: Path) -> None:
    program = tmp_path / "program"
    program.write_bytes(Path("/bin/true").read_bytes())
    program.chmod(0o755)
    with program.open("ab") as file:  # as a process that was started meanwhile has it
        timer = threading.Timer(0.2, file.close)
        timer.start()
        result = sandbox.run_sandboxed(["./program"], tmp_path, TIGHT, isolate=isolate)
        timer.join()
    assert (result.status, result.exit_code) == ("ok", 0), result.stderr


@pytest.mark.parametrize("isolate", [True, False])
def test_exit_codes_and_signals_are_told_apart(isolate: bool, tmp_path: Path) -> None:
    failed = sandbox.run_sandboxed(["/bin/sh", "-c", "exit 7"], tmp_path, TIGHT, isolate=isolate)
    assert (failed.status, failed.reason, failed.exit_code) == ("failed", "exit_code", 7)
    minus_one = sandbox.run_sandboxed(["/bin/sh", "-c", "exit 255"], tmp_path, TIGHT, isolate=isolate)
    assert minus_one.exit_code == 255
    crashed = sandbox.run_sandboxed(["/bin/sh", "-c", "kill -SEGV $$"], tmp_path, TIGHT, isolate=isolate)
    assert (crashed.status, crashed.reason, crashed.signal) == ("failed", "signal", 11)


@needs_bubblewrap
@needs_python
def test_a_file_outside_cannot_be_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the secret")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    hidden = python(f"print(open({str(secret)!r}).read())", scratch)
    assert hidden.status == "failed"
    assert "the secret" not in hidden.stdout + hidden.stderr
    assert "FileNotFoundError" in hidden.stderr
    shown = sandbox.run_sandboxed(["/bin/cat", secret], scratch, TIGHT, read_only=[secret])
    assert shown.stdout == "the secret"


@needs_bubblewrap
@needs_python
def test_of_a_home_folder_only_headers_and_sources_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, scratch = tmp_path / "home", tmp_path / "scratch"
    for folder in (home / ".ssh", scratch):
        folder.mkdir(parents=True)
    for name in ("own.h", ".ssh/key", "notes.txt"):
        (home / name).write_text("text")
    monkeypatch.setenv("HOME", str(home))
    listed = f"import os; print(sorted(os.listdir({str(home)!r})))"
    result = sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", listed], scratch, TIGHT, read_only=[home])
    assert result.stdout == "['own.h']\n", result.stderr


@needs_bubblewrap
@needs_python
def test_a_job_leaves_no_access_list_to_the_next(tmp_path: Path) -> None:
    code = """
import os
for place in (".", "/tmp", "/dev/shm"):
    for name in ("user.note", "system.posix_acl_default"):
        try:
            os.setxattr(place, name, b"\\2\\0\\0\\0")
        except OSError as error:
            print(error.errno)
"""
    result = python(code, tmp_path)
    assert result.stdout.split() == [str(errno.EOPNOTSUPP)] * 6, result


@needs_bubblewrap
@needs_python
def test_nothing_outside_the_scratch_folder_can_be_written(tmp_path: Path) -> None:
    scratch, other = tmp_path / "scratch", tmp_path / "other"
    scratch.mkdir()
    other.mkdir()
    for target in ("/usr/x", "/x", "/dev/x", str(other / "x")):
        code = f"open({target!r}, 'w').write('x')"
        result = sandbox.run_sandboxed([PYTHON, "-I", "-S", "-c", code], scratch, TIGHT, read_only=[other])
        assert result.status == "failed" or not Path(target).exists()
        assert not Path(target).exists()
    assert python("open('mine', 'w').write('kept')", scratch).status == "ok"
    assert (scratch / "mine").read_text() == "kept"
    assert python("open('/tmp/private', 'w').write('x')", scratch).status == "ok"
    assert not Path("/tmp/private").exists()


@needs_bubblewrap
@needs_python
def test_there_is_no_network(tmp_path: Path) -> None:
    result = python("import socket; socket.socket()", tmp_path)
    assert result.status == "failed"
    assert "PermissionError" in result.stderr


@needs_bubblewrap
@needs_python
def test_a_fork_is_killed(tmp_path: Path) -> None:
    result = python("import os\nfor _ in range(40): os.fork()", tmp_path)
    assert (result.status, result.reason) == ("killed", "forbidden_call")


@needs_python
@pytest.mark.parametrize("isolate", [True, False])
def test_too_many_processes_are_ended_together(isolate: bool, tmp_path: Path) -> None:
    limits = SandboxLimits(wall_s=20, processes=6)
    # the folder's name tells these processes from those of another suite on the same machine
    code = f"# {tmp_path}\nimport os, time\nfor _ in range(12):\n  if os.fork() == 0: time.sleep(30)\ntime.sleep(30)"
    result = python(code, tmp_path, limits, isolate)
    assert (result.status, result.reason) == ("killed", "processes")
    deadline = time.monotonic() + 2  # a killed process may take a moment to leave
    while alive(code) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(code)


def alive(code: str) -> list[str]:
    """Processes that were started with this code."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            try:
                if code.encode() in (folder / "cmdline").read_bytes() and "Z" not in (folder / "stat").read_text()[:60]:
                    found.append(folder.name)
            except OSError:
                continue
    return found


@needs_bubblewrap
@needs_python
def test_threads_are_allowed_but_counted(tmp_path: Path) -> None:
    code = "import threading, time\nfor _ in range({}): threading.Thread(target=time.sleep, args=(.2,)).start()"
    assert python(code.format(4), tmp_path).status == "ok"
    result = python(code.format(60).replace(".2", "9"), tmp_path)
    assert (result.status, result.reason) == ("killed", "threads")


@needs_python
@pytest.mark.parametrize("isolate", [True, False])
def test_the_memory_limit_counts_used_memory(isolate: bool, tmp_path: Path) -> None:
    reserve = "import mmap; m = mmap.mmap(-1, 64 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x4000); m[0] = 1"
    assert python(reserve, tmp_path, TIGHT, isolate).status == "ok"
    result = python("x = bytearray(400 << 20)\nimport time\ntime.sleep(9)", tmp_path, TIGHT, isolate)
    assert (result.status, result.reason) == ("killed", "memory")
    assert result.peak_memory_bytes > TIGHT.memory_bytes


@needs_python
@pytest.mark.parametrize("isolate", [True, False])
def test_the_disk_cannot_be_filled(isolate: bool, tmp_path: Path) -> None:
    one = python(
        "import signal; signal.signal(25, signal.SIG_DFL); open('big', 'wb').write(bytes(9 << 20))",
        tmp_path,
        TIGHT,
        isolate,
    )
    assert (one.status, one.reason) == ("killed", "file_size")
    many = "import time\nfor i in range(99):\n  open(f'f{i}', 'wb').write(bytes(1 << 19)); time.sleep(.02)"
    result = python(many, tmp_path, TIGHT, isolate)
    assert (result.status, result.reason) == ("killed", "disk")


@pytest.mark.parametrize("isolate", [True, False])
def test_an_endless_loop_is_a_timeout(isolate: bool, tmp_path: Path) -> None:
    limits = SandboxLimits(wall_s=0.4)
    result = sandbox.run_sandboxed(
        ["/bin/sh", "-c", "echo begun; while :; do :; done"], tmp_path, limits, isolate=isolate
    )
    assert (result.status, result.reason, result.exit_code) == ("timeout", "wall_time", None)
    assert result.stdout == "begun\n"


@pytest.mark.parametrize("isolate", [True, False])
def test_processor_time_is_limited(isolate: bool, tmp_path: Path) -> None:
    limits = SandboxLimits(wall_s=60, cpu_s=0.4, idle_s=60)
    result = sandbox.run_sandboxed(["/bin/sh", "-c", "while :; do :; done"], tmp_path, limits, isolate=isolate)
    assert (result.status, result.reason) == ("timeout", "cpu_time")
    assert 0.4 < result.cpu_s < 2


@pytest.mark.parametrize("isolate", [True, False])
def test_idle_time_has_its_own_limit(isolate: bool, tmp_path: Path) -> None:
    limits = SandboxLimits(wall_s=60, cpu_s=60, idle_s=0.4)
    result = sandbox.run_sandboxed(["/bin/sleep", "30"], tmp_path, limits, isolate=isolate)
    assert (result.status, result.reason) == ("timeout", "idle_time")
    assert result.cpu_s < 0.2


def test_waiting_for_a_cpu_does_not_count_as_idle(tmp_path: Path) -> None:
    """Two loops and one processor: by 0.8 s of work this one has waited for as long, which is more than it may idle."""
    if not Path("/proc/self/schedstat").exists():
        pytest.skip("this kernel does not count the time that processes wait for a processor")
    one = str(min(os.sched_getaffinity(0)))
    loop = ["/usr/bin/taskset", "-c", one, "/bin/sh", "-c", "while :; do :; done"]
    with subprocess.Popen(loop) as other:
        try:
            limits = SandboxLimits(wall_s=60, cpu_s=0.8, idle_s=0.5)
            result = sandbox.run_sandboxed(loop, tmp_path, limits)
        finally:
            other.kill()
    assert (result.status, result.reason) == ("timeout", "cpu_time")


def test_a_process_that_hardly_gets_a_cpu_is_not_idle() -> None:
    """Beside a loop at normal priority, one at the lowest waits for seconds, and its waits are counted as they end."""
    one = str(min(os.sched_getaffinity(0)))
    loop = ["/usr/bin/taskset", "-c", one, "/bin/sh", "-c", "while :; do :; done"]
    with subprocess.Popen(loop) as other, subprocess.Popen(loop) as starved:
        try:
            os.sched_setscheduler(starved.pid, os.SCHED_IDLE, os.sched_param(0))
            meter = processes.ProcessTimeMeter()
            for _ in range(20):
                time.sleep(processes.SAMPLE_S + 0.001)
                meter.sample([starved.pid])
        finally:
            other.kill()
            starved.kill()
    assert meter.idle_s < 0.5


@needs_python
def test_output_is_truncated_and_excessive_output_is_killed(tmp_path: Path) -> None:
    much = python("print('x' * 5000)", tmp_path)
    assert (much.status, len(much.stdout)) == ("ok", 1000)
    flood = python("while True: print('x' * 5000)", tmp_path)
    assert (flood.status, flood.reason, len(flood.stdout)) == ("killed", "output", 1000)


@needs_python
def test_open_files_are_limited(tmp_path: Path) -> None:
    result = python("files = [open('f', 'w') for _ in range(99)]", tmp_path)
    assert "Too many open files" in result.stderr


@needs_bubblewrap
def test_the_environment_is_not_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("A_TOKEN", "secret")
    result = sandbox.run_sandboxed(["/usr/bin/env"], tmp_path, TIGHT, env={"GIVEN": "yes"})
    assert "secret" not in result.stdout
    assert "GIVEN=yes" in result.stdout


def test_a_missing_program_is_a_result(tmp_path: Path) -> None:
    assert sandbox.run_sandboxed(["/no/such/program"], tmp_path, TIGHT).status == "failed"


def test_a_job_whose_descriptors_cannot_be_set_up_was_not_started(tmp_path: Path) -> None:
    """What fails before the program starts is no exit code of the program."""
    supervisor, stdin = jail.Jail(None), os.open(os.devnull, os.O_RDONLY)
    try:
        resource.prlimit(supervisor.process.pid, resource.RLIMIT_NOFILE, (32, 32))
        job = supervisor.start(["/bin/true"], tmp_path, {}, TIGHT, stdin)
        job_exit = job.read_exit()
        job.close()
    finally:
        os.close(stdin)
        supervisor.close()
    assert job_exit is not None
    assert job_exit.error == errno.EINVAL


def test_without_bubblewrap_nothing_starts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(bubblewrap, "why_unavailable", lambda: "bwrap is not installed")
    with pytest.raises(MissingDependency, match="cannot be isolated"):
        sandbox.run_sandboxed(["/usr/bin/touch", "started"], tmp_path, TIGHT)
    assert not (tmp_path / "started").exists()
    assert sandbox.run_sandboxed(["/bin/true"], tmp_path, TIGHT, isolate=False).isolated is False


@needs_bubblewrap
def test_starting_takes_little_processor_time(tmp_path: Path) -> None:
    assert min(sandbox.run_sandboxed(["/bin/true"], tmp_path, TIGHT).cpu_s for _ in range(5)) < 0.05


def test_the_system_call_filter_is_well_formed() -> None:
    """Every jump stays inside, and every path ends in a return."""
    code = [struct.unpack_from("<HBBI", seccomp_program(), at) for at in range(0, len(seccomp_program()), 8)]
    for position, (operation, yes, no, _) in enumerate(code):
        if operation & 7 == 5:
            assert position + 1 + max(yes, no) < len(code)
    assert code[-1][0] == 0x06
    assert sys.byteorder == "little"


@needs_bubblewrap
def test_a_job_whose_sandbox_is_killed_from_outside_is_a_result_and_runs_once(tmp_path: Path) -> None:
    """As by a machine that runs out of memory."""

    def end(_: str, output: bytes) -> None:
        assert output == b"begun\n"
        for pid in processes.living_descendants(os.getpid())[1:]:
            with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # others end by themselves
                if Path(f"/proc/{pid}/comm").read_text().startswith("hipsynth-superv"):
                    os.kill(pid, signal.SIGKILL)

    command = ["/bin/sh", "-c", "echo x >> runs; echo begun; while :; do :; done"]
    result = sandbox.run_sandboxed(command, tmp_path, TIGHT, on_output=end)
    assert (result.status, result.reason, result.stdout) == ("killed", "lost", "begun\n")
    assert (tmp_path / "runs").read_text() == "x\n"


@needs_bubblewrap
@needs_python
def test_of_a_folder_for_temporary_files_only_what_programs_include_is_shown(tmp_path: Path) -> None:
    """A program may lie in /tmp, beside what others have there."""
    with (
        tempfile.NamedTemporaryFile("w", dir="/tmp", suffix=".h") as header,
        tempfile.NamedTemporaryFile("w", dir="/tmp", suffix=".txt") as other,
    ):
        for file in (header, other):
            print("seen", file=file, flush=True)
            Path(file.name).chmod(0o644)
        code = (
            f"import os; print(open({header.name!r}).read(), os.path.exists({other.name!r}));"
            "open('/tmp/own', 'w').write('x')"
        )
        command = [PYTHON, "-I", "-S", "-c", code]
        result = sandbox.run_sandboxed(command, tmp_path, TIGHT, read_only=[Path("/tmp")])
    assert (result.status, result.stdout) == ("ok", "seen\n False\n") and not Path("/tmp/own").exists()
