"""The record of a finished model folder: what it was trained from, with which settings, and how that went."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TypedDict, cast

from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.files import SOURCE_BYTES, read_regular
from hipsynth.core.reasons import Reason

RECORD = "hipsynth.json"


def check_model_path(model: Path | None) -> None:
    """Raises BadInput for a model that is not there; None is the shipped one."""
    if model is not None and not model.exists():
        problem = f"{model}: no such file or folder"
        raise BadInput(problem, remedy="give a model folder, as synth train writes it", reason=Reason.MISSING_FILE)


class TrainingStatus(StrEnum):
    """Whether a call trained the model, or its folder held it already."""

    FINISHED = "finished"
    ALREADY_FINISHED = "already finished"


class RolloutFigures(TypedDict):
    """A run of a model in reinforcement with tools; `tokens`: those that it wrote."""

    reward: float
    ended: str
    tokens: int


class ModelRecord(TypedDict, total=False):
    """A model folder's RECORD. `config`: the recipe; samples and leaked shares by part; `valid_loss`: None without
    held-out samples. A record that was read has the members of REQUIRED; the others as its kind of training has them.
    """

    version: int
    status: TrainingStatus
    task: str
    fingerprint: str
    base: str
    base_folder: str  # of a base that was trained here: absolute; adapters are nothing without it
    base_fingerprint: str  # of that base's own record
    format: str
    context: int
    view: str
    config: dict[str, object]
    targets: list[list[str]]  # (architecture, flags)
    backends: list[str]
    parameters: int
    trained_parameters: int
    steps: int
    samples_cut: int
    tokens_per_sample: int
    tokens_per_second: float
    share_of_peak: float
    train_loss: float
    valid_loss: float | None
    samples: dict[str, int]
    too_long: dict[str, int]
    lineages: list[str]
    leak: dict[str, float]
    rollouts: list[RolloutFigures]
    previewed: int
    thresholds: dict[str, float | None]
    versions: dict[str, str]


REQUIRED: Mapping[str, type] = {"fingerprint": str, "format": str, "context": int, "config": dict}


def model_record(model: Path) -> ModelRecord | None:
    """The record of a finished model folder, or None if there is none; raises BadInput if it is damaged. Infinite
    numbers, which JSON has none of, are None."""
    path = model / RECORD
    if not path.exists():
        return None
    try:
        record = json.loads(read_regular(path, SOURCE_BYTES), parse_constant=lambda _: None)
        wrong = [name for name, kind in REQUIRED.items() if not isinstance(record[name], kind)]
        if wrong:
            raise TypeError(f"{wrong[0]} is not of its type")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadInput(f"{path}: not a model record", cause=str(error), remedy="train the model again") from error
    return cast(ModelRecord, record)


def require_task(path: Path, record: ModelRecord, task: str) -> None:
    """Raises BadInput if the record of the model in a folder is of another task, or incomplete."""
    is_of = record.get("task", "predict")
    if is_of != task:
        problem = f"{path}: a model of the task {is_of!r}, where one of {task!r} is wanted"
        raise BadInput(problem, remedy=f"{path / 'README.md'} says what it is for")
    lacking = [name for name in ("view", "base") if not isinstance(record.get(name), str)]
    if lacking:
        raise BadInput(f"{path / RECORD}: not a model record", cause=f"no {lacking[0]}", remedy="train the model again")


def finished_already(out: Path, fingerprint: str) -> ModelRecord | None:
    """The record of this training if `out` holds its model, None without one; raises UsageError for another model."""
    existing = model_record(out)
    if existing is None:
        return None
    if existing["fingerprint"] != fingerprint:
        raise UsageError(
            f"{out} holds a model trained with other settings or another corpus",
            remedy="give another --out, or remove that folder",
        )
    return {**existing, "status": TrainingStatus.ALREADY_FINISHED}
