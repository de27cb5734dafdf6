"""Decodes answers: with a forced skeleton and a grammar for numbers (always valid), or greedily without constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from hipsynth.training.data.encode import Encoded, Encoder

# Automata for the numbers that data.prompt.format_number prints: state -> (characters, next state). FINAL holds the
# accepting states.
DIGITS, NONZERO = "0123456789", "123456789"
Automaton = dict[str, tuple[tuple[str, str], ...]]
GRAMMARS: dict[str, Automaton] = {
    # Three decimals: 0.459, 12.345
    "fixed3": {
        "start": (("0", "int2"), (NONZERO, "int1"), ("-", "minus")),
        "minus": (("0", "int2"), (NONZERO, "int1")),
        "int1": ((".", "d1"), (DIGITS, "int2")),
        "int2": ((".", "d1"),),
        "d1": ((DIGITS, "d2"),),
        "d2": ((DIGITS, "d3"),),
        "d3": ((DIGITS, "end"),),
        "end": (),
    },
    # Three significant digits: 0.459, 0.0500, 0.000123, 1.23e-05, 2.31, 12.3, 123, and 0.00 for zero
    "sig3": {
        "start": (("0", "zero"), (NONZERO, "int1"), ("-", "minus")),
        "minus": (("0", "zero"), (NONZERO, "int1")),
        "zero": ((".", "0."),),
        "0.": (("0", "0.0"), (NONZERO, "s1")),
        "0.0": (("0", "0.00"), (NONZERO, "s1")),
        "0.00": (("0", "0.000"), (NONZERO, "s1")),
        "0.000": ((NONZERO, "s1"),),
        "s1": ((DIGITS, "s2"),),
        "s2": ((DIGITS, "end"),),
        "int1": ((".", "f1"), (DIGITS, "int2")),
        "f1": ((DIGITS, "f2"),),
        "f2": ((DIGITS, "f3"),),
        "f3": (("e", "exp"),),
        "exp": (("-", "exp-"),),
        "exp-": (("0", "exp-0"), (NONZERO, "exp-d")),
        "exp-0": (("56789", "end"),),
        "exp-d": ((DIGITS, "end"),),
        "int2": ((".", "g1"), (DIGITS, "int3")),
        "g1": ((DIGITS, "end"),),
        "int3": (),
        "end": (),
    },
}
FINAL = {"fixed3": frozenset({"end"}), "sig3": frozenset({"end", "0.00", "f3", "int3"})}


def advance(grammar: Automaton, state: str, text: str) -> str | None:
    """The state after reading `text` from `state`, or None if the grammar does not accept it."""
    for character in text:
        following = [target for allowed, target in grammar[state] if character in allowed]
        if not following:
            return None
        state = following[0]
    return state


@dataclass
class Answer:
    """One decoded answer: value text by metric id, source lines cut or left out, tokens read and generated."""

    values: dict[str, str] = field(default_factory=dict)
    cut_lines: int = 0
    left_out: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0


@dataclass
class _Row:
    """State of one answer in a batch: tokens queued as input, index and text of the current value, grammar state."""

    encoded: Encoded
    queue: list[int]
    value: int = 0
    state: str = "start"
    text: str = ""
    done: bool = False
    position: int = 0


class Decoder:
    """Decodes answers with a causal LM. Decoding is greedy, so deterministic for given weights."""

    def __init__(self, model: Any, encoder: Encoder) -> None:
        self.model = model.eval()
        self.encoder = encoder
        self.grammar = GRAMMARS[encoder.fmt]
        self.final = FINAL[encoder.fmt]
        self.moves = self._token_moves()

    def _token_moves(self) -> dict[str, dict[int, str]]:
        """grammar state -> {allowed token id: next state}, from the text of every token in the vocabulary."""
        tokenizer = self.encoder.tokenizer
        alphabet = {c for arcs in self.grammar.values() for allowed, _ in arcs for c in allowed}
        moves: dict[str, dict[int, str]] = {state: {} for state in self.grammar}
        texts = tokenizer.batch_decode([[i] for i in range(len(tokenizer))], clean_up_tokenization_spaces=False)
        for token, text in enumerate(texts):
            if text and set(text) <= alphabet:
                for state in self.grammar:
                    target = advance(self.grammar, state, text)
                    if target is not None:
                        moves[state][token] = target
        return moves

    def forced(self, questions: Sequence[tuple[str, str, str]], batch: int = 16) -> list[Answer]:
        """Answers (source, arch, flags) questions, `batch` at a time; the model generates only the values, restricted
        to the grammar."""
        encoded = [self.encoder.encode(*q) for q in questions]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].prefix))
        answers: list[Answer] = [Answer() for _ in encoded]
        for part in _chunks(order, batch):
            for index, answer in zip(part, self._forced_batch([encoded[i] for i in part]), strict=True):
                answers[index] = answer
        return answers

    def _forced_batch(self, batch: Sequence[Encoded]) -> list[Answer]:
        import torch
        from transformers import DynamicCache

        rows = [_Row(e, list(e.prefix)) for e in batch]
        answers = [Answer(cut_lines=e.cut_lines, left_out=e.left_out, prompt_tokens=len(e.prefix)) for e in batch]
        cache, mask = DynamicCache(), torch.zeros((len(rows), 0), dtype=torch.long)
        device = self.model.device
        with torch.inference_mode():
            while not all(row.done for row in rows):
                width = max(len(row.queue) for row in rows)
                ids = torch.zeros((len(rows), width), dtype=torch.long)
                seen = torch.zeros_like(ids)
                positions = torch.zeros_like(ids)
                for r, row in enumerate(rows):
                    n = len(row.queue)
                    ids[r, :n] = torch.tensor(row.queue, dtype=torch.long)
                    seen[r, :n] = 1
                    positions[r, :n] = torch.arange(row.position, row.position + n)
                mask = torch.cat([mask, seen], dim=1)
                hidden = self.model.get_decoder()(
                    input_ids=ids.to(device),
                    attention_mask=mask.to(device),
                    position_ids=positions.to(device),
                    past_key_values=cache,
                    use_cache=True,
                ).last_hidden_state
                last = torch.tensor([max(0, len(row.queue) - 1) for row in rows])
                logits = self.model.get_output_embeddings()(hidden[torch.arange(len(rows)), last]).float().cpu()
                for row, answer, scores in zip(rows, answers, logits, strict=True):
                    row.position += len(row.queue)
                    row.queue = []
                    if not row.done:
                        self._choose(row, answer, scores)
        return answers

    def _choose(self, row: _Row, answer: Answer, scores: Any) -> None:
        """Takes the best-scored token that the grammar allows, or ends the value and queues the next literal."""
        import torch

        allowed = self.moves[row.state]
        tokens = list(allowed)
        literal = row.encoded.literals[row.value]
        if row.state in self.final:
            tokens.append(literal[0])
        picked = tokens[int(torch.argmax(scores[torch.tensor(tokens)]))]
        if picked in allowed:
            row.state = allowed[picked]
            row.text += self.encoder.tokenizer.decode([picked])
            row.queue = [picked]
            answer.generated_tokens += 1
            if row.state in self.final and not self.moves[row.state]:
                self._end_value(row, answer)
        else:
            self._end_value(row, answer)

    def _end_value(self, row: _Row, answer: Answer) -> None:
        answer.values[row.encoded.order[row.value]] = row.text
        row.queue = row.queue + row.encoded.literals[row.value]
        row.value, row.state, row.text = row.value + 1, "start", ""
        if row.value == len(row.encoded.order):
            row.done, row.queue = True, []

    def free(self, questions: Sequence[tuple[str, str, str]], batch: int = 16, new_tokens: int = 400) -> list[str]:
        """Answer texts by greedy decoding without constraints (to measure the share of valid JSON).

        At most `new_tokens` tokens are generated per answer.
        """
        encoded = [self.encoder.encode(*q) for q in questions]
        prompts = [e.prefix[: len(e.prefix) - e.answer_head] for e in encoded]
        # At most twice the length of a correct answer; a longer one is not valid anyway.
        longest = max((e.answer_head + sum(map(len, e.literals)) + 6 * len(e.order) for e in encoded), default=0)
        answers: list[str] = []
        for part in _chunks(range(len(prompts)), batch):
            answers += self._free_batch([prompts[i] for i in part], min(new_tokens, 2 * longest))
        return answers

    def continued(self, prompt: list[int], most: int) -> tuple[str, int]:
        """The greedy continuation of a prompt by at most `most` tokens, and how many tokens it has."""
        import torch

        tokenizer = self.encoder.tokenizer
        ids = torch.tensor([prompt], device=self.model.device)
        with torch.inference_mode():
            out = self.model.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                max_new_tokens=most,
                do_sample=False,
                pad_token_id=tokenizer.pad_token_id,
                eos_token_id=tokenizer.eos_token_id,
            )
        written = out[0][len(prompt) :]
        return str(tokenizer.decode(written, skip_special_tokens=True)), len(written)

    def _free_batch(self, prompts: Sequence[list[int]], new_tokens: int) -> list[str]:
        import torch

        tokenizer, width = self.encoder.tokenizer, max(map(len, prompts))
        pad = tokenizer.pad_token_id
        ids = torch.tensor([[pad] * (width - len(p)) + p for p in prompts], device=self.model.device)
        mask = torch.tensor([[0] * (width - len(p)) + [1] * len(p) for p in prompts], device=self.model.device)
        with torch.inference_mode():
            out = self.model.generate(
                input_ids=ids,
                attention_mask=mask,
                max_new_tokens=new_tokens,
                do_sample=False,
                pad_token_id=pad,
                eos_token_id=tokenizer.eos_token_id,
            )
        return [str(tokenizer.decode(row[width:], skip_special_tokens=True)) for row in out]


def _chunks(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
