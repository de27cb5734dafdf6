"""Chats of a model that predicts with tools, as text in pieces, so that training and answering read the same tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hipsynth.source.model_view import view_source
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.data.encode import IGNORED, TrainingExample, fit_lines
from hipsynth.training.data.prompt import render_question
from hipsynth.tuning.agent.prompts import ChatTurn, tool_call_message
from hipsynth.tuning.prediction.tools import SURE, TOOLS, VALUES, price_table

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ANSWER_KEYS = (*VALUES, SURE)
ROOM = 480  # tokens of a chat besides its question
SYSTEM = "You predict the performance counters of GPU kernels. Answer in JSON; call a tool where it is worth its price."
WITHOUT_TOOLS = "You predict the performance counters of GPU kernels. Answer in JSON from the source alone."
SPECIAL = ("<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>")
END = "<|im_end|>\n"
ASSISTANT = "<|im_start|>assistant\n"
ANSWER = "answer"  # the move that ends a chat


@dataclass(frozen=True)
class ToolCallResult:
    """A call of a tool and what it answered."""

    name: str
    reply: str


@dataclass(frozen=True)
class PredictionChat:
    """One chat. `answer`: the texts by key; `learned_from`: calls before this one do not count in the loss;
    `sure_learned`: whether the last key does; `with_tools`: whether tools were offered; `drilled`: its numbers are
    scaled."""

    text: str
    arch: str
    flags: str
    lineage: str
    calls: tuple[ToolCallResult, ...]
    answer: Mapping[str, str]
    learned_from: int = 0
    sure_learned: bool = True
    with_tools: bool = True
    drilled: bool = False

    def messages(self) -> list[ChatTurn]:
        """The chat in the form of transformers, trl and axolotl."""
        source = view_source(self.text, "kernels")[0]
        turns: list[ChatTurn] = [{"role": "user", "content": render_question(source, self.arch, self.flags)}]
        for number, call in enumerate(self.calls):
            turns.append(tool_call_message(call.name, {}, number, ""))
            turns.append({"role": "tool", "tool_call_id": f"call_{number}", "name": call.name, "content": call.reply})
        return [*turns, {"role": "assistant", "content": json.dumps(dict(self.answer))}]


@dataclass(frozen=True)
class Piece:
    """A part of a chat that is tokenised by itself; `learned`: it counts in the loss."""

    text: str
    learned: bool = False


@dataclass(frozen=True)
class Question:
    """What is asked: a program on a target."""

    text: str
    arch: str
    flags: str

    @classmethod
    def of(cls, sample: LabelledSample) -> Question:
        return cls(sample.text, sample.arch, sample.flags)


def move_texts() -> dict[str, str]:
    """What the assistant may begin a turn with, by move: a call of each tool, or the answer up to its first value."""
    calls = {name: f"<tool_call>{json.dumps({'name': name, 'arguments': {}})}</tool_call>{END}" for name in TOOLS}
    return {**calls, ANSWER: answer_literals()[0]}


def answer_literals() -> tuple[str, ...]:
    """The fixed texts of an answer: `[k]` precedes the value of `ANSWER_KEYS[k]`, the last one ends the chat."""
    between = [f'", "{key}": "' for key in ANSWER_KEYS[1:]]
    return (f'{{"{ANSWER_KEYS[0]}": "', *between, '"}<|im_end|>')


def tool_text(reply: str) -> str:
    """A tool's answer, and the beginning of the assistant's next turn."""
    return f"<|im_start|>tool\n{reply}{END}{ASSISTANT}"


def question_text(question: Question, source: str, with_tools: bool = True) -> str:
    """The first messages, up to the assistant's turn; `source`: the part of the program that is shown."""
    tools = ", ".join(f"{name} ({row.price_s:g} s)" for name, row in price_table().rows().items())
    system = f"{SYSTEM} Tools: {tools}." if with_tools else WITHOUT_TOOLS
    user = render_question(source, question.arch, question.flags)
    return f"<|im_start|>system\n{system}{END}<|im_start|>user\n{user}{END}{ASSISTANT}"


def pieces_of(chat: PredictionChat) -> list[Piece]:
    """A chat behind its question, in pieces."""
    moves, pieces = move_texts(), []
    for at, call in enumerate(chat.calls):
        pieces += [Piece(moves[call.name], at >= chat.learned_from), Piece(tool_text(call.reply))]
    for key, literal in zip(ANSWER_KEYS, answer_literals(), strict=False):
        pieces += [Piece(literal, True), Piece(chat.answer[key], key != SURE or chat.sure_learned)]
    return [*pieces, Piece(answer_literals()[-1], True)]


def encode_question(
    tokenizer: PreTrainedTokenizerBase, question: Question, context: int, with_tools: bool = True
) -> tuple[list[int], int]:
    """The tokens of a question with room for the chat, and how many source lines were cut for that. Raises BadInput."""

    def encode(source: str) -> list[int]:
        return list(tokenizer(question_text(question, source, with_tools), add_special_tokens=False)["input_ids"])

    return fit_lines(view_source(question.text, "kernels")[0], context - ROOM, context, encode)


def encode_chat(
    tokenizer: PreTrainedTokenizerBase, question: Question, pieces: Sequence[Piece], context: int, with_tools: bool
) -> TrainingExample:
    """A chat as tokens and labels; the question is no label. Raises BadInput for a question that does not fit."""
    ids, cut = encode_question(tokenizer, question, context, with_tools)
    labels = [IGNORED] * len(ids)
    for piece in pieces:
        tokens = tokenizer(piece.text, add_special_tokens=False)["input_ids"]
        ids += tokens
        labels += tokens if piece.learned else [IGNORED] * len(tokens)
    return {"input_ids": ids, "labels": labels, "cut_lines": cut}
