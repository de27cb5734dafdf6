"""Runs within a budget: what is counted, sampled coarsely, reused or left out, and that the machine does not matter."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import needs
import pytest

from hipsynth.simulator import api, devices
from hipsynth.simulator.budget_outcome import Spending, count_uncomputed, work_s
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits

# argv: elements, launches, side of a matrix, then "spin" to compute on the host forever after the first kernel.
SOURCE = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

__global__ void bump(float* to, const float* from, int n, int by) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) to[i] = from[i] + by;
}

__global__ void product(const float* a, const float* b, float* c, int n) {
  const int x = blockIdx.x * 16 + threadIdx.x, y = blockIdx.y * 16 + threadIdx.y;
  float sum = 0;
  for (int k = 0; k < n; ++k) sum += a[y * n + k] * b[k * n + x];
  c[y * n + x] = sum;
}

__global__ void endless(float* p) {
  while (atomicAdd(p, 0.0f) < 1e9f) {}
}

int main(int, char** argv) {
  const int n = std::atoi(argv[1]), times = std::atoi(argv[2]), m = std::atoi(argv[3]);
  float *from, *to, *a, *c;
  std::vector<float> found(n), ones(m * m, 1);
  if (hipMalloc(&from, n * 4) || hipMalloc(&to, n * 4)) return 2;
  if (hipMalloc(&a, m * m * 4) || hipMalloc(&c, m * m * 4)) return 2;
  if (hipMemset(from, 0, n * 4) || hipMemset(to, 0, n * 4)) return 2;
  if (hipMemcpy(a, ones.data(), m * m * 4, hipMemcpyHostToDevice) || hipMemset(c, 0, m * m * 4)) return 2;
  float sum = 0;
  for (int i = 0; i < times; ++i) {
    bump<<<(n + 255) / 256, 256>>>(to, from, n, i % 3);
    std::swap(from, to);
    sum += i % 3;
  }
  if (hipMemcpy(found.data(), from, n * 4, hipMemcpyDeviceToHost)) return 2;
  if (argv[4]) for (volatile int i = 0;; i = 1) {}
  product<<<dim3(m / 16, m / 16), dim3(16, 16)>>>(a, a, c, m);
  if (hipMemcpy(ones.data(), c, m * m * 4, hipMemcpyDeviceToHost)) return 2;
  if (times == 0) endless<<<1, 64>>>(c + 1);
  bool good = true;
  for (float v : found) good &= v == sum;
  for (float v : ones) good &= v == m;
  std::puts(good ? "PASSED" : "FAILED");
  return good ? 0 : 1;
}
"""


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="hipsynth-budget-")


@functools.cache
def source() -> Path:
    path = Path(_folder().name) / "program.hip"
    path.write_text(SOURCE)
    return path


@functools.cache
def built(arch: str) -> api.Artefacts:
    needs.compiler()
    return build_runnable(source(), arch, "-O3", Path(_folder().name) / arch)


def run(folder: Path, budget_s: float, *arguments: str, arch: str = "gfx90a", **limits: float) -> api.RunResult:
    folder.mkdir(exist_ok=True)
    bounds = replace(RunLimits(time_s=120, budget_s=budget_s), **limits)  # type: ignore[arg-type]
    return api.run_program(built(arch), devices.device_of(arch), folder, bounds, arguments)


def of(done: api.RunResult, kernel: str) -> Spending:
    (row,) = (row for row in done.spending if row.name == kernel)
    assert row.launches == row.counted + row.reused + row.uncounted
    return row


@pytest.mark.parametrize("arch", ["gfx90a", "gfx942"])
def test_a_thousand_launches_fit(arch: str, tmp_path: Path) -> None:
    done = run(tmp_path, 1.0, "16384", "1000", "64", arch=arch)
    bump = of(done, "bump")
    assert (done.status, done.exit_code, done.stdout) == ("ok", 0, "PASSED\n"), done.stderr
    assert bump.launches == 1000 and bump.counted >= 3 and bump.reused >= 300 and bump.incomplete == 0
    assert not done.sampled and work_s(done.spending) <= 1
    assert [kernel.dispatches for kernel in done.kernels] == [1000, 1]


def test_enough_changes_neither_counters_nor_results(tmp_path: Path) -> None:
    """`product` is counted without computing its results, which follow: both must be those of a plain run."""
    within, plain = (run(tmp_path / name, budget, "4096", "5", "64") for name, budget in (("a", 100.0), ("b", 0.0)))
    assert within.stdout == plain.stdout == "PASSED\n" and not plain.spending
    for one, other in zip(within.kernels, plain.kernels, strict=True):
        assert one.counters == other.counters and one.duration_ns == other.duration_ns, one.name
    assert of(within, "product").running_ns > 0 and of(within, "bump").counted == 5


def test_a_large_grid_is_sampled_and_still_computed(tmp_path: Path) -> None:
    coarse, exact = (run(tmp_path / f"{s:g}", s, str(1 << 24), "1", "64") for s in (4.0, 60.0))
    assert (coarse.kernels[0].sampled, exact.kernels[0].sampled) == (True, False)
    assert coarse.stdout == exact.stdout == "PASSED\n" and not coarse.sampled
    assert (of(coarse, "bump").coarse, of(exact, "bump").coarse) == (1, 0)
    assert of(coarse, "bump").counting_ns < 0.6 * of(exact, "bump").counting_ns
    for name in ("SQ_WAVES", "SQ_INSTS_VALU", "TCC_READ"):
        assert coarse.kernels[0].counters[name] == pytest.approx(exact.kernels[0].counters[name], rel=0.03), name


def test_what_does_not_fit_is_left_out_and_said(tmp_path: Path) -> None:
    done = run(tmp_path, 0.05, str(1 << 18), "500", "256")
    bump = of(done, "bump")
    assert done.status == "ok" and done.sampled and count_uncomputed(done.spending) == bump.incomplete + 1
    assert 0 < bump.incomplete < 500 and bump.uncounted == 0 and of(done, "product").uncounted == 1
    assert [kernel.name for kernel in done.kernels] == ["bump"] and done.kernels[0].dispatches == 500
    assert work_s(done.spending) <= 0.05


def test_a_label_of_every_kernel_comes_before_many_launches_of_one(tmp_path: Path) -> None:
    """`bump` leaves a fifth of the budget to the kernels that follow, of which `product` is launched."""
    done = run(tmp_path, 0.3, str(1 << 18), "3000", "64")
    bump, product = of(done, "bump"), of(done, "product")
    assert [kernel.name for kernel in done.kernels] == ["bump", "product"]
    assert 0 < bump.incomplete < 3000 and product.counted == 1
    assert 0.1 < work_s([bump]) <= 0.8 * 0.3 and work_s(done.spending) <= 0.3


def test_an_endless_kernel_is_left_and_the_program_goes_on(tmp_path: Path) -> None:
    done = run(tmp_path, 1.0, "1024", "0", "32", wave_instructions=10**13)
    endless = of(done, "endless")
    assert (done.status, done.exit_code) == ("ok", 0)
    assert (endless.uncounted, endless.incomplete) == (1, 1) and done.stdout == "PASSED\n"
    assert 0.4 < endless.counting_ns / 1e9 <= 0.5 and work_s(done.spending) <= 1  # what trying took


def test_kernels_that_ended_are_reported_at_the_hard_limit(tmp_path: Path) -> None:
    done = run(tmp_path, 5.0, "1024", "200", "64", "spin", time_s=2.0)
    assert (done.status, done.reason) == ("partial", "budget") and "stopped after 2 s of processor time" in done.message
    assert [(kernel.name, kernel.dispatches) for kernel in done.kernels] == [("bump", 200)]
    assert done.cpu_s - done.device_s > 1  # the host's code


def test_without_a_budget_the_hard_limit_is_a_time_out(tmp_path: Path) -> None:
    done = run(tmp_path, 0.0, "1024", "3", "64", "spin", time_s=1.0)
    assert (done.status, done.reason, done.kernels[0].name) == ("failed", "timeout", "bump")


def test_launches_of_known_kernels_settle_a_program(tmp_path: Path) -> None:
    done = run(tmp_path, 10.0, "4096", "50", "64", settled_launches=6)
    assert (done.status, done.reason) == ("partial", "settled")
    assert done.dispatch_count == 7  # the first launch is of an unknown kernel
    whole = run(tmp_path, 10.0, "4096", "3", "64", settled_launches=6)
    assert (whole.status, whole.reason) == ("ok", "")


@pytest.mark.parametrize("budget_s", [pytest.param(0.05, marks=pytest.mark.full), 1.0])
def test_the_load_of_the_machine_changes_nothing(budget_s: float, tmp_path: Path) -> None:
    def measured(name: str) -> str:
        done = run(tmp_path / name, budget_s, str(1 << 18), "60", "256")
        return json.dumps([asdict(row) for row in (*done.kernels, *done.dispatches, *done.spending)]) + done.stdout

    alone = measured("alone")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        assert measured("busy") == alone
    finally:
        for process in busy:
            process.kill()
            process.wait()


def synth(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [
        sys.executable,
        "-m",
        "hipsynth.cli.main",
        "profile",
        str(source()),
        "--arch",
        "gfx90a",
        *arguments,
    ]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_profile_says_what_was_left_out() -> None:
    needs.compiler()
    (result,) = json.loads(synth("--budget", "1s", "--json", "--", str(1 << 18), "300", "512").stdout)["results"]
    assert result["status"] == "ok"
    assert result["budget"][0]["launches"] == 300 > result["budget"][0]["counted"]
    said = synth("--budget", "1s", "--", str(1 << 18), "300", "512").stderr
    assert "launches took 0.9 of 1 s at fixed prices" in said and "have counters of an earlier one" in said
    assert "not executed" in said and "mean nothing" in said


def test_a_budget_that_fits_no_launch_is_no_success(tmp_path: Path) -> None:
    needs.compiler()
    program = tmp_path / "endless.hip"
    program.write_text(
        "#include <hip/hip_runtime.h>\n__global__ void spin(volatile int* p) { while (*p == 0) {} }\n"
        "int main() { int* p; (void)hipMalloc(&p, 64); (void)hipMemset(p, 0, 64); spin<<<1, 64>>>(p); }\n"
    )
    command = [sys.executable, "-m", "hipsynth.cli.main", "profile", str(program), "--arch", "gfx90a", "--budget", "1s"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 5 and "no launch fits the budget" in done.stderr and "more than --budget" in done.stderr


def test_profile_reports_a_partial_result() -> None:
    needs.compiler()
    done = synth("--budget", "5", "--timeout", "2", "--json", "--", "1024", "20", "64", "spin")
    (result,) = json.loads(done.stdout)["results"]
    assert done.returncode == 5 and (result["status"], result["reason"]) == ("partial", "budget")
    assert [kernel["name"] for kernel in result["kernels"]] == ["bump"]
    assert "partial: gfx90a" in done.stderr and "host code" in done.stderr and "--timeout" in done.stderr
