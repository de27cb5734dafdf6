"""Makes the shards of a release that a working folder does not have yet: generates their programs, and executes or
previews them."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol

from hipsynth.core.errors import BadInput, PartialFailure
from hipsynth.core.files import write_whole
from hipsynth.core.program import iter_programs
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.store import Corpus
from hipsynth.core.store.release import ShardOrigin
from hipsynth.profiling.matrix.collect import MatrixOptions, collect_matrix
from hipsynth.synth.generate.problem_sizes import expected_output
from hipsynth.synth.generate.writer import generate_into, grammar_digest
from hipsynth.synth.release.release_plan import Folders, ReleasePlan, limits_of

RETRIED = TRANSIENT - {Reason.INTERNAL_ERROR}  # a defect of hipsynth is there in the next run, too


class ItemProgress(Protocol):
    """Shows the progress of a run of planned items."""

    def step(self, note: str = "") -> None:
        """Counts one finished item."""
        ...

    def skip(self, items: int) -> None:
        """Takes items that need not run out of the total."""
        ...


class NoProgress:
    """Shows nothing."""

    def step(self, note: str = "") -> None:
        """Does nothing."""

    def skip(self, items: int) -> None:
        """Does nothing."""


def make_shards(
    plan: ReleasePlan,
    work: Path,
    shards: Sequence[int],
    options: MatrixOptions,
    progress: Callable[[int], ItemProgress] | None = None,
) -> int:
    """Generates and profiles the shards that are not finished; an interrupted run can be repeated. Returns how many.

    `progress` is called once with the number of items of all these shards, as planned. `options.repair`: finished
    shards that are damaged are made again.

    Raises MissingDependency if the simulator cannot run here, BadInput for a folder that holds something else or a full
    disk, PartialFailure, at the end, if items failed for reasons of the machine: their shards are not finished.
    """
    folders = Folders(work)
    todo = [shard for shard in shards if _is_due(folders, shard, options.repair)]
    display = progress(sum(map(plan.planned_items, todo))) if progress is not None and todo else NoProgress()
    failed = {shard: _make_shard(plan, folders, shard, options, display) for shard in todo}
    if unfinished := [shard for shard, reasons in failed.items() if reasons]:
        counts = sum((failed[shard] for shard in unfinished), Counter[Reason]())
        raise PartialFailure(
            f"{len(unfinished)} of {len(todo)} shards are not finished: {', '.join(map(str, unfinished))}",
            cause=", ".join(f"{count} items failed, {reason.meaning}" for reason, count in sorted(counts.items())),
            remedy="run the same command again: only what is missing is made",
        )
    return len(todo)


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


def _make_shard(
    plan: ReleasePlan, folders: Folders, shard: int, options: MatrixOptions, display: ItemProgress
) -> Counter[Reason]:
    """Makes one shard, or what an earlier run left of it. Returns how many items failed for which reasons of the
    machine: with any, the shard is not finished."""
    is_fresh, begin = not folders.corpus(shard).exists(), time.monotonic()
    programs = folders.programs(shard)

    def start_items(remaining: int) -> Callable[[str], None]:
        display.skip(plan.planned_items(shard) - remaining)
        return lambda note: display.step(f"shard {shard:04} {note}")

    generate_into(
        programs, plan.programs, seed=plan.seed(shard), workers=options.workers, runs=plan.sizes, engine=options.engine
    )
    checked = (replace(program, oracle=expected_output) for program in iter_programs(programs))
    how = replace(options, backend=plan.backend, limits=limits_of(plan.backend))
    summary = collect_matrix(checked, plan.targets(shard), folders.corpus(shard), how, start_items)
    reasons = Counter({Reason.of(reason): count for reason, count in summary.failed.items() if reason in RETRIED})
    if reasons:
        return reasons
    seconds = round(time.monotonic() - begin, 1) if is_fresh else None
    origin = ShardOrigin(plan.seed(shard), plan.programs, plan.sizes, grammar_digest(), seconds, options.workers)
    write_whole(folders.done_marker(shard), json.dumps(asdict(origin)) + "\n")
    return reasons
