"""The virtual GPU in a process of its own: the documentation's test runs, and a process and a profile agree."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import needs
import pytest

from hipsynth.core.program import Project, SourceFile, project_program
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.backends.sim import SimBackend
from hipsynth.simulator.limits import RunLimits

ROOT = Path(__file__).resolve().parents[2]
VECTOR_ADD = Path(__file__).with_name("scripts") / "vector_add.py"
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

needs.installed("triton")


def run_python(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *words], cwd=folder, capture_output=True, text=True, timeout=300, check=False
    )


def run_text(folder: Path, text: str) -> str:
    """What a script prints."""
    (folder / "script.py").write_text(text)
    done = run_python(folder, "script.py")
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with the test of the how-to, and one that a kernel fails which reads each row twice."""
    folder = tmp_path_factory.mktemp("project")
    text = BLOCK.findall((ROOT / "docs" / "how-to" / "triton-tests.md").read_text())[0]
    (folder / "test_norm.py").write_text(text)
    load = "    x = tl.load(x_ptr + row + at, mask=at < columns, other=0.0)\n"
    twice = f"{load}    tl.debug_barrier()\n    x += tl.load(x_ptr + row + at, mask=at < columns, other=0.0)\n"
    assert load in text
    (folder / "test_twice.py").write_text(text.replace(load, twice).replace("normalize", "normalize_twice"))
    on_gpu = '@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")\ndef test_device():\n'
    check = '    assert "MI250" in torch.cuda.get_device_name(), "chosen"\n'
    (folder / "test_device.py").write_text(f"import pytest, torch\n\n{on_gpu}{check}")
    return folder


def test_the_documented_test_passes_and_a_kernel_that_reads_its_rows_twice_fails_it(project: Path) -> None:
    done = run_python(project, "-m", "pytest", "-q", "test_norm.py", "test_twice.py")
    assert "2 failed, 2 passed" in done.stdout, done.stdout + done.stderr
    failed = [line for line in done.stdout.splitlines() if line.startswith("FAILED ")]
    assert len(failed) == 2 and all("test_twice.py" in line for line in failed)
    assert 'counters["EXACT_READ_BYTES"] == x.nbytes' in done.stdout, "the result is as good"


def test_the_chosen_device_is_there_when_tests_are_collected(project: Path) -> None:
    assert "1 skipped" in run_python(project, "-m", "pytest", "-q", "test_device.py").stdout
    done = run_python(project, "-m", "pytest", "-q", "--virtual-gpu", "mi250", "test_device.py")
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    unknown = run_python(project, "-m", "pytest", "-q", "--virtual-gpu", "mi9", "test_device.py")
    assert "ERROR: unknown device 'mi9'" in unknown.stderr and "Traceback" not in unknown.stderr


def test_a_process_counts_what_a_profile_of_its_script_counts(tmp_path: Path) -> None:
    text = f"""
import json, runpy
import hipsynth.triton as vgpu
vgpu.activate("mi300x")
with vgpu.profile() as p:
    runpy.run_path({str(VECTOR_ADD)!r})
[kernel] = p.kernels
print(json.dumps([kernel.counters, kernel.dispatches, kernel.grid, kernel.meta, dict(p.host_operators)]))
"""
    printed = json.loads(run_text(tmp_path, text).splitlines()[-1])
    project = Project((SourceFile(VECTOR_ADD, "python"),), VECTOR_ADD.parent)
    target = Target("gfx942", "-O3", "mi300x")
    result = SimBackend().profile(project_program(project), target, tmp_path / "scratch", RunLimits(sampling_units=0))
    [kernel] = result.kernels
    expected = [kernel.counters, kernel.dispatches, kernel.grid, kernel.meta, dict(result.host_operators)]
    assert printed == json.loads(json.dumps(expected))


KERNEL = """
import hipsynth.triton as vgpu
from hipsynth.core.errors import UsageError
vgpu.activate("mi300x")
import torch, triton, triton.language as tl

@triton.jit
def double(x_ptr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + at, 2 * tl.load(x_ptr + at))

x = torch.ones(4096, device="cuda")
"""


def test_profiles_are_of_their_own_block(tmp_path: Path) -> None:
    text = """
double[(1,)](x, BLOCK=64)
for block in (1024, 2048):
    with vgpu.profile() as p:
        double[(4096 // block,)](x, BLOCK=block)
    print(p.kernel("double").meta["BLOCK"], len(p.kernels), p.kernel("double").traffic.hbm_read_bytes)
    assert p.elapsed_ns >= p.kernel("double").duration_ns
with vgpu.profile() as p:
    y = x + 1
    try:
        with vgpu.profile():
            pass
    except UsageError as error:
        print(error.what)
print(p.kernels, p.host_operators["add"])
try:
    p.kernel("double")
except UsageError as error:
    print(error)
print(x[0].item(), x[63].item(), x[64].item())
"""
    assert run_text(tmp_path, KERNEL + text).splitlines() == [
        "1024 1 16384.0",
        "2048 1 16384.0",
        "a profile is being taken already",
        "() 1",
        "no kernel double was launched",
        "  cause: launched: no kernel",
        "8.0 8.0 4.0",
    ]


def test_a_process_goes_on_after_a_failed_kernel(tmp_path: Path) -> None:
    text = """
try:
    with vgpu.profile() as p:
        double[(2,)](x, BLOCK=2048)
        double[(4,)](x, BLOCK=2048)
except RuntimeError as error:
    print(type(error).__name__, error.reason, "script.py:10" in str(error))
print([kernel.grid for kernel in p.kernels])
with vgpu.profile(lines=True) as p:
    double[(4,)](x, BLOCK=1024)
    double[(2,)](x, BLOCK=2048)
print(str(p).count("costs most: script.py:10"), len(p.to_pandas()), "<iframe" in p._repr_html_())
"""
    printed = run_text(tmp_path, KERNEL + text).splitlines()
    assert printed[0] == "KernelFailed illegal_access True"
    assert printed[1] == "[(2, 1, 1)]", "what ended before is kept"
    assert printed[2] == "2 2 True", "both builds have lines"


def test_a_process_has_one_device(tmp_path: Path) -> None:
    text = 'vgpu.activate("mi300x")\ntry: vgpu.activate("mi250")\nexcept UsageError as error: print(error)\n'
    printed = run_text(tmp_path, KERNEL + text)
    assert "already" in printed and "another process" in printed
