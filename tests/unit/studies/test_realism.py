"""Distances of generated programs to real ones: what they count, and the table that they compare with."""

from __future__ import annotations

import pytest

from studies import realism

LDS = "__global__ void k(double* a) { __shared__ double t[64]; t[threadIdx.x] = a[0]; __syncthreads(); }"
LOOP = "// __shared__\n__global__ void k(float* a, int n) { for (int i = 0; i < n; ++i) a[i] = sqrtf(a[i]); }"


def test_the_divergence_of_distributions() -> None:
    assert realism.measure_divergence({"a": 0.5, "b": 0.5}, {"b": 0.5, "a": 0.5}) == 0
    assert realism.measure_divergence({"a": 1.0}, {"b": 1.0}) == pytest.approx(1.0)
    assert 0 < realism.measure_divergence({"a": 0.6, "b": 0.4}, {"a": 0.5, "b": 0.5}) < 0.01


def test_features_are_those_of_the_device_code() -> None:
    found = realism.measure_features([LDS, LOOP, "int main() { for (;;) {} }"])
    assert found["LDS"] == found["barrier"] == found["double"] == 0.5
    assert found["loop"] == found["mathematical function"] == 0.5
    assert found["half"] == found["atomics"] == 0
    assert realism.measure_feature_distance(found, found) == 0


def test_every_program_counts_the_same() -> None:
    row = {"grid": [4, 1, 1], "block": [128, 1, 1], "counters": [("SQ_INSTS", 8 * 32.0)], "program_id": "a"}
    other = {**row, "program_id": "b", "block": [64, 1, 1], "counters": [("SQ_INSTS", 4 * 16.0)]}
    found = realism.build_histograms([row, row, row, other])
    assert found["work-items of a work-group"] == {"6": 0.5, "7": 0.5}
    assert found["instructions of a wave"] == {"4": 0.5, "5": 0.5}
    assert found["work-groups"] == {"1": 1.0}


def test_the_table_of_real_programs() -> None:
    real = realism.read_real()
    assert real.programs > 10 and real.kernels > 100
    for shares in (*real.opcodes.values(), *real.histograms.values()):
        assert sum(shares.values()) == pytest.approx(1)
    assert set(real.features) == set(realism.FEATURES)
    assert len(real.opcodes["gfx90a"]) > 300 and realism.PADDING not in real.opcodes["gfx90a"]
