"""What a timed call of a recorded program is made of, and when its study has to run again."""

from __future__ import annotations

import pytest

from hipsynth.simulator import devices
from studies.leave_one_out import evidence
from studies.validation.calls import TimedCall, count_groups
from studies.validation.frame import FOLDER

MI300A = devices.load_device("mi300a").spec()


def times_ns(call: TimedCall, *launches: float) -> float:
    return call.build_timed_value(MI300A).compute_time_ns(launches, MI300A)


def test_an_idle_device_begins_late_and_later_launches_are_queued() -> None:
    two = TimedCall([({}, 1.0), ({}, 3.0)])  # type: ignore[typeddict-item]  # only their number counts here
    gap = MI300A["issue.chained_launch_ns"] - MI300A["issue.launch_ns"]
    assert times_ns(two, 5000.0, 7000.0) == pytest.approx(MI300A["issue.event_ns"] + 26_000 + 4 * gap)


def test_a_fill_comes_instead_of_the_late_begin_and_a_copy_besides() -> None:
    run = [({}, 1.0)]
    filled = TimedCall(run, fills=2)  # type: ignore[arg-type]
    copied = TimedCall(run, awaited=[58e3])  # type: ignore[arg-type]
    alone = times_ns(TimedCall(run), 5000.0)  # type: ignore[arg-type]
    assert times_ns(filled, 5000.0) - alone == 2 * MI300A["host.device_copy_ns"] - MI300A["issue.event_ns"]
    assert times_ns(copied, 5000.0) - alone == pytest.approx(MI300A["host.copy_ns"] + 1000)


def test_a_launch_waits_for_what_the_one_before_left_modified_and_no_longer_than_a_bound() -> None:
    def chain(*megabytes: float) -> float:
        runs = [({"work": {"flushed_bytes": 2**19 * mb, "left_bytes": 2**19 * mb}}, 1.0) for mb in megabytes]
        return times_ns(TimedCall(runs), *[5000.0] * len(runs))  # type: ignore[arg-type]

    assert chain(64) == chain(0)  # nothing follows
    one = chain(1.5, 0) - chain(0, 0)
    assert one == pytest.approx(256 * MI300A["fabric.handover_ns_per_kb"])
    assert chain(3, 0) - chain(0, 0) == pytest.approx(2 * one) == chain(64, 9) - chain(0, 0)


def test_groups_cover_all_items() -> None:
    assert [count_groups(n) for n in (1, 256, 257)] == [1, 1, 2] and count_groups(17, 16) == 2


def test_a_study_depends_on_the_studies_and_kernels_that_it_uses() -> None:
    streams = {path.relative_to(FOLDER).as_posix() for path in evidence.list_sources("streams")}
    assert {"comparisons/streams.py", "comparisons/vcopy.py", "kernels/streams.hip", "timed.py", "calls.py"} <= streams
    assert "recorded/streams.toml" in streams and not any("kernel_times" in name for name in streams)
