"""What every predictor must do: the analytic one, and a language model.

A predictor is loaded from a folder and asked with (source, arch, flags, device); its document has one shape, its errors
one kind, whatever it reads. Accuracy is no matter here: the language model is trained briefly.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import needs
import pytest
import training_corpus as made

from hipsynth.core.documents import document_json
from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency, UsageError
from hipsynth.profiling.metrics.definitions import paper_ids
from hipsynth.training.analytic.predict import PREDICTOR, SHIPPED, AnalyticPredictor
from hipsynth.training.models.model_record import RECORD
from hipsynth.training.models.predict import Predictor
from hipsynth.training.models.train import train_model

SOURCE = made.SOURCE.format(
    kernel="axpy",
    a="src",
    b="dst",
    dtype="float",
    n=65536,
    block=256,
    body=made.BODIES["fma"].format(steps=3),
    own_statement=made.own_statement_of(0),
)
TARGET = ("gfx942", "-O3", "mi300x")
KERNEL: dict[str, type | tuple[type, ...]] = {
    "name": str,
    "instance": str,
    "metrics": dict,
    "duration_ns": (float, int, type(None)),
    "intervals": dict,
    "abstained": bool,
    "reason": str,
    "reason_code": str,
    "assumed": str,
    "out_of_bounds": int,
    "grid": (list, type(None)),
    "block": (list, type(None)),
    "launches": int,
    "bottleneck": str,
    "verdict": str,
    "why": list,
    "occupancy": (float, type(None)),
}
LANGUAGE_MODEL = "language model"


@dataclass(frozen=True)
class PredictorCase:
    """One predictor: how to load it, and a folder that holds it."""

    name: str
    load: Callable[[Path], Any]
    folder: Path
    record: str  # the file whose damage must be noticed

    def document(self, source: str = SOURCE, target: tuple[str, str, str | None] = TARGET) -> dict[str, Any]:
        return document_json(self.load(self.folder).predict(source, *target).document())


@pytest.fixture(scope="module", params=["analytic", LANGUAGE_MODEL])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PredictorCase:
    name = str(request.param)
    if name == "analytic":
        folder = tmp_path_factory.mktemp("analytic")
        (folder / PREDICTOR).write_bytes((SHIPPED / PREDICTOR).read_bytes())
        return PredictorCase(name, lambda path: AnalyticPredictor.load(path / PREDICTOR), folder, PREDICTOR)
    needs.package("torch")
    folder = tmp_path_factory.mktemp("source") / "model"
    train_model(folder, made.toy_config(epochs=100), folder, samples=made.samples(12, 1))
    return PredictorCase(name, Predictor.load, folder, RECORD)


def test_a_document_has_one_shape(case: PredictorCase) -> None:
    found = json.loads(json.dumps(case.document(), allow_nan=False))
    expected = {"arch", "flags", "device", "model", "metrics", "roofline", "cut_lines", "prompt_tokens", "seconds"}
    assert set(found) == expected | {"notes", "kernels", "plot", "source"}
    assert (found["arch"], found["flags"], found["device"]) == TARGET
    assert set(found["metrics"]) <= set(paper_ids())
    assert {"roof", "share", "shares", "points"} == set(found["roofline"])
    for kernel in found["kernels"]:
        assert set(kernel) == set(KERNEL)
        for key, kind in KERNEL.items():
            assert isinstance(kernel[key], kind), key


def test_the_kernel_has_all_metrics_in_physical_units(case: PredictorCase) -> None:
    kernel = case.document()["kernels"][0]
    assert kernel["name"] == "axpy"
    values = [value for value in kernel["metrics"].values() if value is not None]
    assert set(kernel["metrics"]) == set(paper_ids())
    assert len(values) >= 10 and all(math.isfinite(value) and value >= 0 for value in values)
    assert kernel["abstained"] == bool(kernel["reason"]) == bool(kernel["reason_code"])
    for low, high in kernel["intervals"].values():
        assert 0 <= low <= high


def test_the_same_question_has_the_same_answer(case: PredictorCase) -> None:
    first, second = (dict(case.document(), seconds=0) for _ in range(2))
    assert first == second


def test_names_of_kernels_are_reported_as_the_source_spells_them(case: PredictorCase) -> None:
    assert case.document(SOURCE.replace("axpy", "renamed_copy"))["kernels"][0]["name"] == "renamed_copy"


@pytest.mark.parametrize(
    ("target", "named"),
    [
        (("gfx1100", "-O3", None), "gfx1100"),
        (("gfx942", "-fplugin=x.so", None), "-fplugin"),
        (("gfx942", "-O3", "h100"), "h100"),
    ],
)
def test_unknown_targets_are_usage_errors(case: PredictorCase, target: tuple[str, str, str | None], named: str) -> None:
    with pytest.raises(UsageError) as caught:
        case.document(target=target)
    assert named in str(caught.value)


@pytest.mark.parametrize("source", ["", "int main() { return 0; }\n", "\x00\x01", "__global__"])
def test_a_source_without_a_kernel_is_bad_input(case: PredictorCase, source: str) -> None:
    with pytest.raises(BadInput, match="no kernel"):
        case.document(source)


def test_a_long_source_is_answered_or_refused_with_a_reason(case: PredictorCase) -> None:
    long = SOURCE + "".join(f"__device__ int filler_{i}(int x) {{ return x * {i}; }}\n" for i in range(1500))
    try:
        found = case.document(long)
    except HipsynthError as error:
        assert error.remedy
    else:
        assert found["kernels"][0]["metrics"]
        assert found["cut_lines"] == 0 or any("cut" in note for note in found["notes"])


def test_a_missing_model_is_reported_with_a_remedy(case: PredictorCase, tmp_path: Path) -> None:
    with pytest.raises(MissingDependency) as caught:
        case.load(tmp_path)
    assert "synth train" in str(caught.value.remedy)


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x1f\x8b\x00", b'{"version": 1'])
def test_a_damaged_model_is_bad_input(case: PredictorCase, tmp_path: Path, damage: bytes) -> None:
    (tmp_path / case.record).write_bytes(damage)
    with pytest.raises(BadInput) as caught:
        case.load(tmp_path)
    assert caught.value.remedy
