"""Training recipes: the files of training/configs, validated."""

from __future__ import annotations

import json
import math
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, UsageError, suggest_name
from hipsynth.core.files import SOURCE_BYTES, read_regular
from hipsynth.source.model_view import VIEWS
from hipsynth.training.data.number_formats import DIGITS
from hipsynth.training.models.base import TinyShape

LEAST_VOCABULARY = 256 + 3  # bytes, and the tokens that begin, end and pad
MOST_NUMBER = 1 << 32  # a seed has 32 bits
CONFIGS = Path(__file__).parents[1] / "configs"
_LEAST = {"batch": 1, "accumulate": 1, "max_steps": 1, "save_steps": 1, "context": 1, "generations": 1, "lora_r": 0,
          "lora_dropout": 0, "weight_decay": 0, "warmup": 0, "patience": 0, "keep": 0, "seed": 0}  # fmt: skip


@dataclass(frozen=True)
class Config:
    """A training recipe: one file of training/configs. The defaults are the paper's Table 3."""

    name: str
    base: str
    task: str = "predict"  # | "tools": optimizing (tuning.reason) | "predict-with-tools" (tuning.prediction)
    method: str = "lora"  # "lora" | "full" | "grpo" (with tools only; `base` is then a trained model's folder)
    format: str = "sig3"  # how numbers are printed: a row of data.number_formats.FORMATS
    context: int = 2048  # tokens; longer sources are cut
    view: str = "whole"  # part of a source that the model reads: "whole" | "kernels" (and launches)
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
    share: float = 1.0  # of the programs, those that the default predictor learns from
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
            f"no training config {name!r}",
            cause=suggest_name(name, config_names()),
            remedy=f"one of: {', '.join(config_names())}, or a .toml path",
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML", cause=str(error)) from error
    return parse_config(table, path)


def parse_config(table: Mapping[str, object], path: Path) -> Config:
    """Validates the TOML table of a recipe; raises UsageError naming the first problem."""
    names = {f.name for f in fields(Config)} - {"name"}
    unknown = sorted(set(table) - names)
    if unknown:
        raise UsageError(f"{path}: unknown key {unknown[0]!r}", remedy=f"known keys: {', '.join(sorted(names))}")
    try:
        config = from_json(Config, {"name": path.stem, **table})
    except (TypeError, ValueError) as error:
        raise UsageError(f"{path}: {error}") from error
    choices: dict[str, Sequence[str]] = {
        "task": ("predict", "tools", "predict-with-tools"),
        "method": ("lora", "full", "grpo"),
        "format": tuple(DIGITS),
        "view": tuple(VIEWS),
        "bf16": ("auto", "yes", "no"),
        "weights": ("float32", "bfloat16", "float16"),
    }
    for key, allowed in choices.items():
        if getattr(config, key) not in allowed:
            raise UsageError(f"{path}: {key} = {getattr(config, key)!r}", remedy=f"one of: {', '.join(allowed)}")
    for key, least in _LEAST.items():
        if not least <= getattr(config, key) < MOST_NUMBER:
            remedy = f"at least {least:g}, and less than {MOST_NUMBER:,}"
            raise UsageError(f"{path}: {key} = {getattr(config, key)!r}", remedy=remedy)
    for key in ("share", "epochs", "lr"):
        if not 0 < getattr(config, key) < math.inf:
            raise UsageError(f"{path}: {key} = {getattr(config, key)!r}", remedy="a number above 0")
    _check_together(config, path)
    if config.method == "grpo" and config.task == "predict":
        raise UsageError(f'{path}: method = "grpo" is for models that use tools', remedy='set task = "tools"')
    if config.deepspeed and not Path(config.deepspeed).is_absolute():
        config = replace(config, deepspeed=str(path.parent / config.deepspeed))
    if config.deepspeed:
        _check_deepspeed(Path(config.deepspeed), path)
    return config


def _check_together(config: Config, path: Path) -> None:
    """Raises UsageError for values that are only wrong with each other or as a list."""
    processes = int(os.environ.get("WORLD_SIZE", "1"))  # of a launcher
    shape, runs = config.tiny, config.batch * config.accumulate * processes
    problems = {
        f"betas = {config.betas!r}": not all(0 <= beta < 1 for beta in config.betas),
        "lora_r = 0, and method = 'lora'": config.method == "lora" and config.lora_r < 1,
        f"hidden = {shape.hidden} and heads = {shape.heads}: heads of equal, even size": shape.heads < 1
        or shape.hidden < 1
        or shape.hidden % (2 * shape.heads) != 0,
        f"layers = {shape.layers}: at least one": shape.layers < 1,
        f"vocab = {shape.vocab}: at least one for each byte": shape.vocab < LEAST_VOCABULARY,
        f"{runs} runs a step (batch x accumulate) in groups of generations = {config.generations}": config.method
        == "grpo"
        and (config.generations < 2 or runs % config.generations != 0),
        f"patience = {config.patience}, and method = 'grpo', which evaluates nothing": config.method == "grpo"
        and config.patience > 0,
        f"deepspeed = {config.deepspeed!r}, and method = 'grpo', which runs without it": config.method == "grpo"
        and bool(config.deepspeed),
    }
    for problem, is_one in problems.items():
        if is_one:
            raise UsageError(f"{path}: {problem}", remedy="docs/how-to/train.md lists the keys of a recipe")


def _check_deepspeed(settings: Path, config: Path) -> None:
    """Raises UsageError if the settings of DeepSpeed that a recipe names are no JSON object."""
    try:
        if isinstance(json.loads(read_regular(settings, SOURCE_BYTES)), dict):
            return
        cause = "not a JSON object"
    except BadInput as error:
        cause = error.cause or error.what
    except (ValueError, RecursionError) as error:
        cause = str(error)
    raise UsageError(f"{config}: deepspeed = {str(settings)!r}", cause=cause, remedy="a JSON file beside the recipe")
