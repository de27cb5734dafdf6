"""Reinforcement (GRPO, by trl) with the simulator as environment: a model works on a kernel with the tools, and what
it ends with is verified as a search's answer is.

The reward is the logarithm of the verified speed-up. Wrong outputs, lowered precision and skipped work fail the checks
(docs/explanation/honest-gains.md) and earn nothing, whatever the model says.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from hipsynth.core.errors import HipsynthError, MissingDependency
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.training.models.base import load_trained, torch_or_missing
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import ModelRecord, RolloutFigures, model_record
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.train import Config
from hipsynth.training.models.trainer import computes_bf16, package_versions
from hipsynth.tuning.agent.agent_loop import AgentResult, AgentSettings, drive_model
from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult
from hipsynth.tuning.reason.local_model import LocalModel, Turn
from hipsynth.tuning.reason.sft import TASK, read_chats, source_of
from hipsynth.tuning.trial import target_of

if TYPE_CHECKING:
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        Trainer,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )

CALLS = 8  # that a run may make
SECONDS = 240.0  # of a run
TEMPERATURE = 0.9
MOST_REWARD = math.log(16.0)


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


def reward_of(result: OptimizeResult | None) -> float:
    """log(speed-up), 0 to MOST_REWARD, of an answer that passed every check; 0 for any other."""
    if result is None or result.status != "improved" or result.verification.passed is False:
        return 0.0
    return min(MOST_REWARD, math.log(max(1.0, result.speedup)))


def roll_out(model: LocalModel, text: str, target: Target, arguments: tuple[str, ...] = ()) -> Rollout:
    """Lets a model work on a program once. A program that does not run, or whose chat does not fit, earns 0."""
    model.clear()
    driven, outcome = run_model(model, text, target, arguments)
    return join_turns(model.turns, reward_of(driven.found if driven else None), outcome)


def run_model(
    model: LocalModel, text: str, target: Target, arguments: tuple[str, ...] = (), calls: int = CALLS
) -> tuple[AgentResult | None, str]:
    """A run of the model, and why it ended."""
    manner = AgentSettings("local", calls=calls, seconds=SECONDS, answer_tokens=model.most, context_chars=1 << 20)
    request = OptimizeRequest(text, target, SECONDS, arguments)
    with scratch_folder() as scratch:
        try:
            driven = drive_model(request, model, manner, scratch / "run.jsonl")
        except HipsynthError as error:
            return None, error.reason
    return driven, driven.ended


def join_turns(turns: Sequence[Turn], reward: float, ended: str) -> Rollout:
    """The turns as one sequence, as far as each begins with the one before: results that were left out to fit the
    context end it."""
    if not turns:
        return Rollout([], [], [], [], reward, ended)
    prompt = list(turns[0].read)
    tokens: list[int] = []
    mask: list[int] = []
    logprobs: list[float] = []
    for turn in turns:
        so_far = [*prompt, *tokens]
        if turn.read[: len(so_far)] != so_far:
            break
        read_tokens = turn.read[len(so_far) :]
        tokens += [*read_tokens, *turn.wrote]
        mask += [0] * len(read_tokens) + [1] * len(turn.wrote)
        logprobs += [0.0] * len(read_tokens) + turn.logprobs
    return Rollout(prompt, tokens, mask, logprobs, reward, ended)


def train_with_grpo(
    traces: Path, config: Config, out: Path, progress: Progress | None = None, most: int = 64
) -> ModelRecord:
    """Goes on with the model in the folder `config.base` on the training programs of a traces folder; writes the model
    folder `out` and returns its record. Raises MissingDependency without trl or a base, BadInput without programs."""
    base = model_record(Path(config.base))
    if base is None or base.get("task") != TASK:
        remedy = "run `synth train TRACES --config tools-smollm2 --out MODEL` first, and name it with --base"
        raise MissingDependency(f"{config.base}: no model that uses tools there", remedy=remedy)
    programs = training_questions(traces)[:most]
    model, tokenizer = load_trained(Path(config.base), base)
    kept_rows: list[RolloutFigures] = []
    trainer = _grpo_trainer(config, out, (model, tokenizer), programs, int(base["context"]), kept_rows, progress)
    trainer.train()
    trainer.save_model(str(out))
    tokenizer.save_pretrained(out)
    record: ModelRecord = {
        "version": base["version"],
        "task": base["task"],
        "format": base["format"],
        "context": base["context"],
        "view": base["view"],
        "lineages": base["lineages"],
        "status": "finished",
        "fingerprint": base["fingerprint"],
        "config": asdict(config),
        "base": config.base,
        "steps": trainer.state.global_step,
        "rollouts": kept_rows,
        "versions": package_versions(),
    }
    finish_folder(out, record)
    return record


def training_questions(traces: Path) -> list[dict[str, str]]:
    """The training programs of a traces folder, each once: {"prompt": the source, "arch"}."""
    questions: dict[tuple[str, str], dict[str, str]] = {}
    for chat in read_chats(traces)["train"]:
        questions.setdefault((chat["program"], chat["arch"]), {"prompt": source_of(chat), "arch": str(chat["arch"])})
    return list(questions.values())


def _grpo_trainer(
    config: Config,
    out: Path,
    loaded: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    programs: Sequence[Mapping[str, str]],
    context: int,
    rows: list[RolloutFigures],
    progress: Progress | None,
) -> Trainer:
    torch = torch_or_missing()
    try:
        datasets: Any = import_module("datasets")
        trl: Any = import_module("trl")
    except ImportError as error:
        remedy = 'install the extra: pip install "hipsynth[rl]"'
        raise MissingDependency("reinforcement needs trl", cause=str(error), remedy=remedy) from error
    from transformers import PrinterCallback, TrainerCallback

    arch_of = {row["prompt"]: row["arch"] for row in programs}

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
        temperature=TEMPERATURE,
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
    trainer: Trainer = trl.GRPOTrainer(
        model=_adapt_model(config, loaded[0]),
        processing_class=loaded[1],
        reward_funcs=lambda completions, reward, **_: list(reward),
        args=arguments,
        train_dataset=datasets.Dataset.from_list([{"prompt": row["prompt"]} for row in programs]),
        rollout_func=_rollout_function(loaded[1], arch_of, context, rows),
        callbacks=[ShowPractice()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def _adapt_model(config: Config, model: PreTrainedModel) -> PreTrainedModel:
    from hipsynth.training.models.trainer import adapt_model

    return adapt_model(config, model) if config.lora_r else model


def _rollout_function(
    tokenizer: PreTrainedTokenizerBase, arch_of: Mapping[str, str], context: int, rows: list[RolloutFigures]
) -> Callable[[list[str], Trainer], RolloutBatch]:
    """trl's rollout function: one run of the model for each prompt that it gets (prompts come repeated)."""

    def run(prompts: list[str], trainer: Trainer) -> RolloutBatch:
        model = trainer.accelerator.unwrap_model(trainer.model)
        was_training = model.training
        local = LocalModel(model.eval(), tokenizer, context, TEMPERATURE)
        rollouts = [roll_out(local, text, target_of(arch_of[text])) for text in prompts]
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
