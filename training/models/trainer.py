"""One run of Hugging Face's Trainer: a recipe, a model, encoded samples -> a trained model, with checkpoints.

Used by every supervised training here. The same code runs in one process or in many under `torchrun` or the
`deepspeed` launcher.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.core.files import write_error
from hipsynth.core.installation import install_command
from hipsynth.training.data.encode import TokenRow, TrainingExample, pad_batch
from hipsynth.training.models.interruption import checkpoint_at_signals
from hipsynth.training.models.model_record import ModelRecord
from hipsynth.training.models.monitor import (
    FLOPS_PER_TOKEN,
    Progress,
    Throughput,
    TrainingLog,
    peak_flops,
    training_monitor,
)

if TYPE_CHECKING:
    import torch
    from torch.utils.data import Dataset
    from transformers import PreTrainedModel, PreTrainedTokenizerBase, Trainer, TrainerCallback, TrainingArguments
    from transformers.trainer_utils import TrainOutput

    from hipsynth.training.models.config import Config

CHECKPOINTS = "checkpoints"  # folder in that of a model
SEEDS_APART = 1_000_003  # between the orders of samples of two seeds: more epochs than any training has


def fit_model(
    config: Config,
    out: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    parts: tuple[Sequence[TrainingExample], Sequence[TrainingExample]],
    fingerprint: str,
    progress: Progress | None = None,
) -> tuple[ModelRecord, bool]:
    """Trains on the first part's samples, or goes on from the last checkpoint in OUT; writes weights and tokenizer to
    `out`. Returns what a record says of the run, and whether this process is the first."""
    from transformers import PrinterCallback

    if config.patience and not parts[1]:
        problem = f"patience = {config.patience}, and no sample is held out to validate with"
        raise BadInput(problem, cause="too few lineages", remedy="patience = 0 in the recipe, or a larger corpus")
    parameters, trained = _count_parameters(model)  # before training: ZeRO-3 partitions them among processes
    train, valid = ([without_count(row) for row in part] for part in parts)
    throughput = Throughput()
    trainer = _trainer_class()(
        model=model,
        args=training_arguments(config, out / CHECKPOINTS, len(train)),
        train_dataset=train,
        eval_dataset=valid if config.patience else None,
        data_collator=batch_collator(tokenizer.pad_token_id, throughput),
        callbacks=[training_monitor(TrainingLog(out, progress, throughput)), *early_stop(config)],
    )
    trainer.remove_callback(PrinterCallback)  # it writes to stdout
    first: bool = trainer.is_world_process_zero()
    resumed = last_checkpoint(out / CHECKPOINTS) is not None
    result = train_from_checkpoint(trainer, out / CHECKPOINTS, fingerprint)
    speed = throughput.tokens_per_second
    losses = trainer.evaluate(cast("Dataset[TokenRow]", valid)) if valid else {}
    with full_disk_as_error(out):
        trainer.save_model(str(out))
    if first:
        tokenizer.save_pretrained(out)
    facts: ModelRecord = {
        "parameters": parameters,
        "trained_parameters": trained,
        "steps": trainer.state.global_step,
        "share_of_peak": round(FLOPS_PER_TOKEN * parameters * speed / peak_flops(model.dtype), 4),
        "tokens_per_second": round(speed, 1),
        "train_loss": _logged_loss(trainer.state.log_history, result.training_loss)
        if resumed
        else result.training_loss,
        "valid_loss": losses.get("eval_loss"),
        **sample_facts(parts[0]),
    }
    return facts, first


def _trainer_class() -> type[Trainer]:
    """A Trainer whose samples come by length, in an order that the seed and the epoch decide: Trainer's own sampler
    begins anew where a training goes on after its first epoch."""
    import torch
    from transformers import Trainer
    from transformers.trainer_pt_utils import get_length_grouped_indices

    class LengthSampler(torch.utils.data.Sampler[int]):
        def __init__(self, lengths: list[int], group: int, seed: int) -> None:
            self._lengths, self._group, self._seed, self._epoch = lengths, group, seed, 0

        def __len__(self) -> int:
            return len(self._lengths)

        def __iter__(self) -> Iterator[int]:
            generator = torch.Generator().manual_seed(self._seed * SEEDS_APART + self._epoch)
            return iter(get_length_grouped_indices(self._lengths, self._group, generator=generator))

        def set_epoch(self, epoch: int) -> None:
            self._epoch = epoch

    class ReproducibleTrainer(Trainer):
        def _get_train_sampler(self, train_dataset: Any = None) -> LengthSampler:
            rows = cast("Sequence[TokenRow]", self.train_dataset if train_dataset is None else train_dataset)
            lengths = [len(row["input_ids"]) for row in rows]
            return LengthSampler(
                lengths, self.args.train_batch_size * self.args.gradient_accumulation_steps, self.args.seed
            )

    return ReproducibleTrainer


def _logged_loss(history: Sequence[Mapping[str, float]], otherwise: float) -> float:
    """The mean loss of all steps that were logged, those before an interruption too; `otherwise` if none was."""
    steps, total, last = 0.0, 0.0, 0.0
    for row in history:
        if "loss" not in row:
            continue
        count = row["step"] - last
        steps, total, last = steps + count, total + count * row["loss"], row["step"]
    return total / steps if steps else otherwise


def _count_parameters(model: PreTrainedModel) -> tuple[int, int]:
    """(all, trained) parameters."""
    counts = [(p.numel(), p.requires_grad) for p in model.parameters()]
    return sum(count for count, _ in counts), sum(count for count, trained in counts if trained)


def train_from_checkpoint(trainer: Trainer, folder: Path, fingerprint: str) -> TrainOutput:
    """Trains to the end, from the last checkpoint of this training in `folder`, if there is one. Raises
    KeyboardInterrupt, after another checkpoint, where a signal asks to stop; BadInput where the disk is full."""
    if trainer.is_world_process_zero():
        mark_checkpoints(folder, fingerprint)
    trainer.accelerator.wait_for_everyone()
    last = last_checkpoint(folder)
    with checkpoint_at_signals(trainer), full_disk_as_error(folder):
        return trainer.train(resume_from_checkpoint=str(last) if last else None)


@contextlib.contextmanager
def full_disk_as_error(folder: Path) -> Iterator[None]:
    """Raises the BadInput of a full disk for safetensors' error, which has a type of its own and no number."""
    try:
        yield
    except OSError:
        raise
    except Exception as error:
        if os.strerror(errno.ENOSPC) not in str(error):
            raise
        raise write_error(folder, OSError(errno.ENOSPC, str(error))) from error


def sample_facts(train: Sequence[TrainingExample]) -> ModelRecord:
    """What a record says of the lengths of training samples."""
    return {
        "samples_cut": sum(row["cut_lines"] > 0 for row in train),
        "tokens_per_sample": round(sum(len(row["input_ids"]) for row in train) / len(train)),
    }


def without_count(example: TrainingExample) -> TokenRow:
    """An example as the model takes it: without the number of source lines that were cut."""
    return {"input_ids": example["input_ids"], "labels": example["labels"]}


def adapt_model(config: Config, model: PreTrainedModel) -> PreTrainedModel:
    """The model in the recipe's number format, with LoRA adapters if the recipe says so (GRPO: by `lora_r`)."""
    import torch

    if config.weights != "float32":
        model = model.to(getattr(torch, config.weights))
    if config.method == "lora" or (config.method == "grpo" and config.lora_r):
        from peft import LoraConfig, get_peft_model

        lora = LoraConfig(
            task_type="CAUSAL_LM",
            r=config.lora_r,
            lora_alpha=config.lora_alpha,
            lora_dropout=config.lora_dropout,
            target_modules=config.lora_targets,
        )
        try:
            model = cast("PreTrainedModel", get_peft_model(model, lora))  # a wrapper that passes everything on
        except ValueError as error:
            problem = f"{config.name}: lora_targets = {config.lora_targets!r}"
            raise UsageError(problem, cause=str(error).splitlines()[0]) from error
    if config.gradient_checkpointing:
        model.enable_input_require_grads()
        model.gradient_checkpointing_enable()
        model.config.use_cache = False
    return model


def training_arguments(config: Config, folder: Path, samples: int) -> TrainingArguments:
    """The recipe as Hugging Face TrainingArguments."""
    import torch
    from transformers import TrainingArguments

    on_cpu = not torch.cuda.is_available()
    return TrainingArguments(
        output_dir=str(folder),
        per_device_train_batch_size=config.batch,
        per_device_eval_batch_size=config.batch,
        gradient_accumulation_steps=config.accumulate,
        max_steps=min(config.max_steps, math.ceil(config.epochs * samples / runs_per_step(config))),
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
        remove_unused_columns=False,  # the rows have what the collator reads, and nothing else
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


def runs_per_step(config: Config) -> int:
    """The samples of one step: of all processes of a launcher, or without one of all GPUs of a single process."""
    import torch

    processes = int(os.environ.get("WORLD_SIZE", "1"))
    replicas = processes if processes > 1 or config.deepspeed else max(1, torch.cuda.device_count())
    return config.batch * config.accumulate * replicas


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


def early_stop(config: Config) -> list[TrainerCallback]:
    """A callback that ends training after `patience` evaluations without improvement, or none if that is 0."""
    from transformers import EarlyStoppingCallback

    return [EarlyStoppingCallback(early_stopping_patience=config.patience)] if config.patience else []


def batch_collator(pad_id: int, throughput: Throughput) -> Callable[[list[TokenRow]], dict[str, torch.Tensor | int]]:
    """A function that pads a batch of examples and makes the model's arguments.

    Logits are computed only from the first learned token on: most tokens are a prompt, and a vocabulary is wide.
    """
    import torch

    def collate(batch: list[TokenRow]) -> dict[str, torch.Tensor | int]:
        throughput.count(sum(len(row["input_ids"]) for row in batch))
        rows = pad_batch(batch, pad_id)
        tensors: dict[str, torch.Tensor | int] = {name: torch.tensor(row) for name, row in rows.items()}
        return {**tensors, "logits_to_keep": len(rows["labels"][0])}

    return collate


def prepare_deepspeed(config: Config) -> None:
    """Lets DeepSpeed run without a launcher, as a single process; raises MissingDependency if it is not installed."""
    if not config.deepspeed:
        return
    import torch

    if not torch.cuda.is_available():
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
    if "RANK" not in os.environ:
        single = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
        os.environ.update(single | {"MASTER_PORT": str(_free_port())})
    try:
        import deepspeed  # noqa: F401
    except ImportError as error:
        remedy = install_command("train")
        raise MissingDependency("this config needs DeepSpeed", cause=str(error), remedy=remedy) from error


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def mark_checkpoints(folder: Path, fingerprint: str) -> None:
    """Marks the folder of a run's checkpoints with its fingerprint. Raises UsageError if it holds anything else."""
    mark = folder / "fingerprint"
    if folder.exists() and any(folder.iterdir()) and (not mark.exists() or mark.read_text() != fingerprint):
        others = "checkpoints of a training with other settings or another corpus" if mark.exists() else "other files"
        raise UsageError(f"{folder} holds {others}", remedy="give another --out, or remove that folder")
    folder.mkdir(parents=True, exist_ok=True)
    mark.write_text(fingerprint)


def last_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint or None; trainer_state.json is written after weights and optimiser state."""
    complete = [p for p in folder.glob("checkpoint-*") if (p / "trainer_state.json").exists()]
    return max(complete, key=lambda p: int(p.name.rsplit("-", 1)[1]), default=None)


def package_versions() -> dict[str, str]:
    """The versions of the packages that training depends on, for a model's record; "absent" if not installed."""
    from importlib.metadata import PackageNotFoundError, version

    versions = {}
    for package in ("torch", "transformers", "peft", "deepspeed", "trl"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            versions[package] = "absent"
    return versions
