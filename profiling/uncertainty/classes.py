"""Classifies a kernel by the resource that dominates its time, from its counters and its duration alone.

Kernels of one class err alike, so the error of a kernel that was never recorded is taken from recorded ones of its
class (ranges.toml). studies/leave_one_out/kinds.toml has the classes of the recorded kinds.
"""

from __future__ import annotations

from collections.abc import Mapping

SHORT_NS = 30_000  # below this, launch overhead and ramp-up and ramp-down are a large part of a kernel
SHORT, ATOMICS, LDS, GATHER, LOOPS = "short", "atomics", "LDS", "gather", "loops"
STRIDED, REUSE, STREAMING = "strided", "cached reuse", "streaming"
CLASSES = (STREAMING, REUSE, STRIDED, GATHER, LOOPS, LDS, ATOMICS, SHORT)

LINE_BYTES = 128
ATOMIC_SHARE = 0.1  # of the requests to the L2
USED_SHARE = 0.4  # of the fetched lines: below this, lanes read addresses that have little to do with each other
REUSED = 1.25  # requested bytes over fetched ones
# Cycles of a CU for a line from memory, a request to the L2: bandwidths of the devices, divided by CUs and clock.
LINE_CYCLES, REQUEST_CYCLES = 16.0, 2.0
LOOK_UP_BYTES = 20.0  # contiguous lanes get at least 32 bytes of a look-up in the vL1D

_MEANING = {
    "valu": ("SQ_INSTS_VALU",),
    "lds": ("SQ_INSTS_LDS",),
    "loads_and_stores": ("SQ_INSTS_VMEM_RD", "SQ_INSTS_VMEM_WR"),
    "atomics": ("TCP_TCC_ATOMIC_WITH_RET_REQ", "TCP_TCC_ATOMIC_WITHOUT_RET_REQ"),
    "requests": ("TCP_TCC_READ_REQ", "TCP_TCC_WRITE_REQ"),
    "look_ups": ("TCP_TOTAL_CACHE_ACCESSES",),
    "misses": ("TCC_MISS",),
    "bytes": ("EXACT_READ_BYTES", "EXACT_WRITE_BYTES"),
}
COUNTERS = frozenset(name for names in _MEANING.values() for name in names)


def classify(counters: Mapping[str, float], duration_ns: float) -> str:
    """The class of a kernel; missing counters count as zero."""
    n = {title: sum(counters.get(name, 0.0) for name in names) for title, names in _MEANING.items()}
    if duration_ns < SHORT_NS:
        return SHORT
    if n["atomics"] > ATOMIC_SHARE * (n["requests"] + n["atomics"]):
        return ATOMICS
    if n["lds"] > 0 and n["lds"] >= n["loads_and_stores"]:
        return LDS
    lines = min(n["misses"], n["requests"])  # the rest are misses of scalar loads and instructions
    if 0 < n["bytes"] < USED_SHARE * LINE_BYTES * lines:
        return GATHER
    if n["valu"] >= max(LINE_CYCLES * lines, REQUEST_CYCLES * n["requests"], n["look_ups"]):
        return LOOPS
    if 0 < n["bytes"] < LOOK_UP_BYTES * n["look_ups"]:
        return STRIDED
    return REUSE if n["bytes"] > REUSED * LINE_BYTES * lines else STREAMING
