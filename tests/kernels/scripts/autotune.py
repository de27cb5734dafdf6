"""A vector operation whose block size is tuned, and a benchmark of it."""

import math

import torch
import triton
import triton.language as tl

CONFIGS = [triton.Config({"BLOCK": block}, num_warps=warps) for block, warps in ((64, 1), (1024, 4), (2048, 8))]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def scale(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    tl.store(y_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=mask), mask=mask)


def double(x: torch.Tensor) -> torch.Tensor:
    y = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
    return y


x = torch.rand(1 << 20, device="cuda")
torch.testing.assert_close(double(x), 2 * x)
middle, fast, slow = triton.testing.do_bench(lambda: double(x), quantiles=[0.5, 0.2, 0.8])
assert middle == fast == slow == triton.testing.do_bench(lambda: double(x))
timings = {config.kwargs["BLOCK"]: times[0] for config, times in scale.configs_timings.items()}
assert timings[scale.best_config.kwargs["BLOCK"]] == min(timings.values()) == middle, (timings, middle)
print("slowest block", max(timings, key=timings.get), "time of PyTorch", triton.testing.do_bench(lambda: x + x))


@triton.testing.perf_report(
    triton.testing.Benchmark(
        x_names=["size"], x_vals=[1 << 12, 1 << 20], line_arg="provider", line_vals=["triton"], line_names=["Triton"],
        plot_name="scale", args={}, ylabel="GB/s",
    )
)  # fmt: skip
def benchmark(size, provider):
    x = torch.rand(size, device="cuda")
    return 8 * size / triton.testing.do_bench(lambda: double(x)) / 1e6


table = benchmark.run(print_data=True, show_plots=False, return_df=True, save_path="")
assert table["Triton (GB/s)"][1] > 10 * table["Triton (GB/s)"][0] and not math.isnan(table["Triton (GB/s)"][0])
