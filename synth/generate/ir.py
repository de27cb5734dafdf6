"""The typed kernel language: expressions with value ranges, buffers with bounds, statements, kernels, modules.

A value carries its type, the interval [lo, hi] of its possible values, and whether it is uniform across a work-group.
The constructors here raise IRError for type errors and possible overflow; `builder` raises IRError for out-of-bounds
accesses, values used outside their scope, and barriers or shuffles in divergent control flow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hipsynth.core.kernel_record import Dim
from hipsynth.synth.generate.extent import Extent
from hipsynth.synth.generate.matrix import MatrixInstruction
from hipsynth.synth.generate.ops import OPS
from hipsynth.synth.generate.types import BOOL, F16, F32, I16, I32, DType, IRError

Number = int | float
Style = Mapping[str, bool | str]  # variant of how a program is written -> whether it has it, or which
TILE = 65536  # elements
MAX_BYTES = 5 << 29  # of a program's buffers, which its host holds once more
SIZE_OPS = {"+": "add", "-": "sub", "*": "mul", "/": "idiv", "max": "max"}  # operators of an Extent -> rows of OPS


@dataclass(frozen=True, slots=True)
class Expr:
    """A typed value. `op` is a row of OPS or one of const, name, size, builtin, load, cast, part, pack, shuffle, inside
    (a value whose range an enclosing guard narrowed)."""

    op: str
    dtype: DType
    args: tuple[Expr, ...] = ()
    attr: Any = None
    lo: float = 0
    hi: float = 0
    uniform: bool = True  # the same value in every work-item of a work-group
    raw: bool = False  # contains an unsigned builtin such as threadIdx.x that is not yet converted to int

    def __add__(self, other: Operand) -> Expr:
        return apply("add", self, other)

    def __radd__(self, other: Operand) -> Expr:
        return apply("add", other, self)

    def __sub__(self, other: Operand) -> Expr:
        return apply("sub", self, other)

    def __rsub__(self, other: Operand) -> Expr:
        return apply("sub", other, self)

    def __mul__(self, other: Operand) -> Expr:
        return apply("mul", self, other)

    def __rmul__(self, other: Operand) -> Expr:
        return apply("mul", other, self)

    def __truediv__(self, other: Operand) -> Expr:
        return apply("div", self, other)

    def __rtruediv__(self, other: Operand) -> Expr:
        return apply("div", other, self)

    def __floordiv__(self, other: Operand) -> Expr:
        return apply("idiv", self, other)

    def __mod__(self, other: Operand) -> Expr:
        return apply("mod", self, other)

    def __and__(self, other: Operand) -> Expr:
        return apply("and", self, other)

    def __xor__(self, other: Operand) -> Expr:
        return apply("xor", self, other)

    def __lshift__(self, other: Operand) -> Expr:
        return apply("shl", self, other)

    def __rshift__(self, other: Operand) -> Expr:
        return apply("shr", self, other)


Operand = Expr | int | float


def const(value: Number, dtype: DType) -> Expr:
    """A literal of a scalar type, floats rounded to it. Raises IRError for values that the type cannot hold."""
    if dtype.lanes > 1 or dtype is BOOL:
        raise IRError(f"no literal of type {dtype.cpp}")
    if not dtype.is_float and not isinstance(value, int):
        raise IRError(f"{value!r} is not an integer")
    constant = _round_to_type(float(value), dtype) if dtype.is_float else int(value)
    if not (math.isfinite(constant) and dtype.lo <= constant <= dtype.hi):
        raise IRError(f"{value!r} does not fit {dtype.cpp}")
    return Expr("const", dtype, attr=constant, lo=constant, hi=constant)


def _round_to_type(value: float, dtype: DType) -> float:
    """The nearest value of a float type, or an infinity."""
    if abs(value) <= dtype.hi:
        return float(dtype.cast(value).item())
    with np.errstate(over="ignore"):
        return float(dtype.cast(value).item())


def lift(value: Operand, like: DType) -> Expr:
    """A Python number as a literal of type `like`; a size as an int that the kernel gets as parameter; an Expr
    unchanged."""
    if isinstance(value, Expr):
        return value
    return size_value(value) if isinstance(value, Extent) else const(value, like)


def size_value(value: int) -> Expr:
    """A size, or what is computed from sizes, as a value inside the kernel."""
    if not isinstance(value, Extent):
        return const(value, I32)
    if not value.op:
        return Expr("size", I32, (), value, int(value), int(value))
    return apply(SIZE_OPS[value.op], size_value(value.left), size_value(value.right))


def apply(name: str, *operands: Operand) -> Expr:
    """An operation of OPS on operands of one type. Raises IRError for wrong types, possible overflow, or operand ranges
    outside the operation's domain."""
    op = OPS[name]
    values = operands[1:] if name == "select" else operands
    for value in values:
        if isinstance(value, Expr):
            typed = value.dtype
            break
    else:
        raise IRError(f"{name}: needs at least one typed operand")
    args = tuple([v if isinstance(v, Expr) else lift(v, typed) for v in operands])
    _check_types(name, op.kinds, args)
    dtype = BOOL if op.boolean else typed
    op.text(typed)
    try:
        lo, hi = op.span(*[(a.lo, a.hi) for a in args])
    except IRError as error:
        raise IRError(f"{name}: {error.what}") from error
    lo, hi = fit_range(name, dtype, lo, hi)
    raw = True in [a.raw for a in args]
    if raw and name == "sub":
        raise IRError("sub: threadIdx and other builtins are unsigned; convert them to int first")
    return Expr(name, dtype, args, None, lo, hi, False not in [a.uniform for a in args], raw and not op.boolean)


def _check_types(name: str, kinds: str, args: tuple[Expr, ...]) -> None:
    values = args[1:] if name == "select" else args
    if name == "select" and args[0].dtype is not BOOL:
        raise IRError("select: the condition is not a bool")
    first = values[0].dtype
    usable = first is not I16 and first.lanes == 1 and first.kind in kinds
    for value in values:
        if value.dtype is not first or not usable:
            dtypes = ", ".join(v.dtype.cpp for v in values)
            raise IRError(f"{name}: bad operand types ({dtypes})")


def fit_range(subject: str, dtype: DType, lo: float, hi: float) -> tuple[float, float]:
    """The range of a result stored in `dtype`: unsigned overflow widens it to the type's full range; signed and
    floating-point overflow raises IRError."""
    if dtype.lo <= lo and hi <= dtype.hi:
        return lo, hi
    if dtype.kind == "u":
        return dtype.lo, dtype.hi
    raise IRError(f"{subject}: [{lo:g}, {hi:g}] may overflow {dtype.cpp}")


def cast(value: Expr, dtype: DType) -> Expr:
    """A conversion between scalar types. Raises IRError unless a float converted to an integer is >= 0 and fits."""
    if value.dtype.lanes > 1 or dtype.lanes > 1 or BOOL in (value.dtype, dtype):
        raise IRError(f"no conversion from {value.dtype.cpp} to {dtype.cpp}")
    if value.dtype is dtype:
        return value
    lo, hi = value.lo, value.hi
    if dtype.is_int and value.dtype.is_float:
        lo, hi = math.floor(lo), math.floor(hi)
        if lo < 0 or hi > dtype.hi:
            raise IRError(f"cast: [{lo}, {hi}] does not fit {dtype.cpp}")
    if dtype.is_float:
        lo, hi = float(lo), float(hi)
    elif dtype.kind == "u" and lo < 0:
        lo, hi = dtype.lo, dtype.hi
    lo, hi = fit_range("cast", dtype, lo, hi)
    return Expr("cast", dtype, (value,), None, lo, hi, value.uniform)


def part(value: Expr, lane: int) -> Expr:
    """One component (.x .y .z .w) of a vector value."""
    if not 0 <= lane < value.dtype.lanes or value.dtype.lanes == 1:
        raise IRError(f"{value.dtype.cpp} has no lane {lane}")
    return Expr("part", value.dtype.base, (value,), lane, value.lo, value.hi, value.uniform)


def pack(dtype: DType, lanes: Sequence[Expr]) -> Expr:
    """A vector value from its components: make_float4(...)."""
    if len(lanes) != dtype.lanes or any(v.dtype is not dtype.base for v in lanes):
        raise IRError(f"pack: {dtype.cpp} needs {dtype.lanes} values of {dtype.base.cpp}")
    lo, hi = min(v.lo for v in lanes), max(v.hi for v in lanes)
    return Expr("pack", dtype, tuple(lanes), None, lo, hi, all(v.uniform for v in lanes))


def square_root(value: Expr) -> Expr:
    """A square root in any float type; half is computed in float."""
    if value.dtype is F16:
        return cast(apply("sqrt", cast(value, F32)), F16)
    return apply("sqrt", value)


def narrow_range(value: Expr, lo: float, hi: float) -> Expr:
    """The same value with a narrower range, which is not checked: the caller must guarantee it (e.g. by a guard)."""
    return replace(value, lo=max(lo, value.lo), hi=min(hi, value.hi))


# ---- memory


@dataclass(frozen=True)
class Init:
    """How the host fills a buffer; C++ and numpy compute bit-identical values.

    kind: "zero"; "constant" (lo); "ramp" lo + step * ((i * mul + add) % mod); "hash" lo + step * (hash(i + add) % mod).
    """

    kind: str
    lo: float = 0
    step: float = 1
    mul: int = 1
    add: int = 0
    mod: int = 1

    @property
    def span(self) -> tuple[float, float]:
        if self.kind == "zero":
            return 0, 0
        return (self.lo, self.lo) if self.kind == "constant" else (self.lo, self.lo + self.step * (int(self.mod) - 1))


@dataclass(frozen=True)
class HostBuffer:
    """A device allocation: `size` elements of a scalar type, filled by `init`. The program prints `output` buffers."""

    name: str
    dtype: DType
    size: int
    init: Init
    output: bool = False
    constant: bool = False  # in __constant__ memory


@dataclass(frozen=True)
class Buffer:
    """Memory that a kernel accesses, by `space`: a pointer parameter ("global"), an array in constant memory
    ("constant"), of the work-group ("lds") or of the work-item ("private").

    Every element is in [lo, hi]; a `const` buffer is never written. LDS arrays may have several dimensions.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    lo: float
    hi: float
    space: str = "global"
    const: bool = False
    dynamic: bool = False  # extern __shared__
    restrict: bool = False

    @property
    def size(self) -> int:
        return math.prod(self.shape)


def check_index(buffer: Buffer, index: Sequence[Expr]) -> None:
    """Raises IRError if an index has the wrong rank or type, or may be out of bounds."""
    if len(index) != len(buffer.shape):
        raise IRError(f"{buffer.name}: {len(index)} indices for {len(buffer.shape)} dimensions")
    for value, extent in zip(index, buffer.shape, strict=True):
        if not value.dtype.is_int:
            raise IRError(f"{buffer.name}: index of type {value.dtype.cpp}")
        if value.lo < 0 or value.hi >= extent:
            raise IRError(f"{buffer.name}: index in [{value.lo:g}, {value.hi:g}] may leave [0, {extent - 1}]")


def load(buffer: Buffer, *index: Operand) -> Expr:
    """One element of a buffer. Raises IRError unless every possible value of the index is in bounds."""
    lifted = tuple(lift(v, I32) for v in index)
    check_index(buffer, lifted)
    return Expr("load", buffer.dtype, lifted, buffer, buffer.lo, buffer.hi, False)


# ---- statements


@dataclass(frozen=True)
class Let:
    """`type name = value;`"""

    target: Expr
    value: Expr
    mutable: bool = False


@dataclass(frozen=True)
class Assign:
    """`name = value;` or, with `compound` "+", `name += value;`."""

    target: Expr
    value: Expr
    compound: str = ""


@dataclass(frozen=True)
class Store:
    """`buffer[index] = value;`"""

    buffer: Buffer
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True)
class Atomic:
    """`atomicAdd(&buffer[index], value);` `op` is add, min, max, and, or, xor."""

    op: str
    buffer: Buffer
    index: tuple[Expr, ...]
    value: Expr


@dataclass(frozen=True)
class MatrixFma:
    """`acc = A x B + acc` over a wavefront."""

    matrix: MatrixInstruction
    target: Expr
    left: Expr
    right: Expr


@dataclass(frozen=True)
class If:
    """A branch. `early` prints it as `if (!(condition)) return;` followed by the unindented body."""

    condition: Expr
    then: list[Statement]
    otherwise: list[Statement] = field(default_factory=list)
    early: bool = False


@dataclass(frozen=True)
class For:
    """A counted loop: kind "up" (start; < stop; += step), "halve" (start; > 0; >>= 1), "double" (1; < stop; <<= 1)."""

    var: Expr
    kind: str
    start: Expr
    stop: Expr
    step: Expr
    body: list[Statement]
    unroll: int = 0  # 0: no pragma; 1: full; n: by n


@dataclass(frozen=True)
class Break:
    """`if (condition) break;` directly in the body of a loop."""

    condition: Expr


@dataclass(frozen=True)
class Barrier:
    """`__syncthreads();`"""


Statement = Let | Assign | Store | Atomic | MatrixFma | If | For | Break | Barrier


@dataclass(frozen=True)
class Product:
    """What a kernel computes in a loop, for languages with a word for it: `target += left[row, j] * right[j, column]`
    for each j below the depth. `sizes`: rows, columns and depth; `blocks` and `warps` are those of a Triton program:
    its rows, columns and steps along the depth."""

    target: Expr
    left: Buffer
    right: Buffer
    row: Expr
    column: Expr
    sizes: tuple[int, int, int]
    blocks: tuple[int, int, int]
    warps: int


@dataclass(frozen=True)
class Kernel:
    """A finished kernel; `grid` and `block` are (x, y, z). `scalars` are int parameters with the values passed to
    them; `private` are arrays of each work-item."""

    name: str
    grid: Dim
    block: Dim
    buffers: tuple[Buffer, ...]
    scalars: tuple[tuple[str, int], ...]
    constants: tuple[tuple[str, int], ...]
    lds: tuple[Buffer, ...]
    body: tuple[Statement, ...]
    launch_bounds: bool = False
    auto: bool = False  # declare locals with auto
    private: tuple[Buffer, ...] = ()
    live: frozenset[str] = frozenset()  # the locals that a side effect or a branch depends on; others are dead code
    product: Product | None = None

    @property
    def threads(self) -> int:
        return math.prod(map(int, (*self.grid, *self.block)))


@dataclass(frozen=True)
class Launch:
    """One launch; `arguments` maps kernel parameter names to host buffer names."""

    kernel: Kernel
    arguments: dict[str, str]


@dataclass(frozen=True)
class Module:
    """A whole program: buffers and launches in order, the whole sequence repeated `repeat` times.

    `terms` bounds the number of terms of any floating-point sum whose order may change (it sets the tolerance);
    `style` selects variants of the host code. Raises IRError when a launch binds a parameter to an unsuitable buffer.
    """

    buffers: tuple[HostBuffer, ...]
    launches: tuple[Launch, ...]
    terms: int = 1
    repeat: int = 1
    arguments: tuple[Extent, ...] = ()  # the problem sizes that the program reads from argv
    style: Style = field(default_factory=dict)
    tiled: bool = False  # inputs repeat their first TILE elements, and only so many of an output are printed

    def __post_init__(self) -> None:
        hosts = {b.name: b for b in self.buffers}
        if len(hosts) != len(self.buffers):
            raise IRError("two buffers of one name")
        if sum(int(b.size) * b.dtype.bytes for b in self.buffers) > MAX_BYTES:
            raise IRError(f"more than {MAX_BYTES} bytes of buffers")
        written = {x.arguments[b.name] for x in self.launches for b in x.kernel.buffers if not b.const}
        for launch in self.launches:
            for buffer in launch.kernel.buffers:
                _check_binding(launch, buffer, hosts, written)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The distinct kernels in order of first launch."""
        return tuple({x.kernel.name: x.kernel for x in self.launches}.values())

    @property
    def outputs(self) -> tuple[HostBuffer, ...]:
        return tuple(b for b in self.buffers if b.output)


def _check_binding(launch: Launch, buffer: Buffer, hosts: dict[str, HostBuffer], written: set[str]) -> None:
    name = launch.arguments.get(buffer.name, "")
    host = hosts.get(name)
    if host is None or (buffer.space == "constant") != host.constant:
        raise IRError(f"{launch.kernel.name}: parameter {buffer.name} has no buffer")
    if host.dtype is not buffer.dtype.base or host.size < buffer.size * buffer.dtype.lanes:
        raise IRError(f"{launch.kernel.name}: {name} is not {buffer.size} of {buffer.dtype.cpp}")
    lo, hi = host.init.span
    if lo < buffer.lo or hi > buffer.hi:
        raise IRError(f"{launch.kernel.name}: {name} is initialised in [{lo:g}, {hi:g}], outside its declared range")
    if buffer.dtype.is_int and name in written and not (buffer.lo <= buffer.dtype.lo and buffer.hi >= buffer.dtype.hi):
        raise IRError(f"{launch.kernel.name}: {name} is written, so it cannot declare an integer range")
