"""Model folders: they load with plain transformers, and say what they are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import needs
import pytest
import training_corpus as made

from hipsynth.training.models.model_card import CARD, PURPOSES, USES, card_text
from hipsynth.training.models.model_record import RECORD, ModelRecord, model_record
from hipsynth.training.models.train import train_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs.package("torch")
    out = tmp_path_factory.mktemp("card") / "model"
    train_model(out, made.toy_config(), out, samples=made.samples(8, 1))
    return out


def test_a_trained_folder_loads_with_plain_transformers(folder: Path) -> None:
    transformers: Any = needs.package("transformers")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder)
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tokenizer.apply_chat_template([{"role": "user", "content": "hello"}], return_tensors="pt", return_dict=True)
    assert model(**ids).logits.shape[-1] >= len(tokenizer)
    assert (folder / "model.safetensors").is_file()


def test_the_card_states_what_the_record_holds(folder: Path) -> None:
    card, record = (folder / CARD).read_text(), model_record(folder)
    assert record is not None and (folder / RECORD).stat().st_mtime_ns >= (folder / CARD).stat().st_mtime_ns
    assert card.startswith("---\nlibrary_name: transformers\n")
    for text in (f"{record['parameters']:,}", f"{record['steps']:,} |", "from scratch", "synth predict kernel.hip"):
        assert text in card
    assert f"{record['train_loss']:.3f}" in card


def test_a_card_of_every_task_names_its_base_and_use() -> None:
    for task in PURPOSES:
        record: ModelRecord = {"task": task, "base": "smollm2", "config": {"name": "x"}, "format": "sig3", "context": 8}
        text = card_text("m", record, "1 May 2026")
        assert "base_model: smollm2" in text and USES[task] in text and "1 May 2026" in text
        assert "loss" not in text.partition("| | |")[2].partition("\n\n")[0]
