"""Two-dimensional star and box stencils with any block shape, in one or several sweeps."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.extent import count_groups
from hipsynth.synth.generate.ir import HostBuffer, Init, Module, load
from hipsynth.synth.generate.patterns import weighted_sum


def stencil_offsets(shape: str, radius: int) -> list[tuple[int, int]]:
    """The (dy, dx) offsets of a stencil's points."""
    reach = range(-radius, radius + 1)
    return [(dy, dx) for dy in reach for dx in reach if shape == "box" or dy == 0 or dx == 0]


def build_kernels(ctx: Context) -> Module:
    width, height, t, radius = (
        ctx.size("width", ctx["width"]),
        ctx.size("height", ctx["height"]),
        ctx.dtype,
        ctx["radius"],
    )
    block = (ctx["block_x"], ctx["block_y"])
    grid = (count_groups(width, block[0]), count_groups(height, block[1]))
    k = KernelBuilder(ctx.choices.pick(("stencil2d", "jacobi", "heat", "blur")), grid, block, **ctx.kernel_options())
    init = ctx.init(t)
    span = (0.0, init.span[1])
    source = k.input("src", t, width * height, *span, restrict=ctx.restrict)
    target = k.output("dst", t, width * height, span, restrict=ctx.restrict)
    w, h = k.scalar("width", width), k.scalar("height", height)
    x, y = k.let("x", k.global_id("x")), k.let("y", k.global_id("y"))
    points = stencil_offsets(ctx["shape"], radius)
    weight = 2.0 ** -(len(points) - 1).bit_length()
    with k.within(x, radius, w - radius) as cx, k.within(y, radius, h - radius) as cy:
        values = []
        for dy, dx in points:
            row = cy + dy if dy > 0 else cy - (-dy) if dy else cy
            column = cx + dx if dx > 0 else cx - (-dx) if dx else cx
            values.append(load(source, row * w + column))
        k.store(target, cy * w + cx, k.let("sum", weighted_sum(values, [1.0] * len(values)) * weight))
    kernel = k.finish()
    size = width * height
    hosts = [HostBuffer("grid_a", t, size, init, output=True), HostBuffer("grid_b", t, size, Init("zero"), output=True)]
    bound = [{"src": "grid_a", "dst": "grid_b"}, {"src": "grid_b", "dst": "grid_a"}][: 2 if ctx["sweeps"] > 1 else 1]
    return ctx.module(
        hosts, [kernel] * len(bound), terms=2 * len(points), repeat=max(1, ctx["sweeps"] // 2), arguments=bound
    )
