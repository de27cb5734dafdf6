"""How far predictions of half-written code are from those of the whole program: `python -m studies.half_written`.

One statement of a kernel is cut at a random token after its first third, in handwritten and generated programs in
turns; the prediction of what is left is compared with that of the whole program. Programs that compile in spite of the
cut are cut again. `--write` measures the widths of intervals on programs that are never compared otherwise, and writes
them beside the predictor.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from hipsynth.core.errors import BadInput, CompileFailed
from hipsynth.profiling.metrics import is_hit_rate
from hipsynth.profiling.preview.programs import device_code
from hipsynth.source.completion.words import WordToken, split_tokens
from hipsynth.source.outline import blank_opaque, outline_kernels
from hipsynth.training.analytic.half_written import WIDTHS, predict_half_written
from hipsynth.training.analytic.model import COVERED, DURATION
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions
from hipsynth.training.models.documents import KernelPrediction, PredictionResult

ROOT = Path(__file__).resolve().parents[1]
ARCH, FLAGS, DEVICE = "gfx942", "-O3", "mi300x"
LEAST_TOKENS = 4  # of a statement that is cut
MOST_ERROR = 5.0  # of a value, in natural logarithms; also where one of the two is nothing
SEED = 4242
TESTED, MEASURED = "tested", "measured"  # the two parts of the programs: intervals have the widths of the latter
HEAD = """# Half the width of the interval that 80 % of completed programs' values lie in: in natural logarithms, for
# hit rates in points. Written by `python -m studies.half_written --write`.
[completed]
"""


@dataclass(frozen=True)
class CutProgram:
    """A program's text, the same with one statement cut, and what clang says to that."""

    name: str
    complete: str
    text: str
    failure: CompileFailed


@dataclass
class HalfWrittenScore:
    """Shares of values within 10 % of those of the whole program, by program; errors by value."""

    metrics: list[float] = field(default_factory=list)
    durations: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    inside_intervals: list[float] = field(default_factory=list)  # 1 where an interval holds the value
    errors: dict[str, list[float]] = field(default_factory=dict)


def choose_programs(count: int, part: str) -> list[tuple[str, str]]:
    """Names and texts of programs of a part, half of them handwritten, half from the release's test programs. No
    program is in both parts, whatever the counts. Raises BadInput if a part has fewer."""
    rng = random.Random(SEED)
    handwritten = sorted((ROOT / "corpus" / "handwritten").rglob("*.hip"))
    rows = [
        (row["id"], row["text"])
        for path in sorted((ROOT / "corpus" / "release" / "v1" / "programs").glob("test-*.parquet"))
        for row in pq.read_table(path, columns=["id", "text"]).to_pylist()
    ]
    first = (TESTED, MEASURED).index(part)
    programs = []
    for pool, wanted in (([(p.stem, p.read_text()) for p in handwritten], count // 2), (rows, count - count // 2)):
        members = rng.sample(pool, len(pool))[first::2]
        if wanted > len(members):
            raise BadInput(f"{wanted} programs, where a part has {len(members)}", remedy="a smaller --count")
        programs += members[:wanted]
    return programs


def cut_statement(text: str, rng: random.Random) -> str:
    """The text with one statement of a kernel cut at a random token after its first third."""
    kernel = rng.choice([statement for statement in outline_kernels(text) if statement.closed])
    code = blank_opaque(text)
    start, end = kernel.body
    statements = [
        statement
        for statement in _split_statements(split_tokens(code[start:end], start))
        if len(statement) >= LEAST_TOKENS
    ]
    chosen = rng.choice(statements)
    count = rng.randrange(max(1, len(chosen) // 3), len(chosen) - 1)
    return text[: chosen[count - 1].end] + text[chosen[-1].end :]


def _split_statements(tokens: Sequence[WordToken]) -> Iterator[list[WordToken]]:
    statement: list[WordToken] = []
    depth = 0
    for token in tokens:
        depth += (token.text in "([") - (token.text in ")]")
        statement.append(token)
        if depth == 0 and token.text in ";{}":
            yield statement
            statement = []


def cut_programs(count: int, part: str) -> Iterator[CutProgram]:
    """Programs that do not compile after the cut."""
    rng = random.Random(SEED)
    for name, source in choose_programs(count, part):
        for _ in range(50):
            text = cut_statement(source, rng)
            try:
                device_code(text, ARCH, FLAGS)
            except CompileFailed as failure:
                yield CutProgram(name, source, text, failure)
                break


def compare_prediction(score: HalfWrittenScore, complete: PredictionResult, half_written: PredictionResult) -> None:
    """Adds a prediction of a half-written program to a score."""
    answers = {kernel.name: kernel for kernel in half_written.kernels}
    metrics, durations = [], []
    for kernel in complete.kernels:
        if kernel.duration_ns is None:
            continue
        answer = answers.get(kernel.name)
        metrics += [
            _is_near(answer.metrics.get(name) if answer else None, v)
            for name, v in kernel.metrics.items()
            if v is not None
        ]
        durations.append(_is_near(answer.duration_ns if answer else None, kernel.duration_ns))
        if answer is not None:
            _add_errors(score, kernel, answer)
    if metrics:
        score.metrics.append(statistics.fmean(metrics))
        score.durations.append(statistics.fmean(durations))
        score.seconds.append(half_written.seconds)


def _is_near(predicted: float | None, value: float) -> bool:
    return predicted is not None and abs(predicted - value) <= 0.1 * abs(value)


def _add_errors(score: HalfWrittenScore, kernel: KernelPrediction, answer: KernelPrediction) -> None:
    values = {**kernel.metrics, DURATION: kernel.duration_ns}
    predictions = {**answer.metrics, DURATION: answer.duration_ns}
    for name, value in values.items():
        predicted = predictions.get(name)
        if value is None or predicted is None:
            continue
        if name in answer.intervals:
            low, high = answer.intervals[name]
            score.inside_intervals.append(float(low * 0.999 <= value <= high * 1.001))
        if is_hit_rate(name):
            score.errors.setdefault(name, []).append(abs(predicted - value))
        elif value > 0 or predicted > 0:
            error = abs(math.log(predicted / value)) if min(value, predicted) > 0 else MOST_ERROR
            score.errors.setdefault(name, []).append(min(error, MOST_ERROR))


def score_programs(count: int, part: str) -> dict[str, HalfWrittenScore]:
    """Scores by what was predicted ("completed", "text"), and of all under "all"."""
    predictor, scores = AnalyticPredictor.load(), {"all": HalfWrittenScore()}
    for program in cut_programs(count, part):
        try:
            complete = predictor.predict(program.complete, ARCH, FLAGS, DEVICE).document()
        except BadInput:
            continue
        target = ARCH, FLAGS, DEVICE
        half_written = predict_half_written(program.text, target, LaunchAssumptions(), predictor, program.failure)
        for name in ("all", half_written.source):
            compare_prediction(scores.setdefault(name, HalfWrittenScore()), complete, half_written)
    return scores


def format_scores(scores: dict[str, HalfWrittenScore]) -> list[str]:
    """The scores as a Markdown table."""
    lines = [
        "| answered from | programs | metrics within 10 % | durations within 10 % | intervals hold | seconds |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, score in scores.items():
        figures = [100 * statistics.fmean(part) for part in (score.metrics, score.durations, score.inside_intervals)]
        shares = " | ".join(f"{figure:.0f} %" for figure in figures)
        lines.append(f"| {name} | {len(score.metrics)} | {shares} | {statistics.median(score.seconds):.2f} |")
    return lines


def write_widths(score: HalfWrittenScore) -> None:
    rows = [f"{name} = {float(np.quantile(values, COVERED)):.4f}\n" for name, values in sorted(score.errors.items())]
    WIDTHS.write_text(HEAD + "".join(rows))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=60, help="programs (default: 60)")
    parser.add_argument("--write", action="store_true", help="measure the widths of intervals, on other programs")
    options = parser.parse_args(arguments)
    scores = score_programs(options.count, MEASURED if options.write else TESTED)
    if options.write:
        write_widths(scores["completed"])
    print("\n".join(format_scores(scores)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
