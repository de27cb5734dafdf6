"""What one run of a program on the simulator gave."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.simulator.autotunings import Autotuning
from hipsynth.simulator.budget_outcome import Spending, count_uncomputed
from hipsynth.simulator.instructions import KernelInstructions
from hipsynth.simulator.observation import Output
from hipsynth.simulator.transfers import Transfer


@dataclass(frozen=True)
class FaultPlace:
    """The instruction at which a kernel failed, or left its arrays: its `address` in the code object that defines the
    kernel `symbol`."""

    symbol: str
    address: int
    line: str = ""  # FILE:LINE, if it has been looked up


class NoticeKind(StrEnum):
    """What a program asked for in vain; the values are those of native/runtime/results.h."""

    UNSUPPORTED_CALL = "unsupported_call"  # subject: the function
    OUT_OF_MEMORY = "out_of_memory"  # the device's; subject: how much was asked for, and how much there is
    MISSING_CODE_OBJECT = "missing_code_object"  # subject: the path


@dataclass(frozen=True)
class Notice:
    """Something that the runtime library refused, while the program went on."""

    kind: NoticeKind
    subject: str


@dataclass(frozen=True)
class RunResult:
    """Result of one run. `status` "ok" means that the program terminated by itself, with any exit code; "partial"
    (with a budget, `reason` "budget"), that it was ended at its limits, or crashed after launches that did not run,
    and that `kernels` holds those that ended; or (`reason` "settled") that RunLimits.settled_launches ended it.

    `reason` of a failure: timeout, instruction_limit, illegal_access, assertion, trap, deadlock, unsupported_opcode,
    bad_code_object, bad_configuration, bad_result (a malformed result document), internal_error, unsupported_service,
    out_of_memory, host_crash, output_limit, forbidden_call.
    Kernel records have no metrics and no source yet.
    """

    status: RunStatus
    reason: Reason = Reason.NONE
    message: str = ""
    fault: FaultPlace | None = None  # of a failure at an instruction
    warned_at: FaultPlace | None = None  # of the first warning about an access out of bounds
    exit_code: int | None = None
    stdout: str = ""
    stderr: str = ""
    kernels: tuple[KernelRecord, ...] = ()
    # The same launches, one record for each kernel, grid and block, in the order of first launches; () if each kernel
    # has one shape. Shapes beyond the first 256 (kKeptShapes) are in one record of each kernel, without `same_shape`.
    shapes: tuple[KernelRecord, ...] = ()
    dispatches: tuple[KernelRecord, ...] = ()  # records of the first dispatches, at most kKeptDispatches
    dispatch_count: int = 0
    refused_launches: int = 0  # that hardware would not start, such as those of too large a work-group
    clock_ns: float = 0.0  # simulated time at the end: dispatches and copies
    spending: tuple[Spending, ...] = ()  # with a budget: every kernel that was launched
    instructions: tuple[KernelInstructions, ...] = ()  # with RunLimits.lines
    code_objects: tuple[bytes, ...] = ()  # with RunLimits.lines: those that a script compiled
    ttgir: Mapping[int, str] = field(default_factory=dict)  # likewise: Triton's last IR, by the object's CRC-32
    outputs: tuple[Output, ...] = ()  # with an Observation
    transfers: tuple[Transfer, ...] = ()  # copies and fills, by kind
    host_operators: Mapping[str, int] = field(default_factory=dict)  # of PyTorch, on device tensors: run on the CPU
    autotunings: tuple[Autotuning, ...] = ()  # of a script; read where its run is in a copy of its folder
    device_s: float = 0.0  # processor time in launches; the rest of `cpu_s` is the program's own code
    races: tuple[str, ...] = ()  # with an Observation that looks for them: the first of each kernel
    unfenced: tuple[str, ...] = ()  # likewise: accesses that atomics put in order, but no fence makes visible
    notices: tuple[Notice, ...] = ()  # what the runtime library had to refuse
    warnings: tuple[str, ...] = ()  # errors that hardware would not detect, such as an out-of-bounds access
    wall_s: float = 0.0
    cpu_s: float = 0.0  # processor time; 0 for an attached program
    isolated: bool = False
    output_cut: bool = False  # stdout or stderr is longer than RunLimits.output_bytes; the rest was dropped

    def subjects(self, kind: NoticeKind) -> list[str]:
        """What was refused for this cause."""
        return [notice.subject for notice in self.notices if notice.kind == kind]

    @property
    def sampled(self) -> bool:
        """True if some launch was not executed in full, so that the program's results are not valid."""
        if self.spending:
            return count_uncomputed(self.spending) > 0
        return any(kernel.sampled for kernel in self.kernels)
