"""Training runs of a toy model: finished, resumed, repeated, rejected; then evaluation and prediction."""

from __future__ import annotations

import json
import math
import os
import shutil
import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import needs
import pytest
import training_corpus as made

from hipsynth.core import stop_signal
from hipsynth.core.documents import document_json, to_json
from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.core.reasons import Reason
from hipsynth.profiling.metrics.definitions import paper_ids
from hipsynth.training.data.dataset import split_samples
from hipsynth.training.evaluation.evaluate import (
    evaluate_model,
    evaluation_table,
    held_out,
    open_predictor,
    save_evaluation,
)
from hipsynth.training.models.config import config_names, load_config, parse_config
from hipsynth.training.models.model_record import model_record
from hipsynth.training.models.monitor import keep_lines
from hipsynth.training.models.predict import Predictor, prediction_table
from hipsynth.training.models.train import train_model
from hipsynth.training.models.trainer import last_checkpoint

needs.installed("torch", "transformers")

TOY = made.toy_config(max_steps=4, epochs=100, lr=1e-3, save_steps=2)
SAMPLES = made.samples(18, 2)
HAND = [made.sample(300, 0, arch, flags, "handwritten") for arch, flags in made.TARGETS]
NOWHERE = Path("corpus")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    out = tmp_path_factory.mktemp("train") / "model"
    train_model(NOWHERE, TOY, out, samples=SAMPLES)
    yield out


def weights(model: Path) -> bytes:
    return (model / "model.safetensors").read_bytes()


def test_a_finished_model_has_a_record(model: Path) -> None:
    record = model_record(model)
    assert record is not None
    assert record["status"] == "finished"
    assert record["steps"] == 4
    assert record["parameters"] < 100_000
    assert record["leak"]["lineage"] == 0.0 < record["leak"]["random"]
    assert record["backends"] == ["made-up"]
    assert not (model / "checkpoints").exists()


def test_repeating_a_finished_call_reports_finished(model: Path) -> None:
    before = weights(model)
    assert train_model(NOWHERE, TOY, model, samples=SAMPLES)["status"] == "already finished"
    assert weights(model) == before


def test_another_recipe_or_corpus_is_refused(model: Path) -> None:
    with pytest.raises(UsageError, match="other settings"):
        train_model(NOWHERE, replace(TOY, lr=2e-3), model, samples=SAMPLES)
    with pytest.raises(UsageError, match="another corpus"):
        train_model(NOWHERE, TOY, model, samples=made.samples(21, 2))


def test_an_interrupted_run_resumes_and_ends_with_the_same_weights(model: Path, tmp_path: Path) -> None:
    def interrupt(done: int, total: int, note: str) -> None:
        if done == 3:
            raise KeyboardInterrupt

    out = tmp_path / "model"
    with pytest.raises(KeyboardInterrupt):
        train_model(NOWHERE, TOY, out, interrupt, samples=SAMPLES)
    assert model_record(out) is None
    # A checkpoint that was cut short is not used.
    (out / "checkpoints" / "checkpoint-3").mkdir()
    kept = last_checkpoint(out / "checkpoints")
    assert kept is not None and kept.name == "checkpoint-2"
    seen: list[int] = []
    train_model(NOWHERE, TOY, out, lambda done, total, note: seen.append(done), samples=SAMPLES)
    assert seen == [3, 4]
    assert weights(out) == weights(model)


def test_a_signal_ends_a_run_with_a_checkpoint_of_its_last_step(
    model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stop_signal, "_received", [])
    before, recipe, out = signal.getsignal(signal.SIGINT), replace(TOY, save_steps=100), tmp_path / "model"

    def send_signal(done: int, total: int, note: str) -> None:
        if done == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train_model(NOWHERE, recipe, out, send_signal, samples=SAMPLES)
    assert stop_signal.stop_requested() and signal.getsignal(signal.SIGINT) is before
    last = last_checkpoint(out / "checkpoints")
    assert last is not None and last.name == "checkpoint-3"
    seen: list[int] = []
    train_model(NOWHERE, recipe, out, lambda done, total, note: seen.append(done), samples=SAMPLES)
    assert seen == [4] and weights(out) == weights(model)


def test_a_full_disk_is_an_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import transformers
    from safetensors import SafetensorError

    def fail(*_: object, **__: object) -> None:
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    monkeypatch.setattr(transformers.Trainer, "save_model", fail)
    with pytest.raises(BadInput) as caught:
        train_model(NOWHERE, TOY, tmp_path / "model", samples=SAMPLES)
    assert caught.value.reason == Reason.DISK_FULL


def test_a_run_that_resumes_in_a_later_epoch_ends_with_the_same_weights(tmp_path: Path) -> None:
    """Each epoch has an order of samples of its own, which does not depend on where the training began."""
    samples = [sample for sample in SAMPLES if (sample.arch, sample.flags) == made.TARGETS[0]]
    train = split_samples(samples)["train"]
    recipe = replace(TOY, batch=-(-len(train) // 3), max_steps=9, save_steps=5)  # epochs of three steps

    def interrupt(done: int, total: int, note: str) -> None:
        if done == 6:
            raise KeyboardInterrupt

    train_model(NOWHERE, recipe, tmp_path / "whole", samples=samples)
    with pytest.raises(KeyboardInterrupt):
        train_model(NOWHERE, recipe, tmp_path / "resumed", interrupt, samples=samples)
    record = train_model(NOWHERE, recipe, tmp_path / "resumed", samples=samples)
    assert record["status"] == "finished" and 0 < record["train_loss"] < 10
    assert weights(tmp_path / "resumed") == weights(tmp_path / "whole")


def test_a_folder_of_others_checkpoints_is_left_alone(tmp_path: Path) -> None:
    foreign = tmp_path / "m" / "checkpoints" / "thesis.txt"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("years of work")
    with pytest.raises(UsageError, match="other files"):
        train_model(NOWHERE, TOY, tmp_path / "m", samples=SAMPLES)
    (foreign.parent / "fingerprint").write_text("another training")
    with pytest.raises(UsageError, match="other settings"):
        train_model(NOWHERE, TOY, tmp_path / "m", samples=SAMPLES)
    assert foreign.read_text() == "years of work"


def test_adapters_want_a_base_that_is_kept(tmp_path: Path, model: Path) -> None:
    needs.package("peft")
    recipe = replace(TOY, method="lora", max_steps=1, lora_r=2)
    with pytest.raises(UsageError, match="no LoRA adapters can be trained on tiny"):
        train_model(NOWHERE, recipe, tmp_path / "none", samples=SAMPLES)
    adapters, merged = tmp_path / "adapters", tmp_path / "merged"
    train_model(NOWHERE, replace(recipe, base=str(model)), adapters, samples=SAMPLES)
    with pytest.raises(UsageError, match="it holds adapters itself"):
        train_model(NOWHERE, replace(recipe, base=str(adapters)), tmp_path / "none", samples=SAMPLES)
    train_model(NOWHERE, replace(TOY, base=str(adapters), max_steps=1), merged, samples=SAMPLES)
    assert (merged / "model.safetensors").exists() and not (merged / "adapter_config.json").exists()
    assert not (tmp_path / "none").exists()


def test_a_changed_base_makes_another_training(tmp_path: Path, model: Path) -> None:
    base, out = tmp_path / "base", tmp_path / "m"
    shutil.copytree(model, base)
    recipe = replace(TOY, base=str(base), max_steps=1)
    train_model(NOWHERE, recipe, out, samples=SAMPLES)
    assert train_model(NOWHERE, recipe, out, samples=SAMPLES)["status"] == "already finished"
    shutil.rmtree(base)
    train_model(NOWHERE, replace(TOY, max_steps=1), base, samples=SAMPLES)
    with pytest.raises(UsageError, match="other settings"):
        train_model(NOWHERE, recipe, out, samples=SAMPLES)


def test_a_model_of_another_task_predicts_nothing(tmp_path: Path, model: Path) -> None:
    for name, change in {"tools": {"task": "tools"}, "torn": {"view": None}}.items():
        shutil.copytree(model, tmp_path / name)
        record = json.loads((model / "hipsynth.json").read_text())
        (tmp_path / name / "hipsynth.json").write_text(json.dumps(record | change))
    with pytest.raises(BadInput, match="a model of the task 'tools'"):
        Predictor.load(tmp_path / "tools")
    with pytest.raises(BadInput, match="not a model record"):
        Predictor.load(tmp_path / "torn")


def test_a_resumed_run_has_one_log_line_per_logged_step(model: Path, tmp_path: Path) -> None:
    lines = [json.loads(line) for line in (model / "log.jsonl").read_text().splitlines()]
    assert [line["step"] for line in lines if "train_runtime" in line] == [4]
    path = tmp_path / "log.jsonl"
    path.write_text('{"step": 10, "loss": 2.0}\n{"step": 20, "loss": 1.5}\n{"step": 3')
    keep_lines(path, 10)
    assert path.read_text() == '{"step": 10, "loss": 2.0}\n'


def test_throughput_is_a_share_of_what_the_machine_can_do(model: Path) -> None:
    record = model_record(model)
    assert record is not None and record["tokens_per_second"] > 0
    assert 0 < record["share_of_peak"] < 1


def test_tensorboard_reads_the_log(model: Path) -> None:
    needs.package("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    board = EventAccumulator(str(model / "tensorboard"))
    board.Reload()
    assert "train_loss" in board.Tags()["scalars"]


def test_training_stops_when_the_validation_loss_rises(tmp_path: Path) -> None:
    recipe = replace(TOY, lr=50.0, warmup=0.0, max_steps=40, save_steps=2, patience=1)
    record = train_model(NOWHERE, recipe, tmp_path / "m", samples=SAMPLES)
    assert record["steps"] < 40


def test_patience_wants_samples_to_validate_with(tmp_path: Path) -> None:
    recipe = replace(TOY, patience=1)
    samples = [row for row in SAMPLES if row.lineage == SAMPLES[0].lineage]
    with pytest.raises(BadInput, match="no sample is held out"):
        train_model(NOWHERE, recipe, tmp_path / "m", samples=samples)


def test_no_training_samples_is_bad_input(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no samples in the training part"):
        train_model(NOWHERE, TOY, tmp_path / "m", samples=HAND)


def test_lora_trains_adapters_alone_and_answers(tmp_path: Path, model: Path) -> None:
    needs.package("peft")
    recipe = replace(TOY, base=str(model), method="lora", max_steps=1, lora_r=2, lora_alpha=4)
    record = train_model(NOWHERE, recipe, tmp_path / "m", samples=SAMPLES)
    assert 0 < record["trained_parameters"] < record["parameters"] / 4
    assert (tmp_path / "m" / "adapter_model.safetensors").exists()
    found = Predictor.load(tmp_path / "m").predict(SAMPLES[0].text, "gfx90a", "-O3")
    assert set(found.metrics) == set(paper_ids())


def test_a_share_of_the_held_out_programs_is_scored(model: Path) -> None:
    others = [made.sample(number, 0, *made.TARGETS[0], "handwritten") for number in range(300, 320)]
    half = evaluate_model(open_predictor(model), others, free_samples=1, share=0.5, disassemble=lambda *_: None)
    scored = {sample.program_id for sample in half.parts["handwritten"]}
    assert 4 < len(scored) < 16 and half.document.splits["handwritten"].n == len(half.parts["handwritten"])


def test_evaluation_has_the_documented_shape(model: Path, tmp_path: Path) -> None:
    found = evaluate_model(open_predictor(model), SAMPLES + HAND, free_samples=2, disassemble=lambda *_: None)
    document = document_json(found.document)
    assert set(document["splits"]) == {"lineage", "random", "families", "device", "handwritten", "real"}
    assert set(document["baselines"]) == {"constant", "nearest_neighbour", "gradient_boosting"}
    shapes: list[dict[str, Any]] = [*document["splits"].values(), *document["baselines"].values()]
    shapes += [by["splits"][name] for by in document["baselines"].values() for name in document["splits"]]
    for scored in shapes:
        assert {"n", "valid_json", "metrics"} <= set(scored)
        assert set(scored["metrics"]) == set(paper_ids())
        for row in scored["metrics"].values():
            assert set(row["within"]) == {"2", "4", "6", "8", "10"}
            assert {"median_rel_error", "spearman"} <= set(row)
    assert document["splits"]["lineage"]["leak"] == 0.0
    assert document["splits"]["handwritten"]["n"] == len(HAND)
    text = evaluation_table(found.document)
    assert "Split by lineage" in text and "Fabric Write Bandwidth" in text
    save_evaluation(found, tmp_path)
    rows = json.loads((tmp_path / "predictions.json").read_text())
    assert len(rows) == sum(scored["n"] for scored in document["splits"].values())


def test_samples_the_model_was_trained_on_are_never_scored(model: Path) -> None:
    keys = set(json.loads((model / "training_set.json").read_text())["keys"])
    train_part, parts, _ = held_out(model, SAMPLES)
    assert {s.key for s in train_part} == keys
    assert not keys & {s.key for part in parts.values() for s in part}
    # The same corpus under false lineages moves the parts; what was trained on must still stay out.
    moved = [replace(s, lineage=s.program_id[::-1]) for s in SAMPLES]
    _, parts, excluded = held_out(model, moved)
    assert not keys & {s.key for part in parts.values() for s in part}
    assert excluded["trained_on"] + excluded["duplicate_text"] > 0


def test_prediction_notes_left_out_lines(model: Path) -> None:
    source = SAMPLES[0].text + "".join(f"__device__ int filler_{i} = {i};\n" for i in range(300))
    found = Predictor.load(model).predict(source, "gfx942", "-O3 -munsafe-fp-atomics")
    assert found.cut_lines > 0
    notes = " ".join(found.notes)
    assert "were cut" in notes and "never trained on gfx942" in notes and "made-up" in notes
    assert "note:" in prediction_table(found)
    assert json.loads(json.dumps(to_json(found.document())))["device"] == "mi300x"


def test_bad_questions_are_rejected(model: Path) -> None:
    predictor = Predictor.load(model)
    text = SAMPLES[0].text
    with pytest.raises(UsageError):
        predictor.predict(text, "gfx1", "-O3")
    with pytest.raises(UsageError):
        predictor.predict(text, "gfx90a", "-O3", "mi300x")
    with pytest.raises(UsageError):
        predictor.predict(text, "gfx90a", "--no-such-flag")
    with pytest.raises(BadInput, match="no kernel"):
        predictor.predict("int main() { return 0; }", "gfx90a", "-O3")


def test_a_folder_without_a_model_is_missing(tmp_path: Path) -> None:
    with pytest.raises(MissingDependency, match="no finished model") as error:
        Predictor.load(tmp_path)
    assert "synth train" in error.value.remedy
    with pytest.raises(BadInput, match="no such file or folder"):
        Predictor.load(tmp_path / "elsewhere")


def test_a_damaged_record_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "hipsynth.json").write_text("{}")
    with pytest.raises(BadInput, match="not a model record"):
        model_record(tmp_path)


@pytest.mark.parametrize("name", config_names())
def test_shipped_recipes_load(name: str) -> None:
    config = load_config(name)
    assert config.name == name
    assert config.seed == 42
    assert not config.deepspeed or json.loads(Path(config.deepspeed).read_text())["zero_optimization"]


def test_the_papers_recipe_is_table_3() -> None:
    paper = load_config("paper")
    assert (paper.lr, paper.batch, paper.max_steps, paper.epochs, paper.lora_r) == (5e-5, 2, 50_000, 1, 24)
    assert (paper.betas, paper.bf16, paper.seed, paper.warmup, paper.format) == ((0.9, 0.999), "yes", 42, 0.1, "fixed3")


def test_bad_recipes_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no training config") as error:
        load_config("no-such")
    assert "tiny-cpu" in error.value.remedy
    (tmp_path / "torn.json").write_text('{"zero_optimization": ')
    for table in (
        {"base": "tiny", "speed": 1},
        {"base": "tiny", "method": "magic"},
        {},
        {"base": "t", "betas": [1]},
        {"base": "t", "batch": 0},
        {"base": "t", "weights": "float12"},
        {"base": "t", "lr": 0},
        {"base": "t", "epochs": math.inf},
        {"base": "t", "betas": [2.0, 0.9]},
        {"base": "t", "method": "lora", "lora_r": 0},
        {"base": "tiny", "tiny": {"hidden": 32, "heads": 3}},
        {"base": "tiny", "tiny": {"vocab": -5}},
        {"base": "tiny", "tiny": {"hidden": 0}},
        {"base": "tiny", "tiny": {"layers": 0}},
        {"base": "t", "seed": -1},
        {"base": "t", "seed": 1 << 32},
        {"base": "t", "weight_decay": math.nan},
        {"base": "t", "task": "tools", "method": "grpo", "batch": 2, "generations": 3},
        {"base": "t", "task": "tools", "method": "grpo", "batch": 8, "patience": 2},
        {"base": "t", "deepspeed": "none.json"},
        {"base": "t", "deepspeed": "torn.json"},
    ):
        with pytest.raises(UsageError):
            parse_config(table, tmp_path / "x.toml")
