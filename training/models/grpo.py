"""Reinforcement (GRPO, by trl): a trained model goes on with the relative error of its own answers as reward.

Cross-entropy counts a wrong last figure like a wrong first one; the reward counts how far the value is off. The model
samples several answers to a question, without a forced skeleton, and learns from how they compare with each other.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import BadInput, MissingDependency, UsageError
from hipsynth.profiling import metrics
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.data.encode import split_answer
from hipsynth.training.data.model_inputs import PromptOptions
from hipsynth.training.data.prompt import parse_answer, render_answer
from hipsynth.training.models.base import load_trained, torch_or_missing
from hipsynth.training.models.model_record import ModelRecord
from hipsynth.training.models.predict import Predictor, normalised_values

if TYPE_CHECKING:
    from transformers import (
        PreTrainedModel,
        PreTrainedTokenizerBase,
        Trainer,
        TrainerControl,
        TrainerState,
        TrainingArguments,
    )

    from hipsynth.training.models.train import Config

WORST = 1.0  # the relative error of a missing value, and the largest that counts
ZERO = 0.0005  # a smaller value is right where the true one is 0, as in training.evaluation.scores
SCORED = 32  # samples scored before and after
NEAR = 0.1
Step = Callable[[int, int, str], None]


def answer_reward(values: Mapping[str, float | None], truth: Mapping[str, float | None]) -> float:
    """Minus the mean relative error of an answer's values, -1 to 0; an error counts as 1 at most, as does no value."""
    errors = [_relative_error(values.get(key), right) for key, right in truth.items() if right is not None]
    return -sum(errors) / len(errors) if errors else -WORST


def _relative_error(value: float | None, right: float) -> float:
    if value is None:
        return WORST
    if right == 0:
        return 0.0 if abs(value) < ZERO else WORST
    return min(WORST, abs(value - right) / abs(right))


def completion_reward(text: str, truth: Mapping[str, float | None], digits: str) -> float:
    """The reward of a whole answer as text."""
    values = parse_answer(text, digits=digits).values
    return answer_reward({key: metrics.normalise_metric(key, value) for key, value in values.items()}, truth)


def mean_scores(predictor: Predictor, samples: Sequence[LabelledSample]) -> dict[str, float]:
    """Mean reward, and the share of values within 10 %, of forced answers."""
    answers = predictor.answers([(s.text, s.arch, s.flags) for s in samples])
    pairs = [(normalised_values(a), s.truth()) for a, s in zip(answers, samples, strict=True)]
    errors = [
        _relative_error(got[key], right) for got, truth in pairs for key, right in truth.items() if right is not None
    ]
    mean = sum(answer_reward(got, truth) for got, truth in pairs) / len(pairs)
    return {"reward": round(mean, 4), "within_10": round(sum(e <= NEAR for e in errors) / len(errors), 4)}


def continue_with_grpo(
    config: Config,
    out: Path,
    parts: Mapping[str, Sequence[LabelledSample]],
    base: ModelRecord,
    progress: Step | None,
) -> ModelRecord:
    """Continues the model in the folder `config.base`, whose record is `base`; writes weights and tokenizer to `out`
    and returns the settings that its record needs, with `mean_scores` before and after by part.

    Raises UsageError for a model with parallel values, which writes no free answers, and MissingDependency without trl.
    """
    if base["config"].get("parallel"):
        raise UsageError(
            f"{config.base} decodes its values side by side and cannot sample whole answers",
            remedy="train the base with parallel = false",
        )
    predictor = Predictor.load(Path(config.base))
    scored_parts = {name: list(parts[name][:SCORED]) for name in ("train", "lineage", "random") if parts[name]}
    before = {name: mean_scores(predictor, part) for name, part in scored_parts.items()}
    model, tokenizer = load_trained(Path(config.base), base)
    trainer = _grpo_trainer(
        config, out, (model, tokenizer), _grpo_questions(predictor, parts["train"]), predictor, progress
    )
    trainer.train()
    predictor.decoder.model = model.eval()
    after = {name: mean_scores(predictor, part) for name, part in scored_parts.items()}
    trainer.save_model(str(out))
    tokenizer.save_pretrained(out)
    rewards = [row["reward"] for row in trainer.state.log_history if "reward" in row]
    settings = asdict(config) | asdict(PromptOptions.of(base["config"]))
    return {
        "format": base["format"],
        "context": base["context"],
        "view": base.get("view", "whole"),
        "targets": base.get("targets", []),
        "backends": base.get("backends", []),
        "config": settings,
        "steps": trainer.state.global_step,
        "scores": {
            "before": before,
            "after": after,
            "first_rewards": rewards[:5],
            "last_rewards": rewards[-5:],
        },
    }


def _grpo_questions(predictor: Predictor, samples: Sequence[LabelledSample]) -> list[dict[str, str]]:
    """Rows of `prompt` (question and answer up to the first value), `head` (that part of the answer) and `truth`."""
    encoder, rows = predictor.decoder.encoder, []
    for sample in samples:
        encoded = encoder.encode(sample.text, sample.arch, sample.flags)
        head = encoder.text(encoded.prefix[len(encoded.prefix) - encoded.answer_head :])
        rows.append({"prompt": encoder.text(encoded.prefix), "head": head, "truth": json.dumps(sample.truth())})
    if not rows:
        raise BadInput("no training samples to reinforce with", remedy="profile more programs into the corpus")
    return rows


def _answer_tokens(predictor: Predictor, sample: Mapping[str, str]) -> int:
    """About the length of a correct answer after its head, in tokens."""
    encoder = predictor.decoder.encoder
    blank = render_answer(dict.fromkeys(metrics.answer_ids(), 0.0), "gfx942", "-O3", encoder.fmt)
    form, values = split_answer(blank)
    facts = 8 * (len(encoder.order) - len(values))
    return facts + sum(len(encoder.ids(text)) for text in (*form.literals[1:], *values)) + 2 * len(values)


def _grpo_trainer(
    config: Config,
    out: Path,
    model: tuple[PreTrainedModel, PreTrainedTokenizerBase],
    questions: list[dict[str, str]],
    predictor: Predictor,
    progress: Step | None,
) -> Trainer:
    torch = torch_or_missing()
    try:
        datasets = import_module("datasets")
        trl = import_module("trl")
    except ImportError as error:
        raise MissingDependency(
            "reinforcement needs trl", cause=str(error), remedy='install the extra: pip install "hipsynth[rl]"'
        ) from error
    from transformers import PrinterCallback, TrainerCallback

    digits = predictor.decoder.encoder.fmt

    def rewards(completions: list[str], head: list[str], truth: list[str], **_: object) -> list[float]:
        return [
            completion_reward(begin + text, json.loads(right), digits)
            for begin, text, right in zip(head, completions, truth, strict=True)
        ]

    class ShowReinforcement(TrainerCallback):
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
        max_completion_length=_answer_tokens(predictor, questions[0]),
        max_steps=config.max_steps,
        learning_rate=config.lr,
        lr_scheduler_type="constant",
        temperature=1.0,
        beta=config.keep,
        seed=config.seed,
        use_cpu=on_cpu,
        bf16=False,
        dataloader_pin_memory=not on_cpu,
        save_strategy="no",
        logging_steps=1,
        report_to=[],
        disable_tqdm=True,
    )
    trainer: Trainer = trl.GRPOTrainer(
        model=model[0],
        processing_class=model[1],
        reward_funcs=rewards,
        args=arguments,
        train_dataset=datasets.Dataset.from_list(questions),
        callbacks=[ShowReinforcement()],
    )
    trainer.remove_callback(PrinterCallback)
    return trainer
