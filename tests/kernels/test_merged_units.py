"""A program of several files prints the same as one text of them: each call is of the function of its own file."""

from __future__ import annotations

from pathlib import Path

from hip_programs import require_compiler

from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits
from hipsynth.source.config import frontend_config
from hipsynth.synth.frontend.pass_input import BuildConfiguration, ProgramSource
from hipsynth.synth.frontend.passes.flatten import program_sources
from hipsynth.synth.frontend.pipeline import run_steps

HIP = "#include <hip/hip_runtime.h>\n#include <cstdio>\n"
FILES = {
    "pick.h": "#pragma once\n__device__ inline long pick(long x) { return 30 * x; }\n",
    "a.hip": HIP
    + "static float scale(int x) { return 2 * x; }\nnamespace { __device__ int pick(int x) { return x; } }\n"
    "__global__ void first(int* p) { p[0] = pick(1); }\nfloat half() { return scale(1); }\n",
    "main.hip": HIP + '#include "pick.h"\nfloat scale(double x) { return 3 * x; }\nfloat half();\n'
    "__global__ void first(int* p);\n__global__ void second(int* p) { p[1] = pick(1); }\n"
    "int main() {\n  int* p;\n  int q[2];\n  hipMalloc(&p, sizeof q);\n  first<<<1, 1>>>(p);\n  second<<<1, 1>>>(p);\n"
    "  hipMemcpy(q, p, sizeof q, hipMemcpyDeviceToHost);\n"
    '  printf("%g %d %d\\n", half() + scale(1), q[0], q[1]);\n}\n',
}


def test_each_file_calls_its_own_functions(tmp_path: Path) -> None:
    require_compiler()
    folder = tmp_path / "program"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    sources = program_sources(folder)
    build = BuildConfiguration(tuple(sources))
    source = ProgramSource(sources[-1].read_bytes(), sources[-1], folder, build)
    device = devices.load_device(devices.default_device("gfx90a"))
    for steps in (["flatten"], ["flatten", "rename:1"]):
        outcome = run_steps(source, steps, frontend_config())
        assert outcome.source is not None, outcome.diagnostics
        scratch = tmp_path / steps[-1].replace(":", "")
        (scratch / "run").mkdir(parents=True)
        (scratch / "whole.hip").write_bytes(outcome.source.text)
        artefacts = build_runnable(scratch / "whole.hip", "gfx90a", "-O3", scratch / "build")
        done = api.run_program(artefacts, device, scratch / "run", RunLimits(time_s=60.0))
        assert done.stdout == "5 1 30\n", done
