"""The trained language model behind `/v1/chat/completions`; loaded at its first use."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hipsynth.synth.core.errors import BadInput
from hipsynth.training.models.predict import Predictor


@functools.cache
def model_of(folder: str) -> Predictor:
    """Raises Missing without a finished model there or without torch, BadInput if it is damaged."""
    return Predictor.load(Path(folder))


def answer(folder: str, messages: Sequence[dict[str, str]], most: int) -> dict[str, Any]:
    """The model's greedy answer to chat messages of at most `most` tokens. Raises BadInput for messages that leave no
    room in the model's context."""
    decoder = model_of(folder).decoder
    prompt = decoder.encoder.ids(decoder.encoder.chat(messages))
    room = decoder.encoder.context - len(prompt)
    if room <= 0:
        raise BadInput(
            f"the messages are {len(prompt)} tokens long",
            cause=f"the model reads {decoder.encoder.context}",
            remedy="send a shorter text",
            reason="too_long",
        )
    wanted = min(most, room)
    text, written = decoder.continued(prompt, wanted)
    return {
        "content": text,
        "finish": "length" if written >= wanted else "stop",
        "prompt": len(prompt),
        "written": written,
    }
