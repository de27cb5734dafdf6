"""Composed kernels: any launch, access pattern, storage, control flow with arithmetic, and finish, put together."""

from __future__ import annotations

from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.compose.access import ACCESSES, prepare_values
from hipsynth.synth.generate.compose.composed_kernel import Sketch
from hipsynth.synth.generate.compose.control import emit_work
from hipsynth.synth.generate.compose.finish import FINISHES
from hipsynth.synth.generate.compose.launch import LAUNCHES
from hipsynth.synth.generate.compose.storage import STORAGES
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module

VERBS = ("process", "update", "apply", "run", "evaluate", "step", "pass", "compute")
PLAIN = frozenset({"contiguous", "direct", "straight", "store"})  # parts that go without saying
ADDING = frozenset({"add", "bins", "reduce", "wave"})  # to what an earlier launch may have left


def composition_name(ctx: Context) -> str:
    """The readable name of a composition: its launch, access, storage, control flow and finish."""
    parts = [ctx["access"], ctx["storage"], "matrix" if ctx["work"] == "matrix" else ctx["control"], ctx["finish"]]
    return "-".join([ctx["launch"], *(part for part in parts if part not in PLAIN)])


def build_kernels(ctx: Context) -> Module:
    launch = LAUNCHES[ctx["launch"]](ctx)
    name = f"{ctx.choices.pick(VERBS)}_{ctx.choices.pick((ctx['access'], ctx['work'], ctx['storage'], 'elements'))}"
    s = Sketch(ctx, KernelBuilder(name, launch.grid, launch.block, **ctx.kernel_options()), ctx.dtype)
    with FINISHES[ctx["finish"]](s, launch.count) as deliver, launch.enter(s) as place:
        values = prepare_values(s, ACCESSES[ctx["access"]](s, place))
        values = STORAGES[ctx["storage"]](s, place, values)
        deliver(place, emit_work(s, place, values))
    repeat = 1 if ctx["finish"] in ADDING else ctx["repeat"]
    ctx.composition = composition_name(ctx)
    return ctx.module(s.hosts, [s.k.finish()], terms=s.terms, repeat=repeat, whole=s.whole)
