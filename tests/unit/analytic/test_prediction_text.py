"""Predictions for people: the names and the verdict of a profile, the equal throughputs once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hipsynth.profiling.metrics import EQUAL_TO_THROUGHPUT, display_name, display_title, metric_table, paper_ids
from hipsynth.profiling.metrics.bottleneck import rank_times, summarise_bounds
from hipsynth.training.analytic.predict import AnalyticPredictor
from hipsynth.training.analytic.prediction_text import find_unanswered, mean_prediction, prediction_lines

SOURCE = """#include <hip/hip_runtime.h>
__global__ void scale(const float* in, float* out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2 * in[i];
}
int main() {
  float *in, *out;
  hipMalloc(&in, 1 << 26);
  hipMalloc(&out, 1 << 26);
  scale<<<1 << 16, 256>>>(in, out, 1 << 24);
}
"""


def test_a_prediction_has_the_names_and_the_verdict_of_a_profile() -> None:
    result = AnalyticPredictor.load().predict(SOURCE, "gfx942", "-O3").document()
    kernel = result.kernels[0]
    lines = prediction_lines(result, why=True)
    assert kernel.verdict and f"  {kernel.verdict}" in lines
    assert "scale  grid 65536x1x1  block 256x1x1" in lines
    names = [line.split(" [")[0].strip() for line in lines if " [" in line]
    assert names == ["Duration", *[display_name(name) for name in paper_ids() if name not in EQUAL_TO_THROUGHPUT]]
    whys = [line for line in lines if "if it were the only limit" in line]
    assert len(whys) == 3 and not any(unit in text for text in whys for unit in ("hbm:", "vl1d:", "dispatch:"))


def test_the_verdict_names_the_largest_bound_or_no_single_limit() -> None:
    assert summarise_bounds(rank_times({"hbm": 90.0, "l2": 10.0}, 100.0)).startswith("bound by HBM bandwidth: 90 %")
    assert summarise_bounds(rank_times({"hbm": 30.0, "launch": 20.0}, 100.0)).startswith("no single limit: HBM")


@pytest.mark.parametrize("metric", sorted(set(paper_ids()) - EQUAL_TO_THROUGHPUT))
def test_a_title_has_the_words_of_the_name(metric: str) -> None:
    words = display_name(metric).replace("_BW", "_Bandwidth").replace("_", " ")
    assert display_title(metric) == words


def test_fabric_traffic_is_not_called_hbm() -> None:
    fabric = [facts for name, facts in metric_table().metrics.items() if "Fabric" in name]
    assert len(fabric) == 2 and not any("HBM" in facts.title for facts in fabric)


def test_many_launches_of_one_shape_are_summed_up() -> None:
    result = AnalyticPredictor.load().predict(SOURCE, "gfx942", "-O3").document()
    (kernel,) = result.kernels
    times = (1e3, 2e3, 3e3, 4e3, 5e3)
    kernels = tuple(replace(kernel, duration_ns=ns, launches=2, abstained=ns == 5e3) for ns in times)
    lines = prediction_lines(replace(result, kernels=kernels))
    (at,) = (i for i, line in enumerate(lines) if line == "scale  grid 65536x1x1  block 256x1x1  10 launches")
    assert lines[at + 3].split()[:3] == ["Duration", "[us]", "3"] and "not reliable: " not in "".join(lines)
    assert "  means; 1 to 5 us each, 1 of 5 not reliable; --json lists 5 of them" in lines


def test_figures_that_are_not_reliable_are_an_answer() -> None:
    result = AnalyticPredictor.load().predict(SOURCE, "gfx942", "-O3").document()
    unsure = replace(result.kernels[0], abstained=True, reason="it depends on data")
    without = replace(unsure, metrics={}, duration_ns=None)
    lines = prediction_lines(replace(result, kernels=(unsure, without)))
    assert [line for line in lines if "it depends" in line] == [
        "  not reliable: it depends on data",
        "  no answer: it depends on data",
    ]
    assert find_unanswered([unsure, without], []) == [without]


def test_a_mean_is_weighted_by_launches_and_its_rates_by_time() -> None:
    result = AnalyticPredictor.load().predict(SOURCE, "gfx942", "-O3").document()
    (kernel,) = result.kernels
    rate, ends = "HBM_GFLOPS", {"HBM_GFLOPS": (50.0, 100.0), "duration_ns": (90.0, 110.0)}
    slow = replace(kernel, duration_ns=100.0, launches=1, metrics={rate: 60.0}, intervals=ends)
    fast = replace(kernel, duration_ns=20.0, launches=3, metrics={rate: 240.0}, intervals={**ends, "more": (1, 2)})
    mean = mean_prediction([slow, fast])
    assert mean is not None and (mean.launches, mean.duration_ns) == (4, 40.0)
    assert mean.metrics == {rate: pytest.approx((60 * 100 + 240 * 60) / 160)} and mean.intervals == ends
    assert mean_prediction([slow, replace(fast, duration_ns=None)]) is None
