"""The backend that runs a sample of work-groups: compiles a program, runs its host code to record the launches, and
interprets a sample of the work-groups of each (profiling/preview).

A program costs its compiles and some tenths of a second for each launch, and nothing checks its results. Its figures
are estimates (docs/explanation/prediction.md says how near); corpora keep them apart from executed ones.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from operator import attrgetter
from pathlib import Path

from hipsynth.core.errors import BadInput, CompileFailed
from hipsynth.core.kernel_record import (
    Dim,
    KernelRecord,
    MeasurementSource,
    Occupancy,
    Registers,
    Sampling,
    TimingBounds,
    Work,
)
from hipsynth.core.languages import HIP
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Availability, Target, TargetResult, failed_result
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.preview.interpret import Preview
from hipsynth.profiling.preview.programs import (
    MOST_PREVIEWS,
    ProgramPreviews,
    add_include_folder,
    compile_device_code,
    preview_program,
)
from hipsynth.profiling.preview.script_launches import preview_script_text
from hipsynth.simulator import api, devices, label_model
from hipsynth.simulator.build import compile_limits
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.opcodes import opcodes_in


class PreviewBackend:
    """Estimates counters and durations of a program's launches. Results are identical on every machine."""

    name = "preview"

    def version(self) -> str:
        """The version of its estimates (simulator/label_model.toml); raises MissingDependency if the simulator is not
        built."""
        api.core_version()
        return label_model.preview_version()

    def available(self) -> Availability:
        availability = SimBackend().available()
        return Availability(True, f"previews {self.version()}") if availability.ok else availability

    def supports(self, target: Target) -> bool:
        return SimBackend().supports(target)

    def environment(self, target: Target, language: str = HIP) -> dict[str, str]:
        return SimBackend().environment(target, language)

    def profile(self, program: Program, target: Target, scratch: Path, limits: RunLimits) -> TargetResult:
        """Previews one program on one target. Raises UsageError for an invalid target, MissingDependency if nothing can
        be compiled."""
        devices.device_of(target.arch, target.device)
        if program.project is not None and len(program.project.sources) > 1:
            why = "a program of several files has no preview: profile it with --backend sim"
            return failed_result(target, Reason.UNSUPPORTED, why)
        provenance = {"program": program.id, "device": target.device, "backend": self.name, "version": self.version()}
        provenance |= {"host_code": program.host_code, "flags": target.flags}
        try:
            previews, facts = _preview_launches(program, target, scratch, limits)
        except (CompileFailed, BadInput) as error:
            return failed_result(target, error.reason, error.describe(), provenance=provenance)
        reason, message = _fault(previews)
        if reason:
            return failed_result(target, reason, message, provenance=provenance)
        provenance |= {**self.environment(target, program.language), **facts}
        kernels = tuple(self._record(group, target.arch) for group in group_previews(previews.previews, instance_of))
        shapes = tuple(self._record(group, target.arch) for group in group_previews(previews.previews, shape_of))
        return TargetResult(
            target.arch, target.flags, target.device, RunStatus.OK, kernels=kernels, provenance=provenance,
            shapes=shapes if len(shapes) > len(kernels) else (),
        )  # fmt: skip

    def _record(self, launches: Sequence[Preview], arch: str) -> KernelRecord:
        """The record of a kernel from its launches."""
        first = launches[0]
        dispatches = sum(launch.launch.times for launch in launches)
        counters = {name: round(n) / dispatches for name, n in _sum(launches, attrgetter("counters")).items()}
        duration_ns = sum(launch.launch.times * launch.duration_ns for launch in launches) / dispatches
        return KernelRecord(
            name=first.instance,
            dispatches=dispatches,
            grid=first.launch.grid,
            block=first.launch.block,
            duration_ns=duration_ns,
            counters=counters,
            metrics=metrics.compute_metrics(counters, duration_ns, arch),
            source=MeasurementSource(self.name, self.version()),
            same_shape=len({shape_of(launch) for launch in launches}) == 1,
            registers=Registers(**{name: first.registers[name] for name in Registers.__annotations__}),
            occupancy=Occupancy(**{name: first.occupancy[name] for name in Occupancy.__annotations__}),
            limits=TimingBounds(first.bottleneck, 0.0, _mean(launches, attrgetter("bounds"))),
            work=Work(**_mean(launches, attrgetter("work"))),
            sampling=_sampling(launches),
            language=first.launch.language,
            meta=first.launch.meta,
        )


def _preview_launches(
    program: Program, target: Target, scratch: Path, limits: RunLimits
) -> tuple[ProgramPreviews, Mapping[str, str]]:
    """The previews of a program's launches, and what its provenance says of its device code. Raises CompileFailed,
    BadInput."""
    if program.is_script:
        return preview_script_text(program.text, devices.load_device(target.device), program.arguments), {}
    path = scratch / f"{program.id}.hip"
    path.write_text(program.text)
    own_flags = program.project.sources[0].flags if program.project else ""  # -I
    flags = add_include_folder(f"{target.flags} {own_flags}".rstrip(), program.text, program.project)
    code = compile_device_code(path, target.arch, flags, scratch / "out", compile_limits(limits))
    facts = {
        "code_sha256": hashlib.sha256(code.elf).hexdigest(),
        "opcodes": " ".join(sorted(opcodes_in(code.disassembly))),
    }
    previews = preview_program(program.text, code, target.device, program.arguments, program.project, for_records=True)
    return previews, facts


def instance_of(launch: Preview) -> tuple[str, tuple[tuple[str, object], ...]]:
    """The kernel of a launch, with its template arguments, or with what Triton specialized it for."""
    return launch.instance, tuple(sorted(launch.launch.meta.items()))


def shape_of(launch: Preview) -> tuple[object, Dim, Dim]:
    """Kernel, grid and block of a launch."""
    return instance_of(launch), launch.launch.grid, launch.launch.block


def group_previews(previews: Iterable[Preview], key: Callable[[Preview], Hashable]) -> list[list[Preview]]:
    """The launches with equal keys, in the order of their first ones."""
    groups: dict[Hashable, list[Preview]] = {}
    for preview in previews:
        groups.setdefault(key(preview), []).append(preview)
    return list(groups.values())


def _fault(previews: ProgramPreviews) -> tuple[Reason, str]:
    """Why a program has no label: reason and message, or Reason.NONE."""
    if previews.failures:
        return Reason.NO_PREVIEW, "\n".join(f"{failure.kernel}: {failure.reason}" for failure in previews.failures)
    if not previews.previews:
        return Reason.NO_DISPATCH, Reason.NO_DISPATCH.meaning
    if len(previews.previews) >= MOST_PREVIEWS:
        return Reason.NO_PREVIEW, f"it makes {MOST_PREVIEWS} launches or more"
    return Reason.NONE, ""


def _sampling(launches: Sequence[Preview]) -> Sampling:
    run = sum(launch.groups_run for launch in launches)
    total_groups = sum(math.prod(launch.launch.grid) for launch in launches)
    return Sampling("exact" if run >= total_groups else "sampled", run)


def _sum(launches: Iterable[Preview], numbers: Callable[[Preview], Mapping[str, float]]) -> dict[str, float]:
    """The numbers of all launches together, each as often as it was made."""
    total: dict[str, float] = {}
    for launch in launches:
        for name, value in numbers(launch).items():
            total[name] = total.get(name, 0.0) + launch.launch.times * value
    return total


def _mean(launches: Sequence[Preview], numbers: Callable[[Preview], Mapping[str, float]]) -> dict[str, float]:
    """The numbers of a launch on average."""
    dispatches = sum(preview.launch.times for preview in launches)
    return {name: value / dispatches for name, value in _sum(launches, numbers).items()}
