"""Names the source line at which a kernel failed, or left its arrays."""

from __future__ import annotations

from dataclasses import replace

from hipsynth.core.errors import HipsynthError
from hipsynth.core.program import Project
from hipsynth.core.scratch import scratch_folder
from hipsynth.profiling.lines.line_table import FLAG, module_of, own_files_of, source_locations
from hipsynth.simulator.build import build_project
from hipsynth.simulator.run_result import RunResult
from hipsynth.toolchain import CompileLimits

MARK = "; source line "  # as in messages of the runtime library about code that was compiled with a line table


def add_fault_line(result: RunResult, project: Project, arch: str, flags: str, limits: CompileLimits) -> RunResult:
    """The run of a program on disk, whose message and FaultPlace name the source line of the instruction, if known.

    Builds the program once more, with a line table, which leaves machine code and addresses as they are.
    """
    fault = result.fault or result.warned_at
    if fault is None or project.is_script or MARK in result.message:
        return result
    try:
        with scratch_folder() as scratch:
            built = build_project(project, arch, f"{flags} {FLAG}", scratch / "build", limits)
            module = module_of(built.modules, fault.symbol, 0)
            if module is None:
                return result
            place = source_locations(module[0], [fault.address], own_files_of(project), limits).get(fault.address)
    except HipsynthError:  # the line is an addition to what is said already
        return result
    if place is None or not place.file:
        return result
    line = f"{place.file}:{place.line}"
    if result.fault is None:
        return replace(result, warned_at=replace(fault, line=line))
    return replace(result, fault=replace(fault, line=line), message=f"{result.message}{MARK}{line}")
