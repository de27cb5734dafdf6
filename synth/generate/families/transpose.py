"""Matrix transposes: naive, and through an LDS tile with or without padding."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, load
from hipsynth.synth.generate.patterns import add_input, add_output


def build_kernels(ctx: Context) -> Module:
    t, tile, rows = ctx.dtype, ctx["tile"], ctx["rows"]
    width, height = ctx.size("width", ctx["tiles_x"] * tile), ctx.size("height", ctx["tiles_y"] * tile)
    k = KernelBuilder(ctx.choices.pick(("transpose", "transpose_tile", "swap_axes", "flip")),
                      (width // tile, height // tile), (tile, rows), **ctx.kernel_options())  # fmt: skip
    source, host_in = add_input(ctx, k, 0, t, width * height, ctx.init(t))
    target, host_out = add_output(ctx, k, 0, t, width * height)
    size, w, h = k.constant("TILE", tile), k.scalar("width", width), k.scalar("height", height)
    tx, ty = k.let("tx", k.builtin("threadIdx.x")), k.let("ty", k.builtin("threadIdx.y"))
    x0, y0 = k.let("x0", k.builtin("blockIdx.x") * size), k.let("y0", k.builtin("blockIdx.y") * size)
    buffers = [host_in, host_out]
    if ctx["form"] == "naive":
        for row in range(0, tile, rows):
            y = y0 + ty + row if row else y0 + ty
            k.store(target, (x0 + tx) * h + y, load(source, y * w + (x0 + tx)))
        return ctx.module(buffers, [k.finish()])
    shape = (tile, tile + (1 if ctx["form"] == "padded" else 0))
    square = k.lds("tile", t, shape, (source.lo, source.hi))
    with k.loop("j", 0, size, rows) as j:
        k.store(square, (ty + j, tx), load(source, (y0 + ty + j) * w + x0 + tx))
    k.barrier()
    with k.loop("jj", 0, size, rows) as j:
        k.store(target, (x0 + ty + j) * h + y0 + tx, load(square, tx, ty + j))
    return ctx.module(buffers, [k.finish()])
