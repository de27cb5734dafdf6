"""Predicts every kernel of a program: previews of the launches that its host code makes, and the shipped correction."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.core.errors import BadInput, CompileFailed, MissingDependency
from hipsynth.core.program import Project
from hipsynth.core.reasons import Reason
from hipsynth.core.tabular import shape_text
from hipsynth.core.time_limit import OutOfTime
from hipsynth.profiling.metrics import metric_table, roofline
from hipsynth.profiling.metrics.bottleneck import rank_times, summarise_bounds
from hipsynth.profiling.metrics.uncertainty import WIDEST
from hipsynth.profiling.preview.interpret import (
    BUFFER,
    FIRST_ADDRESS,
    REPLAYABLE,
    Code,
    Interpreter,
    Preview,
    explicit_arguments,
    explicit_bytes,
    is_certain,
)
from hipsynth.profiling.preview.launch import (
    GUESSED_BYTES,
    DeviceBuffer,
    DeviceLaunch,
    packed_number,
    parameter_types,
    with_argument,
)
from hipsynth.profiling.preview.oversized import code_with_oversized, note_oversized
from hipsynth.profiling.preview.programs import (
    PreviewFailure,
    ProgramPreviews,
    device_code,
    failures_of_refused,
    find_launches,
    interpret_all,
    note_incomplete,
    note_omissions,
    out_of_time,
)
from hipsynth.profiling.preview.record import HostCode, Recording
from hipsynth.profiling.uncertainty.expected_error import NO_RECORDING, TIMED, is_recorded
from hipsynth.simulator.devices import DeviceTable, device_of, load_device
from hipsynth.source.harness import HarnessChoices, check_argument_names, check_block, choose_launches, lacks_main
from hipsynth.source.launch_code import OTHER_NUMBER, KernelLaunchPlan
from hipsynth.source.names import base_name
from hipsynth.source.outline import kernel_names, loads_kernels, parameter_names
from hipsynth.toolchain import check_flags
from hipsynth.training.analytic.features import launch_features, preview_quantities
from hipsynth.training.analytic.model import DURATION, AnalyticModel
from hipsynth.training.models.documents import KernelPrediction, PredictionResult

PREDICTOR = "predictor.json.gz"  # in a model folder
SHIPPED = Path(__file__).with_name("shipped")  # a model folder
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class LaunchAssumptions:
    """What to assume of launches instead of what the host code does. `values`: numbers by the argument's name; `host`:
    whether the host code may run; `other_data`: whether launches that depend on data nobody knows are previewed with
    other data, too, as intervals need it."""

    grid: Shape | None = None
    block: Shape | None = None
    values: Mapping[str, float] = field(default_factory=dict)
    arguments: tuple[str, ...] = ()  # the program's command line
    host: HostCode = HostCode.RUN
    project: Project | None = None  # the folder that it runs in and includes headers of
    other_data: bool = True

    def __post_init__(self) -> None:
        check_block(self.block)


@dataclass(frozen=True)
class LaunchNotes:
    """What is to be said of the launches of a program: of all, and by kernel, what was assumed."""

    general: tuple[str, ...] = ()
    assumed: Mapping[str, str] = field(default_factory=dict)

    @property
    def lines(self) -> tuple[str, ...]:
        return (*self.general, *self.assumed.values())

    def mark(self, kernels: Iterable[KernelPrediction]) -> tuple[KernelPrediction, ...]:
        """The kernels with what was assumed of each."""
        return tuple(replace(kernel, assumed=self.assumed.get(kernel.name, "")) for kernel in kernels)

    def mark_result(self, result: PredictionResult) -> PredictionResult:
        """The result with these notes, too: behind those that say that the text does not compile."""
        notes = (*self.lines, *result.notes) if result.source == "program" else (*result.notes, *self.lines)
        return replace(result, kernels=self.mark(result.kernels), notes=notes)


@dataclass(frozen=True)
class AnalyticPrediction:
    """The kernels of a program on one target, in the order of their launches."""

    arch: str
    flags: str
    device: str
    kernels: tuple[KernelPrediction, ...]
    seconds: float
    model: str
    notes: tuple[str, ...] = ()

    @property
    def main(self) -> KernelPrediction | None:
        """The kernel that takes longest."""
        timed = [kernel for kernel in self.kernels if kernel.duration_ns is not None]
        return max(timed, key=lambda kernel: kernel.duration_ns or 0.0, default=None)

    def document(self) -> PredictionResult:
        """The prediction as the documents have it."""
        values = {name: v for name, v in (self.main.metrics if self.main else {}).items() if v is not None}
        return PredictionResult(
            arch=self.arch,
            flags=self.flags,
            device=self.device,
            model=self.model,
            metrics=values,
            roofline=roofline.locate_kernel(values, self.device),
            seconds=round(self.seconds, 4),
            notes=self.notes,
            kernels=self.kernels,
            plot=roofline.plot_kernels(self.device, [kernel.plotted() for kernel in self.kernels]),
        )


def is_analytic(model: Path) -> bool:
    """Whether a model folder or file holds an analytic predictor rather than a language model."""
    return model.is_file() or (model / PREDICTOR).exists()


class AnalyticPredictor:
    """The shipped predictor, or one that was trained on another corpus."""

    def __init__(self, model: AnalyticModel, path: Path) -> None:
        self.model, self.path = model, path

    @classmethod
    def load(cls, model: Path = SHIPPED) -> AnalyticPredictor:
        """The predictor in a model folder or file. Raises MissingDependency if there is none, BadInput if it is
        damaged."""
        path = model if model.is_file() else model / PREDICTOR
        if not path.exists():
            raise MissingDependency(
                f"{path}: no predictor there", remedy="run `synth train CORPUS --config analytic --out MODEL`"
            )
        return cls(AnalyticModel.load(path), path)

    def predict(
        self,
        source: str,
        arch: str,
        flags: str,
        device: str | None = None,
        question: LaunchAssumptions | None = None,
    ) -> AnalyticPrediction:
        """Raises UsageError for an unknown arch, device or flag, BadInput for a source without a kernel, CompileFailed
        if its device code does not compile."""
        start = time.monotonic()
        question = question or LaunchAssumptions()
        code, chosen = compile_for_preview(source, arch, flags, device, question.project)
        return self.predict_code(source, code, chosen.name, check_flags(flags), question, start)

    def timed_out_answer(self, source: str, arch: str, flags: str, device: str | None) -> AnalyticPrediction:
        """The answer for a kernel whose prediction ran out of time."""
        kernels = tuple(unknown_kernel(out_of_time(name)) for name in kernel_names(source))
        return AnalyticPrediction(arch, flags, device_of(arch, device).name, kernels, 0.0, str(self.path))

    def predict_code(
        self,
        source: str,
        code: Code,
        device: str,
        flags: str,
        question: LaunchAssumptions,
        start: float | None = None,
    ) -> AnalyticPrediction:
        """As predict(), for code that is compiled already."""
        start = time.monotonic() if start is None else start
        previews, notes = find_previews(source, code, device, question)
        return self.predict_previews(previews, notes, device, flags, start)

    def predict_previews(
        self, previews: ProgramPreviews, notes: LaunchNotes, device: str, flags: str, start: float
    ) -> AnalyticPrediction:
        """The corrected previews of a program on a device; `start`: when work on them began."""
        kernels = [*self.correct_previews(previews.previews, device), *map(unknown_kernel, previews.failures)]
        return self.describe_program(kernels, notes, device, flags, time.monotonic() - start)

    def describe_program(
        self, kernels: Sequence[KernelPrediction], notes: LaunchNotes, device: str, flags: str, seconds: float
    ) -> AnalyticPrediction:
        """The prediction of a program's kernels on a device, with what was assumed of it and what lies outside of its
        arrays; `seconds`: of work."""
        arch = load_device(device).arch
        outside = {kernel.name: kernel.out_of_bounds for kernel in kernels if kernel.out_of_bounds}
        notes = replace(notes, general=(*notes.general, *itertools.starmap(_outside_note, outside.items())))
        lines = notes.lines
        if not is_recorded(device):
            lines = (*lines, f"{NO_RECORDING} ({arch}): durations are guesses within a factor of two")
        return AnalyticPrediction(arch, flags, device, notes.mark(kernels), seconds, str(self.path), lines)

    def correct_previews(self, previews: Sequence[Preview], device: str) -> list[KernelPrediction]:
        """The predictions of previewed launches on a device, in their order."""
        arch = load_device(device).arch
        rows = [launch_features(preview, device) for preview in previews]
        quantities = [preview_quantities(preview, arch) for preview in previews]
        fixed = self.model.predict(rows, quantities, [arch] * len(previews))
        kernels = [
            describe_kernel(p, c.metrics, c.duration_ns, c.intervals) for p, c in zip(previews, fixed, strict=True)
        ]
        return kernels if is_recorded(device) else [_widen_intervals(kernel) for kernel in kernels]


def _outside_note(kernel: str, accesses: int) -> str:
    where = "an execution may stop there (synth profile says where)"
    return f"{kernel}: {accesses:,} accesses lie outside of every array; {where}"


def _widen_intervals(kernel: KernelPrediction) -> KernelPrediction:
    """The prediction for an architecture without recordings: whatever depends on time may be off by a factor of two."""
    values = {**kernel.metrics, DURATION: kernel.duration_ns}
    timed = {DURATION, *(name for name, facts in metric_table().metrics.items() if facts.kind in TIMED)}
    wide = {
        name: (min(low, value / 2), max(high, 2 * value)) if name in timed and value else (low, high)
        for name, (low, high) in kernel.intervals.items()
        for value in (values.get(name),)
    }
    return replace(kernel, intervals=wide)


def compile_for_preview(
    source: str, arch: str, flags: str, device: str | None, project: Project | None = None
) -> tuple[Code, DeviceTable]:
    """The device code of a program, which may include headers of its project's folder, and the table of the device.
    Kernels with too much static LDS are in it, though the device does not start them. Raises as
    AnalyticPredictor.predict."""
    chosen = device_of(arch, device)
    if not kernel_names(source) and not loads_kernels(source):
        raise BadInput("no kernel in the file", cause="no __global__ function", reason=Reason.NO_KERNEL)
    checked = check_flags(flags)
    try:
        return device_code(source, arch, checked, project=project), chosen
    except CompileFailed as failure:
        code = code_with_oversized(source, arch, checked, failure, project)
        if code is None:
            raise
        return code, chosen


def describe_kernel(
    preview: Preview,
    metrics: Mapping[str, float | None],
    duration_ns: float,
    intervals: Mapping[str, tuple[float, float]],
) -> KernelPrediction:
    """The prediction of a previewed launch: metrics in their units, intervals by metric and DURATION (ns). It abstains
    where the duration is uncertain by more than WIDEST, or the kernel fails or does not end on synthetic data."""
    low, high = intervals.get(DURATION, (duration_ns, duration_ns))
    width = math.log(high / low) / 2 if low > 0 else math.inf
    reason, code = "", Reason.NONE
    if width > WIDEST:
        code = Reason.UNCERTAIN
        reason = f"the duration is uncertain by a factor of {math.exp(width):.1f}: {find_doubt(preview, width)}"
    elif preview.diverged:
        code = Reason.UNKNOWN_DATA
        reason = "it needs the data that the program makes: with synthetic data it fails or does not end"
    return KernelPrediction(
        name=preview.launch.kernel,
        instance=preview.instance,
        metrics=metrics,
        duration_ns=duration_ns,
        intervals=intervals,
        abstained=bool(reason),
        reason=reason,
        reason_code=code,
        grid=preview.launch.grid,
        block=preview.launch.block,
        launches=preview.launch.represented,
        bottleneck=preview.bottleneck,
        verdict=summarise_bounds(rank_times(preview.bounds, preview.duration_ns)),
        why=prediction_reasons(preview),
        occupancy=float(preview.occupancy["fraction"]),
        language=preview.launch.language or None,
        meta=preview.launch.meta if preview.launch.language else None,
        out_of_bounds=preview.out_of_bounds,
    )


def find_doubt(preview: Preview, width: float) -> str:
    """Why a duration is uncertain by `width`, in log units."""
    if math.log1p(preview.sampling_error) >= width:
        return "a sample of its work-groups does not tell how long all take"
    if preview.by_data or preview.sensitivity >= width:
        return "it depends on data that the program computes or reads"
    return "few labelled kernels are like it"


def unknown_kernel(failure: PreviewFailure) -> KernelPrediction:
    """The abstention for a launch, or a program, without a preview: no metrics, and the reason."""
    return KernelPrediction(
        name=failure.kernel,
        metrics={},
        duration_ns=None,
        intervals={},
        abstained=True,
        reason=failure.reason,
        reason_code=failure.code,
        grid=None,
        block=None,
        occupancy=None,
    )


def prediction_reasons(preview: Preview) -> tuple[str, ...]:
    """The reasons of a prediction: the units that take longest, and the counts that keep them busy."""
    bounds = [bound for bound in rank_times(preview.bounds, preview.duration_ns) if bound.ns > 0][:3]
    lines = [f"{bound.name}: {bound.ns / 1000:.3g} us if it were the only limit" for bound in bounds]
    occupancy = preview.occupancy
    lines.append(
        f"{occupancy['waves_per_cu']:.0f} waves per CU are resident ({100 * occupancy['fraction']:.0f} % occupancy)"
    )
    if preview.by_data:
        origin = "was recorded" if is_certain(preview.launch) and not preview.diverged else "is not known"
        lines.append(f"branches or addresses depend on data that {origin}")
    if preview.guessed:
        lines.append("the size of a buffer is not known")
    return tuple(lines)


def find_previews(
    source: str, code: Code, device: str, question: LaunchAssumptions
) -> tuple[ProgramPreviews, LaunchNotes]:
    """Previews of the launches that the host code makes, changed by the question; where it launches nothing, of each
    kernel with the question's shape and numbers, or assumed ones (notes say which)."""
    check_argument_names(source, question.values)
    try:
        interpreter = Interpreter(code, load_device(device), REPLAYABLE)
        launches_found = find_launches(source, interpreter, question.arguments, question.host, question.project)
        launches, notes = launches_of(source, interpreter, question, launches_found)
    except OutOfTime:
        return ProgramPreviews([], [out_of_time(name) for name in kernel_names(source)]), LaunchNotes()
    refused = failures_of_refused(launches_found, code)
    if not launches and not interpreter.kernels:
        why = launches_found.message or "its host code launches no kernel"
        return ProgramPreviews([], [PreviewFailure("", why, launches_found.reason or Reason.NO_DISPATCH)]), notes
    previews = interpret_all(launches, interpreter, sensitivities=question.other_data)
    return ProgramPreviews(previews.previews, previews.failures + refused), notes


def launches_of(
    source: str, interpreter: Interpreter, question: LaunchAssumptions, recording: Recording
) -> tuple[list[DeviceLaunch], LaunchNotes]:
    """The launches to preview, and notes, as find_previews() says; `recording`: what the program's run recorded."""
    oversized = note_oversized(interpreter.code)
    if recording.refused and not recording.launches:
        return [], LaunchNotes(oversized)
    if not recording.launches:
        launches, assumed = _assume_launches(source, interpreter, question, recording.message)
        return launches, replace(assumed, general=oversized)
    launches = [_change_launch(launch, interpreter, source, question) for launch in recording.launches]
    resized = note_unequal_work(recording.launches, launches, question)
    incomplete = note_incomplete(recording, interpreter)
    return launches, LaunchNotes((*oversized, *incomplete, *note_omissions(launches), *resized))


def note_unequal_work(
    recorded: Sequence[DeviceLaunch], changed: Sequence[DeviceLaunch], question: LaunchAssumptions
) -> tuple[str, ...]:
    """Notes on kernels that get another number of work-items because only the block or only the grid was chosen."""
    if (question.grid is None) == (question.block is None):
        return ()
    side = "grid" if question.grid is None else "block"
    notes = dict[str, str]()
    for before, after in zip(recorded, changed, strict=True):
        items, usual = (math.prod(launch.grid) * math.prod(launch.block) for launch in (after, before))
        if items != usual:
            sides = shape_text(after.grid if side == "grid" else after.block)
            text = f"{after.kernel}: {items:,} work-items in place of {usual:,}, since the {side} stays {sides}"
            notes.setdefault(after.kernel, f"{text}: choose both for equal work")
    return tuple(notes.values())


def _assume_launches(
    source: str, interpreter: Interpreter, question: LaunchAssumptions, why: str
) -> tuple[list[DeviceLaunch], LaunchNotes]:
    """A launch of each instance of each kernel with the shape and numbers of a generated main(), and notes that say
    so; `why` the host code's are not known."""
    launches, notes = [], {}
    cause = "no main()" if lacks_main(source) else why or "the host code launches nothing"
    choices = HarnessChoices(question.grid, question.block, question.values)
    for assumed in {launch.kernel.name: launch for launch in choose_launches(source, choices)}.values():
        instances = assumed_launches(assumed, {**question.values, **assumed.numbers}, interpreter)
        launches += instances
        if instances:
            notes[assumed.kernel.name] = f"{cause}: {assumed.describe()}"
    return launches, LaunchNotes(assumed=notes)


def _change_launch(
    launch: DeviceLaunch, interpreter: Interpreter, source: str, question: LaunchAssumptions
) -> DeviceLaunch:
    """The launch with the shape and the values of the question."""
    kernel = interpreter.kernel_of(launch)
    names, types = parameter_names(source, launch.kernel), parameter_types(launch.signature)
    changed = replace(launch, grid=question.grid or launch.grid, block=question.block or launch.block)
    if kernel is None or not question.values or not len(names) == len(types) == len(explicit_arguments(kernel)):
        return changed
    for name, kind, (offset, size, _) in zip(names, types, explicit_arguments(kernel), strict=True):
        if name in question.values:
            changed = with_argument(changed, offset, packed_number(question.values[name], size, kind))
    return changed


def assumed_launches(
    assumed: KernelLaunchPlan, numbers: Mapping[str, float], interpreter: Interpreter
) -> list[DeviceLaunch]:
    """A launch of each instance of a kernel, with numbers by the name of the argument; every pointer points to a large
    array of its own."""
    names = [parameter.name for parameter in assumed.kernel.parameters]
    launches = []
    for kernel in interpreter.kernels:
        if base_name(kernel["name"]) != assumed.kernel.name:
            continue
        types = parameter_types(kernel["name"])
        arguments, buffers = bytearray(explicit_bytes(kernel)), []
        for i, (offset, size, kind) in enumerate(explicit_arguments(kernel)):
            if kind == BUFFER:
                buffers.append(DeviceBuffer(FIRST_ADDRESS + 2 * GUESSED_BYTES * i, GUESSED_BYTES, guessed=True))
                arguments[offset : offset + size] = buffers[-1].start.to_bytes(size, "little")
            else:
                number = numbers.get(names[i], OTHER_NUMBER) if i < len(names) else OTHER_NUMBER
                arguments[offset : offset + size] = packed_number(number, size, types[i] if i < len(types) else "")
        shape = assumed.grid, assumed.block, 0
        launches.append(DeviceLaunch(kernel["symbol"], kernel["name"], *shape, bytes(arguments), tuple(buffers)))
    return launches
