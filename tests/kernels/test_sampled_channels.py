"""Do sampling units that lie powers of two apart take a channel of the L2 for busier than it is?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest

from hipsynth.core.program import load_program
from hipsynth.profiling.backends import sim
from hipsynth.simulator import devices
from hipsynth.simulator.build import build_program
from hipsynth.simulator.limits import CORPUS_EFFORT, CORPUS_ERROR, CORPUS_UNITS, RunLimits

SOURCE = Path(__file__).with_name("channels.hip")
CORPUS = RunLimits(sampling_units=CORPUS_UNITS, effort=CORPUS_EFFORT, largest_error=CORPUS_ERROR)


def test_two_units_load_the_channels_as_the_whole_grid_does(tmp_path: Path) -> None:
    needs.simulator()
    program, device = load_program(SOURCE), devices.device_of("gfx90a", "mi250")
    artefacts, _ = build_program(program, "gfx90a", "-O3", tmp_path / "build")
    coarse, full = (
        sim.run_in_copy(program, artefacts, device, replace(CORPUS, sampling_units=units)).kernels[0]
        for units in (CORPUS_UNITS, 0)
    )
    assert coarse.sampled and coarse.work and not full.sampled
    assert coarse.duration_ns == pytest.approx(full.duration_ns, rel=CORPUS_ERROR)
    average = coarse.counters["TCC_REQ"] / device["l2.channels"]
    assert coarse.work.l2_requests_busiest_channel < 1.1 * average
