"""Finishes a model folder: the model card (README.md, in Hugging Face's form) and, last, the record."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from hipsynth.core.files import write_whole
from hipsynth.training.models.model_record import RECORD, ModelRecord

CARD = "README.md"
# By a record's task; a record without one is of a model that predicts counters from the source.
PURPOSES: Mapping[str, str] = {
    "predict": "It reads a HIP kernel and writes the performance counters that it expects, as JSON.",
    "predict-with-tools": "It reads a HIP kernel, may compile, preview or execute it by calling tools, and writes its "
    "performance counters, its duration and how sure it is, as JSON.",
    "tools": "It makes HIP kernels faster by calling tools: profile, propose, apply, compare, run_and_verify.",
}
USES: Mapping[str, str] = {
    "predict": "synth predict kernel.hip --model MODEL",
    "predict-with-tools": "synth predict kernel.hip --model MODEL",
    "tools": "python -m studies.reasoning_table --model MODEL",
}


def finish_folder(out: Path, record: ModelRecord) -> None:
    """Writes the card and the record of a trained model; a folder with a record counts as finished."""
    write_whole(out / CARD, card_text(out.name, record, f"{datetime.now(UTC):%d %B %Y}"))
    write_whole(out / RECORD, json.dumps(record, indent=1))


def card_text(name: str, record: ModelRecord, date: str) -> str:
    """The card: purpose, use, data, training, and what its figures do not say."""
    task = record.get("task", "predict")
    base = record["base"]
    head = ["---", "library_name: transformers", "pipeline_tag: text-generation", "tags: [hipsynth, gpu, performance]"]
    if base != "tiny":
        head.append(f"base_model: {base}")
    rows = "\n".join(f"| {key} | {value} |" for key, value in _facts(record).items())
    return "\n".join(
        [
            *head,
            "---",
            f"# {name}\n",
            f"{PURPOSES[task]} Trained on {date} by `synth train --config {record['config']['name']}` of hipsynth.\n",
            "```python",
            "from transformers import AutoModelForCausalLM, AutoTokenizer\n",
            f'model, tokenizer = (kind.from_pretrained("{name}") for kind in (AutoModelForCausalLM, AutoTokenizer))',
            "```\n",
            f"With its prompts, its tools and answers held to their form: `{USES[task]}`.\n",
            "| | |\n|---|---|",
            rows,
            "\nLabels are simulated: hipsynth executes the machine code on a CPU and counts what the hardware counts. "
            "Test programs share no lineage with those of training. The loss says nothing of accuracy on unseen "
            "programs: `synth evaluate` scores it.\n",
        ]
    )


def _facts(record: ModelRecord) -> dict[str, object]:
    """The rows of the card's table that the record has something for."""
    facts: dict[str, object] = {
        "base": "from scratch" if record["base"] == "tiny" else record["base"],
        "parameters": f"{record.get('parameters', 0):,}",
        "trained parameters": f"{record.get('trained_parameters', 0):,}",
        "samples": ", ".join(f"{count:,} {part}" for part, count in record.get("samples", {}).items()),
        "labels of": ", ".join(record.get("backends", ())),
        "targets": "; ".join(" ".join(target) for target in record.get("targets", ())),
        "steps": f"{record.get('steps', 0):,}",
        "context, tokens": record["context"],
        "numbers": record["format"],
        "training loss": _loss_text(record.get("train_loss")),
        "held-out loss": _loss_text(record.get("valid_loss")),
        "versions": ", ".join(f"{name} {version}" for name, version in record.get("versions", {}).items()),
    }
    return {key: value for key, value in facts.items() if value}


def _loss_text(loss: float | None) -> str:
    return "" if loss is None else f"{loss:.3f}"
