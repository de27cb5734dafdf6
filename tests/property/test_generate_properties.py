"""Do all programs, whatever was drawn, stay in their declared ranges and bounds without races?"""

from __future__ import annotations

from checked_oracle import CheckedLaunchOracle
from generated_samples import small
from hypothesis import given, reject, settings
from hypothesis import strategies as st

from hipsynth.synth.generate import ir
from hipsynth.synth.generate.build import build_module, replay_program
from hipsynth.synth.generate.choices import Choices
from hipsynth.synth.generate.headers import load_templates
from hipsynth.synth.generate.ops import OPS
from hipsynth.synth.generate.oracle import evaluate_module
from hipsynth.synth.generate.producer import draw_program, generate_programs
from hipsynth.synth.generate.types import F32, F64, I32, U32, IRError

FAMILIES = sorted(load_templates())


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.sampled_from(FAMILIES), st.integers(0, 10**6))
def test_no_range_violation_and_no_race(family: str, seed: int) -> None:
    """Bounds and ranges are checked when a program of any size is built, and again while it runs at a small size."""
    program, run = small(family, seed)
    _, module = build_module(family, Choices(replay=program.choices), sizes=run.params)
    evaluate_module(module, CheckedLaunchOracle)


@settings(max_examples=15, deadline=None, derandomize=True)
@given(st.integers(0, 10**6), st.integers(0, 10**6))
def test_replay_reproduces_the_program(seed: int, index: int) -> None:
    try:
        program = draw_program(seed, index)
    except IRError:
        reject()  # larger than a host writes: `generate_programs` draws another
    again = replay_program(program.family, program.choices)
    assert again.text == program.text
    assert again.record() == program.record()


def test_any_number_of_workers_gives_the_same_bytes() -> None:
    one = [(p.text, p.record()) for p in generate_programs(40, seed=11, workers=1)]
    two = [(p.text, p.record()) for p in generate_programs(40, seed=11, workers=2)]
    assert one == two
    assert len({text for text, _ in one}) == 40


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    assert [p.id for p in generate_programs(5, seed=3)] == [p.id for p in generate_programs(9, seed=3)][:5]


def literals(kind: str) -> st.SearchStrategy[ir.Expr]:
    if kind == "float":
        numbers = st.integers(-64, 64).map(lambda n: n / 8)
        return st.one_of(numbers.map(lambda v: ir.const(v, F32)), numbers.map(lambda v: ir.const(v, F64)))
    return st.one_of(
        st.integers(-(2**31), 2**31 - 1).map(lambda v: ir.const(v, I32)),
        st.integers(0, 2**32 - 1).map(lambda v: ir.const(v, U32)),
    )


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.data(), st.sampled_from(["float", "int"]))
def test_an_operation_is_rejected_or_its_value_is_in_range(data: st.DataObject, kind: str) -> None:
    name = data.draw(st.sampled_from(sorted(OPS)))
    count = OPS[name].span.__code__.co_argcount
    operands = [data.draw(literals(kind)) for _ in range(count)]
    try:
        value = ir.apply(name, *operands)
    except IRError:
        return
    body = (ir.Let(ir.Expr("name", value.dtype, (), ("x", 0)), value),)
    k = ir.Kernel("k", (1, 1, 1), (1, 1, 1), (), (), (), (), body, live=frozenset({"x"}))
    CheckedLaunchOracle(k, {}).execute()
