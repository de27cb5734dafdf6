"""The process that holds the session of an MCP server and works on its calls: a call can be given up there."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.profiling.backends.protocol import Target
from hipsynth.serving import worker
from hipsynth.tuning.tools import ToolLimits, ToolSession, Version, run_tool

START, CALL = "start_session", "call_tool"  # kinds of requests


@dataclass(frozen=True)
class ToolSettings:
    """What all calls of a server share. `calls`: the most in all, 0: no limit; `journal`: folder that keeps
    measurements, "": none."""

    target: Target
    calls: int = 0
    journal: str = ""


@dataclass(frozen=True)
class SessionStart:
    """A session with the programs of an earlier one, of whose calls `used` were made."""

    settings: ToolSettings
    versions: tuple[Version, ...] = ()
    used: int = 0


@dataclass(frozen=True)
class CallRequest:
    """A call of a tool; `arguments` are JSON text, as tools check them themselves."""

    tool: str
    arguments: str


@dataclass(frozen=True)
class ToolAnswer:
    """What a call gave: the tool's document, or that of a failure, as JSON text; `added`: the programs that it made."""

    failed: bool
    document: str
    added: tuple[Version, ...] = ()


def start_session(start: SessionStart) -> ToolSession:
    """A session as it is after the calls that `start` stands for, but nothing is measured yet."""
    settings = start.settings
    journal = Path(settings.journal) if settings.journal else None
    session = ToolSession(settings.target, ToolLimits(calls=settings.calls), journal)
    session.versions = {version.name: version for version in start.versions}
    session.calls = start.used
    return session


def call_tool(session: ToolSession, call: CallRequest) -> ToolAnswer:
    """The answer to a call; raises nothing."""
    earlier = len(session.versions)
    result = run_tool(session, call.tool, json.loads(call.arguments))
    return ToolAnswer(result.failed, json.dumps(result.document), tuple(session.versions.values())[earlier:])


class SessionHandler:
    """Answers the requests of a server, the first of which starts the session."""

    def __init__(self) -> None:
        self.session: ToolSession | None = None

    def __call__(self, kind: str, body: object, _: worker.ReportProgress) -> object:
        if kind == START:
            self.session = start_session(from_json(SessionStart, body))
            return dict[str, str]()
        assert self.session is not None, "a session is started first"
        return call_tool(self.session, from_json(CallRequest, body))


if __name__ == "__main__":
    worker.main(SessionHandler())
