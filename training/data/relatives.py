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


def find_duplicates(
    splits: Sequence[str], keys: Sequence[str], texts: Sequence[str], codes: Sequence[str]
) -> list[bool]:
    """Whether each row, by its split, is not of "train" but has relatives (by the keys of split_keys()), the text,
    apart from names, or the machine code of one that is; or, if it is not of "validation" either, of one there: the
    default predictor learns from both. Codes are hashes; "" where the code is not known."""
    identities = [_identify_row(*row) for row in zip(keys, texts, codes, strict=True)]
    rows = list(zip(splits, identities, strict=True))
    trained, validated = (
        {identity for split, row in rows if split == name for identity in row} for name in ("train", "validation")
    )
    learned = trained | validated
    return [
        split != "train" and not row.isdisjoint(trained if split == "validation" else learned) for split, row in rows
    ]


def _identify_row(key: str, text: str, code: str) -> frozenset[tuple[str, str]]:
    """What a row shares with its duplicates."""
    identities = {("relatives", key), ("text", canonical_id(text)), ("code", code)}
    return frozenset(identity for identity in identities if identity[1])
