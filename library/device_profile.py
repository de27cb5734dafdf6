"""What a block of code did on the virtual GPU of this process."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.errors import UsageError, suggest_name
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import TargetResult
from hipsynth.profiling.reports.executed_profile import ExecutedProfile

if TYPE_CHECKING:
    import pandas

    from hipsynth.profiling.lines import KernelLines
    from hipsynth.profiling.metrics.bottleneck import Bottleneck
    from hipsynth.simulator.devices import DeviceTable
    from hipsynth.simulator.run_result import RunResult


@dataclass(frozen=True)
class LaunchedKernel(KernelRecord):
    """The record of a kernel, and what limits it, as in a profile's `results[].kernels[]`."""

    bottleneck: Bottleneck | None = None

    @classmethod
    def of(cls, record: KernelRecord, device: str) -> LaunchedKernel:
        """The record of a kernel on a device."""
        from hipsynth.profiling.metrics.bottleneck import describe_bottleneck

        return cls(**vars(record), bottleneck=describe_bottleneck(record, device))


class DeviceProfile:
    """The kernels that a `with profile()` block launched, once it has ended.

    `print(p)` is the text of `synth profile`; a notebook shows its page, with the roofline.
    """

    def __init__(self, table: DeviceTable, lines: bool) -> None:
        self._table, self._lines = table, lines
        self._result: TargetResult | None = None

    @property
    def kernels(self) -> tuple[LaunchedKernel, ...]:
        """A record for each kernel, build of it, and launch shape, in the order of first launches; amounts are means
        over its `dispatches`."""
        return tuple(LaunchedKernel.of(record, self._table.name) for record in self._measured().launches)

    @property
    def host_operators(self) -> dict[str, int]:
        """How often which of PyTorch's own operators made or changed device tensors, on the CPU and in no time here."""
        return dict(self._measured().host_operators)

    @property
    def elapsed_ns(self) -> float:
        """Simulated time from the first operation to the end of the last; host code takes none."""
        return self._measured().clock_ns

    @property
    def document(self) -> ExecutedProfile:
        """The document of `synth profile --json`."""
        return ExecutedProfile.of("", _process_name(), [self._measured()])

    def kernel(self, name: str) -> LaunchedKernel:
        """The only record of the kernel with this name. Raises UsageError if there is none, or more than one."""
        records = [record for record in self.kernels if record.name == name]
        if len(records) == 1:
            return records[0]
        if records:
            shapes = "; ".join(f"grid {record.grid}, {dict(record.meta)}" for record in records)
            raise UsageError(
                f"{name} was launched in {len(records)} ways", cause=shapes, remedy="choose among `kernels`"
            )
        names = sorted({record.name for record in self.kernels})
        cause = suggest_name(name, names) or f"launched: {', '.join(names) or 'no kernel'}"
        raise UsageError(f"no kernel {name} was launched", cause=cause)

    def to_pandas(self) -> pandas.DataFrame:
        """A row for each record: duration, what limits it, metrics, counters. Raises MissingDependency without
        pandas."""
        return self.document.to_pandas()

    def write_page(self) -> str:
        """The page of `synth profile --html`."""
        return self.document.write_page()

    def _repr_html_(self) -> str:
        return self.document._repr_html_()

    def __str__(self) -> str:
        return str(self.document)

    def fill_in(self, run: RunResult) -> None:
        """Takes what the device counted."""
        from hipsynth.profiling.backends.sim import measured_kernels

        kernels = measured_kernels(run.kernels, self._table.arch)
        self._result = TargetResult(
            self._table.arch,
            "",
            self._table.name,
            status=RunStatus.OK,
            kernels=kernels,
            shapes=measured_kernels(run.shapes, self._table.arch),
            transfers=run.transfers,
            host_operators=run.host_operators,
            clock_ns=run.clock_ns,
            lines=self._attribute(kernels, run) if self._lines else (),
        )

    def _attribute(self, kernels: tuple[KernelRecord, ...], run: RunResult) -> tuple[KernelLines, ...]:
        from hipsynth import toolchain
        from hipsynth.core.scratch import scratch_folder
        from hipsynth.profiling.lines import attribute_to_lines, own_scripts
        from hipsynth.toolchain import CompileLimits

        limits = CompileLimits()
        with scratch_folder() as folder:
            modules = toolchain.disassemble(run.code_objects, folder, limits)
            return attribute_to_lines(kernels, run.instructions, modules, own_scripts(), self._table, limits)

    def _measured(self) -> TargetResult:
        if self._result is None:
            raise UsageError("the profile is not finished", remedy="read it behind the `with` block")
        return self._result


def _process_name() -> str:
    """What the profile is of: the script that runs, or Python."""
    return Path(sys.argv[0]).name or "python"
