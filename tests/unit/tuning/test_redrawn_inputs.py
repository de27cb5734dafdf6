"""Inputs that are drawn again: in which ways they vary, and which of them stay what a program relies on."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hipsynth.simulator.observation import Family
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.verification.checks import _check_families, check_other_inputs
from hipsynth.tuning.optimize.verification.support import first_size
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier
from hipsynth.tuning.trial import Conditions, compare_trials, run_trial, target_of

TARGET = target_of("gfx942")
HEAD = "#include <hip/hip_runtime.h>\n#include <vector>\n"
UPLOAD = "(void)hipMemcpy({0}, host_{0}.data(), host_{0}.size() * sizeof *{0}, hipMemcpyHostToDevice);"


def write_program(body: str, inputs: dict[str, tuple[str, str, str]], result: str = "float", n: int = 512) -> str:
    """A program whose kernel computes `out[i]` in `body`, from inputs: by name their type, count and `[i]`."""
    parameters = ", ".join(f"const {kind}* {name}" for name, (kind, _, _) in inputs.items())
    kernel = (
        f"__global__ void k({parameters}, {result}* out, int n) {{ int i = blockIdx.x * 64 + threadIdx.x; {body} }}"
    )
    lines = [
        f"const int n = {n};",
        f"std::vector<{result}> back(n);",
        f"{result}* out; (void)hipMalloc(&out, n * sizeof *out);",
    ]
    for name, (kind, count, value) in inputs.items():
        lines.append(f"std::vector<{kind}> host_{name}({count});")
        lines.append(f"for (int i = 0; i < {count}; ++i) host_{name}[i] = {value};")
        lines.append(f"{kind}* {name}; (void)hipMalloc(&{name}, ({count}) * sizeof *{name});")
    lines += [UPLOAD.format(name) for name in inputs]
    lines.append("(void)hipMemset(out, 0, n * sizeof *out);")
    lines.append(f"k<<<n / 64, 64>>>({', '.join(inputs)}, out, n);")
    lines.append("(void)hipMemcpy(back.data(), out, n * sizeof *out, hipMemcpyDeviceToHost);")
    main = "\n  ".join(lines)
    return f"{HEAD}{kernel}\nint main() {{\n  {main}\n}}\n"


NUMBERS = ("float", "n", "0.01f * (i * 37 % 1013) - 5")
OTHERS = ("float", "n", "0.01f * (i * 31 % 997) - 3")


@pytest.mark.parametrize("calls", [1, 2])
def test_inputs_are_drawn_alike_in_whatever_order_they_are_uploaded(calls: int) -> None:
    text = write_program("out[i] = a[i] * b[i] + a[i];", {"a": NUMBERS, "b": OTHERS})
    first, second = UPLOAD.format("a"), UPLOAD.format("b")
    other = text.replace(first, "").replace(second, f"{second}\n  {first}")
    drawn = Conditions(exact=True, redraw=11, calls=calls)
    before, after = run_trial(text, TARGET, drawn), run_trial(other, TARGET, drawn)
    assert before.ok and before.outputs != run_trial(text, TARGET, replace(drawn, redraw=0)).outputs
    assert compare_trials(before, after).exact


def verifier_of(text: str, changed: str) -> Verifier:
    """The verifier of a program, which a changed one equals with the program's own inputs."""
    assert changed != text
    verifier = prepare_verifier(read_program(text, TARGET.arch, TARGET.flags), TARGET, [()])
    assert verifier.quick(changed).passed, "it does the same with the program's own inputs"
    return verifier


def check_drawn(text: str, changed: str) -> VerificationCheck:
    """The check of a changed program with inputs that are drawn again."""
    return check_other_inputs(verifier_of(text, changed), changed)


MATRIX = ("float", "64", "0.02f * (i * 31 % 97) - 1")
# by name: the first family that shows it, inputs, what the kernel computes, what it computes if it relies on the values
RELIES_ON_VALUES = {
    "zeros": (
        Family.SCALED,
        {"a": NUMBERS, "bias": ("float", "64", "0")},
        "out[i] = a[i] + bias[i % 64];",
        "out[i] = a[i];",
    ),
    "few equal numbers": (
        Family.SCALED,
        {"a": NUMBERS, "taps": ("float", "7", "0.125f")},
        "float s = 0; for (int k = 0; k < 7; ++k) s += taps[k] * a[(i + k) % n]; out[i] = s;",
        "float s = 0; for (int k = 0; k < 7; ++k) s += a[(i + k) % n]; out[i] = s * taps[0];",
    ),
    "equal lengths": (
        Family.WIDE,
        {"a": NUMBERS, "lengths": ("int", "n", "16")},
        "float s = 0; for (int k = 0; k < lengths[i]; ++k) s += a[(i + k) % n]; out[i] = s;",
        "float s = 0; for (int k = 0; k < 16; ++k) s += a[(i + k) % n]; out[i] = s;",
    ),
    "rows of one length": (
        Family.WIDE,
        {"a": ("float", "4 * n", "0.01f * (i * 37 % 1013) - 5"), "starts": ("int", "n + 1", "4 * i")},
        "float s = 0; for (int k = starts[i]; k < starts[i + 1]; ++k) s += a[k]; out[i] = s;",
        "float s = 0; for (int k = 4 * i; k < 4 * i + 4; ++k) s += a[k]; out[i] = s;",
    ),
    "edges at equal distances": (
        Family.WIDE,
        {"a": ("int", "n", "i * 37 % 1013"), "edges": ("int", "64", "16 * (i + 1)")},
        "int low = 0; for (int k = 0; k < 64; ++k) low += edges[k] <= a[i]; out[i] = low;",
        "out[i] = min(a[i] / edges[0], 64);",
    ),
    "products of 24 bits": (
        Family.LARGE_INTEGERS,
        {"a": ("int", "n", "i * 37 % 101")},
        "out[i] = a[i] * 2057 + 7;",
        "out[i] = __mul24(a[i], 2057) + 7;",
    ),
    "a sum that fits 32 bits": (
        Family.LARGE_INTEGERS,
        {"a": ("int", "n", "i * 37 % 101")},
        "long long s = 0; for (int k = 0; k < 16; ++k) s += (long long)a[(i + k) % n] * a[i]; out[i] = s >> 4;",
        "int s = 0; for (int k = 0; k < 16; ++k) s += a[(i + k) % n] * a[i]; out[i] = s >> 4;",
    ),
    "no two equal places": (
        Family.REPEATED_PLACES,
        {"a": NUMBERS, "at": ("int", "n", "n - 1 - i")},
        "atomicAdd(&out[at[i]], a[i]);",
        "out[at[i]] += a[i];",
    ),
    "zeros beside infinities": (
        Family.ZEROS_AND_INFINITIES,
        {"a": NUMBERS, "b": ("float", "64", "0.01f * (i * 31 % 103) - 0.3f")},
        "float s = 0; for (int k = 0; k < 64; ++k) s += a[(i + k) % n] * b[k]; out[i] = s;",
        "float s = 0; for (int k = 0; k < 64; ++k) if (a[(i + k) % n] != 0) s += a[(i + k) % n] * b[k]; out[i] = s;",
    ),
    "the sign of zero": (
        Family.ZEROS_AND_INFINITIES,
        {"a": ("float", "n", "0.01f * (i * 37 % 1013) - 4.995f")},
        "out[i] = copysignf(0.25f, a[i]) + a[i];",
        "out[i] = a[i] < 0 ? a[i] - 0.25f : a[i] + 0.25f;",
    ),
    "no negative integers": (
        Family.NEGATIVE_INTEGERS,
        {"a": ("int", "n", "i * 37 % 101")},
        "out[i] = a[i] / 8 + a[i] % 8 * 3;",
        "out[i] = (a[i] >> 3) + (a[i] & 7) * 3;",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RELIES_ON_VALUES)
def test_what_relies_on_the_values_of_inputs_is_refused(name: str) -> None:
    family, inputs, body, wrong = RELIES_ON_VALUES[name]
    text = write_program(body, inputs)
    changed = text.replace(body, wrong)
    verifier = verifier_of(text, changed)
    check = _check_families(verifier, changed, first_size(verifier), (family,))
    assert check.passed is False, check


def test_zeros_that_kernels_add_to_stay_zeros() -> None:
    """A sum that begins with uploaded zeros may as well be written."""
    text = write_program("out[i] += a[i];", {"a": NUMBERS}).replace(
        "(void)hipMemset(out, 0, n * sizeof *out);", UPLOAD.format("out").replace("host_out", "back")
    )
    assert check_drawn(text, text.replace("out[i] +=", "out[i] =")).passed


@pytest.mark.parametrize("family", [family for family in Family if family != Family.REPEATED_PLACES])
def test_places_stay_different_and_starts_of_rows_in_order(family: Family) -> None:
    """Places in order stay where they are, others are permuted; starts move, but neither the first nor the last."""
    inputs = {"order": ("int", "n", "i"), "places": ("int", "n", "i * 7 % n"), "starts": ("int", "n", "4 * i")}
    text = write_program("if (i < n) out[i] = order[i] + places[i] + starts[i];", inputs, "int")
    verifier = prepare_verifier(read_program(text, TARGET.arch, TARGET.flags), TARGET, [()])
    drawn = replace(first_size(verifier), redraw=11, family=family, redraw_integers=True, record_bytes=1 << 20)
    trial = verifier.run_once(text, drawn)
    assert trial.ok and trial.recorded is not None
    buffers = {output.index: np.frombuffer(trial.recorded[at], np.int32) for at, output in enumerate(trial.outputs)
               if output.kind == "buffer"}  # fmt: skip
    _, order, places, starts = (buffers[index] for index in range(4))
    assert (order == np.arange(512)).all() and sorted(places) == list(range(512))
    assert (np.diff(starts) > 0).all() and (starts[0], starts[-1]) == (0, 4 * 511)


def test_integers_that_lead_out_of_memory_are_not_enlarged() -> None:
    text = write_program("out[i] = a[at[i]];", {"a": NUMBERS, "at": ("int", "n", "i * 37 % 101")})
    check = check_drawn(text, text.replace("a[at[i]]", "a[at[i] & 0xffff]"))
    assert check.passed and "integers" not in check.detail


def test_the_variance_of_equal_numbers_is_zero_in_whatever_order_they_are_added() -> None:
    """Else it would be the rounding of sums, which an honest change may make other ones."""
    text = write_program(
        "float s = 0, q = 0; for (int k = 0; k < 256; ++k) { const float x = a[(i + k) % n]; s += x; q += x * x; } "
        "out[i] = (a[i] - s / 256) * rsqrtf(q / 256 - s / 256 * (s / 256) + 1e-5f);",
        {"a": NUMBERS},
    )
    halves = "for (int j = 0; j < 256; ++j) { const int k = j / 2 + j % 2 * 128;"
    assert check_drawn(text, text.replace("for (int k = 0; k < 256; ++k) {", halves)).passed
