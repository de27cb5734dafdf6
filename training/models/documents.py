"""The documents of predictions, for `synth predict --json` and the server; the same for every predictor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.tabular import Row, TabularDocument, shape_text
from hipsynth.profiling.metrics.roofline import THROUGHPUT, PlottedKernel, RooflinePlot, RooflinePosition
from hipsynth.profiling.reports.documents import ProgramIdentity
from hipsynth.training.models.config import Config
from hipsynth.training.models.model_record import RECORD, ModelRecord, TrainingStatus


@dataclass(frozen=True, kw_only=True)
class KernelPrediction:
    """One kernel of a program. `language` and `meta` are those of a profile's kernels. `abstained`: do not rely on
    it, because of `reason` (in short, `reason_code`); it may lack metrics then. `instance`: its name with template
    arguments. `intervals` hold 80 %, by metric and "duration_ns"; a value without one may be anything;
    `bottleneck`: the unit of the timing model that takes longest; `verdict`: what limits the kernel, in the words
    of a profile's summary; `occupancy`: resident waves as a share of a CU's wave slots. `grid` counts work-groups;
    null for the answer of a language model, which has no launch. `launches`: how often it is made, with others of
    its shape that it stands for; `assumed`: what was assumed of it, "" if the host code makes it; `out_of_bounds`:
    accesses of the interpreted work-groups outside of every array, at which an execution may stop."""

    name: str
    instance: str = ""
    metrics: Mapping[str, float | None]
    duration_ns: float | None
    intervals: Mapping[str, tuple[float, float]]
    abstained: bool = False
    reason: str = ""
    reason_code: Reason = Reason.NONE
    grid: Dim | None
    block: Dim | None
    launches: int = 1
    bottleneck: str = ""
    verdict: str = ""
    why: tuple[str, ...] = ()
    occupancy: float | None
    language: str | None = None
    meta: Mapping[str, bool | int | str] | None = None
    assumed: str = ""
    out_of_bounds: int = 0

    def plotted(self) -> PlottedKernel:
        """The kernel for a roofline plot."""
        low, high = self.intervals.get(THROUGHPUT, (None, None))
        return PlottedKernel(self.name, self.metrics, "predicted", low=low, high=high)


@dataclass(frozen=True, kw_only=True)
class SimulatedKernel:
    """A kernel and launch shape as the simulator executed it: means over the launches of that shape."""

    name: str
    instance: str
    metrics: Mapping[str, float | None]
    duration_ns: float
    grid: Dim
    block: Dim
    dispatches: int
    meta: Mapping[str, bool | int | str] | None = None


@dataclass(frozen=True)
class FailedExecution:
    """Why the simulator's execution of a program says nothing."""

    status: RunStatus
    reason: Reason
    message: str


@dataclass(frozen=True, kw_only=True)
class PredictionResult:
    """A program on one target, its kernels in the order of their launches; `metrics` and `roofline` are those of the
    kernel that takes longest. `cut_lines` of the source did not fit a language model, which read `prompt_tokens`.
    `executed`: what the simulator executed, with --check, or with --defer where the prediction is unsure. `source`:
    what was predicted, for code that does not compile a completion, the text that compiled last, or its words."""

    arch: str
    flags: str
    device: str
    model: str
    metrics: Mapping[str, float]
    roofline: RooflinePosition
    cut_lines: int = 0
    prompt_tokens: int = 0
    seconds: float
    notes: tuple[str, ...]
    kernels: tuple[KernelPrediction, ...]
    plot: RooflinePlot
    executed: tuple[SimulatedKernel | FailedExecution, ...] | None = None
    source: Literal["program", "completed", "last_compiled", "text"] = "program"


@dataclass(frozen=True, kw_only=True, repr=False)
class PredictDocument(TabularDocument):
    """The document of `synth predict --json`, and of the server's predictions."""

    program: ProgramIdentity
    model: str
    results: tuple[PredictionResult, ...]

    def table_rows(self) -> list[Row]:
        """One row for each kernel on each target: the duration with the interval that holds 80 %, then the metrics."""
        kernels = [(result, kernel) for result in self.results for kernel in result.kernels]
        metrics = list(dict.fromkeys(name for _, kernel in kernels for name in kernel.metrics))
        rows = list[Row]()
        for result, kernel in kernels:
            low, high = kernel.intervals.get("duration_ns", (None, None))
            row: Row = {
                "kernel": kernel.instance or kernel.name,
                "arch": result.arch,
                "device": result.device,
                "flags": result.flags,
                "grid": shape_text(kernel.grid),
                "block": shape_text(kernel.block),
                "duration_ns": kernel.duration_ns,
                "duration_low_ns": low,
                "duration_high_ns": high,
                "limited_by": kernel.bottleneck or None,
                "abstained": kernel.abstained,
                "reason": kernel.reason,
            }
            rows.append({**row, **{name: kernel.metrics.get(name) for name in metrics}})
        return rows


@dataclass(frozen=True, kw_only=True)
class VariantDocument:
    """One line of `synth predict --sweep --json`: what was asked of a variant (`grid`, `block`: null if not), and its
    kernels, each with the grid and block that it is predicted with. `duration_ns` is that of the longest kernel;
    `interpolated`: how many of the kernels were not interpreted themselves."""

    arch: str
    device: str
    flags: str
    grid: Dim | None
    block: Dim | None
    values: Mapping[str, float]
    arguments: tuple[str, ...]
    duration_ns: float | None
    interpolated: int
    kernels: tuple[KernelPrediction, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class ReinforcementRun:
    """A run of a model in reinforcement. `ended`: why it ended, or its moves; `tokens`: those that it wrote."""

    reward: float
    ended: str
    tokens: int


@dataclass(frozen=True, kw_only=True)
class TrainDocument:
    """A trained model: the record of its folder `model`. `config`: the recipe; `fingerprint` identifies recipe and
    samples. `samples`, `too_long` (for the context) and `leak` (share of them that the model was trained on) are by
    part. `thresholds` (of the analytic predictor): the smallest log ratio by which a quantity is corrected, null where
    none is. `share_of_peak`: of the device's matrix operations per second."""

    model: str
    version: int
    status: TrainingStatus
    fingerprint: str
    config: Config
    base: str
    format: str
    context: int
    task: str | None = None
    view: str | None = None
    samples: Mapping[str, int] | None = None
    too_long: Mapping[str, int] | None = None
    leak: Mapping[str, float] | None = None
    backends: tuple[str, ...] | None = None
    targets: tuple[tuple[str, str], ...] | None = None
    lineages: tuple[str, ...] | None = None
    parameters: int | None = None
    trained_parameters: int | None = None
    steps: int | None = None
    samples_cut: int | None = None
    tokens_per_sample: int | None = None
    tokens_per_second: float | None = None
    share_of_peak: float | None = None
    train_loss: float | None = None
    valid_loss: float | None = None
    rollouts: tuple[ReinforcementRun, ...] | None = None
    previewed: int | None = None
    thresholds: Mapping[str, float | None] | None = None
    versions: Mapping[str, str] | None = None

    @classmethod
    def of(cls, model: Path, record: ModelRecord) -> TrainDocument:
        """The document of a finished folder. Raises BadInput for a record that another version wrote."""
        document: dict[str, object] = {"model": str(model), **record}
        try:
            return from_json(cls, document)
        except (TypeError, ValueError) as error:
            problem, remedy = f"{model / RECORD}: not a record of this version", "train the model again"
            raise BadInput(problem, cause=str(error), remedy=remedy) from error
