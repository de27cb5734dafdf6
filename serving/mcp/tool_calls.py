"""Calls of tools, in a process that is started again with the same programs if it ends."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Mapping
from typing import Protocol

from hipsynth.core.documents import document_json, from_json
from hipsynth.core.reasons import Reason
from hipsynth.serving.limits import TOOL_CALL_S
from hipsynth.serving.mcp import tool_worker
from hipsynth.serving.mcp.tool_worker import CallRequest, SessionStart, ToolAnswer, ToolSettings
from hipsynth.serving.pool import Worker, WorkerLost, WorkerProblem
from hipsynth.tuning.tools import Version
from hipsynth.tuning.tools.documents import ToolFailure


class CallTool(Protocol):
    """Calls a tool by its name; raises nothing but cancellation."""

    def __call__(self, tool: str, arguments: Mapping[str, object]) -> Awaitable[ToolAnswer]: ...


class ToolProcess:
    """A session of tools in a process of its own. Calls run one at a time, each for at most `call_s` seconds; one whose
    task is cancelled is given up, and the next one begins."""

    def __init__(self, settings: ToolSettings, call_s: float = TOOL_CALL_S) -> None:
        self.settings, self.call_s = settings, call_s
        self.versions: list[Version] = []
        self.used = 0
        self._turn = asyncio.Lock()
        self._worker: Worker | None = None
        self._calls = set[asyncio.Task[ToolAnswer]]()

    async def __call__(self, tool: str, arguments: Mapping[str, object]) -> ToolAnswer:
        """The answer of a tool, or of what went wrong."""
        # A task of its own: a client's cancellation is delivered once, not at each step of giving the call up.
        task = asyncio.ensure_future(self._take_turn(CallRequest(tool, json.dumps(arguments))))
        self._calls.add(task)
        task.add_done_callback(self._calls.discard)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            task.cancel()
            raise

    async def _take_turn(self, call: CallRequest) -> ToolAnswer:
        async with self._turn:
            self.used += 1
            try:
                async with asyncio.timeout(self.call_s):
                    answer = await self._ask(call)
            except TimeoutError:
                return _make_failure(Reason.TIMEOUT, f"no answer within {self.call_s:g} s", "give it less to do")
            except WorkerLost as error:
                return _make_failure(error.reason, error.what, "call again: the programs are kept")
            except WorkerProblem as error:
                return _make_failure(
                    from_json(Reason, error.problem.error), error.problem.message, error.problem.remedy
                )
            self.versions += answer.added
            return answer

    async def _ask(self, call: CallRequest) -> ToolAnswer:
        if self._worker is None or not self._worker.alive:
            self._worker = await self._start_worker()
        return from_json(ToolAnswer, await self._worker.ask(tool_worker.CALL, call))

    async def _start_worker(self) -> Worker:
        worker = await Worker.start(0, tool_worker.__name__)
        try:
            await worker.ask(tool_worker.START, SessionStart(self.settings, tuple(self.versions), self.used - 1))
        except BaseException:
            await worker.kill()
            raise
        return worker

    async def close(self) -> None:
        """Ends the process and the call that it works on."""
        for task in list(self._calls):
            task.cancel()
        if self._worker is not None:
            with contextlib.suppress(OSError):
                await self._worker.kill()


def _make_failure(reason: Reason, message: str, remedy: str) -> ToolAnswer:
    return ToolAnswer(True, json.dumps(document_json(ToolFailure(reason, message, remedy=remedy))))
