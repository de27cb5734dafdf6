"""Counters per source line: sums are the kernel's counters, lines and loops are the source's, code stays the same."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import needs
import pytest

from hipsynth import toolchain
from hipsynth.core.documents import to_json
from hipsynth.core.program import Program, Project, SourceFile
from hipsynth.profiling.backends.protocol import Target, TargetResult
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.profiling.lines.attribute import COUNTERS, exposed_cycles, scale_amounts, totals_of
from hipsynth.profiling.lines.line_table import FLAG
from hipsynth.profiling.reports.describe import result_document
from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_file
from hipsynth.simulator.limits import RunLimits

needs.simulator()
SOURCE = Path(__file__).with_name("lines.hip")
FLAGS = "-O3"


@pytest.fixture(scope="module")
def artefacts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[api.Artefacts]:
    yield build_file(SOURCE, "gfx90a", f"{FLAGS} {FLAG}", tmp_path_factory.mktemp("built"))[0]


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> TargetResult:
    program = Program(
        SOURCE.read_text(), "handwritten", "", "lines", project=Project((SourceFile(SOURCE),), SOURCE.parent)
    )
    target = Target("gfx90a", FLAGS, devices.device_of("gfx90a").name)
    found = SimBackend().profile(program, target, tmp_path_factory.mktemp("scratch"), RunLimits(lines=True))
    assert found.status == "ok", found.message
    return found


def test_the_line_table_leaves_the_machine_code_as_it_is(artefacts: api.Artefacts, tmp_path: Path) -> None:
    plain = toolchain.compile_device(SOURCE, "gfx90a", FLAGS, tmp_path)
    assert artefacts.disassembly and artefacts.code_object
    assert (
        artefacts.disassembly.read_text() == plain.disassembly.read_text()
    )  # addresses and bytes of every instruction
    with_lines, without = artefacts.code_object.read_bytes(), plain.code_object.read_bytes()
    assert hashlib.sha256(with_lines).digest() != hashlib.sha256(without).digest()  # it was built anew


def test_sums_over_instructions_are_the_kernels_counters(artefacts: api.Artefacts, tmp_path: Path) -> None:
    device = devices.device_of("gfx90a")
    plain = api.run_program(artefacts, device, tmp_path, RunLimits(sampling_units=0))
    done = api.run_program(artefacts, device, tmp_path, RunLimits(sampling_units=0, lines=True))
    [kernel], [counted] = done.kernels, done.instructions
    assert plain.instructions == () and plain.kernels[0] == kernel  # watching changes no label
    totals = totals_of(kernel, device)
    sums = {event: sum(row.amounts[event] for row in counted.rows) / kernel.dispatches for event in totals}
    assert totals.keys() >= {*COUNTERS, "stall_cycles", "barrier_cycles"}
    stalls, modelled = sums.pop("stall_cycles"), totals.pop("stall_cycles")
    assert sums == {event: totals[event] for event in sums}  # exactly
    assert all(sums[event] > 0 for event in COUNTERS)
    # The model counts waits in 1/256 of a latency.
    assert stalls == pytest.approx(modelled, rel=0.01)
    assert modelled == pytest.approx(exposed_cycles(kernel.work, device) if kernel.work else 0)


def test_lines_and_loops_are_the_sources(result: TargetResult) -> None:
    [kernel], [found] = result.kernels, result.lines
    lines = {line.line: line.amounts for line in found.lines if line.file == str(SOURCE)}
    assert {line.file for line in found.lines if line.line} == {
        str(SOURCE)
    }  # headers belong to the line that uses them
    assert lines[4].classes["valu"] > 0 and "vmem" not in lines[4].classes  # of the inlined function, not of its call
    assert lines[12].classes["vmem"] > 0 and lines[12].misses == max(a.misses for a in lines.values())
    assert lines[12].accesses > 4 * lines[12].bytes / 64  # scattered
    assert lines[14].bank_conflicts > 0 and lines[14].lds_bytes > 0
    assert lines[15].barrier_cycles == kernel.work.barrier_cycles if kernel.work else False
    assert sum(line.amounts.share for line in found.lines) == pytest.approx(1)
    assert sum(line.amounts.instructions for line in found.lines) == pytest.approx(kernel.counters["SQ_INSTS"])
    [loop] = [loop for loop in found.loops if loop.line == 11]
    waves = [16 * 4 * 10, 8 * 4 * 20]  # of the two dispatches; the loop is not unrolled
    assert loop.depth == 1 and loop.passes == sum(waves) / 2
    assert loop.amounts.bytes == lines[12].bytes and loop.amounts.share < 1


def test_the_document_has_lines_loops_and_registers(result: TargetResult) -> None:
    kernel, other = json.loads(json.dumps(to_json(result_document(result))))["kernels"]  # it is launched in two shapes
    assert (kernel["grid"], other["grid"]) == ([16, 1, 1], [8, 1, 1]) and kernel["lines"] == other["lines"]
    assert {line["file"] for line in kernel["lines"] if line["line"]} == {str(SOURCE)}
    wanted = {"file", "line", "instructions", "bytes", "accesses", "misses", "l2_misses", "stall_cycles", "share"}
    assert wanted | {"bank_conflicts", "classes"} <= kernel["lines"][0].keys()
    assert [loop["line"] for loop in kernel["loops"]] == [11] and kernel["lines_without"] == []
    assert kernel["registers"]["scratch_bytes"] == 0 and kernel["registers"]["vgprs"] > 0


def test_instructions_sum_to_their_lines(result: TargetResult) -> None:
    [lines] = result.lines
    for line in lines.lines:
        own = [found for found in lines.instructions if (found.file, found.line) == (line.file, line.line)]
        assert sum(found.amounts.share for found in own) == pytest.approx(line.amounts.share)
        assert sum(found.amounts.bytes for found in own) == pytest.approx(line.amounts.bytes)
        assert sum(found.amounts.instructions for found in own) == pytest.approx(line.amounts.instructions)
    assert all(found.text for found in lines.instructions)
    assert lines.instructions[-1].text == "s_endpgm"
    loads = [found for found in lines.instructions if found.text.startswith(("global_load", "buffer_load"))]
    assert loads and all(found.amounts.classes.keys() == {"vmem"} for found in loads)


def test_a_sampled_grid_is_scaled_to_its_counters(artefacts: api.Artefacts, tmp_path: Path) -> None:
    device = devices.device_of("gfx90a")
    done = api.run_program(artefacts, device, tmp_path, RunLimits(sampling_units=2, effort=1e-4, lines=True))
    [kernel], [counted] = done.kernels, done.instructions
    assert kernel.sampled
    totals = totals_of(kernel, device)
    rows, outside = scale_amounts(counted.rows, totals, kernel.dispatches)
    assert outside == ()
    for event, total in totals.items():
        assert sum(row.amounts[event] for row in rows) == pytest.approx(total)
        # What was seen is scaled by a factor of about one: instructions in full, memory by its rate per instruction.
        seen = sum(row.amounts[event] for row in counted.rows) / kernel.dispatches
        assert event == "barrier_cycles" or seen == pytest.approx(total, rel=0.3), event


TILES = """#include <hip/hip_runtime.h>
__global__ void tiles(const float* a, const float* b, float* c, int n) {
  __shared__ float x[16][16], y[16][16];
  int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
  float s = 0;
  for (int t = 0; t < n / 16; ++t) {
    x[ty][tx] = a[row * n + t * 16 + tx];
    y[ty][tx] = b[(t * 16 + ty) * n + col];
    __syncthreads();
    for (int k = 0; k < 16; ++k) s += x[ty][k] * y[k][tx];
    __syncthreads();
  }
  c[row * n + col] = s;
}
int main() {
  const int n = 512;
  float *a, *b, *c;
  hipMalloc(&a, n * n * 4); hipMalloc(&b, n * n * 4); hipMalloc(&c, n * n * 4);
  tiles<<<dim3(n / 16, n / 16), dim3(16, 16)>>>(a, b, c, n);
  return hipDeviceSynchronize();
}
"""


def test_the_lines_of_a_replayed_grid_are_those_of_a_full_run(tmp_path: Path) -> None:
    source = tmp_path / "tiles.hip"
    source.write_text(TILES)
    artefacts, _ = build_file(source, "gfx942", f"{FLAGS} {FLAG}", tmp_path / "built")
    device = devices.device_of("gfx942")
    runs = [
        api.run_program(artefacts, device, tmp_path, RunLimits(lines=True, **limits))
        for limits in ({"effort": 0.3}, {"sampling_units": 0})
    ]
    assert [bool(run.kernels[0].sampling and run.kernels[0].sampling.groups_recorded) for run in runs] == [True, False]
    replayed, full = (
        {
            row.address: row.amounts
            for row in scale_amounts(run.instructions[0].rows, totals_of(run.kernels[0], device), 1)[0]
        }
        for run in runs
    )
    assert replayed.keys() == full.keys()
    for address, amounts in full.items():
        assert replayed[address] == pytest.approx(amounts, rel=1e-9, abs=1e-9)


def test_without_the_option_nothing_is_attributed(tmp_path: Path) -> None:
    program = Program(SOURCE.read_text(), "handwritten", "", "lines")
    target = Target("gfx90a", FLAGS, devices.device_of("gfx90a").name)
    assert SimBackend().profile(program, target, tmp_path, RunLimits()).lines == ()
