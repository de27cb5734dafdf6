"""Baselines and their features: which features are extracted, and what the baselines learn from them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import training_corpus as made

from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.data.features import code_features, evaluate_constant, source_features
from hipsynth.training.models.baselines import GradientBoosting, MedianBaseline, NearestNeighbour, cached_disassembly

LISTING = (
    """
0000000000001900 <_Z1kPd>:
\ts_load_dword s8, s[0:1], 0x24                              // 000000001900: C0020200 00000024
\tglobal_load_dwordx2 v[4:5], v[4:5], off                    // 000000001908: DC548000 047F0004
\tv_fma_f64 v[4:5], v[4:5], v[4:5], s[10:11]                 // 000000001910: D1CC0004 002A0904
\ts_cbranch_scc0 65526                                       // 000000001918: BF84FFF6 <_Z1kPd+0x10>
\ts_cbranch_scc1 65520                                       // 00000000191C: BF85FFF6 <_Z1kPd+0x8>
\tglobal_store_dwordx2 v[2:3], v[40:41], off                 // 000000001920: DC748000 007F0002
\ts_endpgm                                                   // 000000001928: BF810000
\ts_nop 0                                                    // 00000000192C: BF800000

0000000000002000 <_Z5otherPd>:
"""
    + "\tv_add_f32_e32 v1, v2, v3                                   // 000000002000: 00000000\n" * 40
)


def test_code_features_count_loops_classes_and_registers() -> None:
    found = code_features(LISTING, "__global__ void k(double* p) {}")
    assert found["instructions"] == 7  # the padding after s_endpgm does not count
    assert (found["loops"], found["loop_depth"]) == (2, 2)
    assert (found["n_fma_f64"], found["n_load2"], found["n_store2"], found["n_smem"]) == (1, 1, 1, 1)
    assert found["w_fma_f64"] == pytest.approx(np.log1p(64))
    assert found["w_load2"] == pytest.approx(np.log1p(8))
    assert found["vgprs"] == 42
    assert found["functions"] == 2


def test_the_kernel_of_the_source_is_chosen_over_a_larger_one() -> None:
    assert code_features(LISTING)["n_alu_f32"] == 40
    both = "__global__ void k(double* p) {} __global__ void other(double* p) {}"
    assert code_features(LISTING, "__global__ void k(double* p) {}")["n_alu_f32"] == 0
    assert [code_features(LISTING, both, name)["n_alu_f32"] for name in ("k(double*)", "other", "absent")] == [
        0,
        40,
        40,
    ]
    assert code_features("") == {}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 << 20", 1 << 20),
        ("(n + 255) / 256", 4),
        ("1'000'000", 1_000_000),
        ("n * sizeof(double)", 8000),
        ("dim3(n / 10, 4)", 400),
        ("256u", 256),
        ("unknown + 1", None),
        ("f(", None),
        ("1 / 0", None),
        ("0x10u", 16),
        ("010", 8),
        ("(0 - 7) / 2", -3),
        ("n > 512 ? 2 : 1", 2),
        ("dim3(n / 10, m)", None),
    ],
)
def test_constants_are_folded(text: str, value: int | None) -> None:
    assert evaluate_constant(text, {"n": 1000}) == value


def test_a_number_of_thousands_of_digits_is_no_size() -> None:
    assert source_features(f"int n = {'9' * 5000};")["largest_constant"] == 0


def test_source_features_read_the_launch() -> None:
    source = """
    constexpr int n = 1 << 20, block = 256;
    int main() { float* a; hipMalloc(&a, n * sizeof(float)); k<<<dim3(n / block, 2), block>>>(a);
      hipLaunchKernelGGL(k, dim3(4), dim3(64), 0, 0, a); }
    """
    found = source_features(source)
    assert found["launches"] == 2
    assert found["grid"] == pytest.approx(np.log2(8192 + 1))
    assert found["block"] == pytest.approx(np.log2(257))
    assert found["allocated"] == pytest.approx(np.log2((1 << 22) + 1))


def test_constant_is_the_median_of_the_same_target_then_the_architecture() -> None:
    train = [
        replace(made.sample(0, 0, "gfx90a", flags), metrics=dict.fromkeys(answer_ids(), value))
        for flags, value in [("-O3", 1.0), ("-O3", 2.0), ("-O3", 9.0), ("-O2", 100.0)]
    ]
    baseline = MedianBaseline()
    baseline.fit(train)
    ask = [made.sample(1, 0, "gfx90a", flags) for flags in ("-O3", "-O2", "-O1")]
    values = [p["L1_Cache_Hit_Rate"] for p in baseline.predict(ask)]
    assert values == pytest.approx([0.02, 1.0, 0.055])
    elsewhere = baseline.predict([made.sample(1, 0, "gfx942", "-O3")])[0]
    assert elsewhere["L1_Cache_Hit_Rate"] == pytest.approx(0.055)


def test_nearest_neighbour_ignores_names() -> None:
    train = [made.sample(i, 0, arch, flags) for i in range(20) for arch, flags in made.TARGETS]
    baseline = NearestNeighbour()
    baseline.fit(train)
    copies = [made.sample(i, 1, arch, flags) for i in range(20) for arch, flags in made.TARGETS]
    assert baseline.predict(copies) == [copy.true_metrics() for copy in copies]


def test_baselines_know_the_device_and_the_kernel() -> None:
    """Kernels of one program and devices of one architecture have labels of their own, and so have answers."""
    of_program = made.sample(0, 0, "gfx942", "-O3")
    train = [
        replace(of_program, device=device, kernel=kernel, metrics=dict.fromkeys(answer_ids(), value))
        for device, kernel, value in [("mi300x", "fill", 1.0), ("mi300x", "sum", 3.0), ("mi300a", "fill", 9.0)]
    ]
    nearest, constant = NearestNeighbour(), MedianBaseline()
    nearest.fit(train), constant.fit(train)
    assert nearest.predict(train) == [sample.true_metrics() for sample in train]
    assert [p["L1_Cache_Hit_Rate"] for p in constant.predict(train)] == pytest.approx([0.02, 0.02, 0.09])


def test_gradient_boosting_learns_sizes_without_a_compiler() -> None:
    pool = made.samples(60, 1)
    baseline = GradientBoosting(lambda *_: None)
    baseline.fit(pool[:200])
    errors = [
        abs(p["L2_Cache_Bandwidth"] - t) / t
        for p, s in zip(baseline.predict(pool[200:]), pool[200:], strict=True)
        if (t := s.true_metrics()["L2_Cache_Bandwidth"]) is not None and p["L2_Cache_Bandwidth"] is not None
    ]
    assert float(np.median(errors)) < 0.05
    assert baseline.without_code == len(pool)
    assert baseline.predict([]) == []


def test_boosted_predictions_repeat_exactly() -> None:
    pool = made.samples(12, 1)
    found = []
    for _ in range(2):
        baseline = GradientBoosting(lambda *_: LISTING)
        baseline.fit(pool)
        found.append(baseline.predict(pool))
    assert found[0] == found[1]


def test_a_program_that_does_not_compile_has_no_code_features() -> None:
    assert cached_disassembly("__global__ void broken( {", "gfx90a", "-O3") is None
