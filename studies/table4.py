"""Reproduces the paper's Table 4, and shows what its test measures.

    python -m studies.table4 FOLDER [--form whole|hour] [--config NAME] [--base FOLDER] [--steps N] [--workers N]
        [--stage corpus|train|score ...] [--surveyed CORPUS] [--json] [--page]

FOLDER receives the programs, their renamed copies, labels, models and `table4.json`. Two models are trained: `table4`
answers in three decimals, as the paper's does, and `table4-sig3`, which goes on from it, in three significant digits.
Every stage goes on after an interruption. `score` takes what models are trained to the end. --page writes the tables
into docs/explanation/table4.md. --surveyed: a corpus of `synth survey --corpus`, whose programs `score` asks about.
--config and --base train another recipe instead, for example the paper's:

    torchrun --nproc_per_node 8 -m studies.table4 FOLDER --stage train --config paper --base Llama-3.2-3B-Instruct
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hipsynth.core.documents import from_json, to_json
from hipsynth.core.files import write_whole
from hipsynth.training.data.dataset import LabelledSample, load_samples
from hipsynth.training.data.random_split import add_copies, split_at_random
from hipsynth.training.evaluation.scores import BOUNDS
from hipsynth.training.evaluation.table4 import (
    NEAREST,
    RANDOM,
    UNSEEN,
    SetScores,
    TestSets,
    collect_sets,
    pool_of,
    predict_baselines,
    rows_of_metrics,
    rows_of_sets,
    score_sets,
    share_code,
)
from hipsynth.training.models.config import load_config
from hipsynth.training.models.model_record import model_record
from hipsynth.training.models.predict import Predictor, read_answer_values
from hipsynth.training.models.train import train_model
from studies.markdown import format_table, write_tables

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "explanation" / "table4.md"
RELEASE, HANDWRITTEN = ROOT / "corpus" / "release" / "v1", ROOT / "corpus" / "handwritten"
ARCHES = ("--arch", "gfx90a", "--arch", "gfx942")
SOME_FAILED = 5  # exit code of `synth profile`; the others are labelled
SEED = "404"
STAGES = ("corpus", "train", "score")
RECIPES = ("table4", "table4-sig3")  # each goes on from the one before it
SHOWN_STEPS = 100
FREE_ANSWERS = 64  # decoded without a forced skeleton
TITLES = {
    RANDOM: "at random, as in the paper",
    "lineage": "unseen lineages",
    "families": "unseen families",
    "handwritten": "handwritten programs",
    "real": "surveyed programs",
}
RULE_HEADS = ("unrounded", "three decimals", "unrounded, strict zeros")
assert set(TITLES) == {RANDOM, *UNSEEN}


@dataclass(frozen=True)
class ReproductionSize:
    """How large a reproduction is: generated programs, renamed copies of each, training steps of a model at most."""

    programs: int
    copies: int
    steps: int


FORMS = {"whole": ReproductionSize(300, 5, 50_000), "hour": ReproductionSize(60, 3, 2_500)}


def make_corpus(folder: Path, form: ReproductionSize, workers: int) -> None:
    """Generates, renames and labels the pool, and labels the handwritten programs. Copies, which are their original's
    machine code, share its labels."""
    originals, copies = folder / "originals", folder / "programs"
    size = ("--count", form.programs, "--seed", SEED, "--sizes", 1)
    run_synth("generate", *size, "--workers", workers, "--out", originals)
    run_synth("augment", originals, "--copies", form.copies, "--seed", SEED, "--workers", workers, "--out", copies)
    run_synth("profile", originals, "--out", folder / "corpus", *ARCHES, "--flags", "@default", "--workers", workers)
    run_synth("profile", HANDWRITTEN, "--out", folder / "handwritten", *ARCHES, "--flags=-O3", "--workers", workers)


def run_synth(*arguments: object) -> None:
    """Runs one command of synth, its output on stderr; raises CalledProcessError if it fails altogether."""
    command = [sys.executable, "-m", "hipsynth.cli.main", *map(str, arguments)]
    process = subprocess.run(command, stdout=sys.stderr, check=False)
    if process.returncode not in (0, SOME_FAILED):
        raise subprocess.CalledProcessError(process.returncode, command)


def load_pool(folder: Path) -> list[LabelledSample]:
    """The labelled programs of a folder of `make_corpus`, with their copies."""
    return add_copies(pool_of(load_samples(folder / "corpus")), folder / "programs")


def train_models(folder: Path, recipes: Mapping[str, str], steps: int, clock: StageClock) -> None:
    """Trains a model of each recipe, from the base beside its name ("": the recipe's), on the pool's training part; or
    goes on with it."""

    def print_progress(step: int, total: int, note: str) -> None:
        if step % SHOWN_STEPS == 0 or step == total:
            print(f"{step} of {total} {note}", file=sys.stderr, flush=True)
            clock.save_time()

    pool = load_pool(folder)
    for recipe, base in recipes.items():
        config = load_config(recipe)
        config = replace(config, max_steps=min(steps, config.max_steps), base=base or config.base)
        train_model(folder, config, find_models_folder(folder) / recipe, print_progress, pool, split_at_random)


def find_models_folder(folder: Path) -> Path:
    return folder.resolve() / "models"  # a model records where its base is


def list_bases(folder: Path) -> dict[str, str]:
    """The base of each of RECIPES."""
    trained = [str(find_models_folder(folder) / recipe) for recipe in RECIPES]
    return dict(zip(RECIPES, ["", *trained], strict=False))


def score_models(folder: Path, surveyed: Path | None = None) -> dict[str, Any]:
    """All scores as a document: `sets` as score_sets has them, `models` the records of those trained to the end."""
    pool = load_pool(folder)
    corpora = [RELEASE, folder / "handwritten", *([surveyed] if surveyed else [])]
    others = [sample for corpus in corpora for sample in load_samples(corpus)]
    tests = collect_sets(pool, others)
    predicted: dict[str, Any] = dict(predict_baselines(tests, share_code(pool)))
    scores: dict[str, Any] = {"date": f"{datetime.now(UTC):%d %B %Y}", "train": len(tests.train), "models": {}}
    scores["programs"] = len({sample.lineage for sample in tests.train})
    for path in sorted(find_models_folder(folder).glob("*"), reverse=True):
        if (record := model_record(path)) is not None:
            predictor = Predictor.load(path)
            predicted = {path.name: ask_model(predictor, tests), **predicted}
            scores["models"][path.name] = {**record, "valid_json": measure_valid_json(predictor, tests.sets[RANDOM])}
    return {**scores, "times": read_times(folder), "sets": to_json(score_sets(tests, predicted))}


def ask_model(predictor: Predictor, tests: TestSets) -> dict[str, Any]:
    questions = {name: [(s.text, s.arch, s.flags) for s in part] for name, part in tests.sets.items()}
    return {
        name: [read_answer_values(answer) for answer in predictor.answers(questions_asked)]
        for name, questions_asked in questions.items()
    }


def measure_valid_json(predictor: Predictor, samples: Sequence[LabelledSample]) -> float:
    """The share of answers that are valid when nothing forces them to be."""
    from hipsynth.training.data.prompt import parse_answer

    asked_samples = [(s.text, s.arch, s.flags) for s in samples[:FREE_ANSWERS]]
    texts, digits = predictor.decoder.decode_freely(asked_samples), predictor.record["format"]
    answers = [
        parse_answer(t, arch=a, flags=f, digits=digits) for t, (_, a, f) in zip(texts, asked_samples, strict=True)
    ]
    return sum(answer.valid for answer in answers) / len(answers)


def read_times(folder: Path) -> dict[str, float]:
    """Processor hours by stage, all calls together."""
    path = folder / "times.json"
    times: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    return times


class StageClock:
    """Adds up the processor time of a stage, this process and its children, in `times.json` of a folder."""

    def __init__(self, folder: Path, stage: str) -> None:
        self.folder, self.stage, self.saved = folder, stage, read_processor_hours()

    def save_time(self) -> None:
        """Adds the time since the last call."""
        now, times = read_processor_hours(), read_times(self.folder)
        times[self.stage] = times.get(self.stage, 0.0) + now - self.saved
        write_whole(self.folder / "times.json", json.dumps(times))
        self.saved = now


def read_processor_hours() -> float:
    """Of this process and its children that have ended."""
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(use.ru_utime + use.ru_stime for use in used) / 3600


def render_tables(document: Mapping[str, Any]) -> str:
    """The document of `score_models` as Markdown."""
    scores = {name: from_json(SetScores, set_scores) for name, set_scores in document["sets"].items()}
    who = next((recipe for recipe in RECIPES if recipe in document["models"]), NEAREST)
    heads = ["metric", *(f"{bound} % (paper)" for bound in BOUNDS)]
    sets = ["tested on", "samples", "with a relative in training, %", "predictor", *RULE_HEADS]
    rows = [[TITLES[name], *rest] for name, *rest in rows_of_sets(scores)]
    rows = [
        [*row[:3], f"language model `{row[3]}`" if row[3] in document["models"] else row[3], *row[4:]] for row in rows
    ]
    hours = ", ".join(f"{stage} {spent:.1f}" for stage, spent in document["times"].items())
    models = [f"Processor hours by stage: {hours}.\n"] if document["models"] else []
    models += [
        f"`{name}`: {model['parameters']:,} parameters, {model['steps']:,} steps, {model['valid_json']:.0%} of answers "
        "valid JSON when nothing forces them to be.\n"
        for name, model in document["models"].items()
    ]
    return "\n".join(
        [
            f"\n{document['date']}; {document['train']:,} training samples of {document['programs']} programs.\n",
            *models,
            f"**Table 4, {who}**: percent within the bound, both numbers in three decimals, in brackets the paper's.\n",
            format_table(heads, rows_of_metrics(scores[RANDOM], who)),
            "**All predictors**: mean of the ten metrics within 10 %, in percent, by three rules.\n",
            format_table(sets, rows),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--form", choices=tuple(FORMS), default="whole", help="hour: a smaller one, for a first look")
    parser.add_argument("--config", help="train this recipe alone")
    parser.add_argument("--base", default="", help="with --config: folder of the base model, instead of the recipe's")
    parser.add_argument("--steps", type=int, help="training steps at most, instead of the form's")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stage", choices=STAGES, action="append", help="may be repeated; default: all")
    parser.add_argument("--surveyed", type=Path, help="a corpus of surveyed programs")
    parser.add_argument("--json", action="store_true", help="print the document instead of tables")
    parser.add_argument("--page", action="store_true", help=f"write the tables into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    form, stages = FORMS[options.form], options.stage or STAGES
    options.folder.mkdir(parents=True, exist_ok=True)
    for stage in stages:
        clock = StageClock(options.folder, stage)
        if stage == "corpus":
            make_corpus(options.folder, form, options.workers)
        elif stage == "train":
            recipes = {options.config: options.base} if options.config else list_bases(options.folder)
            train_models(options.folder, recipes, options.steps or form.steps, clock)
        else:
            write_whole(
                options.folder / "table4.json", json.dumps(score_models(options.folder, options.surveyed), indent=1)
            )
        clock.save_time()
    if "score" in stages:
        document = json.loads((options.folder / "table4.json").read_text())
        print(json.dumps(document, indent=1) if options.json else render_tables(document))
        if options.page:
            write_tables(PAGE, render_tables(document))


if __name__ == "__main__":
    main()
