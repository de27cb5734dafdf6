"""Two profiles compared: pairing, durations with uncertainty, causes; and whether the uncertainty fits recordings."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from profiling_samples import kernel, result, target

from hipsynth.core.documents import from_json, to_json
from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.profiling.compare.ci_reports import junit_report
from hipsynth.profiling.compare.differ import FLOOR, OF_CHANGE, compare_profiles
from hipsynth.profiling.compare.documents import CompareDocument, KernelPair
from hipsynth.profiling.compare.page import comparison_page
from hipsynth.profiling.compare.text import comparison_lines
from hipsynth.profiling.metrics.bottleneck import Bottleneck, Bound
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.documents import ProfiledKernel, ProfileDocument

PAGES = Path(__file__).resolve().parents[3] / "docs" / "explanation" / "validation"


def simulated(name: str, ns: float, **bounds: float) -> ProfiledKernel:
    """A kernel as the simulator documents it, with these bounds in ns."""
    plain = profile_document("p", "p.hip", [result(target(), kernel(name=name))]).results[0].kernels[0]
    rows = tuple(Bound(unit, time, time / ns) for unit, time in sorted(bounds.items(), key=lambda row: -row[1]))
    limit = Bottleneck(rows[0].unit, rows[0].name, rows[0].share, (), f"bound by {rows[0].name}", {}, rows, None)
    return replace(plain, duration_ns=ns, backend="sim", bottleneck=limit)


def profile(*kernels: ProfiledKernel, device: str = "mi250") -> ProfileDocument:
    document = profile_document("p", "p.hip", [result(target())])
    return replace(document, results=(replace(document.results[0], kernels=kernels, device=device),))


def compared(a: ProfiledKernel, b: ProfiledKernel) -> KernelPair:
    return compare_profiles(profile(a), profile(b)).targets[0].kernels[0]


def with_counts(one: ProfiledKernel, **counts: float) -> ProfiledKernel:
    return replace(one, counters={**one.counters, **counts})


def test_equal_profiles_are_equal_for_certain() -> None:
    same = compared(simulated("k", 1e5, hbm=9e4), simulated("k", 1e5, hbm=9e4))
    assert (same.duration.verdict, same.duration.uncertainty_percent) == ("equal", 0.0)
    assert (same.summary, same.counters, same.causes) == ("the same duration", {}, ())


def test_a_change_is_explained_by_the_counter_of_the_unit_that_limited() -> None:
    a = with_counts(simulated("k", 1e5, hbm=9e4, valu=2e4), TCC_MISS=1000, SQ_INSTS_VALU=500)
    b = with_counts(simulated("k", 5e4, hbm=4e4, valu=1e4), TCC_MISS=400, SQ_INSTS_VALU=100)
    pair = compared(a, b)
    assert pair.duration.speedup == 2 and pair.duration.change_percent == -50
    assert [cause.unit for cause in pair.causes] == ["hbm"], "the vector ALU did not limit it"
    assert re.fullmatch(r"faster by 50 ± [\d.]+ %, from fewer L2 misses \(-60 %\)", pair.summary)
    slow = with_counts(simulated("k", 1e5, hbm=9e4, infinity=9e4), TCC_MISS=1000)
    both = compared(slow, with_counts(simulated("k", 5e4, hbm=4e4, infinity=4e4), TCC_MISS=400))
    assert [cause.unit for cause in both.causes] == ["hbm", "infinity"] and both.summary == pair.summary
    back = compared(b, a)
    assert back.summary.startswith("slower by 100 ±") and back.summary.endswith("from more L2 misses (+150 %)")


def test_a_small_change_is_not_certain_and_sampling_adds_to_it() -> None:
    a, b = simulated("k", 1e5, hbm=9e4), simulated("k", 0.97e5, hbm=8.7e4)
    pair = compared(a, b)
    assert pair.duration.verdict == "uncertain" and pair.summary.startswith("no certain change: faster by 3 ±")
    plain, sampled = (
        compared(a, replace(b, duration_ns=5e4)),
        compared(replace(a, error_estimate={"Duration": 0.3}), replace(b, duration_ns=5e4)),
    )
    assert plain.duration.uncertainty_percent is not None and sampled.duration.uncertainty_percent is not None
    assert sampled.duration.uncertainty_percent > plain.duration.uncertainty_percent


def test_a_simulated_duration_beside_a_measured_one_errs_by_its_own_range() -> None:
    one = replace(simulated("k", 1.05e5, hbm=9e4), extra_metrics={"Exact_GFLOPS": 100.0})
    there = replace(one, duration_ns=1e5, backend="rocprof", bottleneck=None, extra_metrics={})
    pair = compared(one, there)
    assert pair.duration.verdict == "uncertain" and (pair.duration.uncertainty_percent or 0) > 5
    document = compare_profiles(profile(one), profile(there))
    total = document.targets[0].total
    assert total and total.verdict == "uncertain"
    text = "\n".join(comparison_lines(document))
    assert "  A bound by" in text and "Exact_" not in text and not re.search(r"^ *B *$", text, re.MULTILINE)
    with pytest.raises(BadInput, match="nothing to judge") as error:
        compare_profiles(profile(one), profile(there), slower_limit_percent=5)
    assert "one side was measured" in error.value.cause


def test_measured_durations_have_no_uncertainty_of_the_model() -> None:
    documents = [profile_document("p", "p.hip", [result(target(), kernel(scale=scale))]) for scale in (1, 2)]
    (target_pair,) = compare_profiles(*documents).targets
    assert target_pair.kernels[0].duration.uncertainty_percent is None
    assert target_pair.kernels[0].summary == "slower by 100 %"


def test_kernels_are_paired_by_launch_then_name_then_order() -> None:
    a = [simulated(name, 1e5, hbm=9e4) for name in ("same", "shape", "gone")]
    b = [simulated(name, 1e5, hbm=9e4) for name in ("new", "shape", "same")]
    b[1] = replace(b[1], block=(64, 1, 1))
    (found,) = compare_profiles(profile(*a), profile(*b)).targets
    assert [(k.name, k.name_b, k.paired_by) for k in found.kernels] == [
        ("same", "same", "launch"),
        ("shape", "shape", "name"),
        ("gone", "new", "order"),
    ]
    (found,) = compare_profiles(profile(*a), profile(b[2])).targets
    assert [k.name for k in found.kernels] == ["same"]
    assert (found.only_a, found.only_b) == (("shape", "gone"), ()), "which of the two the order cannot tell"


def test_targets_without_a_counterpart_are_said() -> None:
    both = profile_document("p", "p.hip", [result(target("gfx90a")), result(target("gfx942"))])
    one = profile_document("p", "p.hip", [result(target("gfx942", "-O1"))])
    found = compare_profiles(both, one)
    assert [(t.a.arch, t.a.flags, t.b.flags) for t in found.targets] == [("gfx942", "-O3", "-O1")]
    assert [t.arch for t in found.only_a] == ["gfx90a"] and found.only_b == ()
    assert "only A was profiled for gfx90a (mi250)  -O3" in comparison_lines(found)


def test_a_program_that_failed_is_said_and_not_judged() -> None:
    a, b = (profile(*(simulated(name, 1e5, hbm=9e4) for name in "kl")) for _ in range(2))
    crashed = replace(b.results[0], status="failed", reason=Reason.ILLEGAL_ACCESS, message="at 0x10 in l")
    b = replace(b, results=(replace(crashed, kernels=crashed.kernels[:1]),))
    found = compare_profiles(a, b)
    assert (found.targets[0].failure_a, "at 0x10 in l" in found.targets[0].failure_b) == ("", True)
    for text in ("\n".join(comparison_lines(found)), comparison_page(found), junit_report(found)):
        assert "at 0x10 in l" in text
    with pytest.raises(BadInput, match="cannot be judged"):
        compare_profiles(a, b, slower_limit_percent=5.0)


def test_a_program_that_fails_its_own_check_is_not_judged() -> None:
    a = profile(simulated("k", 1e5, hbm=9e4))
    wrong = replace(a, results=(replace(a.results[0], exit_code=1),))
    assert compare_profiles(a, wrong).targets[0].failure_b == "it ended with exit code 1"
    with pytest.raises(BadInput, match="cannot be judged"):
        compare_profiles(a, wrong, slower_limit_percent=5.0)
    assert compare_profiles(wrong, wrong, slower_limit_percent=5.0).slower == (), "as the other one does"
    kernels = tuple(replace(kernel, sampled=True) for kernel in wrong.results[0].kernels)
    sampled = replace(wrong, results=(replace(wrong.results[0], kernels=kernels),))
    assert compare_profiles(a, sampled, slower_limit_percent=5.0).slower == (), "nothing is known of its results"


def test_a_limit_needs_something_that_is_compared() -> None:
    a = profile(simulated("k", 1e5, hbm=9e4))
    elsewhere = replace(a, results=tuple(replace(a.results[0], device=name) for name in ("mi300x", "mi300a")))
    for other in (elsewhere, replace(a, results=(replace(a.results[0], kernels=()),))):
        with pytest.raises(BadInput, match="nothing to judge"):
            compare_profiles(a, other, slower_limit_percent=5.0)


@pytest.mark.parametrize(("limit", "expected"), [(None, 0), (99.0, 2), (101.0, 0)])
def test_slower_kernels_are_named(limit: float | None, expected: int) -> None:
    a, b = profile(simulated("k", 1e5, hbm=9e4)), profile(simulated("k", 2e5, hbm=9e4))
    assert len(compare_profiles(a, b, None, limit).slower) == expected


def test_a_forged_duration_is_no_crash() -> None:
    pair = compared(simulated("k", 1e5, hbm=9e4), replace(simulated("k", 1e5, hbm=9e4), duration_ns=0.0))
    assert pair.duration.verdict == "uncertain" and pair.duration.speedup == 0


def test_the_document_survives_json_and_names_are_escaped_on_the_page() -> None:
    document = compare_profiles(
        profile(simulated("<b>a", 1e5, hbm=9e4)), profile(simulated("<b>a", 5e4, hbm=4e4)), ("<script>", "B")
    )
    assert from_json(CompareDocument, to_json(document)) == document
    page = comparison_page(document)
    assert "<script>" not in page and "<b>a" not in page and "faster by 50" in page


def recorded_pairs() -> Iterator[tuple[float, float, float]]:
    """(weight, change, error) of each pair of durations of one table of the validation pages, as logarithms."""
    for path in sorted(PAGES.glob("*.md")):
        for table in path.read_text().split("\n## "):
            rows = re.findall(r"^\| [^|]+ \| duration_ns \| ([\d,.]+) \| ([\d,.]+) \|", table, re.MULTILINE)
            logs = [[math.log(float(text.replace(",", ""))) for text in row] for row in rows]
            pairs = list(itertools.combinations(logs, 2))
            for x, y in pairs:
                yield 1 / len(pairs), abs(x[1] - y[1]), abs(x[1] - y[1] - x[0] + y[0])


def test_four_of_five_recorded_ratios_are_within_the_uncertainty() -> None:
    """Every table weighs the same."""
    pairs = list(recorded_pairs())
    assert len(pairs) > 1000
    inside = sum(weight for weight, change, error in pairs if error <= math.hypot(FLOOR, OF_CHANGE * change))
    assert 0.75 < inside / sum(weight for weight, *_ in pairs) < 0.9


def specialized(ns: float, **meta: int) -> ProfiledKernel:
    return replace(simulated("double", ns, hbm=ns / 2), language="triton", meta=meta)


def test_builds_of_a_triton_kernel_are_paired_by_what_they_were_specialized_for() -> None:
    first = [specialized(ns, BLOCK=block, num_warps=4) for ns, block in ((1e5, 64), (2e5, 128), (3e5, 256))]
    second = [replace(kernel, grid=(7, 1, 1)) for kernel in reversed(first)]
    target_pair = compare_profiles(profile(*first), profile(*second)).targets[0]
    assert [pair.duration.verdict for pair in target_pair.kernels] == ["equal"] * 3
    assert [pair.paired_by for pair in target_pair.kernels] == ["meta"] * 3
    assert all(value.a == value.b for pair in target_pair.kernels for value in (pair.meta or {}).values())


def test_builds_without_an_equal_one_are_paired_with_the_most_alike() -> None:
    first = [specialized(1e5, BLOCK=64, num_warps=4), specialized(2e5, BLOCK=128, num_warps=8)]
    second = [specialized(3e5, BLOCK=256, num_warps=8), specialized(4e5, BLOCK=64, num_warps=2)]
    pairs = compare_profiles(profile(*first), profile(*second)).targets[0].kernels
    assert [(pair.duration.a_ns, pair.duration.b_ns, pair.paired_by) for pair in pairs] == [
        (1e5, 4e5, "name"),
        (2e5, 3e5, "name"),
    ]


def test_meta_parameters_are_shown_side_by_side() -> None:
    a, b = specialized(2e5, BLOCK=64, num_warps=4), specialized(1e5, BLOCK=128, num_warps=4)
    document = compare_profiles(profile(a), profile(b))
    assert "  triton: BLOCK=64 -> 128, num_warps=4" in comparison_lines(document)
    assert "triton: BLOCK=64 → 128, num_warps=4" in comparison_page(document)
    [row] = document.table_rows()
    assert (row["BLOCK"], row["BLOCK_b"], row["num_warps_b"]) == (64, 128, 4)
    assert from_json(CompareDocument, to_json(document)) == document


def test_a_kernel_in_hip_beside_one_in_triton() -> None:
    document = compare_profiles(
        profile(simulated("scale", 1e5, hbm=9e4)), profile(specialized(2e5, BLOCK=64, num_warps=4))
    )
    [pair] = document.targets[0].kernels
    assert (pair.language_a, pair.language_b, pair.paired_by) == (None, "triton", "order")
    assert "  HIP -> triton: BLOCK=64, num_warps=4" in comparison_lines(document)
