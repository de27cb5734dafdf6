"""Makes the shards of a release that a working folder does not have yet: generates their programs and labels them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.core.files import write_whole
from hipsynth.core.program import iter_programs
from hipsynth.profiling.matrix.collect import MatrixOptions, collect_matrix
from hipsynth.synth.generate.problem_sizes import expected_output
from hipsynth.synth.generate.writer import generate_into
from hipsynth.synth.release.release_plan import LIMITS, Folders, ReleasePlan

Note = Callable[[str], None]


def make_shards(
    plan: ReleasePlan,
    work: Path,
    shards: Sequence[int],
    options: MatrixOptions,
    progress: Callable[[int], Note] | None = None,
) -> int:
    """Generates and profiles the shards that are not finished; an interrupted run can be repeated. Returns how many.

    Raises MissingDependency if the simulator cannot run here, BadInput for a folder that holds something else or a full
    disk.
    """
    folders = Folders(work)
    todo = [shard for shard in shards if not folders.done_marker(shard).exists()]
    for shard in todo:
        programs = folders.programs(shard)
        generate_into(
            programs,
            plan.programs,
            seed=plan.seed(shard),
            workers=options.workers,
            runs=plan.sizes,
            engine=options.engine,
        )
        checked = (replace(program, oracle=expected_output) for program in iter_programs(programs))
        collect_matrix(checked, plan.targets(shard), folders.corpus(shard), replace(options, limits=LIMITS), progress)
        write_whole(folders.done_marker(shard), "")
    return len(todo)
