"""The price of executing a kernel's launches in seconds, which is the same on every machine, whatever its load."""

from __future__ import annotations

from hipsynth.core.kernel_record import KernelRecord

# Of a wave instruction of any kind, counted. By kind they cost 5 to 250 ns: simulator/native/dispatch/budget.h, fitted
# with benchmarks/budget_prices.py.
INSTRUCTION_S = 5e-8
REUSED_SHARE = 0.25  # of that, for a launch that is run for its results alone, as its counters are an earlier one's
_INSTRUCTIONS = (
    "valu_full", "valu_packed", "valu_trans", "valu_f64", "valu_int64_mul", "salu", "smem", "vmem", "lds", "flow",
)  # fmt: skip


def exact_price_s(kernel: KernelRecord) -> float:
    """Seconds for all work-groups of all launches; 0 for a record without work."""
    return _launch_instructions(kernel) * kernel.dispatches * INSTRUCTION_S


def execution_price_s(kernel: KernelRecord) -> float:
    """Seconds for the work-groups that were executed; 0 for a record without work. A launch that repeats an earlier one
    costs nothing where results are not needed."""
    if kernel.work is None or not kernel.work.groups:
        return 0.0
    reused = kernel.sampling.reused if kernel.sampling else 0
    launches = kernel.dispatches - (1 - REUSED_SHARE) * reused
    if kernel.sampling and kernel.sampled:
        executed = kernel.sampling.groups_simulated + kernel.sampling.groups_recorded
        share = min(1.0, executed / (kernel.work.groups * kernel.dispatches))
        launches = share * (kernel.dispatches - reused)
    return _launch_instructions(kernel) * launches * INSTRUCTION_S


def _launch_instructions(kernel: KernelRecord) -> float:
    """Wave instructions of a launch."""
    return float(sum(getattr(kernel.work, name) for name in _INSTRUCTIONS)) if kernel.work else 0.0
