"""Is a channel of the L2 that two sampling units find busy looked at again?"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import needs
import pytest

from hipsynth.profiling import devices
from hipsynth.profiling.backends import sim
from hipsynth.profiling.sim.build import build_program
from hipsynth.profiling.sim.limits import CORPUS_EFFORT, CORPUS_ERROR, CORPUS_UNITS, Limits
from hipsynth.synth.core.program import load_program

SOURCE = Path(__file__).with_name("channels.hip")
CORPUS = Limits(sampling_units=CORPUS_UNITS, effort=CORPUS_EFFORT, largest_error=CORPUS_ERROR)


def test_a_busy_channel_of_two_units_is_none_of_the_whole_grid(tmp_path: Path) -> None:
    needs.simulator()
    program, device = load_program(SOURCE), devices.device_of("gfx90a", "mi250")
    artefacts, _ = build_program(program, "gfx90a", "-O3", tmp_path / "build")
    coarse = sim.run_in_copy(program, artefacts, device, CORPUS)
    found = sim.execute(program, artefacts, device, CORPUS)
    full = sim.run_in_copy(program, artefacts, device, replace(CORPUS, sampling_units=0))
    assert sim.duration_error(coarse.kernels) < CORPUS_ERROR, "its error estimate does not tell"
    assert sim.uneven_channels(coarse.kernels, device) and not sim.uneven_channels(full.kernels, device)
    durations = [run.kernels[0].duration_ns for run in (coarse, found, full)]
    assert durations[0] > 3 * durations[2]
    assert durations[1] == pytest.approx(durations[2], rel=CORPUS_ERROR)
