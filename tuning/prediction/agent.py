"""Lets a trained model answer questions with tools. Calls, keys and numbers are held to their forms, so every answer is
valid JSON; which tool is called, when to answer, and how sure the answer is are the model's."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import MissingDependency
from hipsynth.training.data.encode import EncodedQuestion, Encoder
from hipsynth.training.models.base import load_trained
from hipsynth.training.models.decode import AnswerDecoder
from hipsynth.training.models.model_record import RECORD, ModelRecord, model_record
from hipsynth.tuning.prediction.chat import (
    ANSWER,
    ANSWER_KEYS,
    Question,
    answer_literals,
    encode_question,
    move_texts,
    tool_text,
)
from hipsynth.tuning.prediction.preview_error import PREVIEW_ERROR, PreviewErrorModel
from hipsynth.tuning.prediction.tools import (
    EXECUTE,
    FORMAT,
    MEASURING,
    SURE,
    TOOLS,
    VALUES,
    PredictionTools,
    ToolReply,
    price_table,
    value_texts,
)
from hipsynth.tuning.prediction.train import TASK

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

SHIPPED_AGENT = Path(__file__).with_name("shipped")  # made by the commands of docs/explanation/prediction-with-tools.md
NORMAL_LEAN = 0.0  # added to the log-probability of answering, beside calling another tool


@dataclass(frozen=True)
class Decision:
    """A move that the model made, with the probabilities of all that it could make."""

    move: str
    probabilities: Mapping[str, float]
    log_probabilities: list[float] = field(default_factory=list)  # of the move's tokens, among all texts


@dataclass(frozen=True)
class ToolPrediction:
    """An answer. `values`: milliseconds, and metrics as shares of their range; `sure`: the share of them that is
    expected to be within 10 %; `price_s`: of its calls; `measured`: whether a tool measured, else values are a
    guess."""

    values: Mapping[str, float]
    sure: float
    decisions: tuple[Decision, ...]
    cut_lines: int
    prompt_tokens: int
    measured: bool

    @property
    def calls(self) -> tuple[str, ...]:
        """The tools that were called, in their order."""
        return calls_of(self.decisions)

    @property
    def price_s(self) -> float:
        return price_table().price(self.calls)


def calls_of(decisions: Iterable[Decision]) -> tuple[str, ...]:
    """The tools that were called, in their order."""
    return tuple(decision.move for decision in decisions if decision.move != ANSWER)


Choice = Callable[[Mapping[str, float]], str]  # takes a move, given the probabilities of all that are open


def likeliest(lean: float) -> Choice:
    """Takes the likeliest move; `lean` is added to the log-probability of answering."""

    def choose(probabilities: Mapping[str, float]) -> str:
        return max(probabilities, key=lambda name: math.log(max(probabilities[name], 1e-300)) + lean * (name == ANSWER))

    return choose


@dataclass
class Discussion:
    """A chat that goes on: its tokens so far, and the moves made."""

    ids: list[int]
    decisions: tuple[Decision, ...]
    cut_lines: int
    question_tokens: int
    last: ToolReply | None = None  # the last one that measured
    # What came after the question: tokens, with their log-probabilities where the model wrote them.
    turns: list[tuple[list[int], list[float] | None]] = field(default_factory=list)

    def add(self, tokens: list[int], scores: list[float] | None) -> None:
        """Appends a move or a reply."""
        self.ids = [*self.ids, *tokens]
        self.turns.append((tokens, scores))


def repeated_texts(chat: Discussion, repeat: bool) -> dict[str, str]:
    """The values that an answer repeats, in the order of VALUES; none if the model writes them."""
    values = chat.last.values if chat.last is not None and repeat else None
    return {} if values is None else value_texts(values)


def open_moves(tools_left: Sequence[str], measured_by: Collection[str]) -> list[str]:
    """The moves that a model may make: to call a tool that is left, and to answer, unless nothing measured the program
    yet and a tool that is left may. Nothing is known better than by an execution: behind it, only the answer."""
    if EXECUTE in measured_by:
        return [ANSWER]
    return [*tools_left, *([ANSWER] if measured_by or not MEASURING & set(tools_left) else [])]


class PredictionAgent:
    """A model folder of `synth train --config predict-tools-tiny`, or another recipe with its task."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        record: ModelRecord,
        preview_error: PreviewErrorModel | None = None,
    ) -> None:
        self.model, self.tokenizer, self.context = model, tokenizer, record["context"]
        self.preview_error = preview_error
        self.decoder = AnswerDecoder(model, Encoder(tokenizer, FORMAT, self.context, "kernels"))
        self.moves = {name: self._tokens(text) for name, text in move_texts().items()}
        self.literals = [self._tokens(text) for text in answer_literals()]

    @classmethod
    def load(cls, path: Path) -> PredictionAgent:
        """Loads a finished model folder. Raises MissingDependency if there is none, BadInput if it is damaged."""
        record = model_record(path)
        if record is None or record.get("task") != TASK:
            raise MissingDependency(
                f"{path}: no model that predicts with tools there",
                cause=f"no file {RECORD} with the task {TASK}",
                remedy="run `synth traces --task predict` and `synth train TRACES --config predict-tools-tiny`",
            )
        return cls(*load_trained(path, record), record, PreviewErrorModel.load(path / PREVIEW_ERROR))

    def answer(
        self,
        questions: Sequence[tuple[Question, PredictionTools | None]],
        lean: float = NORMAL_LEAN,
        repeat: bool = True,
    ) -> list[ToolPrediction]:
        """Answers questions with their tools, or from the source alone where there are none. `lean` makes answering
        likelier (or, if negative, further calls): the model's trade of price for accuracy. With `repeat`, values, and
        how sure they are, are those of the last reply that measured; else, and where none did, or a reply does not say
        how sure it is, the model writes every digit itself."""
        chats = [self.discuss(question, tools, likeliest(lean)) for question, tools in questions]
        encoded = [self._begin_answer(chat, repeat) for chat in chats]
        answers = []
        for chat, decoded in zip(chats, self.decoder.complete(encoded), strict=True):
            texts = {**repeated_texts(chat, repeat), **decoded.values}
            values = {name: float(texts[name]) for name in VALUES}
            expected = chat.last.expected_share if chat.last is not None and repeat else None
            sure = min(1.0, float(texts[SURE])) if expected is None else expected
            about = (chat.decisions, chat.cut_lines, chat.question_tokens, chat.last is not None)
            answers.append(ToolPrediction(values, sure, *about))
        return answers

    def _begin_answer(self, chat: Discussion, repeat: bool) -> EncodedQuestion:
        """The chat with the part of the answer that the model need not write."""
        ids, texts = list(chat.ids), repeated_texts(chat, repeat)
        for text, literal in zip(texts.values(), self.literals[1:], strict=False):
            ids += [*self._tokens(text), *literal]
        return EncodedQuestion(ids, self.literals[1 + len(texts) :], ANSWER_KEYS[len(texts) :], chat.cut_lines, 0, 0)

    def discuss(self, question: Question, tools: PredictionTools | None, choose: Choice) -> Discussion:
        """The chat up to the first value of the answer; without tools the answer is the only move.

        With tools, no answer comes before a measurement, or before every tool that measures has failed, and nothing
        but the answer behind an execution.
        """
        ids, cut = encode_question(self.tokenizer, question, self.context, tools is not None)
        chat = Discussion(ids, (), cut, len(ids))
        tools_left, measured_by = [] if tools is None else list(TOOLS), list[str]()
        while True:
            decision = self._decide(chat.ids, open_moves(tools_left, measured_by), choose)
            chat.decisions += (decision,)
            chat.add(self.moves[decision.move], decision.log_probabilities)
            if decision.move == ANSWER or tools is None:
                return chat
            tools_left.remove(decision.move)
            reply = tools.call(decision.move)
            if reply.values is not None:
                chat.last = reply
                measured_by.append(decision.move)
            chat.add(self._tokens(tool_text(reply.text)), None)

    def probabilities(self, question: Question, tools: PredictionTools, calls: Sequence[str]) -> Mapping[str, float]:
        """How likely each open move is after these calls."""
        ids = encode_question(self.tokenizer, question, self.context)[0]
        for name in calls:
            ids = [*ids, *self.moves[name], *self._tokens(tool_text(tools.call(name).text))]
        measured_by = [name for name in calls if tools.call(name).values is not None]
        moves = open_moves([name for name in TOOLS if name not in calls], measured_by)
        return self._decide(ids, moves, likeliest(0.0)).probabilities

    def _decide(self, ids: Sequence[int], moves: Sequence[str], choose: Choice) -> Decision:
        """One of the moves, each a sequence of tokens whose probability the model gives."""
        scores = self._log_probabilities(ids, {name: self.moves[name] for name in moves})
        sums = {name: math.fsum(row) for name, row in scores.items()}
        top = max(sums.values())
        weights = {name: math.exp(total - top) for name, total in sums.items()}
        total = math.fsum(weights.values())
        probabilities = {name: weight / total for name, weight in weights.items()}
        move = choose(probabilities)
        return Decision(move, probabilities, scores[move])

    def _log_probabilities(self, ids: Sequence[int], moves: Mapping[str, list[int]]) -> dict[str, list[float]]:
        """The log-probability of each token of each move behind `ids`. Moves that differ in their last token alone are
        read once."""
        import torch

        rows: dict[tuple[int, ...], torch.Tensor] = {}
        scores: dict[str, list[float]] = {}
        with torch.inference_mode():
            for name, tokens in moves.items():
                head = tuple(tokens[:-1])
                if head not in rows:
                    read = torch.tensor([[*ids, *head]], device=self.model.device)
                    logits = self.model(read, logits_to_keep=len(tokens)).logits[0]
                    rows[head] = torch.log_softmax(logits.float(), dim=-1)
                scores[name] = rows[head][range(len(tokens)), tokens].tolist()
        return scores

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])
