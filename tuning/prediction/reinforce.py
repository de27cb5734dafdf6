"""Reinforcement of a model that predicts with tools (GRPO): a run earns its share of right values, less its price.

Calls are answered from the questions of a traces folder, so a run takes as long as the model reads. Only the moves are
the model's here: values are those of the last reply that measured, which the model has learned to copy.
"""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.program import text_id
from hipsynth.training.models.config import Config
from hipsynth.training.models.grpo import Rollout, RolloutTask, load_trained_base, train_by_rollouts
from hipsynth.training.models.model_record import ModelRecord
from hipsynth.training.models.monitor import Progress
from hipsynth.tuning.prediction.agent import PredictionAgent, calls_of
from hipsynth.tuning.prediction.chat import Question
from hipsynth.tuning.prediction.policy import reward_of, share_within
from hipsynth.tuning.prediction.preview_error import preview_error_file
from hipsynth.tuning.prediction.traces import RecordedQuestion, read_questions
from hipsynth.tuning.prediction.train import TASK

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TEMPERATURE = 1.0


def reinforce(traces: Path, config: Config, out: Path, progress: Progress | None = None) -> ModelRecord:
    """Goes on with the model in the folder `config.base` on the questions of a traces folder; writes the model folder
    `out` and returns its record. Raises MissingDependency without trl or a base, BadInput without questions."""
    base = load_trained_base(config, TASK, "predicts with tools", "predict-tools-tiny")
    questions = {text_id(json.dumps(asdict(question), sort_keys=True)): question for question in read_questions(traces)}

    def run(policy: PreTrainedModel, prompt: str) -> Rollout:
        draw = random.Random(random.getrandbits(64))  # checkpoints keep the state of the global generator
        return roll_out(PredictionAgent(policy, base.tokenizer, base.record), questions[prompt], draw)

    lineages = {question.lineage for question in questions.values()}
    task = RolloutTask(list(questions), run, TEMPERATURE, lineages, (preview_error_file(traces),))
    return train_by_rollouts(config, out, base, task, progress)


def roll_out(agent: PredictionAgent, question: RecordedQuestion, draw: random.Random) -> Rollout:
    """One run whose moves are drawn by their probabilities; `ended`: the moves, the answer last."""

    def choose(probabilities: Mapping[str, float]) -> str:
        return draw.choices(list(probabilities), list(probabilities.values()))[0]

    chat = agent.discuss(Question(question.text, question.arch, question.flags), question, choose)
    values = chat.last.values if chat.last is not None else None
    share = 0.0 if values is None else share_within(values, question.truth)
    tokens, written_mask, logprobs = [], [], []
    for written, scores in chat.turns:
        tokens += written
        written_mask += [0 if scores is None else 1] * len(written)
        logprobs += scores or [0.0] * len(written)
    reward = reward_of(share, calls_of(chat.decisions))
    moves = " ".join(decision.move for decision in chat.decisions)
    return Rollout(chat.ids[: chat.question_tokens], tokens, written_mask, logprobs, reward, moves)
