"""Training samples for supervised fine-tuning: a search's winning steps as a chat of an assistant with the tools.

Every result is what the tools answer, not what the search remembers, so a sample shows what a model will see.
"""

from __future__ import annotations

import contextlib
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypedDict, TypeVar

from hipsynth.core.documents import JsonObject
from hipsynth.core.errors import HipsynthError
from hipsynth.core.program import text_id
from hipsynth.core.reasons import Reason
from hipsynth.tuning.agent.prompts import (
    DONE,
    ChatTurn,
    RequestedCall,
    opening_messages,
    tool_call_message,
    tool_result_message,
)
from hipsynth.tuning.agent.trace import TraceLine
from hipsynth.tuning.optimize.documents import SearchStep, StepOutcome
from hipsynth.tuning.optimize.evaluate import RUN_TIME_S
from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult
from hipsynth.tuning.tools import ToolLimits, ToolSession, run_tool, tool_definitions
from hipsynth.tuning.tools.documents import (
    ChangedProgram,
    ComparedPrograms,
    ProposedMove,
    ProposedMoves,
    TimedProgram,
    ToolFailure,
    VerifiedProgram,
)
from hipsynth.tuning.tools.functions import compare

HELD_OUT = 10  # one lineage in this many is held out, and everything handwritten
MOST_NAMED_CHANGES = 1  # metrics and counters that a thought names
MOST_DETOURS = 3  # chats with a dead end that are told of one success
A = TypeVar("A")


class NotTeachable(HipsynthError):
    """The winning steps cannot be expressed as calls of the tools."""

    reason = Reason.NO_LESSON


@dataclass
class ToolChat:
    """A chat that grows by calls of tools."""

    session: ToolSession
    messages: list[ChatTurn]
    calls: int = 0

    def use(self, thought: str, answers: type[A], name: str, **arguments: str | int) -> A:
        """Adds a call of a tool, which answers with this class, and its result. Raises NotTeachable if it fails."""
        result = run_tool(self.session, name, arguments)
        if not isinstance(result.answer, answers):
            reason = result.answer.error if isinstance(result.answer, ToolFailure) else Reason.NO_LESSON
            raise NotTeachable(f"{name} fails: {result.document}", reason=reason)
        message = tool_call_message(name, arguments, self.calls, thought)
        self.messages += [message, tool_result_message(name, message["tool_calls"][0]["id"], result.document)]
        self.calls += 1
        return result.answer


class ToolChatRow(TypedDict):
    """A line of a file of chats: a ChatSample."""

    messages: Sequence[ChatTurn]
    tools: Sequence[JsonObject]
    speedup: float
    program: str
    lineage: str
    arch: str
    split: str
    kind: str


@dataclass(frozen=True)
class ChatSample:
    """A chat in the form of transformers, with the tools that were offered. `split`: "train" or "held_out"."""

    messages: Sequence[ChatTurn]
    speedup: float
    program: str
    lineage: str
    arch: str
    split: str
    kind: str = "direct"  # "detour": with a step that gained nothing; "model": a run of a model
    tools: Sequence[JsonObject] = field(default_factory=tool_definitions)

    def document(self) -> ToolChatRow:
        """The line of the sample in a file of chats."""
        return {
            "messages": self.messages,
            "tools": self.tools,
            "speedup": self.speedup,
            "program": self.program,
            "lineage": self.lineage,
            "arch": self.arch,
            "split": self.split,
            "kind": self.kind,
        }

    @property
    def digest(self) -> str:
        """Equal for samples that say the same; the numbers of calls and programs are part of what is said."""
        return text_id(json.dumps(self.messages, sort_keys=True))


def split_of(lineage: str, origin: str) -> str:
    """Relatives are in the same part. Handwritten programs are never trained on."""
    is_held_out = origin == "handwritten" or zlib.crc32(lineage.encode()) % HELD_OUT == 0
    return "held_out" if is_held_out else "train"


def make_chat_samples(request: OptimizeRequest, result: OptimizeResult, lineage: str, origin: str) -> list[ChatSample]:
    """The success as samples: straight, and once with each step that gained nothing, up to MOST_DETOURS.

    Raises NotTeachable if there is none."""
    if result.status != "improved":
        raise NotTeachable(f"the search ended {result.status}", reason=Reason.of(result.status))
    path = winning_steps(result)
    session = open_tool_session(request)
    samples = [_chat_sample(session, request, path, None, (lineage, origin))]
    for detour in dead_ends(result, path):
        with contextlib.suppress(NotTeachable):  # such as a move that is not proposed
            samples.append(_chat_sample(session.again(), request, path, detour, (lineage, origin)))
    return samples


def open_tool_session(request: OptimizeRequest) -> ToolSession:
    """A session that takes measured runs from a search's journal, and adds to it."""
    return ToolSession(request.target, ToolLimits(run_s=RUN_TIME_S), request.journal, allow=request.allow)


def _chat_sample(
    session: ToolSession,
    request: OptimizeRequest,
    path: Sequence[SearchStep],
    detour: SearchStep | None,
    origin: tuple[str, str],
) -> ChatSample:
    chat = ToolChat(session, opening_messages(request.text, request.target.arch))
    session.add(request.text, arguments=request.arguments, made="source")
    speedup = replay_steps(chat, path, detour)
    about = (round(speedup, 4), text_id(request.text), origin[0], request.target.arch, split_of(*origin))
    return ChatSample(chat.messages, *about, kind="detour" if detour else "direct")


def steps_of(messages: Sequence[ChatTurn]) -> Iterator[str]:
    """A digest of each step of a chat: the state (all that was said), a call, its result, and what comes next."""
    for at, message in enumerate(messages):
        if message.get("tool_calls") and at + 2 < len(messages):
            yield text_id(json.dumps(messages[: at + 3], sort_keys=True))


def winning_steps(result: OptimizeResult) -> list[SearchStep]:
    """The steps from the original to the answer."""
    if result.step < 0:
        raise NotTeachable("no step leads to the answer")
    path = [result.steps[result.step]]
    while path[0].parent >= 0:
        path.insert(0, result.steps[path[0].parent])
    return path


def dead_ends(result: OptimizeResult, path: Sequence[SearchStep]) -> list[SearchStep]:
    """Steps that gained nothing, tried where the path goes on; the last ones first, for which most was known."""
    starts = {step.parent for step in path}
    steps_tried = [s for s in result.steps if s.parent in starts and s.outcome == StepOutcome.NOT_FASTER]
    return steps_tried[::-1][:MOST_DETOURS]


def replay_steps(chat: ToolChat, path: Sequence[SearchStep], detour: SearchStep | None) -> float:
    """Walks the path with the tools; the verified speed-up. Raises NotTeachable where a tool answers something else."""
    now, words = "v0", ""
    begin = f"First I measure it on {chat.session.target.arch}."
    thought = _limit_text(chat.use(begin, TimedProgram, "profile", program=now))
    for step in path:
        moves = chat.use(thought, ProposedMoves, "propose", program=now).moves
        if detour is not None and detour.parent == step.parent:
            _, gained = _try_move(chat, "", _find_move(moves, detour), now)
            words = f"{gained}: no gain. I go back to {now}. "
        else:
            words = ""
        now, gained = _try_move(chat, words, _find_move(moves, step), now)
        words = f"{gained}, so I keep it. "
        if step is not path[-1]:
            thought = _limit_text(chat.use(f"{words}What limits it now?", TimedProgram, "profile", program=now))
    verified = chat.use(f"{words}I check that it does the same.", VerifiedProgram, "run_and_verify", program=now)
    if not verified.passed:
        raise NotTeachable("the answer does not pass", reason=Reason.NOT_VERIFIED)
    if len(path) > 1:  # else it is known: no number is said that no tool has answered
        chat.use("What did all of it gain?", ComparedPrograms, "compare", before="v0", after=now)
    total = compare(chat.session, "v0", now).speedup or 1.0
    checks = ", ".join(row.check.replace("_", " ") for row in verified.checks if row.passed)
    text = f"{DONE}: {now} is {total:.2f} times as fast as the original and passed: {checks}."
    chat.messages.append({"role": "assistant", "content": text})
    return total


def _try_move(chat: ToolChat, words: str, row: ProposedMove, now: str) -> tuple[str, str]:
    """Applies a proposed move; the new program's name, and what it gained in words."""
    expected = "" if row.gain is None else f", expected {row.gain:.2f} times as fast"
    thought = f"{words}{row.transformation} on {row.kernel} ({row.why}{expected}): I try it."
    program = chat.use(thought, ChangedProgram, "apply", program=now, move=row.move).program
    gained = chat.use("Did that make it faster?", ComparedPrograms, "compare", before=now, after=program)
    return program, f"It is {gained.speedup or 1.0:.2f} times as fast{_describe_changes(gained, row.kernel)}"


def _find_move(moves: Sequence[ProposedMove], step: SearchStep) -> ProposedMove:
    """The proposed move that is a search's step."""
    for row in moves:
        if (row.transformation, row.kernel, row.plan) == (step.transformation, step.kernel, step.plan):
            return row
    raise NotTeachable(
        f"{step.transformation} on {step.kernel} is not among the proposed moves", reason=Reason.NOT_PROPOSED
    )


def _limit_text(profile: TimedProgram) -> str:
    first = profile.kernels[0]
    share = first.duration_us / profile.duration_us if profile.duration_us else 0.0
    return (
        f"{first.name} takes {100 * share:.0f} % of {profile.duration_us:.1f} us and is limited by "
        f"{first.limited_by}. I look at what can be changed."
    )


def _describe_changes(gained: ComparedPrograms, kernel: str) -> str:
    """The largest changes of the kernel's metrics and counters, in words."""
    rows = [row for name, row in gained.changed.items() if name.partition("<")[0].removesuffix("_tuned") == kernel]
    words = largest_changes({name: pair for row in rows for name, pair in row.items()}, MOST_NAMED_CHANGES)
    return f" ({', '.join(words)})" if words else ""


def largest_changes(changed: Mapping[str, Sequence[float]], most: int) -> list[str]:
    """The metrics and counters, as [before, after], that changed most, in words."""
    pairs = [(abs(b - a) / max(abs(a), abs(b)), name, a, b) for name, (a, b) in changed.items()]
    return [f"{name} {a:.4g} -> {b:.4g}" for _, name, a, b in sorted(pairs, reverse=True)[:most]]


def from_trace(lines: Sequence[TraceLine], lineage: str, origin: str) -> ChatSample:
    """A model's run as a sample, if its answer was verified as faster. Raises NotTeachable otherwise."""
    outcome = next((line for line in reversed(lines) if line["kind"] == "outcome"), None)
    first = next((line for line in lines if line["kind"] == "run"), None)
    if outcome is None or first is None or outcome.get("status") != "improved":
        reason = Reason.UNFINISHED if outcome is None or first is None else Reason.UNCHANGED
        raise NotTeachable("the run has no verified gain", reason=reason)
    messages = [_with_objects(line["message"]) for line in lines if line["kind"] == "message"]
    program = str(first["program"])
    split = split_of(lineage or program, origin)
    sample = ChatSample(messages, outcome["speedup"], program, lineage or program, first["arch"], split)
    return replace(sample, kind="model")


def _with_objects(message: ChatTurn) -> ChatTurn:
    """A message whose calls hold their arguments as objects, which chat templates expect. Raises NotTeachable."""
    calls: list[RequestedCall] = []
    for call in message.get("tool_calls", []):
        try:
            arguments = json.loads(str(call["function"]["arguments"] or "{}"))
        except ValueError:
            raise NotTeachable("a call in it has arguments that are no JSON", reason=Reason.BAD_ARGUMENTS) from None
        calls.append({**call, "function": {**call["function"], "arguments": arguments}})
    copy = message.copy()
    if calls:
        copy["tool_calls"] = calls
    return copy
