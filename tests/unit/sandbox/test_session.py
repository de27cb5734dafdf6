"""Long-lived jobs that answer requests: what they may take for one answer, and what is left when they cannot start."""

from __future__ import annotations

import gc
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import needs
import pytest

from hipsynth.core.errors import MissingDependency
from hipsynth.core.reasons import Reason
from hipsynth.source import parse_service
from hipsynth.source.parse import ParseConfig
from hipsynth.source.parse_service import ParserLost, ParserSession
from hipsynth.toolchain.sandbox import SandboxLimits, SandboxSession, mounts, processes
from hipsynth.toolchain.sandbox.jail import Jail

LIMITS = SandboxLimits(cpu_s=1e6, memory_bytes=1 << 30)
LOOPS = "import sys\nfor line in sys.stdin:\n while True: pass"
WAITS = "import sys, time\nfor line in sys.stdin: time.sleep(600)"
DRIPS = (
    "import os, sys, time\nfor line in sys.stdin:\n while True:\n  for _ in range(100_000): pass\n  os.write(1, b'x')"
)


@dataclass(frozen=True)
class UnansweredRequest:
    """A request to a parser that does not answer."""

    text: str


def count_descriptors() -> int:
    gc.collect()  # closes pipes of processes that earlier tests ended
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def session(code: str, isolate: bool = False) -> SandboxSession:
    needs.sandbox()
    return SandboxSession([sys.executable, "-c", code], LIMITS, isolate=isolate)


@pytest.mark.parametrize("isolate", [True, False])
def test_requests_are_answered_in_turn(isolate: bool) -> None:
    needs.sandbox()
    opened = SandboxSession(["/bin/cat"], LIMITS, isolate=isolate)
    try:
        assert [opened.ask(text, 100, 5) for text in (b"a\n", b"b\n")] == [b"a\n", b"b\n"]
    finally:
        opened.close()


@pytest.mark.parametrize("code", [LOOPS, WAITS, DRIPS], ids=["loops", "waits", "drips"])
def test_an_answer_that_never_comes_is_not_waited_for(code: str) -> None:
    opened = session(code)
    try:
        with pytest.raises(TimeoutError):
            opened.ask(b"a\n", 1 << 20, 0.5)
    finally:
        opened.close()


def test_a_parser_that_takes_too_long_is_a_timeout(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Slow(parse_service._Process):
        def __init__(self, asks: ParserSession) -> None:
            self.key, self.session = parse_service._key_of(asks), session(LOOPS)

    monkeypatch.setattr(parse_service, "_Process", Slow)
    monkeypatch.setattr(parse_service, "ANSWER_SECONDS", 0.3)
    with pytest.raises(ParserLost) as error:
        ParserSession("server", ParseConfig((), tmp_path, ()), None, False).ask("x", UnansweredRequest("x"), str)
    assert error.value.reason == Reason.TIMEOUT and parse_service._process is None


@pytest.mark.parametrize("isolate", [True, False])
def test_a_session_that_cannot_start_leaves_nothing(isolate: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    needs.sandbox()

    def break_off(jail: Jail, *_: object) -> None:
        raise BrokenPipeError("the supervisor ended")

    monkeypatch.setattr(Jail, "start", break_off)
    with mounts.job_folder():  # whose process folder stays open
        pass
    before, children = count_descriptors(), processes.child_processes(os.getpid())
    with pytest.raises(MissingDependency, match="sandbox could not be created"):
        SandboxSession(["/bin/cat"], LIMITS, isolate=isolate)
    assert count_descriptors() == before
    assert processes.child_processes(os.getpid()) == children
