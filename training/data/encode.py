"""From a sample to token ids: chat prompt, answer skeleton, values; and the cut of sources that do not fit."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.synth.core.errors import BadInput
from hipsynth.training.data import prompt
from hipsynth.training.data.dataset import Sample
from hipsynth.training.data.source import cut_source, view_source

IGNORED = -100  # label of a token without loss
VALUE_TOKENS = 10  # room kept for each value


@dataclass(frozen=True)
class Skeleton:
    """An answer split at its values: `literals[k]` stands before the value of `order[k]`, the last one after all."""

    literals: tuple[str, ...]
    order: tuple[str, ...]

    def fill(self, values: Mapping[str, str]) -> str:
        """The whole answer with the given value texts in it."""
        pairs = zip(self.literals, (values[metric] for metric in self.order), strict=False)
        return "".join(literal + value for literal, value in pairs) + self.literals[-1]


def split_answer(answer: str) -> tuple[Skeleton, list[str]]:
    """The skeleton and the values of an answer in the trained form."""
    names = "|".join(re.escape(i) for i in answer_ids())
    literals, order, values, at = [], [], [], 0
    for match in re.finditer(rf'"({names})": "([^"]*)"', answer):
        literals.append(answer[at : match.start(2)])
        order.append(match.group(1))
        values.append(match.group(2))
        at = match.end(2)
    return Skeleton((*literals, answer[at:]), tuple(order)), values


def skeleton(arch: str, flags: str, fmt: str) -> Skeleton:
    """The fixed text of the answer for an architecture and flags."""
    return split_answer(prompt.answer(dict.fromkeys(answer_ids(), 0.0), arch, flags, fmt))[0]


def answer_atoms(fmt: str) -> list[str]:
    """The texts between two values: the same in every answer, so a from-scratch tokenizer makes each one token."""
    return list(skeleton("gfx90a", "-O3", fmt).literals[1:-1])


@dataclass(frozen=True)
class Encoded:
    """Token ids of a prompt up to the first value, of each further literal, and how many source lines were cut."""

    prefix: list[int]
    literals: list[list[int]]  # before value 2, 3, ..., and after the last
    order: tuple[str, ...]
    cut_lines: int
    left_out: int  # lines that the model's view of a source leaves out
    answer_head: int  # how many of the last prefix tokens belong to the answer


class Encoder:
    """Turns programs into token ids for one tokenizer, number format, context length (tokens) and view of sources.

    Prompt, literals and values are tokenised piece by piece, in training and in decoding alike, so that decoding
    with a forced skeleton sees exactly the sequences that were trained.
    """

    def __init__(self, tokenizer: Any, fmt: str, context: int, view: str = "whole") -> None:
        self.tokenizer = tokenizer
        self.fmt = fmt
        self.context = context
        self.view = view
        self._cache: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False)["input_ids"])

    def cached(self, text: str) -> list[int]:
        if text not in self._cache:
            self._cache[text] = self.ids(text)
        return self._cache[text]

    def chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The chat template's text up to where the assistant begins. The date is pinned: some templates print it."""
        rendered = self.tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, date_string="26 Jul 2024"
        )
        return str(rendered)

    def encode(self, source: str, arch: str, flags: str) -> Encoded:
        """Prompt and skeleton of one question; cuts the source to the context and says by how many lines."""
        form = skeleton(arch, flags, self.fmt)
        head = self.cached(form.literals[0])
        literals = [self.cached(text) for text in form.literals[1:]]
        room = self.context - len(head) - sum(map(len, literals)) - VALUE_TOKENS * len(form.order) - 1
        text, left_out = view_source(source, self.view)
        ids, cut = self._fit(text, arch, flags, room)
        return Encoded(ids + head, literals, form.order, cut, left_out, len(head))

    def _fit(self, source: str, arch: str, flags: str, room: int) -> tuple[list[int], int]:
        def attempt(keep: int) -> tuple[list[int], int]:
            text, cut = cut_source(source, keep)
            return self.ids(self.chat(prompt.prompt_messages(text, arch, flags))), cut

        low, high = 1, len(source.splitlines())
        ids, cut = attempt(high)
        if len(ids) <= room:
            return ids, cut
        best = attempt(low)
        if len(best[0]) > room:
            raise BadInput(
                f"the program does not fit a context of {self.context} tokens even when cut to one line",
                remedy="break its long lines, or use a model with a longer context",
            )
        while high - low > 1:
            middle = (low + high) // 2
            tried = attempt(middle)
            if len(tried[0]) <= room:
                low, best = middle, tried
            else:
                high = middle
        return best

    def example(self, sample: Sample) -> dict[str, Any]:
        """A training example: `input_ids`, `labels` (loss on the answer only) and `cut_lines`."""
        encoded = self.encode(sample.text, sample.arch, sample.flags)
        answer = prompt.answer(sample.metrics, sample.arch, sample.flags, self.fmt)
        _, values = split_answer(answer)
        ids = list(encoded.prefix)
        for value, literal in zip(values, encoded.literals, strict=True):
            ids += self.cached(value) + literal
        ids.append(self.tokenizer.eos_token_id)
        start = len(encoded.prefix) - encoded.answer_head
        return {"input_ids": ids, "labels": [IGNORED] * start + ids[start:], "cut_lines": encoded.cut_lines}


def chat_text(sample: Sample, fmt: str, view: str = "whole") -> str:
    """Everything a model reads and writes for one sample as plain text: what a new tokenizer is trained on."""
    text, _ = view_source(sample.text, view)
    said = "\n".join(m["content"] for m in prompt.prompt_messages(text, sample.arch, sample.flags))
    return said + "\n" + skeleton(sample.arch, sample.flags, fmt).literals[0]


def pad(examples: Iterable[Mapping[str, Any]], pad_id: int) -> dict[str, list[list[int]]]:
    """Right-pads a batch: `input_ids`, `attention_mask`, `labels` as equal-length lists."""
    batch = list(examples)
    width = max(len(e["input_ids"]) for e in batch)
    return {
        "input_ids": [e["input_ids"] + [pad_id] * (width - len(e["input_ids"])) for e in batch],
        "attention_mask": [[1] * len(e["input_ids"]) + [0] * (width - len(e["input_ids"])) for e in batch],
        "labels": [e["labels"] + [IGNORED] * (width - len(e["labels"])) for e in batch],
    }
