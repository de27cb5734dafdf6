"""`triton.testing.do_bench` and the benchmarks of `triton.autotune`, in simulated time.

The simulator measures the same time whenever it measures, so each function runs once, with nothing of its data in a
cache, as Triton's own benchmark sees to. A function that launches no kernel has no time on the device.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence

import torch
import triton

from . import hip, torch_cuda, triton_driver


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
    before = triton_driver.Launcher.launches
    hip.library().clear_caches()
    start, end = torch_cuda.Event(enable_timing=True), torch_cuda.Event(enable_timing=True)
    start.record()
    fn()
    end.record()
    time = start.elapsed_time(end)
    if triton_driver.Launcher.launches == before:
        sys.stderr.write("note: a benchmark launched no Triton kernel; PyTorch's operators have no time here (nan)\n")
        time = math.nan
    return triton.testing._summarize_statistics([time], quantiles, return_mode)


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
