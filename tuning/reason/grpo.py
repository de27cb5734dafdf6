"""Reinforcement (GRPO, by trl) with the simulator as environment: a model works on a kernel with the tools, and what
it ends with is verified as a search's answer is.

The reward is the logarithm of the verified speed-up. Wrong outputs, lowered precision and skipped work fail the checks
(docs/explanation/honest-gains.md) and earn nothing, whatever the model says.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import HipsynthError
from hipsynth.core.program import text_id
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.backends.protocol import Target
from hipsynth.training.models.config import Config
from hipsynth.training.models.grpo import Rollout, RolloutTask, load_trained_base, train_by_rollouts
from hipsynth.training.models.model_record import ModelRecord
from hipsynth.training.models.monitor import Progress
from hipsynth.tuning.agent.agent_loop import AgentResult, AgentSettings, drive_model
from hipsynth.tuning.optimize.documents import SearchStatus
from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult
from hipsynth.tuning.reason.local_model import LocalModel, Turn
from hipsynth.tuning.reason.sft import TASK, read_chats, source_of
from hipsynth.tuning.tools import ToolSession
from hipsynth.tuning.trial import target_of

if TYPE_CHECKING:
    from transformers import PreTrainedModel

CALLS = 8  # that a run may make
SECONDS = 240.0  # of a run
TEMPERATURE = 0.9
MOST_REWARD = math.log(16.0)


def reward_of(result: OptimizeResult | None) -> float:
    """log(speed-up), 0 to MOST_REWARD, of an answer that passed every check; 0 for any other."""
    if result is None or result.status != SearchStatus.IMPROVED or result.verification.passed is False:
        return 0.0
    return min(MOST_REWARD, math.log(max(1.0, result.speedup)))


def roll_out(model: LocalModel, text: str, target: Target, arguments: tuple[str, ...] = ()) -> Rollout:
    """Lets a model work on a program once. A program that does not run, or whose chat does not fit, earns 0."""
    model.clear()
    driven, outcome = run_model(model, text, target, arguments)
    return join_turns(model.turns, reward_of(driven.found if driven else None), outcome)


def run_model(
    model: LocalModel,
    text: str,
    target: Target,
    arguments: tuple[str, ...] = (),
    calls: int = CALLS,
    known: ToolSession | None = None,
) -> tuple[AgentResult | None, str]:
    """A run of the model, and why it ended; what `known` has measured is not measured again."""
    manner = AgentSettings("local", calls=calls, seconds=SECONDS, answer_tokens=model.most, context_chars=1 << 20)
    request = OptimizeRequest(text, target, SECONDS, arguments)
    with scratch_folder() as scratch:
        try:
            driven = drive_model(request, model, manner, scratch / "run.jsonl", known=known)
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
    base = load_trained_base(config, TASK, "uses tools", "tools-smollm2")
    questions = dict(list(training_questions(traces).items())[:most])
    context = int(base.record["context"])

    def run(policy: PreTrainedModel, prompt: str) -> Rollout:
        text, arch = questions[prompt]
        return roll_out(LocalModel(policy, base.tokenizer, context, TEMPERATURE), text, target_of(arch))

    return train_by_rollouts(config, out, base, RolloutTask(list(questions), run, TEMPERATURE), progress)


def training_questions(traces: Path) -> dict[str, tuple[str, str]]:
    """The source and architecture of each training program of a traces folder, by a name of both; each once."""
    questions: dict[str, tuple[str, str]] = {}
    for chat in read_chats(traces)["train"]:
        text, arch = source_of(chat), str(chat["arch"])
        questions.setdefault(f"{text_id(text)} {arch}", (text, arch))
    return questions
