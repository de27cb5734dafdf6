"""Prompts for a model that works with tools; training samples use the same ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import NotRequired, TypedDict

from hipsynth.core.documents import Json

MOST_RESULT = 9000  # characters of a tool's result in a chat
DONE = "DONE"
SYSTEM = (
    "You make HIP kernels faster on AMD GPUs with tools. Profile the program, find what limits it, and change it: "
    "apply a transformation that propose lists, or compile a whole changed program. Compare each change with the "
    "program before it, and keep what is faster. The program must do the same for all inputs and sizes, with the same "
    "precision: run_and_verify checks that, and your answer is checked so. When nothing more helps, answer "
    f"{DONE} and the best program's name."
)
NUDGE = f"Call one of the tools, or answer {DONE}."
AGAIN = "You made this call before, and its result is the same. Try something else."


class CalledFunction(TypedDict):
    """`arguments`: as the model wrote them, or as an object for chat templates of transformers."""

    name: str
    arguments: str | Mapping[str, object]


class RequestedCall(TypedDict):
    """A tool call in a message of an assistant."""

    type: NotRequired[str]
    id: NotRequired[str]
    function: CalledFunction


class ChatTurn(TypedDict):
    """A message of a chat with tools, in OpenAI's form. `name`: the tool that answers; `weight` 0: a message of the
    assistant that is read and not learned."""

    role: str
    content: str
    tool_calls: NotRequired[list[RequestedCall]]
    tool_call_id: NotRequired[str]
    name: NotRequired[str]
    weight: NotRequired[int]


def opening_messages(text: str, arch: str, name: str = "v0") -> list[ChatTurn]:
    """The first messages of a chat about a program."""
    task = f"Make this program's kernels faster on {arch}. It is compiled already and is called {name}.\n\n"
    return [{"role": "system", "content": SYSTEM}, {"role": "user", "content": f"{task}```cpp\n{text.rstrip()}\n```"}]


def tool_call_message(name: str, arguments: Mapping[str, object], number: int, thought: str) -> ChatTurn:
    """An assistant's message with one tool call, as chat templates of transformers read it."""
    function: CalledFunction = {"name": name, "arguments": dict(arguments)}
    call: RequestedCall = {"type": "function", "id": f"call_{number}", "function": function}
    return {"role": "assistant", "content": thought, "tool_calls": [call]}


def tool_result_message(name: str, id_: str, document: Mapping[str, Json]) -> ChatTurn:
    """A tool's message."""
    text = json.dumps(document)
    text = text if len(text) <= MOST_RESULT else text[:MOST_RESULT] + " [cut]"
    return {"role": "tool", "tool_call_id": id_, "name": name, "content": text}


def fit_messages(messages: Sequence[ChatTurn], most: int) -> list[ChatTurn]:
    """Messages of at most `most` characters, if emptying the oldest results of tools can do that."""
    kept_messages = [message.copy() for message in messages]
    size = sum(len(json.dumps(message)) for message in kept_messages)
    for message in kept_messages[:-1]:
        if size <= most:
            break
        if message["role"] == "tool":
            size -= len(message["content"])
            message["content"] = "[an old result, left out]"
    return kept_messages
