"""Decodes answers: with a forced skeleton and a grammar for values (always valid), or greedily without constraints.

The values of a stage (Encoder.stages) are decoded side by side as branches of one sequence: a branch sees the question,
earlier stages and itself. A model that was trained without stages has one value per stage, which is the usual order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hipsynth.training.data import auxiliary
from hipsynth.training.data.encode import HIDDEN, EncodedQuestion, Encoder
from hipsynth.training.data.number_formats import Automaton, number_format, word_automaton

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
class _Branch:
    """One value being decoded: its index in the answer's order, where its next token goes, and its grammar's state."""

    slot: int
    stage: int
    number: int
    position: int
    state: str = "start"
    text: str = ""
    done: bool = False


@dataclass
class _Row:
    """State of one answer in a batch. `pending`: (token, stage, branch, position) of tokens that the model has not
    read; `last`: the index in `pending` after which each open branch goes on."""

    encoded: EncodedQuestion
    answer: DecodedAnswer
    pending: list[tuple[int, int, int, int]]
    start: int
    stage: int = 0
    branches: list[_Branch] = field(default_factory=list)
    last: dict[int, int] = field(default_factory=dict)

    def put(self, branch: _Branch, tokens: Sequence[int]) -> None:
        """Queues tokens at the end of a branch."""
        for token in tokens:
            self.pending.append((token, branch.stage, branch.number, branch.position))
            branch.position += 1
        self.last[branch.number] = len(self.pending) - 1

    def begin(self, slots: Sequence[int]) -> None:
        """Opens the next stage's branches, each with the text that precedes its value."""
        self.start = max((branch.position for branch in self.branches), default=self.start)
        self.stage += 1
        self.branches = [_Branch(slot, self.stage, number, self.start) for number, slot in enumerate(slots)]
        self.last = {}
        for branch in self.branches:
            self.put(branch, self.encoded.literals[branch.slot - 1] if branch.slot else ())


Moves = dict[str, dict[int, str]]  # grammar state -> {allowed token id: next state}


class AnswerDecoder:
    """Decodes answers with a causal LM. Decoding is greedy, so deterministic for given weights."""

    def __init__(self, model: PreTrainedModel, encoder: Encoder) -> None:
        self.model = model.eval()
        self.encoder = encoder
        self.stages = encoder.stages
        texts = encoder.tokenizer.batch_decode(
            [[i] for i in range(len(encoder.tokenizer))], clean_up_tokenization_spaces=False
        )
        number = number_format(encoder.fmt)
        grammars = {"": (number.automaton, number.final)}
        if encoder.options.auxiliary:
            grammars |= {key: word_automaton(choices) for key, choices in auxiliary.CHOICES.items()}
        self.final = {key: final for key, (_, final) in grammars.items()}
        self.moves = {key: _token_moves(automaton, texts) for key, (automaton, _) in grammars.items()}

    def forced(self, questions: Sequence[tuple[str, str, str]], batch: int = 16) -> list[DecodedAnswer]:
        """Answers (source, arch, flags) questions, `batch` at a time; the model generates only the values, restricted
        to the grammar."""
        encoded = [self.encoder.encode(*q) for q in questions]
        order = sorted(range(len(encoded)), key=lambda i: len(encoded[i].prefix))
        answers: list[DecodedAnswer] = [DecodedAnswer() for _ in encoded]
        for part in _split_chunks(order, batch):
            for index, answer in zip(part, self._forced_batch([encoded[i] for i in part]), strict=True):
                answers[index] = answer
        return answers

    def _forced_batch(self, batch: Sequence[EncodedQuestion]) -> list[DecodedAnswer]:
        import torch

        rows = [self._make_row(encoded) for encoded in batch]
        session = _Session(self.model, len(rows))
        with torch.inference_mode():
            while any(row.last for row in rows):
                for row, scores in zip(rows, session.read(rows), strict=True):
                    self._advance_branches(row, scores)
        return [row.answer for row in rows]

    def _make_row(self, encoded: EncodedQuestion) -> _Row:
        size = len(encoded.prefix)
        answer = DecodedAnswer(
            fmt=self.encoder.fmt, cut_lines=encoded.cut_lines, left_out=encoded.left_out, prompt_tokens=size
        )
        row = _Row(encoded, answer, [(token, 0, 0, at) for at, token in enumerate(encoded.prefix)], size)
        row.begin(self.stages[0])
        return row

    def _advance_branches(self, row: _Row, scores: Mapping[int, torch.Tensor]) -> None:
        """Gives each open branch its next token; after the last one of a stage, opens the next stage."""
        row.pending, row.last = [], {}
        for number, logits in scores.items():
            self._choose_token(row, row.branches[number], logits)
        if row.branches and all(branch.done for branch in row.branches):
            if row.stage < len(self.stages):
                row.begin(self.stages[row.stage])
            else:
                row.branches = []

    def _choose_token(self, row: _Row, branch: _Branch, scores: torch.Tensor) -> None:
        """Takes the best-scored token that the grammar allows, or ends the value."""
        import torch

        key = row.encoded.order[branch.slot]
        grammar = key if key in self.moves else ""
        allowed, final = self.moves[grammar][branch.state], self.final[grammar]
        tokens = list(allowed)
        if branch.state in final:
            tokens.append(row.encoded.literals[branch.slot][0])
        picked = tokens[int(torch.argmax(scores[torch.tensor(tokens)]))]
        if picked in allowed:
            branch.state = allowed[picked]
            branch.text += self.encoder.text([picked])
            row.put(branch, [picked])
            row.answer.generated_tokens += 1
            if branch.state not in final or self.moves[grammar][branch.state]:
                return
        row.answer.values[key] = branch.text
        branch.done = True
        row.last.pop(branch.number, None)

    def free(self, questions: Sequence[tuple[str, str, str]], batch: int = 16, new_tokens: int = 400) -> list[str]:
        """Answer texts by greedy decoding without constraints (to measure the share of valid JSON).

        At most `new_tokens` tokens are generated per answer.
        """
        if self.encoder.options.parallel:
            raise ValueError("a model with parallel values learns no text between them: only forced decoding exists")
        encoded = [self.encoder.encode(*q) for q in questions]
        prompts = [e.prefix[: len(e.prefix) - e.answer_head] for e in encoded]
        # At most twice the length of a correct answer; a longer one is not valid anyway.
        longest = max((e.answer_head + sum(map(len, e.literals)) + 6 * len(e.order) for e in encoded), default=0)
        answers: list[str] = []
        for part in _split_chunks(range(len(prompts)), batch):
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


class _Session:
    """The model's cache for one batch, with stage and branch of every token in it."""

    def __init__(self, model: PreTrainedModel, rows: int) -> None:
        import torch
        from transformers import DynamicCache

        self.model, self.cache = model, DynamicCache()
        self.places = torch.zeros((rows, 0, 2), dtype=torch.long)  # stage and branch of each token read

    def read(self, rows: Sequence[_Row]) -> list[dict[int, torch.Tensor]]:
        """Reads the pending tokens of all rows; returns by row the scores after each branch that goes on."""
        import torch

        width = max(len(row.pending) for row in rows)
        filler = (0, HIDDEN, 0, 0)
        table = torch.tensor([row.pending + [filler] * (width - len(row.pending)) for row in rows])
        self.places = torch.cat([self.places, table[:, :, 1:3]], dim=1)
        device = self.model.device
        hidden = self.model.get_decoder()(
            input_ids=table[:, :, 0].to(device),
            attention_mask=visibility_mask(self.places[:, :, 0], self.places[:, :, 1], width).to(device),
            position_ids=table[:, :, 3].to(device),
            past_key_values=self.cache,
            use_cache=True,
        ).last_hidden_state
        wanted = [(r, number, at) for r, row in enumerate(rows) for number, at in row.last.items()]
        picked = hidden[[r for r, _, _ in wanted], [at for _, _, at in wanted]]
        logits = self.model.get_output_embeddings()(picked).float().cpu()
        caches: list[dict[int, torch.Tensor]] = [{} for _ in rows]
        for (r, number, _), scores in zip(wanted, logits, strict=True):
            caches[r][number] = scores
        return caches


def visibility_mask(stage: torch.Tensor, branch: torch.Tensor, queries: int) -> torch.Tensor:
    """Which tokens the last `queries` ones of each row see: earlier stages, and earlier tokens of their own branch.

    `stage`, `branch`: (rows, tokens); returns a boolean mask (rows, 1, queries, tokens). Padding has the stage HIDDEN.
    """
    import torch

    size = stage.shape[1]
    order = torch.arange(size, device=stage.device)
    past = order[None, :] <= order[size - queries :, None]
    own_stage, mine = stage[:, size - queries :, None], branch[:, size - queries :, None]
    same = (stage[:, None, :] == own_stage) & (branch[:, None, :] == mine)
    return (past & ((stage[:, None, :] < own_stage) | same))[:, None]


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
