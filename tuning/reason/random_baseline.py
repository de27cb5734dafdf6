"""The random baseline for models that use tools: it applies proposed moves at random, with as many calls.

A model is better than chance only by what it gains beyond this baseline.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import cast

from hipsynth.core.program import text_id
from hipsynth.synth.llm.endpoint import ChatReply, ToolCall
from hipsynth.tuning.agent.prompts import DONE, ChatTurn
from hipsynth.tuning.reason.local_model import LocalModel

_MOVE = re.compile(r'\{"move": (\d+)')  # also in a list that was cut for its length
ChosenCall = tuple[str, dict[str, str | int]]  # a tool and its arguments
GAIN = 1.01  # from which a change is kept


class RandomMoves(LocalModel):
    """In a model's place: profiles and proposes, applies a move that it has not tried, drawn with equal chances,
    compares, and goes on from the new program if that is faster. The same program and seed give the same draws."""

    def __init__(self, seed: int = 0) -> None:
        self.seed, self.most = seed, LocalModel.most
        self.clear()

    def clear(self) -> None:
        """Forgets the chat."""
        self.now, self.made, self.moves = "v0", "", list[int]()
        self.draws: random.Random | None = None

    def ask(self, body: Mapping[str, object]) -> ChatReply:
        """The next call of a random choice among the moves on offer, or the final answer when there is none."""
        messages = cast(Sequence[ChatTurn], body["messages"])
        if self.draws is None:
            self.draws = random.Random(f"{self.seed} {text_id(str(messages[1]['content']))}")
        number = sum(len(message.get("tool_calls") or ()) for message in messages)
        chosen = self._next_call(messages[-1])
        if chosen is None:
            return ChatReply(f"{DONE}: {self.now}", "stop", "chance", 0, 0, DONE)
        name, arguments = chosen
        text = json.dumps(arguments)
        return ChatReply("", "stop", "chance", 0, 0, text, (ToolCall(f"call_{number}", name, text),))

    def _next_call(self, last: ChatTurn) -> ChosenCall | None:
        """The call after the last message; None if no move is left."""
        tool, content = (last.get("name"), str(last["content"])) if last["role"] == "tool" else (None, "")
        if tool is None:
            return "profile", {"program": self.now}
        if tool == "profile":
            return "propose", {"program": self.now}
        answer = {} if tool == "propose" else json.loads(content) if content.endswith("}") else {}
        if tool == "propose":
            self.moves = [int(match) for match in _MOVE.findall(content)]
        elif tool == "apply" and "program" in answer:
            self.made = str(answer["program"])
            return "compare", {"before": self.now, "after": self.made}
        elif tool == "compare" and float(answer.get("speedup") or _read_speedup(content)) >= GAIN:
            self.now = self.made
            return "profile", {"program": self.now}
        return self._draw_move()

    def _draw_move(self) -> ChosenCall | None:
        assert self.draws is not None
        if not self.moves:
            return None
        move = self.moves.pop(self.draws.randrange(len(self.moves)))
        return "apply", {"program": self.now, "move": move}


def _read_speedup(content: str) -> float:
    """Of a result that was cut for its length."""
    match = re.search(r'"speedup": ([0-9.]+)', content)
    return float(match[1]) if match else 0.0
