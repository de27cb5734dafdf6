"""What a model earns in practice, by the real simulator: the verified speed-up, and nothing for a faster program that
is wrong, less precise, or does less."""

from __future__ import annotations

import needs
import pytest
from fake_chats import Says, call

from hipsynth.tuning.agent.prompts import DONE
from hipsynth.tuning.reason.grpo import reward_of, run_model
from hipsynth.tuning.trial import target_of

needs.installed("torch")

SLOW = r"""
#include <hip/hip_runtime.h>
#include <cstdlib>
#include <vector>
__global__ void smooth(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float sum = 0.0f;
  for (int k = 0; k < 32; ++k) sum = ((const volatile float*)in)[i] * 0.5f;
  out[i] = sum;
}
int main(int argc, char** argv) {
  const int n = argc > 1 ? std::atoi(argv[1]) : 4096;
  std::vector<float> host(n), back(n);
  for (int i = 0; i < n; ++i) host[i] = 1.0f + 0.3f * i;
  float *in, *out;
  if (hipMalloc(&in, n * 4) || hipMalloc(&out, n * 4)) return 1;
  (void)hipMemcpy(in, host.data(), n * 4, hipMemcpyHostToDevice);
  smooth<<<(n + 63) / 64, 64>>>(in, out, n);
  (void)hipMemcpy(back.data(), out, n * 4, hipMemcpyDeviceToHost);
  return back[0] < 0;
}
"""
LOOP = "for (int k = 0; k < 32; ++k) sum = ((const volatile float*)in)[i] * 0.5f;"
HONEST = SLOW.replace(LOOP, "sum = in[i] * 0.5f;")
CHEATS = {  # a faster program -> the check that refuses it
    "wrong output": (SLOW.replace(LOOP, "sum = in[i] * 0.25f;"), "outputs_equal"),
    "lowered precision": (
        SLOW.replace(LOOP, "sum = (float)((_Float16)in[i] * (_Float16)0.5f);").replace("0.3f * i", "0.0f * i"),
        "precision",
    ),
    "skipped work": (HONEST.replace("(i >= n)", "(i >= (n > 1000 ? 64 : n))"), "timed_size"),
    "a launch of less": (HONEST.replace("(n + 63) / 64, 64", "n / 128, 64"), "outputs_equal"),
}


def earned(original: str, changed: str) -> tuple[float, list[str]]:
    """The reward of a model that hands in a program and praises it, and why its programs were refused."""
    model = Says(call("compile", source=changed, replaces="v0"), f"{DONE}: v1 is 30 times as fast and correct.")
    driven, ended = run_model(model, original, target_of("gfx942"))
    assert driven is not None and ended == "finished"
    return reward_of(driven.found), [step.reason for step in driven.found.steps]


@pytest.mark.parametrize("cheat", CHEATS)
def test_cheats_earn_nothing(cheat: str) -> None:
    text, check = CHEATS[cheat]
    original = SLOW.replace("0.3f * i", "0.0f * i") if cheat == "lowered precision" else SLOW
    assert text not in (SLOW, HONEST)
    reward, [reason] = earned(original, text)
    assert reward == 0.0 and reason.startswith(check), reason


def test_a_verified_speed_up_is_the_reward() -> None:
    reward, _ = earned(SLOW, HONEST)
    assert reward > 0.1
