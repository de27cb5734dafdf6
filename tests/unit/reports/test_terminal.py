"""The output of `synth profile` for a simulated kernel: bottleneck, expected errors, number format."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from profiling_samples import failure, kernel, result, target

from hipsynth.core.documents import document_json
from hipsynth.core.kernel_record import (
    KernelRecord,
    MeasurementSource,
    Occupancy,
    Sampling,
    TimingBounds,
    Traffic,
    Work,
)
from hipsynth.profiling import metrics
from hipsynth.profiling.metrics import bottleneck, uncertainty
from hipsynth.profiling.reports import describe, numbers, terminal
from hipsynth.profiling.reports.first_screen import render_screen
from hipsynth.profiling.reports.memory_chart import draw_memory_chart
from hipsynth.profiling.reports.rates import level_rates
from hipsynth.profiling.uncertainty import expected_error
from hipsynth.simulator.transfers import Transfer

ROOM = Occupancy(groups_per_cu=4, waves_per_cu=16, fraction=0.5, peak_waves=0, limited_by="VGPRs")


def simulated(bounds: dict[str, float], arch: str = "gfx90a", **changes: Any) -> KernelRecord:
    """The sample kernel of 100 us as the simulator would give it; bounds in us."""
    limits = TimingBounds(
        max(bounds, key=bounds.__getitem__, default=""), 0, {unit: 1e3 * us for unit, us in bounds.items()}
    )
    one = replace(
        kernel(arch), source=MeasurementSource("sim", "1"), duration_ns=100_000.0, limits=limits, occupancy=ROOM
    )
    return replace(one, **changes)


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        (
            {"hbm": 71, "latency": 18, "valu": 3},
            "bound by HBM bandwidth: 71 % of the duration; then exposed latency 18 %",
        ),
        (
            {"valu": 80, "hbm": 78, "lds": 20},
            "bound by vector ALU (80 %) and HBM bandwidth (78 %), too close to tell apart; then LDS throughput 20 %",
        ),
        (
            {"hbm": 40, "l2": 30, "valu": 1},
            "no single limit: HBM bandwidth 40 %, L2 request rate 30 % of the duration",
        ),
        ({"warp_drive": 90}, "bound by warp drive: 90 % of the duration"),
        ({}, ""),
    ],
)
def test_the_bottleneck_in_words(bounds: dict[str, float], expected: str) -> None:
    assert bottleneck.summarise_bounds(bottleneck.rank_bounds(simulated(bounds))) == expected


def test_exposed_latency_names_the_unit() -> None:
    bounds = {"latency": 90_000.0, "hbm": 10_000.0}
    one = simulated({}, limits=TimingBounds("latency", 1600, bounds), work=Work(waves=100, hbm_waits=200, lds_waits=50))
    found = bottleneck.latency_breakdown(one, "mi250")
    assert [name for name, _ in found] == ["HBM", "issue and start-up", "the LDS"]
    assert sum(share for _, share in found) == pytest.approx(1)
    text = bottleneck.summarise_bounds(bottleneck.rank_bounds(one), found)
    assert text.startswith("bound by exposed latency: 90 % of the duration; then HBM bandwidth 10 %; latency of HBM ")
    assert "LDS" not in text, "a small part is not worth a word"
    assert "latency of" not in bottleneck.summarise_bounds(bottleneck.rank_bounds(simulated({"hbm": 90})), found)
    assert bottleneck.latency_breakdown(simulated({}), "mi250") == []


def test_occupancy_names_the_resource_and_the_grid() -> None:
    full = bottleneck.simd_occupancy(simulated({}), "mi250")
    assert str(full) == "occupancy 4 of 8 waves/SIMD, limited by VGPRs"
    few = bottleneck.simd_occupancy(simulated({}, grid=(52, 1, 1)), "mi250")
    assert str(few).endswith("; the grid reaches only 52 of 104 CUs")
    some = bottleneck.simd_occupancy(simulated({}, grid=(208, 1, 1)), "mi250")
    assert str(some).endswith("; the grid fills 2.0 of them")
    assert bottleneck.simd_occupancy(kernel(), "mi250") is None


def shown(one: KernelRecord) -> dict[str, Any]:
    """The kernel as in the document of a profile."""
    return document_json(describe.kernel_document(one, "mi250"))


def test_launches_of_several_shapes_have_their_own_times() -> None:
    whole = simulated({}, symbol="k", same_shape=False, dispatches=9)
    shapes = [replace(whole, same_shape=True, dispatches=1, grid=(n, 1, 1), duration_ns=n * 1e3) for n in range(1, 9)]
    column = terminal.Column(replace(result(target(), whole), shapes=tuple(shapes)), whole)
    lines = [line.strip() for line in terminal.verdict_lines(column) if " x " in line or "more" in line]
    assert lines[0].startswith("grid 8x1x1  block ") and lines[0].endswith("  1 x 8 us")
    assert len(lines) == terminal.MOST_SHAPES + 1 and lines[-1] == "and 2 more; --json has all"


def test_the_document_of_a_simulated_kernel() -> None:
    found = shown(simulated({"hbm": 80, "valu": 75, "launch": 2}))
    limit = found["bottleneck"]
    assert (limit["unit"], limit["name"], limit["share"], limit["close"]) == ("hbm", "HBM bandwidth", 0.8, ["valu"])
    assert [bound["unit"] for bound in limit["bounds"]] == ["hbm", "valu", "launch"]
    assert limit["occupancy"]["limited_by"] == "VGPRs" and limit["occupancy"]["waves_per_simd"] == 4
    assert set(found["expected_error"]) == set(metrics.all_ids())
    assert found["expected_error"]["L1_Cache_Hit_Rate"]["unit"] == "points"
    assert found["expected_error"]["Exact_Lane_Utilisation"] is None
    assert found["expected_error"]["L1_Cache_Bandwidth"]["compared"] == "duration_ns from 30 us"
    assert found["no_evidence"] == []


def test_ranges_of_an_architecture_without_recordings_are_guesses() -> None:
    one = simulated({"hbm": 80}, "gfx942")
    text = terminal.render_results([replace(result(target("gfx942"), one), arch="gfx950", device="mi350x")])
    assert "no recording of this architecture (gfx950): every range is a guess" in text
    assert "± 100 % ~ *" in text and "unlike every recorded" not in text
    found = describe.expected_errors(one, "mi350x")
    bandwidth, hits = found["L2_Fabric_Read_BW"], found["L2_Cache_Hit_Rate"]
    assert bandwidth is not None and (bandwidth.range, bandwidth.n, bandwidth.range_wide) == (100.0, 0, True)
    assert hits is not None and (hits.range, hits.unit, hits.covered) == (20.0, "points", False)
    assert describe.expected_errors(one, "mi325x")["L2_Fabric_Read_BW"] != bandwidth


def test_the_range_printed_is_that_of_the_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a stream, and of a kernel of a class with too few recordings; counters without a range keep their median."""
    text = """[[range]]
class = "{0}"
sort = "time"
arch = "gfx90a"
kinds = {1}
figures = 9
range = {2}
unit = "%"
wide = {3}
"""
    rows = text.format("streaming", 5, 12.5, "false") + text.format("LDS", 1, 41.0, "true")
    monkeypatch.setattr(expected_error, "load_ranges", lambda: expected_error.parse_ranges(rows))
    plain = simulated({"hbm": 90})
    lds = replace(plain, counters={**plain.counters, "SQ_INSTS_LDS": 1e9})
    for one, name, size, wide in ((plain, "streaming", 12.5, False), (lds, "LDS", 41.0, True)):
        found = shown(one)["expected_error"]
        bandwidth, hits = found["L1_Cache_Bandwidth"], found["L2_Cache_Hit_Rate"]
        assert (bandwidth["class"], bandwidth["range"], bandwidth["range_wide"]) == (name, size, wide)
        assert {"median", "worst", "unit", "n", "compared", "device", "kernels", "covered"} <= set(bandwidth)
        assert (hits["range"], hits["range_wide"]) == (None, False), "no row of the table"
    first = terminal.render_results([result(target(), lds)]).splitlines()[2]
    assert first.strip().startswith("100 us  ± 41 % ~")
    assert "± 12 %\n" in terminal.render_results([result(target(), plain)])


def test_features_without_a_recording_are_named() -> None:
    plain = kernel().counters
    assert expected_error.used_features(plain) == frozenset()
    odd = {**plain, "SQ_INSTS_MFMA": 5, "SQ_ACTIVE_INST_VALU": 10, "SQ_THREAD_CYCLES_VALU": 320}
    assert expected_error.used_features(odd) == {"matrix cores", "divergence"}
    assert set(expected_error.without_evidence(odd, "mi250", 1e5)) <= {"matrix cores", "divergence"}


def test_errors_of_extrapolated_kernels_are_marked(monkeypatch: pytest.MonkeyPatch) -> None:
    known = expected_error.load_table()
    monkeypatch.setattr(
        expected_error, "load_table", lambda: expected_error.Evidence(known.errors, {"gfx90a": frozenset()})
    )
    plain = simulated({"hbm": 90})
    lds = replace(plain, counters={**plain.counters, "SQ_INSTS_LDS": 7})
    atomics = replace(plain, counters={**plain.counters, "TCP_TCC_ATOMIC_WITH_RET_REQ": 7})
    marked = {}
    for name, one in (("plain", plain), ("lds", lds), ("atomics", atomics)):
        found = shown(one)["expected_error"]
        marked[name] = [found[metric]["covered"] for metric in ("L2_Cache_Hit_Rate", "L1_Cache_Bandwidth")]
    assert marked == {"plain": [True, True], "lds": [True, False], "atomics": [False, False]}
    text = terminal.render_results([result(target(), atomics)])
    assert "* unlike every recorded gfx90a kernel: global atomics; errors" in text and " pt *" in text
    assert "*" not in terminal.render_results([result(target(), plain)])
    monkeypatch.setattr(expected_error, "load_table", lambda: expected_error.Evidence({}, {"gfx90a": frozenset()}))
    assert expected_error.without_evidence(plain.counters, "mi250", 1e5) == ["from 30 us"]
    assert expected_error.without_evidence(plain.counters, "mi250", 1e3) == ["below 30 us"]
    assert not expected_error.has_recorded_error("Duration", ["from 30 us"]) and expected_error.has_recorded_error(
        "TCC_REQ", ["from 30 us"]
    )
    assert expected_error.has_recorded_error(
        "SQ_INSTS_VALU", ["global atomics"]
    ) and not expected_error.has_recorded_error("IPC", ["LDS"])


def test_errors_fall_back_to_the_architecture(monkeypatch: pytest.MonkeyPatch) -> None:
    row = """[[error]]
quantity = "{0}"
arch = "gfx942"
device = "{1}"
unit = "%"
n = 3
median = {2}
worst = 9.0
kernels = ["copy"]
studies = ["vcopy"]
"""
    text = "[features]\ngfx942 = []\n" + row.format("TCC_REQ", "", 1.0) + row.format("duration_ns", "mi300x", 2.0)
    monkeypatch.setattr(expected_error, "load_table", lambda: expected_error.parse_evidence(text))
    assert getattr(expected_error.find_error("TCC_REQ", "mi300a", 1e5), "median", None) == 1.0
    assert getattr(expected_error.find_error("HBM_GFLOPS", "mi300x", 1e5), "median", None) == 2.0
    assert expected_error.find_error("HBM_GFLOPS", "mi250", 1e5) is None
    assert expected_error.find_error("L1_Cache_Hit_Rate", "mi300x", 1e5) is None


def test_sampling_errors_propagate_from_counters_to_metrics() -> None:
    """Twice the misses, which hit before: a hit rate of 50 % may be 0; hits alone err independently of that."""
    base = simulated({"hbm": 90})
    base = replace(base, counters={**base.counters, "TCC_HIT": 100, "TCC_MISS": 100})
    base = replace(base, metrics=metrics.compute_metrics(base.counters, base.duration_ns, "gfx90a"))
    part = replace(base, sampling=Sampling("sampled", error={"TCC_MISS": 1.0, "TCC_HIT": 0.2, "SQ_WAVES": 0.0}))
    found = uncertainty.metric_errors(part, "gfx90a", part.error_estimate)
    assert found["L2_Cache_Hit_Rate"] == pytest.approx(math.hypot(50, 50 - 100 / 2.2))
    assert "L1_Cache_Hit_Rate" not in found and uncertainty.metric_errors(base, "gfx90a", {}) == {}
    lines = terminal.render_results([result(target(), part)]).splitlines()
    (row,) = [line for line in lines if line.lstrip().startswith("L2_Cache_Hit_Rate")]
    printed = uncertainty.metric_errors(part, "gfx90a", uncertainty.metric_error_bounds(part.error_estimate))[
        "L2_Cache_Hit_Rate"
    ]
    assert printed > found["L2_Cache_Hit_Rate"] and row.split()[-3:] == ["±", f"{printed:.0f}", "pt"]
    slower = replace(base, sampling=Sampling("sampled", error={"Duration": 0.5}))
    faster = uncertainty.metric_errors(slower, "gfx90a", slower.error_estimate)["L1_Cache_Bandwidth"]
    assert faster == pytest.approx(0.5 * (base.metrics["L1_Cache_Bandwidth"] or 0))


def test_printed_bounds_are_wider_than_the_samplers_own_estimate() -> None:
    """The sampler does not see what no window shows; exact counters stay exact, busy cycles err like the duration."""
    found = uncertainty.metric_error_bounds(
        {"Duration": 0.02, "TCC_MISS": 1e-6, "SQ_WAVES": 0.0, "SQ_BUSY_CU_CYCLES": 0.0}
    )
    assert found["Duration"] == found["SQ_BUSY_CU_CYCLES"] == pytest.approx(math.hypot(0.12, 0.01))
    assert found["TCC_MISS"] == pytest.approx(0.01) and found["SQ_WAVES"] == 0
    assert uncertainty.metric_error_bounds({}) == {} and uncertainty.metric_error_bounds({"Duration": 0.0}) == {
        "Duration": 0.0
    }
    base = simulated({"hbm": 90})
    part = replace(base, sampling=Sampling("sampled", error={"Duration": 0.02}))
    document = shown(part)
    assert document["error_estimate"]["Duration"] == found["Duration"]
    assert shown(base)["metric_error_estimate"] == {}


def test_a_replayed_grid_is_not_scaled_up() -> None:
    base = simulated({"hbm": 90})
    groups = math.prod(base.grid) * base.dispatches
    whole, part = Sampling("replayed", groups, 16, {"Duration": 0.0}), Sampling("sampled", groups - 1)
    replayed, partly = (
        terminal.render_results([result(target(), replace(base, sampling=one))]) for one in (whole, part)
    )
    assert f"all {groups:,} work-groups do the same" in replayed and "scaled up" not in replayed
    assert "scaled up from" in partly and "do the same" not in partly
    some = terminal.render_results([result(target(), replace(base, sampling=Sampling("sampled", groups - 1, 16)))])
    assert f"scaled up from {groups - 1:,} of {groups:,} work-groups, which all do the same and were replayed" in some


def test_what_a_sample_is_a_part_of() -> None:
    base = simulated({"hbm": 90})
    base = replace(base, metrics=metrics.compute_metrics(base.counters, base.duration_ns, "gfx90a"))
    groups = math.prod(base.grid) * base.dispatches

    def shown(kernel: KernelRecord) -> str:
        return terminal.render_results([result(target(), kernel)])

    loops = shown(replace(base, sampling=Sampling("sampled", groups)))
    assert f"a part of each of {groups:,} work-groups" in loops
    in_full = shown(replace(base, sampling=Sampling("sampled", groups, error={"Duration": 0.0, "TCC_HIT": 0.0})))
    assert "all work-groups ran for the counters" in in_full and "scaled up" not in in_full
    uneven = shown(replace(base, same_shape=False, sampling=Sampling("sampled", 7 * groups)))
    assert f"scaled up from {7 * groups:,} work-groups of all launches" in uneven
    counted = replace(base, sampling=Sampling("sampled", 1, error={"TCC_NORMAL_EVICT": 4096.0, "TCC_HIT": 0.5}))
    (said,) = [line for line in shown(counted).splitlines() if "least certain" in line]
    assert "least certain: L2_Cache_Hit_Rate" in said and "EVICT" not in said


def test_targets_are_columns_that_wrap() -> None:
    results = [result(target(arch), simulated({"hbm": 90}, arch)) for arch in ("gfx90a", "gfx942")]
    wide = terminal.render_results(results).splitlines()
    (row,) = [line for line in wide if "L1_Cache_Hit_Rate" in line]
    assert "50 ±" in row and "62.5 ±" in row
    assert sum("bound by HBM bandwidth: 90 %" in line for line in wide) == 2
    narrow = terminal.render_results(results, width=80).splitlines()
    assert sum("L1_Cache_Hit_Rate" in line for line in narrow) == 2
    assert "TCC_EA0_RDREQ" in terminal.render_results(results) and "TCC_EA0" not in terminal.render_results(
        results, counters=False
    )


def test_two_bandwidths_of_one_level_are_told_apart() -> None:
    """The header counts bytes, and the vendor's formula counts a line for each request."""
    text = terminal.render_results([result(target("gfx942"), simulated({"hbm": 90}, "gfx942"))])
    (said,) = [line for line in text.splitlines() if line.startswith("Rates beside peaks count the bytes that move")]
    assert "L1_ and L2_Cache_Bandwidth, the vendor's, a whole line a request" in said and len(said) <= 120
    measured = terminal.render_results([result(target("gfx942"), kernel("gfx942"))])
    assert "Rates beside peaks" not in measured


@pytest.mark.parametrize(("arch", "device"), [("gfx90a", "mi250"), ("gfx942", "mi300x")])
def test_a_forged_duration_of_zero_has_no_rates(arch: str, device: str) -> None:
    forged = simulated({"hbm": 70.0}, arch, duration_ns=0.0, traffic=Traffic(1e6, 1e6, 0.0))
    transfers = (Transfer("fill", 1, 1024, 0),)
    results = [replace(result(target(arch), forged, replace(forged, name="other")), transfers=transfers)]
    rates = {rate.level: rate for rate in level_rates(forged, device)}
    assert rates["L1"].gbps is None and not rates["L1"].share
    assert "copy" in terminal.render_results(results) and "copy" in render_screen(results, 100)
    assert "no traffic" in draw_memory_chart(forged, device)
    assert document_json(describe.result_document(results[0]))


def test_all_counters_that_are_not_zero_are_shown_on_request() -> None:
    base = simulated({"hbm": 90})
    rare = {"SQ_INSTS_VALU_INT64": 7.0, "FETCH_SIZE": 4096.0, "SQ_INSTS_SMEM_NORM": 0.25, "TCC_ATOMIC": 0.0}
    results = [result(target(), replace(base, counters={**base.counters, **rare}))]
    every, usual = (terminal.render_results(results, counters=choice) for choice in (True, None))
    shown = {line.split()[0] for line in every.splitlines() if line.strip()}
    assert {
        name for name, value in results[0].kernels[0].counters.items() if value
    } <= shown and "TCC_ATOMIC" not in shown
    assert "FETCH_SIZE" not in usual and "SQ_INSTS_SMEM_NORM" in every and " 0.25" in every


def test_several_kernels_show_time_shares_and_failures_are_listed() -> None:
    many = [simulated({"hbm": 90}, name=f"step{n}") for n in range(5)]
    text = terminal.render_results([result(target(), *many), failure(target("gfx942"), "illegal_access")])
    assert text.startswith("gfx942 (mi300x)  -O3  failed: illegal_access")
    assert "kernel time" in text and text.count("1 x 100 us   20 %") == 5
    assert "SQ_WAVES" not in text and "SQ_WAVES" in terminal.render_results([result(target(), *many)], counters=True)


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (5509.2, "ns", "5.509 us"),
        (642.4, "ns", "642.4 ns"),
        (1261913, "ns", "1.262 ms"),
        (2.536e-05, "GB/s", "25.36 kB/s"),
        (12513, "GB/s", "12.51 TB/s"),
        (0, "GFLOP/s", "0 GFLOP/s"),
        (0.02083, "FLOP/B", "0.02083 FLOP/B"),
        (123456.7, "FLOP/B", "123,457 FLOP/B"),
        (1e-7, "FLOP/B", "<0.0001 FLOP/B"),
    ],
)
def test_numbers_are_readable(value: float, unit: str, text: str) -> None:
    assert numbers.format_quantity(value, unit) == text


def test_launches_overlap_so_kernels_are_no_part_of_the_programs_time() -> None:
    row = Transfer("host_to_device", 1, 1_000_000, 10_000)
    one = replace(result(target(), simulated({"hbm": 90}, dispatches=3)), transfers=(row,), clock_ns=200_000)
    (line,) = [line for line in terminal.render_results([one]).splitlines() if line.startswith("  in all")]
    assert line.endswith("200 us from the first operation to the last; kernels one by one, 300 us; host code: 0")
