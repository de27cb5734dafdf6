"""Runs the host side of a program in the sandbox, and reads which launches it makes.

Kernels run only as far as a small budget of work goes, so that loops that wait for their results end; counters come
from the interpretation of a sample of work-groups afterwards (profiling.preview.interpret). What a run recorded is
kept in the cache: launches do not depend on what kernels do inside, so editing a kernel runs nothing again.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.cache import cache_dir
from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, CompileFailed
from hipsynth.core.files import read_program_file, read_regular, replace_atomically
from hipsynth.core.folders import walk_files
from hipsynth.core.languages import INCLUDED_SUFFIXES
from hipsynth.core.program import Project
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.time_limit import charge_seconds
from hipsynth.profiling.preview.launch import DeviceBuffer, DeviceLaunch, is_number, is_read_only, parameter_types
from hipsynth.simulator import api
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.errors import reason_of_core
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.launch_record import (
    FILE,
    MOST_BYTES,
    LaunchRecording,
    RecordedLaunch,
    RefusedLaunch,
    parse_recording,
)
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.run_folder import place_program
from hipsynth.source.includes import includes_own_files
from hipsynth.source.outline import outline_kernels
from hipsynth.toolchain import CompileLimits, sandbox

HOST_SECONDS = 10.0  # of processor time
KERNEL_SECONDS = 0.25  # of work on kernels, at fixed prices: results do not depend on the machine
SETTLED = 1000  # launches in a row without a new kernel or shape, after which the program is ended
MEMORY_BYTES = 4 << 30
# Reasons that are of the machine and may be gone in the next run: such recordings are not kept.
OF_THE_MACHINE = TRANSIENT | {Reason.NEEDS_LIBRARY}
MOST_FILES = 500  # in the folder of a program whose recording is kept
_OTHER_BRACES = re.compile(r"<%|%>|\?\?")  # digraphs and trigraphs
_LOOP_PRAGMA = re.compile(r"[ \t]*#[ \t]*pragma[ \t]+(?:(?:no)?unroll|clang[ \t]+loop)\b")  # of the next loop alone
_SPLICE = re.compile(r"\\[ \t]*\n")  # the next line goes on with this one
MOST_CACHED_BYTES, MOST_CACHED_RECORDINGS = 1 << 30, 256  # of recordings in the cache
# Reasons for which a run is ended that say nothing against its launches.
HARMLESS: Mapping[str, str] = {
    Reason.RECORDED: "it makes more launches than are recorded",
    Reason.SETTLED: "it repeats its launches",
}


@dataclass(frozen=True)
class KernelVariant:
    """What a build of a kernel was specialized for, as in KernelRecord."""

    language: str = ""
    meta: Mapping[str, bool | int | str] = field(default_factory=dict)


class HostCode(StrEnum):
    """Whether and how a program's host code may run to record its launches."""

    RUN = "run"  # its host code is run in the sandbox
    ANEW = "anew"  # run, whatever an earlier run recorded; the recording is not kept
    KNOWN = "known"  # nothing is run: what an earlier run recorded


@dataclass(frozen=True)
class Recording:
    """The launches of one run of a program. `reason`: why they may not be all that the program makes, in short, and
    `message` in words; "" if they are. `code`: identifies the device code that the run was made with. `refused`: of
    kernels, by their full names, that the device does not start as they are launched."""

    launches: tuple[DeviceLaunch, ...]
    reason: Reason = Reason.NONE
    message: str = ""
    code: str = ""
    refused: tuple[RefusedLaunch, ...] = ()

    @property
    def depends_on_results(self) -> bool:
        """Whether the host read results of kernels before its last launch."""
        return any(launch.after_read for launch in self.launches)


@dataclass(frozen=True)
class HostRun:
    """A run of a program's host code. `code_object`, `disassembly`: files of its device code; `project`: what it finds
    in the folder that it runs in, and may read besides."""

    source: Path
    flags: str
    arguments: tuple[str, ...]
    device: DeviceTable
    code_object: Path
    disassembly: Path
    project: Project | None = None

    def code(self) -> str:
        """Identifies the device code."""
        return hashlib.sha256(self.code_object.read_bytes()).hexdigest()

    def entry(self) -> Path | None:
        """Where the run's recording is kept. It is the same whatever the kernels do inside. None if the folder has so
        many files that nothing is kept."""
        whole_text = self.source.read_text(errors="surrogateescape")
        files = data_files(self.project, includes_own_files(whole_text)) if self.project else []
        if files is None:
            return None
        text = host_text(whole_text)
        identity = build_identity(), toolchain.find_toolchain().identity
        limits = [KERNEL_SECONDS, HOST_SECONDS, MEMORY_BYTES]
        parts = [*identity, limits, self.flags, self.device.name, text, self.arguments, files]
        return cache_dir() / "launches" / hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def data_files(project: Project, includes_sources: bool = False) -> list[tuple[str, int, int]] | None:
    """(path, bytes, time of the last change in ns) of each file that a program may read besides its sources, those of
    other source files and headers only if it includes some; None if there are more than MOST_FILES."""
    sources = {file.path.resolve() for file in project.sources}
    files = []
    beside = walk_files(project.folder, links=True)
    for number, path in enumerate(itertools.chain(beside, sorted(project.readable))):
        if number >= MOST_FILES:
            return None
        is_read = includes_sources or path.suffix not in INCLUDED_SUFFIXES
        with contextlib.suppress(OSError):  # it was deleted, or the user may not read it
            if is_read and path.is_file() and path.resolve() not in sources:
                state = path.stat()
                files.append((str(path), state.st_size, state.st_mtime_ns))
    return sorted(files)


def host_text(text: str) -> str:
    """A program's text without what only its kernels see: the bodies, apart from preprocessor lines that also hold for
    what follows. Whole if braces may be spelled in other ways, so that a body may end earlier than it seems to."""
    hidden = any(line.count("{") != line.count("}") for line in _list_directives(text))
    if hidden or _OTHER_BRACES.search(text):
        return text
    kept_parts, at = [], 0
    for kernel in outline_kernels(text):
        start, end = kernel.body
        directives = _list_directives(text[start:end])
        kept_parts += [text[at:start], *(line for line in directives if not _LOOP_PRAGMA.match(line))]
        at = end
    return "".join([*kept_parts, text[at:]])


def _list_directives(text: str) -> list[str]:
    """The lines that may be of the preprocessor."""
    return [line for line in _SPLICE.sub(" ", text).splitlines(keepends=True) if "#" in line or "%:" in line]


def record_launches(run: HostRun, signatures: Mapping[str, str], keep: bool = True) -> Recording:
    """Runs a program's host code; `keep`: the recording goes to the cache. `signatures`: demangled names of its kernels
    by symbol.

    A program whose host side does not compile or link makes no launches (Reason.NO_HOST_CODE). Raises
    MissingDependency if nothing can be isolated, BadInput if the program damaged the record.
    """
    out = run.source.parent / "host"
    try:
        built = toolchain.compile_host(run.source, run.flags, out, runtime=api.library_path(), limits=CompileLimits())
    except CompileFailed as error:
        why = (error.diagnostics or error.cause or error.what).strip().splitlines()
        return Recording(
            (), Reason.NO_HOST_CODE, f"its host code does not compile and link: {why[0] if why else error}"
        )
    objdump = toolchain.find_toolchain().objdump
    artefacts = api.Artefacts(built.executable, objdump=objdump)
    if run.code_object.stat().st_size:
        artefacts = replace(artefacts, code_object=run.code_object, disassembly=run.disassembly)
    with sandbox.job_folder() as job:
        folder = job / "run"
        project = replace(run.project, arguments=run.arguments) if run.project else None
        placed = place_program(project, run.source.stem, artefacts, folder)
        words = placed.arguments if project else run.arguments
        recording = run_recording(placed.artefacts, run.device, folder, words, placed.mounts)
        data = read_program_file(folder, FILE, MOST_BYTES)
    head = RecordingHead(recording.reason, HARMLESS.get(recording.reason, recording.message), run.code())
    launches = read_recording(head, data, signatures)
    if keep and (entry := run.entry()) is not None:
        store_recording(entry, head, data)
    charge_seconds(recording.cpu_s)
    return launches


@dataclass(frozen=True)
class RecordingSeconds:
    """Of a run that is recorded: processor time of its host code, and work on its kernels, at fixed prices."""

    host: float
    kernels: float


def run_recording(
    artefacts: api.Artefacts,
    device: DeviceTable,
    folder: Path,
    arguments: Sequence[str],
    mounts: Mapping[str, Path] | None = None,
    allowed: RecordingSeconds | None = None,
) -> api.RunResult:
    """Runs a built program; its launches are in the file launch_record.FILE of `folder`, its working folder."""
    seconds = allowed or RecordingSeconds(HOST_SECONDS, KERNEL_SECONDS)
    limits = RunLimits(
        time_s=seconds.host,
        memory_bytes=MEMORY_BYTES,
        budget_s=seconds.kernels,
        settled_launches=SETTLED,
        strict_bounds=False,
        caches=False,
        counters=False,
    )
    recording = LaunchRecording()
    return api.run_program(artefacts, device, folder, limits, arguments, mounts=mounts, observation=recording)


@dataclass(frozen=True)
class RecordingHead:
    """The part of a stored recording that is not launches."""

    reason: Reason
    message: str
    code: str


def read_recording(head: RecordingHead, data: bytes, signatures: Mapping[str, str]) -> Recording:
    """The recording with this head and these bytes of its file. Raises BadInput if they are damaged."""
    run = parse_recording(data)
    refused = tuple(replace(launch, kernel=signatures.get(launch.kernel, launch.kernel)) for launch in run.refused)
    return Recording(tuple(as_launches(run.launches, signatures)), head.reason, head.message, head.code, refused)


def find_recording(run: HostRun, signatures: Mapping[str, str]) -> Recording | None:
    """The stored recording of the same host code, whose kernels may have had other bodies; None if there is none."""
    entry = run.entry()
    return None if entry is None else load_recording(entry, signatures)


def load_recording(entry: Path, signatures: Mapping[str, str]) -> Recording | None:
    """The recording that is stored there; None if there is none, or it is damaged."""
    try:
        head, _, data = read_regular(entry, MOST_BYTES + (1 << 16)).partition(b"\n")
        return read_recording(from_json(RecordingHead, json.loads(head)), data, signatures)
    except (OSError, ValueError, TypeError, BadInput):
        return None


def store_recording(entry: Path, head: RecordingHead, data: bytes) -> None:
    """Keeps a recording, unless it failed for reasons of the machine, and deletes the oldest ones. Failure to cache is
    not an error."""
    if head.reason in OF_THE_MACHINE:
        return
    try:
        with replace_atomically(entry) as fresh:
            fresh.write_bytes(json.dumps(asdict(head)).encode() + b"\n" + data)
        total = 0
        for number, path in enumerate(sorted(entry.parent.iterdir(), key=_modification_time, reverse=True)):
            total += path.stat().st_size
            if number >= MOST_CACHED_RECORDINGS or total > MOST_CACHED_BYTES:
                path.unlink(missing_ok=True)
    except (OSError, BadInput):
        return


def _modification_time(path: Path) -> float:
    return path.stat().st_mtime


def as_launches(recorded: Sequence[RecordedLaunch], signatures: Mapping[str, str]) -> Iterator[DeviceLaunch]:
    """Launches for previews; buffers that launches without results may have written are stale from then on."""
    stale: dict[int, bytes | None] = {}  # start -> contents when its launch was lost
    for record in recorded:
        buffers = []
        for a in record.allocations:
            contents = a.contents.data if a.contents else None
            is_stale = a.start in stale and (contents is None or stale[a.start] in (None, contents))
            buffers.append(DeviceBuffer(a.start, a.bytes, a.contents, is_stale))
        language, meta = _variant_of(record)
        launch = DeviceLaunch(
            symbol=record.symbol,
            signature=signatures.get(record.symbol, record.symbol),
            grid=record.grid,
            block=record.block,
            dynamic_lds=record.dynamic_lds,
            arguments=record.arguments,
            buffers=tuple(buffers),
            cooperative=record.cooperative,
            variables=record.variables,
            module=record.module,
            by_data=record.by_data,
            times=record.times,
            after_read=record.after_read,
            after_loss=record.after_loss,
            language=language,
            meta=meta,
            failure=reason_of_core(record.outcome),
            in_a_row=record.in_a_row,
            cold=record.cold,
            starts_cold=record.starts_cold,
        )
        yield launch
        if record.outcome != "ran":
            for buffer in written_buffers(launch):
                stale[buffer.start] = buffer.contents.data if buffer.contents else None


def _variant_of(record: RecordedLaunch) -> tuple[str, Mapping[str, bool | int | str]]:
    """Language and meta-parameters of the kernel. Raises BadInput if the program wrote something else."""
    try:
        variant = from_json(KernelVariant, json.loads("{" + record.variant.rstrip(", ") + "}"))
    except (ValueError, TypeError) as error:
        raise BadInput(
            "the record of the program's launches is damaged", cause=str(error)[:200], reason=Reason.BAD_RESULT
        ) from None
    return variant.language, variant.meta


def written_buffers(launch: DeviceLaunch) -> list[DeviceBuffer]:
    """The buffers that a launch may write: those that its arguments point to, except through pointers to constants."""
    types = parameter_types(launch.signature)
    pointers = launch.pointers
    kinds = [kind for kind in types if kind.endswith("*")]
    plain = all(is_number(kind) for kind in types if not kind.endswith("*"))  # else structures may hold pointers, too
    if plain and len(pointers) == len(kinds):
        return [buffer for (_, buffer), kind in zip(pointers, kinds, strict=True) if not is_read_only(kind)]
    return [buffer for _, buffer in pointers]
