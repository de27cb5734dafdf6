"""A model at an OpenAI-compatible endpoint drives the tools; its results are verified as those of a search are."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hipsynth.core.documents import Json, document_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.program import text_id
from hipsynth.core.reasons import Reason
from hipsynth.synth.llm.endpoint import ChatClient, ChatReply, NoAnswer, ToolCall
from hipsynth.tuning.agent.choose_answer import choose_answer
from hipsynth.tuning.agent.prompts import (
    AGAIN,
    DONE,
    NUDGE,
    ChatTurn,
    RequestedCall,
    fit_messages,
    opening_messages,
    tool_result_message,
)
from hipsynth.tuning.agent.trace import MessageLine, OutcomeLine, Trace
from hipsynth.tuning.optimize.documents import ModelRun
from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult
from hipsynth.tuning.tools import ToolLimits, ToolSession, run_tool, tool_definitions

SAME_CALL = 4  # times that one call may be made
NO_CALL = 3  # answers in a row without a call
FAILED_CALLS = 8  # in a row
RETRIES = 3
MOST_WAIT_S = 30.0


@dataclass(frozen=True)
class AgentSettings:
    """How a model is asked, and what its run may use in all; `seconds` are of the clock, waiting for it included."""

    model: str
    calls: int = 40
    tokens: int = 200_000
    seconds: float = 900.0
    answer_tokens: int = 2048
    context_chars: int = 48_000  # of the messages in one question
    temperature: float = 0.2


@dataclass(frozen=True)
class AgentResult:
    """The verified answer, and how the run went. `ended`: "finished", or which limit or failure ended it; `programs`:
    that were executed, the original among them."""

    found: OptimizeResult
    ended: str
    turns: int
    calls: int
    failed_calls: int
    tokens: int
    programs: int = 0

    def document(self, model: str, trace: Path) -> ModelRun:
        """How the run went, of the model of this name."""
        return ModelRun(
            ended=self.ended,
            turns=self.turns,
            calls=self.calls,
            failed_calls=self.failed_calls,
            tokens=self.tokens,
            model=model,
            trace=str(trace),
        )


class AgentRun:
    """One chat about one program, which goes on where its trace ends."""

    def __init__(
        self,
        request: OptimizeRequest,
        client: ChatClient,
        manner: AgentSettings,
        path: Path,
        say: Callable[[str], None],
        known: ToolSession | None = None,
    ) -> None:
        """Raises UsageError for an unknown target, BadInput for a trace that is damaged or of another run."""
        self.client, self.manner, self.say = client, manner, say
        sizes = tuple(tuple(size) for size in request.sizes)
        limits = ToolLimits(calls=manner.calls, programs=manner.calls + 2)
        fresh = ToolSession(request.target, limits, request.journal, sizes, request.allow)
        self.session = fresh if known is None else known.start_again(limits)
        about = {"program": text_id(request.text), "model": manner.model, "arguments": list(request.arguments)}
        self.trace = Trace(path, about | asdict(self.session.target))
        self.messages: list[ChatTurn] = []
        self.tokens, self.failed, self.failed_in_a_row = 0, 0, 0
        self.seen: Counter[tuple[str, str]] = Counter()
        self.before_s, self.begin = 0.0, time.monotonic()
        self._resume_run()
        if not self.session.versions:
            self.session.add(request.text, arguments=request.arguments, made="source")
            self.trace.keep_programs(self.session)
        for message in opening_messages(request.text, self.session.target.arch)[len(self.messages) :]:
            self._keep_entry(message)

    def _resume_run(self) -> None:
        self.trace.restore(self.session)
        lines = self.trace.list_lines(MessageLine)
        self.messages = [line.message for line in lines]
        self.tokens = sum(line.tokens for line in lines)
        self.failed = sum(line.failed for line in lines)
        self.before_s = max((line.seconds for line in lines), default=0.0)
        self.session.calls = sum(message["role"] == "tool" for message in self.messages)
        calls_made = Counter(_call_key(call) for message in self.messages for call in _calls_in(message))
        self.seen = calls_made - Counter(map(_call_key, self._open_calls()))

    def talk(self) -> str:
        """Asks and calls until the model ends, a limit is reached or the endpoint fails; says which."""
        open_calls = self._open_calls()
        silent = 0
        if not open_calls and _ends_run(self.messages[-1]):  # it was interrupted later
            return "finished"
        while True:
            for call in open_calls:
                if outcome := self._run_call(call):
                    return outcome
            if outcome := self._exceeded_limit():
                return outcome
            try:
                answer = self._ask_model()
            except NoAnswer as error:
                self.say(f"no answer: {error.what}")
                return f"endpoint: {error.code}"
            self._keep_entry(_assistant_message(answer), tokens=_count_tokens(answer, self.messages))
            open_calls = list(answer.calls)
            if open_calls:
                silent = 0
            elif _ends_run(self.messages[-1]):
                return "finished"
            else:
                silent += 1
                if silent >= NO_CALL:
                    return "nonsense"
                self._keep_entry({"role": "user", "content": NUDGE})

    def _ask_model(self) -> ChatReply:
        body = {
            "model": self.manner.model,
            "messages": fit_messages(self.messages, self.manner.context_chars),
            "tools": tool_definitions(),
            "max_tokens": self.manner.answer_tokens,
            "temperature": self.manner.temperature,
            "stream": False,
        }
        for attempt in range(RETRIES + 1):
            try:
                return self.client.ask(body)
            except NoAnswer as error:
                if not error.again or attempt == RETRIES or self._exceeded_limit():
                    raise
                time.sleep(min(max(error.wait_s, 2.0**attempt / 2), MOST_WAIT_S))
        raise AssertionError("the last attempt returns or raises")

    def _run_call(self, call: ToolCall) -> str:
        """Makes one call and keeps its result; why the run ends with it, or ""."""
        self.seen[_call_key(call)] += 1
        arguments = _parse_arguments(call.arguments)
        result = run_tool(self.session, call.name, arguments)
        document: dict[str, Json] = {**result.document}
        if self.seen[_call_key(call)] > 1:
            document["note"] = AGAIN
        self.failed += result.failed
        self.failed_in_a_row = self.failed_in_a_row + 1 if result.failed else 0
        self.trace.keep_programs(self.session)
        self._keep_entry(tool_result_message(call.name, call.id, document), failed=result.failed)
        outcome = document.get("error") or document.get("program") or document.get("speedup") or ""
        self.say(f"{call.name or '(no name)'} {call.arguments[:80]}: {outcome or 'ok'}"[:160])
        if document.get("error") == Reason.LIMIT:
            return "calls"
        if self.seen[_call_key(call)] >= SAME_CALL:
            return "loop"
        return "failing calls" if self.failed_in_a_row >= FAILED_CALLS else ""

    def keep_outcome(self, answer: OptimizeResult, ended: str) -> None:
        """Ends the trace with the verified answer, and why the run ended."""
        self.trace.add(
            OutcomeLine(
                ended=ended,
                best=_version_name(self.session, answer.text),
                status=answer.status,
                reason=answer.reason,
                speedup=round(answer.speedup, 4),
                verified=document_json(answer.verification.document()),
            )
        )

    def _exceeded_limit(self) -> str:
        if self.tokens >= self.manner.tokens:
            return "tokens"
        if self.session.calls >= self.manner.calls:
            return "calls"
        return "seconds" if self._seconds_spent() >= self.manner.seconds else ""

    def _seconds_spent(self) -> float:
        return self.before_s + time.monotonic() - self.begin

    def _keep_entry(self, message: ChatTurn, tokens: int = 0, failed: bool = False) -> None:
        self.messages.append(message)
        self.tokens += tokens
        self.trace.add(MessageLine(message, round(self._seconds_spent(), 2), tokens, failed))

    def _open_calls(self) -> list[ToolCall]:
        """The calls of the last answer that have no result yet, after an interruption."""
        for at in range(len(self.messages) - 1, -1, -1):
            if calls := _calls_in(self.messages[at]):
                answered = sum(message["role"] == "tool" for message in self.messages[at + 1 :])
                return calls[answered:]
        return []


def _call_key(call: ToolCall) -> tuple[str, str]:
    return call.name, json.dumps(_parse_arguments(call.arguments), sort_keys=True)


def _parse_arguments(text: str) -> object:
    """What the model wrote as arguments; the text itself where it is no JSON, which no tool accepts."""
    try:
        return json.loads(text or "{}")
    except (ValueError, RecursionError):
        return text


def _assistant_message(answer: ChatReply) -> ChatTurn:
    calls: list[RequestedCall] = [
        {"type": "function", "id": call.id, "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    message: ChatTurn = {"role": "assistant", "content": answer.text}
    if calls:
        message["tool_calls"] = calls
    return message


def _ends_run(message: ChatTurn) -> bool:
    return message["role"] == "assistant" and not _calls_in(message) and DONE in str(message["content"])


def _calls_in(message: ChatTurn) -> list[ToolCall]:
    rows = message.get("tool_calls", [])
    return [ToolCall(row["id"], row["function"]["name"], str(row["function"]["arguments"])) for row in rows]


def _count_tokens(answer: ChatReply, messages: Sequence[ChatTurn]) -> int:
    """Tokens read and written: as the endpoint counts them, else four characters are one."""
    read = len(json.dumps(messages)) // 4 if answer.read is None else answer.read
    return read + (len(answer.raw) // 4 if answer.written is None else answer.written)


def drive_model(
    request: OptimizeRequest,
    client: ChatClient,
    manner: AgentSettings,
    path: Path,
    say: Callable[[str], None] = lambda line: None,
    known: ToolSession | None = None,
) -> AgentResult:
    """Lets a model optimize a program; its run is kept in the trace at `path`, and one that was interrupted goes on.
    What the session `known` has measured of the program is not measured again.

    Raises UsageError for an unknown target, HipsynthError (reason of the run) for a program that does not run, and
    BadInput for a source without a kernel or a trace of another run.
    """
    run = AgentRun(request, client, manner, path, say, known)
    original = run.session.versions["v0"]
    first = run.session.measure(original)
    if not first.ok:
        raise HipsynthError(
            "the program does not run", cause=f"{first.reason}: {first.message[:500]}", reason=first.reason
        )
    kernels = run.session.parse_base(original).kernels
    refused = {kernel.name: kernel.together or kernel.fixed for kernel in kernels if not kernel.independent}
    outcomes = run.trace.list_lines(OutcomeLine)
    outcome = outcomes[-1].ended if outcomes else run.talk()
    answer = choose_answer(run.session, refused, say)
    turns = sum(message["role"] == "assistant" for message in run.messages)
    programs = len({version.text for version in run.session.versions.values()})
    driven = AgentResult(answer, outcome, turns, run.session.calls, run.failed, run.tokens, programs)
    if not outcomes:
        run.keep_outcome(answer, outcome)
    return driven


def _version_name(session: ToolSession, text: str) -> str:
    return next(version.name for version in session.versions.values() if version.text == text)
