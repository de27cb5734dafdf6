"""Messages about sources that the compiler cannot take, or turns into nothing."""

from __future__ import annotations

from pathlib import Path

import needs
import pytest

from hipsynth import toolchain
from hipsynth.core.errors import CompileFailed
from hipsynth.core.reasons import Reason
from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain import driver, sandbox

HEAD = "#include <hip/hip_runtime.h>\n"


def test_a_crash_of_the_compiler_is_told_without_its_stack(tmp_path: Path) -> None:
    needs.compiler()
    source = tmp_path / "deep.hip"
    source.write_text(f"{HEAD}__global__ void k(int* p) {{ *p = {'+'.join(['p[1]'] * 100_000)}; }}\n")
    with pytest.raises(CompileFailed) as failed:
        toolchain.compile_device(source, "gfx90a", "-O3", tmp_path / "build")
    said = f"{failed.value} {failed.value.diagnostics}"
    assert "nested too deeply" in said and "0x0" not in said and "PLEASE" not in said, said


def test_a_kernel_that_is_optimised_to_nothing_is_told_as_that(tmp_path: Path) -> None:
    needs.compiler()
    source = tmp_path / "gone.hip"
    body = "__global__ void gone() { __builtin_unreachable(); }\nint main() { gone<<<1, 1>>>(); }\n"
    source.write_text(HEAD + body)
    built = build_runnable(source, "gfx90a", "-O3", tmp_path / "build")
    (tmp_path / "run").mkdir()
    done = api.run_program(built, devices.load_device("mi250"), tmp_path / "run", RunLimits())
    assert done.reason == "bad_code_object" and "the compiler removes a kernel that always does" in done.message


def test_a_full_disk_is_no_fault_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    message = "fatal error: IO failure on output stream: No space left on device"
    how = sandbox.JobStatus.FAILED, sandbox.JobEnd.EXIT_CODE
    ended = sandbox.SandboxResult(*how, 1, None, "", message, 0.1, 1 << 20, isolated=True)
    monkeypatch.setattr(driver, "_start_compiler", lambda *_: ended)
    needs.compiler()
    with pytest.raises(CompileFailed) as failed:
        driver.run_tool(toolchain.find_toolchain(), ["clang"], tmp_path, toolchain.CompileLimits(), "x.hip")
    assert failed.value.reason == Reason.DISK_FULL
