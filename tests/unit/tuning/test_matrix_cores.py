"""Matrix instructions for sums of products: which are found, what is written, and that programs do the same."""

from __future__ import annotations

import re

import needs
import numpy as np
import pytest

from hipsynth.synth.generate.matrix import MATRICES
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.transformation_plan import Shape, TransformationPlan
from hipsynth.tuning.optimize.transformations import list_moves
from hipsynth.tuning.optimize.transformations.kernel_view import KernelView
from hipsynth.tuning.optimize.transformations.matrix_cores.matrix_instruction import INSTRUCTIONS
from hipsynth.tuning.optimize.transformations.matrix_cores.product_sums import MatrixRefusal
from hipsynth.tuning.optimize.verification.checks import check_precision
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

PROGRAM = r"""#include <hip/hip_runtime.h>
#include <hip/hip_fp16.h>
#include <hip/hip_bf16.h>
#include <cstdlib>
#include <vector>
using In = INPUT;
using Out = OUTPUT;
__global__ void product(const INPUT* a, const INPUT* b, OUTPUT* c, int m, int n, int depth) {
  const int row = blockIdx.y * blockDim.y + threadIdx.y;
  const int col = blockIdx.x * blockDim.x + threadIdx.x;
BODY
}
int main() {
  const int m = SIZES, batches = 2;
  std::vector<In> ha(batches * m * depth), hb(batches * n * depth);
  std::vector<Out> hc(batches * m * n);
  for (size_t i = 0; i < ha.size(); ++i) ha[i] = (In)(0.25f * (int)(i * 7 % 23) - 1);
  for (size_t i = 0; i < hb.size(); ++i) hb[i] = (In)(0.5f * (int)(i * 5 % 19) - 2);
  In *a, *b;
  Out* c;
  if (hipMalloc(&a, ha.size() * sizeof(In)) || hipMalloc(&b, hb.size() * sizeof(In)) ||
      hipMalloc(&c, hc.size() * sizeof(Out))) return 1;
  (void)hipMemcpy(a, ha.data(), ha.size() * sizeof(In), hipMemcpyHostToDevice);
  (void)hipMemcpy(b, hb.data(), hb.size() * sizeof(In), hipMemcpyHostToDevice);
  (void)hipMemset(c, 0, hc.size() * sizeof(Out));
  product<<<dim3((n + 15) / 16, (m + 15) / 16, GROUPS), dim3(16, 16)>>>(a, b, c, m, n, depth);
  (void)hipMemcpy(hc.data(), c, hc.size() * sizeof(Out), hipMemcpyDeviceToHost);
  return 0;
}
"""
GUARD = "  if (row >= m || col >= n) return;\n"
LOOP = "for (int k = 0; k < depth; ++k) "
SUM = f"{GUARD}  float sum = 0; {LOOP}sum += a[row * depth + k] * b[k * n + col];\n  c[row * n + col] = sum;"
BLOCK: Shape = (16, 16, 1)
ODD = "70, n = 45, depth = 37"


def write(body: str = SUM, kind: str = "float", out: str = "float", sizes: str = ODD, groups: str = "1") -> str:
    words = {"INPUT": kind, "OUTPUT": out, "BODY": body, "SIZES": sizes, "GROUPS": groups}
    return re.sub("|".join(words), lambda word: words[word[0]], PROGRAM)


def make_template(text: str, arguments: str) -> str:
    """A program whose kernel has parameters for its types, which the launch gives."""
    begin, end = text.index("__global__"), text.index("int main")
    kernel = text[begin:end].replace("float", "Sum").replace("const Sum*", "const T*")
    return f"{text[:begin]}template <typename T, typename Sum>\n{kernel}{text[end:]}".replace(
        "product<<<", f"product<{arguments}><<<"
    )


def read(text: str, arch: str = "gfx942") -> ParsedProgram:
    return read_program(text, arch)


def emit(text: str, matrix: Shape = (64, 64, 16), arch: str = "gfx942") -> str:
    return emit_program(read(text, arch), {"product": TransformationPlan(matrix=matrix)}, {"product": BLOCK})


KERNELS = {
    "square": write(sizes="64, n = 64, depth = 64"),
    "odd sizes": write(SUM.replace("c[row * n + col] = sum", "sum *= 2; c[row * n + col] += 2.5f * sum")),
    "shallow": write(sizes="33, n = 65, depth = 3"),
    "A Bt with pointers to rows": write(
        f"{GUARD}  const float* x = a + row * depth;\n  const float* y = b + col * depth;\n"
        f"  float sum = 1.5; {LOOP}sum = fmaf(x[k], y[k], sum);\n  c[row * n + col] = sum;"
    ),
    "At B with local constants": write(
        f"{GUARD}  float sum = 0; {LOOP}{{ const float v = a[k * m + row], w = b[k * n + col]; sum = sum + w * v; }}\n"
        "  float twice = 0; twice += 2 * sum; c[row * n + col] = twice;"
    ),
    "results along rows": write(SUM.replace("c[row * n + col]", "c[col * m + row]")),
    "two sums in batches": write(
        "  const int batch = blockIdx.z;\n" + GUARD + f"  float one = 0, two = 1; {LOOP}{{\n"
        "    one += a[(batch * m + row) * depth + k] * b[(batch * depth + k) * n + col];\n"
        "    two = fmaf(b[(batch * depth + k) * n + col], a[(batch * m + row) * depth + k], two); }\n"
        "  c[(batch * m + row) * n + col] = one - 3 * two;",
        groups="batches",
    ),
    "a template": make_template(write(), "float, float"),
    "a template of halves": make_template(write(SUM.replace("+= a", "+= (float)a"), "_Float16"), "_Float16, float"),
    "scaled by numbers": write(SUM.replace("+= a", "+= row * 2 * a")),
    "bytes with a factor for each column": write(
        SUM.replace(
            "a[row * depth + k] * b[k * n + col]", "a[row * depth + k] * ((float)b[k * n + col] * 0.5f * b[col])"
        ).replace("+= a", "+= (float)a"),
        "signed char",
    ),
    "bytes with a factor for each group": write(
        f"{GUARD}  float sum = 0; {LOOP}{{\n    const float w = (float)b[col * depth + k] * (b[col + k / 8] - 3);\n"
        "    sum += static_cast<float>(a[row * depth + k]) * w; }\n  c[row * n + col] = sum;",
        "signed char",
    ),
    "double": write(SUM.replace("float", "double"), "double", "double"),
    "double of floats": write(SUM.replace("float", "double").replace("+= a", "+= (double)a"), "float", "double"),
    "half": write(
        SUM.replace(
            "a[row * depth + k] * b[k * n + col]", "__half2float(a[row * depth + k]) * __half2float(b[k * n + col])"
        ),
        "__half",
    ),
    "_Float16": write(SUM.replace("+= a", "+= (float)a"), "_Float16"),
    "bfloat16": write(
        f"{GUARD}  float sum = 0; {LOOP}{{ const float v = __bfloat162float(a[row * depth + k]);\n"
        "    sum += v * static_cast<float>(b[col * depth + k]); }\n  c[row * n + col] = sum;",
        "__hip_bfloat16",
    ),
}


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.one_in(3)
def test_programs_do_the_same(name: str, arch: str) -> None:
    """Sums of small numbers are exact in every order."""
    needs.simulator()
    needs.compiler()
    text = emit(KERNELS[name], (64, 32, 16) if arch == "gfx942" else (32, 64, 32), arch)
    assert "__builtin_amdgcn_mfma_" in text
    conditions = Conditions(exact=True, record_bytes=1 << 20)
    runs = [run_trial(one, target_of(arch), conditions) for one in (KERNELS[name], text)]
    assert runs[0].ok and runs[1].ok, runs[1].message
    assert compare_trials(*runs).equal
    counters = runs[1].kernels[0].counters
    kinds = [kind for kind in ("F16", "BF16", "F32", "F64") if counters[f"SQ_INSTS_VALU_MFMA_MOPS_{kind}"]]
    halves = (
        {"half": "F16", "_Float16": "F16", "a template of halves": "F16", "bfloat16": "BF16"}
        if arch == "gfx942"
        else {}
    )
    assert kinds == [halves.get(name, "F64" if "double" in name else "F32")], "gfx90a would flush subnormal halves"


@pytest.mark.parametrize("name", ["float", "double", "_Float16"])
def test_lanes_hold_the_rows_that_the_manuals_say(name: str) -> None:
    instruction = INSTRUCTIONS[name]
    [known] = [one for one in MATRICES.values() if one.builtin == instruction.builtin]
    assert (instruction.side, instruction.each) == (known.side, known.lanes)
    for slice_, part in np.ndindex(instruction.slices, instruction.parts):
        row = eval(instruction.row.replace("/", "//"), {"slice": slice_, "part": part})
        assert row == int(known.row(np.array(slice_), part))


def test_tiles_lie_along_memory_and_lanes_along_results() -> None:
    text = emit(KERNELS["odd sizes"])
    assert "__shared__ float a_tile[64][16 + 4];" in text and "__shared__ float b_tile[16][64 + 4];" in text
    assert "a_next[turn] = row < m && k < depth ? a[row * depth + k] : 0.0f;" in text
    assert "a_tile[wave_y + 16 * down + place][4 * slice + step],\n" in text
    assert "b_tile[4 * slice + step][wave_x + 16 * across + place],\n" in text
    assert "const int row = blockIdx.y * 64 + wave_y + 16 * down + 4 * slice + part;" in text
    rows = emit(KERNELS["results along rows"])
    assert "const int row = blockIdx.y * 64 + wave_y + 16 * down + place;" in rows
    assert "<<<dim3((n + 63) / 64, (m + 63) / 64), dim3(64, 4)>>>" in text


def test_what_depends_on_one_axis_is_computed_as_it_is_staged() -> None:
    text = emit(KERNELS["bytes with a factor for each column"])
    assert "__shared__ float b_tile[16][64 + 4];" in text and "__shared__ float a_tile[64][16 + 4];" in text
    assert "k < depth ? ((float)b[k * n + col] * 0.5f * b[col]) : 0.0f;" in text
    text = emit(KERNELS["bytes with a factor for each group"])
    assert "b_next[turn] = col < n && k < depth ? (float)b[col * depth + k] * (b[col + k / 8] - 3) : 0.0f;" in text


@pytest.mark.parametrize("name", ["half", "bfloat16", "double"])
def test_the_precision_of_what_is_written_is_that_of_the_original(name: str) -> None:
    needs.simulator()
    needs.compiler()
    original = KERNELS[name]
    verifier = prepare_verifier(read(original), target_of("gfx942"), [()])
    assert check_precision(verifier, emit(original, (32, 32, 32))).passed


def test_floats_that_become_halves_are_refused() -> None:
    needs.simulator()
    needs.compiler()
    halves = emit(KERNELS["_Float16"], (32, 32, 32)).replace("const _Float16*", "const float*")
    halves = halves.replace("using In = _Float16", "using In = float").replace("? a[", "? (_Float16)a[")
    halves = halves.replace("? b[", "? (_Float16)b[")
    verifier = prepare_verifier(read(KERNELS["odd sizes"]), target_of("gfx942"), [()])
    check = check_precision(verifier, halves)
    assert check.passed is False and "narrower" in check.detail


REFUSED = {
    "a sum of differences": (SUM.replace(" * b", " - b"), MatrixRefusal.NOT_A_PRODUCT),
    "a scaled product": (SUM.replace("col];", "col] * col;"), "a use of a work-item's own number"),
    "a product of products": (SUM.replace("col];", "col] * b[col];"), "not on the loop"),
    "another sum beside it": (
        f"{GUARD}  float sum = 0, most = 0; {LOOP}{{ sum += a[row * depth + k] * b[k * n + col]; most += 1; }}\n"
        "  c[row * n + col] = sum + most;",
        MatrixRefusal.NOT_A_PRODUCT,
    ),
    "squares": (
        f"{GUARD}  float sum = 0, other = 0; {LOOP}{{ const float v = a[row * depth + k];\n"
        "    sum += v * v; other += v * b[k * n + col]; }\n  c[row * n + col] = sum + other;",
        MatrixRefusal.ONE_AXIS,
    ),
    "an integer sum": (SUM.replace("float sum", "int sum"), MatrixRefusal.SUM_TYPE),
    "a rounded product": (SUM.replace("float sum", "double sum"), MatrixRefusal.ROUNDED_PRODUCT),
    "a wide product": (SUM.replace("+= a", "+= (double)a"), MatrixRefusal.ROUNDED_PRODUCT),
    "a name that is used": (SUM.replace("sum", "slice"), "names that the new code uses"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_sums_are_left_alone(what: str) -> None:
    body, reason = REFUSED[what]
    with pytest.raises(NotUnderstood, match=reason):
        emit(write(body))


def test_a_template_of_several_types_is_left_alone() -> None:
    text = make_template(write(), "float, float")
    other = "  product<double, double><<<1, 64>>>(nullptr, nullptr, nullptr, 0, 0, 0);\n"
    twice = text.replace("  return 0;", f"{other}  return 0;")
    with pytest.raises(NotUnderstood, match=MatrixRefusal.SUM_TYPE):
        emit(twice)


@pytest.mark.parametrize(
    ("kind", "body", "reason"),
    [
        ("_Float16", SUM, MatrixRefusal.ROUNDED_PRODUCT),
        ("double", SUM.replace("+= a", "+= (float)a"), MatrixRefusal.ROUNDED_OPERAND),
        ("int", SUM, MatrixRefusal.ROUNDED_OPERAND),
        ("int", SUM.replace("+= a", "+= (float)a"), MatrixRefusal.ROUNDED_OPERAND),
    ],
)
def test_no_precision_is_lost(kind: str, body: str, reason: MatrixRefusal) -> None:
    """Halves whose products are halves, doubles that become floats, integers that floats do not hold."""
    with pytest.raises(NotUnderstood, match=reason):
        emit(write(body, kind))


def test_tiles_are_offered_where_the_problem_fills_them() -> None:
    found = read(KERNELS["square"])

    def offer(side: int, plan: TransformationPlan | None = None) -> list[Shape | None]:
        grid = (side, side, 1)
        view = KernelView(found, found.kernels[0], plan or TransformationPlan(), "vl1d", grid, BLOCK)
        return [move.plan.matrix for move in list_moves(view) if move.transformation == "matrix_cores"]

    assert offer(1) == []
    assert offer(2) == [(32, 32, 32)]
    assert offer(64)[0] == (64, 32, 16) and offer(256)[0] == (128, 128, 16)
    assert (128, 128, 16) not in offer(64, TransformationPlan(matrix=(128, 128, 16)))
    assert offer(64, TransformationPlan(tile=(4, 4, 16))) == []


def test_it_is_tried_first() -> None:
    found = read(KERNELS["square"])
    view = KernelView(found, found.kernels[0], TransformationPlan(), "vl1d", (64, 64, 1), BLOCK)
    evident = [move.transformation for move in list_moves(view) if move.evident]
    assert evident[:2] == ["matrix_cores", "lds_tile"]
