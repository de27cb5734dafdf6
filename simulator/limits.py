"""Bounds on one run of a program, and what it counts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

# Default number of sampling units of a large grid, besides the first and the last one.
SAMPLING_UNITS = 12
# For corpora, where many labels count for more than the last permille of each: docs/explanation/sampling.md.
CORPUS_UNITS, CORPUS_EFFORT, CORPUS_ERROR = 2, 0.03, 0.02

# Times the work of a grid that runs in full, which replays take altogether: about ten seconds, or twenty.
REPLAYS, PATIENT_REPLAYS = 16, 40


def least_time(budget_s: float) -> float:
    """Seconds of processor time that a program with a budget for its launches is given at least."""
    return 2 * budget_s + 30


@dataclass(frozen=True)
class RunLimits:
    """Limits of one run. Exceeding one ends the run with a failed result and a reason.

    `time_s`: on the simulator, seconds of the program's processor time (independent of machine load), and the longest
    time that it may idle; on a GPU, seconds of wall-clock time.
    `memory_bytes`: resident memory of the program's processes together: their own, the device memory that they touched
    and the simulator's tables (usually below 0.1 GiB).
    `strict_bounds=False`: out-of-bounds accesses to memory that hardware maps around an array are warnings, not errors.
    `sampling_units`: number of sampling units of a large grid besides the first and the last, whose counts are scaled
    up; 0 runs every grid in full. Small grids always run in full.
    `effort` multiplies the work up to which a grid counts as small, and the work that replaying a grid may take.
    `largest_error`: a sampled launch whose duration is more uncertain than this (relative) is executed again at once,
    in full or with ten times the effort and at least twelve units; 0: none is (simulator/native/dispatch/chooser.cpp).
    `patient`: grids of equal work-groups are replayed for PATIENT_REPLAYS times the work of one that runs in full, in
    part if that is not enough.
    `per_kernel` counts only the first launches of each kernel and shape; later ones run for their results alone and get
    the counters of the last counted one; 0 counts all. `reuse=False` also counts launches that must have the counters
    of an earlier one, which changes no counter.
    `budget_s` limits the work of all launches together, in seconds at fixed prices: what does not fit is sampled
    more coarsely, then gets the counters of an earlier launch, then does not run (sim.spending). Work is counted, not
    timed, so results do not depend on the machine; 0: no limit. It replaces `per_kernel`.
    `settled_launches` ends the program (status "partial", reason "settled") when so many launches in a row were of
    kernels and shapes launched before, so that labels of its kernels do not wait for its end; 0: it runs to its end.
    `lines` keeps what each instruction did, for source lines, and counts launches as `reuse=False` does.
    `warm_l2` lets launches find in the L2 what earlier ones read, as without a profiler, and counts launches as
    `reuse=False` does; what the host or a launch has written is not there.
    `caches=False` executes kernels without the memory-hierarchy model: the same results sooner, less accurate times.
    `counters=False` records only the duration of each launch, which is faster for many short launches.
    `autotune_cache`: a folder of results of `triton.autotune`, found there and added (sim.scripts.autotune_cache).
    `isolate=False` runs the program outside the sandbox, with resource limits only.
    """

    time_s: float = 60.0
    wave_instructions: int = 2_000_000_000
    memory_bytes: int = 8 << 30
    output_bytes: int = 1 << 20
    sampling_units: int = SAMPLING_UNITS
    effort: float = 1.0
    largest_error: float = 0.0
    strict_bounds: bool = True
    patient: bool = False
    per_kernel: int = 0
    reuse: bool = True
    budget_s: float = 0.0
    settled_launches: int = 0
    lines: bool = False
    warm_l2: bool = False
    caches: bool = True
    counters: bool = True
    autotune_cache: Path | None = None
    isolate: bool = True
