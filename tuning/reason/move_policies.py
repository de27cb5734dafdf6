"""Policies without a language model, in a model's place: they take proposed moves at random, by their previews, or in
the learned order. A model has learned something only by what it gains beyond them at equal calls or executions."""

from __future__ import annotations

import json
import random
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from hipsynth.core.program import text_id
from hipsynth.synth.llm.endpoint import ChatReply, ToolCall
from hipsynth.tuning.agent.prompts import DONE, ChatTurn
from hipsynth.tuning.optimize.move_values import LEAST_SPEEDUP, LIKELY_GAIN
from hipsynth.tuning.reason.local_model import LocalModel

_MOVE = re.compile(r'\{"move": (\d+)(?:(?!\{"move": ).)*?(?:"gain": ([0-9.]+)|$|(?=\{"move": ))', re.DOTALL)
ChosenCall = tuple[str, dict[str, str | int]]  # a tool and its arguments


@dataclass(frozen=True)
class ListedMove:
    """A move of `propose`, by its number. `gain`: previewed, None without a preview."""

    move: int
    gain: float | None


class MovePolicy(LocalModel):
    """Profiles and proposes, applies a move, compares, and goes on from the new program if that is faster."""

    previews: int | None = None  # that it asks for; None for as many as the tool makes unasked

    def __init__(self) -> None:
        self.most = LocalModel.most
        self.clear()

    def clear(self) -> None:
        """Forgets the chat."""
        self.now, self.made, self.moves = "v0", "", list[ListedMove]()

    @abstractmethod
    def choose(self, moves: Sequence[ListedMove]) -> ListedMove | None:
        """The next move of those that were listed and not tried, or None to end; `moves` has at least one."""

    def ask(self, body: Mapping[str, object]) -> ChatReply:
        """The next call, or the final answer when there is none."""
        messages = cast(Sequence[ChatTurn], body["messages"])
        self.begin_chat(messages)
        number = sum(len(message.get("tool_calls") or ()) for message in messages)
        chosen = self._next_call(messages[-1])
        if chosen is None:
            return ChatReply(f"{DONE}: {self.now}", "stop", "policy", 0, 0, DONE)
        name, arguments = chosen
        text = json.dumps(arguments)
        return ChatReply("", "stop", "policy", 0, 0, text, (ToolCall(f"call_{number}", name, text),))

    def begin_chat(self, messages: Sequence[ChatTurn]) -> None:
        """Looks at the chat before each answer."""

    def _next_call(self, last: ChatTurn) -> ChosenCall | None:
        """The call after the last message; None if no move is left."""
        tool, content = (last.get("name"), str(last["content"])) if last["role"] == "tool" else (None, "")
        if tool is None:
            return "profile", {"program": self.now}
        if tool == "profile":
            return self._propose()
        answer = {} if tool == "propose" else json.loads(content) if content.endswith("}") else {}
        if tool == "propose":
            self.moves = read_proposals(content)
        elif tool == "apply" and "program" in answer:
            self.made = str(answer["program"])
            return "compare", {"before": self.now, "after": self.made}
        elif tool == "compare" and float(answer.get("speedup") or _read_speedup(content)) >= LEAST_SPEEDUP:
            self.now = self.made
            return self._propose()
        return self._apply_move()

    def _propose(self) -> ChosenCall:
        previews: dict[str, str | int] = {} if self.previews is None else {"preview": self.previews}
        return "propose", {"program": self.now} | previews

    def _apply_move(self) -> ChosenCall | None:
        chosen = self.choose(self.moves) if self.moves else None
        if chosen is None:
            return None
        self.moves.remove(chosen)
        return "apply", {"program": self.now, "move": chosen.move}


class RandomMoves(MovePolicy):
    """Draws with equal chances. The same program and seed give the same draws."""

    previews = 0

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        super().__init__()

    def clear(self) -> None:
        """Forgets the chat."""
        super().clear()
        self.draws: random.Random | None = None

    def begin_chat(self, messages: Sequence[ChatTurn]) -> None:
        """Seeds the draws with the program."""
        if self.draws is None:
            self.draws = random.Random(f"{self.seed} {text_id(str(messages[1]['content']))}")

    def choose(self, moves: Sequence[ListedMove]) -> ListedMove:
        """Any move."""
        assert self.draws is not None
        return moves[self.draws.randrange(len(moves))]


class PreviewedMoves(MovePolicy):
    """Takes the move with the largest previewed gain, and ends when none is expected to gain."""

    def choose(self, moves: Sequence[ListedMove]) -> ListedMove | None:
        """The best previewed move, if it is worth an execution."""
        best = max(moves, key=lambda row: row.gain or 0.0)
        return best if (best.gain or 0.0) >= LIKELY_GAIN else None


class LearnedMoves(MovePolicy):
    """Takes the moves in the learned order, without a preview."""

    previews = 0

    def choose(self, moves: Sequence[ListedMove]) -> ListedMove:
        """The first move."""
        return moves[0]


def read_proposals(content: str) -> list[ListedMove]:
    """The moves of an answer of `propose`, also of one that was cut for its length."""
    return [ListedMove(int(match[1]), float(match[2]) if match[2] else None) for match in _MOVE.finditer(content)]


def _read_speedup(content: str) -> float:
    """Of a result that was cut for its length."""
    match = re.search(r'"speedup": ([0-9.]+)', content)
    return float(match[1]) if match else 0.0
