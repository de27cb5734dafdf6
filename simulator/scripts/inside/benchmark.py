"""`triton.testing.do_bench` and the benchmarks of `triton.autotune`, in simulated time.

The simulator measures the same time whenever it measures, so each function runs once, with nothing of its data in a
cache, as Triton's own benchmark sees to. Large grids are sampled coarsely first; a function that may be the fastest of
those with the same arguments runs again, sampled as in the rest of the profile. A function that launches no kernel has
no time on the device.
"""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence

import torch
import triton

from . import hip, torch_cuda
from .sweep import BestTimes, Timing, bound_error
from .triton_driver import Launcher

NS_IN_MS = 1e6
_best_times = BestTimes()
_state = {"once": False}  # whether benchmarks run once, whatever they find


def do_bench(
    fn: Callable[[], object],
    warmup: float = 25,
    rep: float = 100,
    grad_to_none: Sequence[torch.Tensor] | None = None,
    quantiles: Sequence[float] | None = None,
    return_mode: str = "mean",
) -> object:
    """Milliseconds of simulated time that `fn` takes; every quantile is that time. NaN for PyTorch's own operators."""
    for tensor in grad_to_none or ():
        tensor.grad = None
    before = Launcher.launches
    time_ms = (_time_call(fn) if _state["once"] else _time_as_needed(fn)).time_ms
    if Launcher.launches == before:
        sys.stderr.write("note: a benchmark launched no Triton kernel; PyTorch's operators have no time here (nan)\n")
        time_ms = math.nan
    return triton.testing._summarize_statistics([time_ms], quantiles, return_mode)


@contextlib.contextmanager
def time_once() -> Iterator[None]:
    """Lets each benchmark run once in the block, as the device samples there."""
    _state["once"] = True
    try:
        yield
    finally:
        _state["once"] = False


def _time_call(fn: Callable[[], object]) -> Timing[object]:
    device = hip.library()
    device.clear_caches()
    start, end = torch_cuda.Event(enable_timing=True), torch_cuda.Event(enable_timing=True)
    start.record()
    answer = fn()
    end.record()
    time_ms = start.elapsed_time(end)
    return Timing(answer, time_ms, bound_error(time_ms, device.read_uncertainty() / NS_IN_MS))


def _time_as_needed(fn: Callable[[], object]) -> Timing[object]:
    """Coarsely, and again if that is not enough."""
    device = hip.library()
    if not device.sample_coarsely(True):
        return _time_call(fn)
    Launcher.problems = []
    try:
        timing = _time_call(fn)
        problem = tuple(Launcher.problems)
    finally:
        Launcher.problems = None
        device.sample_coarsely(False)
    if not _best_times.settles(problem, timing):
        timing = _time_call(fn)
    _best_times.note_time(problem, timing)
    return timing


def activate_benchmarks() -> None:
    """Puts simulated time in the place of Triton's benchmarks."""

    def do_bench_without_warmup(
        fn: Callable[[], object],
        rep: float = 20,
        quantiles: Sequence[float] | None = None,
        return_mode: str = "mean",
        grad_to_none: Sequence[torch.Tensor] | None = None,
    ) -> object:
        return do_bench(fn, 0, rep, grad_to_none, quantiles, return_mode)

    triton.testing.do_bench = do_bench
    triton.testing.do_bench_cudagraph = do_bench_without_warmup
    triton.testing.do_bench_proton = do_bench
