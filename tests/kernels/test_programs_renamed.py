"""A renamed program behaves like the original: both are built and run, and must print the same output and execute the
same instructions. Cache counters may differ by a line, because symbol names move data in a code object."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hip_programs import FOLDER, require_compiler

from hipsynth.simulator import api, devices
from hipsynth.simulator.build import build_runnable
from hipsynth.simulator.limits import RunLimits
from hipsynth.source.config import frontend_config
from hipsynth.synth.frontend.pass_input import ProgramSource
from hipsynth.synth.frontend.pipeline import run_steps
from studies import handwritten

HANDWRITTEN = sorted((FOLDER.parents[2] / "corpus" / "handwritten").rglob("*.hip"))
# Programs of our own that compare their results on the host, but for one that includes a header of the runtime's
# sources, those whose threads or heaps take turns as they like, one that never ends, and those that load a code object.
NOT_COMPARED = ("abi", "host_threads", "device_heap", "endless", "module_api", "module_unload")
CHECKED = [path for path in sorted(FOLDER.glob("*.hip")) if path.stem not in NOT_COMPARED]
QUICK = ("fma_chain", "histogram", "linked_list")


def behaviour(source: Path, scratch: Path, arguments: tuple[str, ...]) -> dict[str, Any]:
    """What a program does when it runs: how it ends, what it prints, which instructions each kernel executes."""
    scratch.mkdir()
    (scratch / "run").mkdir()
    artefacts = build_runnable(source, "gfx90a", "-O3", scratch / "build")
    device = devices.load_device(devices.default_device("gfx90a"))
    done = api.run_program(artefacts, device, scratch / "run", RunLimits(time_s=120.0), arguments)
    kernels = [(kernel.dispatches, kernel.grid, kernel.block, instructions(kernel.counters)) for kernel in done.kernels]
    ending = {"status": done.status, "reason": done.reason, "code": done.exit_code, "stdout": done.stdout}
    return {**ending, "kernels": kernels}


def instructions(counters: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in counters.items() if name.startswith(("SQ_WAVES", "SQ_INSTS"))}


def renamed(path: Path, seed: int) -> bytes:
    outcome = run_steps(
        ProgramSource(path.read_bytes(), path, path.parent), ["flatten", f"rename:{seed}"], frontend_config()
    )
    assert outcome.source is not None, outcome.diagnostics
    assert outcome.source.text != path.read_bytes()
    return outcome.source.text


def check(path: Path, tmp_path: Path) -> None:
    require_compiler()
    copy = tmp_path / f"{path.stem}.hip"
    copy.write_bytes(renamed(path, seed=5))
    arguments = handwritten.read_step(path).check if path in HANDWRITTEN else ()
    assert behaviour(copy, tmp_path / "after", arguments) == behaviour(path, tmp_path / "before", arguments)


@pytest.mark.parametrize("path", [p for p in HANDWRITTEN + CHECKED if p.stem in QUICK], ids=lambda p: p.stem)
def test_renamed_program_behaves_the_same(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("path", [p for p in HANDWRITTEN + CHECKED if p.stem not in QUICK], ids=lambda p: p.stem)
def test_every_renamed_program_behaves_the_same(path: Path, tmp_path: Path) -> None:
    check(path, tmp_path)
