"""Access patterns: which elements of its inputs a work-item reads. Each returns values of the kernel's type."""

from __future__ import annotations

from collections.abc import Callable

from hipsynth.synth.generate.compose.composed_kernel import Sketch, WorkItemPosition
from hipsynth.synth.generate.extent import count_groups
from hipsynth.synth.generate.ir import Expr, Init, apply, cast, lift, load, part
from hipsynth.synth.generate.patterns import weighted_sum
from hipsynth.synth.generate.types import F16, F32, F64, I16, I32, I64, U8, U16, U32, U64, DType, vector_type

Access = Callable[[Sketch, WorkItemPosition], list[Expr]]
NARROW = {
    F16: (U8,), F32: (F16, U8, I16), F64: (F32, I16), U16: (U8,), I32: (U8, I16), U32: (U8, U16), I64: (I32, I16),
    U64: (U32, U8),
}  # fmt: skip


def _read_contiguous(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    return [s.local(load(s.source(s.t, p.count), p.item)) for _ in range(s.ctx["inputs"])]


def _read_strided(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    stride = s.ctx["stride"]
    return [s.local(load(s.source(s.t, (p.count - 1) * stride + 1), p.item * stride))]


def _read_offset(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    source = s.source(s.t, p.count + s.ctx["stride"])
    return [s.local(load(source, p.item)), s.local(load(source, p.item + s.ctx["stride"]))]


def _read_reversed(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    values = [s.local(load(s.source(s.t, p.count), lift(p.count - 1, I32) - p.item))]
    return [*values, s.local(load(s.source(s.t, p.count), p.item))] if s.ctx["inputs"] > 1 else values


def _read_columns(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """A matrix read along its columns."""
    height = p.count // p.width
    return [s.local(load(s.source(s.t, height * p.width), p.item % p.width * height + p.item // p.width))]


def _read_blocked(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """A matrix stored in square tiles."""
    side = s.ctx.choices.pick((4, 8, 16, 32))
    height = p.count // p.width
    across, down = count_groups(p.width, side), count_groups(height, side)
    row, column = s.local(p.item // p.width, "row"), s.local(p.item % p.width, "col")
    tile = s.local(row // side * across + column // side, "tile_id")
    return [s.local(load(s.source(s.t, down * across * (side * side)), tile * (side * side) + row % side * side
                         + column % side))]  # fmt: skip


def _read_cyclic(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """Blocks dealt out to parts in turn, each part stored in one piece."""
    size, parts = s.ctx.choices.pick((2, 4, 16, 64)), s.ctx.choices.pick((2, 4, 8, 16))
    each = count_groups(count_groups(p.count, size), parts)
    q = s.local(p.item // size, "blk")
    at = (q % parts * each + q // parts) * size + p.item % size
    return [s.local(load(s.source(s.t, each * (parts * size)), at))]


def _read_gathered(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """Through an index buffer."""
    table, s.whole = s.ctx.size("table", s.ctx["table"]), True
    index = s.source(I32, p.count, Init("hash", 0, 1, add=s.ctx.choices.integer(0, 9999), mod=table))
    return [s.local(load(s.source(s.t, table), s.local(load(index, p.item), "k")))]


def _read_hashed(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """At pseudo-random positions of a table, computed from the element's number."""
    table = s.ctx.size("table", s.ctx["table"])
    return [s.local(load(s.source(s.t, table), s.hashed(p.item, table)))]


def _read_neighbours(s: Sketch, p: WorkItemPosition, distances: list[int]) -> list[Expr]:
    """The element, and the mean of it and those around it, clamped at the ends."""
    source = s.source(s.t, p.count)
    neighbour = s.local(load(source, p.item))
    values = [neighbour]
    for distance in distances:
        values.append(load(source, apply("max", p.item - distance, 0)))
        values.append(load(source, apply("min", p.item + distance, p.count - 1)))
    if not s.t.is_float:
        return [neighbour, s.local(weighted_sum(values, [1] * len(values)), "sum")]
    weight = 2.0 ** -(len(values) - 1).bit_length()
    return [neighbour, s.local(weighted_sum(values, [1.0] * len(values)) * weight, "mean")]


def _read_window(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    return _read_neighbours(s, p, list(range(1, s.ctx["radius"] + 1)))


def _read_cross(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    reach = range(1, min(2, s.ctx["radius"]) + 1)
    return _read_neighbours(s, p, [distance * unit for unit in (1, p.width) for distance in reach])


def _read_cube(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    return _read_neighbours(s, p, [1, p.width, p.width * s.ctx.choices.pick((4, 16, 64))])


def _read_broadcast(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """One element for many neighbouring work-items."""
    shift = s.ctx.choices.pick((2, 4, 6, 8, 10))
    shared = s.local(load(s.source(s.t, count_groups(p.count, 1 << shift)), p.item >> shift))
    return [shared, s.local(load(s.source(s.t, p.count), p.item))]


def _read_outer(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """A vector along the rows and one along the columns, of which most reads hit a cache."""
    rows = s.source(s.t, p.count // p.width)
    return [s.local(load(rows, p.item // p.width)), s.local(load(s.source(s.t, p.width), p.item % p.width))]


def _read_fields(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """Some members of an array of structures."""
    members = s.ctx.choices.integer(2, 6)
    source = s.source(s.t, p.count * members)
    chosen = range(members) if s.ctx.choices.flag(60) else range(0, members, 2)
    return [s.local(load(source, p.item * members + n if n else p.item * members)) for n in chosen]


def _read_vector(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """A float4 or a similar vector."""
    wide = s.local(load(s.source(vector_type(s.t, s.ctx.choices.pick((2, 4))), p.count), p.item), "wide")
    return [s.local(part(wide, n)) for n in range(wide.dtype.lanes)]


def _read_narrow(s: Sketch, p: WorkItemPosition) -> list[Expr]:
    """Elements of a smaller type, widened."""
    t = s.ctx.choices.pick(NARROW[s.t])
    value = cast(load(s.source(t, p.count), p.item), s.t)
    return [s.local(value * 0.0625 if s.t.is_float and t.is_int else value)]


ACCESSES: dict[str, Access] = {
    "contiguous": _read_contiguous, "strided": _read_strided, "offset": _read_offset, "reversed": _read_reversed,
    "columns": _read_columns, "blocked": _read_blocked, "cyclic": _read_cyclic, "gather": _read_gathered,
    "hashed": _read_hashed, "window": _read_window, "cross": _read_cross, "cube": _read_cube,
    "broadcast": _read_broadcast, "outer": _read_outer, "fields": _read_fields, "vector": _read_vector,
    "narrow": _read_narrow,
}  # fmt: skip


def prepare_values(s: Sketch, values: list[Expr]) -> list[Expr]:
    """Applies rounding, conversions and checks to loaded values while they are still exact."""
    x = values[0]
    match s.ctx["prepare"]:
        case "round":
            name = s.ctx.choices.pick(("floor", "ceil", "trunc", "rint"))
            rounded = apply(name, x * s.ctx.choices.pick((1.0, 2.0, 4.0)))
            return [s.local(rounded + x), *values[1:]]
        case "convert":
            return [s.local(_convert_and_back(s, x)), *values[1:]]
        case "classify":
            test, holds = s.ctx.choices.pick((("isnan", False), ("isfinite", True)))
            other = values[-1] + 1.0
            chosen = (x, other) if holds else (other, x)
            return [s.local(apply("select", apply(test, x), *chosen)), *values[1:]]
    return values


def _convert_and_back(s: Sketch, x: Expr) -> Expr:
    """A value through another type and back."""
    if s.t.is_float and s.ctx.choices.flag(30):  # one byte of a word
        word = s.local(cast(x * 16.0, U32) * 0x01010101, "word")
        return cast((word >> s.ctx.choices.pick((8, 16, 24))) & 0xFF, s.t) * 0.0625 + x
    if s.t.is_float:
        between: tuple[DType, ...] = tuple({F16, F32, F64, I32, U32} - {s.t})
        t = s.ctx.choices.pick(sorted(between, key=lambda t: t.name))
        scaled = x * 16.0 if t.is_int else x
        return cast(cast(scaled, t), s.t) * (0.0625 if t.is_int else 1.0) + x
    scaled = cast(s.bounded(x) & s.mask(16), F32) * 0.25 + 1.0
    return cast(scaled, s.t)
