"""Makes the shards of a release that a working folder does not have yet: generates their programs, and executes or
previews them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.files import write_whole
from hipsynth.core.program import iter_programs
from hipsynth.core.store import Corpus
from hipsynth.core.store.release import ShardOrigin
from hipsynth.profiling.matrix.collect import MatrixOptions, collect_matrix
from hipsynth.synth.generate.problem_sizes import expected_output
from hipsynth.synth.generate.writer import generate_into, grammar_digest
from hipsynth.synth.release.release_plan import Folders, ReleasePlan, limits_of

Note = Callable[[str], None]


def make_shards(
    plan: ReleasePlan,
    work: Path,
    shards: Sequence[int],
    options: MatrixOptions,
    progress: Callable[[int], Note] | None = None,
) -> int:
    """Generates and profiles the shards that are not finished; an interrupted run can be repeated. Returns how many.

    `progress` is called once with the number of items of all these shards, as planned; it returns a function that is
    called with a note for each item. `options.repair`: finished shards that are damaged are made again.

    Raises MissingDependency if the simulator cannot run here, BadInput for a folder that holds something else or a full
    disk.
    """
    folders = Folders(work)
    todo = [shard for shard in shards if _is_due(folders, shard, options.repair)]
    note = progress(sum(map(plan.planned_items, todo))) if progress is not None and todo else _ignore_note
    for shard in todo:
        _make_shard(plan, folders, shard, options, note)
    return len(todo)


def _ignore_note(note: str) -> None:
    """Ignores a progress note."""


def _is_due(folders: Folders, shard: int, repair: bool) -> bool:
    """Whether a shard is to be made: it is not finished, or, with `repair`, damaged."""
    if not folders.done_marker(shard).exists():
        return True
    if repair:
        try:
            folders.read_origin(shard)
            Corpus.open(folders.corpus(shard))
        except BadInput:
            folders.done_marker(shard).unlink()
            return True
    return False


def _make_shard(plan: ReleasePlan, folders: Folders, shard: int, options: MatrixOptions, note: Note) -> None:
    """Makes one shard, and notes each of its planned items, those that an earlier run finished at once."""
    is_fresh = not folders.corpus(shard).exists()
    begin, noted = time.monotonic(), 0
    programs = folders.programs(shard)

    def count(text: str) -> None:
        nonlocal noted
        noted += 1
        note(f"shard {shard:04} {text}")

    generate_into(
        programs, plan.programs, seed=plan.seed(shard), workers=options.workers, runs=plan.sizes, engine=options.engine
    )
    checked = (replace(program, oracle=expected_output) for program in iter_programs(programs))
    how = replace(options, backend=plan.backend, limits=limits_of(plan.backend))
    collect_matrix(checked, plan.targets(shard), folders.corpus(shard), how, lambda items: count)
    for _ in range(noted, plan.planned_items(shard)):
        count("finished")
    seconds = round(time.monotonic() - begin, 1) if is_fresh else None
    origin = ShardOrigin(plan.seed(shard), plan.programs, plan.sizes, grammar_digest(), seconds, options.workers)
    write_whole(folders.done_marker(shard), json.dumps(asdict(origin)) + "\n")
