"""Programs whose work-groups can be mapped: how each language is read, changed, run and followed."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Protocol

from hipsynth.core.kernel_record import Dim
from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator.line_sharing import SharingObservation, read_sharing
from hipsynth.source.arguments import default_arguments
from hipsynth.source.triton_source import read_default_arguments, read_triton_source
from hipsynth.tuning.swizzle import edits, script_edits
from hipsynth.tuning.swizzle.line_use import ObservedLaunches, collect_launches, observe_launches
from hipsynth.tuning.swizzle.mapping import GroupMapping
from hipsynth.tuning.trial import Conditions, Trial, run_trial
from hipsynth.tuning.trial.refusal import KernelRefusal
from hipsynth.tuning.trial.script import ScriptRun, ScriptTrials

KernelMappings = Mapping[str, tuple[GroupMapping, Dim]]  # kernel -> its mapping, and the grid of its largest launch


class MappableProgram(Protocol):
    """A program as the search for mappings sees it. `kernels`: the names of those in its source."""

    @property
    def text(self) -> str: ...
    @property
    def kernels(self) -> frozenset[str]: ...
    def default_arguments(self) -> tuple[str, ...]: ...
    def find_refusal(self, kernel: str) -> KernelRefusal | None: ...
    def write_mapped(self, mappings: KernelMappings) -> str: ...
    def run_trial(self, text: str, conditions: Conditions) -> Trial: ...
    def observe_launches(
        self, arguments: tuple[str, ...], following: SharingObservation, time_s: float
    ) -> ObservedLaunches: ...


class HipProgram:
    """A HIP program in one file. Raises BadInput without a kernel or for code that cannot be parsed."""

    def __init__(self, text: str, target: Target) -> None:
        self.text, self.target = text, target
        self._source = edits.read_source(text, target.arch, target.flags)

    @property
    def kernels(self) -> frozenset[str]:
        return frozenset(self._source.kernels)

    def default_arguments(self) -> tuple[str, ...]:
        return tuple(map(str, default_arguments(self.text)))

    def find_refusal(self, kernel: str) -> KernelRefusal | None:
        reason = edits.refusal(self._source, kernel)
        return KernelRefusal(Reason.UNSUPPORTED, reason) if reason else None

    def write_mapped(self, mappings: KernelMappings) -> str:
        """The program with mapped kernels. Raises BadInput where that is not possible."""
        functions = {name: mapping.source(edits.call_of(name)) for name, (mapping, _) in mappings.items()}
        return edits.patched(self._source, functions)

    def run_trial(self, text: str, conditions: Conditions) -> Trial:
        return run_trial(text, self.target, conditions)

    def observe_launches(
        self, arguments: tuple[str, ...], following: SharingObservation, time_s: float
    ) -> ObservedLaunches:
        return observe_launches(self.text, self.target, arguments, following, time_s)


class ScriptProgram:
    """A Python script with Triton kernels. Raises BadInput if it is not Python."""

    def __init__(self, trials: ScriptTrials, target: Target) -> None:
        self.text, self.target, self.trials = trials.text, target, trials
        self._source = read_triton_source(trials.text)

    @property
    def kernels(self) -> frozenset[str]:
        return frozenset(function.name for function in self._source.functions)

    def default_arguments(self) -> tuple[str, ...]:
        return read_default_arguments(self._source)

    def find_refusal(self, kernel: str) -> KernelRefusal | None:
        return script_edits.find_refusal(self._source, kernel)

    def write_mapped(self, mappings: KernelMappings) -> str:
        """The script with mapped kernels. Raises BadInput where that is not possible."""
        grids = {name: grid for name, (_, grid) in mappings.items()}
        return script_edits.write_mapped(
            self._source, {name: mapping for name, (mapping, _) in mappings.items()}, grids
        )

    def run_trial(self, text: str, conditions: Conditions) -> Trial:
        return self.trials.run(text, self.target, conditions)

    def observe_launches(
        self, arguments: tuple[str, ...], following: SharingObservation, time_s: float
    ) -> ObservedLaunches:
        read = functools.partial(_read_observed, self.target.arch)
        return self.trials.observe(self.text, self.target, Conditions(arguments, time_s=time_s), following, read)


def _read_observed(arch: str, run: ScriptRun) -> ObservedLaunches:
    return collect_launches(run.result, tuple(read_sharing(run.folder)), arch)
