"""Which programs of a corpus are relatives, so that none is trained on and another tested with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hipsynth.source.canonical_text import canonical_id
from hipsynth.source.skeletons import control_skeleton


def split_keys(lineages: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    """What the split of each row goes by: the control skeleton of its lineage's base program, as in a release, so that
    programs drawn independently but alike are relatives, too. `texts`: of the corpus' programs by id; where the base is
    not among them (releases, problems of language models), it is the lineage."""
    keys = {lineage: control_skeleton(texts[lineage]) for lineage in set(lineages) if texts.get(lineage)}
    return [keys.get(lineage, lineage) for lineage in lineages]


def find_duplicates(splits: Sequence[str], texts: Sequence[str], codes: Sequence[str]) -> list[bool]:
    """Whether each row, by its split, is not of "train" but has the text, apart from names, or the machine code of one
    that is. Codes are hashes; "" where the code is not known."""
    rows = list(zip(splits, map(canonical_id, texts), codes, strict=True))
    trained_texts = {text for split, text, _ in rows if split == "train"}
    trained_codes = {code for split, _, code in rows if split == "train"} - {""}
    return [split != "train" and (text in trained_texts or code in trained_codes) for split, text, code in rows]
