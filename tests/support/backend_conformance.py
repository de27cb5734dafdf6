"""Rules that every profiling backend must satisfy. Tests call `check_backend`; each rule can also be called separately.

The backend's author provides a program that works, a supported target and an unsupported one. `check_backend` raises
AssertionError naming the violated rule, or returns the result for further checks.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Backend, Target, TargetResult
from hipsynth.profiling.metrics.occupancy_limits import waves_per_group
from hipsynth.simulator import devices
from hipsynth.simulator.limits import RunLimits


def check_backend(
    backend: Backend, program: Program, target: Target, scratch: Path, limits: RunLimits | None = None
) -> TargetResult:
    """Checks all rules with a program and target that must work; returns the result."""
    limits = limits or RunLimits()
    check_identity(backend)
    assert backend.supports(target), f"{backend.name}: says it does not support {target}"
    first = _profile_program(backend, program, target, scratch / "first", limits)
    check_result(first, target)
    assert first.status == RunStatus.OK, f"{backend.name}: a working program failed: {first.reason}: {first.message}"
    for kernel in first.kernels:
        check_kernel(kernel, target.arch)
    check_portable(first)
    return first


def check_repeatable(backend: Backend, program: Program, target: Target, scratch: Path) -> None:
    """The same request gives the same result, even in another scratch folder. For deterministic backends."""
    results = [_profile_program(backend, program, target, scratch / name, RunLimits()) for name in ("one", "two")]
    assert results[0] == results[1], f"{backend.name}: two runs of the same program differ"


def check_failure(
    backend: Backend,
    program: Program,
    target: Target,
    scratch: Path,
    reasons: set[str],
    limits: RunLimits | None = None,
) -> TargetResult:
    """A program that cannot work gives a failed result with one of `reasons`, or raises HipsynthError with one."""
    try:
        result = _profile_program(backend, program, target, scratch, limits or RunLimits())
    except HipsynthError as error:
        assert error.reason in reasons, f"{backend.name}: reason {error.reason!r}, expected one of {sorted(reasons)}"
        return TargetResult(target.arch, target.flags, target.device, RunStatus.FAILED, error.reason, str(error))
    check_result(result, target)
    assert result.status == RunStatus.FAILED, f"{backend.name}: expected a failure"
    assert result.reason in reasons, f"{backend.name}: reason {result.reason!r}, expected one of {sorted(reasons)}"
    return result


def check_identity(backend: Backend) -> None:
    """Name, version and availability are valid and do not change between calls."""
    assert backend.name and backend.name == backend.name.strip().lower(), f"bad backend name {backend.name!r}"
    assert backend.version() == backend.version() != "", f"{backend.name}: no stable version"
    availability = backend.available()
    assert availability.ok or availability.remedy, f"{backend.name}: not available, and no remedy"
    assert availability.ok, f"{backend.name}: not available here: {availability.detail}"


def check_result(result: TargetResult, target: Target) -> None:
    """A result names its target; it has kernels or copies if it is ok, and a reason exactly if it is not."""
    assert (result.arch, result.flags, result.device) == (target.arch, target.flags, target.device), "another target"
    assert result.status in list(RunStatus), f"unknown status {result.status!r}"
    assert (result.status == RunStatus.OK) != bool(result.reason), (
        "a reason belongs to a result that is not ok, and only there"
    )
    assert result.status != RunStatus.OK or result.kernels or result.transfers, "an ok result has a kernel or a copy"
    if result.status == RunStatus.PARTIAL:
        assert result.reason == Reason.BUDGET, f"partial for another reason than its budget: {result.reason!r}"
    if result.status == RunStatus.FAILED:
        assert result.reason == result.reason.lower() and " " not in result.reason, f"bad reason {result.reason!r}"


def check_kernel(kernel: KernelRecord, arch: str) -> None:
    """Shapes and time are positive, counters have hardware names and are not negative, metrics match the counters."""
    assert kernel.name and kernel.dispatches >= 1, "a kernel has a name and was dispatched"
    assert len(kernel.grid) == 3 and min(kernel.grid) >= 1, f"{kernel.name}: bad grid {kernel.grid}"
    assert len(kernel.block) == 3 and min(kernel.block) >= 1, f"{kernel.name}: bad block {kernel.block}"
    assert math.isfinite(kernel.duration_ns) and kernel.duration_ns > 0, f"{kernel.name}: bad duration"
    assert kernel.source.backend and kernel.source.version, f"{kernel.name}: does not say who measured it"
    for name, value in kernel.counters.items():
        assert not name.endswith("_sum") and "[" not in name, f"{kernel.name}: {name} is not a plain hardware name"
        assert math.isfinite(value) and value >= 0, f"{kernel.name}: {name} = {value}"
    has_fabric_counters = devices.architecture_fact(arch, "fabric_counters")
    for other in {devices.architecture_fact(name, "fabric_counters") for name in devices.list_architectures()} - {
        has_fabric_counters
    }:
        foreign = [name for name in kernel.counters if name.startswith(f"{other}_")]
        assert not foreign, f"{kernel.name}: {foreign[0]} does not exist on {arch}"
    computed = metrics.compute_metrics(kernel.counters, kernel.duration_ns, arch)
    assert dict(kernel.metrics) == computed, f"{kernel.name}: metrics are not those of the metric table"
    check_ranges(kernel, arch)


def check_ranges(kernel: KernelRecord, arch: str) -> None:
    """Counter identities that hold on every device."""
    counters = kernel.counters
    waves = counters.get("SQ_WAVES")
    if waves is not None and kernel.dispatches == 1:  # further dispatches may have other grids
        per_group = waves_per_group(kernel, arch)
        assert waves == per_group * math.prod(kernel.grid), f"{kernel.name}: SQ_WAVES = {waves} does not fit its grid"
    for part, total in (("TCC_HIT", "TCC_REQ"), ("SQ_INSTS_VALU", "SQ_INSTS")):
        if part in counters and total in counters:
            assert counters[part] <= counters[total] * 1.001 + 1, f"{kernel.name}: {part} exceeds {total}"
    for metric, row in metrics.metric_table().metrics.items():
        value = kernel.metrics.get(metric)
        if value is not None and row.kind == "hit_rate":
            assert value <= row.range[1] + 1e-9, f"{kernel.name}: {metric} = {value}"


def check_portable(result: TargetResult) -> None:
    """A result is unchanged by a round trip through JSON, as in worker processes and corpora."""
    document = json.loads(json.dumps(asdict(result)))
    for kernel, stored in zip(result.kernels, document["kernels"], strict=True):
        assert from_json(KernelRecord, stored) == kernel, f"{kernel.name}: does not survive JSON"


def _profile_program(
    backend: Backend, program: Program, target: Target, scratch: Path, limits: RunLimits
) -> TargetResult:
    scratch.mkdir(parents=True, exist_ok=True)
    return backend.profile(program, target, scratch, limits)
