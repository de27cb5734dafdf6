"""The training sample printed in the paper (arXiv 2506.20886, Figure 3), reproduced word by word from its values."""

from __future__ import annotations

import pytest

from hipsynth.profiling import metrics
from hipsynth.training.data.prompt import parse_answer, render_answer, sample_messages

FLAGS = "--std=c++17 -O3 -ffast-math"
SYSTEM = """
You are an expert GPU programmer and profiler. Given a code, you will predict its performance counters.
"""
USER = """
For the GPU architecture gfx90a and the compiler flags --std=c++17 -O3 -ffast-math, what are the bandwidth, arithmetic
intensity, hit rates, flops of the following code? Output the answer in JSON format.
"""
LEAD = """
Here are the performance counters for the gfx90a GPU architecture and the --std=c++17 -O3 -ffast-math compiler flags
combination in JSON format:
"""
BLOCK = """```json
{
  "compiler_flags": "--std=c++17 -O3 -ffast-math",
  "architecture": "gfx90a",
  "L1_Cache_Arithmetic_Intensity": "0.002",
  "L2_Cache_Arithmetic_Intensity": "0.002",
  "HBM_Arithmetic_Intensity": "0.004",
  "L1_Cache_GFLOPS": "0.459",
  "L2_Cache_GFLOPS": "0.459",
  "HBM_GFLOPS": "0.459",
  "L1_Cache_Bandwidth": "0.089",
  "L2_Cache_Bandwidth": "0.070",
  "L2_Fabric_Write_BW": "0.022",
  "L2_Fabric_Read_BW": "0.022",
  "L1_Cache_Hit_Rate": "0.500",
  "L2_Cache_Hit_Rate": "0.370"
}
```"""
# The printed values in physical units (Table 2's ranges).
VALUES = {
    "L1_Cache_Arithmetic_Intensity": 0.002 * 2048,
    "L2_Cache_Arithmetic_Intensity": 0.002 * 5120,
    "HBM_Arithmetic_Intensity": 0.004 * 2048,
    "L1_Cache_GFLOPS": 0.459 * 12288,
    "L2_Cache_GFLOPS": 0.459 * 12288,
    "HBM_GFLOPS": 0.459 * 12288,
    "L1_Cache_Bandwidth": 0.089 * 16384,
    "L2_Cache_Bandwidth": 0.070 * 16384,
    "L2_Fabric_Write_BW": 0.022 * 16384,
    "L2_Fabric_Read_BW": 0.022 * 16384,
    "L1_Cache_Hit_Rate": 50.0,
    "L2_Cache_Hit_Rate": 37.0,
}


def words(text: str) -> list[str]:
    """The words of a text; the figure's line breaks differ from the sample's."""
    return text.split()


def test_the_printed_sample_is_reproduced_from_its_values() -> None:
    system, user, assistant = sample_messages("__global__ void k() {}\n", VALUES, "gfx90a", FLAGS, "fixed3")
    assert [m["role"] for m in (system, user, assistant)] == ["system", "user", "assistant"]
    assert words(system["content"]) == words(SYSTEM)
    question, code = user["content"].split("\n\n", 1)
    assert words(question) == words(USER)
    assert code.strip() == "__global__ void k() {}"
    lead, block = assistant["content"].split("\n\n", 1)
    assert words(lead) == words(LEAD)
    assert block == BLOCK


def test_the_printed_answer_parses() -> None:
    found = parse_answer(LEAD + "\n" + BLOCK, arch="gfx90a", flags=FLAGS)
    assert found.valid, found.errors
    assert (found.arch, found.flags) == ("gfx90a", FLAGS)
    assert dict(found.values) == pytest.approx(VALUES)
    assert render_answer(found.values, "gfx90a", FLAGS, "fixed3").endswith(BLOCK)


def test_the_printed_values_fit_the_metric_formulas() -> None:
    """Intensity times bandwidth is GFLOP/s within the printed rounding (half a unit of the third decimal)."""
    half = 0.0005
    low = (0.002 - half) * 2048 * (0.089 - half) * 16384
    high = (0.002 + half) * 2048 * (0.089 + half) * 16384
    assert low <= VALUES["L1_Cache_GFLOPS"] <= high
    assert set(VALUES) == set(metrics.answer_ids())
