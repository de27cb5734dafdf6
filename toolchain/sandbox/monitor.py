"""Reads a job's output and enforces the limits that rlimits cannot express."""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from hipsynth.core import stop_signal
from hipsynth.toolchain.sandbox import processes
from hipsynth.toolchain.sandbox.jail import Jail, JobExit, SandboxJob
from hipsynth.toolchain.sandbox.limits import (
    OUTPUT_FACTOR,
    TIME_LIMITS,
    JobEnd,
    JobStatus,
    SandboxLimits,
    SandboxResult,
)

POLL_S = 0.02  # between two looks at a job's limits, near the limit of its memory
LONGEST_POLL_S = 0.1
MEMORY_GROWTH = 10 << 30  # bytes a second that a program can fill at most
STOP_S = 1.0
_SIGNAL_REASONS = {
    signal.SIGXCPU: JobEnd.CPU_TIME,
    signal.SIGXFSZ: JobEnd.FILE_SIZE,
    signal.SIGSYS: JobEnd.FORBIDDEN_CALL,
}


def _stopped_status(reason: JobEnd) -> JobStatus:
    """The status of a job that did not end by itself."""
    return JobStatus.TIMEOUT if reason in TIME_LIMITS else JobStatus.KILLED


class SandboxLost(Exception):
    """The sandbox could not be created; `args[0]` is what bubblewrap said."""


class OutputClosed(Exception):
    """Who reads a job's output has closed it."""


class Watch:
    """Watches one job: collects its output, polls its limits, ends its sandbox when one is exceeded."""

    def __init__(
        self,
        jail: Jail,
        job: SandboxJob,
        scratch: Path,
        limits: SandboxLimits,
        on_output: Callable[[str, bytes], None] | None = None,
    ) -> None:
        self.jail, self.job, self.scratch, self.limits, self.on_output = jail, job, scratch, limits, on_output
        self.isolated = jail.view is not None
        self.kept: dict[str, bytearray] = {"out": bytearray(), "err": bytearray()}
        self.written = 0
        self.cut = False
        self.memory = self.peak = 0
        self.ended: JobExit | None = None
        self.starved = False  # whether the kernel ended it for memory
        self.meter = processes.ProcessTimeMeter(processes.living_descendants(jail.process.pid))
        self.start = time.monotonic()
        self.next_look = self.start + 0.01  # most jobs end before there is anything to look at
        self.next_disk = self.start + 0.1

    def result(self) -> SandboxResult:
        """Waits until the job ends or exceeds a limit, and kills what is left of it."""
        reason = JobEnd.INTERRUPTED
        try:
            reason = self._collect_output()
        finally:  # also if this process is interrupted: its jobs must not outlive it
            self.starved = self.jail.group is not None and self.jail.group.ran_out_of_memory()
            if reason:
                self._kill_job()
            self._drain_pipes()
            self.job.close()
        elapsed = time.monotonic() - self.start
        out, err = (bytes(self.kept[name]).decode(errors="replace") for name in ("out", "err"))
        if self.starved and reason in (JobEnd.FINISHED, JobEnd.LOST):  # the kernel may have chosen the supervisor
            reason = JobEnd.MEMORY
        if reason == JobEnd.LOST and (problem := self.jail.creation_error()):
            raise SandboxLost(problem)
        if not reason and self.isolated and self._fills_disk():  # it may not have noticed that its disk was full
            reason = JobEnd.DISK
        status, reason, code, number = self._judge_end(reason)
        cpu_s, peak = self.meter.cpu_s, self.peak
        if self.ended:
            cpu_s, peak = max(cpu_s, self.ended.cpu_s), max(peak, self.ended.peak_bytes)
        if reason == JobEnd.NOT_STARTED and self.ended:
            err = os.strerror(self.ended.error)
        return SandboxResult(status, reason, code, number, out, err, elapsed, peak, self.isolated, cpu_s, cut=self.cut)

    def _judge_end(self, reason: JobEnd) -> tuple[JobStatus, JobEnd, int | None, int | None]:
        if reason:
            return _stopped_status(reason), reason, None, None
        assert self.ended
        if self.ended.error:
            return JobStatus.FAILED, JobEnd.NOT_STARTED, None, None
        code = os.waitstatus_to_exitcode(self.ended.status)
        if code >= 0:
            status, reason = (JobStatus.FAILED, JobEnd.EXIT_CODE) if code else (JobStatus.OK, JobEnd.FINISHED)
            return status, reason, code, None
        with contextlib.suppress(KeyError, ValueError):
            reason = _SIGNAL_REASONS[signal.Signals(-code)]
            return _stopped_status(reason), reason, None, -code
        return JobStatus.FAILED, JobEnd.SIGNAL, None, -code

    def _collect_output(self) -> JobEnd:
        """Collects output until the job ends; returns the reason to kill it, or FINISHED."""
        with selectors.DefaultSelector() as selector:
            for name, stream in (("out", self.job.out), ("err", self.job.err)):
                os.set_blocking(stream.fileno(), False)
                selector.register(stream, selectors.EVENT_READ, name)
            selector.register(self.jail.socket, selectors.EVENT_READ, "end")
            return self._watch_job(selector)

    def _watch_job(self, selector: selectors.BaseSelector) -> JobEnd:
        pause = 0.002
        while True:
            answered = False
            for key, _ in selector.select(pause):
                if key.data == "end":
                    answered = True
                elif not self._read_output(key.data, key.fileobj):  # type: ignore[arg-type]
                    selector.unregister(key.fileobj)
            if answered:
                self.ended = self.job.read_exit()
                return JobEnd.FINISHED if self.ended else JobEnd.LOST
            if stop_signal.stop_requested():
                return self._ask_to_stop()
            if self.written > OUTPUT_FACTOR * self.limits.output_bytes:
                return JobEnd.OUTPUT
            if time.monotonic() >= self.next_look:
                reason = self._exceeded_limit()
                if reason:
                    return reason
                self.next_look = time.monotonic() + self._time_until_look()
            pause = min(POLL_S if self.next_look - time.monotonic() <= POLL_S else LONGEST_POLL_S, pause * 2)

    def _time_until_look(self) -> float:
        """Seconds until the job may exceed its memory, within bounds: looking takes 0.4 ms each time."""
        room = max(0, self.limits.memory_bytes - self.memory)
        return min(LONGEST_POLL_S, max(POLL_S, room / MEMORY_GROWTH))

    def _read_output(self, name: str, stream: BinaryIO) -> bool:
        """Reads available output and keeps it up to the limit; False at the end of the stream."""
        try:
            chunk = os.read(stream.fileno(), 1 << 16)
        except BlockingIOError:
            return True
        room = max(0, self.limits.output_bytes - len(self.kept[name]))
        self.kept[name] += chunk[:room]
        self.cut |= len(chunk) > room
        self.written += len(chunk)
        if self.on_output and chunk:
            try:
                self.on_output(name, chunk)
            except BrokenPipeError as error:
                self.on_output = None
                raise OutputClosed(str(error)) from error
        return bool(chunk)

    def _drain_pipes(self) -> None:
        """Reads what is left in the pipes after the end, without blocking."""
        for name, stream in (("out", self.job.out), ("err", self.job.err)):
            for _ in range(64):  # a pipe holds 64 KiB, or 1 MiB if the program enlarged it
                before = self.written
                if not self._read_output(name, stream) or self.written == before:
                    break

    def _exceeded_limit(self) -> JobEnd:
        """The exceeded limit, or FINISHED."""
        limits = self.limits
        pids = processes.living_descendants(self.jail.process.pid)
        self.meter.sample(pids)
        late = self.meter.exceeded_limit(limits.cpu_s, limits.idle_s, limits.wall_s)
        if late:
            return late
        self.memory = sum(processes.resident_bytes(pid) for pid in pids) + self.jail.temporary_bytes()
        self.peak = max(self.peak, self.memory)
        if self.memory > limits.memory_bytes:
            return JobEnd.MEMORY
        if len(pids) > limits.processes + (2 if self.isolated else 1):  # plus the supervisor and bubblewrap
            return JobEnd.PROCESSES
        if sum(processes.thread_count(pid) for pid in pids) > limits.threads + len(pids):
            return JobEnd.THREADS
        return JobEnd.DISK if self._fills_disk() else JobEnd.FINISHED

    def _fills_disk(self) -> bool:
        """Whether the job's files take more than they may; in a sandbox, the kernel limits their bytes itself."""
        workspace = self.jail.workspace
        if workspace is not None:
            return workspace.used_bytes() > self.limits.scratch_bytes
        if time.monotonic() < self.next_disk:
            return False
        self.next_disk = time.monotonic() + 0.25
        return processes.folder_bytes(self.scratch) > self.limits.scratch_bytes

    def _ask_to_stop(self) -> JobEnd:
        """Lets the program save what it has measured: the runtime library does so on SIGTERM."""
        pids = processes.living_descendants(self.jail.process.pid)[
            2 if self.isolated else 1 :
        ]  # without those of the sandbox
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)
        end = time.monotonic() + STOP_S
        while time.monotonic() < end and any(processes.is_running(pid) for pid in pids):
            time.sleep(POLL_S)
        return JobEnd.INTERRUPTED

    def _kill_job(self) -> None:
        """Ends the sandbox and all its processes, and waits (up to a few seconds) until none is running."""
        # The end of process 1 of a sandbox is that of all processes in it, however many there are.
        doomed = set(processes.child_processes(self.jail.process.pid)) if self.isolated else self._freeze_processes()
        for pid in doomed:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        for _ in range(200):
            if not any(processes.is_running(pid) for pid in doomed):
                break
            time.sleep(POLL_S / 4)
        self.jail.end()

    def _freeze_processes(self) -> set[int]:
        """Stops the processes first, because a tree that forks while it is read would hide some of them."""
        frozen: set[int] = set()
        for _ in range(50):
            descendants = set(processes.living_descendants(self.jail.process.pid)) - frozen
            if not descendants:
                break
            for pid in descendants:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGSTOP)
            frozen |= descendants
        return frozen
