"""The paper's generator (section 3.1, Listing 1): random loads and stores, operands skewed to recent values."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.extent import count_groups
from hipsynth.synth.generate.ir import Buffer, Expr, HostBuffer, Init, Module, load
from hipsynth.synth.generate.patterns import each_item
from hipsynth.synth.generate.productions import Chain


def build_kernels(ctx: Context) -> Module:
    n, block, t = ctx.count, ctx["block"], ctx.dtype
    k = KernelBuilder("generated_kernel", count_groups(n, block), block, **ctx.kernel_options())
    inits = [ctx.init(t) for _ in range(ctx["inputs"])]
    sources = [
        k.input(name, t, n, *init.span, restrict=ctx.restrict)
        for name, init in zip(ctx.names.inputs, inits, strict=False)
    ]
    targets = [k.output(name, t, n, restrict=ctx.restrict) for name in ctx.names.outputs[: ctx["outputs"]]]
    with each_item(ctx, k, n) as i:
        _emit_body(ctx, k, i, sources, targets)
    hosts = [HostBuffer(b.name, t, n, init) for b, init in zip(sources, inits, strict=True)]
    hosts += [HostBuffer(b.name, t, n, Init("zero"), output=True) for b in targets]
    return ctx.module(hosts, [k.finish()])


def _emit_body(ctx: Context, k: KernelBuilder, i: Expr, sources: list[Buffer], targets: list[Buffer]) -> None:
    """Loads, compute statements and stores in random order; a load comes first, a compute statement and the store of
    its value last."""
    left = {"load": ctx["loads"], "compute": ctx["compute"] - 1, "store": ctx["stores"] - len(targets)}
    chain = Chain(ctx, k, [])
    while any(left.values()):
        kinds = list(left)
        kind = kinds[ctx.choices.weighted([left[x] for x in kinds])] if chain.values else "load"
        left[kind] -= 1
        if kind == "load":
            source = ctx.choices.pick(sources)
            chain.values.append(k.let(k.unused_name(ctx.names.local), load(source, i)))
        elif kind == "compute":
            chain.add_statements(1)
        else:
            k.store(ctx.choices.pick(targets), i, chain.operand())
    chain.add_statements(1)
    for target in reversed(targets):
        k.store(target, i, chain.operand() if target is not targets[0] else chain.values[-1])
