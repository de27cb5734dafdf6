"""Group-relative policy optimisation (GRPO, by trl) of a model whose answers are whole chats with tools.

A group of runs of one question is rewarded, and what the model wrote in runs that earned more than the group's mean
becomes likelier. What runs are, and what they earn, is the caller's: see tuning.reason and tuning.prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from hipsynth.core.errors import MissingDependency
from hipsynth.training.models.base import torch_or_missing
from hipsynth.training.models.model_record import RolloutFigures
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.train import Config
from hipsynth.training.models.trainer import adapt_model, computes_bf16

if TYPE_CHECKING:
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        Trainer,
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


def grpo_trainer(
    config: Config,
    out: Path,
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    prompts: Sequence[str],
    context: int,
    run: tuple[RunModel, float],
    rows: list[RolloutFigures],
    progress: Progress | None,
) -> Trainer:
    """A trainer whose groups are `config.generations` runs of a prompt. `run`: makes one with the present model, and
    the temperature at which it samples; what each earned is added to `rows`. Raises MissingDependency without trl."""
    torch = torch_or_missing()
    try:
        datasets: Any = import_module("datasets")
        trl: Any = import_module("trl")
    except ImportError as error:
        remedy = 'install the extra: pip install "hipsynth[rl]"'
        raise MissingDependency("reinforcement needs trl", cause=str(error), remedy=remedy) from error
    from transformers import PrinterCallback, TrainerCallback

    class ShowPractice(TrainerCallback):
        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            if progress is not None:
                progress(state.global_step, state.max_steps, "")

    on_cpu = not torch.cuda.is_available()
    arguments = trl.GRPOConfig(
        output_dir=str(out / "checkpoints"),
        per_device_train_batch_size=config.batch,
        num_generations=config.generations,
        gradient_accumulation_steps=config.accumulate,
        max_completion_length=context,
        max_steps=config.max_steps,
        learning_rate=config.lr,
        lr_scheduler_type="constant",
        temperature=run[1],
        beta=config.keep,
        seed=config.seed,
        use_cpu=on_cpu,
        bf16=not on_cpu and computes_bf16(),
        dataloader_pin_memory=not on_cpu,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
    )
    model = adapt_model(config, loaded[0]) if config.lora_r else loaded[0]
    trainer: Trainer = trl.GRPOTrainer(
        model=model,
        processing_class=loaded[1],
        reward_funcs=lambda completions, reward, **_: list(reward),
        args=arguments,
        train_dataset=datasets.Dataset.from_list([{"prompt": prompt} for prompt in prompts]),
        rollout_func=_rollout_function(loaded[1], run[0], rows),
        callbacks=[ShowPractice()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


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
