"""Flattened and renamed copies of a program, made in this process."""

from __future__ import annotations

from hipsynth.source.parse import ParseConfig
from hipsynth.synth.frontend.comments_and_strings import DEFAULT_TEXTS, Texts
from hipsynth.synth.frontend.make_copies import (
    AugmentInput,
    AugmentResult,
    CopyFailure,
    rename_copies,
    self_contained,
    with_base,
)


def make_copies(
    item: AugmentInput, copies: int, seed: int, config: ParseConfig, texts: Texts = DEFAULT_TEXTS
) -> AugmentResult:
    """Makes `copies` renamed copies of the flattened base program; includes the base if flattening changed it."""
    base = self_contained(item, config)
    if isinstance(base, CopyFailure):
        return AugmentResult((), (base,))
    return with_base(item, base, rename_copies(item.name, base, range(1, copies + 1), seed, config, texts))
