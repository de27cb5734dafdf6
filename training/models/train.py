"""Fine-tuning: corpus -> samples -> tokens -> LoRA or full training -> a model folder.

The same code runs in one process on a CPU or GPU, or in many under `torchrun` or the `deepspeed` launcher (ZeRO by
config). A model folder holds the weights (or the adapter and the name of its base), the tokenizer, `hipsynth.json`
(written last: it marks a finished model) and `training_set.json` (the training samples' keys, for later leak checks).
"""

from __future__ import annotations

import hashlib
import json
import shutil
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, UsageError, suggest_name
from hipsynth.core.files import RESULT_BYTES, SOURCE_BYTES, read_regular, write_whole
from hipsynth.source.model_view import VIEWS
from hipsynth.training.data.dataset import (
    LEAK_FREE,
    TEST_PARTS,
    LabelledSample,
    canonical_id,
    load_samples,
    measure_leak,
    require_no_leak,
    split_samples,
)
from hipsynth.training.data.encode import Encoder, answer_atoms, chat_text
from hipsynth.training.data.number_formats import DIGITS
from hipsynth.training.models.base import TinyShape, load_base, torch_or_missing
from hipsynth.training.models.model_card import finish_folder
from hipsynth.training.models.model_record import ModelRecord, model_record
from hipsynth.training.models.monitor import Progress
from hipsynth.training.models.trainer import adapt_model, fit_model, package_versions, prepare_deepspeed

CONFIGS = Path(__file__).parents[1] / "configs"
TRAINING_SET = "training_set.json"
TEXT_DIGITS = 16  # of a hash
VALID_SAMPLES = 64  # for the validation loss at the end of training only


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
    }
    for key, allowed in choices.items():
        if getattr(config, key) not in allowed:
            raise UsageError(f"{path}: {key} = {getattr(config, key)!r}", remedy=f"one of: {', '.join(allowed)}")
    if config.method == "grpo" and config.task == "predict":
        raise UsageError(f'{path}: method = "grpo" is for models that use tools', remedy='set task = "tools"')
    if config.deepspeed and not Path(config.deepspeed).is_absolute():
        config = replace(config, deepspeed=str(path.parent / config.deepspeed))
    return config


def train_model(
    corpus: Path,
    config: Config,
    out: Path,
    progress: Progress | None = None,
    samples: Sequence[LabelledSample] | None = None,
    divide: Callable[[Iterable[LabelledSample]], dict[str, list[LabelledSample]]] = split_samples,
) -> ModelRecord:
    """Trains on the training part of a corpus and writes the model folder `out`; returns its record.

    Repeating an interrupted call resumes from the last checkpoint; for a finished model it returns the record with
    `status` "already finished". `samples`, if given, are used instead of reading `corpus`; `divide` makes the parts.
    Raises BadInput (no training samples, a leak), UsageError (`out` holds another model), MissingDependency (packages
    or base).
    """
    parts = divide(load_samples(corpus) if samples is None else samples)
    if not parts["train"]:
        raise BadInput(f"{corpus}: no samples in the training part", remedy="profile more programs into the corpus")
    for name in LEAK_FREE:
        require_no_leak(parts["train"], parts[name])
    fingerprint = training_fingerprint(config, parts["train"])
    if (existing := finished_already(out, fingerprint)) is not None:
        return existing
    torch_or_missing()
    return _run_supervised(config, out, parts, fingerprint, progress)


def _finish_folder(out: Path, record: ModelRecord, learned: Sequence[LabelledSample]) -> None:
    """Writes the training set and, last, the record; removes checkpoints."""
    write_training_set(out, learned, Path(str(record["base"])))
    finish_folder(out, record)
    shutil.rmtree(out / "checkpoints", ignore_errors=True)


def write_training_set(out: Path, learned: Sequence[LabelledSample], base: Path) -> None:
    """What a model must not be tested on: keys of the training samples, lineages, and `texts`, short hashes of programs
    apart from names; with those of its base, if that was trained here, too."""
    before = base / TRAINING_SET
    lineages: dict[str, list[str]] = json.loads(read_regular(before, RESULT_BYTES)) if before.is_file() else {}
    identities = {
        "lineages": {s.lineage for s in learned},
        "keys": {s.key for s in learned},
        "texts": {canonical_id(s.text)[:TEXT_DIGITS] for s in learned},
    }
    document = {name: sorted(values.union(lineages.get(name, ()))) for name, values in identities.items()}
    write_whole(out / TRAINING_SET, json.dumps(document))


def _run_supervised(
    config: Config, out: Path, parts: Mapping[str, list[LabelledSample]], fingerprint: str, progress: Progress | None
) -> ModelRecord:
    from transformers import set_seed

    prepare_deepspeed(config)
    set_seed(config.seed)
    texts = (chat_text(s, config.format, config.view) for s in parts["train"])
    atoms = answer_atoms(config.format)
    model, tokenizer = load_base(config.base, texts, atoms, config.tiny, config.context)
    encoder = Encoder(tokenizer, config.format, config.context, config.view)
    encoded = [encoder.example(s) for s in parts["train"]], [encoder.example(s) for s in parts["valid"][:VALID_SAMPLES]]
    run, first = fit_model(config, out, adapt_model(config, model), tokenizer, encoded, fingerprint, progress)
    record: ModelRecord = {
        "version": 1,
        "status": "finished",
        "fingerprint": fingerprint,
        "config": asdict(config),
        "base": config.base,
        "format": config.format,
        "context": config.context,
        "view": config.view,
        "samples": {name: len(part) for name, part in parts.items()},
        "leak": {name: measure_leak(parts["train"], parts[name]).share for name in TEST_PARTS},
        "backends": sorted({s.backend for s in parts["train"]} | _backends_of(config.base)),
        "targets": [list(target) for target in sorted({(s.arch, s.flags) for s in parts["train"]})],
        "versions": package_versions(),
    }
    record.update(run)
    if first:
        _finish_folder(out, record, parts["train"])
    return record


def training_fingerprint(config: Config, train_part: Sequence[LabelledSample]) -> str:
    """A hash that identifies a training run: the recipe and the samples with their labels."""
    labels = [(s.key, s.kernel, sorted(s.metrics.items())) for s in train_part]
    document = json.dumps([asdict(config), labels], sort_keys=True)
    return hashlib.sha256(document.encode()).hexdigest()


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
    return {**existing, "status": "already finished"}


def _backends_of(base: str) -> set[str]:
    """The backends whose labels a base has learned, if it was trained here."""
    record = model_record(Path(base)) if Path(base).is_dir() else None
    return set(record.get("backends", ())) if record else set()
