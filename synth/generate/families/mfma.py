"""Matrix cores: each wavefront computes a tile of a product with the instruction that `kind` names."""

from __future__ import annotations

from hipsynth.synth.generate.builder import WAVE, KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Buffer, Expr, Module, load, pack, part
from hipsynth.synth.generate.matrix import MATRICES, MatrixInstruction
from hipsynth.synth.generate.patterns import add_input, add_output, total_span
from hipsynth.synth.generate.types import F64


def _load_operand(k: KernelBuilder, matrix: MatrixInstruction, name: str, source: Buffer, index: list[Expr]) -> Expr:
    values = [load(source, at) for at in index]
    return k.let(name, values[0] if matrix.lanes == 1 else pack(matrix.operand, values))


def build_kernels(ctx: Context) -> Module:
    matrix, waves, depth = MATRICES[ctx["kind"]], ctx["waves"], ctx.size("k", ctx["depth"])
    side, wide, narrow = matrix.side, matrix.accumulator.base, matrix.operand.base
    m, n = ctx.size("m", ctx["tiles_m"] * side), ctx.size("n", ctx["tiles_n"] * waves * side)
    k = KernelBuilder(ctx.choices.pick(("mfma_gemm", "matrix_core", "mfma_tile", "xdl_gemm")),
                      (n // (waves * side), m // side), (WAVE, waves), **ctx.kernel_options())  # fmt: skip
    a, host_a = add_input(ctx, k, 0, narrow, m * depth, ctx.init(narrow, 2.0))
    b, host_b = add_input(ctx, k, 1, narrow, depth * n, ctx.init(narrow, 2.0))
    c, host_c = add_output(ctx, k, 0, wide, m * n)
    width, inner = k.scalar("width", n), k.scalar("depth", depth)
    lane, wave = k.let("lane", k.builtin("threadIdx.x")), k.let("wave", k.builtin("threadIdx.y"))
    strip, group = k.let("strip", lane % side), k.let("quad", lane // side)
    row0 = k.let("row0", k.builtin("blockIdx.y") * side)
    column = k.let("col", (k.builtin("blockIdx.x") * waves + wave) * side + strip)
    row = k.let("row", row0 + strip)
    acc = k.accumulator("acc", matrix, total_span(wide, a.hi * b.hi * ctx["repeat"], depth))
    with k.loop("k0", 0, inner, matrix.depth, unroll=ctx["unroll"]) as k0:
        at = k.let("kk", k0 + group * matrix.lanes if matrix.lanes > 1 else k0 + group)
        steps = [at + j if j else at for j in range(matrix.lanes)]
        left = _load_operand(k, matrix, "av", a, [row * inner + step for step in steps])
        right = _load_operand(k, matrix, "bv", b, [step * width + column for step in steps])
        for _ in range(ctx["repeat"]):
            k.matrix_fma(matrix, acc, left, right)
    for r in range(acc.dtype.lanes):
        k.store(c, (row0 + _tile_row(matrix, group, r)) * width + column, part(acc, r))
    return ctx.module([host_a, host_b, host_c], [k.finish()], terms=depth * ctx["repeat"])


def _tile_row(matrix: MatrixInstruction, group: Expr, register: int) -> Expr:
    """The row, inside the tile, of an accumulator register of the lanes of a group."""
    if matrix.accumulator.base is F64:
        return group + 4 * register if register else group
    offset = register % 4 + register // 4 * (256 // matrix.side)
    return group * 4 + offset if offset else group * 4
