"""Refits without a kind, and ranges: on made-up recordings whose constants are known."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from hipsynth.profiling.uncertainty import classes, expected_error
from hipsynth.simulator import devices
from hipsynth.simulator.native_core import native_core
from studies.leave_one_out import evidence, ranges, refit, score
from studies.leave_one_out.constants import FittedConstant
from studies.leave_one_out.evidence import BYTES, HIT, TIME, RecordedFigure

READ = FittedConstant((("mi250", "hbm.read_gbps"),), "times", ("reads", "more reads"), 1600.0, "peak", most=1600.0)
TURNS = FittedConstant((("mi250", "l2.turn_cycles"),), "times", ("turns",), 0.0, "none", shift=0.25)
COUNTED = {"TCP_TCC_READ_REQ": 4.0, "TCC_MISS": 2.0, "EXACT_READ_BYTES": 256.0, "TCP_TOTAL_CACHE_ACCESSES": 4.0}


def stream(size: float, gbps: float) -> RecordedFigure:
    """A read of `size` bytes, recorded as the model has it at a bandwidth."""
    waves = size / 4096
    work = {"groups": waves / 4, "waves_per_group": 4.0, "groups_per_cu": 8.0, "waves": waves, "hbm_read_bytes": size}
    table = devices.load_device("mi250").spec()
    theirs = native_core().estimate({**table, "hbm.read_gbps": gbps}, work)["duration_ns"]
    ours = native_core().estimate(table, work)["duration_ns"]
    return RecordedFigure("made", "up", f"{size:g}", "mi250", TIME, theirs, ours, {}, (work,), COUNTED)


def kept(kind: str, *figures: RecordedFigure) -> dict[str, list[RecordedFigure]]:
    return {kind: list(figures)}


def test_other_kinds_decide_a_constant() -> None:
    """At 900 GB/s by two kinds; a third at 500 would make it slower, if it were not outvoted."""
    others = kept("reads", stream(1e9, 900), stream(2e9, 900)) | kept("more", stream(3e9, 900))
    others |= kept("odd", stream(1e9, 500))
    assert refit.refit_constants([READ], others)[READ.name] == pytest.approx(900, rel=0.02)


def test_what_other_kinds_leave_open_goes_to_the_prior() -> None:
    found = refit.refit_constants([READ, TURNS], kept("reads", stream(1e9, 900)))
    assert found[READ.name] == pytest.approx(900, rel=0.02) and found[TURNS.name] == pytest.approx(0, abs=0.02)
    assert refit.refit_constants([READ], {})[READ.name] == pytest.approx(1600, rel=0.01)
    assert refit.refit_constants([READ], kept("reads", stream(1e9, 5000)))[READ.name] <= 1600


def test_a_kind_that_no_constant_depends_on_stays_as_it_is() -> None:
    known = kept("gpu-strides strided float", stream(1e9, 900))
    (left_out,) = refit.leave_out_kinds(["gpu-strides strided float"], known)
    assert left_out.values == {} and list(left_out.figures) == known["gpu-strides strided float"]


def test_at_most_six_figures_of_a_device_are_fitted() -> None:
    many = [stream(1e8 * n, 900) for n in range(1, 21)]
    chosen = refit.choose_figures([*many, replace(many[0], device="mi210")])
    assert [f.label for f in chosen[:6:5]] == ["1e+08", "2e+09"] and len(chosen) == 7


def timed(theirs: float, ours: float, device: str = "mi250", **counted: float) -> RecordedFigure:
    return RecordedFigure("made", "up", "", device, TIME, theirs, ours, {}, ({},), {**COUNTED, **counted})


def test_errors_and_scores() -> None:
    slow, fast = timed(1e6, 1.2e6), timed(2e6, 1.8e6)
    assert score.compute_error_size(slow) == pytest.approx(20) and score.compute_error_size(fast) == pytest.approx(10)
    hit = RecordedFigure("made", "up", "", "mi250", HIT, 50.0, 47.0)
    moved = RecordedFigure("made", "up", "", "mi250", BYTES, 100.0, 104.0)
    kinds = {"gpu-stream read": [slow, slow, slow, fast], "fill": [fast, hit, moved]}
    found = score.score_figures(kinds, kinds)
    assert found.left_out and found.left_out.mape == pytest.approx((17.5 + 10) / 2)
    bias = ((3 * math.log(1.2) + math.log(0.9)) / 4 + math.log(0.9)) / 2
    assert found.left_out.bias == pytest.approx(100 * bias)
    assert found.hit_median == 3 and found.bytes_mean == pytest.approx(4)
    assert score.score_figures(kinds, kinds, ("mi300x",)).left_out is None


def test_kinds_weigh_the_same_in_quantiles() -> None:
    kinds = {"many": [timed(1e6, 1.01e6)] * 99, "one": [timed(1e6, 1.5e6)]}
    assert score.find_error_quantile(kinds, 0.5) == pytest.approx(1) and score.find_error_quantile(
        kinds, 0.8
    ) == pytest.approx(50)


def streams(count: int, ratio: float, device: str = "mi250", **counted: float) -> dict[str, Any]:
    return {f"{device} {n}": [timed(1e6, ratio * 1e6, device, **counted)] for n in range(count)}


def test_ranges_are_wider_with_little_evidence() -> None:
    loops = {"SQ_INSTS_VALU": 1e3}
    figures = streams(3, 1.1) | streams(2, 1.2, "mi210", **loops)
    rows = {(row.class_, row.arch): row for row in ranges.compute_ranges(figures)}
    plain, few, none = (rows[name, "gfx90a"] for name in (classes.STREAMING, classes.LOOPS, classes.ATOMICS))
    assert (plain.kinds, plain.wide) == (3, False) and plain.range == pytest.approx(10, abs=0.1)
    assert (few.kinds, few.wide, few.alone) == (2, True, pytest.approx(20, abs=0.1))
    assert few.range == pytest.approx(1.25 * 20, abs=0.1)
    assert none.wide and none.alone is None and none.range == pytest.approx(25, abs=0.1), "that of all classes, wider"
    assert all(arch == "gfx90a" for _, arch in rows)
    assert ranges.measure_coverage(figures, list(rows.values())) == 1
    assert ranges.measure_coverage(figures, [replace(plain, range=5.0), few]) == pytest.approx(2 / 5)


def test_enough_kinds_of_the_class_elsewhere_stand_for_it() -> None:
    """Three of it on gfx90a are off by 2 %: all other classes, by 40 %, do not count."""
    loops = {"SQ_INSTS_VALU": 1e3}
    figures = streams(3, 1.02, "mi250", **loops) | streams(3, 1.4, "mi300x") | streams(1, 1.04, "mi300a", **loops)
    rows = {(row.class_, row.arch): row for row in ranges.compute_ranges(figures)}
    here = rows[classes.LOOPS, "gfx942"]
    assert here.wide and here.kinds == 1 and here.range == pytest.approx(1.25 * 4, abs=0.1)


def test_the_table_of_ranges_is_read_as_it_was_written() -> None:
    rows = ranges.compute_ranges(streams(3, 1.1) | streams(1, 1.3, SQ_INSTS_LDS=5.0))
    again = expected_error.parse_ranges(ranges.render_ranges(rows))
    assert list(again.values()) == rows


def test_figures_are_collected_again_with_another_compiler_or_other_counters(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evidence, "find_toolchain", lambda: SimpleNamespace(identity="clang 22"))
    identities = [evidence.identify_study("vcopy"), evidence.identify_study("vcopy")]
    assert identities[0] == identities[1]
    with monkeypatch.context() as other:
        other.setattr(evidence, "find_toolchain", lambda: SimpleNamespace(identity="clang 23"))
        identities.append(evidence.identify_study("vcopy"))
    with monkeypatch.context() as other:
        other.setattr(classes, "COUNTERS", classes.COUNTERS | {"SQ_WAVES"})
        identities.append(evidence.identify_study("vcopy"))
    assert len(set(identities)) == 3
