"""Times of whole benchmarks between two events on an MI300A, from a few microseconds to half a second."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator

import numpy as np

from hipsynth.simulator.device import SimDevice
from hipsynth.simulator.native_core import Dispatch
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

TITLE = "Kernel times"
SHOWS = """Eleven benchmarks with about twenty sizes each, timed by the recorded programs themselves: the mean of 51
calls between two events, without the slowest call, which in one case took forty times as long as the others. Our
kernels do the same work with the same launch shapes. A figure is the time of the events, plus the time of each
launch queued behind the previous one, plus host waits: the timings of floydwarshall and atax include copies and
fills. One set of constants serves all benchmarks. Launches that differ only in their data (the steps of
floydwarshall) are simulated for a few steps, each weighted for its neighbours; long loops are simulated at two
shorter lengths and extrapolated linearly; and large grids are sampled, as in `synth profile`.

All figures are in the mode of `synth profile`: the L2 is empty when a launch begins. Without a profiler it keeps what
an earlier call read, so ours are too long where a call reads little more than once: kmeans by 20 to 30 %.

Transposes of 12288 columns and more are left out: in this recording they take two to eight times as long as ours, but a
second one of the same programs on an MI300A took an eighth of these times at 32768 columns and a fifth at 49152.
Copies within the device run at the speed of the runtime's own kernel, which we do not have; those of 2, 4 and 16 MB
scatter by up to six times the minimum. In the matrix product, a scheduling barrier keeps the loads of a step together:
the recorded times of small sizes show one round trip to memory per step, where this compiler would make several
(without the barrier they come out 38 to 57 % too long). Products of small matrices and a vector (atax, up to 256
columns) come out 15 to 41 % too long."""
QUICK = False

BOUNDS = BenchmarkBounds(
    mean_percent=12.0,
    benchmark_percent={  # a little above what was measured
        "vectoradd": 10.0, "copy": 29.0, "matrixtranspose": 9.0, "floydwarshall": 7.0, "fir": 10.0, "kmeans": 22.0,
        "atax": 17.0, "relu": 7.0, "stencil2d": 13.0, "matrixmultiplication": 19.0, "nbody": 6.0,
    },
    least_correlation=0.97,
)  # fmt: skip
SEED = 7
EXAMPLE_STEPS = (0, 64, 256)  # simulated steps of floydwarshall; the later ones improve ever fewer pairs


def build_tables() -> Iterator[ComparisonTable]:
    yield from compare_benchmarks("kernel_times", "benchmarks of one or two kernels", BENCHMARKS, BOUNDS)


def _call_vectoradd(device: SimDevice, count: int) -> TimedCall:
    arrays = allocate_arrays(device, *[FLOAT * count] * 3)
    return launch_warm(
        device,
        12.0 * count,
        lambda: device.launch("vectoradd", (count_groups(count),), (256,), "QQQii", *arrays, count, 1),
    )


def _call_copy(device: SimDevice, megabytes: int) -> TimedCall:
    size = megabytes << 20
    arrays = allocate_arrays(device, size, size)
    groups = min(count_groups(size // 16), 8 * int(device.table["topology.cus"]))
    return launch_warm(device, 2.0 * size, lambda: device.launch("copy", (groups,), (256,), "QQQ", *arrays, size // 16))


def _call_relu(device: SimDevice, count: int) -> TimedCall:
    arrays = allocate_arrays(device, *[FLOAT * count] * 2)
    return launch_warm(
        device, 8.0 * count, lambda: device.launch("relu", (count_groups(count),), (256,), "iQQ", count, *arrays)
    )


def _call_transpose(device: SimDevice, width: int) -> TimedCall:
    to, source = allocate_arrays(device, *[FLOAT * width * width] * 2)
    quarter, tiles = width // 4, width // 64
    arguments = (to, source, 0, quarter, quarter, tiles, 0, 0)
    lds = 16 * 16 * 16 * FLOAT
    return launch_warm(
        device,
        8.0 * width * width,
        lambda: device.launch("matrixtranspose", (tiles, tiles), (16, 16), "QQQIIIII", *arguments, lds=lds),
    )


def _call_floydwarshall(device: SimDevice, nodes: int) -> TimedCall:
    """One launch per node. Only EXAMPLE_STEPS are simulated, weighted for their neighbours; numpy does the others."""
    random = np.random.default_rng(SEED)
    distance = random.integers(1, 101, (nodes, nodes), np.uint32)
    np.fill_diagonal(distance, 0)
    at, path = device.upload(distance), device.core.allocate(distance.nbytes)
    groups = (nodes + 7) // 8
    steps = [step for step in EXAMPLE_STEPS if step < nodes]
    ends = [(low + high) / 2 for low, high in itertools.pairwise(steps)] + [float(nodes)]
    computed_steps, begin = 0, 0.0
    dispatches = []
    for step, end in zip(steps, ends, strict=True):
        for through in range(computed_steps, step):
            np.minimum(distance, distance[:, through, None] + distance[None, through, :], out=distance)
        computed_steps = step
        device.core.write(at, distance.view(np.uint8).reshape(-1))
        run = device.launch("floydwarshall", (groups, groups), (8, 8), "QQII", at, path, nodes, step)
        dispatches.append((run, end - begin))
        begin = end
    return TimedCall(dispatches, [distance.nbytes] * 2)


def _call_fir(device: SimDevice, length: int, taps: int) -> TimedCall:
    arrays = allocate_arrays(device, FLOAT * length, FLOAT * taps, FLOAT * length, FLOAT * taps)
    return launch_warm(
        device, 8.0 * length, lambda: device.launch("fir", (length // 256,), (256,), "QQQQI", *arrays, taps)
    )


def _call_kmeans(device: SimDevice, points: int, count: int) -> TimedCall:
    clusters = 5
    arrays = allocate_arrays(device, FLOAT * points * count, FLOAT * clusters * count, FLOAT * points)
    numbers = (points, clusters, count, 0, points)
    return launch_warm(
        device,
        4.0 * points * count,
        lambda: device.launch("kmeans", (count_groups(points),), (256,), "QQQiiiii", *arrays, *numbers),
    )


def _call_atax(device: SimDevice, width: int) -> TimedCall:
    """Two vector fills and two matrix-vector products."""
    matrix, vector, sums, result = allocate_arrays(device, FLOAT * width * width, *[FLOAT * width] * 3)

    def launch_product(kernel: str, operand: int, steps: int) -> Dispatch:
        arguments = (matrix, operand, sums, width, width, steps)
        return device.launch(kernel, (count_groups(width),), (256,), "QQQiii", *arguments)

    in_part = functools.partial(launch_in_part, device, FLOAT * width * width, width, 256)
    rows = functools.partial(launch_product, "atax_rows", vector)
    rows(width)  # an earlier call
    dispatches = in_part(rows, warm=False)
    dispatches += in_part(functools.partial(launch_product, "atax_columns", result), warm=False)
    return TimedCall(dispatches, fills=2)


def _call_stencil(device: SimDevice, width: int) -> TimedCall:
    pitch = (width + 2 + 15) // 16 * 16
    arrays = allocate_arrays(device, *[FLOAT * (width + 2) * pitch] * 2)
    shape = (width // 16, width // 64)
    return launch_warm(
        device,
        8.0 * width * width,
        lambda: device.launch("stencil2d", shape, (1, 64), "QQifff", *arrays, 16, 0.25, 0.15, 0.05),
    )


def _call_product(device: SimDevice, width: int) -> TimedCall:
    tiles = width // 32
    size = FLOAT * width * width
    left, right, product, tile = allocate_arrays(device, size, size, size, tiles * tiles * 4096)
    arguments = (left, right, product, width, tile)
    shape, layout = (tiles, tiles), "QQQixxxxQi"
    return TimedCall(
        launch_in_part(
            device,
            3 * size,
            tiles,
            3,
            lambda n: device.launch("matrixmultiplication", shape, (8, 8), layout, *arguments, 32 * n),
        )
    )


def _call_nbody(device: SimDevice, bodies: int) -> TimedCall:
    position, velocity, tile, *new = allocate_arrays(device, *[4 * FLOAT * bodies] * 5)
    groups, arguments = bodies // 256, (0.005, 50.0, tile, *new)
    return TimedCall(
        launch_in_part(
            device,
            0,
            groups,
            2,
            lambda n: device.launch(
                "nbody", (groups,), (256,), "QQiffxxxxQQQ", position, velocity, 256 * n, *arguments
            ),
        )
    )


BENCHMARKS: dict[str, Callable[..., TimedCall]] = {
    "vectoradd": _call_vectoradd,
    "copy": _call_copy,
    "matrixtranspose": _call_transpose,
    "floydwarshall": _call_floydwarshall,
    "fir": _call_fir,
    "kmeans": _call_kmeans,
    "atax": _call_atax,
    "relu": _call_relu,
    "stencil2d": _call_stencil,
    "matrixmultiplication": _call_product,
    "nbody": _call_nbody,
}
