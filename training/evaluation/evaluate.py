"""Scores a model on the held-out parts of a corpus, together with baselines fitted on the model's training samples."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from hipsynth.core.documents import document_json, from_json, to_json
from hipsynth.core.errors import BadInput
from hipsynth.core.files import RESULT_BYTES, read_regular, write_whole
from hipsynth.core.languages import NAMES
from hipsynth.profiling import metrics as table
from hipsynth.profiling.reports.numbers import format_percentage
from hipsynth.simulator.label_model import preview_version
from hipsynth.training.analytic.baseline import AnalyticBaseline
from hipsynth.training.analytic.model import DURATION, AnalyticModel
from hipsynth.training.analytic.predict import PREDICTOR, is_analytic
from hipsynth.training.analytic.preview_journal import PreviewJournal
from hipsynth.training.data.dataset import (
    TEST_PARTS,
    LabelledSample,
    hash_share,
    load_samples,
    split_samples,
)
from hipsynth.training.data.prompt import parse_answer
from hipsynth.training.data.training_set import read_training_set
from hipsynth.training.evaluation.documents import (
    BaselineScores,
    DurationScores,
    EvaluatedModel,
    EvaluationDocument,
    MetricScores,
    PartScores,
    PredictedSample,
    PredictorScores,
    SplitScores,
)
from hipsynth.training.evaluation.ranking import rank_variants
from hipsynth.training.evaluation.scores import BOUNDS, mean_within, score_metric, score_metrics
from hipsynth.training.models.baselines import Baseline, Disassemble, GradientBoosting, all_baselines
from hipsynth.training.models.model_record import ModelRecord, model_record
from hipsynth.training.models.predict import Predictor, read_answer_values

EVALUATION, PREDICTIONS = "evaluation.json", "predictions.json"
DURATION_QUANTITY = "duration"
ALONE = ("preview", "bound")
EXACT = 1e-9  # relative: rounding when an interval has no width
FREE_SAMPLES = 16  # samples per split decoded without constraints: slow, and only used to count valid JSON

Predicted = list[dict[str, float | None]]
Note = Callable[[str], None]


def _ignore_message(text: str) -> None:
    """Ignores a message."""


@dataclass(frozen=True)
class Messages:
    """What hears of an evaluation: `note` its progress, `remark` what is to be known of its result."""

    note: Note = _ignore_message
    remark: Note = _ignore_message


@dataclass
class Evaluation:
    """`document` is what `synth evaluate --json` prints; samples and predictions are for figures and reports."""

    document: EvaluationDocument
    parts: dict[str, list[LabelledSample]]
    predicted: dict[str, dict[str, Predicted]]  # predictor -> split -> normalised predictions


def evaluate_model(
    predictor: ScoredPredictor,
    samples: Sequence[LabelledSample],
    *,
    free_samples: int = FREE_SAMPLES,
    share: float = 1.0,
    disassemble: Disassemble | None = None,
    messages: Messages | None = None,
) -> Evaluation:
    """Scores a predictor on the held-out parts of `samples`.

    `lineage` is leak-free; `random` holds out single samples whose programs were trained on under other names or
    flags, like the paper's test set; for the others see training.data.dataset. Samples that the model was trained
    on are excluded from every split. `share`: of the held-out programs, those that are scored. The baselines are fitted
    on the model's training samples, if the corpus has them. Raises BadInput if nothing is held out.
    """
    messages = messages or Messages()
    train, parts, excluded = held_out(predictor.path, samples)
    held_out_samples = sum(map(len, parts.values()))
    parts = {name: [s for s in part if hash_share(f"scored:{s.program_id}") < share] for name, part in parts.items()}
    if not train:
        messages.remark("none of the model's training samples is in this corpus: no baselines")
    if not any(parts.values()):
        if held_out_samples:
            problem = f"--share {share:g} leaves none of the {held_out_samples} held-out samples to test"
            raise BadInput(problem, remedy="a larger share")
        raise BadInput("no held-out samples to test", remedy="profile more programs into the corpus")
    by_model: dict[str, Predicted] = {}
    valid: dict[str, tuple[float | None, int]] = {}
    for name, part in parts.items():
        messages.note(f"model: {len(part)} samples of split {name}")
        by_model[name] = predictor.predict(part)
        valid[name] = predictor.valid_share(part[:free_samples])
    baselines = _choose_baselines(predictor, disassemble) if train else []
    predicted = {"model": by_model, **_predict_with_baselines(baselines, train, parts, messages)}
    record = predictor.record
    document = EvaluationDocument(
        model=EvaluatedModel(str(predictor.path), record["base"], str(record["config"]["name"])),
        format=record["format"],
        train_samples=len(train),
        backends=tuple(sorted({s.backend for s in train})),
        splits=_score_splits(predictor, parts, by_model, valid),
        baselines=_score_baselines(parts, predicted),
        about_baselines={baseline.name: baseline.about for baseline in baselines if baseline.name in predicted},
        without_code_features=sum(b.without_code for b in baselines if isinstance(b, GradientBoosting)),
        excluded=excluded,
        fingerprint=evaluation_fingerprint(record, samples, share),
    )
    return Evaluation(document, parts, predicted)


def _choose_baselines(predictor: ScoredPredictor, disassemble: Disassemble | None) -> list[Baseline]:
    baselines: list[Baseline] = all_baselines(disassemble)
    if disassemble is None and isinstance(predictor, ScoredLanguageModel):
        baselines.append(AnalyticBaseline(journal=predictor.journal))
    return baselines


def _predict_with_baselines(
    baselines: Sequence[Baseline],
    train: Sequence[LabelledSample],
    parts: Mapping[str, Sequence[LabelledSample]],
    messages: Messages,
) -> dict[str, dict[str, Predicted]]:
    """Fits each baseline that these samples suffice for; baseline -> split -> predictions."""
    predicted = {}
    for baseline in baselines:
        messages.note(f"baseline: {baseline.name}")
        try:
            baseline.fit(train)
        except BadInput as error:
            messages.remark(f"left out: {baseline.name}: {error.what}")
            continue
        predicted[baseline.name] = {name: baseline.predict(part) for name, part in parts.items()}
    return predicted


def held_out(
    model: Path, samples: Sequence[LabelledSample]
) -> tuple[list[LabelledSample], dict[str, list[LabelledSample]], dict[str, int]]:
    """(the model's training samples, the test parts, the number of excluded samples by reason).

    Raises BadInput if the model's list of training samples is unreadable.
    """
    trained = read_training_set(model)
    parts_found = split_samples(samples)
    parts = {name: list(parts_found[name]) for name in TEST_PARTS}
    excluded = {"duplicate_text": len(parts_found["duplicate"]), "trained_on": 0}
    for name, part in parts.items():
        parts[name] = [s for s in part if not trained.has_sample(s)]
        if name != "random":
            parts[name] = [s for s in parts[name] if not trained.has_relative(s)]
        excluded["trained_on"] += len(part) - len(parts[name])
    return [s for s in samples if s.key in trained.keys], parts, excluded


class ScoredPredictor(Protocol):
    """A predictor of a model folder, as evaluation asks it."""

    path: Path
    record: ModelRecord

    def predict(self, samples: Sequence[LabelledSample]) -> Predicted: ...

    def valid_share(self, part: Sequence[LabelledSample]) -> tuple[float | None, int]:
        """(share of valid answers in unconstrained decoding or None, number of answers)."""


class ScoredLanguageModel:
    """A language model, which reads the source alone. `journal`: for the previews of the baseline beside it."""

    def __init__(self, predictor: Predictor, journal: PreviewJournal | None = None) -> None:
        self.predictor, self.path, self.record = predictor, predictor.path, predictor.record
        self.journal = journal

    def predict(self, samples: Sequence[LabelledSample]) -> Predicted:
        return [read_answer_values(a) for a in self.predictor.answers([(s.text, s.arch, s.flags) for s in samples])]

    def valid_share(self, part: Sequence[LabelledSample]) -> tuple[float | None, int]:
        """(share of answers in the asked format, number of answers) when the model writes freely; (None, 0) without
        samples."""
        if not part:
            return None, 0
        texts = self.predictor.decoder.decode_freely([(s.text, s.arch, s.flags) for s in part])
        targets = [(s.arch, s.flags, self.record["format"]) for s in part]
        good = [parse_answer(t, arch=a, flags=f, digits=d).valid for t, (a, f, d) in zip(texts, targets, strict=True)]
        return sum(good) / len(part), len(part)


class ScoredAnalyticPredictor(AnalyticBaseline):
    """The analytic predictor; it also predicts durations and intervals."""

    def __init__(self, path: Path, record: ModelRecord, journal: PreviewJournal | None) -> None:
        super().__init__(AnalyticModel.load(path / PREDICTOR), journal=journal)
        self.path, self.record = path, record

    def valid_share(self, part: Sequence[LabelledSample]) -> tuple[float | None, int]:
        return None, 0

    def with_own_scores(self, scored: SplitScores, part: Sequence[LabelledSample]) -> PredictorScores:
        """The scores with those of what it alone predicts."""
        corrected = self.corrected(part)
        times = [None if c is None else c.duration_ns for c in corrected]
        inside: dict[str, list[bool]] = {}
        for sample, correction in zip(part, corrected, strict=True):
            for name, (low, high) in correction.intervals.items() if correction else ():
                true = sample.duration_ns if name == DURATION else sample.metrics.get(name)
                if true is not None:
                    inside.setdefault(name, []).append(low * (1 - EXACT) <= true <= high * (1 + EXACT))
        shares = {name: sum(values) / len(values) for name, values in inside.items()}
        previews = self.previews(part)
        durations = {
            "model": times,
            "preview": [None if p is None else p.quantities[DURATION_QUANTITY] for p in previews],
            "bound": [None if p is None else p.bound_ns for p in previews],
        }
        labels = [s.duration_ns for s in part]
        heaviest = _heaviest_kernels(part)  # the order of variants is that of their heaviest kernels
        main = [part[i] for i in heaviest]
        without = {name: score_metric(labels, durations[name]) for name in ALONE}
        return PredictorScores(
            **vars(scored),
            duration=DurationScores(**vars(score_metric(labels, times)), without=without),
            inside_intervals=shares,
            no_preview=sum(p is None for p in previews),
            bottleneck_agreement=bottleneck_agreement(part, [None if p is None else p.bottleneck for p in previews]),
            ranking=rank_variants(main, {name: [times[i] for i in heaviest] for name, times in durations.items()}),
            devices=_by_device(part, times),
        )


def _heaviest_kernels(part: Sequence[LabelledSample]) -> list[int]:
    """The sample of each run's heaviest kernel, by its place."""
    runs: dict[str, list[int]] = {}
    for i, sample in enumerate(part):
        runs.setdefault(sample.key, []).append(i)
    return [
        max(places, key=lambda i: part[i].duration_ns * (part[i].facts.dispatches or 1)) for places in runs.values()
    ]


def _by_device(part: Sequence[LabelledSample], times: Sequence[float | None]) -> dict[str, MetricScores]:
    """The scores of the duration for each device."""
    devices = {}
    for device in sorted({sample.device for sample in part}):
        here = [i for i, sample in enumerate(part) if sample.device == device]
        devices[device] = score_metric([part[i].duration_ns for i in here], [times[i] for i in here])
    return devices


def bottleneck_agreement(samples: Sequence[LabelledSample], units: Sequence[str | None]) -> float | None:
    """The share of samples whose limiting unit is the predicted one, of those that have both."""
    same = [
        unit == sample.facts.bottleneck
        for sample, unit in zip(samples, units, strict=True)
        if unit is not None and sample.facts.bottleneck
    ]
    return sum(same) / len(same) if same else None


def open_predictor(model: Path, journal: PreviewJournal | None = None) -> ScoredPredictor:
    """The predictor of a model folder; `journal`: for its previews. Raises MissingDependency if there is none,
    BadInput if it is damaged."""
    if (model / PREDICTOR).exists() and (record := model_record(model)) is not None:
        return ScoredAnalyticPredictor(model, record, journal)
    return ScoredLanguageModel(Predictor.load(model), journal)


def _score_splits(
    predictor: ScoredPredictor,
    parts: Mapping[str, Sequence[LabelledSample]],
    predicted: Mapping[str, Predicted],
    valid: Mapping[str, tuple[float | None, int]],
) -> dict[str, SplitScores]:
    """The model's scores on each split."""
    splits, trained = {}, read_training_set(predictor.path)
    for name, part in parts.items():
        share, number = valid[name]
        scored = score_metrics(table.paper_ids(), [s.true_metrics() for s in part], predicted[name], share)
        languages = _by_language(part, predicted[name])
        leak = sum(map(trained.has_relative, part)) / len(part) if part else 0.0
        split = SplitScores(**vars(scored), valid_json_n=number, leak=leak, languages=languages)
        if isinstance(predictor, ScoredAnalyticPredictor):
            split = predictor.with_own_scores(split, part)
        splits[name] = split
    return splits


def _by_language(part: Sequence[LabelledSample], predicted: Predicted) -> dict[str, PartScores]:
    """The scores of the samples in each language; {} if there is one."""
    places: dict[str, list[int]] = {}
    for place, sample in enumerate(part):
        places.setdefault(sample.language, []).append(place)
    if len(places) < 2:
        return {}
    return {
        language: score_metrics(
            table.paper_ids(), [part[i].true_metrics() for i in here], [predicted[i] for i in here], None
        )
        for language, here in sorted(places.items())
    }


def _score_baselines(
    parts: Mapping[str, Sequence[LabelledSample]], predicted: Mapping[str, Mapping[str, Predicted]]
) -> dict[str, BaselineScores]:
    truths = {name: [s.true_metrics() for s in part] for name, part in parts.items()}
    baselines = {}
    for baseline, by_split in predicted.items():
        if baseline != "model":
            scored = {name: score_metrics(table.paper_ids(), truths[name], by_split[name]) for name in parts}
            baselines[baseline] = BaselineScores(**vars(scored["lineage"]), splits=scored)
    return baselines


def load_evaluated(
    corpus: Path, model: Path, backend: str | None, remark: Callable[[str], None] = lambda _: None
) -> list[LabelledSample]:
    """The samples of a corpus that an evaluation of the model is about: every device and kernel for the default
    predictor, the heaviest kernel of each run on the default devices for a language model. `remark`: as of
    load_samples(). Raises BadInput."""
    everything = is_analytic(model)
    return load_samples(corpus, backend, every_device=everything, every_kernel=everything, remark=remark)


def evaluation_fingerprint(record: ModelRecord, samples: Sequence[LabelledSample], share: float = 1.0) -> str:
    """A hash of the inputs of an evaluation: the model, the samples with their labels, which of them are scored, and
    the version of previews, which the default predictor makes, and the baseline beside other models that it is."""
    labels = sorted((s.key, s.kernel, s.duration_ns, sorted(s.metrics.items())) for s in samples)
    parts = [record["fingerprint"], labels, share, preview_version()]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def save_evaluation(evaluation: Evaluation, folder: Path) -> None:
    """Writes evaluation.json (the document) and predictions.json (every sample with truths and predictions)."""
    rows = []
    for name, part in evaluation.parts.items():
        for index, sample in enumerate(part):
            rows.append(
                PredictedSample(
                    split=name,
                    key=sample.key,
                    arch=sample.arch,
                    flags=sample.flags,
                    program_id=sample.program_id,
                    family=sample.family,
                    kernel=sample.kernel,
                    truth=sample.true_metrics(),
                    predicted={predictor: by[name][index] for predictor, by in evaluation.predicted.items()},
                )
            )
    write_whole(folder / PREDICTIONS, json.dumps(to_json(rows)))
    write_whole(folder / EVALUATION, json.dumps(document_json(evaluation.document), indent=1))


def read_evaluation(folder: Path) -> tuple[EvaluationDocument, list[PredictedSample]]:
    """What save_evaluation() wrote. Raises BadInput, ValueError or TypeError if it is missing or damaged."""
    document, rows = (json.loads(read_regular(folder / name, RESULT_BYTES)) for name in (EVALUATION, PREDICTIONS))
    return from_json(EvaluationDocument, document), [from_json(PredictedSample, row) for row in rows]


TITLES = {
    "lineage": "by lineage: no relative of a test program was trained on",
    "random": "at random, as in the paper: renamed copies and other builds of the test programs were trained on",
    "handwritten": "handwritten programs: none was trained on",
    "families": "families and compositions of which no program was trained on",
    "device": "devices of which no label was trained on, with programs that were not trained on either",
    "real": "real programs of surveys: none was trained on",
}
MEANS = {"within": "mean", "within_rounded": "mean, three decimals", "within_strict": "mean, strict zeros"}
SHORT = {"constant": "const.", "nearest_neighbour": "nearest", "gradient_boosting": "boosted", "analytic": "analytic"}


def evaluation_table(document: EvaluationDocument) -> str:
    """The paper's Table 4 per split as text: shares within 2 to 10 %, median error in percent, rank correlation, and
    the baselines' shares within 10 %."""
    lines: list[str] = []
    for name, scored in document.splits.items():
        lines += ["", f"Split {TITLES.get(name, name)}"]
        if not scored.n:
            lines.append("  no samples")
            continue
        valid = "not measured" if scored.valid_json is None else f"{100 * scored.valid_json:.0f} %"
        lines.append(
            f"  {scored.n} samples; {100 * scored.leak:.0f} % have a relative in training; "
            f"valid JSON when decoded freely: {valid} of {scored.valid_json_n}"
        )
        baselines = {b: by.splits[name] for b, by in document.baselines.items()}
        lines += _split_rows(scored, baselines)
        lines += _language_rows(scored)
        lines += _own_rows(scored) if isinstance(scored, PredictorScores) else []
    return "\n".join(lines[1:])


def _language_rows(scored: SplitScores) -> list[str]:
    """One row for each language of a split, if there are several."""
    return [
        f"  {NAMES[language]}: {format_percentage(mean_within(by, 10, 'within'))} % of {by.n} samples within 10 %, mean"
        for language, by in scored.languages.items()
    ]


def _own_rows(scored: PredictorScores) -> list[str]:
    """Rows that only the analytic predictor has: duration, intervals, limiting unit, order of variants."""
    time = scored.duration
    medians = [format_percentage(d.median_rel_error) for d in (time, *(time.without[name] for name in ALONE))]
    inside = [share for name, share in scored.inside_intervals.items() if name != DURATION]
    shares = (
        format_percentage(sum(inside) / len(inside) if inside else None),
        format_percentage(scored.inside_intervals.get(DURATION)),
    )
    right = format_percentage(scored.bottleneck_agreement)
    lines = [
        f"  duration: {format_percentage(time.within['10'])} % within 10 %, median error {medians[0]} % "
        f"(uncorrected {medians[1]} %, the largest bound alone {medians[2]} %)",
        f"  80 % intervals hold {shares[0]} % of the metrics and {shares[1]} % of the durations; "
        f"limiting unit right in {right} %; no answer for {scored.no_preview} of {scored.n}",
    ]
    for device, by in scored.devices.items() if len(scored.devices) > 1 else ():
        share, median = format_percentage(by.within["10"]), format_percentage(by.median_rel_error)
        lines.append(f"  duration on {device}: {share} % of {by.n} within 10 %, median error {median} %")
    for kind, ranking in scored.ranking.items():
        if ranking.groups:
            cells = [
                f"{name} {_format_number(row.kendall_tau)} and {format_percentage(row.regret)} %"
                for name, row in ranking.predictors.items()
            ]
            lines.append(f"  order of {kind} ({ranking.groups} groups), Kendall's tau and regret: {', '.join(cells)}")
    return lines


def _format_number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _split_rows(scored: PartScores, baselines: Mapping[str, PartScores]) -> list[str]:
    heads = "".join(f"{f'{b} %':>7}" for b in BOUNDS) + f"{'median':>9}{'rank':>7}"
    beside = "".join(f"{SHORT.get(b, b):>9}" for b in baselines)
    lines = [f"  {'Metric':<26}{heads}  |{beside}   (share within 10 %)"]
    for metric in table.paper_ids():
        row = scored.metrics[metric]
        cells = "".join(f"{format_percentage(row.within[str(b)]):>7}" for b in BOUNDS)
        rank = "-" if row.spearman is None else f"{row.spearman:.2f}"
        cells += f"{format_percentage(row.median_rel_error):>9}{rank:>7}  |"
        cells += "".join(f"{format_percentage(by.metrics[metric].within['10']):>9}" for by in baselines.values())
        lines.append(f"  {table.metric_table().metrics[metric].title:<26}{cells}")
    for rule, title in MEANS.items():
        means = "".join(f"{format_percentage(mean_within(by, 10, rule)):>9}" for by in baselines.values())
        lines.append(f"  {title:<26}{'':>28}{format_percentage(mean_within(scored, 10, rule)):>7}{'':>16}  |{means}")
    return lines
