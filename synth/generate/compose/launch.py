"""Launch shapes: how work-items are spread over elements, in one to three dimensions, once or in loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from hipsynth.synth.generate.compose.composed_kernel import ROWS, Sketch, WorkItemPosition, needs_uniform_groups
from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.extent import count_groups

Enter = Callable[[Sketch], AbstractContextManager[WorkItemPosition]]


@dataclass(frozen=True)
class LaunchShape:
    """Grid and block (x, y, z), and `enter`, which yields the place of a work-item inside its guards and loops."""

    count: int  # elements
    grid: tuple[int, ...]
    block: tuple[int, ...]
    enter: Enter


def _element_sizes(ctx: Context, unit: int) -> tuple[int, int]:
    """Elements and elements per row, the latter a multiple of `unit`; without rows, elements are."""
    if ctx["access"] not in ROWS:
        count = ctx.count if unit == 1 else ctx.size("tiles", max(1, ctx["size"] // unit)) * unit
        return count, count
    name = "width" if unit == 1 else "tiles"
    width = ctx.size(name, max(1, ctx["width"] // unit)) * unit
    return ctx.size("height", max(1, ctx["size"] // int(width))) * width, width


def _launch_line(ctx: Context) -> LaunchShape:
    block, exact = ctx["block"], needs_uniform_groups(ctx)
    count, width = _element_sizes(ctx, block if exact else 1)

    @contextmanager
    def enter(s: Sketch) -> Iterator[WorkItemPosition]:
        i = s.k.let(ctx.names.index, s.k.global_id())
        if exact:
            yield WorkItemPosition(i, count, width)
            return
        with s.k.below(i, s.k.scalar(ctx.names.count, count), early=bool(ctx.style["early_return"])) as inside:
            yield WorkItemPosition(inside, count, width)

    return LaunchShape(count, (count_groups(count, block),), (block,), enter)


def _launch_plane(ctx: Context) -> LaunchShape:
    bx = ctx.choices.pick([x for x in (8, 16, 32, 64, 128) if x <= ctx["block"]])
    by, exact = ctx["block"] // bx, needs_uniform_groups(ctx)
    across = ctx.size("tiles_x", max(1, ctx["width"] // bx)) * bx if exact else ctx.size("width", ctx["width"])
    rows = max(1, ctx["size"] // int(across))
    down = ctx.size("tiles_y", max(1, rows // by)) * by if exact else ctx.size("height", rows)

    @contextmanager
    def enter(s: Sketch) -> Iterator[WorkItemPosition]:
        x, y = s.k.let("x", s.k.global_id("x")), s.k.let("y", s.k.global_id("y"))
        if exact:
            yield WorkItemPosition(s.local(y * across + x, "at"), across * down, across)
            return
        with s.k.below(x, across) as column, s.k.below(y, down) as row:
            yield WorkItemPosition(s.local(row * across + column, "at"), across * down, across)

    return LaunchShape(across * down, (count_groups(across, bx), count_groups(down, by)), (bx, by), enter)


def _launch_volume(ctx: Context) -> LaunchShape:
    block, exact = ctx["block"], needs_uniform_groups(ctx)
    bz = ctx.choices.pick((2, 4))
    bx = ctx.choices.pick([x for x in (8, 16, 32, 64) if x * bz <= block])
    shape = (bx, block // bx // bz, bz)
    plane = ctx["width"] * ctx["depth"]
    wanted = (ctx["width"], max(1, ctx["size"] // plane), ctx["depth"])
    names = ("width", "height", "depth")
    extents = tuple(
        ctx.size(f"tiles_{name[0]}", max(1, extent // by)) * by if exact else ctx.size(name, extent)
        for name, extent, by in zip(names, wanted, shape, strict=True)
    )
    width, height, depth = extents
    count = width * height * depth

    @contextmanager
    def enter(s: Sketch) -> Iterator[WorkItemPosition]:
        x, y, z = (s.k.let(axis, s.k.global_id(axis)) for axis in "xyz")
        if exact:
            yield WorkItemPosition(s.local((z * height + y) * width + x, "at"), count, width)
            return
        with s.k.below(x, width) as cx, s.k.below(y, height) as cy, s.k.below(z, depth) as cz:
            yield WorkItemPosition(s.local((cz * height + cy) * width + cx, "at"), count, width)

    return LaunchShape(count, tuple(count_groups(e, b) for e, b in zip(extents, shape, strict=True)), shape, enter)


def _launch_strided(ctx: Context) -> LaunchShape:
    block, grid = ctx["block"], ctx.size("blocks", ctx["grid"])
    count, width = _element_sizes(ctx, 1)

    @contextmanager
    def enter(s: Sketch) -> Iterator[WorkItemPosition]:
        first = s.k.let(ctx.names.index, s.k.global_id())
        step = s.k.let("stride", s.k.builtin("blockDim.x") * s.k.builtin("gridDim.x"))
        with s.k.loop("j", first, s.k.scalar(ctx.names.count, count), step) as j:
            yield WorkItemPosition(j, count, width)

    return LaunchShape(count, (grid,), (block,), enter)


def _launch_persistent(ctx: Context) -> LaunchShape:
    block, grid = ctx["block"], ctx.size("blocks", ctx["grid"])
    count, width = _element_sizes(ctx, block)

    @contextmanager
    def enter(s: Sketch) -> Iterator[WorkItemPosition]:
        group = s.k.let("group", s.k.builtin("blockIdx.x"))
        with s.k.loop("tile", group, count // block, grid) as tile:
            yield WorkItemPosition(s.local(tile * block + s.lane, "at"), count, width)

    return LaunchShape(count, (grid,), (block,), enter)


def _launch_rows(ctx: Context) -> LaunchShape:
    block = ctx["block"]
    steps = ctx.size("steps", max(1, ctx["width"] // block))
    width = steps * block
    rows = ctx.size("rows", max(1, ctx["size"] // int(width)))

    @contextmanager
    def enter(s: Sketch) -> Iterator[WorkItemPosition]:
        base = s.k.let("row_start", s.k.builtin("blockIdx.x") * width)
        with s.k.loop("step", 0, steps) as step:
            yield WorkItemPosition(s.local(base + step * block + s.lane, "at"), rows * width, width)

    return LaunchShape(rows * width, (rows,), (block,), enter)


def _launch_chunks(ctx: Context) -> LaunchShape:
    block, each = ctx["block"], ctx["each"]
    count, width = _element_sizes(ctx, block * each)

    @contextmanager
    def enter(s: Sketch) -> Iterator[WorkItemPosition]:
        first = s.k.let(ctx.names.index, s.k.global_id())
        with s.k.loop("c", 0, each, unroll=ctx.choices.pick((0, 0, 1))) as c:
            yield WorkItemPosition(s.local(first * each + c, "at"), count, width)

    return LaunchShape(count, (count // (block * each),), (block,), enter)


LAUNCHES: dict[str, Callable[[Context], LaunchShape]] = {
    "line": _launch_line, "plane": _launch_plane, "volume": _launch_volume, "stride": _launch_strided,
    "persistent": _launch_persistent, "rows": _launch_rows, "chunk": _launch_chunks,
}  # fmt: skip
