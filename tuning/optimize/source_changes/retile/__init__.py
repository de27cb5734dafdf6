"""Larger tiles for a product whose kernel stages small ones: its LDS arrays are taken for what they are, copies of
elements in memory, and the kernel without them is tiled anew, with several results in the registers of each lane, or
with matrix instructions."""

from __future__ import annotations

from collections.abc import Iterator

from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.analysis.analysis_faults import TEXT_ERRORS
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.source_changes.retile.plain_product import write_plain_product
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE, SourceChange, SourceChanger
from hipsynth.tuning.optimize.source_changes.tilings import list_tilings, write_tilings


def list_changes(program: ParsedProgram, timed: CandidateMeasurement, target: Target) -> Iterator[SourceChange]:
    """The program with a kernel tiled anew, with each of the first tiles that the transformations offer."""
    for kernel in program.kernels:
        run = timed.of(kernel.name)
        if (
            run is None
            or run.duration_ns < LEAST_CHANGED_SHARE * timed.duration_ns
            or not kernel.launches
            or not run.same_block
        ):
            continue
        try:
            plain = read_program(write_plain_product(program, kernel, run.block), target.arch, target.flags)
        except (NotUnderstood, *TEXT_ERRORS):
            continue
        tilings = list_tilings(plain, kernel.name, run.bottleneck, run.grid, run.block)
        yield from write_tilings(plain, kernel.name, run.block, tilings, "larger tiles than those of its own")


CHANGER = SourceChanger("SQ_INSTS_LDS", list_changes, alternatives=True)
