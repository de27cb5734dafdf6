"""What outputs hold decides how they are compared: by the types of kernels' parameters, not by their bytes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hipsynth.simulator.observation import BufferUse, Elements, KnownElements, Output
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier, program_tolerance
from hipsynth.tuning.trial import (
    Conditions,
    Tolerance,
    Trial,
    UnorderedOutputs,
    compare_trials,
    find_unordered,
    run_trial,
    target_of,
)
from hipsynth.tuning.trial.output_elements import ParameterTypes, classify_pointer, reads_other_types, widest_floating
from hipsynth.tuning.trial.rounding import compare_numbers

TARGET = target_of("gfx942")


@pytest.mark.parametrize(
    ("text", "elements"),
    [
        ("float*", Elements.FLOATS),
        ("float const*", Elements.FLOATS),
        ("HIP_vector_type<float, 4u>*", Elements.FLOATS),
        ("const double2 *__restrict__", Elements.DOUBLES),
        ("__hip_bfloat16 const*", Elements.BFLOATS),
        ("_Float16*", Elements.HALVES),
        ("unsigned long*", Elements.INTEGERS),
        ("unsigned char*", Elements.INTEGERS),
        ("uint4*", Elements.INTEGERS),
        ("char*", Elements.UNKNOWN),
        ("void*", Elements.UNKNOWN),
        ("float**", Elements.UNKNOWN),
        ("Pair<float, int>*", Elements.UNKNOWN),
        ("float", Elements.UNKNOWN),
    ],
)
def test_types_of_pointers(text: str, elements: Elements) -> None:
    assert classify_pointer(text) is elements


def test_the_widest_type_of_a_program_is_a_word_of_its_own() -> None:
    assert widest_floating(["__hip_bfloat16", "int"]) is Elements.BFLOATS
    assert widest_floating(["int", "Pair<float>", "half"]) is Elements.FLOATS
    assert widest_floating(["int", "floating"]) is Elements.INTEGERS


def test_parameters_say_what_an_allocation_holds() -> None:
    types = ParameterTypes({"plain": ("float*", "")})

    def classify(*uses: tuple[str, int]) -> Elements:
        return types.classify(Output("buffer", 0, 4, 4, "", tuple(BufferUse(*use) for use in uses)))

    assert classify(("_Z5scalePfPKii", 0)) is Elements.FLOATS and classify(("_Z5scalePfPKii", 1)) is Elements.INTEGERS
    assert classify(("_Z5scaleIDF16_EvPT_", 0)) is Elements.HALVES and classify(("plain", 0)) is Elements.FLOATS
    assert classify(("_Z5scalePfPKii", 0), ("_Z3maxPi", 0)) is Elements.FLOATS, "a maximum of floats as integers"
    assert classify(("_Z5scalePfPKii", 0), ("_Z1kPd", 0)) is Elements.UNKNOWN
    assert classify() is classify(("other", 0)) is classify(("plain", 7)) is Elements.UNKNOWN


def recorded(*outputs: np.ndarray, use: str = "_Z1kPi") -> Trial:
    rows = [data.tobytes() for data in outputs]
    uses = (BufferUse(use, 0),)
    return Trial(
        "ok",
        outputs=tuple(Output("copy", n, len(data), len(data), data.hex(), uses) for n, data in enumerate(rows)),
        recorded=dict(enumerate(rows)),
    )


@pytest.mark.parametrize(("kind", "equal"), [("f", True), ("i", False)])
def test_integers_beside_floats_have_no_tolerance(kind: str, equal: bool) -> None:
    data = np.array([100_000_000, 100_000_016], np.float32 if kind == "f" else np.int32)
    tolerance = Tolerance("float", 1e-6, "a test", ParameterTypes())
    use = f"_Z1kP{kind}"
    assert compare_trials(recorded(data, use=use), recorded(data + 8, use=use), tolerance).equal == equal


@pytest.mark.parametrize("use", ["_Z1kP3Hit", "_Z1kPf"])
def test_integers_between_floats_have_no_tolerance(use: str) -> None:
    """Of structures, the words that are denormal as floats; where all are floats, these are next to nothing."""
    times = np.linspace(1.0, 2.0, 64, dtype=np.float32)
    hits, wrong = (np.stack([times, np.full(64, word, np.uint32).view(np.float32)], axis=1) for word in (3, 2))
    types = ParameterTypes()
    comparison = compare_trials(recorded(hits, use=use), recorded(wrong, use=use), Tolerance("float", 2e-5, "", types))
    assert comparison.equal is (use == "_Z1kPf")
    underflows = np.exp(-np.linspace(60.0, 95.0, 256, dtype=np.float32))
    rounded = underflows * np.float32(1 + 1e-6)
    pair = recorded(underflows, use=use), recorded(rounded, use=use)
    assert compare_trials(*pair, Tolerance("float", 2e-5, "", types)).equal


@pytest.mark.parametrize(("text", "exact"), [("p[i] = 'A';", True), ("((float*)p)[i] = 1;", False)])
def test_characters_are_integers_where_nothing_reads_them_otherwise(text: str, exact: bool) -> None:
    types = ParameterTypes(plain_chars=not reads_other_types(text))
    output = Output("buffer", 0, 4, 4, "", (BufferUse("_Z1kPcPKf", 0),))
    assert (types.classify(output) is Elements.INTEGERS) is exact


def test_a_variable_may_be_left_out_where_results_are_copied() -> None:
    copied = recorded(KEYS)
    variable = Output("variable", 1, 4, 4, "00")
    original = replace(copied, outputs=(*copied.outputs, variable))
    assert compare_trials(original, copied).equal
    assert not compare_trials(replace(copied, outputs=(variable,)), replace(copied, outputs=())).equal


def test_one_of_two_numbers_may_not_be_wrong() -> None:
    """A sum, and a mean that is small beside it."""
    sums, wrong = (np.array([65536.0, mean], np.float32).tobytes() for mean in (1.0, 1.1))
    assert compare_numbers(sums, wrong, "float", 2e-5).reason
    nudged = [np.array([65536.0 * (1 + 1e-7), 1.0 * (1 + 1e-7)], np.float32).tobytes()]
    assert compare_numbers(sums, wrong, "float", 2e-5, nudged).reason


def test_bfloat16_numbers_are_compared_as_such() -> None:
    exact = (np.array([1.5, 2.5, 3.0], np.float32).view(np.uint32) >> 16).astype(np.uint16)
    far = np.array([24, 0, 0], np.uint16)
    assert not compare_numbers(exact.tobytes(), (exact + 1).tobytes(), "bfloat16", 3.2e-2).reason
    assert compare_numbers(exact.tobytes(), (exact + far).tobytes(), "bfloat16", 3e-2).reason


KEYS, PLACES = np.array([5, 6, 7], np.uint32), np.array([0, 1, 2], np.uint32)
ORDER = np.array([2, 0, 1])


def test_outputs_of_one_order_keep_their_places_together() -> None:
    original, other = recorded(KEYS, PLACES), recorded(KEYS[ORDER], PLACES[ORDER])
    names = {("copy", 0), ("copy", 1)}
    unordered = find_unordered(original, other, ParameterTypes(), names)
    assert compare_trials(original, recorded(KEYS[::-1], PLACES[::-1]), unordered=unordered).equal
    apart = compare_trials(original, recorded(KEYS[::-1], PLACES), unordered=unordered)
    assert apart.reason == "copy 0 and copy 1: words that belong together are separated"
    independent = find_unordered(original, recorded(KEYS[ORDER], PLACES[::-1]), ParameterTypes(), names)
    assert compare_trials(original, recorded(KEYS[::-1], PLACES), unordered=independent).equal


def test_words_stay_in_their_bucket() -> None:
    """Buckets of 4 and 5 words, of which the first of the second one comes first in every order; a third run leaves no
    border in the middle of the first one, where both others have the same two words."""
    original = np.array([1, 2, 3, 4, 10, 11, 12, 13, 14], np.uint32)
    orders = [recorded(original[order]) for order in ([1, 0, 3, 2, 4, 7, 6, 5, 8], [3, 2, 1, 0, 4, 8, 5, 7, 6])]
    unordered = find_unordered(recorded(original), orders[0], None, {("copy", 0)}, orders[1:])
    for place, equal in (([3, 0, 2, 1, 8, 7, 6, 5, 4], True), ([0, 1, 2, 5, 4, 3, 6, 7, 8], False)):
        comparison = compare_trials(recorded(original), recorded(original[place]), unordered=unordered)
        assert comparison.equal is equal and ("at places that no order gives" in comparison.reason) is not equal


@pytest.mark.parametrize("use", ["_Z1kP15HIP_vector_typeIjLj2EE", "_Z1kP4Pair"])
def test_words_of_a_structure_stay_together(use: str) -> None:
    rows = np.stack([KEYS, PLACES], axis=1)
    original, other = recorded(rows, use=use), recorded(rows[ORDER], use=use)
    unordered = find_unordered(original, other, ParameterTypes(), {("copy", 0)})
    assert compare_trials(original, recorded(rows[::-1], use=use), unordered=unordered).equal
    swapped = np.stack([KEYS, PLACES[ORDER]], axis=1)
    assert not compare_trials(original, recorded(swapped, use=use), unordered=unordered).equal
    assert find_unordered(original, other, None, {("copy", 0)}) == unordered
    plain = find_unordered(recorded(rows), recorded(rows[ORDER]), ParameterTypes(), {("copy", 0)})
    assert plain == UnorderedOutputs(frozenset({("copy", 0)}))


PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <hip/hip_bf16.h>
#include <vector>
__device__ float kept[64];
__device__ const float* place;
__global__ void scale(const float* x, __hip_bfloat16* y, int* at, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  y[i] = __float2bfloat16(FACTOR * x[i]);
  at[i] = 100000000 + i INDEX;
  kept[i % 64] = STORED;
  place = x;
}
int main() {
  const int n = 1024;
  std::vector<float> x(n);
  for (int i = 0; i < n; ++i) x[i] = 1 + i % 512;
  float* in;
  __hip_bfloat16* out;
  int* at;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 2) || hipMalloc(&at, n * 4)) return 1;
  (void)hipMemcpy(in, x.data(), n * 4, hipMemcpyHostToDevice);
  scale<<<n / 64, 64>>>(in, out, at, n);
  return hipDeviceSynchronize() != hipSuccess;
}
"""


def write(factor: str = "2", index: str = "", stored: str = "1") -> str:
    return PROGRAM.replace("FACTOR", factor).replace("INDEX", index).replace("STORED", stored)


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (write("(1.0f + 1.0f)"), ""),
        (write("(i % 2 ? 2 : 1.7f)"), "buffer 1 of 2048 bytes differs by 0.15 of its largest number"),
        (write(index="+ 1"), "buffer 2 of 4096 bytes differs"),
        (write(stored="3"), "a variable of the device of 256 bytes differs"),
    ],
    ids=["the same", "bfloat16", "integers", "a variable"],
)
def test_each_output_is_compared_by_its_type(changed: str, reason: str) -> None:
    program = read_program(write(), TARGET.arch, TARGET.flags)
    verifier = prepare_verifier(program, TARGET, [()])
    check = verifier.quick(changed)
    assert check.passed == (not reason) and reason in check.detail


def test_floats_with_few_patterns_are_no_halves() -> None:
    """Moved by their own last bit, whole numbers stay nearly what they are; taken for halves, they move by 1 %."""
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    plain = run_trial(write(), TARGET, conditions)
    known = (KnownElements(0, 4096, program_types().classify(plain.outputs[-3])),)
    assert known[0].elements is Elements.FLOATS
    moved = run_trial(write(), TARGET, replace(conditions, nudge=21, elements=known))
    inputs = [
        np.frombuffer(trial.recorded[n], np.float32)
        for trial in (plain, moved)
        if trial.recorded is not None
        for n, output in enumerate(trial.outputs)
        if (output.kind, output.index) == ("buffer", 0)
    ]
    assert 0 < np.abs(inputs[1] / inputs[0] - 1).max() < 2e-7


def program_types() -> ParameterTypes:
    types = program_tolerance(read_program(write(), TARGET.arch, TARGET.flags)).types
    assert types is not None
    return types
