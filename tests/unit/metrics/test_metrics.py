"""The metric table: complete, free of contradictions, and right on recorded hardware counters."""

from __future__ import annotations

import copy
import tomllib
from typing import Any

import pytest
from profiling_samples import VCOPY, VCOPY_GFX90A, ZERO_FLOPS

from hipsynth.core.errors import UsageError
from hipsynth.profiling import metrics
from hipsynth.profiling.metrics import reference


def raw() -> dict[str, Any]:
    return copy.deepcopy(tomllib.loads(metrics.TABLE_PATH.read_text()))


def test_recorded_vector_copy_gives_the_vendors_rates() -> None:
    old = metrics.compute_metrics(*VCOPY["gfx90a"], "gfx90a")
    new = metrics.compute_metrics(*VCOPY["gfx942"], "gfx942")
    assert old["L1_Cache_Hit_Rate"] == 50.0
    assert new["L1_Cache_Hit_Rate"] == 62.5
    assert old["L2_Cache_Hit_Rate"] == pytest.approx(34.8, abs=0.1)
    assert new["L2_Cache_Hit_Rate"] == pytest.approx(33.3, abs=0.1)


def test_recorded_vector_copy_gives_the_vendors_bandwidths() -> None:
    old = metrics.compute_metrics(*VCOPY["gfx90a"], "gfx90a")
    new = metrics.compute_metrics(*VCOPY["gfx942"], "gfx942")
    assert old["L1_Cache_Bandwidth"] == pytest.approx(524288 * 64 / 15840)
    assert new["L1_Cache_Bandwidth"] == pytest.approx(524288 * 128 / 13400)
    assert old["L2_Cache_Bandwidth"] == pytest.approx(201111 * 128 / 15840)
    # 8 MiB are read on both; gfx90a leaves a part of the 8 MiB written dirty in its L2.
    assert old["L2_Fabric_Read_BW"] == pytest.approx(8 * 2**20 / 15840, rel=1e-3)
    assert new["L2_Fabric_Read_BW"] == pytest.approx(8 * 2**20 / 13400, rel=3e-3)
    assert new["L2_Fabric_Write_BW"] == pytest.approx(8 * 2**20 / 13400)
    assert old["L2_Fabric_Write_BW"] == pytest.approx(91113 * 64 / 15840)
    assert old["HBM_Arithmetic_Intensity"] == 0.0


def test_flops_count_64_lanes_fma_twice_and_matrix_operations() -> None:
    counters = {
        **VCOPY_GFX90A,
        "SQ_INSTS_VALU_FMA_F32": 10,
        "SQ_INSTS_VALU_ADD_F64": 3,
        "SQ_INSTS_VALU_MFMA_MOPS_F16": 2,
    }
    values = metrics.compute_metrics(counters, 1000, "gfx90a")
    flops = 64 * (2 * 10 + 3) + 512 * 2
    for level in ("L1_Cache", "L2_Cache", "HBM"):
        assert values[f"{level}_GFLOPS"] == pytest.approx(flops / 1000)
    assert values["L1_Cache_Arithmetic_Intensity"] == pytest.approx(flops / (524288 * 64))
    assert values["L2_Cache_Arithmetic_Intensity"] == pytest.approx(flops / (262144 * 64))


def test_roofline_holds_on_gfx90a_and_not_on_gfx942() -> None:
    for arch, factor in (("gfx90a", 1), ("gfx942", 2)):
        values = metrics.compute_metrics({**VCOPY[arch][0], "SQ_INSTS_VALU_FMA_F64": 16384}, 20000, arch)
        product = (values["L1_Cache_Arithmetic_Intensity"] or 0) * (values["L1_Cache_Bandwidth"] or 0)
        assert product == pytest.approx(factor * (values["L1_Cache_GFLOPS"] or 0))


def test_a_missing_counter_makes_only_its_metrics_unknown() -> None:
    counters = {name: value for name, value in VCOPY_GFX90A.items() if name != "TCC_HIT"}
    values = metrics.compute_metrics(counters, 15840, "gfx90a")
    assert values["L2_Cache_Hit_Rate"] is None
    assert values["L1_Cache_Hit_Rate"] == 50.0


def test_a_kernel_without_memory_access_has_no_hit_rate() -> None:
    counters = {**dict.fromkeys(VCOPY_GFX90A, 0), **ZERO_FLOPS}
    values = metrics.compute_metrics(counters, 1000, "gfx90a")
    assert values["L1_Cache_Hit_Rate"] is None and values["HBM_Arithmetic_Intensity"] is None
    assert values["L1_Cache_Bandwidth"] == 0.0


def test_unknown_architecture() -> None:
    with pytest.raises(UsageError, match="gfx1100") as caught:
        metrics.compute_metrics({}, 1, "gfx1100")
    assert "gfx90a" in caught.value.remedy


def test_normalisation_follows_the_papers_ranges_and_inverts() -> None:
    scales = {"hit_rate": 100, "bandwidth": 16384, "throughput": 12288}
    for metric in metrics.paper_ids():
        row = metrics.metric_table().metrics[metric]
        intensity = 5120 if row.level == "L2" else 2048
        assert row.scale == scales.get(row.kind, intensity)
        assert metrics.denormalise_metric(metric, metrics.normalise_metric(metric, 123.456)) == pytest.approx(123.456)
    assert metrics.normalise_metric("HBM_GFLOPS", None) is None
    with pytest.raises(UsageError):
        metrics.normalise_metric("Duration", 1.0)


def test_every_paper_metric_is_known_when_all_counters_are() -> None:
    for arch, (counters, duration) in VCOPY.items():
        values = metrics.compute_metrics(counters, duration, arch)
        assert all(values[metric] is not None for metric in metrics.paper_ids())


def test_every_counter_is_used_or_shown_on_each_of_its_architectures() -> None:
    facts = metrics.metric_table()
    from hipsynth.core.expressions import iterate_names

    for counter in facts.counters.values():
        for arch in counter.archs:
            rows = [*facts.expressions.values(), *facts.metrics.values()]
            used = any(counter.id in iterate_names(row.formula[arch]) for row in rows)
            assert used or counter.show, f"{counter.id} serves nothing on {arch}"


def broken(path: str, value: Any) -> dict[str, Any]:
    data = raw()
    *parents, last = path.split("/")
    row: Any = data
    for part in parents:
        row = row[part]
    if value is None:
        del row[last]
    else:
        row[last] = value
    return data


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("expressions/flops/formula/any", "flops_valu + TYPO", "unknown name 'TYPO'"),
        ("expressions/flops_valu/formula/any", "flops", "circle"),
        ("metrics/IPC/formula/any", "IPC", "circle"),
        ("metrics/L1_Cache_Bandwidth/formula/gfx942", None, "no formula for gfx942"),
        ("metrics/L1_Cache_Bandwidth/formula/gfx1100", "1", "unknown architecture"),
        ("expressions/fabric_read_bytes/formula/gfx942", "TCC_EA_RDREQ", "does not exist on gfx942"),
        ("metrics/IPC/unit", None, "unit is missing"),
        ("metrics/IPC/sclae", 3, "unknown key 'sclae'"),
        ("metrics/IPC/formula/any", "eval(1)", "no function"),
        ("metrics/IPC/scale", 5, "answer_order"),
        ("counters/flops", {"doc": "clash"}, "two rows"),
    ],
)
def test_a_contradiction_in_the_table_is_refused(path: str, value: Any, message: str) -> None:
    with pytest.raises(metrics.TableError, match=message):
        metrics.parse_table(broken(path, value))


def test_the_reference_page_is_fresh() -> None:
    assert reference.DOC_PATH.read_text() == reference.render_page(), (
        "run python -m hipsynth.profiling.metrics.reference"
    )
