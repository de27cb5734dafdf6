"""Previews of the launches of a program text, for an architecture, flags and a device."""

from __future__ import annotations

import contextlib
import shlex
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from hipsynth.core.errors import BadInput, TimeLimitReached
from hipsynth.core.languages import SourceLanguage
from hipsynth.core.program import Project, text_id
from hipsynth.core.reasons import Reason
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.time_limit import OutOfTime
from hipsynth.profiling.preview.interpret import (
    CORPUS_REPLAYABLE,
    MOST_SENSITIVITY,
    NOT_STARTED,
    REPLAYABLE,
    Code,
    Interpreter,
    Preview,
    explicit_bytes,
    is_certain,
    mean_preview,
)
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.record import (
    HARMLESS,
    HostCode,
    HostRun,
    Recording,
    find_recording,
    record_launches,
    written_buffers,
)
from hipsynth.profiling.preview.shared_device import SharedDevice
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.errors import SimError
from hipsynth.source.arguments import stated_arguments
from hipsynth.source.includes import include_runtime, includes_own_files
from hipsynth.source.names import short_name
from hipsynth.source.outline import loads_kernels
from hipsynth.toolchain import CompileLimits, compile_device, legacy_headers

MOST_PREVIEWS = 32  # launches of a program, unless it has more kernels and shapes
MOST_SHAPES = 256  # of one kernel
MOST_NAMED = 8  # kernels in a note
# Launches of one kernel and shape, and of one kernel in any shape, that tell how much unknown data matter to it.
ENOUGH_OF_SHAPE, ENOUGH_OF_KERNEL = 2, 8


@dataclass(frozen=True)
class PreviewFailure:
    """Why a launch, or the whole program (`kernel` is empty), has no preview."""

    kernel: str
    reason: str
    code: Reason


@dataclass(frozen=True)
class ProgramPreviews:
    """What is known of a program's launches: previews, and one failure with its reason for each launch without one."""

    previews: list[Preview]
    failures: list[PreviewFailure]


def device_code(
    text: str, arch: str, flags: str, limits: CompileLimits | None = None, project: Project | None = None
) -> Code:
    """Compiles the device code of a program in the sandbox, or takes it from the build cache; a fragment without any
    #include gets HIP's header. `project`: the folder whose headers the text includes. If it lacks headers that HIP's
    headers included before release 7, it is compiled with them. Raises CompileFailed, and BadInput without a kernel."""
    flags = add_include_folder(flags, text, project)
    with scratch_folder() as scratch:
        source, out = write_source(text, scratch), scratch / "out"

        def build(with_older: bool) -> Code:
            older = f" {legacy_headers.older_flags(SourceLanguage.HIP)}" if with_older else ""
            return compile_device_code(source, arch, f"{flags}{older}", out, limits)

        return legacy_headers.retry_with_headers(build, lambda messages: messages.older_name)


def add_include_folder(flags: str, text: str, project: Project | None) -> str:
    """The flags with which a text that lies elsewhere finds the headers in its project's folder."""
    if project is None or project.folder == Path("/") or not includes_own_files(text):
        return flags
    return f"{flags} -iquote {shlex.quote(str(project.folder.absolute()))}"


def write_source(text: str, folder: Path) -> Path:
    """Writes a program's text for the compiler; a fragment without any #include gets HIP's header."""
    path = folder / f"{text_id(text)}.hip"
    path.write_text(include_runtime(text))
    return path


def compile_device_code(path: Path, arch: str, flags: str, out: Path, limits: CompileLimits | None = None) -> Code:
    """Compiles the device side of `path` for one architecture, in the folder `out`; it may have no kernel if the host
    side loads some. Raises CompileFailed, BadInput without a kernel, and MissingDependency without a compiler."""
    try:
        build = compile_device(path, arch, flags, out, limits=limits)
    except BadInput as error:
        if error.reason != Reason.NO_KERNEL or not loads_kernels(path.read_text()):
            raise
        return Code(b"", "", flags)
    return Code(build.code_object.read_bytes(), build.disassembly.read_text(), flags)


def find_launches(
    text: str,
    interpreter: Interpreter,
    arguments: Sequence[str] = (),
    policy: HostCode = HostCode.RUN,
    project: Project | None = None,
) -> Recording:
    """The launches that the host code of `text` makes when it is run with `arguments`; without any, with those that
    the text states. `project`: the folder that it runs in. Raises as record_launches()."""
    with scratch_folder() as scratch:
        code_object, disassembly = scratch / "device.co", scratch / "device.s"
        code_object.write_bytes(interpreter.code.elf)
        disassembly.write_text(interpreter.code.disassembly)
        chosen_arguments = tuple(arguments or stated_arguments(text))
        source = write_source(text, scratch)
        run = HostRun(
            source, interpreter.code.flags, chosen_arguments, interpreter.table, code_object, disassembly, project
        )
        signatures = {kernel["symbol"]: kernel["name"] for kernel in interpreter.kernels}
        recording = None if policy is HostCode.ANEW else find_recording(run, signatures)
        if recording is not None and (recording.code == run.code() or still_holds(recording, interpreter)):
            return recording
        if policy is HostCode.KNOWN:
            return Recording((), Reason.NOT_RUN, "its host code has not been run")
        return record_launches(run, signatures, keep=policy is not HostCode.ANEW)


def still_holds(recording: Recording, interpreter: Interpreter) -> bool:
    """Whether a recording is right for kernels that are different inside: neither the host nor a kernel that depends on
    data has seen what kernels write, the device started all, and what previews of the new ones need was recorded."""
    if recording.depends_on_results or recording.refused:
        return False
    written: set[int] = set()
    for launch in recording.launches:
        kernel = interpreter.kernel_of(launch)
        if launch.module is None:
            if kernel is None or len(launch.arguments) < explicit_bytes(kernel):
                return False
            if interpreter.by_data(kernel) and not launch.by_data:
                return False
        if launch.by_data and any(buffer.start in written for buffer in launch.named_buffers()):
            return False
        written.update(buffer.start for buffer in written_buffers(launch))
    return True


def preview_program(
    text: str,
    code: Code,
    device: str,
    arguments: Sequence[str] = (),
    project: Project | None = None,
    *,
    for_records: bool = False,
) -> ProgramPreviews:
    """Interprets the launches of a program's run with `arguments`. `for_records`: as records of kernels need it,
    without sensitivities, which take several interpretations; the cache of recordings is neither read nor written.

    Raises as find_launches()."""
    interpreter = Interpreter(code, load_device(device), CORPUS_REPLAYABLE if for_records else REPLAYABLE)
    recording = find_launches(text, interpreter, arguments, HostCode.ANEW if for_records else HostCode.RUN, project)
    previews = interpret_all(recording.launches, interpreter, sensitivities=not for_records)
    if recording.reason and recording.reason not in HARMLESS:
        previews.failures.append(PreviewFailure("", recording.message, recording.reason))
    return previews


class FindsInterpreter(Protocol):
    """Knows the code of launches."""

    def of_module(self, launch: DeviceLaunch) -> Interpreter | None:
        """The interpreter of a launch's code; None if that is not known."""
        ...


def interpret_all(
    launches: Sequence[DeviceLaunch], interpreter: FindsInterpreter, *, sensitivities: bool = True
) -> ProgramPreviews:
    """A preview, or the reason why there is none, of each launch that select_launches() takes; after a limit of
    time was reached, the reason is that. Launches after the host has read results that were not computed are as
    uncertain as can be. Without `sensitivities`, those of the others are 0."""
    previews: list[Preview] = []
    failures: list[PreviewFailure] = []
    learned = KnownSensitivities() if sensitivities else None
    todo, device = select_launches(launches), SharedDevice()
    try:
        while todo:
            interpreted = interpret_launch(interpreter, todo[0], learned.find(todo[0]) if learned else 0.0, device)
            launch = todo.pop(0)
            if isinstance(interpreted, PreviewFailure):
                failures.append(interpreted)
                continue
            if learned and interpreted.by_data and not interpreted.diverged and not is_certain(launch):
                learned.add(launch, interpreted.sensitivity)
            previews.append(replace(interpreted, sensitivity=MOST_SENSITIVITY) if launch.after_loss else interpreted)
            if launch.follows_itself:
                previews[-1] = repeat_launch(previews[-1], interpreter, device)
    except OutOfTime:
        return ProgramPreviews(previews, failures + [out_of_time(launch.kernel) for launch in todo])
    with contextlib.suppress(OutOfTime):  # the first time's then stand for all
        for number, preview in enumerate(previews):
            if not preview.launch.follows_itself:
                previews[number] = repeat_launch(preview, interpreter, device)
    return ProgramPreviews(previews, failures)


@dataclass
class KnownSensitivities:
    """How much unknown data matter to launches, learned from the first of each kernel and shape."""

    by_shape: dict[object, list[float]] = field(default_factory=dict)
    by_kernel: dict[str, list[float]] = field(default_factory=dict)

    def find(self, launch: DeviceLaunch) -> float | None:
        """The largest of launches like this one; None if too few are known."""
        for earlier, enough in (
            (self.by_shape.get(launch.shape, []), ENOUGH_OF_SHAPE),
            (self.by_kernel.get(launch.symbol, []), ENOUGH_OF_KERNEL),
        ):
            if len(earlier) >= enough:
                return max(earlier)
        return None

    def add(self, launch: DeviceLaunch, sensitivity: float) -> None:
        """Adds that of one more launch."""
        self.by_shape.setdefault(launch.shape, []).append(sensitivity)
        self.by_kernel.setdefault(launch.symbol, []).append(sensitivity)


def select_launches(launches: Sequence[DeviceLaunch]) -> list[DeviceLaunch]:
    """The launches of a run that are previewed, in its order: all, or MOST_PREVIEWS, spread evenly over those of each
    kernel and shape, but at least one of each of MOST_SHAPES of a kernel. One stands for those of its shape up to the
    next."""
    shapes: dict[object, list[int]] = {}
    for number, launch in enumerate(launches):
        shapes.setdefault(launch.shape, []).append(number)
    counts = Counter[str]()
    for shape, numbers in list(shapes.items()):
        counts[launches[numbers[0]].symbol] += 1
        if counts[launches[numbers[0]].symbol] > MOST_SHAPES:
            del shapes[shape]
    selected: dict[int, int] = {}
    for numbers, share in zip(shapes.values(), _share_previews(list(map(len, shapes.values()))), strict=True):
        starts = [len(numbers) * part // share for part in range(share)]
        for first, after in zip(starts, [*starts[1:], len(numbers)], strict=True):
            selected[numbers[first]] = sum(launches[number].times for number in numbers[first:after])
    return [replace(launches[number], stands_for=count) for number, count in sorted(selected.items())]


def _share_previews(counts: Sequence[int]) -> list[int]:
    """How many launches of each shape are previewed, of so many that there are."""
    shares = [1] * len(counts)
    for _ in range(min(MOST_PREVIEWS, sum(counts)) - len(counts)):
        sparsest = max(range(len(counts)), key=lambda i: (counts[i] > shares[i], counts[i] / shares[i]))
        shares[sparsest] += 1
    return shares


def note_omissions(launches: Sequence[DeviceLaunch]) -> tuple[str, ...]:
    """Notes on the launches of a run that are not previewed, if there are any."""
    selected = select_launches(launches)
    shapes = {launch.shape for launch in selected}
    left_out = Counter(launch.signature for launch in launches if launch.shape not in shapes)
    alike = len(launches) - len(selected) - left_out.total()
    notes = [f"{alike} further launches are taken to be like those of their shape before them"] if alike else []
    notes += [
        f"{count} further launches of {short_name(kernel)}, of more than {MOST_SHAPES} shapes, are not predicted"
        for kernel, count in left_out.items()
    ]
    return tuple(notes)


def note_incomplete(recording: Recording, interpreter: Interpreter) -> tuple[str, ...]:
    """A note on a run that may not have made all launches, with the kernels that it did not launch until then."""
    if not recording.reason:
        return ()
    launched = {launch.symbol for launch in recording.launches} | {launch.kernel for launch in recording.refused}
    missing = [
        short_name(kernel["name"])
        for kernel in interpreter.kernels
        if kernel["symbol"] not in launched and kernel["name"] not in launched
    ]
    more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
    names = f"; none is known of {', '.join(missing[:MOST_NAMED])}{more}" if missing else ""
    return (f"not all launches may be known: {recording.message}{names}",)


def repeat_launch(preview: Preview, interpreter: FindsInterpreter, device: SharedDevice) -> Preview:
    """The mean over all times that a launch is made: later ones find in the caches what is there now. The preview
    itself where it is made once, or where the data that was assumed first led to errors or far. Raises OutOfTime."""
    launch = preview.launch
    module = interpreter.of_module(launch)
    if launch.cold == launch.times or launch.times == 1 or module is None or preview.diverged:
        return preview
    with contextlib.suppress(SimError):
        if (later := module.count(launch, device)) is not None:
            return mean_preview(preview, module.scale_counts(launch, later), module.table.arch)
    return preview


def interpret_launch(
    interpreter: FindsInterpreter,
    launch: DeviceLaunch,
    sensitivity: float | None = None,
    device: SharedDevice | None = None,
) -> Preview | PreviewFailure:
    """The preview of a launch, or why it has none; `sensitivity` and `device` as Interpreter.preview() takes them."""
    if launch.starts_cold and device is not None:
        device.empty_caches()
    try:
        module = interpreter.of_module(launch)
        preview = module.preview(launch, sensitivity, device) if module is not None else None
        return preview or unknown_kernel(launch.kernel)
    except BadInput as error:
        return no_interpretation(launch.kernel, error)


def unknown_kernel(kernel: str) -> PreviewFailure:
    """The failure of a launch whose kernel no code object of the program holds."""
    return PreviewFailure(
        kernel, "its code is not in the program: it is compiled or loaded while it runs", Reason.UNKNOWN_KERNEL
    )


_WHY_NOT_INTERPRETED = {
    Reason.INSTRUCTION_LIMIT: "a work-group that was interpreted did not end within the limit of instructions: "
    "does its loop end?",
    Reason.ILLEGAL_ACCESS: "it accesses memory outside its arrays, also where they are enlarged, or by pointers that "
    "are not known: an execution (synth profile) says where",
}


def failures_of_refused(recording: Recording, code: Code) -> list[PreviewFailure]:
    """The failures of kernels that the device does not start as they are launched."""
    return [
        PreviewFailure(
            short_name(launch.kernel),
            f"{NOT_STARTED}: {code.why_refused(launch.kernel, launch.why)}",
            Reason.BAD_CONFIGURATION,
        )
        for launch in recording.refused
    ]


def no_interpretation(kernel: str, error: BadInput) -> PreviewFailure:
    """Why a launch has no preview, from the error that its interpretation raised."""
    usual = f"its code cannot be interpreted: {error.cause}" if isinstance(error, SimError) else error.what
    return PreviewFailure(kernel, _WHY_NOT_INTERPRETED.get(error.reason, usual), error.reason)


def out_of_time(kernel: str) -> PreviewFailure:
    """The failure of a launch that the limit of time left no room for."""
    return PreviewFailure(kernel, "the limit of time was reached before its turn", TimeLimitReached.reason)
