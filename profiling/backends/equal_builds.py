"""What the cells of a job share: the build of equal flags, the result of an identical run, and what a run must print.

Within `share_equal_work()`, a program is built once for all its runs and devices. Flag sets often compile to the same
machine code: a run of the same files on the same device, with the same arguments and limits, is looked up. Nothing is
remembered outside of it, so that two profiles of one program stay two builds and two runs.
"""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from hipsynth.core.program import Expected, Program
from hipsynth.core.run_status import RunStatus
from hipsynth.core.scratch import scratch_folder
from hipsynth.simulator.api import Artefacts, RunResult
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.opcodes import count_opcodes
from hipsynth.toolchain import CompileLimits

Key = tuple[object, ...]
MakeBuild = Callable[[Path], tuple[Artefacts, dict[str, str]]]  # in a new folder; see simulator.build.build_program


@dataclass(frozen=True)
class ProgramBuild:
    """The files of a build and its provenance; what is read from the files is read once, while they exist."""

    artefacts: Artefacts
    provenance: Mapping[str, str]

    @cached_property
    def digests(self) -> tuple[str, ...]:
        """SHA-256 of the executable, and of each code object and its disassembly."""
        files = [self.artefacts.executable, *(path for module in self.artefacts.modules for path in module)]
        return tuple(hashlib.sha256(path.read_bytes()).hexdigest() for path in files)

    @cached_property
    def opcodes(self) -> frozenset[str]:
        """The opcodes of its kernels."""
        return frozenset(count_opcodes(path for _, path in self.artefacts.modules))


@dataclass
class _SharedWork:
    """What a job has done so far. `folders`: those of its builds, which `resources` deletes."""

    resources: contextlib.ExitStack
    folders: list[Path] = field(default_factory=list)
    builds: dict[Key, ProgramBuild] = field(default_factory=dict)
    runs: dict[Key, RunResult] = field(default_factory=dict)
    expectations: dict[Key, Expected | None] = field(default_factory=dict)


_known: ContextVar[_SharedWork | None] = ContextVar("work of this job", default=None)


@contextlib.contextmanager
def share_equal_work() -> Iterator[None]:
    """While the block runs, equal builds and runs are made once."""
    with contextlib.ExitStack() as resources:
        token = _known.set(_SharedWork(resources))
        try:
            yield
        finally:
            _known.reset(token)


def build_once(
    program: Program, arch: str, flags: str, limits: CompileLimits, scratch: Path, make: MakeBuild
) -> ProgramBuild:
    """The build of a program's text, made at its first use; that of a project is made in `scratch` each time.

    Raises what `make` raises; a build that fails is not remembered.
    """
    work = _known.get()
    if work is None or program.project is not None or program.is_script:
        return ProgramBuild(*make(scratch / "build"))
    key = (program.text, program.name, arch, flags, limits)
    if key not in work.builds:
        work.folders.append(work.resources.enter_context(scratch_folder()))
        work.builds[key] = ProgramBuild(*make(work.folders[-1] / "build"))
    return work.builds[key]


def hide_build_folders(text: str) -> str:
    """The text with "<scratch>" for the folders of this job's builds."""
    work = _known.get()
    for folder in work.folders if work else ():
        text = text.replace(str(folder), "<scratch>")
    return text


def key_of(program: Program, built: ProgramBuild, device: DeviceTable, limits: RunLimits) -> Key | None:
    """The key under which runs share a result; None where sharing is off or the program reads its own files."""
    if _known.get() is None or program.project is not None:
        return None
    name, objdump = built.artefacts.executable.name, str(built.artefacts.objdump)
    return (name, built.digests, objdump, program.arguments, device.name, limits)


def find_equal_run(key: Key | None) -> RunResult | None:
    """The result of an equal run, which took no time this time."""
    work = _known.get()
    earlier_run = work.runs.get(key) if work is not None and key is not None else None
    return earlier_run and replace(earlier_run, wall_s=0.0, cpu_s=0.0, device_s=0.0)


def keep_run(key: Key | None, result: RunResult) -> None:
    """Remembers a run that ended by itself; one that was stopped may end otherwise on a less busy machine."""
    work = _known.get()
    if work is not None and key is not None and result.status == RunStatus.OK:
        work.runs[key] = result


def expect_once(program: Program) -> Expected | None:
    """What the program's first run must print, if that is known; computed once for all devices and flags."""
    work = _known.get()
    if work is None:
        return program.expectation()
    key = (program.id, program.arguments)
    if key not in work.expectations:
        work.expectations[key] = program.expectation()
    return work.expectations[key]
