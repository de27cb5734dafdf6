"""Launches that are continued between runs at few sizes are those that runs at these sizes make."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth.profiling.preview.interpret import Interpreter
from hipsynth.profiling.preview.programs import device_code, find_launches
from hipsynth.profiling.preview.record import Recording
from hipsynth.profiling.preview.size_rules import Line, record_lines
from hipsynth.simulator.devices import load_device

CORPUS = Path(__file__).resolve().parents[3] / "corpus" / "handwritten"
# First size and step: grids grow at some of the steps.
PROGRAMS = {
    "black_scholes/black_scholes_structs": (70_000, 311),
    "softmax/softmax_row_per_group": (1000, 3),
    "per_thread/fma_chain": (65_536, 256),
}
STEPS = """#include <hip/hip_runtime.h>
#include <cstdlib>
__global__ void add(float* a, int n, int stride) {
  const int i = blockIdx.x * 64 + threadIdx.x;
  if (i < n) a[i] += stride;
}
int main(int argc, char** argv) { const int n = atoi(argv[1]); float* a; if (argc < 2 || hipMalloc(&a, 4 * n)) return 1;
  for (int stride = 1; stride < n; stride *= 2) add<<<(n + 63) / 64, 64>>>(a, n, stride); }
"""


def recordings(text: str, lines: list[Line]) -> tuple[dict[Line, Recording], dict[Line, Recording], int]:
    """What record_lines() says, what runs at all sizes say, and at how many it ran the program."""
    needs.sandbox()
    interpreter = Interpreter(device_code(text, "gfx942", "-O3"), load_device("mi300x"))
    ran: set[Line] = set()

    def record(line: Line) -> Recording:
        ran.add(line)
        return find_launches(text, interpreter, line)

    found = record_lines(record, lines)
    return found, {line: find_launches(text, interpreter, line) for line in lines[5::37]}, len(ran)


@pytest.mark.parametrize("name", PROGRAMS)
def test_launches_between_runs_are_those_of_runs(name: str) -> None:
    first, step = PROGRAMS[name]
    lines = [(str(first + step * i),) for i in range(200)]
    found, true, ran = recordings((CORPUS / f"{name}.hip").read_text(), lines)
    assert set(found) == set(lines) and ran < 30
    for line, one in true.items():
        for made, wanted in zip(found[line].launches, one.launches, strict=True):
            assert made.shape == wanted.shape and made.arguments == wanted.arguments
            assert [(b.start, b.bytes) for b in made.buffers] == [(b.start, b.bytes) for b in wanted.buffers]
            if wanted.by_data:
                for mine, other in zip(made.buffers, wanted.buffers, strict=True):
                    assert mine.contents is not None and other.contents is not None
                    assert mine.contents.data.rstrip(b"\0") == other.contents.data


def test_a_program_that_makes_other_launches_at_other_sizes_is_run_at_each_span() -> None:
    lines = [(str(n),) for n in range(900, 1300, 2)]
    found, true, _ = recordings(STEPS, lines)
    assert {len(one.launches) for one in found.values()} == {10, 11}
    for line, one in true.items():
        assert [launch.arguments for launch in found[line].launches] == [launch.arguments for launch in one.launches]


def test_lines_with_words_and_several_numbers_are_all_answered() -> None:
    lines: list[Line] = [(), ("fast",), ("7", "x"), *((str(n), "x") for n in range(40)), ("9", "y")]
    asked: list[Line] = []

    def record(line: Line) -> Recording:
        asked.append(line)
        return Recording(())

    assert set(record_lines(record, lines)) == set(lines)
    assert len(asked) == len(set(asked)) < 30
