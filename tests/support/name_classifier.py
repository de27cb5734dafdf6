"""Tells original from renamed code by its identifiers: naive Bayes on identifiers and their character trigrams.

What a reader or a model could use: if it is hardly better than guessing on programs that it has not seen, names give
nothing away.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Sequence

import numpy as np

_TEXTS = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|^[ \t]*#[ \t]*include[^\n]*", re.S | re.M
)

CENTRE = " centre"  # the score that separates the two kinds; no feature has a blank


def features(text: str) -> set[str]:
    """The identifiers of a source outside comments and literals, and the trigrams of each."""
    words = set(re.findall(r"[A-Za-z_]\w*", _TEXTS.sub(" ", text)))
    return words | {f"#{part}" for word in words for part in trigrams(word)}


def trigrams(word: str) -> set[str]:
    marked = f"^{word}$"
    return {marked[i : i + 3] for i in range(len(marked) - 2)}


def accuracy(pairs: Sequence[tuple[str, str]], folds: int = 5, seed: int = 0) -> float:
    """The share of held-out texts that are told right, over all folds; `pairs` are (original, renamed)."""
    order = list(range(len(pairs)))
    random.Random(seed).shuffle(order)
    sets = [(features(original), features(renamed)) for original, renamed in pairs]
    right = 0
    for fold in range(folds):
        held_out = set(order[fold::folds])
        model = _train([sets[i] for i in order if i not in held_out])
        for i in held_out:
            right += sum(_score(model, text) > 0 for text in sets[i][1:]) + sum(
                _score(model, t) <= 0 for t in sets[i][:1]
            )
    return right / (2 * len(pairs))


def _train(pairs: Sequence[tuple[set[str], set[str]]]) -> dict[str, float]:
    """Feature -> log of how much more often renamed programs have it (Laplace smoothing)."""
    before = Counter(word for original, _ in pairs for word in original)
    after = Counter(word for _, renamed in pairs for word in renamed)
    known = [word for word in before.keys() | after.keys() if before[word] + after[word] > 1]
    counts = np.array([(after[word] + 1.0, before[word] + 1.0) for word in known])
    weights = np.log(counts[:, 0]) - np.log(counts[:, 1])
    model = dict(zip(known, weights.tolist(), strict=True))
    scores = [_score(model, text) for pair in pairs for text in pair]
    return {**model, CENTRE: float(np.median(scores))}


def _score(model: dict[str, float], text: set[str]) -> float:
    """The mean over the known features, so that the length of a program does not decide."""
    known = [model[word] for word in text if word in model]
    return sum(known) / max(1, len(known)) - model.get(CENTRE, 0.0)
