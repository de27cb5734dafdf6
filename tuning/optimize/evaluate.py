"""Evaluations of candidates: executed once, kept in a journal, priced by work that does not depend on the machine."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.files import write_whole
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import text_id
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.limits import SAMPLING_UNITS
from hipsynth.source.names import base_name
from hipsynth.toolchain import find_toolchain
from hipsynth.tuning.optimize.transformation_plan import Shape
from hipsynth.tuning.trial import Conditions, Trial, run_trial
from hipsynth.tuning.trial.prices import exact_price_s, execution_price_s
from hipsynth.tuning.trial.search_clock import Clock

RUN_TIME_S = 120.0  # processor time of one measured run
# What a candidate may take of it: so many times what the first program took, but this long at least. One that waits
# without end would use up the clock.
MOST_TIMES, LEAST_LIMIT_S = 10, 15.0
COMPILE_S = 0.8  # price of one compile
EFFORT = 0.3  # of sampling a large grid: a run takes hardly longer than with less, and its time is a third as uncertain
SHORT_LAUNCH = 3.0  # times an empty launch, up to which a launch is short


@dataclass(frozen=True)
class KernelTime:
    """What a search uses of one kernel's record; `duration_ns` is the total over its launches, `error` how uncertain it
    is because the grid was sampled (relative). `grid` and `block`: of the launches that take the most time, if they are
    of several shapes."""

    name: str
    duration_ns: float
    dispatches: int
    bottleneck: str
    limited_by: str
    grid: Shape
    block: Shape
    same_shape: bool
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    counters: Mapping[str, float] = field(default_factory=dict)
    error: float = 0.0
    same_block: bool = True  # whether all launches have groups of one shape


@dataclass(frozen=True)
class CandidateMeasurement:
    """The measured run of one text. `price`: seconds that it counts against a search's budget; `exact_s`: those of a
    run of every work-group, without the compile."""

    status: RunStatus
    reason: Reason
    message: str
    exit_code: int
    kernels: tuple[KernelTime, ...]
    price: float
    exact_s: float = 0.0
    copied_bytes: int = 0  # to the host
    arguments: tuple[str, ...] = ()
    cpu_s: float = 0.0  # processor time of the run

    @property
    def ok(self) -> bool:
        return self.status == RunStatus.OK

    @property
    def duration_ns(self) -> float:
        return sum_durations(self.kernels)

    @property
    def error(self) -> float:
        """The relative uncertainty of the duration, as far as sampling makes it uncertain."""
        return sum(k.error * k.duration_ns for k in self.kernels) / self.duration_ns if self.duration_ns else 0.0

    def counted(self, names: Sequence[str]) -> float:
        """The sum of counters over all launches."""
        return sum(kernel.counters.get(name, 0.0) * kernel.dispatches for kernel in self.kernels for name in names)

    def of(self, kernel: str) -> KernelTime | None:
        """The times of a kernel of the source, also if renamed (`NAME_tuned`) or an instance of a template."""
        return kernel_of(self.kernels, kernel)


def sum_durations(kernels: Iterable[KernelTime]) -> float:
    """Nanoseconds of a program's kernels."""
    return sum(kernel.duration_ns for kernel in kernels)


def kernel_of(kernels: Iterable[KernelTime], name: str) -> KernelTime | None:
    """The slowest of the kernels that the original program calls by this name."""
    named = (kernel for kernel in kernels if original_name(kernel.name) == name)
    return max(named, key=lambda kernel: kernel.duration_ns, default=None)


def is_short_launch(kernel: KernelTime | None, device: str) -> bool:
    """Whether a kernel's launches take little more than empty ones."""
    launch_ns = float(load_device(device)["issue.launch_ns"])
    return kernel is not None and kernel.duration_ns <= SHORT_LAUNCH * launch_ns * kernel.dispatches


def original_name(name: str) -> str:
    """What the original program calls a kernel whose tuned copy may be named NAME_tuned."""
    return base_name(name).removesuffix("_tuned")


class Evaluator:
    """Measures texts on a target; results are kept in `journal`, where a later search finds them."""

    def __init__(
        self,
        target: Target,
        arguments: tuple[str, ...],
        time_s: float,
        journal: Path | None,
        clock: Clock | None = None,
        effort: float = EFFORT,
        units: int = SAMPLING_UNITS,
    ) -> None:
        self.target, self.journal, self.clock = target, journal, clock or Clock()
        self.conditions = Conditions(arguments, effort=effort, units=units, time_s=time_s)
        tools = build_identity(), find_toolchain().identity
        self.setting = json.dumps([asdict(target), asdict(self.conditions), *tools])
        self._first_s = math.inf  # processor time of the first run

    def __call__(self, text: str) -> CandidateMeasurement:
        path = self.journal / f"{text_id(text + self.setting)}.json" if self.journal else None
        if path is not None and (stored := _load_measurement(path)) is not None:
            self._note_time(stored)
            return stored
        most_s = min(self.conditions.time_s, max(LEAST_LIMIT_S, MOST_TIMES * self._first_s))
        conditions = replace(self.conditions, time_s=self.clock.run_s(most_s))
        measurement = replace(
            measurement_of_trial(run_trial(text, self.target, conditions)), arguments=conditions.arguments
        )
        self._note_time(measurement)
        if path is not None and measurement.reason not in TRANSIENT | {Reason.TIMEOUT}:
            write_whole(path, json.dumps(asdict(measurement)))
        return measurement

    def _note_time(self, measurement: CandidateMeasurement) -> None:
        if measurement.ok and math.isinf(self._first_s):
            self._first_s = measurement.cpu_s


def _load_measurement(path: Path) -> CandidateMeasurement | None:
    try:
        return from_json(CandidateMeasurement, json.loads(path.read_text()))
    except (OSError, ValueError, TypeError, KeyError, AttributeError):
        return None  # missing or damaged: measured again


def measurement_of_trial(trial: Trial) -> CandidateMeasurement:
    """What the search needs of a trial: the kernels' times, the price of the attempt in seconds, what failed."""
    kernels = tuple(_kernel_time(kernel, trial.shapes) for kernel in trial.kernels)
    price = COMPILE_S + sum(map(execution_price_s, trial.kernels))
    exact = sum(map(exact_price_s, trial.kernels))
    code = -1 if trial.exit_code is None else trial.exit_code
    copied = sum(transfer.bytes for transfer in trial.transfers if transfer.kind == "device_to_host")
    return CandidateMeasurement(
        trial.status, trial.reason, trial.message[:2000], code, kernels, price, exact, copied, cpu_s=trial.cpu_s
    )


def _kernel_time(kernel: KernelRecord, records: Sequence[KernelRecord]) -> KernelTime:
    """The times of a kernel; `records`: of its launches by shape, () if each kernel has one."""
    shapes = [each for each in records if (each.name, each.symbol) == (kernel.name, kernel.symbol)] or [kernel]
    slowest = max(shapes, key=lambda each: each.duration_ns * each.dispatches)
    return KernelTime(
        kernel.name,
        kernel.duration_ns * kernel.dispatches,
        kernel.dispatches,
        kernel.limits.bottleneck if kernel.limits else "",
        kernel.occupancy.limited_by if kernel.occupancy else "",
        slowest.grid,
        slowest.block,
        kernel.same_shape,
        dict(kernel.metrics),
        dict(kernel.counters),
        kernel.sampling.error.get("Duration", 0.0) if kernel.sampling else 0.0,
        all(each.same_shape and each.block == slowest.block for each in shapes),
    )


def changed_metrics(before: KernelTime, after: KernelTime, least: float = 0.05) -> dict[str, tuple[float, float]]:
    """The metrics and the main counters that changed by more than `least`, as (before, after)."""
    changes: dict[str, tuple[float, float]] = {}
    pairs = [(before.metrics, after.metrics), (before.counters, after.counters)]
    for metric_pair, other in pairs:
        for name in metric_pair.keys() & other.keys():
            a, b = metric_pair[name], other[name]
            if a is not None and b is not None and abs(a - b) > least * max(abs(a), abs(b)):
                changes[name] = round(a, 4), round(b, 4)
    return dict(sorted(changes.items()))
