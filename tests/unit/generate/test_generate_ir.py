"""Does the kernel language reject every invalid program?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from checked_oracle import CheckedLaunchOracle

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.builder import KernelBuilder
from hipsynth.synth.generate.ir import HostBuffer, Init, Kernel, Launch, Module, apply, const, load
from hipsynth.synth.generate.oracle import evaluate_module
from hipsynth.synth.generate.types import BOOL, F32, F64, I32, U32, IRError, find_dtype, vector_type


def kernel(block: int = 64, grid: int = 2) -> KernelBuilder:
    return KernelBuilder("k", grid, block)


def item(k: KernelBuilder) -> ir.Expr:
    return k.let("i", k.global_id())


def out_of_bounds_load(k: KernelBuilder) -> None:
    load(k.input("a", F32, 127, 0, 1), item(k))


def out_of_bounds_store(k: KernelBuilder) -> None:
    k.store(k.output("a", F32, 127), item(k), 1.0)


def negative_index(k: KernelBuilder) -> None:
    load(k.input("a", F32, 128, 0, 1), item(k) - 1)


def guard_of_another_scope(k: KernelBuilder) -> None:
    a = k.output("a", F32, 100)
    with k.below(item(k), 100) as inside:
        pass
    k.store(a, inside, 1.0)


def narrowed_difference_escapes(k: KernelBuilder) -> None:
    a = k.output("a", F32, 128)
    with k.at_least(item(k), const(10, I32)) as rest:
        pass
    k.store(a, rest, 1.0)


def loop_variable_escapes(k: KernelBuilder) -> None:
    a = k.output("a", F32, 128)
    with k.loop("j", 0, 8) as j:
        pass
    k.store(a, j, 1.0)


def barrier_in_branch(k: KernelBuilder) -> None:
    with k.when(apply("lt", item(k), 3)):
        k.barrier()


def barrier_after_early_return(k: KernelBuilder) -> None:
    with k.below(item(k), 100, early=True):
        pass
    k.barrier()


def barrier_in_uneven_loop(k: KernelBuilder) -> None:
    with k.loop("j", item(k), 200):
        k.barrier()


def shuffle_in_branch(k: KernelBuilder) -> None:
    with k.when(apply("lt", item(k), 3)):
        k.shuffle("s", "down", const(1.0, F32), 1)


def store_to_const(k: KernelBuilder) -> None:
    k.store(k.input("a", F32, 128, 0, 1), item(k), 1.0)


def store_of_wrong_type(k: KernelBuilder) -> None:
    k.store(k.output("a", F32, 128), item(k), const(1, I32))


def foreign_buffer(k: KernelBuilder) -> None:
    other = kernel().output("a", F32, 128)
    k.store(other, item(k), 1.0)


def value_outside_declared_range(k: KernelBuilder) -> None:
    x = k.variable("x", 1.0, F32, (0, 2))
    k.assign(x, x * 2.0)


def unbounded_sum(k: KernelBuilder) -> None:
    x = k.variable("x", 0, I32, (0, 10))
    with k.loop("j", 0, 11):
        k.accumulate(x, 1)


def assignment_to_let(k: KernelBuilder) -> None:
    k.assign(item(k), 3)


def raw_subtraction(k: KernelBuilder) -> None:
    k.let("x", k.builtin("threadIdx.x") - 1)


def too_much_lds(k: KernelBuilder) -> None:
    k.lds("tile", F64, 8193, (0, 1))


def too_large_a_block(k: KernelBuilder) -> None:
    KernelBuilder("big", 1, 1025)


def same_name_twice(k: KernelBuilder) -> None:
    k.let("x", const(1, I32))
    k.let("x", const(2, I32))


def float_atomic_or(k: KernelBuilder) -> None:
    k.atomic("or", k.output("a", F32, 1), 0, 1.0)


REFUSED: list[Callable[[KernelBuilder], None]] = [
    out_of_bounds_load, out_of_bounds_store, negative_index, guard_of_another_scope, narrowed_difference_escapes,
    loop_variable_escapes, barrier_in_branch, barrier_after_early_return, barrier_in_uneven_loop, shuffle_in_branch,
    store_to_const, store_of_wrong_type, foreign_buffer, value_outside_declared_range, unbounded_sum, assignment_to_let,
    raw_subtraction, too_much_lds, too_large_a_block, same_name_twice, float_atomic_or,
]  # fmt: skip


@pytest.mark.parametrize("construct", REFUSED, ids=lambda f: f.__name__)
def test_invalid_statement_is_refused(construct: Callable[[KernelBuilder], None]) -> None:
    with pytest.raises(IRError):
        construct(kernel())


@pytest.mark.parametrize(
    "build",
    [
        lambda x, y: x + y,  # float + int
        lambda x, y: x ^ 1,  # bits of a float
        lambda x, y: x / const(0.0, F32),
        lambda x, y: y % 0,
        lambda x, y: (y - 200) % 7,  # remainder of a negative number
        lambda x, y: y * (2**31 - 1),  # signed overflow
        lambda x, y: y << 32,
        lambda x, y: apply("log", x),  # near its zero
        lambda x, y: apply("sqrt", x - 1.0),
        lambda x, y: const(1.5, I32),
        lambda x, y: const(-1, U32),
        lambda x, y: const(1e39, F32),
        lambda x, y: apply("fma", y, y, y),
        lambda x, y: apply("select", y, x, x),
        lambda x, y: ir.cast(x, BOOL),
        lambda x, y: ir.part(x, 0),
        lambda x, y: ir.pack(vector_type(F32, 2), [x]),
        lambda x, y: find_dtype("f128"),
    ],
)
def test_invalid_expression_is_refused(build: Callable[[ir.Expr, ir.Expr], ir.Expr]) -> None:
    k = kernel()
    a = k.input("a", F32, 128, 0.5, 2.0)
    y = item(k)
    with pytest.raises(IRError):
        build(load(a, y), y)


def test_unsigned_arithmetic_wraps() -> None:
    total = const(2**32 - 1, U32) + 1
    assert (total.lo, total.hi) == (0, 2**32 - 1)


def one_kernel(k: Kernel, *buffers: HostBuffer) -> Module:
    return Module(buffers, (Launch(k, {b.name: b.name for b in k.buffers}),))


def test_checked_run_finds_two_writers_of_one_element() -> None:
    k = kernel()
    a = k.output("a", F32, 64)
    k.store(a, item(k) % 64, 1.0)
    with pytest.raises(IRError, match="race"):
        evaluate_module(one_kernel(k.finish(), HostBuffer("a", F32, 64, Init("zero"))), CheckedLaunchOracle)


def test_checked_run_finds_a_missing_barrier() -> None:
    def module(barrier: bool) -> Module:
        k = kernel()
        tile = k.lds("tile", I32, 64, (0, 63))
        a = k.output("a", I32, 128)
        tx = k.let("tx", k.builtin("threadIdx.x"))
        k.store(tile, tx, tx)
        if barrier:
            k.barrier()
        k.store(a, item(k), load(tile, const(63, I32) - tx))
        return one_kernel(k.finish(), HostBuffer("a", I32, 128, Init("zero")))

    with pytest.raises(IRError, match="race"):
        evaluate_module(module(False), CheckedLaunchOracle)
    assert evaluate_module(module(True), CheckedLaunchOracle)["a"].tolist() == [*range(63, -1, -1)] * 2


def test_checked_run_finds_a_value_outside_its_range() -> None:
    k = kernel()
    a = k.output("a", I32, 128)
    i = item(k)
    k.store(a, ir.narrow_range(i, 0, 99), 1)
    with pytest.raises(IRError, match="declared range"):
        evaluate_module(one_kernel(k.finish(), HostBuffer("a", I32, 128, Init("zero"))), CheckedLaunchOracle)


def test_module_rejects_a_buffer_outside_its_declared_range() -> None:
    k = kernel()
    k.input("a", F32, 128, 0.0, 1.0)
    with pytest.raises(IRError, match="declared range"):
        one_kernel(k.finish(), HostBuffer("a", F32, 128, Init("constant", 2.0)))


def test_module_rejects_an_integer_range_for_a_written_buffer() -> None:
    k = kernel()
    k.output("a", I32, 128, (0, 5))
    with pytest.raises(IRError, match="written"):
        one_kernel(k.finish(), HostBuffer("a", I32, 128, Init("zero")))


def test_float32_stays_float32_and_unsigned_wraps() -> None:
    k = kernel()
    a, b = k.output("a", F32, 128), k.output("b", U32, 128)
    i = item(k)
    k.store(a, i, ir.cast(i, F32) / 3.0)
    k.store(b, i, (ir.cast(i, U32) + 4294967295) * 3)
    memory = evaluate_module(
        one_kernel(k.finish(), HostBuffer("a", F32, 128, Init("zero")), HostBuffer("b", U32, 128, Init("zero")))
    )
    numbers = np.arange(128)
    assert np.array_equal(memory["a"], numbers.astype(np.float32) / np.float32(3))
    assert memory["b"].tolist() == [((n + 4294967295) * 3) % 2**32 for n in range(128)]
