"""Times of micro-benchmarks on an MI300A: one unit or one effect each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hipsynth.simulator.device import SimDevice
from studies.validation.calls import (
    FLOAT,
    BenchmarkBounds,
    TimedCall,
    allocate_arrays,
    compare_benchmarks,
    count_groups,
    launch_in_part,
    launch_warm,
)
from studies.validation.frame import ComparisonTable

TITLE = "Micro-benchmarks"
SHOWS = """Twelve loops, timed by the recorded programs themselves: the least of ten calls between two events, after a
warm-up. Our kernels have the same loops and launch shapes, and this compiler makes the same instructions of them. The
figures include the time of the events; atomic_throughput begins with a fill of its counter, branch_divergence with a
copy of its data from the host. The \\*_throughput kernels have 65,536 work-items in 256 groups, so one or two waves on
each SIMD.

All figures are in the mode of `synth profile`: the L2 is empty when a launch begins. Long loops are simulated at two
shorter lengths and extrapolated linearly, which is exact for those without memory; large grids are sampled.

What a branch, a dependent FMA in FP64, a dependent integer multiply-add and an atomic addition to one address take
was fitted to these programs. Known deviations: occupancy_sweep has the loop of fp32_throughput, but with few waves a
turn takes 59 cycles, not 45. Chains of 64 KB to 4 MB (mem_latency) come out up to twice too long, because the
hardware's L2 still holds them from the call before. In branch_divergence, copies of 256 KB and 1 MB of pageable host
memory take the hardware about 70 and 280 us, more than one of 4 MB; ours take 12 and 26."""
QUICK = False

BOUNDS = BenchmarkBounds(
    mean_percent=11.0,
    benchmark_percent={  # a little above what was measured
        "atomic_throughput": 2.0, "branch_divergence": 28.0, "fp32_throughput": 5.0, "fp64_throughput": 4.0,
        "int_throughput": 3.0, "sfun_throughput": 7.0, "global_bandwidth": 6.0, "l1_cache_bw": 3.0,
        "l2_cache_bw": 4.0, "mem_latency": 23.0, "occupancy_sweep": 14.0, "shared_bandwidth": 13.0,
    },
    least_correlation=0.95,
)  # fmt: skip
GROUP = 256
LOOPS = 65_536 // GROUP  # work-groups of the loops without memory
TURNS = 1024  # of the other loops
HALF = 32  # lanes that take the first branch
SEED = 7


def build_tables() -> Iterator[ComparisonTable]:
    yield from compare_benchmarks("microbench", "loops of one unit or effect", BENCHMARKS, BOUNDS)


def _call_atomic_throughput(device: SimDevice, items: int) -> TimedCall:
    """All to one counter."""
    (counter,) = allocate_arrays(device, FLOAT)
    run = device.launch("atomic_adds", (count_groups(items),), (GROUP,), "Qii", counter, 1, TURNS)
    return TimedCall([(run, 1)], fills=1)


def _call_branch_divergence(device: SimDevice, items: int) -> TimedCall:
    (data,) = allocate_arrays(device, FLOAT * items)
    shape = (count_groups(items),)
    dispatches = launch_in_part(
        device,
        FLOAT * items,
        TURNS,
        TURNS // 8,
        lambda turns: device.launch("two_branches", shape, (GROUP,), "Qiii", data, items, HALF, turns),
    )
    return TimedCall(dispatches, [FLOAT * items])


def _make_loop_call(kernel: str, bytes_each: int, few: int) -> Callable[[SimDevice, int], TimedCall]:
    """A loop without memory."""

    def call_loop(device: SimDevice, turns: int) -> TimedCall:
        (out,) = allocate_arrays(device, bytes_each * LOOPS * GROUP)
        launched = launch_in_part(
            device, 0, turns, few, lambda n: device.launch(kernel, (LOOPS,), (GROUP,), "ixxxxQ", n, out), warm=False
        )
        return TimedCall(launched)

    return call_loop


def _call_global_bandwidth(device: SimDevice, size: int) -> TimedCall:
    arrays, count = allocate_arrays(device, size, size), size // FLOAT
    return launch_warm(
        device,
        2.0 * size,
        lambda: device.launch("copied", (count_groups(count),), (GROUP,), "QQi", *arrays, count),
    )


def _make_cache_call(items: int, turns: int) -> Callable[[SimDevice, int], TimedCall]:
    """Reads of one small array by all work-items, one element further in each turn."""

    def call_cached_reads(device: SimDevice, size: int) -> TimedCall:
        data, out = allocate_arrays(device, size, FLOAT * items)
        shape = (count_groups(items),)
        launched = launch_in_part(
            device,
            size + FLOAT * items,
            turns,
            64,
            lambda n: device.launch("cached_reads", shape, (GROUP,), "QQiiii", data, out, size // FLOAT, n, 1, items),
        )
        return TimedCall(launched)

    return call_cached_reads


def _call_mem_latency(device: SimDevice, length: int) -> TimedCall:
    """One wave, each lane of which follows one random cycle through the array from an element of its own."""
    order = np.random.default_rng(SEED).permutation(length)
    chain = np.zeros(length, np.int32)
    chain[order] = np.roll(order, -1)
    next_, cycles = device.upload(chain), device.core.allocate(64 * 8)
    return launch_warm(
        device,
        FLOAT * length,
        lambda: device.launch("chase_lanes", (1,), (64,), "QiiQ", next_, length, TURNS, cycles),
    )


def _call_occupancy_sweep(device: SimDevice, items: int) -> TimedCall:
    (data,) = allocate_arrays(device, FLOAT * items)
    shape = (count_groups(items),)
    return TimedCall(
        launch_in_part(
            device,
            FLOAT * items,
            TURNS,
            TURNS // 8,
            lambda turns: device.launch("fma_with_lds", shape, (GROUP,), "Qii", data, items, turns, lds=4096),
        )
    )


def _call_shared_bandwidth(device: SimDevice, size: int) -> TimedCall:
    arrays, count = allocate_arrays(device, size, size), size // FLOAT
    shape = (count_groups(count),)
    return TimedCall(
        launch_in_part(
            device,
            2.0 * size,
            100,
            25,
            lambda turns: device.launch(
                "lds_turns", shape, (GROUP,), "QQiii", *arrays, count, 1, turns, lds=GROUP * FLOAT
            ),
        )
    )


BENCHMARKS: dict[str, Callable[..., TimedCall]] = {
    "atomic_throughput": _call_atomic_throughput,
    "branch_divergence": _call_branch_divergence,
    "fp32_throughput": _make_loop_call("fma_float", FLOAT, 256),
    "fp64_throughput": _make_loop_call("fma_double", 2 * FLOAT, 256),
    "int_throughput": _make_loop_call("multiply_add_int", FLOAT, 256),
    "sfun_throughput": _make_loop_call("sines", FLOAT, 16),
    "global_bandwidth": _call_global_bandwidth,
    "l1_cache_bw": _make_cache_call(65_536, 1000),
    "l2_cache_bw": _make_cache_call(262_144, 500),
    "mem_latency": _call_mem_latency,
    "occupancy_sweep": _call_occupancy_sweep,
    "shared_bandwidth": _call_shared_bandwidth,
}
