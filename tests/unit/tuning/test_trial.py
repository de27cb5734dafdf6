"""Trials: digests of what a run leaves behind, inputs drawn again, poisoned allocations, comparisons."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from hipsynth.simulator.observation import Family, Output
from hipsynth.tuning.optimize.verification.support import POISON
from hipsynth.tuning.optimize.verification.timed_size import _find_written
from hipsynth.tuning.trial import Conditions, Tolerance, Trial, compare_trials, run_trial, target_of
from hipsynth.tuning.trial.repeated_main import repeat_main
from hipsynth.tuning.trial.unordered_outputs import permuted_outputs

PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void scale(const float* in, float* out, const int* order, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) BODY
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 256;
  std::vector<float> host(n), back(n);
  std::vector<int> order(n);
  for (int i = 0; i < n; ++i) host[i] = 0.5f * i, order[i] = (i * 7) % n;
  float *in, *out;
  int* index;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4) || hipMalloc(&index, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(index, order.data(), n * 4, hipMemcpyHostToDevice);
  scale<<<(n + 63) / 64, 64>>>(in, out, index, n);
  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);
  (void)hipFree(out);
  std::printf("%d\n", n);
}
"""
TARGET = target_of("gfx942")
EXACT = Conditions(("256",), exact=True, record_bytes=1 << 20)


def run(body: str = "out[i] = 2 * in[order[i]];", conditions: Conditions = EXACT) -> Trial:
    return run_trial(PROGRAM.replace("BODY", body), TARGET, conditions)


@pytest.fixture(scope="module")
def original() -> Trial:
    return run()


def numbers(found: Trial, position: int, kind: type = np.float32) -> np.ndarray:
    assert found.recorded is not None
    return np.frombuffer(found.recorded[position], kind)


def test_outputs_are_copies_in_order_and_buffers_at_their_end(original: Trial) -> None:
    assert original.ok and original.exit_code == 0 and original.stdout == "256\n"
    assert [(o.kind, o.index) for o in original.outputs] == [("copy", 0), ("buffer", 1), ("buffer", 0), ("buffer", 2)]
    copy, out = original.outputs[:2]
    assert copy.digest == out.digest and copy.bytes == copy.recorded == 1024
    order = (np.arange(256) * 7) % 256
    assert (numbers(original, 0) == order.astype(np.float32)).all()
    assert original.kernels[0].metrics and original.duration_ns == original.kernels[0].duration_ns


def test_a_run_without_observation_has_no_outputs() -> None:
    assert run(conditions=Conditions(("256",))).outputs == ()


def test_inputs_drawn_again_keep_their_kind(original: Trial) -> None:
    one, two, again = (run(conditions=replace(EXACT, redraw=s, redraw_integers=True)) for s in (1, 2, 1))
    assert one.outputs == again.outputs and one.outputs[0].digest != two.outputs[0].digest
    before, after = numbers(original, 2), numbers(one, 2)  # the input, at the program's end
    assert (after[1:] != before[1:]).mean() > 0.95
    assert after[0] == 0 and (np.abs(after[1:] / before[1:] - 1) <= 0.25 + 1e-6).all()
    assert sorted(numbers(one, 3, np.int32)) == list(range(256))
    assert (numbers(one, 3, np.int32) != numbers(original, 3, np.int32)).any()
    assert (numbers(one, 0) == 2 * after[numbers(one, 3, np.int32)]).all()


HALVES = "reinterpret_cast<_Float16*>(host.data())[2 * i + PART] = 0.1f * ((2 * i + PART) % 17) - 0.5f"


@pytest.mark.parametrize(("data", "kind"), [
    ("host[i] = 0.1f * (i % 17)", np.float32), ("host[i] = 0.1f * (i % 13) - 0.5f", np.float32),
    ("host[i] = 0.25f * (i % 23) - 1", np.float32),
    (", ".join(HALVES.replace("PART", part) for part in "01"), np.float16),
])  # fmt: skip
def test_numbers_of_few_patterns_are_told_from_halves(data: str, kind: type) -> None:
    text = PROGRAM.replace("host[i] = 0.5f * i", data).replace("BODY", "out[i] = in[i];")
    large = replace(EXACT, redraw=8, family=Family.LARGE)
    before, after = (numbers(run_trial(text, TARGET, each), 2, kind) for each in (EXACT, large))
    ratio = after[before != 0].astype(np.float64) / before[before != 0]
    assert (ratio > 256 * 0.74).all() and (ratio < 256 * 1.26).all()


def test_without_integers_only_floats_are_drawn_again(original: Trial) -> None:
    one = run(conditions=replace(EXACT, redraw=1))
    assert (numbers(one, 3, np.int32) == numbers(original, 3, np.int32)).all()


def test_poison_shows_what_was_not_written() -> None:
    some = "if (i % 2) out[i] = 1;"
    clean, dirty = run(some), run(some, replace(EXACT, poison=0x7FF7A5A5))
    assert not compare_trials(clean, dirty).equal
    assert compare_trials(run(), run(conditions=replace(EXACT, poison=0x7FF7A5A5))).exact


def test_differences_are_named(original: Trial) -> None:
    other = run("out[i] = 2.00001f * in[order[i]];")
    refused = compare_trials(original, other)
    assert not refused.equal and refused.reason == "copy 0 of 1024 bytes differs"
    allowed = compare_trials(original, other, Tolerance("float", 1e-4, "a test"))
    assert allowed.equal and not allowed.exact and 1e-6 < allowed.error < 1e-4
    tight = compare_trials(original, other, Tolerance("float", 1e-7, "a test"))
    assert not tight.equal and "of its largest number" in tight.reason


def test_small_numbers_beside_large_ones_are_compared() -> None:
    """The tolerance is relative to the largest number; it does not cover numbers that are left out."""
    numbers = np.geomspace(1e-4, 1e4, 400, dtype=np.float32)

    def left(values: np.ndarray) -> Trial:
        data = values.astype(np.float32).tobytes()
        return Trial("ok", outputs=(Output("copy", 0, len(data), len(data), data.hex()[-32:]),), recorded={0: data})

    rounding = 1 + 1e-6 * np.sin(np.arange(400))
    allowed = Tolerance("float", 2e-5, "a test")
    assert compare_trials(left(numbers), left(numbers * rounding), allowed).equal
    zeros = np.where(np.arange(400) < 150, 0, numbers * rounding)
    found = compare_trials(left(numbers), left(zeros), allowed)
    assert not found.equal and "many of its small numbers" in found.reason and found.error < 2e-5


def test_what_is_no_number_must_be_equal(original: Trial) -> None:
    nan = run('out[i] = i == 3 ? __builtin_nanf("") : 2 * in[order[i]];')
    found = compare_trials(original, nan, Tolerance("float", 1, "a test"))
    assert not found.equal and "not only in numbers" in found.reason


def test_failures_are_results(original: Trial) -> None:
    broken = run("out[i] = nothing;")
    assert broken.reason == "compile_failed" and "nothing" in broken.message
    outside = run("out[i + 100000] = 1;")
    assert outside.reason == "illegal_access"
    assert "failed: illegal_access" in compare_trials(original, outside).reason


@pytest.mark.parametrize(
    "change, reason",
    [
        ({"exit_code": 1}, "exit code 1"),
        ({"stdout": "x"}, "prints"),
        ({"kernels": ()}, "no kernel"),
        ({"outputs": ()}, "copy 0 is in only one"),
    ],
)
def test_everything_is_compared(original: Trial, change: dict[str, object], reason: str) -> None:
    found = compare_trials(original, replace(original, **change))  # type: ignore[arg-type]
    assert not found.equal and reason in found.reason


def test_more_allocations_are_no_difference(original: Trial) -> None:
    more = replace(original, outputs=(*original.outputs, Output("buffer", 9, 4, 0, "0")))
    assert compare_trials(original, more).exact


def test_memory_lies_elsewhere_and_programs_do_the_same(original: Trial) -> None:
    assert compare_trials(original, run(conditions=replace(EXACT, scatter=7))).exact
    places = "out[i] = float((unsigned long long)(in) >> 12 & 0xfffff);"
    seen = [numbers(run(places, replace(EXACT, scatter=seed)), 0)[0] for seed in (0, 7, 7, 8)]
    assert seen[1] == seen[2] and len(set(seen)) == 3


def test_exact_sums_by_atomics_are_those_of_wider_numbers() -> None:
    body = (
        "{ atomicAdd(&out[i % 2], 0.013f * in[i]); "
        "atomicAdd(reinterpret_cast<double*>(out) + 1 + i % 2, in[i] > 0 ? 1.0 : 0x1p53); }"
    )
    plain = replace(EXACT, arguments=("4096",))
    values = np.float32(0.5) * np.arange(4096, dtype=np.float32)
    terms = (np.float32(0.013) * values).astype(np.float64)
    floats = [np.float32(math.fsum(terms[parity::2])) for parity in (0, 1)]
    double = float(2**53 + 2047)
    rounded, exact = run(body, plain), run(body, replace(plain, exact_sums=True))
    assert [*numbers(exact, 0)[:2]] == floats and numbers(exact, 0, np.float64)[1] == double
    assert [*numbers(rounded, 0)[:2]] != floats and numbers(rounded, 0, np.float64)[1] != double


def test_only_windows_of_a_grid_run() -> None:
    large = Conditions(("65536",), exact=True, record_bytes=1 << 22, count=False, poison=0x7FF7A5A5, one_in=16)
    found = {which: np.isnan(numbers(run("out[i] = 1;", replace(large, which=which)), 0)) for which in (0, 5, 16)}
    assert found[16].sum() == 65536 - 64, "only the first work-group"
    for which in (0, 5):
        written = ~found[which]
        assert written.sum() == 65536 // 16 and written[which * 512 : (which + 1) * 512].all()


def test_what_no_input_was_copied_to_is_poisoned_before_the_first_launch() -> None:
    cleared = PROGRAM.replace("  scale<<<", "  (void)hipMemset(out, 0, n * 4);\n  scale<<<").replace(
        "BODY", "if (i % 2) out[i] = 1;"
    )
    for poisoned in (False, True):
        found = run_trial(cleared, TARGET, replace(EXACT, poison=0x7FF7A5A5, poison_results=poisoned))
        assert bool(np.isnan(numbers(found, 0)[0])) == poisoned and numbers(found, 0)[1] == 1


def test_a_second_call_gets_other_inputs(original: Trial) -> None:
    twice = run(conditions=replace(EXACT, calls=2))
    assert twice.stdout == 2 * original.stdout and twice.exit_code == 0
    copies = [output.digest for output in twice.outputs if output.kind == "copy"]
    assert copies == 2 * [original.outputs[0].digest]
    drawn = run(conditions=replace(EXACT, calls=2, redraw=3))
    assert len({output.digest for output in drawn.outputs if output.kind == "copy"}) == 2


@pytest.mark.parametrize(
    "main", ["int main(int argc, const char* argv[]) {", "auto main() -> int {", "int main(void)\n{"]
)
def test_main_is_found(main: str) -> None:
    text = "#include <hip/hip_runtime.h>\n#include <cstdio>\n__global__ void k() {}\n"
    text += f"{main} const char c = '}}'; std::printf(\"{{%c\", c); /* }} */ if (c) {{ }} }}\n"
    assert run_trial(text, TARGET, Conditions(calls=2)).stdout == "{}{}"


def test_braces_in_comments_and_literals_do_not_end_main() -> None:
    text = repeat_main("int main() {  // }\n  return \"}\"[0] == '}';\n}\nint other;\n")
    assert "return \"}\"[0] == '}';\n  return 0;\n}\nint other;" in text


def test_what_has_no_main_is_not_called_twice() -> None:
    assert repeat_main("int f() { return 1; }") == "" and repeat_main("int main() { return 1;") == ""
    assert run_trial("int f() { return 1; }", TARGET, Conditions(calls=2)).reason == "unsupported"


def test_what_no_window_writes_is_not_compared() -> None:
    """Pieces that both programs write; that only the first group writes; that one program writes, too; and none."""
    poison = [POISON, POISON]

    def recorded(*pieces: list[int]) -> Trial:
        words = np.array(pieces, np.uint32).tobytes()
        return Trial("ok", recorded={0: words})

    nothing = recorded(poison, [1, 2], [3, 4], poison)
    before = recorded([5, 6], poison, poison, poison)
    after = recorded([5, 6], poison, [7, 8], poison)
    ours, theirs = _find_written(nothing, before, after, 0)
    assert ours.tolist() == [True, False, False, False] and theirs.tolist() == [True, False, True, False]


def test_outputs_that_hold_the_same_words_in_another_order() -> None:
    def trial(*words: int) -> Trial:
        data = np.array(words, np.uint32).tobytes()
        return Trial("ok", outputs=(Output("copy", 0, len(data), len(data), data.hex()),), recorded={0: data})

    assert permuted_outputs(trial(1, 2, 3), trial(3, 1, 2)) == {("copy", 0)}
    assert not permuted_outputs(trial(1, 2, 3), trial(1, 2, 3)) and not permuted_outputs(trial(1, 2, 3), trial(1, 2, 2))


def test_a_value_that_a_stream_writes_is_not_the_hosts() -> None:
    copy, write = "  (void)hipMemcpy(back.data()", "  (void)hipStreamWriteValue32(0, out, 7, 0);\n"
    text = PROGRAM.replace("BODY", "out[i] = in[i];").replace(copy, write + copy)
    trial = run_trial(text, TARGET, replace(EXACT, watch=True))
    assert trial.ok and [output.bytes for output in trial.outputs if output.kind == "host_writes"] == [0], trial.message
