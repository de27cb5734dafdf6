"""Group-relative policy optimisation (GRPO, by trl) of a model whose answers are whole chats with tools.

A group of runs of one question is rewarded, and what the model wrote in runs that earned more than the group's mean
becomes likelier. What runs are, and what they earn, is the caller's: see tuning.reason and tuning.prediction.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from collections.abc import Callable, Collection, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import write_whole
from hipsynth.core.installation import missing_package
from hipsynth.training.models.base import load_trained, torch_or_missing
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import (
    ModelRecord,
    RolloutFigures,
    TrainingStatus,
    finished_already,
    model_record,
)
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.trainer import (
    CHECKPOINTS,
    adapt_model,
    computes_bf16,
    package_versions,
    runs_per_step,
    train_from_checkpoint,
)

if TYPE_CHECKING:
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        Trainer,
        TrainerCallback,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )


@dataclass(frozen=True)
class Rollout:
    """A run of the model as one sequence: the first question, then what the model wrote (`own` 1) and what was told
    to it (0), with log-probabilities (0 for what was told), and the reward."""

    prompt: list[int]
    tokens: list[int]
    own: list[int]
    logprobs: list[float]
    reward: float
    ended: str


class RolloutBatch(TypedDict):
    """What trl's trainer takes of rollouts, in the order of the prompts; `env_mask`: 1 for what the model wrote."""

    prompt_ids: list[list[int]]
    completion_ids: list[list[int]]
    logprobs: list[list[float]]
    env_mask: list[list[int]]
    reward: list[float]


RunModel = Callable[["PreTrainedModel", str], Rollout]


@dataclass(frozen=True)
class TrainedBase:
    """A finished model that reinforcement goes on with, and its record."""

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    record: ModelRecord


@dataclass(frozen=True)
class RolloutTask:
    """What is rewarded: `run` makes one run of the present model on a prompt, sampled at `temperature`. A prompt names
    a question and changes with it, since prompts tell whether a stored training is the same. `lineages`: of the
    questions' programs. `files` are copied beside the model."""

    prompts: Sequence[str]
    run: RunModel
    temperature: float
    lineages: Collection[str] = ()
    files: Sequence[Path] = ()


def load_trained_base(config: Config, task: str, ability: str, recipe: str) -> TrainedBase:
    """The model in the folder `config.base`, which was trained for `task`: it has the `ability` that `recipe` teaches.
    Raises MissingDependency if there is none, BadInput for a damaged record."""
    record = model_record(Path(config.base))
    if record is None or record.get("task") != task:
        remedy = f"run `synth train TRACES --config {recipe} --out MODEL` first, and name it with --base"
        raise MissingDependency(f"{config.base}: no model that {ability} there", remedy=remedy)
    model, tokenizer = load_trained(Path(config.base), record)
    return TrainedBase(model, tokenizer, record)


def train_by_rollouts(
    config: Config, out: Path, base: TrainedBase, task: RolloutTask, progress: Progress | None = None
) -> ModelRecord:
    """Reinforces a model and writes the model folder `out`; returns its record, with what still holds of the base's,
    and `status` ALREADY_FINISHED if the folder holds this model. An interrupted call goes on from its last
    checkpoint. Raises MissingDependency without trl, UsageError (`out` holds another model)."""
    fingerprint = _fingerprint_rollouts(config, base, task.prompts)
    if (existing := finished_already(out, fingerprint)) is not None:
        return existing
    rows: list[RolloutFigures] = []
    trainer = _build_trainer(config, out, base, task, rows, progress)
    train_from_checkpoint(trainer, out / CHECKPOINTS, fingerprint)
    first = trainer.is_world_process_zero()
    _save_whole_model(trainer, out)
    base.tokenizer.save_pretrained(out)
    of_base = base.record
    record: ModelRecord = {
        "version": of_base["version"],
        "task": of_base["task"],
        "format": of_base["format"],
        "context": of_base["context"],
        "view": of_base["view"],
        "lineages": sorted({*of_base["lineages"], *task.lineages}),
        "status": TrainingStatus.FINISHED,
        "fingerprint": fingerprint,
        "config": asdict(config),
        "base": config.base,
        "steps": trainer.state.global_step,
        "rollouts": rows,
        "versions": package_versions(),
    }
    if first:
        for file in task.files:
            shutil.copyfile(file, out / file.name)
        finish_folder(out, record)
        shutil.rmtree(out / CHECKPOINTS, ignore_errors=True)
    return record


def _fingerprint_rollouts(config: Config, base: TrainedBase, prompts: Sequence[str]) -> str:
    """Identifies a reinforcement: its recipe, the model that it goes on with, and its questions."""
    facts = {"config": asdict(config), "base": base.record["fingerprint"], "prompts": list(prompts)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _save_whole_model(trainer: Trainer, out: Path) -> None:
    """Writes the weights; adapters become part of them, since their base is a folder that may move or go."""
    from peft import PeftModel

    model = trainer.accelerator.unwrap_model(trainer.model)
    if isinstance(model, PeftModel) and trainer.is_world_process_zero():
        model.merge_and_unload().save_pretrained(str(out))
    elif not isinstance(model, PeftModel):
        trainer.save_model(str(out))


def _build_trainer(
    config: Config,
    out: Path,
    base: TrainedBase,
    task: RolloutTask,
    rows: list[RolloutFigures],
    progress: Progress | None,
) -> Trainer:
    """A trainer whose groups are `config.generations` runs of a prompt; what each earned is added to `rows`."""
    torch_or_missing()
    try:
        datasets: Any = import_module("datasets")
        trl: Any = import_module("trl")
    except ImportError as error:
        raise missing_package("trl", cause=str(error)) from error
    from transformers import PrinterCallback

    trainer: Trainer = trl.GRPOTrainer(
        model=adapt_model(config, base.model),
        processing_class=base.tokenizer,
        reward_funcs=lambda completions, reward, **_: list(reward),
        args=trl.GRPOConfig(**_grpo_settings(config, out, int(base.record["context"]), task)),
        train_dataset=datasets.Dataset.from_list([{"prompt": prompt} for prompt in task.prompts]),
        rollout_func=_rollout_function(base.tokenizer, task.run, rows),
        callbacks=[_step_monitor(rows, progress)],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _grpo_settings(config: Config, out: Path, context: int, task: RolloutTask) -> dict[str, Any]:
    """The arguments of trl's GRPOConfig for a recipe. bfloat16 is not chosen for a CPU: the runs' probabilities are
    computed without it."""
    on_cpu = not torch_or_missing().cuda.is_available()
    epoch = len(task.prompts) * config.generations / runs_per_step(config)
    return {
        "output_dir": str(out / CHECKPOINTS),
        "per_device_train_batch_size": config.batch,
        "num_generations": config.generations,
        "gradient_accumulation_steps": config.accumulate,
        "max_completion_length": context,
        "max_steps": min(config.max_steps, math.ceil(config.epochs * epoch)),
        "learning_rate": config.lr,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": config.warmup,
        "adam_beta1": config.betas[0],
        "adam_beta2": config.betas[1],
        "weight_decay": config.weight_decay,
        "temperature": task.temperature,
        "beta": config.keep,
        "seed": config.seed,
        "data_seed": config.seed,
        "use_cpu": on_cpu,
        "bf16": config.bf16 == "yes" or (config.bf16 == "auto" and not on_cpu and computes_bf16()),
        "dataloader_pin_memory": not on_cpu,
        "save_strategy": "steps",
        "save_steps": config.save_steps,
        "save_total_limit": 1,
        "logging_steps": 1,
        "report_to": [],
        "disable_tqdm": True,
    }


def _step_monitor(rows: list[RolloutFigures], progress: Progress | None) -> TrainerCallback:
    """Reports each step; keeps the figures of all runs with each checkpoint, and takes them from one to go on."""
    from transformers import TrainerCallback

    class StepMonitor(TrainerCallback):
        def on_train_begin(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            path = _figures_path(args, state)
            if state.global_step and path.exists():
                rows[:] = json.loads(path.read_text())

        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            if progress is not None:
                progress(state.global_step, state.max_steps, "")

        def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object) -> None:
            write_whole(_figures_path(args, state), json.dumps(rows))

    return StepMonitor()


def _figures_path(args: TrainingArguments, state: TrainerState) -> Path:
    return Path(str(args.output_dir)) / f"checkpoint-{state.global_step}" / "rollouts.json"


def _rollout_function(
    tokenizer: PreTrainedTokenizerBase, run_model: RunModel, rows: list[RolloutFigures]
) -> Callable[[list[str], Trainer], RolloutBatch]:
    """trl's rollout function: one run of the model for each prompt that it gets (prompts come repeated)."""

    def run(prompts: list[str], trainer: Trainer) -> RolloutBatch:
        model = trainer.accelerator.unwrap_model(trainer.model)
        was_training = model.training
        model.eval()
        rollouts = [run_model(model, prompt) for prompt in prompts]
        model.train(was_training)
        rows.extend(
            {"reward": rollout.reward, "ended": rollout.ended, "tokens": sum(rollout.own)} for rollout in rollouts
        )
        filler = tokenizer.eos_token_id
        return {
            "prompt_ids": [rollout.prompt or [filler] for rollout in rollouts],
            "completion_ids": [rollout.tokens or [filler] for rollout in rollouts],
            "logprobs": [rollout.logprobs or [0.0] for rollout in rollouts],
            "env_mask": [rollout.own or [0] for rollout in rollouts],
            "reward": [rollout.reward for rollout in rollouts],
        }

    return run
