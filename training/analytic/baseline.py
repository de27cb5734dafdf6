"""The analytic predictor as evaluation sees it: fitted on training samples, asked for samples."""

from __future__ import annotations

import os
from collections.abc import Sequence

from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.analytic.examples import build_examples, preview_samples
from hipsynth.training.analytic.model import AnalyticModel, CorrectedPrediction
from hipsynth.training.analytic.preview_journal import PreviewFeatures, PreviewJournal
from hipsynth.training.data.dataset import LabelledSample, normalise_all

Prediction = dict[str, float | None]
LaunchKey = tuple[str, str, tuple[int, ...], tuple[int, ...]]


def launch_key(sample: LabelledSample) -> LaunchKey:
    """What a label is of: its run, its kernel, and the shape of its launches, which surveys keep apart."""
    return sample.key, sample.kernel, sample.facts.grid, sample.facts.block


class AnalyticBaseline:
    """Previews and their learned correction; None for samples that have no preview."""

    name = "analytic"
    about = "a sample of work-groups interpreted and scaled by the timing model, then corrected by gradient boosting"

    def __init__(
        self, model: AnalyticModel | None = None, workers: int = 0, journal: PreviewJournal | None = None
    ) -> None:
        self.model, self.workers, self.journal = model, workers or os.cpu_count() or 1, journal
        self._previews: dict[LaunchKey, PreviewFeatures | None] = {}

    def fit(self, train: Sequence[LabelledSample]) -> None:
        """Raises BadInput if too few samples have a preview."""
        self.model = AnalyticModel.fit(build_examples(train, self.previews(train)), {"samples": len(train)})

    def previews(self, samples: Sequence[LabelledSample]) -> list[PreviewFeatures | None]:
        """The preview of each sample; None for those that have none."""
        new = [sample for sample in samples if launch_key(sample) not in self._previews]
        previews = preview_samples(new, self.workers, journal=self.journal)
        self._previews |= dict(zip(map(launch_key, new), previews, strict=True))
        return [self._previews[launch_key(sample)] for sample in samples]

    def corrected(self, samples: Sequence[LabelledSample]) -> list[CorrectedPrediction | None]:
        """Predictions in physical units with intervals."""
        assert self.model is not None, "fit or load first"
        previews = self.previews(samples)
        good = [(s, f) for s, f in zip(samples, previews, strict=True) if f is not None]
        rows, quantities = [f.features for _, f in good], [f.quantities for _, f in good]
        corrections = iter(self.model.predict(rows, quantities, [s.arch for s, _ in good]))
        return [None if f is None else next(corrections) for f in previews]

    def predict(self, samples: Sequence[LabelledSample]) -> list[Prediction]:
        """Metrics of each sample, all None where there is no preview."""
        missing: Prediction = dict.fromkeys(answer_ids())
        return [
            missing if answer is None else normalise_all({k: v for k, v in answer.metrics.items() if v is not None})
            for answer in self.corrected(samples)
        ]
