"""The paper's Table 4: its protocol on a pool of samples, the same predictors on programs without relatives, and rows
of text for both.

The pool is split at random over programs, flags, architectures and renamed copies, so a test sample
nearly always has a relative in training. The other sets have none. All figures are of the ten metrics of the paper's
table, in which GFLOP/s count once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.store.splits import held_out_family
from hipsynth.profiling.reports.numbers import format_percentage
from hipsynth.source.canonical_text import canonical_id
from hipsynth.training.data.dataset import LabelledSample, measure_leak, split_samples
from hipsynth.training.data.random_split import split_at_random
from hipsynth.training.evaluation.documents import PartScores
from hipsynth.training.evaluation.scores import BOUNDS, RULES, mean_within, score_metrics, shares_by
from hipsynth.training.models.baselines import (
    Disassemble,
    GradientBoosting,
    MedianBaseline,
    NearestNeighbour,
    cached_disassembly,
)

# The paper's Table 4: percent of predictions within 2, 4, 6, 8 and 10 %.
PAPER = {
    "L1_Cache_Hit_Rate": (89.9, 91.7, 92.9, 93.6, 94.1),
    "L2_Cache_Hit_Rate": (87.3, 91.5, 92.8, 93.4, 94.0),
    "L1_Cache_Bandwidth": (73.8, 82.3, 87.1, 89.5, 90.8),
    "L2_Cache_Bandwidth": (73.5, 82.5, 87.3, 90.3, 91.7),
    "L2_Fabric_Read_BW": (76.5, 85.0, 89.5, 91.5, 92.9),
    "L2_Fabric_Write_BW": (81.6, 85.3, 90.8, 92.9, 93.8),
    "L1_Cache_Arithmetic_Intensity": (99.8, 99.8, 99.8, 99.8, 99.8),
    "L2_Cache_Arithmetic_Intensity": (99.4, 99.4, 99.4, 99.4, 99.4),
    "HBM_Arithmetic_Intensity": (98.2, 98.2, 98.2, 98.2, 98.2),
    "HBM_GFLOPS": (84.5, 87.5, 89.8, 91.0, 91.7),
}
RANDOM = "random"
UNSEEN = ("lineage", "families", "handwritten", "real")
NEAREST, PRINTED = "nearest neighbour", "the label itself, in three decimals"
Predicted = Sequence[Mapping[str, float | None]]


def pool_of(samples: Sequence[LabelledSample]) -> list[LabelledSample]:
    """The samples of a pool without the families that other tests hold out, so that they stay unseen."""
    return [sample for sample in samples if not held_out_family(sample.family)]


@dataclass(frozen=True)
class TestSets:
    """`train`: the pool's training part; `sets`: samples to test by RANDOM and the names of UNSEEN, none empty."""

    train: Sequence[LabelledSample]
    sets: Mapping[str, Sequence[LabelledSample]]


def collect_sets(pool: Sequence[LabelledSample], others: Sequence[LabelledSample]) -> TestSets:
    """The pool's random test part, and of `others` the parts of UNSEEN, without programs that training has under any
    names."""
    parts = split_at_random(pool)
    ids = {canonical_id(sample.text) for sample in parts["train"]}
    sets = {RANDOM: parts[RANDOM]}
    for name, samples in split_samples(others).items():
        if name in UNSEEN:
            sets[name] = [sample for sample in samples if canonical_id(sample.text) not in ids]
    return TestSets(parts["train"], {name: samples for name, samples in sets.items() if samples})


def predict_baselines(
    tests: TestSets, disassemble: Disassemble = cached_disassembly
) -> dict[str, dict[str, Predicted]]:
    """Predictions of constant, nearest neighbour and boosting, fitted on the training part, and of PRINTED, which is
    what rounding alone costs: baseline -> set -> normalised values."""
    baselines: dict[str, dict[str, Predicted]] = {}
    for baseline in (MedianBaseline(), NearestNeighbour(), GradientBoosting(disassemble)):
        baseline.fit(tests.train)
        baselines[baseline.name.replace("_", " ")] = {name: baseline.predict(part) for name, part in tests.sets.items()}
    baselines[PRINTED] = {name: [_printed_metrics(sample) for sample in part] for name, part in tests.sets.items()}
    return baselines


def _printed_metrics(sample: LabelledSample) -> dict[str, float | None]:
    return {metric: None if value is None else round(value, 3) for metric, value in sample.true_metrics().items()}


def share_code(pool: Sequence[LabelledSample]) -> Disassemble:
    """The disassembly of programs in which renamed copies have their original's, which is the same code."""
    original = {sample.lineage: sample.text for sample in pool if sample.program_id == sample.lineage}
    originals = {sample.text: original[sample.lineage] for sample in pool if sample.lineage in original}
    return lambda text, arch, flags: cached_disassembly(originals.get(text, text), arch, flags)


@dataclass(frozen=True)
class SetScores:
    """Scores on one set; `relatives` and `same_text`: shares of its samples with a relative, or their text, in
    training."""

    n: int
    relatives: float
    same_text: float
    predictors: Mapping[str, PartScores]


def score_sets(tests: TestSets, predicted: Mapping[str, Mapping[str, Predicted]]) -> dict[str, SetScores]:
    """The scores by set."""
    sets = {}
    for name, part in tests.sets.items():
        truths, near = [sample.true_metrics() for sample in part], measure_leak(tests.train, part)
        by_predictor = {who: score_metrics(tuple(PAPER), truths, by[name]) for who, by in predicted.items()}
        sets[name] = SetScores(near.n, near.share, near.same_text / near.n, by_predictor)
    return sets


def rows_of_metrics(scored: SetScores, who: str, rule: str = "within_rounded") -> list[list[str]]:
    """Table 4: for each metric and their mean the predictor's shares within each bound, the paper's beside them."""
    by_metric = scored.predictors[who].metrics
    rows = []
    for metric, paper in PAPER.items():
        cells = zip((shares_by(rule, by_metric[metric])[str(bound)] for bound in BOUNDS), paper, strict=True)
        rows.append(
            [metric.replace("_", " "), *(f"{format_percentage(value)} ({theirs:.1f})" for value, theirs in cells)]
        )
    means = [sum(paper[at] for paper in PAPER.values()) / len(PAPER) for at in range(len(BOUNDS))]
    own_means = [mean_within(scored.predictors[who], bound, rule) for bound in BOUNDS]
    last = [f"{format_percentage(value)} ({theirs:.1f})" for value, theirs in zip(own_means, means, strict=True)]
    return [*rows, ["mean", *last]]


def rows_of_sets(scores: Mapping[str, SetScores]) -> list[list[str]]:
    """One row per set and predictor: its mean share within 10 %, by each rule of scores.RULES."""
    return [
        [
            name,
            str(scored.n),
            format_percentage(scored.relatives),
            who,
            *(format_percentage(mean_within(by, 10, r)) for r in RULES),
        ]
        for name, scored in scores.items()
        for who, by in scored.predictors.items()
    ]
