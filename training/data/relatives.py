"""Which programs of a corpus are relatives, so that none is trained on and another tested with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hipsynth.source.canonical_text import canonical_id
from hipsynth.source.skeletons import relatives_key


def split_keys(lineages: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    """The relatives_key() of each row, as in a release. `texts`: of the corpus' programs by id; the base is not among
    them in releases, whose lineages are keys already, and for problems of language models."""
    keys = {lineage: relatives_key(lineage, texts.get(lineage)) for lineage in set(lineages)}
    return [keys[lineage] for lineage in lineages]


def find_duplicates(splits: Sequence[str], texts: Sequence[str], codes: Sequence[str]) -> list[bool]:
    """Whether each row, by its split, is not of "train" but has the text, apart from names, or the machine code of one
    that is. Codes are hashes; "" where the code is not known."""
    rows = list(zip(splits, map(canonical_id, texts), codes, strict=True))
    trained_texts = {text for split, text, _ in rows if split == "train"}
    trained_codes = {code for split, _, code in rows if split == "train"} - {""}
    return [split != "train" and (text in trained_texts or code in trained_codes) for split, text, code in rows]
