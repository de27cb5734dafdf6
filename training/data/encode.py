"""Encodes samples as token ids: chat prompt, answer skeleton and values; cuts sources that exceed the context."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypedDict

from hipsynth.core.errors import BadInput
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.source.model_view import cut_source, view_source
from hipsynth.training.data import prompt
from hipsynth.training.data.dataset import LabelledSample

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

IGNORED = -100  # label of a token that does not count in the loss
VALUE_TOKENS = 10  # context reserved for each value


@dataclass(frozen=True)
class Skeleton:
    """An answer without its values: `literals[k]` precedes the value of `order[k]`, the last literal ends it."""

    literals: tuple[str, ...]
    order: tuple[str, ...]


def split_answer(answer: str) -> tuple[Skeleton, list[str]]:
    """The skeleton and the value texts of an answer as `prompt.render_answer` formats it."""
    names = "|".join(re.escape(key) for key in answer_ids())
    literals, order, values, at = [], [], [], 0
    for match in re.finditer(rf'"({names})": "([^"]*)"', answer):
        literals.append(answer[at : match.start(2)])
        order.append(match.group(1))
        values.append(match.group(2))
        at = match.end(2)
    return Skeleton((*literals, answer[at:]), tuple(order)), values


def answer_skeleton(arch: str, flags: str, fmt: str) -> Skeleton:
    """The skeleton of the answer for an architecture, flags and number format."""
    return split_answer(prompt.render_answer(dict.fromkeys(answer_ids(), 0.0), arch, flags, fmt))[0]


def answer_atoms(fmt: str) -> list[str]:
    """The texts between two values. They are the same in every answer, so a new tokenizer makes each a single token."""
    return list(answer_skeleton("gfx90a", "-O3", fmt).literals[1:-1])


@dataclass(frozen=True)
class EncodedQuestion:
    """An encoded question: token ids of the prompt and answer up to the first value, and of the other literals."""

    prefix: list[int]
    literals: list[list[int]]  # before value 2, 3, ..., and after the last
    order: tuple[str, ...]
    cut_lines: int  # source lines cut to fit the context
    left_out: int  # source lines that the model's view leaves out
    answer_head: int  # number of tokens at the end of the prefix that belong to the answer


class TokenRow(TypedDict):
    """An encoded sample, by token: ids and labels (-100 where nothing is learned)."""

    input_ids: list[int]
    labels: list[int]


class TrainingExample(TokenRow):
    """With the number of source lines that did not fit the context."""

    cut_lines: int


class Encoder:
    """Encodes programs for one tokenizer, number format, context length (in tokens) and view of sources.

    Prompt, literals and values are tokenised separately in both training and decoding, so that decoding with a forced
    skeleton uses exactly the token sequences of training.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, fmt: str, context: int, view: str = "whole") -> None:
        self.tokenizer = tokenizer
        self.fmt = fmt
        self.context = context
        self.view = view
        self._cache: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        """The token ids of a text, without special tokens."""
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def text(self, ids: Sequence[int]) -> str:
        """The text of token ids."""
        return str(self.tokenizer.decode(list(ids)))

    def cached(self, text: str) -> list[int]:
        """Like `ids`, with a cache for repeated texts."""
        if text not in self._cache:
            self._cache[text] = self.ids(text)
        return self._cache[text]

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The messages in the chat template, up to the start of the assistant message; with a fixed date, which some
        templates print."""
        rendered = self.tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=True,
            date_string="26 Jul 2024",
        )
        return str(rendered)

    def encode(self, source: str, arch: str, flags: str) -> EncodedQuestion:
        """Encodes one question and cuts its source to fit the context.

        Raises BadInput if the source does not fit even when cut to one line.
        """
        text, left_out = view_source(source, self.view)
        form = answer_skeleton(arch, flags, self.fmt)
        head = self.cached(form.literals[0])
        literals = [self.cached(text) for text in form.literals[1:]]
        room = self.context - len(head) - sum(map(len, literals)) - VALUE_TOKENS * len(form.order) - 1
        ids, cut = self._fit_context(text, arch, flags, room)
        return EncodedQuestion(ids + head, literals, form.order, cut, left_out, len(head))

    def _fit_context(self, source: str, arch: str, flags: str, room: int) -> tuple[list[int], int]:
        def encode(text: str) -> list[int]:
            return self.ids(self.chat(prompt.prompt_messages(text, arch, flags)))

        return fit_lines(source, room, self.context, encode)

    def example(self, sample: LabelledSample) -> TrainingExample:
        """A training example: `input_ids`, `labels` (loss on the answer only) and `cut_lines`."""
        encoded = self.encode(sample.text, sample.arch, sample.flags)
        _, texts = split_answer(prompt.render_answer(sample.metrics, sample.arch, sample.flags, self.fmt))
        values = [self.cached(text) for text in texts]
        ids = list(encoded.prefix)
        for value, literal in zip(values, encoded.literals, strict=True):
            ids += value + literal
        ids.append(self.tokenizer.eos_token_id)
        start = len(encoded.prefix) - encoded.answer_head
        return {"input_ids": ids, "labels": [IGNORED] * start + ids[start:], "cut_lines": encoded.cut_lines}


def fit_lines(source: str, room: int, context: int, encode: Callable[[str], list[int]]) -> tuple[list[int], int]:
    """The tokens of a source that is cut to as many lines as `room` tokens have place for, and how many were cut.

    Raises BadInput if it does not fit even when cut to one line; `context`: what its message says of the model.
    """

    def cut_and_encode(keep: int) -> tuple[list[int], int]:
        text, cut = cut_source(source, keep)
        return encode(text), cut

    low, high = 1, len(source.splitlines())
    ids, cut = cut_and_encode(high)
    if len(ids) <= room:
        return ids, cut
    best = cut_and_encode(low)
    if len(best[0]) > room:
        raise BadInput(
            f"the program does not fit a context of {context} tokens even when cut to one line",
            remedy="break its long lines, or use a model with a longer context",
        )
    while high - low > 1:
        middle = (low + high) // 2
        encoded = cut_and_encode(middle)
        if len(encoded[0]) <= room:
            low, best = middle, encoded
        else:
            high = middle
    return best


def chat_text(sample: LabelledSample, fmt: str, view: str = "whole") -> str:
    """A sample's prompt and the first literal of its answer as plain text, to train a new tokenizer on."""
    text, _ = view_source(sample.text, view)
    messages = "\n".join(m["content"] for m in prompt.prompt_messages(text, sample.arch, sample.flags))
    return f"{messages}\n{answer_skeleton(sample.arch, sample.flags, fmt).literals[0]}"


def pad_batch(examples: Iterable[TokenRow], pad_id: int) -> dict[str, list[list[int]]]:
    """Right-pads a batch: `input_ids`, each (batch, longest example), and `labels`, (batch, columns from the one before
    the first label to the end). A causal model sees no padding on its right, so there is no attention mask."""
    batch = list(examples)
    width = max(len(e["input_ids"]) for e in batch)
    first = min(first_label(e["labels"]) for e in batch)
    start = max(first - 1, 0)  # the token whose successor is learned

    def pad_columns(columns: Sequence[list[int]], by: int) -> list[list[int]]:
        return [column + [by] * (width - len(column)) for column in columns]

    labels = pad_columns([e["labels"] for e in batch], IGNORED)
    return {
        "input_ids": pad_columns([e["input_ids"] for e in batch], pad_id),
        "labels": [row[start:] for row in labels],
    }


def first_label(labels: Sequence[int]) -> int:
    """The place of the first token that counts in the loss; that of the last token, if none does."""
    return next((at for at, label in enumerate(labels) if label != IGNORED), len(labels) - 1)
