"""Changes of source text that a search tries on its fastest program, whatever transformations led there: a file each.

They read the text as it is then, so that they compose with every transformation, and apply to kernels that use LDS.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping

from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.analysis.analysis_faults import AnalysisFaults, iterate_safely
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.source_changes import (
    branch_free,
    fast_division,
    group_turns,
    one_pass,
    reciprocal_root,
    retile,
    row_registers,
    serial_section,
    split_k,
    stride_groups,
    wave_barriers,
    wave_sums,
    work_axes,
)
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange, SourceChanger

# By the name of its file, in the order in which a search tries them.
SOURCE_CHANGES: Mapping[str, SourceChanger] = {
    "work_axes": work_axes.CHANGER,
    "retile": retile.CHANGER,
    "serial_section": serial_section.CHANGER,
    "wave_sums": wave_sums.CHANGER,
    "group_turns": group_turns.CHANGER,
    "wave_barriers": wave_barriers.CHANGER,
    "row_registers": row_registers.CHANGER,
    "one_pass": one_pass.CHANGER,
    "split_k": split_k.CHANGER,
    "reciprocal_root": reciprocal_root.CHANGER,
    "fast_division": fast_division.CHANGER,
    "branch_free": branch_free.CHANGER,
    "stride_groups": stride_groups.CHANGER,
}


MOST_CHANGES = 4  # of each kind that are tried


def list_source_changes(
    program: ParsedProgram,
    timed: CandidateMeasurement,
    target: Target,
    faults: AnalysisFaults | None = None,
    most: int | None = None,
) -> Iterator[tuple[str, SourceChange]]:
    """The changes of a program, at most so many of each kind, each with the name of its kind."""
    for name, changer in SOURCE_CHANGES.items():
        changes = iterate_safely(faults, name, changer.list_changes(program, timed, target))
        for change in itertools.islice(changes, most):
            yield name, change
