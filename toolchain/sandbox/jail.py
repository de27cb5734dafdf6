"""Long-lived sandboxes: each runs many jobs, one after another, because creating one costs ten times a program's start.

A sandbox holds a supervisor (native/supervisor.cpp) that starts each job with its own limits and descriptors, kills
what the job leaves behind and reports how it ended. A sandbox in which a job exceeded a limit or left files outside
its own folder is discarded. The same supervisor, outside any sandbox, starts programs that run under limits only.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import struct
import subprocess
import sysconfig
import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.installation import set_up_by
from hipsynth.toolchain.sandbox import bubblewrap, cgroup
from hipsynth.toolchain.sandbox.limits import SandboxLimits
from hipsynth.toolchain.sandbox.mounts import SandboxView
from hipsynth.toolchain.sandbox.seccomp import seccomp_file, seccomp_program
from hipsynth.toolchain.sandbox.workspace import Workspace, used_bytes

SUPERVISOR = Path(__file__).parent / "hipsynth-supervisor"
MOST_IDLE_JAILS = 4  # idle sandboxes that a process keeps
_HEADER = struct.Struct("=IIIIQQQQ")  # struct Header of supervisor.cpp
_REPLY = struct.Struct("=iiqqII")  # struct Reply
MOST_REQUEST_BYTES = 16 << 20


@dataclass(frozen=True)
class JobExit:
    """How a job ended. `status`: as of waitpid. `error`: errno if it could not be started. `peak_bytes`: resident."""

    status: int
    error: int
    cpu_s: float
    peak_bytes: int
    dirty: bool


class SandboxJob:
    """A running job: the reading ends of its output and its answer socket."""

    def __init__(self, jail: Jail, out: BinaryIO, err: BinaryIO) -> None:
        self.jail, self.out, self.err = jail, out, err

    def read_exit(self) -> JobExit | None:
        """Reads the supervisor's answer (call it when the socket is readable); None if the supervisor died."""
        try:
            data = self.jail.socket.recv(_REPLY.size, socket.MSG_WAITALL)
        except OSError:
            data = b""
        if len(data) != _REPLY.size:
            return None
        status, error, cpu_us, peak_kib, dirty, _ = _REPLY.unpack(data)
        self.jail.usable = not dirty
        return JobExit(status, error, cpu_us / 1e6, peak_kib << 10, bool(dirty))

    def close(self) -> None:
        self.out.close()
        self.err.close()


class Jail:
    """One supervisor, inside a sandbox that shows `view`, or outside any sandbox (view None)."""

    def __init__(self, view: SandboxView | None) -> None:
        self.view, self.usable, self.lasting = view, True, True
        above = cgroup.delegated_folder() if view is not None else None
        self._resources = contextlib.ExitStack()
        self._files = contextlib.ExitStack()  # descriptors of file systems in memory: they outlast the processes
        self.workspace: Workspace | None = None  # once it is open
        self._temporary: list[int] = []
        self.group = cgroup.Group(above) if above else None
        self.socket, theirs = socket.socketpair()
        self._resources.callback(self.socket.close)
        places = [str(view.writable), *bubblewrap.TEMPORARY_FOLDERS] if view is not None else []
        command = [str(supervisor_path()), str(theirs.fileno()), *places]
        descriptors = [theirs.fileno()]
        try:
            if view is not None:
                paths_shown = self._show_paths(view)
                filter_fd = self._resources.enter_context(seccomp_file(forks=True))
                descriptors += [] if filter_fd is None else [filter_fd]
                command = bubblewrap.command_line(command, view.writable, view.writable_bytes, filter_fd, paths_shown)
                command = self.group.enter_group(command) if self.group else command
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                pass_fds=descriptors,
                start_new_session=True,
            )
        except BaseException:
            self._resources.close()
            if self.group:
                self.group.close()
            raise
        finally:
            theirs.close()

    def _show_paths(self, view: SandboxView) -> dict[Path, Path]:
        """Path inside -> readable path outside, for what a view shows and the supervisor. Where only a copy is
        readable, which may become old, the jail does not last."""
        paths_shown = {path: self._resources.enter_context(bubblewrap.make_readable(o)) for path, o in view.read_only}
        self.lasting = all(paths_shown[path] == outside for path, outside in view.read_only)
        supervisor = supervisor_path()
        paths_shown[supervisor] = self._resources.enter_context(bubblewrap.make_readable(supervisor))
        return paths_shown

    def open_workspace(self) -> Workspace:
        """The sandbox's folder for jobs. Raises OSError if the sandbox could not be created."""
        assert self.view is not None
        if self.workspace is None:
            _, descriptors, _, _ = socket.recv_fds(self.socket, 1, 1 + len(bubblewrap.TEMPORARY_FOLDERS))
            if not descriptors:
                raise BrokenPipeError("the supervisor ended before it said where jobs write")
            for descriptor in descriptors:
                self._files.callback(os.close, descriptor)
            folder, *self._temporary = descriptors
            owner = bubblewrap.UNPRIVILEGED if os.geteuid() == 0 else None
            self.workspace = Workspace(folder, self.view.writable, owner)
        return self.workspace

    def temporary_bytes(self) -> int:
        """Bytes that files in the sandbox's folders of temporary files hold."""
        return sum(map(used_bytes, self._temporary))

    def start(
        self,
        command: Sequence[str],
        folder: Path,
        env: Mapping[str, str],
        limits: SandboxLimits,
        stdin: int,
        fds: Sequence[int] = (),
    ) -> SandboxJob:
        """Starts a program in `folder`. `fds` become its descriptors 3, 4, ... Raises OSError if the jail is gone."""
        if self.group:
            self.group.set_limits(limits)
        strict = self.view is not None and limits.processes == 1
        request = _encode_request(command, folder, env, limits, seccomp_program(forks=False) if strict else b"")
        with contextlib.ExitStack() as theirs:
            ends = []
            pipes = []
            for _ in range(2):
                reader, writer = os.pipe()
                pipes.append(os.fdopen(reader, "rb", buffering=0))
                ends.append(writer)
                theirs.callback(os.close, writer)
            try:
                first = request[: _HEADER.size]
                socket.send_fds(self.socket, [first], [stdin, *ends, *fds])
                self.socket.sendall(request[_HEADER.size :])
            except OSError:
                for pipe in pipes:
                    pipe.close()
                raise
        return SandboxJob(self, *pipes)

    def creation_error(self) -> str:
        """What bubblewrap said if the sandbox could not be created."""
        self.end()
        assert self.process.stderr
        return self.process.stderr.read().decode(errors="replace").strip()

    def close(self) -> None:
        """Ends the sandbox and gives up its files."""
        self.end()
        self._files.close()
        self.workspace, self._temporary = None, []

    def end(self) -> None:
        """Ends the supervisor and with it all processes in the sandbox; what they wrote can still be read."""
        self.usable = False
        self._resources.close()
        try:
            self.process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.group:
            self.group.close()


def _encode_request(
    command: Sequence[str], folder: Path, env: Mapping[str, str], limits: SandboxLimits, strict: bytes
) -> bytes:
    texts = [str(folder), *command, *(f"{key}={value}" for key, value in env.items())]
    body = strict + b"".join(os.fsencode(text) + b"\0" for text in texts)
    if len(body) > MOST_REQUEST_BYTES or any("\0" in text for text in texts):
        raise BadInput("a program's arguments or environment cannot be passed on", cause="too long, or a null byte")
    # The soft limit sends SIGXCPU; the hard limit, two seconds later, kills.
    seconds = max(1, math.ceil(limits.cpu_s) + 1)
    numbers = (seconds, seconds + 2, limits.file_bytes, limits.open_files)
    return _HEADER.pack(len(body), len(strict), len(command), len(env), *numbers) + body


def supervisor_path() -> Path:
    """The supervisor's executable: next to this module, or of an editable install; raises MissingDependency."""
    folders = [Path(sysconfig.get_path(kind)) / "hipsynth/toolchain/sandbox" for kind in ("platlib", "purelib")]
    for folder in (SUPERVISOR.parent, *folders):
        path = folder / SUPERVISOR.name
        if path.is_file():
            return path.resolve()
    raise MissingDependency(
        f"{SUPERVISOR.name} is not installed", cause="the native part has not been built", remedy=set_up_by()
    )


def creation_failure(problem: str) -> MissingDependency:
    """The error for a sandbox that could not be created; `problem`: what bubblewrap said."""
    return MissingDependency("the sandbox could not be created", cause=problem, remedy="see `synth doctor`")


class _JailPool:
    """The idle jails of this process, the most recently used last."""

    def __init__(self) -> None:
        self.owner = os.getpid()
        self.idle: OrderedDict[SandboxView | None, list[Jail]] = OrderedDict()
        self.lock = threading.Lock()

    def take(self, view: SandboxView | None) -> Jail:
        with self.lock:
            if self.owner != os.getpid():  # forked: the parent's jails are not ours
                self.owner, self.idle = os.getpid(), OrderedDict()
            waiting = self.idle.get(view)
            if waiting:
                return waiting.pop()
        return Jail(view)

    def give(self, jail: Jail) -> None:
        if not (jail.usable and jail.lasting):
            jail.close()
            return
        surplus = []
        with self.lock:
            self.idle.setdefault(jail.view, []).append(jail)
            self.idle.move_to_end(jail.view)
            while sum(map(len, self.idle.values())) > MOST_IDLE_JAILS:
                oldest = next(view for view, jails in self.idle.items() if jails)
                surplus.append(self.idle[oldest].pop())
            self.idle = OrderedDict((view, jails) for view, jails in self.idle.items() if jails)
        for old in surplus:
            old.close()


_pool = _JailPool()


@contextlib.contextmanager
def lease_jail(view: SandboxView | None) -> Iterator[Jail]:
    """A jail that shows `view` (None: no sandbox) for exclusive use; it is kept for later jobs if usable."""
    jail = _pool.take(view)
    try:
        yield jail
    except BaseException:
        jail.usable = False
        raise
    finally:
        _pool.give(jail)
