"""Histograms: by atomics in global memory, or privatised in LDS and merged at the end."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Init, Module, cast, load
from hipsynth.synth.generate.patterns import add_input, add_output
from hipsynth.synth.generate.types import I32, U32


def build_kernels(ctx: Context) -> Module:
    n, block, grid, bins = ctx.count, ctx["block"], ctx.size("blocks", ctx["grid"]), ctx["bins"]
    k = KernelBuilder(ctx.choices.pick(("histogram", "count_values", "bin_counts", "hist_kernel")), grid, block,
                      **ctx.kernel_options())  # fmt: skip
    spread = max(2, bins * ctx["spread"] // 100)
    form = {"random": Init("hash", 0, 1, add=ctx.choices.integer(0, 9999), mod=spread),
            "runs": Init("ramp", 0, 1, 1, 0, spread)}[ctx["data"]]  # fmt: skip
    source, host_in = add_input(ctx, k, 0, U32, n, form)
    target, host_out = add_output(ctx, k, 0, U32, bins)
    count, top = k.scalar(ctx.names.count, n), k.constant("BINS", bins)
    first = k.let(ctx.names.index, k.global_id())
    counts = target
    private = ctx["form"] == "private"
    if private:
        counts = k.lds("local_bins", U32, bins, (U32.lo, U32.hi), dynamic=bool(ctx["dynamic"]))
        tx = k.let("tx", k.builtin("threadIdx.x"))
        with k.loop("b", tx, top, block) as bin_:
            k.store(counts, bin_, 0)
        k.barrier()
    with k.loop("j", first, count, block * grid) as j:
        k.atomic("add", counts, cast(load(source, j), I32) if ctx["signed"] else load(source, j), 1)
    if private:
        k.barrier()
        with k.loop("m", tx, top, block) as bin_:
            k.atomic("add", target, bin_, load(counts, bin_))
    return ctx.module([host_in, host_out], [k.finish()])
