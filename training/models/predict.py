"""Predicts the twelve metrics of a program with a trained model, and the kernel's position on the roofline."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.reasons import Reason
from hipsynth.profiling import metrics as table
from hipsynth.profiling.backends.protocol import describe_target
from hipsynth.profiling.metrics import roofline
from hipsynth.simulator.devices import device_of
from hipsynth.source.outline import kernel_names
from hipsynth.toolchain import check_flags
from hipsynth.training.data.encode import Encoder
from hipsynth.training.data.number_formats import read_number
from hipsynth.training.models.decode import AnswerDecoder, DecodedAnswer
from hipsynth.training.models.documents import KernelPrediction, PredictionResult
from hipsynth.training.models.model_record import RECORD, ModelRecord, check_model_path, model_record, require_task


@dataclass(frozen=True)
class Prediction:
    """A prediction for one build: `metrics` in physical units by id; `cut_lines` source lines did not fit."""

    arch: str
    flags: str
    device: str
    metrics: Mapping[str, float]
    position: roofline.RooflinePosition
    cut_lines: int
    prompt_tokens: int
    seconds: float
    model: str
    notes: tuple[str, ...] = ()
    kernel: str = ""  # the kernel that is meant, or all if the source has several
    duration_ns: float | None = None  # of a model that answers it
    doubt: str = ""  # why the answer is no reliable one: no tool measured it, or no device can do that
    doubt_code: Reason = Reason.NONE

    def document(self) -> PredictionResult:
        """The prediction as the documents have it."""
        return PredictionResult(
            arch=self.arch,
            flags=self.flags,
            device=self.device,
            model=self.model,
            metrics=self.metrics,
            roofline=self.position,
            cut_lines=self.cut_lines,
            prompt_tokens=self.prompt_tokens,
            seconds=round(self.seconds, 4),
            notes=self.notes,
            kernels=(self._main_kernel(),),
            plot=roofline.plot_kernels(self.device, [roofline.PlottedKernel("program", self.metrics, "predicted")]),
        )

    def _main_kernel(self) -> KernelPrediction:
        """The heaviest kernel, which is the one that a language model answers for."""
        return KernelPrediction(
            name=self.kernel,
            metrics=self.metrics,
            duration_ns=self.duration_ns,
            abstained=bool(self.doubt),
            reason=self.doubt,
            reason_code=self.doubt_code,
            intervals={},
            grid=None,
            block=None,
            bottleneck="",
            why=(),
            occupancy=None,
        )


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Torch on one thread: for one short question more are hardly faster, and on a busy machine they wait for each
    other (34 s instead of 1.5 s on two cores with a load of 8)."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Predictor:
    """A loaded model folder that predicts any number of programs."""

    def __init__(self, path: Path, record: ModelRecord, decoder: AnswerDecoder) -> None:
        self.path, self.record, self.decoder = path, record, decoder

    @classmethod
    def load(cls, path: Path) -> Predictor:
        """Loads a finished model folder. Raises MissingDependency if it is not finished, BadInput if it is damaged, or
        no such path exists."""
        check_model_path(path)
        record = model_record(path)
        if record is None:
            raise MissingDependency(
                f"{path}: no finished model there",
                cause=f"no file {RECORD}",
                remedy="run `synth train CORPUS --config tiny-cpu --out MODEL` (again, if it was interrupted)",
            )
        require_task(path, record, "predict")
        from hipsynth.training.models.base import load_trained

        model, tokenizer = load_trained(path, record)
        encoder = Encoder(tokenizer, record["format"], record["context"], record["view"])
        return cls(path, record, AnswerDecoder(model, encoder))

    def answers(self, questions: Sequence[tuple[str, str, str]]) -> list[DecodedAnswer]:
        """Answers (source, arch, flags) questions with a forced skeleton."""
        return self.decoder.decode_values(questions)

    def predict(self, source: str, arch: str, flags: str, device: str | None = None) -> Prediction:
        """Predicts the metrics of the program in `source` for an architecture and compiler flags.

        `device` selects the roofline's ceilings (default: the architecture's default device). Raises UsageError for an
        unknown arch, device or flag, and BadInput for a source without a kernel.
        """
        chosen = device_of(arch, device)
        flags = check_flags(flags)
        if not kernel_names(source):
            raise BadInput("no kernel in the file", cause="no __global__ function", reason=Reason.NO_KERNEL)
        start = time.monotonic()
        with one_thread():
            answer = self.answers([(source, arch, flags)])[0]
        seconds = time.monotonic() - start
        values = physical_values(read_answer_values(answer))
        values_known = {metric: value for metric, value in values.items() if value is not None}
        position = roofline.locate_kernel(values, chosen.name)
        doubt = _describe_impossible(position, chosen.name)
        return Prediction(
            arch=arch,
            flags=flags,
            device=chosen.name,
            metrics=values_known,
            position=position,
            cut_lines=answer.cut_lines,
            prompt_tokens=answer.prompt_tokens,
            seconds=seconds,
            model=str(self.path),
            notes=tuple(self._make_notes(arch, flags, answer)),
            kernel=" or ".join(kernel_names(source)),
            doubt=doubt,
            doubt_code=Reason.ABOVE_ROOF if doubt else Reason.NONE,
        )

    def _make_notes(self, arch: str, flags: str, answer: DecodedAnswer) -> list[str]:
        notes = []
        if answer.left_out:
            notes.append(f"this model reads kernels and launches only: {answer.left_out} other lines left out")
        if answer.cut_lines:
            notes.append(
                f"{answer.cut_lines} lines in the middle of the source were cut: "
                f"the model reads {self.record['context']} tokens"
            )
        targets = self.record.get("targets", [])
        if targets and [arch, flags] not in targets:
            notes.append(f"the model was never trained on {arch} with {flags!r}")
        backends = self.record.get("backends", [])
        if backends:
            notes.append(f"learned from labels of: {', '.join(backends)}")
        return notes


def _describe_impossible(position: roofline.RooflinePosition, device: str) -> str:
    """Why no kernel can have this position; "" if one can."""
    level = roofline.find_impossible_level(position, device)
    return f"no kernel can use {100 * (position.shares[level] or 0.0):.0f} % of the {level} bandwidth" if level else ""


def read_answer_values(answer: DecodedAnswer) -> dict[str, float | None]:
    """The normalised values of an answer by metric id; None where the model did not write a number."""
    normalised: dict[str, float | None] = {}
    for metric in table.answer_ids():
        normalised[metric] = read_number(answer.values.get(metric, ""), answer.fmt)
    return normalised


def physical_values(values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Converts normalised values to physical units, in the order of the paper's tables."""
    return {metric: table.denormalise_metric(metric, values.get(metric)) for metric in table.paper_ids()}


def prediction_table(prediction: Prediction) -> str:
    """Terminal output: the metrics in physical units and an ASCII roofline."""
    facts = table.metric_table().metrics
    lines = [describe_target(prediction.arch, prediction.device, prediction.flags), f"model {prediction.model}", ""]
    if prediction.doubt:
        lines += [f"  not reliable: {prediction.doubt}", ""]
    for metric in table.shown_ids():
        value = prediction.metrics.get(metric)
        value_text = "-" if value is None else f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"
        lines.append(f"  {table.display_name(metric):<32} {value_text:>12} {facts[metric].unit}")
    if prediction.duration_ns is not None:
        lines.append(f"  {'Duration':<32} {prediction.duration_ns / 1000:>12.4g} us")
    lines += ["", *draw_roofline(prediction), "", f"  {roofline.describe_position(prediction.position)}"]
    lines += [f"  note: {note}" for note in prediction.notes]
    lines.append(f"  {prediction.prompt_tokens} tokens read, answered in {prediction.seconds:.2f} s")
    return "\n".join(lines)


def draw_roofline(prediction: Prediction, width: int = 56, height: int = 13) -> list[str]:
    """An ASCII roofline with logarithmic axes: the HBM and compute roofs, and the kernel's points for L1 (1), L2 (2)
    and HBM (H). `width` and `height` are in characters."""
    limits = roofline.device_ceilings(prediction.device)
    points = prediction.position.points
    xs = [math.log10(p.intensity) for p in points]
    ys = [math.log10(max(p.gflops, 1e-3)) for p in points]
    x0, x1 = min([-2.0, *xs]), max([3.0, *xs])
    y1 = math.log10(limits.peak) + 0.2
    y0 = min([y1 - 4.0, *ys]) - 0.1
    grid = [[" "] * width for _ in range(height)]

    def put(x: float, y: float, mark: str) -> None:
        column = round((x - x0) / (x1 - x0) * (width - 1))
        row = round((y1 - y) / (y1 - y0) * (height - 1))
        if 0 <= row < height and 0 <= column < width:
            grid[row][column] = mark

    for column in range(width):
        x = x0 + (x1 - x0) * column / (width - 1)
        roof = roofline.attainable_gflops(10**x, "HBM", limits)
        put(x, math.log10(roof), "_" if roof >= limits.peak else "/")
    for point, x, y in zip(points, xs, ys, strict=True):
        put(x, y, {"L1": "1", "L2": "2", "HBM": "H"}[point.level])
    lines = [f"  {10 ** (y1 - (y1 - y0) * r / (height - 1)):>9.3g} |{''.join(row)}" for r, row in enumerate(grid)]
    lines.append(" " * 12 + "+" + "-" * width)
    lines.append(" " * 12 + f"{10**x0:<10.2g}{'FLOP/B (log)  ·  y: GFLOP/s':^{width - 19}}{10**x1:>9.3g}")
    if not points:
        lines.append("  no point: the model predicts no floating-point work")
    return lines
