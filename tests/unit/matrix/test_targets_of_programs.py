"""The targets of a program: compiler flags are for HIP, a Python script has none."""

from __future__ import annotations

import pytest

from hipsynth.core.program import Program
from hipsynth.profiling.backends.protocol import Target, describe_target
from hipsynth.profiling.matrix import job
from hipsynth.profiling.matrix.targets import targets_of
from hipsynth.simulator.limits import RunLimits

TARGETS = [Target("gfx942", flags, "mi300x") for flags in ("-O3", "-O1")]
SCRIPT = Program("import triton\n\n\n@triton.jit\ndef k(p): ...\n", "handwritten", "")
HIP = Program("__global__ void k() {}\n", "handwritten", "")


def test_a_script_has_one_target_for_each_device() -> None:
    assert targets_of(HIP, TARGETS) == tuple(TARGETS)
    assert targets_of(SCRIPT, TARGETS) == (Target("gfx942", "", "mi300x"),)
    assert [describe_target("gfx942", "mi300x", flags) for flags in ("-O3", "")] == [
        "gfx942 (mi300x)  -O3",
        "gfx942 (mi300x)",
    ]


def test_a_profile_of_a_script_names_no_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "open_backend", lambda spec: None)
    monkeypatch.setattr(job, "map_unordered", lambda run, jobs, *args, **kwargs: iter(()))
    results = job.profile_program(SCRIPT, TARGETS, "sim", RunLimits(), keep_interrupted=True)
    assert [(result.flags, result.device) for result in results] == [("", "mi300x")]
