"""Matrix cores: each wavefront computes a 16 x 16 tile of a product with v_mfma_f32_16x16x4_f32."""

from __future__ import annotations

from hipsynth.synth.generate.builder import WAVE, KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module, load, part
from hipsynth.synth.generate.patterns import read, total_span, write
from hipsynth.synth.generate.types import ACC4, F32


def build(ctx: Context) -> Module:
    waves, depth = ctx["waves"], ctx.size("k", ctx["depth"])
    m, n = ctx.size("m", ctx["tiles_m"] * 16), ctx.size("n", ctx["tiles_n"] * waves * 16)
    k = KernelBuilder(ctx.choices.pick(("mfma_gemm", "matrix_core", "mfma_tile", "xdl_gemm")),
                      (n // (waves * 16), m // 16), (WAVE, waves), **ctx.kernel_options())  # fmt: skip
    a, host_a = read(ctx, k, 0, F32, m * depth, ctx.init(F32, 2.0))
    b, host_b = read(ctx, k, 1, F32, depth * n, ctx.init(F32, 2.0))
    c, host_c = write(ctx, k, 0, F32, m * n)
    width, inner = k.scalar("width", n), k.scalar("depth", depth)
    lane, wave = k.let("lane", k.builtin("threadIdx.x")), k.let("wave", k.builtin("threadIdx.y"))
    strip, quad = k.let("strip", lane % 16), k.let("quad", lane >> 4)
    row0 = k.let("row0", k.builtin("blockIdx.y") * 16)
    column = k.let("col", (k.builtin("blockIdx.x") * waves + wave) * 16 + strip)
    row = k.let("row", row0 + strip)
    acc = k.accumulator("acc", total_span(F32, a.hi * b.hi * ctx["repeat"], depth))
    with k.loop("k0", 0, inner, 4, unroll=ctx["unroll"]) as k0:
        at = k.let("kk", k0 + quad)
        left, right = k.let("av", load(a, row * inner + at)), k.let("bv", load(b, at * width + column))
        for _ in range(ctx["repeat"]):
            k.matrix_fma(acc, left, right)
    for r in range(4):
        k.store(c, (row0 + quad * 4 + r if r else row0 + quad * 4) * width + column, part(acc, r))
    assert acc.dtype is ACC4
    return ctx.module([host_a, host_b, host_c], [k.finish()], terms=depth * ctx["repeat"])
