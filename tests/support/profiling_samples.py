"""Real measurements for tests: recorded counters of a vector copy, as results, captures and profiler files.

`c[id] = a[id]` over 1,048,576 doubles, block 256; source: test workloads of ROCm/rocprofiler-compute
(tests/workloads/*/MI200/pmc_perf.csv, second dispatch, and */MI300X_A1*/pmc_perf.csv), medians over recordings.
"""

from __future__ import annotations

from pathlib import Path

from hipsynth.core.kernel_record import KernelRecord, MeasurementSource
from hipsynth.core.program import Program
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.recorded import capture_result

ZERO_FLOPS = {f"SQ_INSTS_VALU_{op}_F{bits}": 0 for op in ("ADD", "MUL", "FMA", "TRANS") for bits in (16, 32, 64)} | {
    f"SQ_INSTS_VALU_MFMA_MOPS_{kind}": 0 for kind in ("F16", "BF16", "F32", "F64")
}
ATOMICS = {"TCP_TCC_ATOMIC_WITH_RET_REQ": 0, "TCP_TCC_ATOMIC_WITHOUT_RET_REQ": 0}
VCOPY_GFX90A = {
    **ZERO_FLOPS,
    **ATOMICS,
    "SQ_WAVES": 16384,
    "SQ_INSTS": 393216,
    "SQ_INSTS_VALU": 163840,
    "TCP_TOTAL_CACHE_ACCESSES": 524288,
    "TCP_TCC_READ_REQ": 131072,
    "TCP_TCC_WRITE_REQ": 131072,
    "TCC_REQ": 201111,
    "TCC_HIT": 70029,
    "TCC_MISS": 131082,
    "TCC_EA_RDREQ": 131087,
    "TCC_EA_RDREQ_32B": 0,
    "TCC_EA_WRREQ": 91113,
    "TCC_EA_WRREQ_64B": 91113,
}
VCOPY_GFX942 = {
    **ZERO_FLOPS,
    **ATOMICS,
    "SQ_WAVES": 16384,
    "SQ_INSTS": 327680,
    "SQ_INSTS_VALU": 98304,
    "TCP_TOTAL_CACHE_ACCESSES": 524288,
    "TCP_TCC_READ_REQ": 65536,
    "TCP_TCC_WRITE_REQ": 131072,
    "TCC_REQ": 196859,
    "TCC_HIT": 65536,
    "TCC_MISS": 131323,
    "TCC_EA0_RDREQ": 65758,
    "TCC_EA0_RDREQ_32B": 0,
    "TCC_EA0_WRREQ": 131072,
    "TCC_EA0_WRREQ_64B": 131072,
    "TCC_BUBBLE": 65536,
}
VCOPY = {"gfx90a": (VCOPY_GFX90A, 15840.0), "gfx942": (VCOPY_GFX942, 13400.0)}
DEVICE = {"gfx90a": "mi250", "gfx942": "mi300x"}


def program(number: int = 0, lineage: str = "", origin: str = "synthetic") -> Program:
    """A program that no other is alike; its text is never compiled here."""
    value = " + ".join(["a[0]"] * (number + 1))
    text = f"#include <hip/hip_runtime.h>\n__global__ void copy{number}(double* a, double* c) {{ c[0] = {value}; }}\n"
    return Program(
        text, origin, "stream", name=f"copy{number}", params={"n": number}, choices=(number,), lineage=lineage
    )


def target(arch: str = "gfx90a", flags: str = "-O3") -> Target:
    return Target(arch, flags, DEVICE[arch])


def kernel(arch: str = "gfx90a", name: str = "copy", *, scale: float = 1.0, dispatches: int = 1) -> KernelRecord:
    """The recorded vector copy; `scale` stretches its duration."""
    counters, duration = VCOPY[arch]
    duration *= scale
    values = metrics.compute_metrics(counters, duration, arch)
    return KernelRecord(
        name,
        dispatches,
        (4096, 1, 1),
        (256, 1, 1),
        duration,
        dict(counters),
        values,
        MeasurementSource("rocprof", "recorded"),
    )


def result(where: Target, *kernels: KernelRecord) -> TargetResult:
    return TargetResult(
        where.arch,
        where.flags,
        where.device,
        "ok",
        exit_code=0,
        stdout="done\n",
        kernels=kernels or (kernel(where.arch),),
    )


def failure(where: Target, reason: str) -> TargetResult:
    return TargetResult(where.arch, where.flags, where.device, "failed", reason=reason, message=f"because {reason}")


def captures(folder: Path, programs: list[Program], targets: list[Target]) -> Path:
    """A folder of captures, one per program and target; durations differ by program."""
    for number, item in enumerate(programs):
        for where in targets:
            capture_result(folder, item.id, result(where, kernel(where.arch, item.name, scale=1 + number / 8)))
    return folder
