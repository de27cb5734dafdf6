"""A model in this process in place of an endpoint: it reads a chat and writes the next message."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

from hipsynth.core.documents import JsonObject
from hipsynth.core.reasons import Reason
from hipsynth.synth.llm.endpoint import ChatReply, NoAnswer
from hipsynth.tuning.agent.prompts import ChatTurn
from hipsynth.tuning.reason.chat_text import TEMPLATE, brief_messages, calls_in

if TYPE_CHECKING:
    from transformers import DynamicCache

MOST_ANSWER = 200  # tokens: a thought and a call


@dataclass
class Turn:
    """What the model read and wrote in one turn, as token ids, with the log-probability of what it wrote."""

    read: list[int]
    wrote: list[int]
    logprobs: list[float]


@dataclass
class LocalModel:
    """`context`: tokens that the model may read and write; older results of tools are dropped to fit. `temperature` 0
    takes the likeliest tokens. `turns` holds what was read and written since the last clear()."""

    model: Any  # of transformers, as the tokenizer: typed in part only
    tokenizer: Any
    context: int = 4096
    temperature: float = 0.0
    most: int = MOST_ANSWER
    turns: list[Turn] = field(default_factory=list)
    seen: int = 0  # messages of the chat that the last turn answered
    _known: list[int] = field(default_factory=list)  # the tokens of which `_cache` has keys and values
    _cache: DynamicCache | None = None

    def __post_init__(self) -> None:
        self.tokenizer.chat_template = TEMPLATE

    def ask(self, body: Mapping[str, object]) -> ChatReply:
        """The answer to a chat in the form of chat completions. Raises NoAnswer for one that does not fit.

        A chat that goes on reads the tokens of the turn before again, as the model wrote them."""
        messages = brief_messages(cast(Sequence[ChatTurn], body["messages"]))
        ids = self._continue_chat(messages) or self._fit_to_context(
            messages, cast(Sequence[JsonObject], body.get("tools") or ())
        )
        wrote, logprobs = self._write_answer(ids)
        self.turns.append(Turn(ids, wrote, logprobs))
        self.seen = len(messages)
        text = self.tokenizer.decode(wrote, skip_special_tokens=True)
        before = sum(len(message.get("tool_calls", ())) for message in messages)
        reply_text, calls = calls_in(text, before)
        return ChatReply(reply_text, "stop", "local", len(ids), len(wrote), text, calls)

    def clear(self) -> None:
        """Forgets the chat, and the cache that was computed with earlier weights."""
        self.turns.clear()
        self.seen = 0
        self._known, self._cache = [], None

    def _continue_chat(self, messages: Sequence[ChatTurn]) -> list[int]:
        """The last turn and what was said since; empty for another chat, or if that does not fit."""
        if not self.turns or len(messages) <= self.seen + 1:
            return []
        last, news = self.turns[-1], messages[self.seen + 1 :]
        text = self.tokenizer.apply_chat_template(list(news), tokenize=False, add_generation_prompt=True)
        end = [] if last.wrote[-1:] == [self.end] else [self.end]
        prompt_ids = self.tokenizer("\n" + text, add_special_tokens=False)["input_ids"]
        ids = [*last.read, *last.wrote, *end, *prompt_ids]
        return ids if len(ids) + self.most <= self.context else []

    @property
    def end(self) -> int:
        return int(self.tokenizer.convert_tokens_to_ids("<|im_end|>"))

    def _fit_to_context(self, messages: Sequence[ChatTurn], tools: Sequence[JsonObject]) -> list[int]:
        kept_messages = [message.copy() for message in messages]
        olds = [message for message in kept_messages[:-1] if message["role"] == "tool"]
        while True:
            ids: list[int] = self.tokenizer.apply_chat_template(
                kept_messages, tools=list(tools), add_generation_prompt=True, return_dict=True
            )["input_ids"]
            if len(ids) + self.most <= self.context:
                return ids
            if not olds:
                raise NoAnswer(Reason.TOO_LONG, f"the chat has {len(ids)} tokens, and the model reads {self.context}")
            olds.pop(0)["content"] = "[left out]"

    def _write_answer(self, ids: list[int]) -> tuple[list[int], list[float]]:
        import torch

        device = next(self.model.parameters()).device
        self._crop_cache(ids)
        sampled: dict[str, Any] = {"do_sample": False}
        if self.temperature > 0:
            sampled = {"do_sample": True, "temperature": self.temperature, "top_k": 0, "top_p": 1.0}
        with torch.no_grad():
            generated = self.model.generate(
                torch.tensor([ids], device=device),
                attention_mask=torch.ones((1, len(ids)), dtype=torch.long, device=device),
                max_new_tokens=self.most,
                eos_token_id=self.end,
                pad_token_id=self.end,
                past_key_values=self._cache,
                use_cache=True,
                return_dict_in_generate=True,
                output_logits=True,
                **sampled,
            )
        wrote = generated.sequences[0, len(ids) :].tolist()
        self._known = [*ids, *wrote[:-1]]
        rows = torch.stack([row[0] for row in generated.logits]).float() / (self.temperature or 1.0)
        chosen = torch.log_softmax(rows, dim=-1)[range(len(wrote)), wrote]
        return wrote, chosen.tolist()

    def _crop_cache(self, ids: Sequence[int]) -> None:
        """Leaves in the cache what the tokens begin with; the last one is always read again."""
        from transformers import DynamicCache

        pairs = enumerate(zip(self._known, ids[:-1], strict=False))
        same = next((at for at, (token, other) in pairs if token != other), min(len(self._known), len(ids) - 1))
        if self._cache is None:
            self._cache = DynamicCache(config=self.model.config)
        elif same < len(self._known):
            self._cache.crop(same - len(self._known))  # a negative number is of tokens to remove

    def close(self) -> None:
        """As an endpoint's client."""
