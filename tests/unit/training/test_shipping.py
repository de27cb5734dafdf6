"""Language models that are shipped: packed weights, measured intervals, and where the model is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
import training_corpus as made

from hipsynth.core.errors import BadInput
from hipsynth.training.data.dataset import canonical_id, split_samples
from hipsynth.training.evaluation.evaluate import held_out
from hipsynth.training.models import predict
from hipsynth.training.models.base import load_trained
from hipsynth.training.models.calibrate import FEWEST, calibrate_intervals
from hipsynth.training.models.model_record import RECORD, model_record
from hipsynth.training.models.predict import DURATION_FACT, Predictor, find_model, value_intervals
from hipsynth.training.models.quantise import PACKED, pack_model
from hipsynth.training.models.train import TEXT_DIGITS, TRAINING_SET, train_model

needs.package("torch")
needs.package("transformers")

SAMPLES = made.samples(18, 2)
TOY = made.toy_config()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("ship") / "model"
    train_model(Path("corpus"), TOY, out, samples=SAMPLES)
    yield out


def record_of(model: Path) -> dict[str, Any]:
    record = model_record(model)
    assert record is not None
    return record


def packed(model: Path, out: Path) -> Path:
    """The model folder as it is shipped."""
    loaded, tokenizer = load_trained(model, record_of(model))
    pack_model(loaded, out)
    tokenizer.save_pretrained(out)
    for name in (RECORD, TRAINING_SET):
        (out / name).write_bytes((model / name).read_bytes())
    return out


def test_packed_weights_answer_nearly_alike(model: Path, tmp_path: Path) -> None:
    import torch

    out = packed(model, tmp_path / "packed")
    assert (out / PACKED).stat().st_size < 0.35 * (model / "model.safetensors").stat().st_size
    assert not (out / "model.safetensors").exists()
    whole, tokenizer = load_trained(model, record_of(model))
    small, _ = load_trained(out, record_of(out))
    ids = torch.tensor([tokenizer(SAMPLES[0].text)["input_ids"][:200]])
    with torch.no_grad():
        a, b = whole(ids).logits, small(ids).logits
    assert float((a - b).abs().max()) < 0.05 * float(a.abs().max())
    for name, weight in whole.state_dict().items():
        if weight.dim() == 2:
            rounding = (weight - small.state_dict()[name]).abs().amax(dim=1)
            assert bool((rounding <= weight.abs().amax(dim=1) / 127 * 0.501 + 1e-9).all()), name


def test_damaged_packed_weights_are_bad_input(model: Path, tmp_path: Path) -> None:
    out = packed(model, tmp_path / "packed")
    (out / PACKED).write_bytes((out / PACKED).read_bytes()[:1000])
    with pytest.raises(BadInput, match="cannot be loaded"):
        load_trained(out, record_of(out))


def test_intervals_hold_four_of_five_of_the_samples_they_were_measured_on(model: Path) -> None:
    predictor = Predictor.load(model)
    chosen = SAMPLES[: 3 * FEWEST]
    found = calibrate_intervals(predictor, chosen)
    assert (
        set(found) >= {"L2_Cache_Hit_Rate", "L1_Cache_Bandwidth"} and calibrate_intervals(predictor, chosen[:3]) == {}
    )
    name, inside, counted = "L1_Cache_Bandwidth", 0, 0
    for sample in chosen:
        value = predictor.predict(sample.text, sample.arch, sample.flags).metrics.get(name)
        if value:
            low, high = value_intervals({name: float(value)}, found)[name]
            inside, counted = inside + (low <= sample.metrics[name] <= high), counted + 1
    assert 0.75 <= inside / counted < 1


def test_ends_are_factors_or_points() -> None:
    found = value_intervals(
        {"L2_Cache_Hit_Rate": 98.0, "HBM_GFLOPS": 10.0, DURATION_FACT: None},
        {"L2_Cache_Hit_Rate": (-5.0, 5.0), "HBM_GFLOPS": (0.5, 3.0), DURATION_FACT: (0.5, 2.0)},
    )
    assert found == {"L2_Cache_Hit_Rate": (93.0, 100.0), "HBM_GFLOPS": (5.0, 30.0)}


def test_predictions_say_their_intervals(model: Path, tmp_path: Path) -> None:
    out = packed(model, tmp_path / "packed")
    record = record_of(out) | {"intervals": {"HBM_GFLOPS": [0.5, 2.0]}}
    (out / RECORD).write_text(json.dumps(record))
    document = Predictor.load(out).predict(SAMPLES[0].text, "gfx942", "-O3").document()
    value = document.metrics["HBM_GFLOPS"]
    assert document.kernels[0].intervals == {"HBM_GFLOPS": (0.5 * value, 2 * value)}


def test_the_shipped_model_is_used_where_there_is_no_other(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(predict.MODEL_VARIABLE, raising=False)
    monkeypatch.setattr(predict, "SHIPPED", model)
    assert find_model() == model
    own = tmp_path / "out" / "model"
    own.mkdir(parents=True)
    (own / RECORD).write_text("{}")
    assert find_model() == Path("out/model")


def test_what_a_base_has_learned_is_not_tested_on(model: Path, tmp_path: Path) -> None:
    """A second stage's model remembers the programs of the first, also apart from their names."""
    parts = split_samples(SAMPLES)
    second = [replace(s, text=s.text.replace("main()", "main(void)")) for s in parts["train"][:8]]
    out = tmp_path / "second"
    train_model(Path("corpus"), replace(TOY, base=str(model), max_steps=1), out, samples=[*second, *parts["lineage"]])
    known = json.loads((out / TRAINING_SET).read_text())
    first = json.loads((model / TRAINING_SET).read_text())
    assert set(first["texts"]) < set(known["texts"]) and set(first["keys"]) <= set(known["keys"])
    renamed = replace(parts["train"][-1], lineage=parts["lineage"][0].lineage, program_id="another")
    assert canonical_id(renamed.text)[:TEXT_DIGITS] in first["texts"]
    _, tested, _ = held_out(out, [*parts["lineage"], renamed])
    assert len(tested["lineage"]) == len(parts["lineage"]) and renamed not in tested["lineage"]
