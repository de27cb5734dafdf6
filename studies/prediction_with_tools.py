"""Scores a model that predicts with tools beside the same weights without tools, and beside fixed plans to use them.

    python -m studies.prediction_with_tools MODEL PREVIEWS [--most N] [--surveyed CORPUS] [--page] [--ship]

MODEL: a folder of `synth train --config predict-tools-tiny`. PREVIEWS: a file of previews; the test samples in it are
scored first, and others are previewed and added until a set has --most. Calls are replayed from it and from the labels
of corpus/release/v1, of HANDWRITTEN (--handwritten, a corpus of `synth profile corpus/handwritten --flags=-O3 --out
HANDWRITTEN`) and of --surveyed, a corpus of `synth survey --corpus --keep-sources`. --page writes the tables and the
picture of docs/explanation/prediction-with-tools.md. --ship first makes MODEL, in bfloat16, the one of `synth predict
--tools`, and scores that. All figures are simulated.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt

from hipsynth.profiling.metrics.uncertainty import WIDEST
from hipsynth.simulator.devices import load_device
from hipsynth.training.analytic.model import DURATION as DURATION_NS
from hipsynth.training.analytic.model import AnalyticModel
from hipsynth.training.analytic.predict import PREDICTOR, SHIPPED
from hipsynth.training.analytic.preview_journal import PreviewFeatures, PreviewJournal
from hipsynth.training.data.dataset import LabelledSample, hash_share, load_samples, split_samples
from hipsynth.training.data.training_set import describe_training_set
from hipsynth.training.models.model_record import RECORD, model_record
from hipsynth.tuning.prediction.agent import SHIPPED_AGENT, PredictionAgent, likeliest
from hipsynth.tuning.prediction.chat import ANSWER, Question
from hipsynth.tuning.prediction.policy import WITHIN, best_plan, reward_of, share_within
from hipsynth.tuning.prediction.preview_error import PREVIEW_ERROR, PreviewErrorModel
from hipsynth.tuning.prediction.tools import DURATION, VALUES, RecordedTools, label_values, price_table
from hipsynth.tuning.prediction.traces import collect_previews, sample_id
from studies.markdown import format_table, write_tables

ROOT = Path(__file__).resolve().parents[1]
RELEASE = ROOT / "corpus" / "release" / "v1"
PAGE = ROOT / "docs" / "explanation" / "prediction-with-tools.md"
PICTURE = ROOT / "docs" / "images" / "prediction-with-tools.svg"
SHIPPED_FILES = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "README.md", PREVIEW_ERROR, RECORD)
LEANS = (-6.0, -4.0, -3.0, -2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 6.0)
TITLES = {
    "lineage": "unseen lineages",
    "families": "unseen families",
    "handwritten": "handwritten programs",
    "real": "surveyed programs",
}
MODEL, DIGITS, ALONE, PREVIEW, EXECUTE, DEFER, EXPECTING, HINDSIGHT = (
    "model with tools",
    "the same, every digit its own",
    "same weights, no tools",
    "always preview",
    "always execute",
    "preview, and execute as `--defer` does",
    "preview, and execute where it expects too little",
    "cheapest right plan, known afterwards",
)


@dataclass(frozen=True)
class ScoredAnswer:
    """One answer: the share of its values within 10 % of the label, its duration's relative error, its calls, the share
    that the model expected to be right, and whether its last call is that of the best plan."""

    share: float
    duration_error: float
    calls: tuple[str, ...]
    sure: float | None
    as_best: bool


@dataclass(frozen=True)
class TestSample:
    """A sample of a test set with its preview and the width of its predicted duration's interval."""

    sample: LabelledSample
    preview: PreviewFeatures | None
    unsure: bool  # `--defer` would execute it
    expected_share: float | None  # of the preview's values within 10 %, as the model's folder has learned it

    @property
    def tools(self) -> RecordedTools:
        """The tools, replayed."""
        return RecordedTools(self.sample, self.preview, self.expected_share)


@dataclass(frozen=True)
class PlanScores:
    """One row: means over a test set. `price_s`: seconds at the tools' prices; `wrong_calls`: share of answers whose
    last call is not that of the best plan; `stated`: what the model expected to be right, in the mean."""

    plan: str
    within: float
    duration: float
    price_s: float
    calls: float
    executed: float
    reward: float
    wrong_calls: float
    stated: float | None


def score_answer(
    test: TestSample, values: Mapping[str, float], calls: tuple[str, ...], sure: float | None
) -> ScoredAnswer:
    truth = label_values(test.sample)
    error = abs(values[DURATION] / truth[DURATION] - 1)
    last = calls[-1] if calls else ""
    best = best_plan(test.sample, test.preview).calls[-1]
    return ScoredAnswer(share_within(values, truth), error, calls, sure, last == best)


def follow_plan(test: TestSample, calls: tuple[str, ...]) -> ScoredAnswer:
    """The answer of these calls: the values of the last one that measured."""
    replies = [test.tools.call(name).values for name in calls]
    values = next((values for values in reversed(replies) if values is not None), dict.fromkeys(VALUES, 0.0))
    return score_answer(test, values, calls, None)


def list_fixed_plans() -> dict[str, Callable[[TestSample], tuple[str, ...]]]:
    """The calls of each plan to use the tools that no model chose."""
    table = price_table()
    threshold = 1 - table.price_weight * table.execute.price_s  # where an execution's gain is its price
    return {
        PREVIEW: lambda test: ("preview",),
        EXECUTE: lambda test: ("execute",),
        DEFER: lambda test: ("preview", "execute") if test.unsure else ("preview",),
        EXPECTING: lambda test: ("preview",) if (test.expected_share or 0.0) >= threshold else ("preview", "execute"),
        HINDSIGHT: lambda test: best_plan(test.sample, test.preview).calls,
    }


def ask_model(
    agent: PredictionAgent, tests: Sequence[TestSample], with_tools: bool, repeat: bool = True
) -> list[ScoredAnswer]:
    """The model's answers."""
    questions = [(Question.of(test.sample), test.tools if with_tools else None) for test in tests]
    answers = agent.answer(questions, repeat=repeat)
    return [
        score_answer(test, answer.values, answer.calls, answer.sure if with_tools else None)
        for test, answer in zip(tests, answers, strict=True)
    ]


class LeaningModel:
    """What a model would call if it leaned more to answering, or to further calls. Asks the model once for each state;
    the answer's values are those of the last call that measured."""

    def __init__(self, agent: PredictionAgent, tests: Sequence[TestSample]) -> None:
        self.agent, self.tests = agent, tests
        self.states: dict[tuple[int, tuple[str, ...]], Mapping[str, float]] = {}

    def score_lean(self, lean: float) -> PlanScores:
        """The row of a lean, which is added to the log-probability of answering."""
        return score_plan(
            MODEL, [follow_plan(test, self._choose_calls(number, lean)) for number, test in enumerate(self.tests)]
        )

    def _choose_calls(self, number: int, lean: float) -> tuple[str, ...]:
        calls: tuple[str, ...] = ()
        while (move := likeliest(lean)(self._ask_probabilities(number, calls))) != ANSWER:
            calls = (*calls, move)
        return calls

    def _ask_probabilities(self, number: int, calls: tuple[str, ...]) -> Mapping[str, float]:
        if (number, calls) not in self.states:
            test = self.tests[number]
            self.states[number, calls] = self.agent.probabilities(Question.of(test.sample), test.tools, calls)
        return self.states[number, calls]


def score_plan(plan: str, answers: Sequence[ScoredAnswer]) -> PlanScores:
    table = price_table()
    mean = statistics.fmean
    stated = [answer.sure for answer in answers if answer.sure is not None]
    return PlanScores(
        plan,
        mean(answer.share for answer in answers),
        mean(answer.duration_error <= WITHIN for answer in answers),
        mean(table.price(answer.calls) for answer in answers),
        mean(len(answer.calls) for answer in answers),
        mean("execute" in answer.calls for answer in answers),
        mean(reward_of(answer.share, answer.calls) for answer in answers),
        mean(not answer.as_best for answer in answers),
        mean(stated) if stated else None,
    )


def collect_parts(
    lineages: frozenset[str], handwritten: Path | None, surveyed: Path | None
) -> dict[str, list[LabelledSample]]:
    """The sets to score on, without relatives of what the model learned from: `lineages` of the release."""
    released = load_samples(RELEASE)
    learned = describe_training_set(sample for sample in released if sample.relatives in lineages)
    parts = {name: part for name, part in split_samples(released).items() if name in TITLES}
    parts |= {
        name: load_samples(corpus) for name, corpus in (("handwritten", handwritten), ("real", surveyed)) if corpus
    }
    unseen = {name: [s for s in part if not learned.has_relative(s)] for name, part in parts.items()}
    return {name: part for name, part in unseen.items() if part}


def collect_tests(
    parts: Mapping[str, Sequence[LabelledSample]], previews_file: Path, most: int, preview_error: PreviewErrorModel
) -> dict[str, list[TestSample]]:
    """The test sets, `most` samples of each, with their previews."""
    model, tests, journal = AnalyticModel.load(SHIPPED / PREDICTOR), {}, PreviewJournal(previews_file)
    for name, part in parts.items():
        chosen = sorted(part, key=lambda s: (s not in journal, hash_share(sample_id(s))))[:most]
        previews = collect_previews(chosen, journal, 2, lambda line: print(line, file=sys.stderr))
        tests[name] = [
            TestSample(sample, preview, _is_unsure(model, sample, preview), expect_share(preview_error, preview))
            for sample in chosen
            for preview in (previews[sample_id(sample)],)
        ]
    return tests


def expect_share(preview_error: PreviewErrorModel, preview: PreviewFeatures | None) -> float | None:
    """The share of a preview's values that is expected to be within 10 %; None without a preview."""
    return None if preview is None else preview_error.expect_shares([preview.features])[0]


def _is_unsure(model: AnalyticModel, sample: LabelledSample, preview: PreviewFeatures | None) -> bool:
    """Whether the default predictor abstains, which makes `--defer` execute."""
    if preview is None:
        return True
    arch = load_device(sample.device).arch
    low, high = model.predict([preview.features], [preview.quantities], [arch])[0].intervals[DURATION_NS]
    return low <= 0 or (high / low) ** 0.5 > math.exp(WIDEST)


def measure_calibration(answers: Sequence[ScoredAnswer]) -> list[tuple[str, int, float]]:
    """(stated share, answers, mean share that is right) by what the model stated."""
    groups: dict[str, list[float]] = {}
    for answer in answers:
        if answer.sure is not None:
            groups.setdefault(f"{answer.sure:.1f}", []).append(answer.share)
    return [(stated, len(shares), statistics.fmean(shares)) for stated, shares in sorted(groups.items())]


def draw_curves(curves: Mapping[str, Sequence[PlanScores]], fixed: Mapping[str, Sequence[PlanScores]]) -> None:
    """Accuracy over price: the model as it leans to answering or to further calls, beside the fixed plans."""
    plt.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.family": "sans-serif"})
    figure, axes = plt.subplots(1, len(curves), figsize=(4.2 * len(curves), 3.6), sharey=True, squeeze=False)
    marks = {PREVIEW: "s", EXECUTE: "^", DEFER: "D", EXPECTING: "P", HINDSIGHT: "*"}
    for axis, (name, curve) in zip(axes[0], curves.items(), strict=True):
        ordered = sorted(curve, key=lambda row: row.price_s)
        axis.plot([row.price_s for row in ordered], [100 * row.within for row in ordered], "o-", ms=3, label=MODEL)
        for row in fixed[name]:
            if row.plan in marks:
                axis.plot(
                    [row.price_s], [100 * row.within], marks[row.plan], ls="none", label=row.plan.replace("`", "")
                )
        axis.set_title(TITLES[name])
        axis.set_xlabel("seconds at the tools' prices, mean")
        axis.grid(alpha=0.3)
    axes[0][0].set_ylabel("values within 10 % of the label, %")
    axes[0][-1].legend(fontsize=7, loc="lower right")
    figure.tight_layout()
    figure.savefig(PICTURE, metadata={"Date": None})


def format_plan(row: PlanScores) -> list[str]:
    stated = "" if row.stated is None else f"{100 * row.stated:.1f}"
    shares = [f"{100 * row.within:.1f}", f"{100 * row.duration:.1f}", f"{row.price_s:.2f}", f"{row.calls:.2f}"]
    return [row.plan, *shares, f"{100 * row.executed:.0f}", f"{row.reward:.3f}", f"{100 * row.wrong_calls:.0f}", stated]


def render_tables(
    sets: Mapping[str, Sequence[PlanScores]],
    sizes: Mapping[str, int],
    sure: Sequence[tuple[str, int, float]],
    about: str,
) -> str:
    """The page's tables."""
    head = (
        "plan", "within 10 %, %", "durations within 10 %, %", "price, s", "calls", "executed, %", "reward",
        "other last call than the best, %", "stated, %",
    )  # fmt: skip
    parts = [f"\n{about}\n"]
    for name, plans in sets.items():
        title = f"**{TITLES[name].capitalize()}**, {sizes[name]} samples:\n"
        parts += [title, format_table(head, [format_plan(plan) for plan in plans])]
    rows = [(stated, str(count), f"{100 * share:.1f}") for stated, count, share in sure]
    parts += [
        "How sure the model says it is, all sets together:\n",
        format_table(("stated", "answers", "right, %"), rows),
    ]
    return "\n".join(parts)


def ship_model(model: Path) -> None:
    """Makes a trained model the shipped one, in half its size."""
    import torch
    from transformers import AutoModelForCausalLM

    shutil.rmtree(SHIPPED_AGENT, ignore_errors=True)
    SHIPPED_AGENT.mkdir()
    AutoModelForCausalLM.from_pretrained(model, dtype=torch.bfloat16).save_pretrained(SHIPPED_AGENT)
    for name in SHIPPED_FILES:
        shutil.copyfile(model / name, SHIPPED_AGENT / name)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("previews", type=Path)
    parser.add_argument("--handwritten", type=Path)
    parser.add_argument("--surveyed", type=Path)
    parser.add_argument("--most", type=int, default=250)
    parser.add_argument("--page", action="store_true", help=f"write the tables into {PAGE.relative_to(ROOT)}")
    parser.add_argument("--ship", action="store_true", help="make MODEL the shipped one first")
    options = parser.parse_args(arguments)
    if options.ship:
        ship_model(options.model)
        options.model = SHIPPED_AGENT
    record = model_record(options.model) or {}
    parts = collect_parts(frozenset(record.get("lineages", ())), options.handwritten, options.surveyed)
    agent = PredictionAgent.load(options.model)
    tests = collect_tests(parts, options.previews, options.most, PreviewErrorModel.load(options.model / PREVIEW_ERROR))
    sets: dict[str, list[PlanScores]] = {}
    curves, all_answers = {}, []
    for name, part in tests.items():
        print(name, len(part), file=sys.stderr, flush=True)
        answers = ask_model(agent, part, True)
        all_answers += answers
        rows = [score_plan(MODEL, answers), score_plan(DIGITS, ask_model(agent, part, True, repeat=False))]
        rows.append(score_plan(ALONE, ask_model(agent, part, False)))
        sets[name] = rows + [
            score_plan(plan, [follow_plan(test, calls(test)) for test in part])
            for plan, calls in list_fixed_plans().items()
        ]
        leaning_model = LeaningModel(agent, part)
        curves[name] = [leaning_model.score_lean(lean) for lean in LEANS]
    about = (
        f"{record.get('parameters', 0):,} parameters, {record.get('steps', 0):,} steps on "
        f"{record.get('samples', {}).get('train', 0):,} chats of {len(record.get('lineages', []))} lineages."
    )
    text = render_tables(
        sets, {name: len(part) for name, part in tests.items()}, measure_calibration(all_answers), about
    )
    print(text)
    print(json.dumps({name: [asdict(row) for row in rows] for name, rows in curves.items()}), file=sys.stderr)
    if options.page:
        draw_curves(curves, sets)
        write_tables(PAGE, text)


if __name__ == "__main__":
    main()
