"""Fine-tuning: corpus -> samples -> tokens -> LoRA or full training -> a model folder.

The same code runs in one process on a CPU or GPU, or in many under `torchrun` or the `deepspeed` launcher (ZeRO by
config). A model folder holds the weights (or the adapter and the name of its base), the tokenizer, `hipsynth.json`
(written last: it marks a finished model) and `training_set.json` (the training samples' keys, for later leak checks).
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from hipsynth.synth.core.errors import BadInput, Missing, UsageError
from hipsynth.synth.core.files import SOURCE_BYTES, read_regular, write_whole
from hipsynth.training.data.dataset import LEAK_FREE, TEST_PARTS, Sample, leak, load_samples, require_no_leak, split
from hipsynth.training.data.encode import Encoder, answer_atoms, chat_text, pad
from hipsynth.training.data.inputs import Options
from hipsynth.training.data.numbers import DIGITS, number_format
from hipsynth.training.data.source import VIEWS
from hipsynth.training.models.base import TinyShape, load_base, torch_or_missing
from hipsynth.training.models.decode import visible
from hipsynth.training.models.monitor import FLOPS_PER_TOKEN, Progress, Throughput, monitor, peak_flops

CONFIGS = Path(__file__).parents[1] / "configs"
RECORD = "hipsynth.json"
TRAINING_SET = "training_set.json"
LEARNED = ("train", "valid")
VALID_SAMPLES = 32  # for the validation loss at the end of training only


@dataclass(frozen=True)
class Config:
    """A training recipe: one file of training/configs. The defaults are the paper's Table 3."""

    name: str
    base: str
    method: str = "lora"  # "lora" | "full" | "grpo" (see models.reinforce; `base` is then a trained model's folder)
    format: str = "sig3"  # how numbers are printed: a row of data.numbers.FORMATS
    context: int = 2048  # tokens; longer sources are cut
    view: str = "whole"  # part of a source that the model reads: "whole" | "kernels" (and launches)
    targets: bool = True  # the four switches of data.inputs.Options
    launches: bool = False
    auxiliary: bool = False
    parallel: bool = False
    epochs: float = 1.0
    max_steps: int = 50_000  # training ends at `epochs` or `max_steps`, whichever comes first
    batch: int = 2  # per device
    accumulate: int = 1
    lr: float = 5e-5
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.0
    warmup: float = 0.1  # fraction of all steps
    seed: int = 42
    bf16: str = "auto"  # "auto": if the hardware supports it | "yes" | "no"
    weights: str = "float32"  # torch dtype of the base's weights
    save_steps: int = 200
    patience: int = 0  # evaluations without a lower validation loss after which training stops; 0: never
    deepspeed: str = ""  # a JSON file beside the config, or empty
    gradient_checkpointing: bool = False
    lora_r: int = 24
    lora_alpha: int = 48
    lora_dropout: float = 0.0
    lora_targets: str = "all-linear"
    generations: int = 8  # answers sampled per question in GRPO; divides `batch`
    keep: float = 0.0  # weight of the divergence from the base in GRPO
    tiny: TinyShape = field(default_factory=TinyShape)


def config_names() -> list[str]:
    """The names of the recipes in training/configs."""
    return sorted(path.stem for path in CONFIGS.glob("*.toml"))


def load_config(name: str) -> Config:
    """A recipe by name (training/configs/NAME.toml) or .toml path; raises UsageError if it is missing or invalid."""
    path = Path(name) if name.endswith(".toml") else CONFIGS / f"{name}.toml"
    try:
        table = tomllib.loads(read_regular(path, SOURCE_BYTES).decode())
    except BadInput as error:
        raise UsageError(
            f"no training config {name!r}", remedy=f"one of: {', '.join(config_names())}, or a .toml path"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML", cause=str(error)) from error
    return parse_config(table, path)


def parse_config(table: Mapping[str, Any], path: Path) -> Config:
    """Validates the TOML table of a recipe; raises UsageError naming the first problem."""
    known = {f.name for f in fields(Config)} - {"name"}
    unknown = sorted(set(table) - known)
    if unknown:
        raise UsageError(f"{path}: unknown key {unknown[0]!r}", remedy=f"known keys: {', '.join(sorted(known))}")
    values: dict[str, Any] = dict(table)
    try:
        if "tiny" in values:
            values["tiny"] = TinyShape(**values["tiny"])
        if "betas" in values:
            values["betas"] = (float(values["betas"][0]), float(values["betas"][1]))
        config = Config(name=path.stem, **values)
    except (TypeError, ValueError, IndexError) as error:
        raise UsageError(f"{path}: {error}") from error
    choices = {"method": ("lora", "full", "grpo"), "format": DIGITS, "view": VIEWS, "bf16": ("auto", "yes", "no")}
    for key, allowed in choices.items():
        if getattr(config, key) not in allowed:
            raise UsageError(f"{path}: {key} = {getattr(config, key)!r}", remedy=f"one of: {', '.join(allowed)}")
    if config.parallel and not number_format(config.format).width:
        raise UsageError(f"{path}: parallel values need a number format of one width", remedy='set format = "exp3"')
    if config.deepspeed and not Path(config.deepspeed).is_absolute():
        config = replace(config, deepspeed=str(path.parent / config.deepspeed))
    return config


def train(
    corpus: Path,
    config: Config,
    out: Path,
    progress: Progress | None = None,
    samples: Sequence[Sample] | None = None,
) -> dict[str, Any]:
    """Trains on the training part of a corpus and writes the model folder `out`; returns its record.

    Repeating an interrupted call resumes from the last checkpoint; for a finished model it returns the record with
    `status` "already finished". `samples`, if given, are used instead of reading `corpus`. Raises BadInput (no
    training samples, a leak), UsageError (`out` holds another model), Missing (packages or base).
    """
    parts = split(load_samples(corpus) if samples is None else samples)
    if not parts["train"]:
        raise BadInput(f"{corpus}: no samples in the training part", remedy="profile more programs into the corpus")
    for name in LEAK_FREE:
        require_no_leak(parts["train"], parts[name])
    fingerprint = training_fingerprint(config, parts["train"])
    if config.auxiliary:
        parts = {name: [s for s in part if s.facts] if name in LEARNED else part for name, part in parts.items()}
        if not parts["train"]:
            raise BadInput(
                f"{corpus}: no label has the auxiliary facts that this recipe learns",
                cause="only the simulator counts bytes and FLOPs exactly",
                remedy="train on simulated labels, or with auxiliary = false",
            )
    if (existing := finished_already(out, fingerprint)) is not None:
        return existing
    torch_or_missing()
    if config.method == "grpo":
        return _reinforce(config, out, parts, fingerprint, progress)
    return _train(config, out, parts, fingerprint, progress)


def _reinforce(
    config: Config, out: Path, parts: Mapping[str, list[Sample]], fingerprint: str, progress: Progress | None
) -> dict[str, Any]:
    from hipsynth.training.models.reinforce import reinforce

    base = model_record(Path(config.base))
    if base is None:
        raise Missing(
            f"{config.base}: no finished model there",
            remedy="train one first, for example with --config tiny-cpu, and name it with --base",
        )
    record = {
        "version": 1,
        "status": "finished",
        "fingerprint": fingerprint,
        "base": config.base,
        "samples": {name: len(part) for name, part in parts.items()},
        "leak": {name: leak(parts["train"], parts[name]).share for name in TEST_PARTS},
        **reinforce(config, out, parts, base, progress),
        "versions": _versions(),
    }
    _finish(out, record, parts["train"])
    return record


def _finish(out: Path, record: Mapping[str, Any], learned: Sequence[Sample]) -> None:
    """Writes the training set and, last, the record; removes checkpoints."""
    lineages, keys = sorted({s.lineage for s in learned}), [s.key for s in learned]
    write_whole(out / TRAINING_SET, json.dumps({"lineages": lineages, "keys": keys}, indent=1))
    write_whole(out / RECORD, json.dumps(record, indent=1))
    shutil.rmtree(out / "checkpoints", ignore_errors=True)


def _train(
    config: Config, out: Path, parts: Mapping[str, list[Sample]], fingerprint: str, progress: Progress | None
) -> dict[str, Any]:
    from transformers import PrinterCallback, Trainer, set_seed

    _prepare_deepspeed(config)
    set_seed(config.seed)
    options = Options.of(asdict(config))
    model, tokenizer = _build(config, parts["train"])
    sizes = {  # counted before training, because ZeRO-3 partitions the parameters among processes
        "parameters": sum(p.numel() for p in model.parameters()),
        "trained_parameters": sum(p.numel() for p in model.parameters() if p.requires_grad),
    }
    encoder = Encoder(tokenizer, config.format, config.context, config.view, options)
    examples = [encoder.example(s) for s in parts["train"]]
    valid = [encoder.example(s) for s in parts["valid"][:VALID_SAMPLES]]
    columns = ("input_ids", "labels", *(("stage", "branch", "position_ids") if config.parallel else ()))
    folder, throughput = out / "checkpoints", Throughput()
    trainer = Trainer(
        model=model,
        args=_arguments(config, folder, len(examples)),
        train_dataset=[{k: e[k] for k in columns} for e in examples],
        eval_dataset=[{k: e[k] for k in columns} for e in valid] if config.patience else None,
        data_collator=_collator(tokenizer.pad_token_id, throughput),
        callbacks=[monitor(out, progress, throughput), *_early_stop(config)],
    )
    trainer.remove_callback(PrinterCallback)  # it writes to stdout
    if trainer.is_world_process_zero():
        keep_own_checkpoints(folder, fingerprint)
    trainer.accelerator.wait_for_everyone()
    last = last_checkpoint(folder)
    result = trainer.train(resume_from_checkpoint=str(last) if last else None)
    speed = throughput.tokens_per_second
    held_out: Any = [{k: e[k] for k in columns} for e in valid]
    losses = trainer.evaluate(held_out) if held_out else {}
    trainer.save_model(str(out))
    record = {
        "version": 1,
        "status": "finished",
        "fingerprint": fingerprint,
        "config": asdict(config),
        "base": config.base,
        "format": config.format,
        "context": config.context,
        "view": config.view,
        **sizes,
        "steps": trainer.state.global_step,
        "samples": {name: len(part) for name, part in parts.items()},
        "samples_cut": sum(e["cut_lines"] > 0 for e in examples),
        "tokens_per_sample": round(sum(len(e["input_ids"]) for e in examples) / len(examples)),
        "tokens_per_second": round(speed, 1),
        "share_of_peak": round(FLOPS_PER_TOKEN * sizes["parameters"] * speed / peak_flops(model.dtype), 4),
        "train_loss": result.training_loss,
        "valid_loss": losses.get("eval_loss"),
        "leak": {name: leak(parts["train"], parts[name]).share for name in TEST_PARTS},
        "backends": sorted({s.backend for s in parts["train"]}),
        "targets": sorted({(s.arch, s.flags) for s in parts["train"]}),
        "versions": _versions(),
    }
    if trainer.is_world_process_zero():
        tokenizer.save_pretrained(out)
        _finish(out, record, parts["train"])
    return record


def _build(config: Config, train_part: Sequence[Sample]) -> tuple[Any, Any]:
    """(model, tokenizer) of a recipe: the base, with LoRA adapters if `method` is "lora"."""
    import torch

    options = Options.of(asdict(config))
    texts = (chat_text(s, config.format, config.view, options) for s in train_part) if config.base == "tiny" else ()
    atoms = answer_atoms(config.format, config.auxiliary)
    model, tokenizer = load_base(config.base, texts, atoms, config.tiny, config.context)
    if config.weights != "float32":
        model = model.to(getattr(torch, config.weights))
    if config.method == "lora":
        from peft import LoraConfig, get_peft_model

        model = get_peft_model(
            model,
            LoraConfig(
                task_type="CAUSAL_LM",
                r=config.lora_r,
                lora_alpha=config.lora_alpha,
                lora_dropout=config.lora_dropout,
                target_modules=config.lora_targets,
            ),
        )
    if config.gradient_checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
        model.config.use_cache = False
    return model, tokenizer


def _arguments(config: Config, folder: Path, samples: int) -> Any:
    """The recipe as Hugging Face TrainingArguments."""
    import torch
    from transformers import TrainingArguments

    on_cpu = not torch.cuda.is_available()
    per_step = config.batch * config.accumulate * int(os.environ.get("WORLD_SIZE", "1"))
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=config.batch,
        per_device_eval_batch_size=config.batch,
        gradient_accumulation_steps=config.accumulate,
        max_steps=min(config.max_steps, math.ceil(config.epochs * samples / per_step)),
        learning_rate=config.lr,
        adam_beta1=config.betas[0],
        adam_beta2=config.betas[1],
        weight_decay=config.weight_decay,
        optim="adamw_torch",
        lr_scheduler_type="cosine",
        warmup_steps=config.warmup,
        seed=config.seed,
        data_seed=config.seed,
        bf16=config.bf16 == "yes" or (config.bf16 == "auto" and computes_bf16()),
        use_cpu=on_cpu,
        dataloader_pin_memory=not on_cpu,
        train_sampling_strategy="group_by_length",
        save_steps=config.save_steps,
        save_total_limit=2,
        eval_strategy="steps" if config.patience else "no",
        eval_steps=config.save_steps,
        load_best_model_at_end=bool(config.patience),
        metric_for_best_model="eval_loss" if config.patience else None,
        logging_steps=10,
        report_to=[],
        disable_tqdm=True,
        deepspeed=config.deepspeed or None,
    )


def computes_bf16() -> bool:
    """Whether the GPU or CPU computes bfloat16 in hardware; emulation would be slower than float32."""
    import torch

    if torch.cuda.is_available():
        return bool(torch.cuda.is_bf16_supported())
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return "avx512_bf16" in flags or "amx_bf16" in flags


def _early_stop(config: Config) -> list[Any]:
    from transformers import EarlyStoppingCallback

    return [EarlyStoppingCallback(early_stopping_patience=config.patience)] if config.patience else []


def _collator(pad_id: int, throughput: Throughput) -> Callable[[list[dict[str, Any]]], dict[str, Any]]:
    import torch

    def collate(batch: list[dict[str, Any]]) -> dict[str, Any]:
        throughput.count(sum(len(row["input_ids"]) for row in batch))
        rows = {name: torch.tensor(row) for name, row in pad(batch, pad_id).items()}
        if "stage" in rows:
            stage, branch = rows.pop("stage"), rows.pop("branch")
            rows["attention_mask"] = visible(stage, branch, stage.shape[1])
        return rows

    return collate


def _prepare_deepspeed(config: Config) -> None:
    """Lets DeepSpeed run without a launcher, as a single process; raises Missing if it is not installed."""
    if not config.deepspeed:
        return
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if "RANK" not in os.environ:
        single = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29599"}
        os.environ.update(single)
    try:
        import deepspeed  # noqa: F401
    except ImportError as error:
        raise Missing(
            "this config needs DeepSpeed", cause=str(error), remedy='pip install "hipsynth[train]"'
        ) from error


def training_fingerprint(config: Config, train_part: Sequence[Sample]) -> str:
    """A hash that identifies a training run: the recipe and the samples with their labels."""
    labels = [(s.key, s.kernel, sorted(s.metrics.items())) for s in train_part]
    document = json.dumps([asdict(config), labels], sort_keys=True)
    return hashlib.sha256(document.encode()).hexdigest()


def keep_own_checkpoints(folder: Path, fingerprint: str) -> None:
    """Deletes checkpoints of another run, and marks the folder with this run's fingerprint."""
    mark = folder / "fingerprint"
    if folder.exists() and (not mark.exists() or mark.read_text() != fingerprint):
        shutil.rmtree(folder)
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint or None; trainer_state.json is written after weights and optimiser state."""
    complete = [p for p in folder.glob("checkpoint-*") if (p / "trainer_state.json").exists()]
    return max(complete, key=lambda p: int(p.name.rsplit("-", 1)[1]), default=None)


def model_record(model: Path) -> dict[str, Any] | None:
    """The record of a finished model folder, or None if there is none; raises BadInput if it is damaged."""
    path = model / RECORD
    if not path.exists():
        return None
    try:
        record: dict[str, Any] = json.loads(read_regular(path, SOURCE_BYTES))
        absent = {"fingerprint", "format", "context", "config"} - set(record)
        if absent:
            raise KeyError(min(absent))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{path}: not a model record", cause=str(error), remedy="train the model again") from error
    return record


def finished_already(out: Path, fingerprint: str) -> dict[str, Any] | None:
    """The record of this training if `out` holds its model, None without one; raises UsageError for another model."""
    existing = model_record(out)
    if existing is None:
        return None
    if existing["fingerprint"] != fingerprint:
        raise UsageError(
            f"{out} holds a model trained with other settings or another corpus",
            remedy="give another --out, or remove that folder",
        )
    return {**existing, "status": "already finished"}


def _versions() -> dict[str, str]:
    from importlib.metadata import PackageNotFoundError, version

    found = {}
    for package in ("torch", "transformers", "peft", "deepspeed", "trl"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "absent"
    return found
