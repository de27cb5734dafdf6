"""Decoding: forced skeleton with a digit grammar (valid by construction), or free greedy decoding."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from training.encode import Encoded, Encoder

# Number grammars as automata: state -> (characters, next state); see FINAL for the states where a value may end.
DIGITS = "0123456789"
Automaton = dict[str, tuple[tuple[str, str], ...]]
GRAMMARS: dict[str, Automaton] = {
    # 0.459: one digit before the point, three after
    "fixed3": {
        "start": ((DIGITS, "point"),),
        "point": ((".", "d1"),),
        "d1": ((DIGITS, "d2"),),
        "d2": ((DIGITS, "d3"),),
        "d3": ((DIGITS, "end"),),
        "end": (),
    },
    # 4.59e-01: three significant digits and a two-digit exponent
    "sig3": {
        "start": ((DIGITS, "point"),),
        "point": ((".", "d1"),),
        "d1": ((DIGITS, "d2"),),
        "d2": ((DIGITS, "e"),),
        "e": (("e", "sign"),),
        "sign": (("+-", "x1"),),
        "x1": ((DIGITS, "x2"),),
        "x2": ((DIGITS, "end"),),
        "end": (),
    },
}
FINAL = {"fixed3": frozenset({"end"}), "sig3": frozenset({"end"})}


def advance(grammar: Automaton, state: str, text: str) -> str | None:
    """The state after reading `text`, or None where the grammar forbids it."""
    for character in text:
        following = [target for allowed, target in grammar[state] if character in allowed]
        if not following:
            return None
        state = following[0]
    return state


@dataclass
class Answer:
    """One decoded answer: value text by metric id, lines cut from the source, tokens read and generated."""

    values: dict[str, str] = field(default_factory=dict)
    cut_lines: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0


@dataclass
class _Row:
    """Where one answer of a batch stands: tokens waiting to be fed, the value being written, the grammar state."""

    encoded: Encoded
    queue: list[int]
    value: int = 0
    state: str = "start"
    text: str = ""
    done: bool = False
    position: int = 0


class Decoder:
    """Writes answers with a causal LM. Greedy, so deterministic for given weights."""

    def __init__(self, model: Any, encoder: Encoder) -> None:
        self.model = model.eval()
        self.encoder = encoder
        self.grammar = GRAMMARS[encoder.fmt]
        self.final = FINAL[encoder.fmt]
        self.moves = self._token_moves()

    def _token_moves(self) -> dict[str, dict[int, str]]:
        """For each grammar state the tokens it allows and where they lead; by the text of every vocabulary entry."""
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
        """Answers to (source, arch, flags) questions; only the value characters are generated, inside the grammar."""
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
        answers = [Answer(cut_lines=e.cut_lines, prompt_tokens=len(e.prefix)) for e in batch]
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
        """Picks the best token that the grammar allows, or ends the value and queues the next literal."""
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

    def free(self, source: str, arch: str, flags: str, max_new_tokens: int = 400) -> str:
        """Greedy decoding with no constraint: the answer's text as the model writes it (to measure valid JSON)."""
        import torch

        encoded = self.encoder.encode(source, arch, flags)
        ids = encoded.prefix[: len(encoded.prefix) - encoded.answer_head]
        budget = min(max_new_tokens, self.encoder.context - len(ids))
        with torch.inference_mode():
            out = self.model.generate(
                input_ids=torch.tensor([ids], device=self.model.device),
                attention_mask=torch.ones((1, len(ids)), dtype=torch.long, device=self.model.device),
                max_new_tokens=max(1, budget),
                do_sample=False,
                pad_token_id=self.encoder.tokenizer.pad_token_id,
                eos_token_id=self.encoder.tokenizer.eos_token_id,
            )
        return str(self.encoder.tokenizer.decode(out[0, len(ids) :], skip_special_tokens=True))


def _chunks(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
