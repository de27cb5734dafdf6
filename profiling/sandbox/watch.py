"""Reads a sandboxed program's output and enforces the limits that rlimits cannot express."""

from __future__ import annotations

import contextlib
import os
import resource
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import IO

from hipsynth.profiling.sandbox import processes
from hipsynth.profiling.sandbox.limits import TIME_REASONS, SandboxLimits, SandboxResult

POLL_S = 0.02


def _children_s() -> float:
    """Processor time of this process's reaped children."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Watch:
    """Watches one process: collects its output, polls its limits, kills its whole process tree when one is exceeded."""

    def __init__(
        self,
        process: subprocess.Popen[bytes],
        scratch: Path,
        limits: SandboxLimits,
        isolated: bool,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.on_output, self.cut = on_output, False
        self.process, self.scratch, self.limits, self.isolated = process, scratch, limits, isolated
        self.kept: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
        self.written = 0
        self.peak = 0
        self.meter = processes.Meter()
        self.cpu_before = _children_s()
        self.start = time.monotonic()
        self.next_disk = self.start + 0.1

    def result(self) -> SandboxResult:
        """Waits until the process ends or exceeds a limit, and kills what is left of its process tree."""
        reason = "interrupted"
        try:
            reason = self._pump()
        finally:  # also if this process is interrupted: its children must not outlive it
            if reason:
                self._kill()
        self.process.wait()
        self._drain()
        elapsed = time.monotonic() - self.start
        out, err = (bytes(self.kept[name]).decode(errors="replace") for name in ("out", "err"))
        status, reason, code, number = self._judge(reason)
        cpu_s = max(self.meter.cpu_s, _children_s() - self.cpu_before)
        return SandboxResult(status, reason, code, number, out, err, elapsed, self.peak, self.isolated, cpu_s, self.cut)

    def _judge(self, reason: str) -> tuple[str, str, int | None, int | None]:
        if reason:
            return ("timeout" if reason in TIME_REASONS else "killed"), reason, None, None
        code = self.process.returncode
        # bubblewrap reports a signal as exit code 128 + number
        number = -code if code < 0 else code - 128 if self.isolated and 128 < code <= 128 + signal.SIGSYS else 0
        if number in (signal.SIGXCPU, signal.SIGXFSZ, signal.SIGSYS):
            names = {signal.SIGXCPU: "cpu_time", signal.SIGXFSZ: "file_size", signal.SIGSYS: "forbidden_call"}
            reason = names[signal.Signals(number)]
            return ("timeout" if reason in TIME_REASONS else "killed"), reason, None, number
        if number:
            return "failed", "signal", None, number
        return ("ok", "", 0, None) if code == 0 else ("failed", "exit_code", code, None)

    def _pump(self) -> str:
        """Collects output until the process ends; returns the reason to kill it, or ""."""
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
        """Reads available output and keeps it up to the limit; False at the end of the stream."""
        try:
            chunk = os.read(stream.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        room = self.limits.output_bytes - len(self.kept[name])
        self.kept[name] += chunk[: max(0, room)]
        self.cut = self.cut or len(chunk) > max(0, room)
        if chunk and self.on_output:
            self.on_output(name, chunk)
        self.written += len(chunk)
        return bool(chunk)

    def _drain(self) -> None:
        """Reads what is left in the pipes after the end, without blocking (a surviving child may hold them open)."""
        for name, stream in (("out", self.process.stdout), ("err", self.process.stderr)):
            assert stream is not None
            for _ in range(64):  # a pipe holds at most 1 MiB
                before = self.written
                if not self._read(name, stream) or self.written == before:
                    break

    def _passed(self) -> str:
        """The exceeded limit, or ""."""
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
        if len(pids) > limits.processes + (2 if self.isolated else 0):  # plus bubblewrap's own two
            return "processes"
        if sum(processes.thread_count(pid) for pid in pids) > limits.threads + len(pids):
            return "threads"
        if now >= self.next_disk:
            self.next_disk = now + 0.25
            held = sum(processes.deleted_bytes(pid) for pid in pids)
            if held + processes.folder_bytes(self.scratch) > limits.scratch_bytes:
                return "disk"
        return ""

    def _kill(self) -> None:
        """Kills the process and all its descendants, and waits (up to a few seconds) until none is running."""
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
        """Stops the process and its descendants, because a tree that forks while it is read would hide some of them."""
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
