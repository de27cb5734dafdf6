"""Unmodified HIP programs run on the simulator and verify their results."""

from __future__ import annotations

from pathlib import Path
from statistics import fmean

import pytest
from hip_programs import built, run

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.simulator import api, devices
from hipsynth.simulator.limits import RunLimits

# program -> (what it prints last, its dispatches by kernel)
PROGRAMS: dict[str, tuple[str, dict[str, int]]] = {
    "vector_add": ("vector_add 10000 ok", {"vector_add": 1}),
    "saxpy_events": ("saxpy ok", {"saxpy": 2}),
    "reduction": ("reduction ok", {"reduce_static": 1, "reduce_dynamic": 1}),
    "stencil_2d": ("stencil ok", {"stencil": 1}),
    "managed": ("managed ok", {"scale": 1}),
    "symbols": ("symbols ok", {"use": 1}),
    "streams": ("streams ok", {"increment": 2}),
    "atomics": ("atomics ok", {"histogram": 1}),
    "two_kernels": ("two kernels ok", {"fill<int, 3>": 1, "fill<double, 5>": 1, "combine": 4}),
    "graphs": ("graphs ok", {"add": 10}),
    "captures": ("captures ok", {"add": 14}),
    "callbacks": ("callbacks ok", {"add": 5}),
    "device_heap": ("device heap ok", {"lists": 1, "keep": 1, "take": 1}),
    "grid_barrier": ("grid barrier ok", {"relay": 1, "alone": 6}),
    "device_reset": ("reset ok", {"bump": 3}),
    "overlap": ("overlap ok", {"work": 10}),
    "virtual_memory": ("virtual memory ok", {"count_up": 1}),
    "graph_nodes": ("graph nodes ok", {"shift": 4, "scale": 4}),
    "half_on_the_host": ("half on the host ok", {"pack": 1}),
    "graph_memory": ("graph memory ok", {"count": 6}),
    "graph_queries": ("graph queries ok", {"add": 1}),
    "calls": ("4 8 12", {"through_a_pointer": 1, "direct": 1, "with_stack": 1}),
    "run_time_compile": ("run-time compile ok", {"scale": 1, "shift<float>": 1}),
}


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_program_checks_its_own_result(name: str, arch: str, tmp_path: Path) -> None:
    done = run(name, tmp_path, arch=arch)
    last, dispatches = PROGRAMS[name]
    assert (done.status, done.exit_code, done.stdout) == ("ok", 0, last + "\n"), (
        done.message,
        done.stdout,
        done.stderr,
    )
    assert {kernel.name: kernel.dispatches for kernel in done.kernels} == dispatches


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_functions_that_a_pointer_may_lead_to_do_not_count_as_the_kernels_own(arch: str, tmp_path: Path) -> None:
    """At -O0 an array of unknown length has addresses that look like those of any function."""
    done = run("calls", tmp_path, arch=arch, flags="-O0")
    assert (done.status, done.stdout) == ("ok", "4 8 12\n"), done.message


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_services_of_the_host(arch: str, tmp_path: Path) -> None:
    done = run("device_services", tmp_path, arch=arch)
    assert (done.status, done.stdout, done.stderr) == (
        "ok",
        "item 0 of 3 has a text that is longer than one packet: 0.50\nitem 2 of 3 has a text that is longer than one"
        " packet: 1.50\ncalled 64 times, services ok\n",
        "to stderr 7\n",
    ), done


@pytest.mark.parametrize(
    ("arch", "last", "kernels"),
    [
        ("gfx90a", "textures ok, images yes", {"sample": 2, "fetch": 1, "invert": 1}),
        ("gfx942", "textures ok, images no", {}),
    ],
)
def test_textures(arch: str, last: str, kernels: dict[str, int], tmp_path: Path) -> None:
    done = run("textures", tmp_path, arch=arch)
    assert (done.status, done.stdout) == ("ok", last + "\n"), done
    assert {kernel.name: kernel.dispatches for kernel in done.kernels} == kernels


def test_device_printf_keeps_its_place(tmp_path: Path) -> None:
    done = run("device_printf", tmp_path)
    assert done.stdout.splitlines() == [
        "host before",
        "device 40 says 0.125 k%",
        "device 41 says 0.125 k%",
        "host between",
        "device 7 says -2.500 k%",
        "host after",
    ]


def test_printf_of_short_integers(tmp_path: Path) -> None:
    assert run("full_printf", tmp_path).stdout == "ff 44 4464 -1\n"


def test_printf_of_strings_that_are_said_to_be_wide(tmp_path: Path) -> None:
    assert run("full_printf", tmp_path, ("wide",)).stdout == "wide|  tex|short\n"


def test_text_that_a_printf_buffer_has_no_room_for_is_said_to_be_lost(tmp_path: Path) -> None:
    done = run("full_printf", tmp_path, ("full",))
    assert done.status == "ok" and "printf buffer is full (4 MiB)" in done.stderr
    assert 0 < done.stdout.count("\n") < 1024 * 256


def test_the_limit_of_the_stack_is_that_of_the_program(tmp_path: Path) -> None:
    assert run("deep_recursion", tmp_path, ("65536",)).stdout == "150\n"
    assert run("deep_recursion", tmp_path, ("1024",)).reason == "illegal_access"


def test_arguments_reach_the_program(tmp_path: Path) -> None:
    done = run("vector_add", tmp_path, ("777",))
    assert done.stdout == "vector_add 777 ok\n"
    (kernel,) = done.kernels
    assert (kernel.grid, kernel.block) == ((4, 1, 1), (256, 1, 1))


def test_counts_and_clock(tmp_path: Path) -> None:
    done = run("vector_add", tmp_path)
    (kernel,) = done.kernels
    waves = 40 * 4  # 10000 work-items in blocks of 256
    assert kernel.counters["SQ_WAVES"] == waves
    assert kernel.duration_ns > 0
    assert done.clock_ns > kernel.duration_ns, "three copies of 40 kB take time as well"
    assert len(done.dispatches) == done.dispatch_count == 1
    assert done.dispatches[0].counters == kernel.counters


def test_shapes_of_repeated_dispatches(tmp_path: Path) -> None:
    done = run("two_kernels", tmp_path)
    combine = next(kernel for kernel in done.kernels if kernel.name == "combine")
    assert not combine.same_shape
    assert (combine.grid, combine.block) == ((8, 1, 1), (64, 1, 1))
    each = [dispatch for dispatch in done.dispatches if dispatch.symbol == combine.symbol]
    assert fmean(dispatch.duration_ns for dispatch in each) == pytest.approx(combine.duration_ns)
    assert fmean(dispatch.counters["SQ_WAVES"] for dispatch in each) == combine.counters["SQ_WAVES"]


def test_each_shape_has_its_own_record(tmp_path: Path) -> None:
    done = run("two_kernels", tmp_path)
    grouped: dict[tuple[object, ...], list[KernelRecord]] = {}
    for dispatch in done.dispatches:
        grouped.setdefault((dispatch.name, dispatch.grid, dispatch.block), []).append(dispatch)
    assert [(one.name, one.grid, one.block) for one in done.shapes] == list(grouped)
    for one, each in zip(done.shapes, grouped.values(), strict=True):
        assert one.same_shape and one.dispatches == len(each)
        assert one.duration_ns == pytest.approx(fmean(dispatch.duration_ns for dispatch in each))
        assert one.counters["SQ_WAVES"] == each[0].counters["SQ_WAVES"]
        assert one.work is not None and each[0].work is not None and one.work.waves == each[0].work.waves
    assert run("vector_add", tmp_path).shapes == ()


def test_shapes_beyond_what_is_kept_share_a_record(tmp_path: Path) -> None:
    done = run("growing_grids", tmp_path, ("300",))
    (kernel,) = done.kernels
    *kept, others = done.shapes
    assert [one.grid[0] for one in kept] == list(range(1, 257)) and all(one.same_shape for one in kept)
    assert (others.grid[0], others.dispatches, others.same_shape) == (257, 44, False)
    waves = sum(one.counters["SQ_WAVES"] * one.dispatches for one in done.shapes)
    assert waves == pytest.approx(kernel.counters["SQ_WAVES"] * 300) == pytest.approx(300 * 301 / 2)


def test_many_dispatches_are_counted_together(tmp_path: Path) -> None:
    done = run("many_launches", tmp_path, ("300",))
    (kernel,) = done.kernels
    assert (kernel.dispatches, done.dispatch_count, kernel.counters["SQ_WAVES"]) == (300, 300, 1)
    assert len(done.dispatches) == 64
    issue = devices.load_device(devices.default_device("gfx90a")).spec()
    overlap = issue["issue.launch_ns"] - issue["issue.chained_launch_ns"]  # of a launch with the kernel before it
    assert done.clock_ns >= 300 * kernel.duration_ns - 299 * overlap


def time_besides_kernels_ns(tmp_path: Path, arch: str, *args: str) -> float:
    done = run("chain", tmp_path, args, arch=arch)
    return 1000 * float(done.stdout) - sum(kernel.duration_ns * kernel.dispatches for kernel in done.kernels)


def test_a_queued_launch_waits_for_what_the_one_before_left_modified(tmp_path: Path) -> None:
    small, large, megabyte = 1 << 10, 1 << 18, 1024
    device = devices.load_device(devices.default_device("gfx942"))
    each = device["fabric.handover_ns_per_kb"] * (megabyte - megabyte / 256) / device["topology.xcds"]
    queued, short = (time_besides_kernels_ns(tmp_path, "gfx942", str(count)) for count in (large, small))
    assert queued - short == pytest.approx(8 * each, rel=0.02)  # of nine launches, the first waits for none
    awaited, short = (time_besides_kernels_ns(tmp_path, "gfx942", str(count), "waits") for count in (large, small))
    assert awaited == pytest.approx(short, abs=20), "nothing is left when the host has waited"
    one_l2 = [time_besides_kernels_ns(tmp_path, "gfx90a", str(count)) for count in (large, small)]
    assert one_l2[0] == pytest.approx(one_l2[1], abs=20)


def test_without_counters_durations_are_the_same(tmp_path: Path) -> None:
    device = devices.load_device(devices.default_device("gfx90a"))
    whole = run("many_launches", tmp_path, ("70",))
    limits = RunLimits(time_s=30.0, counters=False)
    brief = api.run_program(built("many_launches"), device, tmp_path, limits, ("70",))
    assert (brief.clock_ns, brief.dispatch_count) == (whole.clock_ns, 70)
    (kernel,) = brief.kernels
    assert kernel.duration_ns == whole.kernels[0].duration_ns and not kernel.counters


def test_same_run_same_result(tmp_path: Path) -> None:
    first, second = (run("atomics", tmp_path) for _ in range(2))
    assert first.kernels == second.kernels
    assert first.clock_ns == second.clock_ns


def test_module_api(tmp_path: Path) -> None:
    code_object = built("module_api").code_object
    done = run("module_api", tmp_path, (str(code_object),))
    assert (done.exit_code, done.stdout) == (0, "module ok\n"), done.stderr
    assert [(kernel.name, kernel.dispatches) for kernel in done.kernels] == [("shift", 2)]


def test_a_module_that_is_unloaded_leaves_nothing(tmp_path: Path) -> None:
    done = run("module_unload", tmp_path, (str(built("module_unload").code_object),))
    assert (done.exit_code, done.stdout) == (0, "unload ok\n"), done.stderr


@pytest.mark.parametrize("caches", [True, False])
def test_work_groups_know_their_die(caches: bool, tmp_path: Path) -> None:
    numbers = "".join(str(group % 8) for group in range(20))
    limits = RunLimits(time_s=30.0, caches=caches)
    assert run("xcc_id", tmp_path, arch="gfx942", limits=limits).stdout == 2 * numbers + "\n"
