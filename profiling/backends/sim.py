"""The default backend: compiles a program, executes its machine code on the CPU, counts what the hardware counts."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from hipsynth.profiling import devices, metrics, sandbox, toolchain
from hipsynth.profiling.backends.protocol import Availability, Target, TargetResult
from hipsynth.profiling.backends.run_folder import copy_folder, placed
from hipsynth.profiling.sim import api
from hipsynth.profiling.sim.limits import Limits
from hipsynth.profiling.toolchain import older
from hipsynth.profiling.toolchain.project import Unit, compile_project
from hipsynth.synth.core.errors import BadInput, CompileFailed, Missing, UsageError
from hipsynth.synth.core.kernel_record import KernelRecord, Source
from hipsynth.synth.core.oracle_check import mismatch
from hipsynth.synth.core.program import Place, Program

_RELOCATABLE = "-fgpu-rdc"
TABLES = Path(api.__file__).parent / "isa"


@functools.cache
def tables_hash() -> str:
    """Hash of the facts that decide results: architecture tables and opcode tables."""
    digest = hashlib.sha256()
    for path in sorted([*devices.FOLDER.glob("*.toml"), *TABLES.glob("*.toml")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


class SimBackend:
    """Compile, run, verify, aggregate. The same program on the same target gives the same result on every machine."""

    name = "sim"

    def version(self) -> str:
        """Simulator sources and fact tables, e.g. "0.1.0-1f2e3d4c-5b6a7988"; raises Missing when it is not built."""
        return f"{api.core_version()}-{tables_hash()}"

    def available(self) -> Availability:
        try:
            found = toolchain.find()
            version = self.version()
        except Missing as error:
            return Availability(False, error.what, error.remedy)
        where = "in a sandbox" if sandbox.available() else "without isolation (bubblewrap does not work here)"
        return Availability(True, f"simulator {version}, {found.compiler_version}, programs run {where}")

    def supports(self, target: Target) -> bool:
        try:
            return bool(devices.device_of(target.arch, target.device))
        except UsageError:
            return False

    def environment(self, target: Target) -> dict[str, str]:
        """Versions that decide a result beside the backend's own."""
        return toolchain.find().provenance()

    def profile(self, program: Program, target: Target, scratch: Path, limits: Limits) -> TargetResult:
        """One program on one target. Raises UsageError for an impossible target, Missing when nothing can run."""
        device = devices.device_of(target.arch, target.device)
        provenance = {"program": program.id, "device": target.device, "backend": self.name, "version": self.version()}
        try:
            artefacts, built = build_program(program, target, scratch / "build")
        except (CompileFailed, BadInput) as error:
            words = [str(error), getattr(error, "diagnostics", "")]
            return failure(target, error.reason, "\n".join(filter(None, words)), provenance=provenance)
        done = run_built(program, artefacts, device, scratch / "run", limits)
        if done.status != "ok" and done.sampled and done.reason != "timeout":
            # A program may need the results that sampling leaves out, as addresses or to come to an end.
            done = run_built(program, artefacts, device, scratch / "full", replace(limits, stretches=0))
        provenance |= {**built, "isolated": str(done.isolated).lower(), "sampled": str(done.sampled).lower()}
        return self._judge(program, target, done, provenance)

    def _judge(
        self, program: Program, target: Target, done: api.RunResult, provenance: Mapping[str, str]
    ) -> TargetResult:
        reason, message = done.reason, done.message
        if not reason and program.expected is not None and not done.sampled:
            message = mismatch(program.expected, done.exit_code, done.stdout)
            reason = "wrong_result" if message else ""
        if not reason and not done.dispatch_count:
            reason, message = "no_dispatch", "the program launched no kernel"
        if reason:
            message = "\n".join([message, *_own_words(done.stderr, message)]).strip()
        kernels = tuple(self._kernel(kernel, target.arch) for kernel in done.kernels)
        return TargetResult(
            target.arch,
            target.flags,
            target.device,
            status="failed" if reason else "ok",
            reason=reason,
            message=message,
            exit_code=done.exit_code,
            stdout=done.stdout,
            kernels=kernels,
            provenance=dict(provenance),
        )

    def _kernel(self, kernel: KernelRecord, arch: str) -> KernelRecord:
        """Means per dispatch, with the metrics that follow from them."""
        mean = per_dispatch(kernel)
        computed = metrics.compute(mean.counters, mean.duration_ns, arch)
        return replace(mean, metrics=computed, source=Source(self.name, self.version()))


def _own_words(stderr: str, message: str) -> list[str]:
    """What a program itself wrote to stderr: the core repeats its own message there."""
    lines = stderr.rstrip().splitlines()
    return [line for line in lines if not (line.startswith("hipsynth: ") and line.split(": ", 2)[-1] in message)]


def run_built(
    program: Program, artefacts: api.Artefacts, device: devices.ArchTable, folder: Path, limits: Limits
) -> api.RunResult:
    """Runs in `folder`: a new copy of the program's own where it has one.

    Files that its arguments name and that lie elsewhere can be read there, by absolute paths.
    """
    if program.place is None:
        folder.mkdir(parents=True, exist_ok=True)
        return api.run_program(artefacts, device, folder, limits)
    copy_folder(program.place.folder, folder)
    words = [_named_file(word, folder) for word in program.place.arguments]
    elsewhere = {word: Path(word) for word in words if Path(word).is_absolute() and Path(word).is_file()}
    artefacts = placed(artefacts, folder, program.name)
    return api.run_program(artefacts, device, folder, limits, words, mounts=elsewhere)


def _named_file(word: str, folder: Path) -> str:
    """An argument as it is, but for a file of the user's working folder that is not in the copy: its absolute path."""
    return word if (folder / word).exists() or not Path(word).is_file() else str(Path(word).resolve())


def build_program(program: Program, target: Target, folder: Path) -> tuple[api.Artefacts, dict[str, str]]:
    """As build, also for a program that lies in files of its own."""
    if program.place is None:
        return build(program.text, program.name, target.arch, target.flags, folder)
    artefacts = build_place(program.place, target.arch, target.flags, folder)
    if artefacts.code_object is None:
        raise BadInput(f"{program.name}: no kernel in its files", reason="no_kernel")
    about = {
        "arch": target.arch,
        "flags": target.flags,
        "source_sha256": hashlib.sha256(program.text.encode()).hexdigest(),
    }
    return artefacts, toolchain.find().provenance() | about


def build_place(place: Place, arch: str, flags: str, folder: Path) -> api.Artefacts:
    """Compiles each file with its own flags and then `flags`, and links them; there need be no kernel.

    `-fgpu-rdc` among the flags links the device code of all files. Where standard names are unknown, once more with
    the headers that HIP's own brought in before release 7.
    """
    if _RELOCATABLE in flags.split():
        place = replace(place, relocatable=True)
        flags = " ".join(word for word in flags.split() if word != _RELOCATABLE)
    try:
        return _build_sources(place, arch, flags, folder)
    except CompileFailed as error:
        if not older.may_help(error.diagnostics):
            raise
        files = [replace(file, flags=f"{file.flags} {older.flags(file.language)}") for file in place.sources]
        try:
            return _build_sources(replace(place, sources=tuple(files)), arch, flags, folder)
        except CompileFailed:
            raise error from None  # the program's own words, not those about what was added


def _build_sources(place: Place, arch: str, flags: str, folder: Path) -> api.Artefacts:
    first = place.sources[0]
    if len(place.sources) == 1 and first.language == "hip" and not first.flags and not place.relocatable:
        return build_runnable(first.path, arch, flags, folder)
    units = [Unit(file.path, file.language, f"{file.flags} {flags}".strip()) for file in place.sources]
    built = compile_project(units, arch, folder, runtime=api.library_path(), relocatable=place.relocatable)
    objdump = toolchain.find().objdump
    if not built.devices:
        return api.Artefacts(built.executable, objdump=objdump)
    return api.Artefacts(built.executable, *built.devices[0], objdump, built.devices[1:])


def build(text: str, name: str, arch: str, flags: str, folder: Path) -> tuple[api.Artefacts, dict[str, str]]:
    """Compiles both sides of a program's text in `folder`; returns the artefacts and their provenance.

    Raises CompileFailed, BadInput ("no_kernel"), UsageError (bad flags), Missing (no compiler).
    """
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{name or 'program'}.hip"
    source.write_text(text)
    return build_file(source, arch, flags, folder)


def build_file(source: Path, arch: str, flags: str, folder: Path) -> tuple[api.Artefacts, dict[str, str]]:
    """As build, for a file whose quoted includes are found beside it."""
    device = toolchain.compile_device(source, arch, flags, folder)
    host = toolchain.compile_host(source, flags, folder, runtime=api.library_path())
    artefacts = api.Artefacts(host.executable, device.code_object, device.disassembly, toolchain.find().objdump)
    return artefacts, dict(device.provenance)


def build_runnable(source: Path, arch: str, flags: str, folder: Path) -> api.Artefacts:
    """As build_file, for a program that may also have no kernel, such as one that only asks for device properties."""
    try:
        return build_file(source, arch, flags, folder)[0]
    except BadInput as error:
        if error.reason != "no_kernel":
            raise
    host = toolchain.compile_host(source, flags, folder, runtime=api.library_path())
    return api.Artefacts(host.executable, objdump=toolchain.find().objdump)


def per_dispatch(total: KernelRecord) -> KernelRecord:
    """The totals over a kernel's dispatches (see api.RunResult) as means."""
    return replace(total, **{name: _divided(getattr(total, name), total.dispatches) for name in api.TOTALS})


def _divided(value: Any, count: int) -> Any:
    """A number, or every number of a part or mapping, over `count`; names in it stay."""
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{part.name: _divided(getattr(value, part.name), count) for part in fields(value)})
    if isinstance(value, Mapping):
        return {name: _divided(number, count) for name, number in value.items()}
    return value if value is None or isinstance(value, str) else value / count


def failure(target: Target, reason: str, message: str, *, provenance: Mapping[str, str]) -> TargetResult:
    return TargetResult(
        target.arch, target.flags, target.device, "failed", reason=reason, message=message, provenance=dict(provenance)
    )
