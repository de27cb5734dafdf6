"""Makes the shipped language model: learns from previews, then from executed labels, and says how good it is.

    python -m studies.source_model PREVIEWS RELEASE --out FOLDER [--steps N N] [--batch N] [--seconds N]
    python -m studies.source_model --ship FOLDER RELEASE

PREVIEWS is a corpus of `synth profile --backend preview`, RELEASE one of executed labels. Two recipes, `source-large`
and then `source-tune` with its model as base; both learn only the training parts. Prints and writes (scores.json) the
share of values within 10 % and the median error, of each model on each held-out part of RELEASE. Both trainings resume.
--ship measures the model's intervals on RELEASE's validation part, and packs it into training/models/shipped.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any

from hipsynth.core.files import write_whole
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.data.dataset import LabelledSample, load_samples, split_samples
from hipsynth.training.evaluation.evaluate import held_out
from hipsynth.training.evaluation.scores import mean_within, score_metric, score_metrics
from hipsynth.training.models.calibrate import calibrate_intervals
from hipsynth.training.models.model_record import RECORD, model_record
from hipsynth.training.models.predict import SHIPPED, Predictor, auxiliary_facts, normalised_values
from hipsynth.training.models.quantise import pack_model
from hipsynth.training.models.train import TRAINING_SET, load_config, train_model

STAGES = ("previews", "labels")
RECIPES = ("source-large", "source-tune")
KEPT = ("version", "status", "fingerprint", "config", "base", "format", "context", "view", "parameters", "steps")
KEPT_TOO = ("samples", "train_loss", "valid_loss", "backends", "targets", "versions")


def scores(predictor: Predictor, parts: Mapping[str, Sequence[LabelledSample]]) -> dict[str, Any]:
    """For each part: samples, share of the twelve metrics within 10 %, medians of their errors and the duration's."""
    results: dict[str, Any] = {}
    for name, part in parts.items():
        if not part:
            continue
        answers = predictor.answers([(s.text, s.arch, s.flags) for s in part])
        scored = score_metrics(answer_ids(), [s.truth() for s in part], [normalised_values(a) for a in answers])
        errors = [m.median_rel_error for m in scored.metrics.values() if m.median_rel_error is not None]
        times = [auxiliary_facts(a).get("duration_ns") for a in answers]
        duration = score_metric([s.duration_ns for s in part], [t if isinstance(t, float) else None for t in times])
        results[name] = {
            "n": len(part),
            "within_10": mean_within(scored),
            "median": median(errors) if errors else None,
            "duration_within_10": duration.within["10"],
            "duration_median": duration.median_rel_error,
            "metrics": {m: row.within["10"] for m, row in scored.metrics.items()},
        }
    return results


def make(previews: Path, release: Path, out: Path, steps: Sequence[int], batch: int) -> dict[str, Any]:
    """Both stages and their scores."""
    rows: dict[str, Any] = {}
    samples = load_samples(release)
    for stage, recipe, most in zip(STAGES, RECIPES, steps, strict=True):
        config = load_config(recipe)
        config = replace(config, max_steps=most or config.max_steps, batch=batch or config.batch)
        if stage == "labels":
            config = replace(config, base=str(out / "previews"))
        learned = load_samples(previews) if stage == "previews" else samples
        record = train_model(out, config, out / stage, show, learned)
        _, parts, _ = held_out(out / stage, samples)
        rows[stage] = scores(Predictor.load(out / stage), parts)
        rows[stage]["training"] = {
            name: record[name] for name in ("steps", "tokens_per_second", "train_loss", "valid_loss", "samples")
        }
        write_whole(out / "scores.json", json.dumps(rows, indent=1))
        print(stage, {n: (r["n"], r["within_10"], r["median"]) for n, r in rows[stage].items() if "n" in r}, flush=True)
    return rows


def show(done: int, total: int, note: str) -> None:
    if done % 50 == 0 or done == total:
        print(f"{done} of {total} {note}", flush=True)


def ship(made: Path, release: Path) -> None:
    """Packs the second stage's model, with its intervals."""
    model = made / STAGES[-1]
    record = model_record(model)
    assert record is not None, f"{model}: not finished"
    predictor = Predictor.load(model)
    parts = split_samples(load_samples(release))
    settings: dict[str, object] = {name: value for name, value in record.items() if name in (*KEPT, *KEPT_TOO)}
    settings["base"], settings["intervals"] = "tiny", calibrate_intervals(predictor, parts["valid"])
    settings["config"] = {
        **record["config"],
        "base": Path(str(record["config"]["base"])).name,
    }  # no path of this machine
    shutil.rmtree(SHIPPED / "weights", ignore_errors=True)
    pack_model(predictor.decoder.model, SHIPPED)
    predictor.decoder.encoder.tokenizer.save_pretrained(SHIPPED)
    shutil.copyfile(model / TRAINING_SET, SHIPPED / TRAINING_SET)
    write_whole(SHIPPED / RECORD, json.dumps(settings, indent=1))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("corpora", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, default=Path("out/source_model"))
    parser.add_argument("--steps", type=int, nargs=2, default=(0, 0), help="of each stage, instead of the recipes'")
    parser.add_argument("--batch", type=int, default=0, help="samples of a step, instead of the recipes'")
    parser.add_argument("--ship", type=Path, help="a finished FOLDER")
    options = parser.parse_args(arguments)
    if options.ship:
        ship(options.ship, options.corpora[-1])
    else:
        make(options.corpora[0], options.corpora[-1], options.out, options.steps, options.batch)


if __name__ == "__main__":
    main()
