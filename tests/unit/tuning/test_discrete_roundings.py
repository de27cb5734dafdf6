"""Results that the last bit of a sum decides: how far they may differ, and that two draws do not show it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest

from hipsynth.simulator.observation import Family
from hipsynth.tuning.optimize.verification import verify
from hipsynth.tuning.optimize.verification.verify import Verifier
from hipsynth.tuning.trial import Tolerance, target_of

# The sum of a row, rounded to a 1024th: where it lies between two of these, the order of the sum decides.
TEXT = """#include <hip/hip_runtime.h>
#include <vector>
__global__ void round_sums(const float* x, float* out, int n) {
  const int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= n) return;
  float sum = 0;
  for (int i = 0; i < 32; ++i) sum += x[row * 32 + i];
  out[row] = rintf(sum * 1024.0f) / 1024.0f;
}
int main() {
  const int n = SIZE;
  std::vector<float> x(n * 32), out(n);
  unsigned state = 1;
  for (float& value : x) state = state * 1664525u + 1013904223u, value = (state >> 8) / 16777216.0f;
  float *dx, *dout;
  if (hipMalloc(&dx, n * 128) || hipMalloc(&dout, n * 4)) return 1;
  (void)hipMemcpy(dx, x.data(), n * 128, hipMemcpyHostToDevice);
  round_sums<<<(n + 255) / 256, 256>>>(dx, dout, n);
  (void)hipMemcpy(out.data(), dout, n * 4, hipMemcpyDeviceToHost);
  return 0;
}
""".replace("SIZE", "8192")
BACKWARDS = TEXT.replace("x[row * 32 + i]", "x[row * 32 + 31 - i]")
WRONG = BACKWARDS.replace("sum * 1024.0f", "sum * 1024.0f + 0.25f")


# Attention with scores as large as these: which of two keys is larger, and by how much, hangs on their last bits.
HANDWRITTEN = Path(__file__).parents[3] / "corpus" / "handwritten"
ATTENTION = (HANDWRITTEN / "attention" / "attention_three_launches.hip").read_text()
SUM = "for (int d = 0; d < kDim; ++d) sum +="
SUM_BACKWARDS = "for (int d = kDim - 1; d >= 0; --d) sum +="


def make_verifier(text: str, size: tuple[str, ...] = ()) -> Verifier:
    needs.simulator()
    needs.compiler()
    return Verifier(text, target_of("gfx942"), [size], Tolerance("float", 2e-5, "the order of a sum"))


def test_a_step_is_allowed_to_few_numbers_only() -> None:
    verifier = make_verifier(TEXT)
    assert verifier.quick(BACKWARDS).passed is True, verifier.quick(BACKWARDS)
    assert verifier.quick(WRONG).passed is False


def test_more_draws_show_what_last_bits_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    size = ("32", "16")
    verifier = make_verifier(ATTENTION, size)
    changed = ATTENTION.replace(SUM, SUM_BACKWARDS)
    assert changed != ATTENTION
    drawn = replace(verifier.run_conditions(size), redraw=17, family=Family.LARGE)
    assert verifier.check_equal("other_inputs", changed, drawn).passed is True
    monkeypatch.setattr(verify, "FURTHER_NUDGES", ())
    assert verifier.check_equal("other_inputs", changed, drawn).passed is False, "two draws suffice for this seed"
