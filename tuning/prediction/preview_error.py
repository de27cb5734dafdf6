"""How right a preview is, judged by its features: boosted trees that know what made previews of other programs wrong.

The tool `preview` says what it expects, so that a model with tools, which reads the source, can weigh a further call.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.training.analytic.features import feature_vector
from hipsynth.training.analytic.preview_journal import PreviewFeatures
from hipsynth.training.analytic.trees import Trees, load_model, save_model
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.tuning.prediction.policy import share_within
from hipsynth.tuning.prediction.tools import label_values, preview_values

PREVIEW_ERROR = "preview_error.json.gz"  # in a folder of traces, and of a model trained on them
VERSION = 1
FOLDS = 5
ROUNDS = 200
PARAMETERS = {
    "objective": "regression",
    "learning_rate": 0.05,
    "num_leaves": 15,
    "min_data_in_leaf": 20,
    "feature_fraction": 0.7,
    "bagging_fraction": 0.8,
    "bagging_freq": 1,
    "verbosity": -1,
    "deterministic": True,
    "force_row_wise": True,
    "num_threads": 1,
    "seed": 42,
}


def preview_error_file(traces: Path) -> Path:
    """PREVIEW_ERROR of a folder of traces. Raises BadInput if there is none."""
    file = traces / PREVIEW_ERROR
    if not file.is_file():
        raise BadInput(f"{file}: no such file", remedy="run `synth traces --task predict` into that folder again")
    return file


@dataclass(frozen=True)
class JudgedPreview:
    """A sample's preview, and the share of its values that is within 10 % of the label."""

    features: Mapping[str, float]
    lineage: str
    share: float

    @classmethod
    def of(cls, sample: LabelledSample, preview: PreviewFeatures) -> JudgedPreview:
        """The preview beside the sample's label."""
        share = share_within(preview_values(preview, sample.arch), label_values(sample))
        return cls(preview.features, sample.relatives, share)


@dataclass(frozen=True)
class PreviewErrorModel:
    """Expects, of a preview, the share of its values within 10 % of an execution's. `mean`: what it expects where it
    has learned nothing; `trees`: None if it was fitted to fewer than 2 * FOLDS previews."""

    columns: Mapping[str, int]
    mean: float
    trees: Trees | None = None

    @classmethod
    def fit(cls, previews: Sequence[JudgedPreview]) -> PreviewErrorModel:
        """The model of previews whose errors are known; the same bytes for the same previews."""
        names = sorted({name for preview in previews for name in preview.features})
        columns = {name: number for number, name in enumerate(names)}
        mean = float(np.mean([preview.share for preview in previews])) if previews else 1.0
        if len(previews) < 2 * FOLDS:
            return cls(columns, mean)
        import lightgbm

        table = _feature_table(columns, [preview.features for preview in previews])
        data = lightgbm.Dataset(table, np.array([preview.share for preview in previews]), params={"verbosity": -1})
        return cls(columns, mean, Trees(lightgbm.train(PARAMETERS, data, num_boost_round=ROUNDS).model_to_string()))

    def expect_shares(self, rows: Sequence[Mapping[str, float]]) -> list[float]:
        """The expected share (0 to 1) for the features of each preview."""
        if self.trees is None or not rows:
            return [self.mean] * len(rows)
        return [float(share) for share in np.clip(self.trees.predict(_feature_table(self.columns, rows)), 0.0, 1.0)]

    def save(self, path: Path) -> None:
        """Writes the model."""
        text = None if self.trees is None else self.trees.text
        save_model(path, VERSION, {"columns": dict(self.columns), "mean": self.mean, "trees": text})

    @classmethod
    def load(cls, path: Path) -> PreviewErrorModel:
        """Raises BadInput for a file that is missing, damaged or of another version."""
        return load_model(path, VERSION, cls._from_document)

    @classmethod
    def _from_document(cls, document: Mapping[str, Any]) -> PreviewErrorModel:
        trees = None if document["trees"] is None else Trees(document["trees"])
        return cls(document["columns"], float(document["mean"]), trees)


def expect_unseen_shares(previews: Sequence[JudgedPreview]) -> list[float]:
    """What models that were fitted without a preview's lineage expect of it, one of FOLDS models for each."""
    folds = [zlib.crc32(preview.lineage.encode()) % FOLDS for preview in previews]
    shares = [0.0] * len(previews)
    for fold in sorted(set(folds)):
        model = PreviewErrorModel.fit([row for row, other in zip(previews, folds, strict=True) if other != fold])
        inside = [number for number, other in enumerate(folds) if other == fold]
        for number, share in zip(
            inside, model.expect_shares([previews[number].features for number in inside]), strict=True
        ):
            shares[number] = share
    return shares


def _feature_table(columns: Mapping[str, int], rows: Sequence[Mapping[str, float]]) -> npt.NDArray[np.float64]:
    return np.array([feature_vector(columns, row) for row in rows], dtype=np.float64)
