"""Decodes answers: with a forced skeleton and a grammar for values (always valid), or greedily without constraints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hipsynth.training.data.encode import EncodedQuestion, Encoder
from hipsynth.training.data.number_formats import START, Automaton, number_format

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel


def advance_automaton(grammar: Automaton, state: str, text: str) -> str | None:
    """The state after reading `text` from `state`, or None if the grammar does not accept it."""
    for character in text:
        following = [target for allowed, target in grammar[state] if character in allowed]
        if not following:
            return None
        state = following[0]
    return state


@dataclass
class DecodedAnswer:
    """One decoded answer: value text by key, its number format, source lines cut or left out, tokens read and
    generated."""

    values: dict[str, str] = field(default_factory=dict)
    fmt: str = "sig3"
    cut_lines: int = 0
    left_out: int = 0
    prompt_tokens: int = 0
    generated_tokens: int = 0


@dataclass
class _Row:
    """State of one answer in a batch: the value being written (its index in the answer's order, its text so far, its
    grammar's state), and `pending`, the tokens that the model has not read; none are left when the answer ends."""

    encoded: EncodedQuestion
    answer: DecodedAnswer
    pending: list[int]
    slot: int = 0
    text: str = ""
    state: str = START


Moves = dict[str, dict[int, str]]  # grammar state -> {allowed token id: next state}


class AnswerDecoder:
    """Decodes answers with a causal LM. Decoding is greedy, so deterministic for given weights."""

    def __init__(self, model: PreTrainedModel, encoder: Encoder) -> None:
        self.model = model.eval()
        self.encoder = encoder
        texts = encoder.tokenizer.batch_decode(
            [[i] for i in range(len(encoder.tokenizer))], clean_up_tokenization_spaces=False
        )
        number = number_format(encoder.fmt)
        self.final = number.final
        self.moves = _token_moves(number.automaton, texts)

    def decode_values(self, questions: Sequence[tuple[str, str, str]], batch: int = 16) -> list[DecodedAnswer]:
        """Answers (source, arch, flags) questions, `batch` at a time; the model generates only the values, restricted
        to the grammar."""
        return self.complete([self.encoder.encode(*q) for q in questions], batch)

    def complete(self, encoded: Sequence[EncodedQuestion], batch: int = 16) -> list[DecodedAnswer]:
        """The values of encoded questions, as decode_values()."""
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].prefix))
        answers: list[DecodedAnswer] = [DecodedAnswer() for _ in encoded]
        for part in _split_chunks(order, batch):
            for index, answer in zip(part, self._decode_batch([encoded[i] for i in part]), strict=True):
                answers[index] = answer
        return answers

    def _decode_batch(self, batch: Sequence[EncodedQuestion]) -> list[DecodedAnswer]:
        import torch

        rows = [self._make_row(encoded) for encoded in batch]
        session = _Session(self.model, len(rows))
        with torch.inference_mode():
            while any(row.pending for row in rows):
                for row, scores in zip(rows, session.read([row.pending for row in rows]), strict=True):
                    if row.pending:
                        self._choose_token(row, scores)
        return [row.answer for row in rows]

    def _make_row(self, encoded: EncodedQuestion) -> _Row:
        size = len(encoded.prefix)
        answer = DecodedAnswer(
            fmt=self.encoder.fmt, cut_lines=encoded.cut_lines, left_out=encoded.left_out, prompt_tokens=size
        )
        return _Row(encoded, answer, list(encoded.prefix))

    def _choose_token(self, row: _Row, scores: torch.Tensor) -> None:
        """Takes the best-scored token that the grammar allows, or ends the value and begins the next one."""
        import torch

        allowed = self.moves[row.state]
        tokens = list(allowed)
        if row.state in self.final:
            tokens.append(row.encoded.literals[row.slot][0])
        picked = tokens[int(torch.argmax(scores[torch.tensor(tokens)]))]
        row.pending = []
        if picked in allowed:
            row.state = allowed[picked]
            row.text += self.encoder.text([picked])
            row.pending = [picked]
            row.answer.generated_tokens += 1
            if row.state not in self.final or self.moves[row.state]:
                return
        row.answer.values[row.encoded.order[row.slot]] = row.text
        row.pending += row.encoded.literals[row.slot]
        row.slot, row.text, row.state = row.slot + 1, "", START
        if row.slot == len(row.encoded.order):
            row.pending = []

    def decode_freely(
        self, questions: Sequence[tuple[str, str, str]], batch: int = 16, new_tokens: int = 400
    ) -> list[str]:
        """Answer texts by greedy decoding without constraints (to measure the share of valid JSON).

        At most `new_tokens` tokens are generated per answer.
        """
        encoded = [self.encoder.encode(*q) for q in questions]
        prompts = [e.prefix[: len(e.prefix) - e.answer_head] for e in encoded]
        # At most twice the length of a correct answer; a longer one is not valid anyway.
        longest = max((e.answer_head + sum(map(len, e.literals)) + 6 * len(e.order) for e in encoded), default=0)
        answers: list[str] = []
        for part in _split_chunks(range(len(prompts)), batch):
            answers += self._free_batch([prompts[i] for i in part], min(new_tokens, 2 * longest))
        return answers

    def continue_prompt(self, prompt: list[int], most: int) -> tuple[str, int]:
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


class _Session:
    """The model's cache for one batch whose rows read different numbers of tokens at a time."""

    def __init__(self, model: PreTrainedModel, rows: int) -> None:
        import torch
        from transformers import DynamicCache

        self.model, self.cache = model, DynamicCache()
        self.mask = torch.zeros((rows, 0), dtype=torch.long)  # 0 for the padding behind a row's tokens

    def read(self, rows: Sequence[Sequence[int]]) -> torch.Tensor:
        """Reads each row's tokens; returns the scores after each row's last one, (rows, vocabulary)."""
        import torch

        width = max(map(len, rows))
        tokens = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
        real = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
        start = self.mask.sum(dim=1, keepdim=True)
        self.mask = torch.cat([self.mask, real], dim=1)
        device = self.model.device
        hidden = self.model.get_decoder()(
            input_ids=tokens.to(device),
            attention_mask=self.mask.to(device),
            position_ids=(start + torch.arange(width)).to(device),
            past_key_values=self.cache,
            use_cache=True,
        ).last_hidden_state
        last = hidden[range(len(rows)), [max(len(row) - 1, 0) for row in rows]]
        scores: torch.Tensor = self.model.get_output_embeddings()(last).float().cpu()
        return scores


def _token_moves(grammar: Automaton, texts: Sequence[str]) -> Moves:
    """The moves of every token of the vocabulary, by its text."""
    alphabet = {c for arcs in grammar.values() for allowed, _ in arcs for c in allowed}
    moves: Moves = {state: {} for state in grammar}
    for token, text in enumerate(texts):
        if text and set(text) <= alphabet:
            for state in grammar:
                target = advance_automaton(grammar, state, text)
                if target is not None:
                    moves[state][token] = target
    return moves


def _split_chunks(items: Sequence[int], size: int) -> Iterator[Sequence[int]]:
    for at in range(0, len(items), size):
        yield items[at : at + size]
