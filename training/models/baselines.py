"""Baselines fitted on the model's training samples: constant, nearest neighbour, gradient boosting."""

from __future__ import annotations

import math
import os
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hipsynth.core.errors import HipsynthError
from hipsynth.core.languages import TRITON, language_of
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.source.canonical_text import code_tokens, declared_names
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.data.features import build_features

SAME_NAME = 1e-5  # of a kernel, in similarity: more than rounding between vectors of one text
Prediction = dict[str, float | None]
Disassemble = Callable[[str, str, str], str | None]  # (source, arch, flags) -> llvm-objdump text


class Baseline(Protocol):
    """A predictor of normalised metrics, fitted on training samples. `predict` must not use the samples' labels."""

    name: str
    about: str

    def fit(self, train: Sequence[LabelledSample]) -> None:
        """Learns from training samples; a second call forgets the first."""

    def predict(self, samples: Sequence[LabelledSample]) -> list[Prediction]:
        """For each sample, metric -> normalised value (of the metric's range, 0..1), None if it has no answer."""
        ...


class MedianBaseline:
    """Predicts the training median of each metric for the same device and flags, else for a wider group, up to all."""

    name = "constant"
    about = "training median per device and flags; ignores the program"

    def fit(self, train: Sequence[LabelledSample]) -> None:
        """Keeps each metric's median for each group that a sample belongs to, from narrow to wide."""
        values: dict[tuple[str, ...], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
        for sample in train:
            for metric, value in sample.true_metrics().items():
                if value is not None:
                    for group in _sample_groups(sample):
                        values[group][metric].append(value)
        self.medians = {g: {m: float(np.median(v)) for m, v in by.items()} for g, by in values.items()}

    def predict(self, samples: Sequence[LabelledSample]) -> list[Prediction]:
        return [self._predict_one(sample) for sample in samples]

    def _predict_one(self, sample: LabelledSample) -> Prediction:
        medians = [self.medians[g] for g in _sample_groups(sample) if g in self.medians]
        return {m: next((by[m] for by in medians if m in by), None) for m in answer_ids()}


def _sample_groups(sample: LabelledSample) -> list[tuple[str, ...]]:
    """The groups that a sample belongs to, most specific first."""
    return [(sample.device, sample.flags), (sample.arch, sample.flags), (sample.arch,), ()]


class NearestNeighbour:
    """Predicts the labels of the training program with the most similar tokens, on the same device and flags.

    Similarity is the cosine of log-scaled, hashed counts of 1- to 3-grams of C++ tokens. Declared names are replaced
    by one placeholder, so renaming has no effect; numbers are kept. Among the kernels of one program, the one with the
    same name is taken. If the target has no training sample, the same architecture is used, then any.
    """

    name = "nearest_neighbour"
    about = "labels of the most similar training source (token n-grams), same device and flags"
    SIZE = 8192

    def fit(self, train: Sequence[LabelledSample]) -> None:
        """Keeps the samples with the vectors of their words, by group."""
        self.samples = list(train)
        self.vectors = self._make_vectors([s.text for s in train])
        self.by_group: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for index, sample in enumerate(train):
            for group in _sample_groups(sample):
                self.by_group[group].append(index)

    def predict(self, samples: Sequence[LabelledSample]) -> list[Prediction]:
        """Labels of the nearest sample by cosine similarity, in the narrowest group that has samples."""
        queries = self._make_vectors([s.text for s in samples])
        answers = []
        for sample, query in zip(samples, queries, strict=True):
            members = next(self.by_group[g] for g in _sample_groups(sample) if self.by_group.get(g))
            same_name = [self.samples[member].kernel == sample.kernel for member in members]
            similarity = self.vectors[members] @ query + SAME_NAME * np.array(same_name)
            answers.append(self.samples[members[int(np.argmax(similarity))]].true_metrics())
        return answers

    def _make_vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors: dict[str, NDArray[np.float32]] = {}
        for text in texts:
            if text not in vectors:
                vectors[text] = self._make_vector(text)
        return np.stack([vectors[text] for text in texts]) if texts else np.zeros((0, self.SIZE), np.float32)

    def _make_vector(self, text: str) -> NDArray[np.float32]:
        words = code_tokens(text)
        names = declared_names(words)
        words = ["NAME" if word in names else word for word in words]
        counts = np.zeros(self.SIZE, np.float32)
        for n in (1, 2, 3):
            for at in range(len(words) - n + 1):
                counts[zlib.crc32(" ".join(words[at : at + n]).encode()) % self.SIZE] += 1
        scaled = np.log1p(counts)
        return np.asarray(scaled / max(float(np.linalg.norm(scaled)), 1e-9), np.float32)


class GradientBoosting:
    """One LightGBM regressor per metric on static features of the source and of the compiled device code.

    It is fitted to log(value + FLOOR) with absolute error, because scores use relative errors. `without_code` counts
    builds without code features: there was no compiler, or it rejected the program.
    """

    name = "gradient_boosting"
    about = "LightGBM on source sizes, instruction mix, loops and registers of the compiled kernel"
    FLOOR = 1e-6

    def __init__(self, disassemble: Disassemble | None = None) -> None:
        self.disassemble = disassemble or cached_disassembly
        self.without_code = 0

    def fit(self, train: Sequence[LabelledSample]) -> None:
        """Fits one LightGBM model per metric to log(value + FLOOR); metrics that no sample has are left out."""
        import lightgbm

        rows = self._make_features(train)
        self.columns = sorted({name for row in rows for name in row})
        table = self._feature_table(rows)
        self.models: dict[str, Any] = {}
        truths = [s.true_metrics() for s in train]
        parameters = {
            "objective": "regression_l1",
            "learning_rate": 0.08,
            "num_leaves": 15,
            "min_data_in_leaf": max(2, min(10, len(train) // 20)),
            "verbosity": -1,
            "deterministic": True,
            "force_row_wise": True,
            "num_threads": 1,  # threads do not pay off for tables this small
            "seed": 42,
        }
        for metric in answer_ids():
            labelled = [(i, value) for i, t in enumerate(truths) if (value := t[metric]) is not None]
            if not labelled:
                continue
            targets = np.log([value + self.FLOOR for _, value in labelled])
            data = lightgbm.Dataset(table[[i for i, _ in labelled]], targets, params={"verbosity": -1})
            self.models[metric] = lightgbm.train(parameters, data, num_boost_round=200)

    def predict(self, samples: Sequence[LabelledSample]) -> list[Prediction]:
        """Metrics of each sample, None for those that training did not have."""
        if not samples:
            return []
        table = self._feature_table(self._make_features(samples))
        columns = {m: np.exp(model.predict(table)) - self.FLOOR for m, model in self.models.items()}
        return [
            {m: max(0.0, float(columns[m][i])) if m in columns else None for m in answer_ids()}
            for i in range(len(samples))
        ]

    def _make_features(self, samples: Sequence[LabelledSample]) -> list[dict[str, float]]:
        def one(sample: LabelledSample) -> dict[str, float]:
            program = sample.program_text or sample.text  # its sizes are the host's: one build for all of them
            disassembly = self.disassemble(program, sample.arch, sample.flags)
            return build_features(sample.text, sample.flags, disassembly, sample.device, sample.kernel)

        # Threads suffice because the compiler runs in child processes.
        with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
            rows = list(pool.map(one, samples))
        self.without_code += sum("code_instructions" not in row for row in rows)
        return rows

    def _feature_table(self, rows: Sequence[dict[str, float]]) -> NDArray[np.float64]:
        return np.array([[row.get(c, math.nan) for c in self.columns] for row in rows], dtype=np.float64)


def cached_disassembly(source: str, arch: str, flags: str) -> str | None:
    """The disassembly of a program's device code, from the build cache if possible; None if it does not compile."""
    from hipsynth.core.program import text_id
    from hipsynth.toolchain import compile_device

    with scratch_folder() as scratch:
        if language_of(source) == TRITON:
            return None  # its device code is compiled when it runs
        path = scratch / f"{text_id(source)}.hip"
        path.write_text(source)
        try:
            return compile_device(path, arch, flags, scratch / "out").disassembly.read_text()
        except (HipsynthError, OSError):
            return None


def all_baselines(disassemble: Disassemble | None = None) -> list[Baseline]:
    """New, unfitted baselines; `disassemble` replaces `cached_disassembly` as the source of device code."""
    return [MedianBaseline(), NearestNeighbour(), GradientBoosting(disassemble)]
