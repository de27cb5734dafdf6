"""The launches of a Python script with Triton kernels, recorded without executing the kernels, and their previews."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.cache import cache_dir
from hipsynth.core.files import read_program_file
from hipsynth.core.languages import SUFFIXES, TRITON, SourceLanguage
from hipsynth.core.program import Project, SourceFile, text_id
from hipsynth.core.reasons import Reason
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.time_limit import charge_seconds
from hipsynth.profiling.preview.interpret import REPLAYABLE, Code, Interpreter
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.programs import PreviewFailure, ProgramPreviews, interpret_all, note_omissions
from hipsynth.profiling.preview.record import (
    HARMLESS,
    Recording,
    RecordingHead,
    RecordingSeconds,
    data_files,
    load_recording,
    read_recording,
    run_recording,
    store_recording,
)
from hipsynth.simulator import api
from hipsynth.simulator.build import write_text
from hipsynth.simulator.devices import DeviceTable
from hipsynth.simulator.identity import build_identity
from hipsynth.simulator.launch_record import FILE, MOST_BYTES
from hipsynth.simulator.run_folder import place_program
from hipsynth.simulator.scripts.compiled_kernels import reuse_compiled
from hipsynth.simulator.scripts.prepare import package_versions, prepare_script
from hipsynth.toolchain import sandbox

# Imports, PyTorch's operators and compilers take long; many scripts check small results and go on.
SECONDS = RecordingSeconds(host=40.0, kernels=0.5)
_ERROR = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception)\b.*", re.MULTILINE)
_ERROR_CHARACTERS = 300


@dataclass(frozen=True)
class ScriptInterpreters:
    """Interprets launches of code that was compiled while a script ran, one interpreter for each code object."""

    table: DeviceTable
    loaded: dict[tuple[bytes, bytes], Interpreter]

    def of_module(self, launch: DeviceLaunch) -> Interpreter | None:
        """The interpreter of the launch's code; None if that was not recorded."""
        if launch.module is None:
            return None
        if launch.module not in self.loaded:
            elf, disassembly = launch.module
            code = Code(elf, disassembly.decode(errors="replace"))
            self.loaded[launch.module] = Interpreter(code, self.table, REPLAYABLE)
        return self.loaded[launch.module]


def record_script(project: Project, device: DeviceTable) -> Recording:
    """Runs a script in the sandbox without executing its kernels beyond a small budget, or finds what an earlier run of
    the same script recorded. Raises MissingDependency if nothing can run, BadInput if the script damaged the record."""
    entry = _entry_of(project, device)
    if entry is not None and (stored := load_recording(entry, {})) is not None and not _has_failed(stored):
        return stored
    artefacts = prepare_script(project.sources[0].path)
    with sandbox.job_folder() as job:
        placed = place_program(project, project.sources[0].path.name, artefacts, job / "run")
        with reuse_compiled(project, placed.artefacts, placed.folder) as runnable:
            run = run_recording(runnable, device, placed.folder, placed.arguments, placed.mounts, SECONDS)
        data = read_program_file(placed.folder, FILE, MOST_BYTES)
        head = _head_of(run)
    recording = read_recording(head, data, {})
    if entry is not None and not _has_failed(recording):
        store_recording(entry, head, data)
    charge_seconds(run.cpu_s)
    return recording


def preview_script_text(text: str, device: DeviceTable, arguments: Sequence[str] = ()) -> ProgramPreviews:
    """Previews of the launches of a script that stands by itself. Raises as record_script()."""
    with scratch_folder() as scratch:
        script = write_text(text, text_id(text), scratch, SUFFIXES[TRITON])
        recording = record_script(
            Project((SourceFile(script, SourceLanguage.PYTHON),), scratch, tuple(arguments)), device
        )
        previews, _ = preview_script(recording, device)
    if recording.reason and recording.reason not in HARMLESS:
        previews.failures.append(PreviewFailure("", recording.message, recording.reason))
    return previews


def _has_failed(recording: Recording) -> bool:
    """Whether a script ended with an error before its first launch: what it lacked may be there in the next run."""
    return not recording.launches and recording.reason == Reason.NO_DISPATCH


def _head_of(run: api.RunResult) -> RecordingHead:
    """Why the launches may not be all; a script that ends with an error after launches may fail for lack of results."""
    if not run.reason and run.exit_code:
        errors = _ERROR.findall(sandbox.hide_job_folders(run.stderr))
        last = errors[-1][:_ERROR_CHARACTERS] if errors else f"exit code {run.exit_code}"
        return RecordingHead(Reason.NO_DISPATCH, f"the script ended with an error ({last})", "")
    message = HARMLESS.get(run.reason, sandbox.hide_job_folders(run.message))
    return RecordingHead(run.reason, message, "")


def _entry_of(project: Project, device: DeviceTable) -> Path | None:
    """Where the recording is kept; None if the script's folder has too many files to tell whether one has changed."""
    files = data_files(project)
    if files is None:
        return None
    text = project.sources[0].path.read_text(errors="surrogateescape")
    versions = [build_identity(), toolchain.find_toolchain().identity, package_versions()]
    parts = [*versions, SECONDS.kernels, SECONDS.host, device.name, text, project.arguments, files]
    return cache_dir() / "launches" / hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogateescape")).hexdigest()


def preview_script(recording: Recording, device: DeviceTable) -> tuple[ProgramPreviews, tuple[str, ...]]:
    """Previews of the launches that a script makes, and notes on what they lack."""
    launches = recording.launches
    notes = [f"not all launches may be known: {recording.message}"] if recording.reason and launches else []
    failed = {launch.kernel: launch.failure for launch in launches if launch.failure}
    notes += [
        f"{kernel} cannot be executed as it is launched: {reason.meaning}; `synth run` says where"
        for kernel, reason in failed.items()
    ]
    return interpret_all(launches, ScriptInterpreters(device, {})), (*notes, *note_omissions(launches))
