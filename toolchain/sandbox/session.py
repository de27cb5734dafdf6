"""A long-lived job in a sandbox that answers requests, one line each."""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Iterable, Sequence
from pathlib import Path

from hipsynth.toolchain.sandbox import bubblewrap, processes
from hipsynth.toolchain.sandbox.jail import Jail, SandboxJob
from hipsynth.toolchain.sandbox.limits import SandboxLimits
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
        self._resources = contextlib.ExitStack()
        folder = self._resources.enter_context(job_folder())
        view = None
        if isolate and not bubblewrap.switched_off():
            bubblewrap.require_sandbox()
            view = view_of(folder, limits.scratch_bytes, read_only, {})
        self.jail = Jail(view)
        self._resources.callback(self.jail.close)
        reader, self._requests = os.pipe()
        self._resources.callback(os.close, self._requests)
        environment = {"PATH": bubblewrap.PATH, "HOME": str(folder), "LC_ALL": "C.UTF-8", "TMPDIR": str(folder)}
        try:
            if view is not None:
                self.jail.open_workspace().copy_in(folder)
            self.job: SandboxJob = self.jail.start(command, folder, environment, limits, reader)
        finally:
            os.close(reader)
        self._resources.callback(self.job.close)

    def has_ended(self) -> bool:
        """Whether the program is gone between two requests: it says nothing then, so its output can only have ended."""
        return bool(select.select([self.job.out.fileno()], [], [], 0)[0])

    def ask(self, request: bytes, most: int) -> bytes:
        """The answer to a request (a line), of at most `most` bytes.

        Raises EOFError, with what the program said, if it ended, took too much memory, or answers more.
        """
        try:
            self._send_line(request)
            return self._receive_line(most)
        except (BrokenPipeError, ConnectionResetError) as error:
            raise EOFError(self._last_error_line()) from error

    def _send_line(self, request: bytes) -> None:
        view = memoryview(request)
        os.set_blocking(self._requests, False)
        while view:
            _, ready, _ = select.select([], [self._requests], [], POLL_S)
            if ready:
                view = view[os.write(self._requests, view) :]
            self._check_alive()

    def _receive_line(self, most: int) -> bytes:
        parts: list[bytes] = []
        size = 0
        out, err = self.job.out.fileno(), self.job.err.fileno()
        while not (parts and parts[-1].endswith(b"\n")):
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
            else:
                self._check_alive()
        return b"".join(parts)

    def _check_alive(self) -> None:
        pids = processes.living_descendants(self.jail.process.pid)
        if sum(processes.resident_bytes(pid) for pid in pids) > self.limits.memory_bytes:
            raise EOFError(f"it took more than {self.limits.memory_bytes >> 20} MiB of memory")

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
