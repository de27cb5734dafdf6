"""Divisions by numbers that a launch shares: which become multiplications, that quotients are exact, and what stays."""

from __future__ import annotations

import re
from pathlib import Path

import needs
import pytest

from hipsynth.core.reasons import Reason
from hipsynth.toolchain import compile_device
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator, KernelTime
from hipsynth.tuning.optimize.search import Search
from hipsynth.tuning.optimize.source_changes.fast_division import list_changes
from hipsynth.tuning.trial import Conditions, run_trial, target_of

TEXT = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
constexpr int kPlanes = 3;

__global__ void place(const float* in, float* out, int width, int height, const int stride) {
  const int columns = (width - 1) / stride + 1, rows = height / 2;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= columns * rows * kPlanes) return;
  const int x = i % columns, y = i / columns % rows, plane = i / (rows * columns);
  out[i] = in[(plane * height + y * 2) * width + x * stride];
}

int main(int argc, char** argv) {
  const int side = argc > 1 ? atoi(argv[1]) : 96;
  int high = side + 2;
  std::vector<float> x(kPlanes * side * high, 1.5f);
  float *in, *out;
  if (hipMalloc(&in, x.size() * 4) || hipMalloc(&out, x.size() * 4)) return 1;
  (void)hipMemcpy(in, x.data(), x.size() * 4, hipMemcpyHostToDevice);
  place<<<(x.size() + 255) / 256, 256>>>(in, out, side, high, 2);
  return hipDeviceSynchronize();
}
"""


def change(text: str, arch: str = "gfx942", name: str = "place") -> list[str]:
    run = KernelTime(name, 1000.0, 1, "valu", "", (1, 1, 1), (256, 1, 1), True)
    timed = CandidateMeasurement("ok", Reason.NONE, "", 0, (run,), 1.0)
    return [each.text for each in list_changes(read_program(text, arch), timed, target_of(arch))]


def test_the_host_passes_the_divisors() -> None:
    (changed,) = change(TEXT)
    assert "columns = by_stride.quotient(width - 1) + 1, rows = height / 2;" in changed, "a constant is divided by fast"
    assert "x = by_columns.remainder(i)" in changed
    assert "y = by_rows.remainder(by_columns.quotient(i)), plane = by_rows_columns.quotient(i);" in changed
    assert "const int stride, Divisor by_stride" in changed
    assert "(in, out, side, high, 2, Divisor(2), Divisor((side - 1) / 2 + 1)" in changed
    assert "UnsignedDivisor" not in changed


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("argument", ["96", "131"])
def test_the_program_does_the_same_in_fewer_instructions(argument: str, arch: str) -> None:
    needs.simulator()
    needs.compiler()
    (changed,) = change(TEXT, arch)
    conditions = Conditions((argument,), exact=True, record_bytes=1 << 22)
    before, after = (run_trial(text, target_of(arch), conditions) for text in (TEXT, changed))
    assert before.ok and after.ok and before.outputs == after.outputs
    assert 2 * after.kernels[0].counters["SQ_INSTS_VALU"] < before.kernels[0].counters["SQ_INSTS_VALU"]


EXACT = r"""
#include <hip/hip_runtime.h>
#include <climits>
#include <cstdint>
#include <type_traits>
#include <vector>
using Number = TYPE;
__global__ void divide(const TYPE* numbers, TYPE* quotients, TYPE* rests, TYPE divisor) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  quotients[i] = numbers[i] / divisor;
  TYPE rest = numbers[i];
  rest %= divisor;
  rests[i] = rest;
}
int main() {
  const Number divisors[] = {DIVISORS};
  using Bits = std::make_unsigned_t<Number>;
  std::vector<Number> numbers = {0, 1, 2, 3};
  const uint64_t ends[] = {0x7fffffffull, 0xffffffffull, 0x7fffffffffffffffull, ~0ull};
  for (uint64_t end : ends)
    for (int more : {0, 1}) numbers.push_back(static_cast<Number>(static_cast<Bits>(end + more)));
  for (Number divisor : divisors)
    for (unsigned k : {1u, 2u, 12345u, 65535u})
      for (int near : {-1, 0, 1}) numbers.push_back(static_cast<Number>(static_cast<Bits>(divisor) * k + near));
  while (numbers.size() < 1024) {
    const uint64_t drawn = numbers.size() * 0x9e3779b97f4a7c15ull >> (64 - 8 * sizeof(Number));
    numbers.push_back(static_cast<Number>(static_cast<Bits>(drawn)));
  }
  numbers.resize(1024);
  const size_t bytes = sizeof(Number) * numbers.size();
  std::vector<Number> q(numbers.size()), r(numbers.size());
  Number *in, *quotients, *rests;
  if (hipMalloc(&in, bytes) || hipMalloc(&quotients, bytes) || hipMalloc(&rests, bytes)) return 1;
  (void)hipMemcpy(in, numbers.data(), bytes, hipMemcpyHostToDevice);
  for (Number divisor : divisors) {
    divide<<<4, 256>>>(in, quotients, rests, divisor);
    (void)hipMemcpy(q.data(), quotients, bytes, hipMemcpyDeviceToHost);
    (void)hipMemcpy(r.data(), rests, bytes, hipMemcpyDeviceToHost);
    for (size_t i = 0; i < numbers.size(); ++i) {
      const __int128 wide = numbers[i], by = divisor;
      if (q[i] != static_cast<Number>(wide / by) || r[i] != static_cast<Number>(wide % by)) return 2;
    }
  }
  return 0;
}
"""
DIVISORS = {
    "int": "1, 2, 3, 7, 10, 641, 1000, 65535, 65536, 65537, 1 << 30, INT_MAX - 1, INT_MAX, -1, -2, -7, -65536, INT_MIN",
    "unsigned": "1, 2, 3, 7, 10, 641, 65535, 65536, 1u << 30, INT_MAX, 1u << 31, (1u << 31) + 1, UINT_MAX",
}


DIVISORS["long"] = (
    f"{DIVISORS['int']}, 1l << 32, (1l << 32) + 1, 1000000007l * 998244353l, LONG_MAX, -LONG_MAX, LONG_MIN"
)
DIVISORS["unsigned long"] = f"{DIVISORS['unsigned']}, 1ul << 32, 1000000007ul * 998244353ul, 1ul << 63, ULONG_MAX"
NAMES = {
    "int": "Divisor", "unsigned": "UnsignedDivisor", "long": "LongDivisor", "unsigned long": "UnsignedLongDivisor"
}  # fmt: skip


@pytest.mark.parametrize("kind", DIVISORS)
def test_quotients_are_exact_for_all_numbers(kind: str) -> None:
    needs.simulator()
    needs.compiler()
    (changed,) = change(EXACT.replace("TYPE", kind).replace("DIVISORS", DIVISORS[kind]), name="divide")
    assert f"{NAMES[kind]} by_divisor) {{" in changed and "  rest = by_divisor.remainder(rest);" in changed
    assert "quotients[i] = by_divisor.quotient(numbers[i]);" in changed
    assert run_trial(changed, target_of("gfx942"), Conditions(exact=True)).exit_code == 0


def count_instructions(text: str, folder: Path) -> int:
    """The instructions of a program's kernel, without waits."""
    (folder / "one.hip").write_text(text)
    disassembly = compile_device(folder / "one.hip", "gfx942", "-O3", folder / "out").disassembly.read_text()
    body = disassembly.partition("<_Z6divide")[2].partition("s_endpgm")[0]
    return len(re.findall(r"(?m)^\s+(?!s_nop|s_waitcnt)[vs]_", body))


def test_a_quotient_takes_a_third_of_the_instructions(tmp_path: Path) -> None:
    needs.compiler()
    text = EXACT.replace("TYPE", "int").replace("DIVISORS", "7").replace("  rest %= divisor;\n", "")
    changed, sums = change(text, name="divide")[0], text.replace("numbers[i] / divisor", "numbers[i] + divisor")
    before, after, neither = (count_instructions(each, tmp_path) for each in (text, changed, sums))
    assert (before - neither, after - neither) == (25, 7)


def expression(text: str, before: str = "") -> str:
    """The program with another place to read from."""
    return TEXT.replace("(plane * height + y * 2) * width + x * stride", text).replace(
        "  out[i] =", f"{before}  out[i] ="
    )


WRITTEN = {
    "(unsigned)i / width": "by_width.quotient((unsigned)i)",
    "i - i / width": "i - by_width.quotient(i)",
    "(i + 1) % (width * 2)": "by_width.remainder(i + 1)",
    "2 * i / width * height": "by_width.quotient(2 * i) * height",
    "min(i / width, 5 % height)": "min(by_width.quotient(i), by_height.remainder(5))",
    "static_cast<unsigned>(i / width) % height": "by_height.remainder(static_cast<unsigned>(by_width.quotient(i)))",
    "(int64_t)i / width": "by_width.quotient((int64_t)i)",
    "static_cast<size_t>(i) % (height * (size_t)width)": "by_height_width.remainder(static_cast<size_t>(i))",
    "(i + x / width) / (i % height + 1)": "(i + by_width.quotient(x)) / (by_height.remainder(i) + 1)",
}


@pytest.mark.parametrize("place", WRITTEN)
def test_expressions_keep_their_form(place: str) -> None:
    (changed,) = change(expression(place))
    assert f"in[{WRITTEN[place]}];" in changed


STAYS = {
    "a number of the work-item": expression("i / (x + 1)"),
    "a constant of the file": expression("i / kPlanes"),
    "floating-point numbers": expression("int(in[i] / width)"),
    "a cast to a type of the program's": expression("(Place)i / width").replace(
        "constexpr", "using Place = char;\nconstexpr"
    ),
    "a negative number without a sign": expression("-(unsigned)i / width"),
    "what a template returns": expression("twice<long long>(i) / width").replace(
        "__global__", "template <typename T> __device__ T twice(T x) { return 2 * x; }\n__global__"
    ),
    "a divisor with a fraction": expression("static_cast<int>(i / wide)", "  const auto wide = width + 0.5;\n"),
    "a parameter that changes": expression("i / width", "  width += 1;\n"),
    "a variable that changes": expression("i / near", "  int near = width;\n  ++near;\n"),
    "a variable whose address is taken": expression("i / near", "  int near = width;\n  atomicAdd(&near, 1);\n"),
    "a type that cuts values": expression("i / low", "  const unsigned char low = width;\n"),
    "what a function returns": expression("i / abs(width)"),
    "an assignment that is an expression": expression("i /= width"),
}


@pytest.mark.parametrize("what", STAYS)
def test_other_divisions_stay(what: str) -> None:
    (changed,) = change(STAYS[what])
    ours, theirs = (next(line for line in text.splitlines() if "out[i] =" in line) for text in (changed, STAYS[what]))
    assert ours == theirs


UNCHANGED = {
    "an argument with an effect": TEXT.replace("side, high, 2", "side, high++, 2"),
    "an argument that calls a function": TEXT.replace("side, high, 2", "side, std::max(high, 1), 2"),
    "a declaration ahead": TEXT.replace(
        "__global__", "__global__ void place(const float*, float*, int, int, const int);\n__global__", 1
    ),
    "a launch elsewhere": TEXT.replace("  place<<<(x.size() + 255) / 256, 256>>>(in, out, side, high, 2);\n", ""),
    "a name of the program's own": TEXT.replace("constexpr int kPlanes", "struct Divisor {};\nconstexpr int kPlanes"),
}


@pytest.mark.parametrize("what", UNCHANGED)
def test_programs_of_other_forms_are_left_alone(what: str) -> None:
    assert change(UNCHANGED[what]) == []


def test_arguments_have_the_type_of_the_parameter_where_it_matters() -> None:
    (changed,) = change(TEXT.replace("const int side =", "const long side ="))
    assert "Divisor((static_cast<int>(side) - 1) / 2 + 1)" in changed


CUT = "static_cast<int>(side) * 2"


@pytest.mark.parametrize(
    ("kind", "expected"),
    [("double", CUT), ("auto", CUT), ("float", CUT), ("long", "side * 2"), ("std::size_t", "side * 2")],
)
def test_fractions_of_arguments_are_cut_before_products(kind: str, expected: str) -> None:
    """A parameter of 7 that gets 7.5 is 14 when it is doubled."""
    (changed,) = change(expression("i % (width * 2)").replace("const int side =", f"const {kind} side ="))
    assert f"Divisor({expected})" in changed


def test_wide_arguments_are_cut_before_wide_products() -> None:
    """A parameter of 32 bits that gets 2^32 + 3 is 3, also in a product of 64 bits."""
    (changed,) = change(expression("i % ((int64_t)width * 2)").replace("const int side =", "const long side ="))
    assert "LongDivisor((int64_t)static_cast<int>(side) * 2)" in changed


def test_wide_arguments_are_cut_before_wide_divisions() -> None:
    (changed,) = change(expression("(int64_t)i / width").replace("const int side =", "const long side ="))
    assert "LongDivisor(static_cast<int>(side))" in changed
    (changed,) = change(expression("(int64_t)i / width"))
    assert "LongDivisor(side)" in changed


def test_numbers_of_64_bits_have_divisors_of_64_bits() -> None:
    text = expression("rest", "  long long rest = i;\n  rest /= height * (int64_t)width;\n")
    (changed,) = change(text)
    assert "rest = by_height_width.quotient(rest);" in changed and "LongDivisor by_height_width) {" in changed
    assert "LongDivisor(high * (int64_t)side));" in changed and "return number / value;" in changed


def test_numbers_on_the_host_have_the_kernels_types() -> None:
    """A product of parameters of 64 bits is one on the host, too, and a variable's type counts."""
    text = expression(
        "i / area + i / less", "  const unsigned less = width - height;\n  const long area = width * wide;\n"
    )
    text = text.replace("const int stride)", "const int stride, long wide)").replace(
        "side, high, 2)", "side, high, 2, high)"
    )
    (changed,) = change(text)
    assert "in[by_area.quotient(i) + by_less.quotient(i)]" in changed
    assert "LongDivisor(side * static_cast<long>(high))" in changed
    assert "UnsignedDivisor(static_cast<unsigned>(side - high))" in changed


def test_a_narrow_parameter_is_no_divisor() -> None:
    (changed,) = change(expression("i / width").replace("int width", "short width"))
    assert "in[i / width]" in changed


class DivisionTimes(Evaluator):
    """Divisions take time only once a lane executes several work-items."""

    def __init__(self) -> None:
        self.target = target_of("gfx942")

    def __call__(self, text: str) -> CandidateMeasurement:
        ns = 100.0 if "at_x <" not in text else 50.0 if "Divisor" not in text else 40.0
        run = KernelTime("place", ns, 1, "latency", "", (108, 1, 1), (256, 1, 1), True)
        return CandidateMeasurement("ok", Reason.NONE, "", 0, (run,), 1.0)


def test_divisions_are_tried_again_below_the_plans_of_the_fastest_program() -> None:
    passed = VerificationCheck("outputs_equal", True)
    search = Search(read_program(TEXT, "gfx942"), DivisionTimes(), lambda text: passed, lambda text: None, 60.0)
    fastest = search.run()[0]
    assert fastest.found.duration_ns == 40.0
    assert {"by_columns.remainder(", "place_item(", "at_x <"} <= {
        *re.findall(r"by_\w+\.\w+\(|place_item\(|at_x <", fastest.text)
    }
    tries = [step for step in search.steps if step.transformation == "fast_division"]
    assert [step.kept for step in tries] == [False, True] and tries[1].before_ns == 50.0


DIGITS = EXACT.replace(
    "  quotients[i] = numbers[i] / divisor;\n  TYPE rest = numbers[i];\n  rest %= divisor;\n  rests[i] = rest;\n",
    "  TYPE rest = numbers[i];\n  rests[i] = rest % divisor; rest /= divisor;\n  quotients[i] = rest;\n",
)


@pytest.mark.parametrize("kind", ["long", "unsigned long", "long long"])
def test_digits_of_64_bits_are_taken_one_by_one(kind: str) -> None:
    needs.simulator()
    needs.compiler()
    text = DIGITS.replace("TYPE", kind).replace("DIVISORS", DIVISORS[kind.replace("long long", "long")])
    (changed,) = change(text, name="divide")
    assert "rests[i] = by_divisor.take_digit(rest);\n  quotients[i] = rest;" in changed
    trial = run_trial(changed, target_of("gfx942"), Conditions(exact=True))
    assert trial.ok and trial.exit_code == 0, trial.message


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rests[i] = rest % divisor;", "if (i) rests[i] = rest % divisor;"),
        ("rests[i] = rest % divisor;", "rests[i] = i ? rest % divisor : 0;"),
        ("rests[i] = rest % divisor;", "rests[i] = !i ? 0 : rest % divisor;"),
        ("rests[i] = rest % divisor;", "rests[i] = rest % divisor + rest;"),
        ("rests[i] = rest % divisor;", "for (int k = 0; k < 2; ++k) rests[i] = rest % divisor;"),
        ("rest /= divisor;", "if (i) rest /= divisor;"),
        ("rest /= divisor;", "rest /= divisor + 1;"),
        ("TYPE rest = numbers[i]", "int rest = numbers[i]"),
    ],
)
def test_other_remainders_leave_the_number(before: str, after: str) -> None:
    assert before in DIGITS
    text = DIGITS.replace(before, after).replace("TYPE", "long").replace("DIVISORS", "7")
    (changed,) = change(text, name="divide")
    assert "take_digit" not in changed and ".remainder(rest)" in changed
