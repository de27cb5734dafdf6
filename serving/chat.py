"""The trained language model behind `/v1/chat/completions`; loaded at its first use."""

from __future__ import annotations

import functools
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.serving.documents import ChatAnswer
from hipsynth.serving.requests import ChatRequest
from hipsynth.training.models.predict import Predictor


@functools.cache
def model_of(folder: str) -> Predictor:
    """Raises MissingDependency without a finished model there or without torch, BadInput if it is damaged."""
    return Predictor.load(Path(folder))


def answer_chat(request: ChatRequest) -> ChatAnswer:
    """The model's greedy answer to chat messages of at most `max_tokens`. Raises BadInput for messages that leave no
    room in the model's context, or that its chat template refuses."""
    from jinja2 import TemplateError

    decoder = model_of(request.model_folder).decoder
    messages = [{"role": message.role, "content": message.content} for message in request.messages]
    try:
        prompt = decoder.encoder.ids(decoder.encoder.chat(messages))
    except TemplateError as error:
        remedy = "most models want user and assistant in turn"
        raise BadInput("the model's chat template refuses these messages", cause=str(error), remedy=remedy) from error
    room = decoder.encoder.context - len(prompt)
    if room <= 0:
        raise BadInput(
            f"the messages are {len(prompt)} tokens long",
            cause=f"the model reads {decoder.encoder.context}",
            remedy="send a shorter text",
            reason=Reason.TOO_LONG,
        )
    wanted = min(request.max_tokens, room)
    text, written = decoder.continue_prompt(prompt, wanted)
    return ChatAnswer(text, "length" if written >= wanted else "stop", len(prompt), written)
