"""Trials of Python scripts with Triton kernels: one variant of a script, run in the sandbox under stated conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from hipsynth.core.errors import BadInput
from hipsynth.core.program import Project, text_id
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import measured_kernels
from hipsynth.simulator import api, devices
from hipsynth.simulator.line_sharing import SharingObservation
from hipsynth.simulator.observation import Family, Observation, Output
from hipsynth.simulator.run_folder import place_program
from hipsynth.simulator.scripts.compiled_kernels import reuse_entry
from hipsynth.simulator.scripts.prepare import prepare_script
from hipsynth.simulator.scripts.trial import TensorBytes, observe_script, read_tensors
from hipsynth.simulator.scripts.tuning_file import read_autotunings
from hipsynth.toolchain import sandbox
from hipsynth.tuning.trial.run import Conditions, Trial
from hipsynth.tuning.trial.written_files import FileState, describe_written_files, list_file_states

T = TypeVar("T")
KIND = "tensor of"  # an output is a "tensor of float32"


@dataclass(frozen=True)
class ScriptRun:
    """A run of a script, the folder in which it ran, and what lay there `earlier`."""

    result: api.RunResult
    folder: Path
    earlier: frozenset[FileState]


@dataclass(frozen=True)
class ScriptTrials:
    """Runs variants of one script: the same project with other texts. `compiled`: an empty folder for the variants'
    compiled kernels, which a later run of the same variant finds, and each variant those of the script itself.

    Conditions mean what they do for HIP programs, but `redraw` is the number by which random generators are seeded
    otherwise, whose floating-point numbers are of the `family`, and the outputs of exact runs are the tensors that
    kernels wrote. In those that count nothing, or look for races, whatever the script times takes the same time.
    """

    project: Project
    text: str
    compiled: Path

    def run(self, text: str, target: Target, conditions: Conditions) -> Trial:
        """Runs a variant; its failures are results. Raises MissingDependency if nothing can run here."""
        observation = replace(conditions, redraw=0, family=Family.SCALED).observation()
        if observation is not None:
            observation = replace(observation, outputs=False)
        return self.observe(text, target, conditions, observation, _to_trial(conditions, target))

    def observe(
        self,
        text: str,
        target: Target,
        conditions: Conditions,
        observation: Observation | SharingObservation | None,
        read: Callable[[ScriptRun], T],
    ) -> T:
        """What `read` makes of a run, while its folder exists."""
        artefacts = prepare_script(self.project.sources[0].path)
        project = replace(self.project, arguments=conditions.arguments)
        with sandbox.job_folder() as job:
            placed = place_program(project, project.sources[0].path.name, artefacts, job / "run")
            placed.artefacts.executable.write_bytes(text.encode())
            entry, original = self.compiled / text_id(text), self.compiled / text_id(self.text)
            stored = entry if entry.is_dir() else original
            with reuse_entry(entry, stored, placed.artefacts, placed.folder) as runnable:
                watched = observe_script(
                    runnable, placed.folder, seed=conditions.redraw, family=conditions.family, tensors=conditions.exact,
                    still=conditions.exact and (conditions.races or not conditions.count),
                )  # fmt: skip
                earlier = list_file_states(placed.folder)
                result = api.run_program(
                    watched, devices.load_device(target.device), placed.folder, conditions.limits(), placed.arguments,
                    mounts=placed.mounts, observation=observation,
                )  # fmt: skip
                hide = sandbox.hide_job_folders
                message, out, err = map(hide, (result.message, result.stdout, result.stderr))
                result = replace(result, message=message, stdout=out, stderr=err)
                return read(ScriptRun(result, placed.folder, earlier))


def _to_trial(conditions: Conditions, target: Target) -> Callable[[ScriptRun], Trial]:
    def read(run: ScriptRun) -> Trial:
        result, folder = run.result, run.folder
        tensors: tuple[TensorBytes, ...] = ()
        status, reason, message = result.status, result.reason, result.message
        try:
            tensors = read_tensors(folder) if conditions.exact else ()
        except BadInput as error:
            status, reason, message = RunStatus.FAILED, error.reason or Reason.BAD_RESULT, str(error)
        if not reason and result.exit_code:
            message = "\n".join(result.stderr.strip().splitlines()[-1:])
        outputs = tuple(
            Output(f"{KIND} {tensor.dtype}", number, len(tensor.data), len(tensor.data), tensor.digest)
            for number, tensor in enumerate(tensors)
        )
        recorded = {number: tensor.data for number, tensor in enumerate(tensors)}
        written = describe_written_files(folder, run.earlier) if conditions.exact else ""
        return Trial(
            status, reason, message, result.exit_code, result.stdout, written,
            measured_kernels(result.kernels, target.arch), outputs, recorded, result.races, result.unfenced,
            result.sampled, result.cpu_s, result.transfers, read_autotunings(folder), result.host_operators,
        )  # fmt: skip

    return read
