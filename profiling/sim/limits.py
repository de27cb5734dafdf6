"""Bounds on one run of a program."""

from __future__ import annotations

from dataclasses import dataclass

# Sampling units of a large grid that a profile runs between the first and the last one, unless told otherwise.
SAMPLING_UNITS = 12


@dataclass(frozen=True)
class Limits:
    """Bounds on one run; passing one is a result with a reason, never a hang.

    `time_s` is processor time of the program on the simulator, whatever else the machine does (and the longest that
    it may idle); on a GPU it is time on the clock.
    `strict_bounds=False` lets accesses go on that leave an array but stay in memory which hardware maps around it;
    they become warnings. `sampling_units` bounds the work on large grids: so many representative parts run besides the
    first and the last, and their counts are scaled up; 0 runs every grid in full. Small grids are always run in full.
    `effort` multiplies the work up to which a grid counts as small, and the work that replaying a grid may take.
    `isolate=False` runs the program with limits only, outside the sandbox.
    """

    time_s: float = 60.0
    wave_instructions: int = 2_000_000_000
    memory_bytes: int = 8 << 30
    output_bytes: int = 1 << 20
    sampling_units: int = SAMPLING_UNITS
    effort: float = 1.0
    strict_bounds: bool = True
    isolate: bool = True
