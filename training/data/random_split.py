"""A pool of samples as the paper's: renamed copies beside their originals, split at random."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.program import Program, iter_programs
from hipsynth.source.arguments import run_text
from hipsynth.training.data.dataset import TEST_PARTS, LabelledSample, hash_share

VALID_SHARE = 0.01  # of the pool: enough to see a loss
TEST_SHARE = 0.10


def add_copies(samples: Sequence[LabelledSample], copies: Path) -> list[LabelledSample]:
    """The samples, and one more for each with every renamed copy of its program in a folder of `synth augment`.

    A copy compiles to its original's machine code apart from names, so it has the original's label. Raises BadInput if
    no copy belongs to a sample.
    """
    by_lineage: dict[str, list[Program]] = defaultdict(list)
    for program in iter_programs(copies):
        by_lineage[program.lineage].append(program)
    copied = [
        replace(sample, program_id=program.id, text=run_text(program.text, sample.arguments))
        for sample in samples
        for program in by_lineage[sample.lineage]
        if program.id != sample.program_id
    ]
    if not copied:
        raise BadInput(
            f"{copies}: no renamed copy of the corpus' programs",
            remedy="make copies of the folder that the corpus was profiled from, with `synth augment`",
        )
    return [*samples, *copied]


def split_at_random(samples: Iterable[LabelledSample]) -> dict[str, list[LabelledSample]]:
    """Splits a pool as the paper does: each sample by itself, so a test sample's program is trained on under other
    names or flags. The parts are named as by dataset.split_samples: `train`, `valid` and `random`; others are empty."""
    parts: dict[str, list[LabelledSample]] = {name: [] for name in ("train", "valid", *TEST_PARTS)}
    for sample in sorted(samples, key=lambda s: (s.key, s.kernel)):
        share = hash_share(f"at-random:{sample.key}")
        part = "random" if share < TEST_SHARE else "valid" if share < TEST_SHARE + VALID_SHARE else "train"
        parts[part].append(sample)
    return parts
