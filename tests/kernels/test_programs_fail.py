"""Programs that misbehave end with a reason, and keep what was measured before."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hip_programs import FOLDER, run

from hipsynth.core.documents import to_json
from hipsynth.core.errors import MissingDependency
from hipsynth.core.program import Expected, Program, Project, SourceFile, project_program
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.matrix.job import label_sources, profile_program
from hipsynth.profiling.reports.describe import profile_document
from hipsynth.profiling.reports.terminal import render_results
from hipsynth.simulator import channel, devices
from hipsynth.simulator.limits import RunLimits

STOP_EXIT = 113  # kStopExit of the runtime library: the simulator stopped the program


def test_write_out_of_bounds(tmp_path: Path) -> None:
    done = run("out_of_bounds", tmp_path)
    assert (done.status, done.reason, done.exit_code) == ("failed", "illegal_access", STOP_EXIT), done
    assert "wild" in done.message
    assert done.stdout == "before\n", "printed before the stop, nothing after"
    assert [kernel.name for kernel in done.kernels] == ["tame"]


LENIENT = RunLimits(strict_bounds=False)


@pytest.mark.parametrize(
    ("far", "limits", "passes", "warned"),
    [
        ("0", LENIENT, True, 0),
        ("2560", LENIENT, True, 29),  # bytes 2700 to 2815, the 35 lanes before are inside
        ("43000", LENIENT, True, 64),  # within the 2 MiB that small arrays are carved out of
        ("2097152", LENIENT, False, 0),
        ("-4096", LENIENT, False, 0),
        ("43000", RunLimits(), False, 0),
    ],
)
def test_access_to_padding_mapped_by_hardware_is_a_warning(
    far: str, limits: RunLimits, passes: bool, warned: int, tmp_path: Path
) -> None:
    done = run("stray_write", tmp_path, (far,), limits=limits)
    if not passes:
        assert (done.status, done.reason, done.warnings) == ("failed", "illegal_access", ()), done
        return
    assert (done.status, done.stdout, len(done.warnings)) == ("ok", "after 0\n", 1 if warned else 0), done
    if warned:
        assert "kernel stray(char*, long), instruction `global_store_dword" in done.warnings[0]
        assert f"; {warned} such accesses in this launch were allowed" in done.warnings[0]
        assert done.stderr == f"hipsynth: warning: {done.warnings[0]}\n", "said once per kernel"


@pytest.mark.parametrize(("far", "printed", "warned"), [("64", "110 105", False), ("1024", "5 0", True)])
def test_beyond_the_lds_loads_give_zero_and_stores_are_dropped(
    far: str, printed: str, warned: bool, tmp_path: Path
) -> None:
    done = run("stray_lds", tmp_path, (far,), limits=LENIENT)
    assert (done.status, done.stdout, len(done.warnings)) == ("ok", f"{printed}\n", int(warned)), done
    if warned:
        assert "LDS access of 4 bytes at 0x1000 in kernel stray(int*, int)" in done.warnings[0]
    strict = run("stray_lds", tmp_path, (far,))
    assert (strict.status, strict.reason) == ("failed", "illegal_access"), strict
    assert "the work-group has 256 bytes of LDS" in strict.message


def test_a_program_that_is_stopped_while_a_launch_is_written_down_keeps_all_of_it(tmp_path: Path) -> None:
    """Wherever the signal comes, what is said of the kernel agrees with the number of launches."""
    stopped = 0
    for before_end in range(9, 20):
        done = run("stopped_in_a_change", tmp_path, (str(before_end),))
        assert [kernel.dispatches for kernel in done.kernels] == [done.dispatch_count], before_end
        stopped += (done.reason, done.dispatch_count) == ("host_crash", 4)
    assert stopped > 1


def test_host_memory_in_a_kernel(tmp_path: Path) -> None:
    done = run("host_pointer", tmp_path)
    assert (done.status, done.reason) == ("failed", "illegal_access"), done


def test_endless_kernel_meets_the_instruction_limit(tmp_path: Path) -> None:
    done = run("endless", tmp_path, limits=RunLimits(time_s=60.0, wave_instructions=200_000))
    assert (done.status, done.reason, done.exit_code) == ("failed", "instruction_limit", STOP_EXIT), done
    assert "spin" in done.message


def test_endless_kernel_meets_the_time_limit(tmp_path: Path) -> None:
    done = run("endless", tmp_path, limits=RunLimits(time_s=0.5, wave_instructions=10**15))
    assert (done.status, done.reason) == ("failed", "timeout"), done


@pytest.mark.parametrize("name", ["device_abort", "device_trap"])
def test_trap(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path)
    assert (done.status, done.reason, done.exit_code) == ("failed", "trap", STOP_EXIT), done
    assert "after" not in done.stdout


def test_device_assertion(tmp_path: Path) -> None:
    done = run("device_assert", tmp_path)
    assert (done.status, done.exit_code, done.stdout) == ("ok", 0, "after 0\n"), done
    done = run("device_assert", tmp_path, ("fail",))
    assert (done.status, done.reason, done.exit_code, done.stdout) == ("failed", "assertion", STOP_EXIT, ""), done
    line = "device_assert.hip:9: void insist(int *, int): Device-side assertion `p[threadIdx.x] < bound' failed."
    assert done.message.startswith(line + " In kernel insist")
    assert done.stderr.count(line + "\n") == 32, "once for each work-item that fails"


def test_use_after_free_is_named(tmp_path: Path) -> None:
    done = run("use_after_free", tmp_path)
    assert (done.status, done.reason) == ("failed", "illegal_access"), done
    assert "the allocation of 4096 bytes at 0x" in done.message and "has been freed" in done.message


def test_an_overrun_names_the_live_allocation_before_the_freed_one(tmp_path: Path) -> None:
    done = run("overrun_into_freed", tmp_path)
    assert (done.status, done.reason) == ("failed", "illegal_access"), done
    words = " bytes before; an allocation that lay there has been freed"
    assert " of 4096 bytes, which ends " in done.message and words in done.message


def test_host_crash_keeps_finished_dispatches(tmp_path: Path) -> None:
    done = run("host_crash", tmp_path)
    assert (done.status, done.reason) == ("failed", "host_crash"), done
    assert "SIGSEGV" in done.message
    assert [kernel.name for kernel in done.kernels] == ["fine"]


@pytest.mark.parametrize(("code", "way"), [(0, "return"), (7, "return"), (9, "exit"), (11, "_exit")])
def test_a_nonzero_exit_code_is_no_failure(code: int, way: str, tmp_path: Path) -> None:
    done = run("exit_code", tmp_path, (str(code), way))
    assert (done.status, done.exit_code, done.stdout, done.stderr) == ("ok", code, "to stdout\n", "to stderr\n"), done
    assert [kernel.name for kernel in done.kernels] == ["fine"]


def program(name: str, expected: Expected | None = None, text: str | None = None) -> Program:
    source = text if text is not None else (FOLDER / f"{name}.hip").read_text()
    return Program(text=source, origin="handwritten", family="test", name=name, expected=expected)


def profile(subject: Program, scratch: Path, flags: str = "-O3"):  # type: ignore[no-untyped-def]
    target = Target("gfx90a", flags, devices.default_device("gfx90a"))
    return SimBackend().profile(subject, target, scratch, RunLimits(time_s=20.0))


@pytest.mark.parametrize(
    ("name", "reason"),
    [("no_kernel", "no_kernel"), ("no_launch", "no_dispatch"), ("out_of_bounds", "illegal_access")],
)
def test_backend_names_the_failure(name: str, reason: str, tmp_path: Path) -> None:
    result = profile(program(name), tmp_path)
    assert (result.status, result.reason) == ("failed", reason), result


COPIES = """#include <hip/hip_runtime.h>
int main() {
  float *p, host[1024];
  if (hipMalloc(&p, 8192) || hipMemcpy(p, host, 4096, hipMemcpyHostToDevice) || hipMemset(p, 0, 512)) return 1;
  if (hipMemcpy(p + 1024, p, 4096, hipMemcpyDeviceToDevice) || hipMemcpy(host, p, 64, hipMemcpyDeviceToHost)) return 1;
  return hipMemcpy(host, p + 8, 36, hipMemcpyDeviceToHost) != hipSuccess;
}
"""


def test_copies_alone_are_a_result(tmp_path: Path) -> None:
    path = tmp_path / "copies.hip"
    path.write_text(COPIES)
    subject = project_program(Project((SourceFile(path),), tmp_path))
    (found,) = profile_program(subject, [Target("gfx90a", "-O3", "mi250")], "sim", RunLimits(time_s=20.0))
    assert (found.status, found.exit_code, found.kernels) == ("ok", 0, ()), found
    assert label_sources(found).reason == "no_dispatch", "it has no labels"
    moved = {row.kind: (row.count, row.bytes) for row in found.transfers}
    assert moved == {
        "host_to_device": (1, 4096), "device_to_host": (2, 100), "device_to_device": (1, 4096), "fill": (1, 512),
    }  # fmt: skip
    times = {row.kind: row.ns for row in found.transfers}
    assert 2 * times["host_to_device"] > times["device_to_host"] > times["host_to_device"] > times["fill"] > 0
    (shown,) = json.loads(json.dumps(to_json(profile_document("id", "copies.hip", [found]))))["results"]
    assert [row["kind"] for row in shown["transfers"]] == list(moved)
    assert "  device to host    2 x, 0.0001 MB in" in render_results([found])


REFUSED = """#include <hip/hip_runtime.h>
__global__ void k(float* p) { p[threadIdx.x] = 1; }
int main() {
  float *p, host[4] = {};
  if (hipMalloc(&p, 8192) || hipMemcpy(p, host, sizeof host, hipMemcpyHostToDevice)) return 1;
  k<<<SHAPE>>>(p);
  k<<<SHAPE>>>(p);
}
"""


@pytest.mark.parametrize(
    ("shape", "why"),
    [
        ("1, 2048", "work-groups of 2048 x 1 x 1 work-items; at most 1024"),
        ("1, dim3(64, 32)", "work-groups of 64 x 32 x 1 work-items; at most 1024"),
        ("dim3(4, 0), 64", "a grid of 4 x 0 x 1 work-groups"),
        ("1, 64, 1 << 20", "1048576 bytes of LDS; at most 65536"),
    ],
)
def test_a_launch_that_hardware_refuses_is_named(shape: str, why: str, tmp_path: Path) -> None:
    found = profile(program("refused", text=REFUSED.replace("SHAPE", shape)), tmp_path)
    assert (found.status, found.reason, found.kernels) == ("failed", "bad_configuration", ()), found
    head, line = found.message.splitlines()
    assert head == "the program launched no kernel; 2 refused" and line == f"hipsynth: k(float*): launch refused: {why}"


def test_backend_reports_compiler_errors(tmp_path: Path) -> None:
    result = profile(program("broken", text="__global__ void k() { undeclared = 1; }\nint main() {}\n"), tmp_path)
    assert (result.status, result.reason) == ("failed", "compile_failed")
    assert "undeclared" in result.message


def test_backend_verifies_the_expected_output(tmp_path: Path) -> None:
    good = Expected(("host before", "device 40 says 0.1251 k%"), rtol=0.01)
    result = profile(program("device_printf", good), tmp_path)
    assert result.reason == "wrong_result"
    assert "line 3 was not expected" in result.message
    lines = ("host before", "device 40 says 0.1251 k%", "device 41 says 0.125 k%", "host between")
    good = Expected((*lines, "device 7 says -2.5 k%", "host after"), rtol=0.01)
    result = profile(program("device_printf", good), tmp_path)
    assert (result.status, result.reason) == ("ok", ""), result
    result = profile(program("device_printf", Expected((*lines, "device 8 says -2.5 k%", "host after"))), tmp_path)
    assert (result.status, result.reason) == ("failed", "wrong_result")
    result = profile(program("exit_code", Expected(("to stdout",), exit_code=3)), tmp_path)
    assert result.reason == "wrong_result"
    assert result.message.startswith("exit code 0 instead of 3")


def test_backend_result_carries_means_metrics_and_provenance(tmp_path: Path) -> None:
    subject = program("device_printf")
    result = profile(subject, tmp_path)
    (kernel,) = result.kernels
    assert (kernel.name, kernel.dispatches, kernel.grid, kernel.block) == ("speak", 2, (2, 1, 1), (64, 1, 1))
    assert kernel.counters["SQ_WAVES"] == 1.5
    assert kernel.source.backend == "sim"
    assert kernel.source.version == SimBackend().version()
    assert kernel.metrics["L1_Cache_Bandwidth"] is not None
    assert result.provenance["program"] == subject.id
    assert {"compiler", "headers", "flags", "arch", "device", "backend", "version", "source_sha256"} <= set(
        result.provenance
    )


def test_a_library_of_other_sources_is_a_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = channel.encode_configuration
    later = b"of_tomorrow=1\0"
    monkeypatch.setattr(channel, "encode_configuration", lambda *given, **named: original(*given, **named) + later)
    with pytest.raises(MissingDependency, match="does not fit this version") as stale:
        run("reduction", tmp_path)
    assert "of_tomorrow" in stale.value.cause and "make setup" in stale.value.remedy


def test_an_argument_that_linux_does_not_pass_fails_the_program_alone(tmp_path: Path) -> None:
    done = run("out_of_bounds", tmp_path, ("x" * 200_000,))
    assert (done.status, done.reason) == ("failed", "needs_arguments"), done


FAULTY_HEADER = """#pragma once
template <class T>
__device__ T fetch(const T* x, int i) {
  return x[i];
}
"""
FAULTY = """#include <hip/hip_runtime.h>
#include "fetch.h"
__global__ void far(const float* x, float* y) { y[threadIdx.x] = fetch(x, threadIdx.x + 100000000); }
__global__ void stop(int* x) {
  if (threadIdx.x == 3)
    __builtin_trap();
  x[threadIdx.x] = 1;
}
int main(int argc, char**) {
  float* x;
  (void)hipMalloc(&x, 4096);
  if (argc > 1) stop<<<1, 64>>>(reinterpret_cast<int*>(x));
  far<<<1, 64>>>(x, x);
  return hipDeviceSynchronize() != hipSuccess;
}
"""


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program and its header; one for all cases, which are built with its path."""
    folder = tmp_path_factory.mktemp("faulty")
    (folder / "inc").mkdir()
    (folder / "inc/fetch.h").write_text(FAULTY_HEADER)
    (folder / "main.hip").write_text(FAULTY)
    return folder


@pytest.mark.parametrize(
    ("arguments", "reason", "place"), [((), "illegal_access", "inc/fetch.h:4"), (("x",), "trap", "main.hip:6")]
)
def test_a_fault_names_its_source_line(arguments: tuple[str, ...], reason: str, place: str, faulty: Path) -> None:
    project = Project((SourceFile(faulty / "main.hip", flags=f"-I{faulty}/inc"),), faulty, arguments=arguments)
    (failed,) = profile_program(project_program(project), [Target("gfx942", "-O2", "mi300x")], "sim", RunLimits())
    assert (failed.status, failed.reason) == ("failed", reason), failed
    assert failed.message.endswith(f"; source line {faulty / place}"), failed.message
