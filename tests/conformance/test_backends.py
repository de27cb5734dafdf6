"""Every backend conforms to the protocol (tests/support/backend_conformance.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import backend_conformance as conformance
import needs
import pytest
from profiling_samples import VCOPY_GFX90A, captures, failure, kernel, program, result, target

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import MeasurementSource
from hipsynth.core.program import Program, Project, SourceFile
from hipsynth.profiling import backends
from hipsynth.profiling.backends.preview import PreviewBackend
from hipsynth.profiling.backends.protocol import Backend, Target
from hipsynth.profiling.backends.recorded import RecordedBackend, capture_result, read_capture
from hipsynth.profiling.backends.rocprof import RocprofBackend, _folder_name
from hipsynth.simulator.limits import RunLimits

VCOPY = """
#include <hip/hip_runtime.h>
#include <cstdio>
__global__ void copy(const double* a, double* c) {
  size_t id = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  c[id] = a[id];
}
int main() {
  const int n = 65536;
  double *a, *c;
  if (hipMalloc(&a, n * 8) != hipSuccess || hipMalloc(&c, n * 8) != hipSuccess) return 1;
  hipMemset(a, 0, n * 8);
  copy<<<n / 256, 256>>>(a, c);
  double last = 1;
  hipMemcpy(&last, c + n - 1, 8, hipMemcpyDeviceToHost);
  std::printf("%g\\n", last);
  return last != 0;
}
"""
BROKEN = "#include <hip/hip_runtime.h>\n__global__ void k() { nonsense(); }\nint main() { k<<<1, 1>>>(); }\n"
NO_KERNEL = '#include <cstdio>\nint main() { std::puts("no kernel"); }\n'
BEYOND = VCOPY.replace("c[id] = a[id]", "c[id + (size_t(1) << 30)] = a[id]")


@dataclass(frozen=True)
class BackendCase:
    """A backend with a working program and failing programs, each with its allowed reason codes."""

    backend: Backend
    good: Program
    bad: dict[str, tuple[Program, set[str]]]
    unsupported: Target


def recorded_case(tmp_path: Path) -> BackendCase:
    folder = captures(tmp_path / "captures", [program(0)], [target("gfx90a"), target("gfx942")])
    capture_result(folder, program(1).id, failure(target("gfx90a"), "timeout"))
    capture_result(folder, program(1).id, failure(target("gfx942"), "timeout"))
    bad = {"failed then": (program(1), {"timeout"}), "not there": (program(2), {"not_recorded"})}
    return BackendCase(RecordedBackend(folder), program(0), bad, target("gfx90a", "-O1"))


def rocprof_case(tmp_path: Path) -> BackendCase:
    for where in (target("gfx90a"), target("gfx942")):
        counters = kernel(where.arch).counters
        folder = tmp_path / "workloads" / _folder_name(program(0).id, where)
        folder.mkdir(parents=True)
        columns = [name + "_sum" if name.startswith("T") else name for name in counters]
        head = [
            "Dispatch_ID",
            "Kernel_Name",
            "Grid_Size",
            "Workgroup_Size",
            *columns,
            "Start_Timestamp",
            "End_Timestamp",
        ]
        row = ["0", "copy", "1048576", "256", *(str(value) for value in counters.values()), "1000", "16840"]
        (folder / "pmc_perf.csv").write_text(",".join(head) + "\n" + ",".join(row) + "\n")
        (tmp_path / "workloads" / _folder_name(program(1).id, where)).mkdir()
    bad = {"empty folder": (program(1), {"bad_input"}), "not there": (program(2), {"not_recorded"})}
    return BackendCase(RocprofBackend(tmp_path / "workloads"), program(0), bad, target("gfx90a", "-O1"))


def sim_case(tmp_path: Path) -> BackendCase:
    backend = needs.simulator()

    def named(text: str) -> Program:
        return Program(text, "handwritten", "conformance", name="case")

    bad = {
        "does not compile": (named(BROKEN), {"compile_failed"}),
        "no kernel": (named(NO_KERNEL), {"no_kernel", "no_dispatch"}),
        "out of bounds": (named(BEYOND), {"illegal_access"}),
    }
    return BackendCase(backend, named(VCOPY), bad, Target("gfx90a", "-O3", "mi300x"))


def preview_case(tmp_path: Path) -> BackendCase:
    executed = sim_case(tmp_path)
    bad = {name: executed.bad[name] for name in ("does not compile", "no kernel")}
    bad["crashes before its launch"] = (
        replace(executed.good, text=VCOPY.replace("<<<n / 256,", "<<<*(volatile int*)8,")),
        {"no_preview"},
    )
    return replace(executed, backend=PreviewBackend(), bad=bad)


CASES: dict[str, Callable[[Path], BackendCase]] = {
    "recorded": recorded_case,
    "rocprof": rocprof_case,
    "sim": sim_case,
    "preview": preview_case,
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> BackendCase:
    return CASES[request.param](tmp_path)


def test_every_registered_backend_has_a_case() -> None:
    assert set(CASES) == set(backends.REGISTRY)


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_a_working_program(case: BackendCase, arch: str, tmp_path: Path) -> None:
    found = conformance.check_backend(case.backend, case.good, target(arch), tmp_path)
    assert found.kernels[0].metrics["L1_Cache_Hit_Rate"] == pytest.approx({"gfx90a": 50.0, "gfx942": 62.5}[arch])


def test_results_are_repeatable(case: BackendCase, tmp_path: Path) -> None:
    conformance.check_repeatable(case.backend, case.good, target("gfx90a"), tmp_path)


def test_failures_have_a_reason_code(case: BackendCase, tmp_path: Path) -> None:
    assert case.bad
    for number, (name, (bad, reasons)) in enumerate(case.bad.items()):
        found = conformance.check_failure(
            case.backend, bad, target("gfx90a"), tmp_path / str(number), reasons, RunLimits(time_s=30)
        )
        assert found.message, f"{name}: a failure says what happened"


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 0}', "[" * 100_000])
def test_what_is_no_capture_is_bad_input(text: str, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInput, match=r"a\.json: not a recorded result"):
        read_capture(tmp_path / "a.json")


def test_a_program_of_several_files_ends_no_matrix_of_previews(tmp_path: Path) -> None:
    sources = tuple(SourceFile(tmp_path / name) for name in ("main.hip", "part.hip"))
    several = replace(program(0), project=Project(sources, tmp_path))
    found = PreviewBackend().profile(several, target("gfx90a"), tmp_path, RunLimits())
    assert (found.status, found.reason) == ("failed", "unsupported") and "several files" in found.message


def test_unsupported_targets_are_rejected(case: BackendCase) -> None:
    assert not case.backend.supports(case.unsupported)


GOOD = result(target("gfx90a"))
COUNTERS = {**VCOPY_GFX90A}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"counters": {**COUNTERS, "TCC_HIT_sum": 1.0}}, "plain hardware name"),
        ({"counters": {**COUNTERS, "TCC_HIT": -1.0}}, "TCC_HIT = -1"),
        ({"counters": {**COUNTERS, "TCC_HIT": 70030}}, "metric table"),
        ({"grid": (0, 1, 1)}, "bad grid"),
        ({"duration_ns": 0.0}, "bad duration"),
        ({"source": MeasurementSource("rocprof")}, "who measured it"),
        ({"dispatches": 0}, "dispatched"),
    ],
)
def test_the_suite_finds_broken_kernels(change: dict[str, Any], message: str) -> None:
    conformance.check_kernel(GOOD.kernels[0], "gfx90a")
    with pytest.raises(AssertionError, match=message):
        conformance.check_kernel(replace(GOOD.kernels[0], **change), "gfx90a")


@pytest.mark.parametrize(
    "change",
    [{"status": "done"}, {"reason": "timeout"}, {"flags": "-O2"}, {"status": "failed"}, {"kernels": ()}],
)
def test_the_suite_finds_broken_results(change: dict[str, Any]) -> None:
    conformance.check_result(GOOD, target("gfx90a"))
    with pytest.raises(AssertionError):
        conformance.check_result(replace(GOOD, **change), target("gfx90a"))
