r"""What each part of a language model's recipe is worth: trains variants on one corpus and tabulates their scores.

    python -m studies.ablation CORPUS [--config NAME] [--steps N] [--batch N] [--context TOKENS] [--out FOLDER] \
        [--only NAME ...]

Each variant starts from scratch, with the same seed, steps and batch; --config takes the model's size from a recipe of
training/configs instead of the small one here, with its other settings. Figures: share of values within 10 % of the
label (mean of the twelve metrics), median relative error, on unseen lineages and on the random split, samples trained
per second, and the median time of one answer. Writes ablation.md and ablation.json; finished variants are not repeated.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from hipsynth.core.files import write_whole
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.data.dataset import LabelledSample, load_samples, split_samples
from hipsynth.training.evaluation.scores import mean_within, score_metrics
from hipsynth.training.models.base import TinyShape
from hipsynth.training.models.predict import Predictor, normalised_values
from hipsynth.training.models.train import Config, load_config, train_model

BASE = Config(
    name="ablation",
    base="tiny",
    method="full",
    view="kernels",
    context=768,
    epochs=1e6,
    batch=4,
    lr=2e-3,
    weight_decay=0.01,
    betas=(0.9, 0.98),
    save_steps=10_000,
    tiny=TinyShape(vocab=2048, hidden=128, layers=4, heads=4, ff=352),
)
LAUNCHES: dict[str, Any] = {"targets": True, "launches": True}
PLAIN: dict[str, Any] = {"targets": True, "launches": False, "auxiliary": False, "parallel": False, "format": "sig3"}
# Variant -> changes to BASE; each of the first four adds something to the one before it.
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "source": {"targets": False},
    "+ architecture and flags": {"targets": True},
    "+ launches": LAUNCHES,
    "+ auxiliary answers": LAUNCHES | {"auxiliary": True},
    "three decimals": LAUNCHES | {"format": "fixed3"},
    "digit by digit": LAUNCHES | {"format": "exp3"},
    "digit by digit, auxiliary": LAUNCHES | {"format": "exp3", "auxiliary": True},
    "digit by digit, auxiliary, side by side": LAUNCHES | {"format": "exp3", "auxiliary": True, "parallel": True},
}
PARTS = ("lineage", "families", "random")
TIMED = 5  # answers timed one by one
COLUMNS = (
    "variant",
    "samples seen",
    "unseen lineages",
    "unseen families",
    "random split",
    "median error",
    "samples/s",
    "ms/answer",
)


def variants(steps: int, context: int, batch: int = BASE.batch, config: str = "") -> dict[str, Config]:
    """All variants by name, and the last one with half and a quarter of the steps."""
    chosen = replace(load_config(config), **PLAIN) if config else BASE
    base = replace(chosen, max_steps=steps, context=context, batch=batch, epochs=1e6, save_steps=10_000, patience=0)
    variants_by_name = {name: replace(base, **changes) for name, changes in VARIANTS.items()}
    name, last = list(variants_by_name.items())[-1]
    for part in (2, 4):
        variants_by_name[f"{name}, 1/{part} of the steps"] = replace(last, max_steps=max(1, steps // part))
    return variants_by_name


def measure(config: Config, samples: Sequence[LabelledSample], folder: Path, limit: int) -> dict[str, Any]:
    """Trains one variant in `folder` and scores it on at most `limit` samples of each part."""
    begun = time.monotonic()
    train_model(folder, config, folder, samples=samples)
    seconds = time.monotonic() - begun
    predictor, parts = Predictor.load(folder), split_samples(samples)
    row: dict[str, Any] = {"samples_seen": config.max_steps * config.batch}
    row["samples_per_second"] = row["samples_seen"] / seconds
    for part in PARTS:
        chosen = parts[part][:limit]
        answers = predictor.answers([(s.text, s.arch, s.flags) for s in chosen])
        scored = score_metrics(answer_ids(), [s.truth() for s in chosen], [normalised_values(a) for a in answers])
        errors = [m.median_rel_error for m in scored.metrics.values() if m.median_rel_error is not None]
        row[part] = {"n": len(chosen), "within_10": mean_within(scored), "median": median(errors) if errors else None}
    times = []
    for sample in parts["lineage"][:TIMED]:
        begun = time.monotonic()
        predictor.answers([(sample.text, sample.arch, sample.flags)])
        times.append(time.monotonic() - begun)
    row["answer_ms"] = 1000 * median(times)
    return row


def table(rows: Mapping[str, Mapping[str, Any]]) -> str:
    """The measured variants as a Markdown table."""
    lines = ["| " + " | ".join(COLUMNS) + " |", "|---" * len(COLUMNS) + "|"]
    for name, row in rows.items():
        within = [_percent(row[part]["within_10"]) for part in PARTS]
        cells = [name, str(row["samples_seen"]), *within, _percent(row["lineage"]["median"])]
        cells += [f"{row['samples_per_second']:.2f}", f"{row['answer_ms']:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{100 * share:.1f} %"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--steps", type=int, default=200, help="training steps of a variant")
    parser.add_argument("--batch", type=int, default=BASE.batch, help="samples of a step")
    parser.add_argument("--config", default="", help="recipe with a model from scratch, e.g. source")
    parser.add_argument("--context", type=int, default=768, help="tokens that a model reads")
    parser.add_argument("--limit", type=int, default=64, help="samples scored per part")
    parser.add_argument("--out", type=Path, default=Path("out/ablation"))
    parser.add_argument("--only", action="append", help="a variant; may be repeated")
    options = parser.parse_args(arguments)
    samples = [s for s in load_samples(options.corpus) if s.facts]
    rows: dict[str, dict[str, Any]] = {}
    for number, (name, config) in enumerate(
        variants(options.steps, options.context, options.batch, options.config).items()
    ):
        if options.only and name not in options.only:
            continue
        folder = options.out / f"variant-{number}"
        scores_path = folder / "scores.json"
        if not scores_path.exists():
            write_whole(scores_path, json.dumps(measure(config, samples, folder, options.limit), indent=1))
        rows[name] = json.loads(scores_path.read_text())
        write_whole(options.out / "ablation.json", json.dumps(rows, indent=1))
        write_whole(options.out / "ablation.md", table(rows))
        print(table({name: rows[name]}).splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()
