"""A model that says what a test wrote down."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from hipsynth.synth.llm.endpoint import ChatReply
from hipsynth.tuning.reason.chat_text import calls_in
from hipsynth.tuning.reason.local_model import LocalModel


class Says(LocalModel):
    """Answers with the given texts, one after the other; the last is repeated."""

    def __init__(self, *texts: str) -> None:
        self.texts, self.asked, self.most = list(texts), [], LocalModel.most

    def ask(self, body: Mapping[str, Any]) -> ChatReply:
        self.asked.append(dict(body))
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        said, calls = calls_in(text, len(self.asked))
        return ChatReply(said, "stop", "local", 10, 5, text, calls)

    def clear(self) -> None:
        self.asked.clear()


def call(name: str, **arguments: Any) -> str:
    return f"<tool_call>{json.dumps({'name': name, 'arguments': arguments})}</tool_call>"
