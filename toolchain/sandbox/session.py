"""A long-lived job in a sandbox that answers requests, one line each."""

from __future__ import annotations

import contextlib
import os
import select
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from hipsynth.toolchain.sandbox import bubblewrap, processes
from hipsynth.toolchain.sandbox.jail import Jail, SandboxJob, creation_failure
from hipsynth.toolchain.sandbox.limits import SandboxLimits, TimeLimits, time_limits
from hipsynth.toolchain.sandbox.mounts import job_folder, view_of

POLL_S = 0.1


class SandboxSession:
    """A program that reads requests from standard input and writes answers to standard output, a line each.

    It sees /usr and `read_only`, and writes to a folder of its own. Raises MissingDependency if programs cannot be
    isolated here.
    """

    def __init__(
        self, command: Sequence[str], limits: SandboxLimits, *, read_only: Iterable[Path] = (), isolate: bool = True
    ) -> None:
        self.limits, self.said = limits, b""
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(job_folder())
            view = None
            if isolate and not bubblewrap.switched_off():
                bubblewrap.require_sandbox()
                view = view_of(folder, limits.scratch_bytes, read_only, {})
            self.jail = Jail(view)
            stack.callback(self.jail.close)
            reader, self._requests = os.pipe()
            stack.callback(os.close, self._requests)
            try:
                self.job = self._start_job(command, folder, reader)
            finally:
                os.close(reader)
            stack.callback(self.job.close)
            self._resources = stack.pop_all()

    def _start_job(self, command: Sequence[str], folder: Path, requests: int) -> SandboxJob:
        environment = {"PATH": bubblewrap.PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)}
        try:
            if self.jail.view is not None:
                self.jail.open_workspace().copy_in(folder)
            return self.jail.start(command, folder, environment, self.limits, requests)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise creation_failure(self.jail.creation_error()) from error

    def has_ended(self) -> bool:
        """Whether the program is gone between two requests: it says nothing then, so its output can only have ended."""
        return bool(select.select([self.job.out.fileno()], [], [], 0)[0])

    def ask(self, request: bytes, most: int, seconds: float) -> bytes:
        """The answer to a request (a line), of at most `most` bytes.

        Raises EOFError, with what the program said, if it ended, took too much memory, or answers more; TimeoutError if
        it takes more than `seconds` of processor time, or is idle as long. The session cannot be used after that.
        """
        watch = _RequestWatch(self.jail, self.limits.memory_bytes, time_limits(seconds))
        try:
            self._send_line(request, watch)
            return self._receive_line(most, watch)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError(self._last_error_line()) from error

    def _send_line(self, request: bytes, watch: _RequestWatch) -> None:
        view = memoryview(request)
        os.set_blocking(self._requests, False)
        while view:
            _, ready, _ = select.select([], [self._requests], [], POLL_S)
            if ready:
                view = view[os.write(self._requests, view) :]
            watch.check_limits()

    def _receive_line(self, most: int, watch: _RequestWatch) -> bytes:
        parts: list[bytes] = []
        size = 0
        out, err = self.job.out.fileno(), self.job.err.fileno()
        while True:
            ready, _, _ = select.select([out, err], [], [], POLL_S)
            if err in ready:
                self.said = os.read(err, 1 << 16)
                if not self.said:
                    raise EOFError(self._last_error_line())
            if out in ready:
                parts.append(os.read(out, 1 << 20))
                size += len(parts[-1])
                if not parts[-1] or size > most:
                    raise EOFError(self._last_error_line())
                if parts[-1].endswith(b"\n"):
                    return b"".join(parts)
            watch.check_limits()

    def _last_error_line(self) -> str:
        """The last line that the program wrote to standard error."""
        os.set_blocking(self.job.err.fileno(), False)
        with contextlib.suppress(OSError):
            self.said = os.read(self.job.err.fileno(), 1 << 16) or self.said
        lines = self.said.decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""

    def close(self) -> None:
        """Ends the program."""
        self._resources.close()


class _RequestWatch:
    """Watches the time and memory of a session's processes while they work on one request."""

    def __init__(self, jail: Jail, memory_bytes: int, limits: TimeLimits) -> None:
        self.root, self.memory_bytes, self.limits = jail.process.pid, memory_bytes, limits
        self.meter = processes.ProcessTimeMeter(processes.living_descendants(self.root))
        self.next_look = self.meter.start + POLL_S

    def check_limits(self) -> None:
        """Raises EOFError for too much memory, TimeoutError for too much time; looks once in POLL_S."""
        if time.monotonic() < self.next_look:
            return
        self.next_look = time.monotonic() + POLL_S
        pids = processes.living_descendants(self.root)
        if sum(processes.resident_bytes(pid) for pid in pids) > self.memory_bytes:
            raise EOFError(f"it took more than {self.memory_bytes >> 20} MiB of memory")
        self.meter.sample(pids)
        if self.meter.exceeded_limit(**self.limits):
            raise TimeoutError(f"it took more than {self.limits['cpu_s']:g} s")
