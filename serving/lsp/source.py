"""Where the language server gets predictions and profiles from: a protocol, and worker processes that fulfil it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol

LINE_BYTES = 64 << 20  # of one answer
PREDICT_S, PROFILE_S = 60.0, 600.0  # after which a worker is given up


@dataclass(frozen=True)
class Query:
    """What is asked of one version of a document. `path`: the file on disk if the text equals it, else ""."""

    source: str
    arch: str
    flags: str
    device: str
    name: str = "program"
    path: str = ""
    seconds: float = 20.0  # of processor time, for the program to run


class Failed(Exception):
    """The query has no answer; the message says why, in the words of `synth`."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Source(Protocol):
    """Answers queries. Both raise Failed; cancelling the awaiting task stops the work."""

    async def predict(self, query: Query) -> Mapping[str, Any]:
        """One entry of `results` of `synth predict --json`."""
        ...

    async def profile(self, query: Query) -> Mapping[str, Any]:
        """One entry of `results` of `synth profile --lines --json`."""
        ...

    async def close(self) -> None: ...


class Worker:
    """A process that answers one query at a time and stays warm. It is started at the first query."""

    def __init__(self, limit_s: float) -> None:
        self.limit_s = limit_s
        self._process: asyncio.subprocess.Process | None = None
        self._busy = asyncio.Lock()

    async def ask(self, verb: str, query: Query) -> Mapping[str, Any]:
        """The answer's document. A cancelled or overdue query ends the process, which stops its work."""
        async with self._busy:
            try:
                return await asyncio.wait_for(self._exchange(verb, query), self.limit_s)
            except TimeoutError:
                await self.close()
                raise Failed("timeout", f"no answer within {self.limit_s:g} s") from None
            except asyncio.CancelledError:
                await self.close()
                raise

    async def _exchange(self, verb: str, query: Query) -> Mapping[str, Any]:
        process = await self._started()
        assert process.stdin and process.stdout
        try:
            process.stdin.write(json.dumps({"verb": verb, "query": asdict(query)}).encode() + b"\n")
            await process.stdin.drain()
            line = await process.stdout.readline()
        except (OSError, ValueError) as error:
            await self.close()
            raise Failed("worker_died", f"the worker cannot be reached: {error}") from error
        if not line:
            await self.close()
            raise Failed("worker_died", "the worker ended; it is started again with the next query")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(answer["error"], answer["message"])
        document: Mapping[str, Any] = answer["document"]
        return document

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            # -P: an editor may start the server in an untrusted folder, whose modules must not be loaded.
            command = [sys.executable, "-P", "-m", "hipsynth.serving.lsp.worker"]
            pipe = asyncio.subprocess.PIPE
            self._process = await asyncio.create_subprocess_exec(
                *command, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL, limit=LINE_BYTES,
                start_new_session=True,
            )  # fmt: skip
        return self._process

    async def close(self) -> None:
        """Ends the process and what it started."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 15)
        try:
            await asyncio.wait_for(process.wait(), 2)
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()


class WorkerSource:
    """Two workers of this machine: predictions do not wait for a profile."""

    def __init__(self) -> None:
        self._predicting, self._profiling = Worker(PREDICT_S), Worker(PROFILE_S)

    async def predict(self, query: Query) -> Mapping[str, Any]:
        # A superseded prediction runs to its end, which is sooner than a new process would be ready.
        task = asyncio.ensure_future(self._predicting.ask("predict", query))
        task.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody may be left to hear of it
        return await asyncio.shield(task)

    async def profile(self, query: Query) -> Mapping[str, Any]:
        return await self._profiling.ask("profile", query)

    async def close(self) -> None:
        await asyncio.gather(self._predicting.close(), self._profiling.close())
