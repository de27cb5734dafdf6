"""Runs a program nobody trusts: no network, a read-only file system, one scratch folder, limits on everything.

Isolation is bubblewrap with a seccomp filter. Where bubblewrap does not work, the limits still hold but the file
system and the network are open: the result says so (`isolated` is False), and so does `synth doctor`.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import math
import os
import platform
import resource
import selectors
import shutil
import signal
import struct
import subprocess
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypedDict

from profiling import processes
from synth.errors import Missing

MIB = 1 << 20
POLL_S = 0.02
TIME_REASONS = ("wall_time", "cpu_time", "idle_time")


@dataclass(frozen=True)
class SandboxLimits:
    """Bounds on one run. Memory is what its processes have resident; address space is free (arenas reserve much).

    Time is what its processes use together (`cpu_s`), and what they spend neither running nor waiting for a processor
    (`idle_s`): a busy machine changes neither. `wall_s` is there for what neither sees.
    """

    wall_s: float = 660.0
    cpu_s: float = 60.0
    idle_s: float = 60.0
    memory_bytes: int = 8 << 30
    output_bytes: int = MIB  # kept of stdout and of stderr each; a program that writes 64 times as much is killed
    file_bytes: int = 256 * MIB  # one file
    scratch_bytes: int = 1 << 30  # all files in the scratch folder
    open_files: int = 256
    processes: int = 1  # 1 = may not fork
    threads: int = 512


@dataclass(frozen=True)
class SandboxResult:
    """`status`: ok (exit code 0) | failed (exit code or signal of its own) | timeout | killed (a limit was passed).

    `reason` is "" for ok, else one of: exit_code, signal, forbidden_call, wall_time, cpu_time, idle_time, memory,
    output, file_size, disk, processes, threads, not_started. `isolated` is False when only the limits held.
    """

    status: str
    reason: str
    exit_code: int | None
    signal: int | None
    stdout: str
    stderr: str
    wall_s: float
    peak_memory_bytes: int
    isolated: bool
    cpu_s: float = 0.0


WALL_FACTOR, WALL_EXTRA_S = 10.0, 60.0  # of the processor's and idle time allowed


class TimeLimits(TypedDict):
    """Those fields of SandboxLimits."""

    wall_s: float
    cpu_s: float
    idle_s: float


def time_limits(seconds: float) -> TimeLimits:
    """The three limits on time of a run that may work, or idle, for so many seconds."""
    return {"cpu_s": seconds, "idle_s": seconds, "wall_s": seconds * WALL_FACTOR + WALL_EXTRA_S}


def run(
    command: Sequence[str | Path],
    scratch: Path,
    limits: SandboxLimits | None = None,
    *,
    read_only: Iterable[Path] = (),
    env: Mapping[str, str] | None = None,
    isolate: bool = True,
    mounts: Mapping[str, Path] | None = None,
    stdin: Path | None = None,
) -> SandboxResult:
    """Runs `command` with `scratch` as its folder, the only one it can write to.

    `read_only`: further paths it may read (system libraries under /usr always are). `env`: its whole environment
    besides PATH and HOME. `isolate=False` asks for the limits alone. `mounts`: folders it sees, read-only, at other
    paths (only where isolation works). `stdin`: the file on its standard input. Never raises for what the program does.
    """
    limits = limits or SandboxLimits()
    scratch = scratch.resolve()
    words = [str(part) for part in command]
    isolated = isolate and available()
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(scratch), "LC_ALL": "C.UTF-8", **(env or {})}
    with contextlib.ExitStack() as stack:
        filter_fd = stack.enter_context(_seccomp_file()) if isolated and limits.processes == 1 else None
        full = _limited(words, limits)
        if isolated:
            full = _bubblewrap(full, scratch, read_only, environment, filter_fd, limits, mounts or {})
        source = stack.enter_context((stdin or Path(os.devnull)).open("rb"))
        try:
            process = subprocess.Popen(
                full,
                stdin=source,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=scratch,
                env=environment,
                start_new_session=True,
                pass_fds=() if filter_fd is None else (filter_fd,),
            )
        except OSError as error:
            return SandboxResult("failed", "not_started", None, None, "", str(error), 0.0, 0, isolated)
        with process:
            return _Watch(process, scratch, limits, isolated).result()


@functools.cache
def available() -> bool:
    """Whether bubblewrap is installed and can make a sandbox on this machine."""
    if shutil.which("bwrap") is None:
        return False
    probe = _bubblewrap(["/bin/true"], Path("/tmp"), (), {}, None, SandboxLimits(), {})
    try:
        return subprocess.run(probe, capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return False


def require() -> None:
    """Raises Missing where programs cannot be isolated."""
    if not available():
        raise Missing(
            "programs cannot be isolated here: they could read your files and use the network",
            cause="bubblewrap (bwrap) is not installed, or this machine lets it make no namespaces",
            remedy="apt install bubblewrap; in a container, allow user namespaces. `synth doctor` says what is missing",
        )


def _limited(command: list[str], limits: SandboxLimits) -> list[str]:
    """The command under resource limits, set by a shell that then becomes it (no fork, about 1 ms)."""
    # Each process for itself; the soft limit signals (SIGXCPU), the hard one a little later kills.
    seconds = max(1, math.ceil(limits.cpu_s) + 1)
    settings = (
        f"ulimit -c 0; ulimit -S -t {seconds}; ulimit -H -t {seconds + 2}; "
        f"ulimit -f {max(1, limits.file_bytes // 512)}; ulimit -n {limits.open_files}; "
    )
    return ["/bin/sh", "-c", settings + 'exec "$@"', "sh", *_fixed_layout(), *command]


@functools.cache
def _fixed_layout() -> tuple[str, ...]:
    """The prefix that turns address randomisation off, where the system allows it.

    clang 22 orders some device variables by address, so randomised runs of one compile can differ.
    """
    prefix = ("setarch", "-R")
    try:
        works = subprocess.run([*prefix, "/bin/true"], capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.SubprocessError):
        return ()
    return prefix if works else ()


def _bubblewrap(
    command: list[str],
    scratch: Path,
    read_only: Iterable[Path],
    env: Mapping[str, str],
    filter_fd: int | None,
    limits: SandboxLimits,
    mounts: Mapping[str, Path],
) -> list[str]:
    """The bwrap command line: new namespaces, no capability, /usr read-only, sized private /tmp and /dev/shm."""
    words = ["bwrap", "--unshare-all", "--unshare-user", "--uid", "1000", "--gid", "1000", "--cap-drop", "ALL"]
    words += ["--die-with-parent", "--new-session", "--hostname", "sandbox", "--ro-bind", "/usr", "/usr"]
    for name in ("/lib", "/lib64", "/lib32", "/libx32", "/bin", "/sbin"):
        path = Path(name)
        if path.is_symlink():
            words += ["--symlink", str(path.readlink()), name]
        elif path.is_dir():
            words += ["--ro-bind", name, name]
    for name in ("/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime"):
        words += ["--ro-bind-try", name, name]
    size = str(limits.file_bytes)
    words += ["--proc", "/proc", "--dev", "/dev", "--size", size, "--tmpfs", "/dev/shm", "--remount-ro", "/dev"]
    words += ["--size", size, "--tmpfs", "/tmp"]
    for path in read_only:
        words += ["--ro-bind", str(path.resolve()), str(path.resolve())]
    for place, path in mounts.items():
        words += ["--ro-bind", str(path.resolve()), place]
    words += ["--bind", str(scratch), str(scratch), "--chdir", str(scratch), "--clearenv"]
    for key, value in env.items():
        words += ["--setenv", key, value]
    if filter_fd is not None:
        words += ["--seccomp", str(filter_fd)]
    return [*words, "--", *command]


# --- seccomp -------------------------------------------------------------------------------------------------------

_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000  # SECCOMP_RET_*, linux/seccomp.h
_AUDIT_ARCH_X86_64 = 0xC000003E
_CLONE, _CLONE3, _CLONE_THREAD = 56, 435, 0x00010000
# x86-64 system call numbers (arch/x86/entry/syscalls/syscall_64.tbl)
_KILLED = {
    "fork": 57, "vfork": 58, "ptrace": 101, "pivot_root": 155, "mount": 165, "umount2": 166, "init_module": 175,
    "kexec_load": 246, "add_key": 248, "request_key": 249, "keyctl": 250, "unshare": 272, "perf_event_open": 298,
    "open_by_handle_at": 304, "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "finit_module": 313,
    "bpf": 321, "userfaultfd": 323, "io_uring_setup": 425,
}  # fmt: skip
_REFUSED = {"socket": 41, "socketpair": 53}  # EACCES: a library that only asks may go on


def seccomp_program() -> bytes:
    """The filter as BPF: forking and kernel interfaces kill, sockets are refused, threads are allowed."""

    def load(offset: int) -> tuple[int, int, int, int]:
        return (0x20, 0, 0, offset)

    def jump(code: int, value: int, yes: int, no: int) -> tuple[int, int, int, int]:
        return (code, yes, no, value)

    def give(value: int) -> tuple[int, int, int, int]:
        return (0x06, 0, 0, value)

    equal, at_least, any_bit = 0x15, 0x35, 0x45
    code = [load(4), jump(equal, _AUDIT_ARCH_X86_64, 1, 0), give(_KILL), load(0)]
    code += [jump(at_least, 0x40000000, 0, 1), give(_KILL)]  # the x32 calling convention
    code += [jump(equal, _CLONE3, 0, 1), give(_ERRNO | errno.ENOSYS)]  # its flags are out of a filter's sight
    for number in _KILLED.values():
        code += [jump(equal, number, 0, 1), give(_KILL)]
    for number in _REFUSED.values():
        code += [jump(equal, number, 0, 1), give(_ERRNO | errno.EACCES)]
    code += [jump(equal, _CLONE, 0, 3), load(16), jump(any_bit, _CLONE_THREAD, 1, 0), give(_KILL)]
    code += [give(_ALLOW)]
    return b"".join(struct.pack("<HBBI", *instruction) for instruction in code)


@contextlib.contextmanager
def _seccomp_file() -> Iterator[int | None]:
    """A file descriptor that reads the filter, or None where the filter's numbers do not apply."""
    if platform.machine() != "x86_64":
        yield None
        return
    reader, writer = os.pipe()
    os.write(writer, seccomp_program())
    os.close(writer)
    try:
        yield reader
    finally:
        os.close(reader)


# --- watching ------------------------------------------------------------------------------------------------------


def _children_s() -> float:
    """Processor time of this process's ended children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class _Watch:
    """Reads a process's output and enforces what rlimits cannot."""

    def __init__(self, process: subprocess.Popen[bytes], scratch: Path, limits: SandboxLimits, isolated: bool) -> None:
        self.process, self.scratch, self.limits, self.isolated = process, scratch, limits, isolated
        self.kept: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
        self.written = 0
        self.peak = 0
        self.meter = processes.Meter()
        self.cpu_before = _children_s()
        self.start = time.monotonic()
        self.next_disk = self.start + 0.1

    def result(self) -> SandboxResult:
        reason = "interrupted"
        try:
            reason = self._pump()
        finally:  # also when this process is told to end: what it started must not outlive it
            if reason:
                self._kill()
        self.process.wait()
        self._drain()
        elapsed = time.monotonic() - self.start
        out, err = (bytes(self.kept[name]).decode(errors="replace") for name in ("out", "err"))
        status, reason, code, number = self._judge(reason)
        cpu_s = max(self.meter.cpu_s, _children_s() - self.cpu_before)
        return SandboxResult(status, reason, code, number, out, err, elapsed, self.peak, self.isolated, cpu_s)

    def _judge(self, reason: str) -> tuple[str, str, int | None, int | None]:
        if reason:
            return ("timeout" if reason in TIME_REASONS else "killed"), reason, None, None
        code = self.process.returncode
        # bubblewrap passes a signal on as 128 + its number
        number = -code if code < 0 else code - 128 if self.isolated and 128 < code <= 128 + signal.SIGSYS else 0
        if number in (signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS):
            names = {signal.SIGXCPU: "cpu_time", signal.SIGXFSZ: "file_size", signal.SIGSYS: "forbidden_call"}
            reason = names[signal.Signals(number)]
            return ("timeout" if reason in TIME_REASONS else "killed"), reason, None, number
        if number:
            return "failed", "signal", None, number
        return ("ok", "", 0, None) if code == 0 else ("failed", "exit_code", code, None)

    def _pump(self) -> str:
        """Moves output until the process ends; returns why it must be killed, or ""."""
        assert self.process.stdout and self.process.stderr
        pidfd = os.pidfd_open(self.process.pid)
        try:
            with selectors.DefaultSelector() as selector:
                for name, stream in (("out", self.process.stdout), ("err", self.process.stderr)):
                    os.set_blocking(stream.fileno(), False)
                    selector.register(stream, selectors.EVENT_READ, name)
                selector.register(pidfd, selectors.EVENT_READ, "end")
                return self._loop(selector)
        finally:
            os.close(pidfd)

    def _loop(self, selector: selectors.BaseSelector) -> str:
        pause = 0.001
        while True:
            ended = False
            for key, _ in selector.select(pause):
                if key.data == "end":
                    ended = True
                elif not self._read(key.data, key.fileobj):  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
            if ended:
                return ""
            reason = self._passed()
            if reason:
                return reason
            pause = min(POLL_S, pause * 2)

    def _read(self, name: str, stream: IO[bytes]) -> bool:
        """Takes what is there, keeps up to the limit; False at the end of the stream."""
        try:
            chunk = os.read(stream.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        room = self.limits.output_bytes - len(self.kept[name])
        self.kept[name] += chunk[: max(0, room)]
        self.written += len(chunk)
        return bool(chunk)

    def _drain(self) -> None:
        """What is left in the pipes after the end (a surviving child may hold them open: never waits)."""
        for name, stream in (("out", self.process.stdout), ("err", self.process.stderr)):
            assert stream is not None
            while len(self.kept[name]) < self.limits.output_bytes:
                before = len(self.kept[name])
                if not self._read(name, stream) or len(self.kept[name]) == before:
                    break

    def _passed(self) -> str:
        """The limit that has been passed, or ""."""
        limits, now = self.limits, time.monotonic()
        if self.written > 64 * limits.output_bytes:
            return "output"
        pids = processes.descendants(self.process.pid)
        self.meter.sample(pids)
        late = self.meter.passed(limits.cpu_s, limits.idle_s, limits.wall_s)
        if late:
            return late
        memory = sum(processes.resident_bytes(pid) for pid in pids)
        self.peak = max(self.peak, memory)
        if memory > limits.memory_bytes:
            return "memory"
        if len(pids) > limits.processes + (2 if self.isolated else 0):  # bubblewrap's own two
            return "processes"
        if sum(processes.thread_count(pid) for pid in pids) > limits.threads + len(pids):
            return "threads"
        if now >= self.next_disk:
            self.next_disk = now + 0.25
            if processes.folder_bytes(self.scratch) > limits.scratch_bytes:
                return "disk"
        return ""

    def _kill(self) -> None:
        """Ends the process with all its descendants, and waits (up to a few seconds) until none of them runs."""
        doomed = self._freeze()
        for attempt in range(200):
            doomed |= set(processes.descendants(self.process.pid))
            running = [pid for pid in doomed if processes.runs(pid)]
            if not running and attempt > 0:
                return
            for pid in running:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            if attempt > 0:
                time.sleep(POLL_S)

    def _freeze(self) -> set[int]:
        """Stops the process and its descendants: a tree that forks while it is being read would hide some of them."""
        frozen: set[int] = set()
        for _ in range(50):
            found = set(processes.descendants(self.process.pid)) - frozen
            if not found:
                break
            for pid in found:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGSTOP)
            frozen |= found
        return frozen
