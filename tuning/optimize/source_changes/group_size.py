"""The size of a kernel's work-groups, as the source shows it."""

from __future__ import annotations

import re

from hipsynth.tuning.optimize.analysis.program_constants import find_constants, read_number
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.transformations.kernel_view import MOST_LANES
from hipsynth.tuning.optimize.transformations.split_loops.loop_source import WAVE


def read_group_size(program: ParsedProgram, kernel: KernelDefinition) -> int:
    """Work-items of a group, if all launches have the same number of whole wavefronts along x alone; else 0."""
    constants = find_constants(program)
    sizes = set()
    for launch in kernel.launches:
        block = _write_out(launch.block.strip(), program.text)
        sizes.add(constants.get(block, read_number(block) or 0))
    size = sizes.pop() if len(sizes) == 1 else 0
    return size if size % WAVE == 0 and size <= MOST_LANES else 0


def _write_out(block: str, text: str) -> str:
    """The one size in `dim3(N)`, or of a variable that is declared once as `dim3 block(N)` and stays; other text as it
    is."""
    declared = re.findall(rf"\bdim3\s+{re.escape(block)}\s*[({{]([^(){{}}]*)[)}}]", text)
    written = re.fullmatch(r"dim3\s*[({]([^(){}]*)[)}]", block)
    changed = re.search(rf"\b{re.escape(block)}\s*(?:\.\s*[xyz]\s*)?=[^=]", text)
    if len(declared) == 1 and not changed:
        return str(declared[0]).strip()
    return written[1].strip() if written else block
