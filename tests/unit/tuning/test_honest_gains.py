"""Programs that are faster because they cheat: each check of docs/explanation/honest-gains.md catches its kind."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from hipsynth.core.documents import document_json
from hipsynth.core.errors import BadInput
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, measurement_of_trial
from hipsynth.tuning.optimize.transformation_plan import TransformationPlan
from hipsynth.tuning.optimize.verification.check_sizes import candidate_arguments, divide_sizes, draw_edges
from hipsynth.tuning.optimize.verification.checks import _list_larger, check_outside_kernels, check_precision
from hipsynth.tuning.optimize.verification.repeated_runs import check_repeated_calls
from hipsynth.tuning.optimize.verification.support import run_both
from hipsynth.tuning.optimize.verification.timed_size import (
    _compare_growth,
    _compare_in_full,
    _list_between,
    check_timed_size,
)
from hipsynth.tuning.optimize.verification.verify import Verification, Verifier
from hipsynth.tuning.trial import Tolerance, run_trial, target_of
from hipsynth.tuning.trial.source_constants import ConstantSetting

PROGRAM = r"""
#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <vector>
__global__ void smooth(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = i + 1 < n ? in[i] * 0.5f + in[i + 1] : 0.0f;
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  std::vector<float> host(n), back(n);
  for (int i = 0; i < n; ++i) host[i] = 0.25f * i;
  float *in, *out;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  smooth<<<(n + 63) / 64, 64>>>(in, out, n);
  smooth<<<(n + 63) / 64, 64>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);
  return back[0] < 0;
}
"""
BODY = "if (i < n) out[i] = i + 1 < n ? in[i] * 0.5f + in[i + 1] : 0.0f;"
LAUNCH = "  smooth<<<(n + 63) / 64, 64>>>(in, out, n);\n"
DOC = Path(__file__).parents[3] / "docs" / "explanation" / "honest-gains.md"


@pytest.fixture(scope="module")
def verifier() -> Verifier:
    return Verifier(PROGRAM, target_of("gfx942"), [("250",), ("300",)], Tolerance("float", 2e-5, "a test"))


def body(text: str) -> str:
    assert BODY in PROGRAM
    return PROGRAM.replace(BODY, text)


# What a cheating program does -> its text, the check that fails, and a part of the reason.
CHEATS = {
    "answers that are part of the program": (
        body("if (i < n) out[i] = i + 1 < n ? 0.375f * i + 0.25f : 0.0f;"),
        "other_inputs",
        "differs",
    ),
    "work of the device done by the host": (
        PROGRAM.replace(LAUNCH, "").replace(
            "  (void)hipMemcpy(back.",
            "  for (int i = 0; i < n; ++i) back[i] = i + 1 < n ? host[i] * 0.5f + host[i + 1] : 0.0f;\n"
            "  (void)hipMemcpy(out, back.data(), n * 4, hipMemcpyHostToDevice);\n"
            "  smooth<<<1, 64>>>(in, out, 0);\n  smooth<<<1, 64>>>(in, out, 0);\n  (void)hipMemcpy(back.",
        ),
        "outside_kernels",
        "which only kernels of the original write",
    ),
    "work of the device done by the host in device memory": (
        PROGRAM.replace(LAUNCH, "").replace(
            "  (void)hipMemcpy(back.",
            "  for (int i = 0; i < n; ++i) out[i] = i + 1 < n ? in[i] * 0.5f + in[i + 1] : 0.0f;\n"
            "  smooth<<<1, 64>>>(in, out, 0);\n  smooth<<<1, 64>>>(in, out, 0);\n  (void)hipMemcpy(back.",
        ),
        "outside_kernels",
        "the host writes device memory",
    ),
    "a copy or fill by the runtime, whose time is not counted": (
        PROGRAM.replace(
            LAUNCH, LAUNCH + "  (void)hipMemcpy(out + n / 2, out + n / 2, n, hipMemcpyDeviceToDevice);\n", 1
        ),
        "outside_kernels",
        "copies and fills move more",
    ),
    "work that is the same in each round made once before them": (
        PROGRAM.replace(LAUNCH + LAUNCH, LAUNCH + 2 * LAUNCH.replace(", n);", ", 0);")),
        "repeated_launches",
        "differs",
    ),
    "a launch left out": (PROGRAM.replace(LAUNCH, "", 1), "repeated_launches", "fewer kernels"),
    "part of the output left out": (body(BODY.replace("i < n", "i < n / 2", 1)), "outputs_equal", "differs"),
    "a narrower type within the tolerance": (
        body(BODY.replace("in[i] * 0.5f", "(float)(_Float16)((_Float16)in[i] * (_Float16)0.5f)")),
        "precision",
        "halves",
    ),
    "less precision outside the tolerance": (
        body("if (i < n) out[i] = i + 1 < n ? (float)(int)(in[i] * 0.5f + in[i + 1]) : 0.0f;"),
        "outputs_equal",
        "differs by",
    ),
    "zeros that new memory holds by chance": (
        body("if (i + 1 < n) out[i] = in[i] * 0.5f + in[i + 1];"),
        "stale_memory",
        "differs",
    ),
    "a tail that nothing writes, at some sizes": (
        body("if (i + 1 < n || (n == 250 && i < n)) out[i] = i + 1 < n ? in[i] * 0.5f + in[i + 1] : 0.0f;"),
        "stale_memory",
        "differs",
    ),
    "one size only": (
        body("if (i < n && (n == 250 || i > 280)) out[i] = i + 1 < n ? in[i] * 0.5f + in[i + 1] : 0.0f;"),
        "other_sizes",
        "differs",
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_cheating_program_is_caught(verifier: Verifier, cheat: str) -> None:
    text, name, reason = CHEATS[cheat]
    assert text != PROGRAM
    found = verifier.full(text)
    failed = [check for check in found.checks if check.passed is False]
    assert not found.passed and [check.name for check in failed] == [name], found
    assert reason in failed[0].detail and getattr(found.document(), name) is False


DOUBLES = PROGRAM.replace("float", "double").replace("n * 4", "n * 8").replace("0.5f", "0.5").replace("0.0f", "0.0")
TWICE = "if (i < n) { out[i] = fma(in[i], in[i], fma(in[i], 3.0, 1.0)); out[i] = in[i] + 1.0; }"


@pytest.mark.parametrize(
    ("changed", "passed"),
    [
        (TWICE.replace("out[i] = fma(in[i], in[i], fma(in[i], 3.0, 1.0)); ", ""), True),
        (
            TWICE.replace("fma(in[i], in[i], fma(in[i], 3.0, 1.0))", "1.0").replace(
                "in[i] + 1.0", "(float)in[i] + 1.0f"
            ),
            False,
        ),
    ],
)
def test_what_no_longer_calculates_twice_has_not_lost_precision(changed: str, passed: bool) -> None:
    """Half of the arithmetic in doubles is gone from both; only the second one has floats instead."""
    assert BODY.replace("0.5f", "0.5").replace("0.0f", "0.0") in DOUBLES
    original = DOUBLES.replace(BODY.replace("0.5f", "0.5").replace("0.0f", "0.0"), TWICE)
    checked = Verifier(original, target_of("gfx942"), [("250",)], Tolerance("double", 1e-6, "a test"))
    check = check_precision(checked, original.replace(TWICE, changed))
    assert check.passed is passed and ("floats where" in check.detail) is not passed


SUMS = """__global__ void squares(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  double sum = 0.0;
  for (int k = 0; k < 8; ++k) { double x = i + k < n ? in[i + k] : 0.0f; sum += x * x; }
  if (i < n) out[i] = sum;
}
__global__ void cubes(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  double sum = 0.0;
  for (int k = 0; k < 99; ++k) { double x = i + k < n ? in[i + k] : 0.0f; sum += x * x * x; }
  if (i < n) out[i] += sum;
}
"""
BOTH_SUMS = "".join(LAUNCH.replace("smooth", name) for name in ("squares", "cubes"))
SUMMING = PROGRAM.replace("int main", f"{SUMS}int main").replace(LAUNCH, LAUNCH + BOTH_SUMS, 1)


def test_precision_is_that_of_each_kernel() -> None:
    """The second of three kernels has a small part of the program's doubles."""
    target, tolerance = target_of("gfx942"), Tolerance("float", 2e-5, "a test")
    checked = Verifier(SUMMING, target, [("250",)], tolerance)
    narrower = SUMMING.replace("double sum", "float sum", 1).replace("double x", "float x", 1)
    assert narrower.count("double") == SUMMING.count("double") - 2
    check = check_precision(checked, narrower)
    assert check.passed is False and "floats where" in check.detail
    assert check_precision(checked, SUMMING.replace("sum += x * x;", "sum = fma(x, x, sum);")).passed


SKIPS = body(BODY.replace("i < n", "i < (n > 1000 ? 64 : n)", 1))


def timed(text: str) -> CandidateMeasurement:
    return measurement_of_trial(run_trial(text, target_of("gfx942")))


def test_less_work_at_the_size_that_is_timed_is_caught(verifier: Verifier) -> None:
    """Small sizes are right: only a run at the timed size shows that most of the work is left out there."""
    before, after = timed(PROGRAM), timed(SKIPS)
    found = verifier.full(SKIPS, (before, after))
    assert not found.passed and found.failure.startswith("timed_size: arguments none: ") and "differs" in found.failure
    long = replace(before, exact_s=1e3)  # as if outputs could not be compared there
    assert "timed_size: at the size that is timed" in verifier.full(SKIPS, (long, after)).failure
    honest = verifier.full(PROGRAM, (long, before))
    assert honest.passed and honest.document().timed_size is True


PRODUCT = r"""#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void product(const float* a, const float* b, float* c, int n) {
  const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
  if (row < n && col < n) {
    float sum = 0;
    for (int k = 0; k < n; ++k) sum += a[row * n + k] * b[k * n + col];
    c[row * n + col] = sum;
  }
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 256;
  std::vector<float> host(n * n);
  for (int i = 0; i < n * n; ++i) host[i] = 0.25f * (i * 7 % 13) - 1;
  float *a, *b, *c;
  if (hipMalloc(&a, n * n * 4) || hipMalloc(&b, n * n * 4) || hipMalloc(&c, n * n * 4)) return 1;
  (void)hipMemcpy(a, host.data(), n * n * 4, hipMemcpyHostToDevice);
  (void)hipMemcpy(b, host.data(), n * n * 4, hipMemcpyHostToDevice);
  product<<<dim3((n + 15) / 16, (n + 15) / 16), dim3(16, 16)>>>(a, b, c, n);
  (void)hipMemcpy(host.data(), c, n * n * 4, hipMemcpyDeviceToHost);
  return 0;
}
"""


@pytest.mark.parametrize("cheat", [False, True], ids=["honest", "fewer elements"])
def test_tiles_that_small_sizes_do_not_fill_are_no_less_work(cheat: bool) -> None:
    """A tile of 128 x 128 makes most of its loads at 24 x 24 for nothing: a size between decides."""
    plan = TransformationPlan(tile=(8, 8, 8))
    text = emit_program(read_program(PRODUCT, "gfx942"), {"product": plan}, {"product": (16, 16, 1)})
    text = text.replace("k0 < n;", "k0 < (n > 200 ? 8 : n);") if cheat else text
    checked = Verifier(PRODUCT, target_of("gfx942"), [("24",)], Tolerance("float", 1e-5, "a test"))
    before, after = timed(PRODUCT), timed(text)
    long = replace(before, exact_s=1.5 * checked.most_exact_s)  # as if outputs could not be compared there
    small = run_both(checked, text, checked.run_conditions(("24",)))
    assert _compare_growth(small, long, after).endswith("loads")
    checked.timed = (long, after)
    check = check_timed_size(checked, text)
    assert check.passed is not cheat, check
    assert check.detail.endswith(" loads" if cheat else "work grows as the original's")


def test_sizes_between_are_divided_together_or_alone() -> None:
    """A kernel that keeps rows in registers meets rows as long as the timed ones where rows alone are fewer."""
    assert divide_sizes(("8192", "1024", "3"), 4) == ("2048", "256", "3")
    assert divide_sizes(("8192", "1024", "3"), 4, 0) == ("2048", "1024", "3")
    source = SimpleNamespace(original="", most_exact_s=5.0)
    sizes = list(_list_between(source, ("8192", "1024", "3"), 15.0))  # type: ignore[arg-type]
    assert sizes == [("2048", "256", "3"), ("512", "1024", "3"), ("8192", "64", "3")]
    assert list(_list_between(source, ("8192",), 15.0)) == [("2048",)]  # type: ignore[arg-type]


def test_an_honest_program_passes_every_check(verifier: Verifier) -> None:
    found = verifier.full(PROGRAM.replace("(n + 63) / 64, 64", "(n + 127) / 128, 128"))
    assert found.passed and all(check.passed for check in found.checks), found
    assert document_json(found.document()) | {"checks": []} == {
        "outputs_equal": True, "other_inputs": True, "other_sizes": True, "timed_size": None, "precision": True,
        "stale_memory": True, "outside_kernels": True, "races": True, "repeated_launches": True,
        "repeated_calls": True, "moved_memory": True, "waiting": True, "checks": [],
    }  # fmt: skip


@pytest.mark.parametrize(("fills", "passed"), [(1, True), (4, True), (5, False)])
def test_small_fills_are_no_work_outside_kernels(verifier: Verifier, fills: int, passed: bool) -> None:
    text = PROGRAM.replace(LAUNCH, fills * "  (void)hipMemset(out, 0, n * 4);\n" + LAUNCH, 1)
    assert check_outside_kernels(verifier, text).passed is passed


def test_the_docs_list_every_check_and_every_kind_of_cheat() -> None:
    page = DOC.read_text()
    assert not [cheat for cheat in CHEATS if cheat not in page]
    assert not [name for _, name, _ in CHEATS.values() if f"`{name}`" not in page]


def test_nothing_compared_is_not_verified() -> None:
    none = Verifier(PROGRAM.replace("return back[0] < 0", "return 1"), target_of("gfx942"), [("250",)])
    found = none.full(PROGRAM)
    assert not none.sizes and not found.passed and found.checks[0].passed is None
    assert not Verification(()).passed


# Buffers with room for all products of two numbers, one of which is no large size.
ROOMY = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
__global__ void scale(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = in[i] * 0.3f + 0.1f;
}
int main(int argc, char** argv) {
  const size_t n = argc > 1 ? std::atoi(argv[1]) : 4096, k = argc > 2 ? std::atoi(argv[2]) : 256;
  float *in, *out;
  if (hipMalloc(&in, n * k * k * 4) || hipMalloc(&out, n * k * 4)) return 1;
  (void)hipMemset(in, 0, n * 4);
  float first[4] = {0.5f, 1.5f, 2.5f, 3.5f};
  (void)hipMemcpy(in, first, 16, hipMemcpyHostToDevice);
  scale<<<(n + 63) / 64, 64>>>(in, out, n);
  return hipDeviceSynchronize() != hipSuccess;
}
"""


def test_sizes_whose_outputs_are_not_kept_are_left_out() -> None:
    target, tolerance = target_of("gfx942"), Tolerance("float", 2e-5, "a test")
    sizes = candidate_arguments(ROOMY)
    verifier = Verifier(ROOMY, target, sizes, tolerance)
    assert sizes[0] == ("256", "256") and verifier.sizes[0] == ("64", "256")
    rounded = ROOMY.replace("in[i] * 0.3f + 0.1f", "(in[i] + 0.1f / 0.3f) * 0.3f")
    assert verifier.quick(rounded).passed
    assert not verifier.quick(ROOMY.replace("0.1f;", "0.11f;")).passed
    only_large = Verifier(ROOMY, target, sizes[:1], tolerance)
    assert only_large.sizes == [sizes[0]] and "not kept" in only_large.quick(rounded).detail


def test_both_calls_of_a_main_keep_what_they_leave() -> None:
    """42 MB each, where a run keeps 64."""
    verifier = Verifier(ROOMY, target_of("gfx942"), [("160", "256")], Tolerance("float", 2e-5, "a test"))
    check = check_repeated_calls(verifier, ROOMY.replace("in[i] * 0.3f + 0.1f", "(in[i] + 0.1f / 0.3f) * 0.3f"))
    assert check.passed and check.error > 0, check


FACTORS = """int main(int argc, char** argv) {
  int n = argc > 1 ? atoi(argv[1]) : 1 << 16, radius = argc > 2 ? atoi(argv[2]) : 4;
  float alpha = argc > 3 ? atof(argv[3]) : 1.0f;
}"""


def test_edges_change_one_argument_each() -> None:
    [small, other, scaled] = draw_edges(FACTORS, ("4096", "4"), 7)
    assert 1 <= int(small[0]) <= 7 and small[1:] == ("4", "1.0")
    assert other[0] == "4096" and other[1] in ("3", "5") and scaled == ("4096", "4", "1.5")
    assert draw_edges("int main() {}", (ConstantSetting("N", 64, 64),), 7) == []


def test_larger_sizes_are_those_that_can_be_executed() -> None:
    timed = [SimpleNamespace(exact_s=0.3, arguments=())] * 2
    source = SimpleNamespace(original=FACTORS, timed=timed, most_exact_s=5.0)
    assert list(_list_larger(source)) == [((str(1 << 17), "4"),)]  # type: ignore[arg-type]
    source.most_exact_s = 60.0
    assert list(_list_larger(source)) == [((str(1 << 19), "4"),)]  # type: ignore[arg-type]
    timed[0].exact_s = timed[1].exact_s = 0.01
    assert list(_list_larger(source)) == [((str(1 << 22), "4"), (str(1 << 19), "4"))]  # type: ignore[arg-type]
    source.timed = None
    assert list(_list_larger(source)) == []  # type: ignore[arg-type]


def test_sizes_come_from_the_header_and_the_defaults() -> None:
    assert candidate_arguments(PROGRAM) == [("256",), ("259",), ("64",), ("67",), ()]
    assert candidate_arguments("// check: 96 40\n")[0] == ("96", "40")
    with pytest.raises(BadInput, match="// check"):
        candidate_arguments("// check: 'a\n")
    assert candidate_arguments("", ("file", "4096")) == [
        ("file", "256"), ("file", "259"), ("file", "64"), ("file", "67"), (), ("file", "4096")
    ]  # fmt: skip
    repeated = candidate_arguments("#define WIDTH 4096\nfloat a[WIDTH];\nint main(int argc, char** argv) {}\n", ("20",))
    assert repeated[0] == ("WIDTH := 256",) and ("20", "WIDTH := 256") in repeated and ("16", "WIDTH := 64") in repeated
    cube = "int n = argc > 1 ? std::atoi(argv[1]) : 128, k = argc > 2 ? atoi(argv[2]) : 9;"
    assert candidate_arguments(cube) == [("64", "9"), ("67", "9"), ("16", "9"), ()]
    mixed = "int n = argc > 1 ? std::atoi(argv[1]) : 4096, k = argc > 2 ? atoi(argv[2]) : 128;"
    assert candidate_arguments(mixed)[:2] == [("256", "128"), ("259", "131")]
    assert candidate_arguments(mixed)[4:] == [("256", "64"), ("259", "67"), ()]
    shifted = "int n = argc > 1 ? std::atoi(argv[1]) : 1 << 20, k = argc > 2 ? atoi(argv[2]) : 16;"
    assert candidate_arguments(shifted)[:2] == [("65536", "16"), ("65539", "16")]


# Wavefronts read a word of the LDS while the first one may overwrite it.
RACED = r"""
#include <hip/hip_runtime.h>
__global__ void both(const float* in, float* out) {
  __shared__ float parts[4];
  const int wave = threadIdx.x / 64, lane = threadIdx.x % 64;
  if (lane == 0) parts[wave] = in[wave];
  __syncthreads();
  const float first = parts[0];
  if (lane == 0) parts[wave] = 2 * in[wave];
  __syncthreads();
  out[threadIdx.x] = first + parts[3];
}
int main() {
  float host[256] = {1, 2, 3, 4}, *in, *out;
  if (hipMalloc(&in, 1024) || hipMalloc(&out, 1024)) return 1;
  (void)hipMemcpy(in, host, 1024, hipMemcpyHostToDevice);
  both<<<1, 256>>>(in, out);
  (void)hipMemcpy(host, out, 1024, hipMemcpyDeviceToHost);
  return 0;
}
"""


def test_an_original_whose_waves_race_is_compared_in_the_order_of_its_timing() -> None:
    verifier = Verifier(RACED, target_of("gfx942"), [()], Tolerance("float", 2e-5, "a test"))
    full = replace(verifier.run_conditions(()), count=False)
    ordered = RACED.replace("  if (lane == 0) parts[wave] = 2", "  __syncthreads();\n  if (lane == 0) parts[wave] = 2")
    assert not verifier.check_equal("timed_size", ordered, full).passed
    check = _compare_in_full(verifier, ordered, full)
    assert check.passed and "depend on the order" in check.detail
    assert not _compare_in_full(verifier, ordered.replace("first +", "first + 0.01f +"), full).passed
