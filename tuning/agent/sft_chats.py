"""Training samples for supervised fine-tuning: the path of a program's best moves as chats of an assistant with tools.

Every result is what the tools answer of the recorded runs and previews, so a sample shows what a model will see.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from hipsynth.core.documents import JsonObject, document_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.program import text_id
from hipsynth.core.reasons import Reason
from hipsynth.core.store.splits import OTHER
from hipsynth.tuning.agent.prompts import (
    DONE,
    ChatTurn,
    RequestedCall,
    opening_messages,
    tool_call_message,
    tool_result_message,
)
from hipsynth.tuning.agent.trace import MessageLine, OutcomeLine, RunLine, TraceLine
from hipsynth.tuning.optimize.documents import SearchStatus
from hipsynth.tuning.optimize.move_order import order_moves
from hipsynth.tuning.optimize.move_values import (
    LIKELY_GAIN,
    PREVIEWED,
    ExecutedMove,
    ValuedProgram,
    ValuedState,
    is_faster,
)
from hipsynth.tuning.optimize.verification.verify import Verification
from hipsynth.tuning.tools import tool_definitions
from hipsynth.tuning.tools.documents import ChangedProgram, ComparedPrograms, ProposedMove, ProposedMoves, TimedProgram
from hipsynth.tuning.tools.functions import MOST_MOVES, compare_runs, describe_run, list_proposals

MOST_NAMED_CHANGES = 1  # metrics and counters that a thought names
Answer = TimedProgram | ProposedMoves | ChangedProgram | ComparedPrograms


class NotTeachable(HipsynthError):
    """A path or run from which nothing is to be learned."""

    reason = Reason.NO_LESSON


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
    """A chat in the form of transformers, with the tools that were offered. `split`: "train" or "held_out"; `kind`:
    "direct", "detour" (with a move that the previews advise against) or "model" (a run of a model). An assistant's
    message of `weight` 0 is read and not learned."""

    messages: Sequence[ChatTurn]
    speedup: float
    program: str
    lineage: str
    arch: str
    split: str
    kind: str = "direct"
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


@dataclass
class PathChat:
    """A chat that grows by calls of tools, whose answers are given. `now`: the best program so far; `made`: programs
    that were made; `words`: what the next message begins with."""

    messages: list[ChatTurn]
    now: str = "v0"
    made: int = 0
    calls: int = 0
    words: str = ""

    def use(self, thought: str, answer: Answer, name: str, *, weight: int = 1, **arguments: str | int) -> None:
        """Adds a call of a tool and its answer; `weight` 0 is of a call that is not to be learned."""
        message = tool_call_message(name, arguments, self.calls, f"{self.words}{thought}")
        if not weight:
            message["weight"] = weight
        result = tool_result_message(name, message["tool_calls"][0]["id"], document_json(answer))
        self.messages += [message, result]
        self.calls, self.words = self.calls + 1, ""

    def end(self, why: str) -> None:
        """Adds the final message."""
        self.messages.append({"role": "assistant", "content": f"{self.words}{why}\n{DONE}: {self.now}"})


def make_chat_samples(valued: ValuedProgram, copies: int = 1) -> list[ChatSample]:
    """The path of a program as samples: straight, and once with each executed move that the previews advise against.
    The straight path is told in `copies`, from the second on with other numbers of its moves: a model is to copy the
    numbers that it reads.

    Raises NotTeachable for a program without states, or whose path ends with a program that does not pass."""
    if not valued.states:
        reason = valued.reason if valued.reason else Reason.NO_PREVIEW
        raise NotTeachable("the program does not run, or has no preview", reason=reason)
    checks = valued.states[-1].checks
    if checks and not Verification(checks).passed:
        raise NotTeachable("the answer does not pass", reason=Reason.NOT_VERIFIED)
    mistakes = [(state.depth, row) for state in valued.states for row in state.executed if is_mistake(state, row)]
    samples = [_tell_path(valued, None, copy) for copy in range(copies)]
    for mistake in mistakes:
        with contextlib.suppress(
            NotTeachable
        ):  # such as one that gains after all, and leads where nothing was recorded
            samples.append(_tell_path(valued, mistake))
    return samples


def _part_of(split: str) -> str:
    return "train" if split == "train" else "held_out"


def is_mistake(state: ValuedState, row: ExecutedMove) -> bool:
    """Whether a preview advised against a move that was executed."""
    return (state.moves[row.move].gain or 0.0) < LIKELY_GAIN


def _tell_path(valued: ValuedProgram, mistake: tuple[int, ExecutedMove] | None, copy: int = 0) -> ChatSample:
    """A chat along the states. With a mistake, it is made in its state before the moves that the previews advise."""
    first = valued.states[0]
    chat = PathChat(opening_messages(valued.text, first.arch))
    chat.use(f"First I measure it on {first.arch}.", describe_run(first.kernels), "profile", program="v0")
    chat.words = _limit_text(describe_run(first.kernels))
    speedup = 1.0
    for state in valued.states:
        numbers = number_moves(state, copy)
        chat.use("I look at what can be changed.", propose_recorded(state, numbers), "propose", program=chat.now)
        advised = [row for row in state.executed if not is_mistake(state, row)]
        rows = [mistake[1], *advised] if mistake and mistake[0] == state.depth else advised
        gaining = next((row for row in rows if _try_move(chat, state, row, numbers[row.move])), None)
        if gaining is None:
            chat.end(f"No other move is expected to gain {LIKELY_GAIN - 1:.0%}.")
            break
        if gaining is not state.next_move:
            raise NotTeachable("the path goes on from another move")
        speedup *= state.duration_ns / gaining.duration_ns
    else:
        chat.end(f"{len(valued.states)} moves are enough.")
    about = (round(speedup, 4), first.program, first.lineage, first.arch, _part_of(first.split))
    return ChatSample(chat.messages, *about, kind="detour" if mistake else "direct")


def number_moves(state: ValuedState, copy: int) -> list[int]:
    """The number by which each move of a state is listed: its own, or those of another `copy` of the chat."""
    numbers = list(range(len(state.moves)))
    if copy:
        listed = numbers[:MOST_MOVES]
        random.Random(f"{state.program} {state.arch} {state.depth} {copy}").shuffle(listed)
        numbers[:MOST_MOVES] = listed
    return numbers


def _try_move(chat: PathChat, state: ValuedState, row: ExecutedMove, number: int) -> bool:
    """Applies a move, which is listed by `number`, and compares; whether the changed program is kept. Raises
    NotTeachable if it does not run."""
    move, mistake = state.moves[row.move], is_mistake(state, row)
    expected = "" if mistake or move.gain is None else f" promises most: gain={round(move.gain, 2):g}"
    chat.made += 1
    program = f"v{chat.made}"
    diff = row.diff.replace("before", chat.now, 1).replace("after", program, 1)
    # It begins as the move's line of the list does: what a small model copies, it gets right.
    thought = f"{number} {move.transformation}{expected}. I try it."
    changed = ChangedProgram(program, diff)
    chat.use(thought, changed, "apply", weight=0 if mistake else 1, program=chat.now, move=number)
    if not row.kernels:
        raise NotTeachable("a changed program does not run")
    compared = compare_runs(state.kernels, row.kernels)
    chat.use("Did that make it faster?", compared, "compare", before=chat.now, after=program)
    times = f"{compared.speedup or 0.0:.2f} times as fast"
    if is_faster(state.duration_ns, row.duration_ns):
        chat.now, chat.words = program, f"{times}{_describe_changes(compared)}: I keep it. "
        return True
    chat.words = f"{times} is no gain. I go back to {chat.now}. "
    return False


def propose_recorded(state: ValuedState, numbers: Sequence[int]) -> ProposedMoves:
    """What `propose` answers of a recorded state, with its moves listed by `numbers`."""
    moves = state.moves[:MOST_MOVES]
    named = zip(numbers, moves, strict=False)
    rows = [ProposedMove(number, m.transformation, m.kernel, m.plan, m.why) for number, m in named]
    order = order_moves(state.ordered_moves()[:MOST_MOVES])
    return ProposedMoves(list_proposals(rows, order, {n: moves[n].gain for n in order[:PREVIEWED]}))


def steps_of(messages: Sequence[ChatTurn]) -> Iterator[str]:
    """A digest of each step of a chat: the state (all that was said), a call, its result, and what comes next."""
    for at, message in enumerate(messages):
        if message.get("tool_calls") and at + 2 < len(messages):
            yield text_id(json.dumps(messages[: at + 3], sort_keys=True))


def _limit_text(profile: TimedProgram) -> str:
    first = profile.kernels[0]
    share = first.duration_us / profile.duration_us if profile.duration_us else 0.0
    return (
        f"{first.name} takes {100 * share:.0f} % of {profile.duration_us:.1f} us and is limited by {first.limited_by}. "
    )


def _describe_changes(compared: ComparedPrograms) -> str:
    """The largest change of metrics and counters, in words."""
    rows = [row for row in compared.changed.values() if row]
    words = largest_changes({name: pair for row in rows for name, pair in row.items()}, MOST_NAMED_CHANGES)
    return f" ({', '.join(words)})" if words else ""


def largest_changes(changed: Mapping[str, Sequence[float]], most: int) -> list[str]:
    """The metrics and counters, as [before, after], that changed most, in words."""
    pairs = [(abs(b - a) / max(abs(a), abs(b)), name, a, b) for name, (a, b) in changed.items() if a != b]
    return [f"{name} {a:.4g} -> {b:.4g}" for _, name, a, b in sorted(pairs, reverse=True)[:most]]


def from_trace(lines: Sequence[TraceLine], splits: Mapping[str, str]) -> ChatSample:
    """A model's run as a sample, if its answer was verified as faster. Raises NotTeachable otherwise. `splits`: by
    program; nothing is known of the origin of others, which are held out."""
    outcome = next((line for line in reversed(lines) if isinstance(line, OutcomeLine)), None)
    first = next((line for line in lines if isinstance(line, RunLine)), None)
    if outcome is None or first is None or outcome.status != SearchStatus.IMPROVED:
        reason = Reason.UNFINISHED if outcome is None or first is None else Reason.UNCHANGED
        raise NotTeachable("the run has no verified gain", reason=reason)
    messages = [_with_objects(line.message) for line in lines if isinstance(line, MessageLine)]
    program, arch = str(first.setting["program"]), str(first.setting["arch"])
    part = _part_of(splits.get(program, OTHER))
    return ChatSample(messages, outcome.speedup, program, program, arch, part, kind="model")


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
