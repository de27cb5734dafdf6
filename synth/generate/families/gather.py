"""Indirect access: an index buffer selects the table element that each work-item reads, over 1 to 4 indirections."""

from __future__ import annotations

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.extent import larger_size
from hipsynth.synth.generate.ir import HostBuffer, Init, Module, load
from hipsynth.synth.generate.patterns import add_input, add_output, compute_chain, covering_kernel, each_item
from hipsynth.synth.generate.types import I32


def index_init(ctx: Context, table: int) -> Init:
    """Fills an index buffer with the parameter `pattern`, from local to random; all indices are below `table`."""
    kind = ctx["pattern"]
    if kind == "random":
        return Init("hash", 0, 1, add=ctx.choices.integer(0, 9999), mod=table)
    steps = {"linear": 1, "near": ctx.choices.pick((3, 5, 7)), "far": ctx.choices.pick((1031, 4099, 16411, 65537))}
    return Init("ramp", 0, 1, steps[kind], ctx.choices.integer(0, 63), table)


def build_kernels(ctx: Context) -> Module:
    n, t, table = ctx.count, ctx.dtype, ctx.size("table", ctx["table"])
    k = covering_kernel(ctx, ctx.choices.pick(("gather", "gather_rows", "lookup", "indirect_read")), n)
    source, host_source = add_input(ctx, k, 0, t, table, ctx.init(t))
    indices = index_init(ctx, table)
    # Later indirections read the index buffer at any index of the table.
    length = n if ctx["depth"] == 1 else larger_size(n, table)
    index = k.input("indices", I32, length, *indices.span, restrict=ctx.restrict)
    target, host_target = add_output(ctx, k, 0, t, n)
    with each_item(ctx, k, n) as i:
        values = []
        at = i
        for _ in range(ctx["depth"]):
            at = k.let(k.unused_name("j"), load(index, at))
            values.append(k.let(k.unused_name(ctx.names.local), load(source, at)))
        k.store(target, i, compute_chain(ctx, k, values, ctx["compute"]))
    hosts = [host_source, HostBuffer("indices", I32, length, indices), host_target]
    return ctx.module(hosts, [k.finish()], whole=True)
