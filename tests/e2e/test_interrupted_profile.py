"""`synth profile FILE` ended by Ctrl-C prints the kernels that had ended, whenever it comes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import needs
import pytest
from child_processes import child_process, has_children, is_running, wait_until

KERNELS = """#include <hip/hip_runtime.h>
__global__ void twice(float* a) { int i = blockIdx.x * blockDim.x + threadIdx.x; a[i] = 2 * a[i]; }
__global__ void endless(volatile float* a, int n) { for (int k = 0; k < n; ++k) a[threadIdx.x] += 1; }
int main() {
  float* a;
  hipMalloc(&a, 4096 * 4);
  twice<<<16, 256>>>(a);
  hipDeviceSynchronize();
  endless<<<4, 256>>>(a, 1 << 30);
  hipDeviceSynchronize();
}
"""


def interrupted(
    folder: Path, number: int, condition: Callable[[subprocess.Popen[str]], bool], pause_s: float, *options: str
) -> tuple[int, str, str]:
    """The exit code and output of a profile that gets a signal a pause after a condition holds."""
    source = folder / "kernels.hip"
    source.write_text(KERNELS)
    command = [sys.executable, "-m", "hipsynth.cli.main", "profile", str(source), "--arch", "gfx90a", *options]
    environment, pipe = {**os.environ, "TMPDIR": str(folder)}, subprocess.PIPE
    with child_process(command, stdout=pipe, stderr=pipe, env=environment) as child:
        assert wait_until(lambda: condition(child), 120)
        time.sleep(pause_s)
        if number == signal.SIGINT:  # a terminal sends it to all
            os.killpg(child.pid, number)
        else:
            child.send_signal(number)
        out, err = child.communicate(timeout=60)
        return child.returncode, out, err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_kernels_that_ended_are_kept(number: int, tmp_path: Path) -> None:
    needs.simulator()
    needs.sandbox()
    found: dict[str, Any] = {}
    for pause_s in (1, 10, 60):  # the first launch may not have ended on a busy machine
        code, out, _ = interrupted(
            tmp_path, number, lambda _: is_running(tmp_path, "kernels"), pause_s, "--json", "--timeout", "500"
        )
        assert code == 128 + number
        document = json.loads(out)
        if "results" in document:
            (found,) = document["results"]
            break
        assert document["error"] == "interrupted"
    assert (found["status"], found["reason"]) == ("failed", "interrupted")
    assert [kernel["name"] for kernel in found["kernels"]] == ["twice"]
    assert found["kernels"][0]["counters"]["SQ_WAVES"] == 64
    assert "after 1 launch of kernel twice" in found["message"]


@pytest.mark.parametrize("pause_s", [0.0, pytest.param(1.0, marks=pytest.mark.full)])
def test_an_early_interruption_gives_no_traceback(pause_s: float, tmp_path: Path) -> None:
    """While the program is read and compiled, by other processes."""
    needs.simulator()
    needs.sandbox()
    code, _, err = interrupted(tmp_path, signal.SIGINT, has_children, pause_s)
    assert code == 128 + signal.SIGINT and "interrupted" in err and "Traceback" not in err
