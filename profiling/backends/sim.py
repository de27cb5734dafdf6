"""The default backend: compiles a program, executes its machine code on the CPU, and counts hardware events."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import BadInput, CompileFailed, MissingDependency, UsageError, diagnostics_of
from hipsynth.core.installation import install_command
from hipsynth.core.kernel_record import KernelRecord, MeasurementSource
from hipsynth.core.languages import HIP
from hipsynth.core.oracle_check import describe_mismatch
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends import equal_builds
from hipsynth.profiling.backends.protocol import Availability, Target, TargetResult, failed_result
from hipsynth.profiling.lines import attribute_to_lines, own_files
from hipsynth.profiling.lines.fault_line import add_fault_line
from hipsynth.profiling.lines.intermediate import add_intermediate_code
from hipsynth.profiling.lines.line_table import FLAG
from hipsynth.simulator import api, devices, label_model
from hipsynth.simulator.build import build_program, compile_limits
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.opcodes import count_opcodes
from hipsynth.simulator.run_folder import place_program
from hipsynth.simulator.scripts.autotune_cache import use_autotune_cache
from hipsynth.simulator.scripts.compiled_kernels import read_compiled, read_intermediate, reuse_compiled
from hipsynth.simulator.scripts.prepare import missing_packages, package_versions
from hipsynth.simulator.scripts.tuning_file import read_autotunings
from hipsynth.toolchain import CompileLimits, sandbox

USAGE_LINES = 8
NO_KERNEL_LOADED = "no kernel in the file: no __global__ function, and none is loaded while it runs"


class SimBackend:
    """Compiles, runs and checks a program. Results for a program and target are identical on every machine."""

    name = "sim"

    def version(self) -> str:
        """The version of its labels (simulator/label_model.toml); raises MissingDependency if the simulator is not
        built."""
        api.core_version()
        return label_model.sim_version()

    def available(self) -> Availability:
        """Whether a compiler is installed and the simulator built, and whether programs can run in a sandbox."""
        try:
            toolchain_found = toolchain.find_toolchain()
            version = self.version()
        except MissingDependency as error:
            return Availability(False, error.what, error.remedy)
        where = "in a sandbox" if sandbox.is_available() else "only with --no-sandbox (bubblewrap does not work here)"
        return Availability(
            True, f"simulator {build_identity()}, {version}, {toolchain_found.compiler_version}, programs run {where}"
        )

    def supports(self, target: Target) -> bool:
        try:
            return bool(devices.device_of(target.arch, target.device))
        except UsageError:
            return False

    def environment(self, target: Target, language: str = HIP) -> dict[str, str]:
        """Further versions that affect results: compiler and headers, or those of Triton and PyTorch."""
        tools = toolchain.find_toolchain().provenance()
        if language == HIP:
            return tools
        return tools | {"compiler": "" if missing_packages() else package_versions(), "headers": ""}

    def profile(self, program: Program, target: Target, scratch: Path, limits: RunLimits) -> TargetResult:
        """Profiles one program on one target. Raises UsageError for an invalid target, MissingDependency if nothing can
        run."""
        device = devices.device_of(target.arch, target.device)
        provenance = {"program": program.id, "device": target.device, "backend": self.name, "version": self.version()}
        provenance |= {"host_code": program.host_code, "simulator": build_identity()}
        is_corpus_script = program.project is None and program.is_script
        if is_corpus_script and (missing := missing_packages()):
            message = f"{' and '.join(missing)} not installed; install with: {install_command('triton')}"
            return failed_result(target, Reason.MISSING, message, provenance=provenance)
        start, bounds = time.monotonic(), compile_limits(limits)
        flags = f"{target.flags} {FLAG}" if limits.lines else target.flags
        try:
            built = equal_builds.build_once(
                program,
                target.arch,
                flags,
                bounds,
                scratch,
                lambda folder: build_program(program, target.arch, flags, folder, bounds),
            )
        except (CompileFailed, BadInput) as error:
            failed = failed_result(target, error.reason, error.describe(), provenance=provenance)
            return replace(failed, diagnostics=diagnostics_of(error))
        compiling_s = time.monotonic() - start
        run = equal_builds.key_of(program, built, device, limits)
        finished_run = equal_builds.find_equal_run(run) or execute_program(program, built.artefacts, device, limits)
        equal_builds.keep_run(run, finished_run)
        if program.project is not None:
            finished_run = add_fault_line(finished_run, program.project, target.arch, target.flags, bounds)
        provenance |= {
            **built.provenance,
            "flags": target.flags,
            "isolated": str(finished_run.isolated).lower(),
            "sampled": str(finished_run.sampled).lower(),
        }
        loaded = _disassemble_loaded(finished_run, scratch / "loaded", bounds)
        provenance["opcodes"] = " ".join(sorted(built.opcodes.union(count_opcodes(path for _, path in loaded))))
        if finished_run.output_cut:
            provenance["output_cut"] = "true"
        times = {
            "compiling": compiling_s,
            "host code": max(0.0, finished_run.cpu_s - finished_run.device_s),
            "kernels": finished_run.device_s,
        }
        result = replace(
            self._judge_run(program, target, finished_run, provenance, built.artefacts.has_kernels), times=times
        )
        if not limits.lines:
            return result
        own_name, modules = own_files(program), (*built.artefacts.modules, *loaded)
        counted = finished_run.instructions
        lines = attribute_to_lines(result.kernels, counted, modules, own_name, device, bounds)
        return replace(result, lines=add_intermediate_code(lines, counted, finished_run.ttgir, own_name))

    def _judge_run(
        self, program: Program, target: Target, result: api.RunResult, provenance: Mapping[str, str], has_kernels: bool
    ) -> TargetResult:
        reason, message = result.reason, result.message
        if not reason and not result.sampled and (expected := equal_builds.expect_once(program)) is not None:
            message = describe_mismatch(expected, result.exit_code, result.stdout)
            reason = Reason.WRONG_RESULT if message else Reason.NONE
            if message and result.output_cut:
                message += " (its output was cut, so what followed was not compared)"
        if not reason and not result.dispatch_count and (result.refused_launches or not result.transfers):
            reason, message = _explain_no_launch(result, has_kernels)
        if reason:
            message = "\n".join([message, *_own_words(result.stderr, message)]).strip()
        elif result.exit_code and program.is_script:
            message = next(reversed(_own_words(result.stderr, "")), "").strip()
        kernels = measured_kernels(result.kernels, target.arch)
        nothing_fits = bool(result.spending) and not kernels and not reason
        if nothing_fits:
            reason, message = Reason.BUDGET, "no launch fits the budget"
        is_partial = result.status == RunStatus.PARTIAL or nothing_fits
        return TargetResult(
            target.arch,
            target.flags,
            target.device,
            status=RunStatus.PARTIAL if is_partial else RunStatus.FAILED if reason else RunStatus.OK,
            reason=reason,
            message=message,
            exit_code=result.exit_code,
            stdout=result.stdout,
            kernels=kernels,
            shapes=measured_kernels(result.shapes, target.arch),
            provenance=dict(provenance),
            spending=result.spending,
            transfers=result.transfers,
            host_operators=result.host_operators,
            autotunings=result.autotunings,
            clock_ns=result.clock_ns,
        )


def _explain_no_launch(result: api.RunResult, has_kernels: bool) -> tuple[Reason, str]:
    """Why a program that launched no kernel is no result: the reason, and the words for it."""
    if not has_kernels:
        return Reason.NO_KERNEL, NO_KERNEL_LOADED
    words = "\n".join(result.stdout.strip().splitlines()[:USAGE_LINES])  # often how to call it
    refused = f"; {result.refused_launches} refused" if result.refused_launches else ""
    reason = Reason.BAD_CONFIGURATION if result.refused_launches else Reason.NO_DISPATCH
    return reason, f"{Reason.NO_DISPATCH.meaning}{refused}\n{words}".strip()


def _disassemble_loaded(result: api.RunResult, folder: Path, limits: CompileLimits) -> tuple[tuple[Path, Path], ...]:
    """The code objects that a script's compiler made, with their disassemblies; () if one is damaged: the script may
    have written it."""
    try:
        return toolchain.disassemble(result.code_objects, folder, limits)
    except (CompileFailed, BadInput):
        return ()


_STOPPED = (Reason.TIMEOUT, Reason.INTERRUPTED)


def measured_kernels(kernels: Iterable[KernelRecord], arch: str) -> tuple[KernelRecord, ...]:
    """The kernels of a RunResult as the backend reports them, with their metrics."""
    source = MeasurementSource(SimBackend.name, SimBackend().version())
    return tuple(
        replace(kernel, metrics=metrics.compute_metrics(kernel.counters, kernel.duration_ns, arch), source=source)
        for kernel in kernels
    )


def _own_words(stderr: str, message: str) -> list[str]:
    """Lines that the program itself wrote to stderr, without the simulator's copy of `message`."""
    lines = stderr.replace(message, "").rstrip().splitlines()
    own_heads = [line for line in lines if line.startswith("hipsynth: ")]
    copies = {line for line in own_heads if line.endswith(":") or line.split(": ", 2)[-1] in message}
    return [line for line in lines if line not in copies]


def execute_program(
    program: Program, artefacts: api.Artefacts, device: devices.DeviceTable, limits: RunLimits
) -> api.RunResult:
    """Runs a built program; again in full where sampling made it fail."""
    result = run_in_copy(program, artefacts, device, limits)
    has_failed = result.status != RunStatus.OK or bool(result.exit_code and program.is_script)
    if not limits.budget_s and has_failed and result.sampled and result.reason not in _STOPPED:
        # The program may depend on results that sampling does not compute, as addresses or to terminate; a script ends
        # where a check of its results fails.
        result = run_in_copy(program, artefacts, device, replace(limits, sampling_units=0))
    return result


def run_in_copy(
    program: Program, artefacts: api.Artefacts, device: devices.DeviceTable, limits: RunLimits
) -> api.RunResult:
    """Runs a built program in a folder of its own (see run_folder.place_program); texts call that folder <scratch>."""
    with sandbox.job_folder() as job:
        folder = job / "run"
        placed = place_program(program.project, program.name, artefacts, folder)
        arguments = placed.arguments if program.project else program.arguments
        with contextlib.ExitStack() as caches:
            runnable = caches.enter_context(reuse_compiled(program.project, placed.artefacts, folder))
            if limits.autotune_cache is not None:
                runnable = caches.enter_context(use_autotune_cache(limits.autotune_cache, runnable, folder))
            result = api.run_program(runnable, device, folder, limits, arguments, mounts=placed.mounts)
            if artefacts.interpreter is not None:
                result = replace(result, autotunings=read_autotunings(folder))
            if limits.lines or (program.project is None and program.is_script):
                result = replace(result, code_objects=read_compiled(folder), ttgir=read_intermediate(folder))
    hide = sandbox.hide_job_folders
    return replace(result, message=hide(result.message), stdout=hide(result.stdout), stderr=hide(result.stderr))
