"""What moves are worth: each move of a program's first state, and of the state after its best move, valued by the
speed-up that previews of a few work-groups expect. The order of moves is learned from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.documents import document_json, from_json
from hipsynth.core.errors import HipsynthError, MissingDependency
from hipsynth.core.files import open_regular
from hipsynth.core.program import Program
from hipsynth.core.store.splits import splits_of
from hipsynth.core.workers import map_unordered
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.candidates import SearchState, make_candidates
from hipsynth.tuning.optimize.evaluate import RUN_TIME_S, Evaluator, KernelTime
from hipsynth.tuning.optimize.optimize import duration_predictor
from hipsynth.tuning.optimize.program_model import read_program
from hipsynth.tuning.optimize.transformation_plan import PlanValue, TransformationPlan
from hipsynth.tuning.optimize.verification_sizes import Arguments

DEPTH = 2  # states of a program
LIKELY_GAIN = 1.01  # of the best move, below which there is no next state
JOB_S = 900.0  # of one program
MOST_BYTES = 1 << 31


@dataclass(frozen=True)
class ValuedMove:
    """A move from `before` to `plan`, by the decisions that differ from the original, and its speed-up of the whole
    program, None where it has no preview."""

    transformation: str
    kernel: str
    before: Mapping[str, PlanValue]
    plan: Mapping[str, PlanValue]
    gain: float | None


@dataclass(frozen=True)
class ValuedState:
    """A state of a program with the measured run of its kernels and all its moves, in the order of a search. `split`:
    that of its lineage; `depth`: moves made before."""

    program: str
    lineage: str
    split: str
    arch: str
    depth: int
    kernels: tuple[KernelTime, ...]
    moves: tuple[ValuedMove, ...]


@dataclass(frozen=True)
class ValuationJob:
    """A program whose moves are to be valued on a target."""

    program: Program
    target: Target

    @property
    def key(self) -> str:
        return f"{self.program.id} {self.target.arch}"


def value_states(
    text: str, target: Target, arguments: Arguments
) -> Iterator[tuple[int, SearchState, list[ValuedMove]]]:
    """The states of a program, each with its number of moves made and its valued moves. Raises BadInput for a program
    that cannot be parsed; one that does not run, or has no preview, has no state."""
    program, evaluator = read_program(text, target.arch), Evaluator(target, arguments, RUN_TIME_S, None)
    predict = duration_predictor(target, arguments)
    origin = state = SearchState({}, text, evaluator(text))
    for depth in range(DEPTH):
        expected = predict(state.text) if state.found.ok else None
        if expected is None:
            return
        candidates = make_candidates(program, state, origin, (state.text, text))
        predictions = [predict(changed) for _, changed in candidates]
        moves = [
            ValuedMove(
                move.transformation,
                move.kernel,
                state.plans.get(move.kernel, TransformationPlan()).decisions(),
                move.plan.decisions(),
                expected / after if after else None,
            )
            for (move, _), after in zip(candidates, predictions, strict=True)
        ]
        yield depth, state, moves
        best = max(range(len(moves)), key=lambda number: moves[number].gain or 0.0, default=-1)
        if best < 0 or (moves[best].gain or 0.0) < LIKELY_GAIN:
            return
        move, changed = candidates[best]
        state = SearchState({**state.plans, move.kernel: move.plan}, changed, evaluator(changed))


def value_program(job: ValuationJob) -> list[ValuedState]:
    """The valued states of a job's program at its first size; none where it cannot be parsed or run."""
    program = job.program
    arguments = program.runs[0].arguments if program.runs else ()
    lineage = program.lineage or program.id
    [split] = splits_of([program.family], [lineage], origins=[program.origin])
    about = program.id, lineage, split, job.target.arch
    try:
        states = list(value_states(program.text, job.target, arguments))
    except MissingDependency:
        raise
    except HipsynthError:
        return []
    return [ValuedState(*about, depth, state.found.kernels, tuple(moves)) for depth, state, moves in states]


def collect_move_values(
    jobs: Iterable[ValuationJob], path: Path, workers: int, note: Callable[[str], None] = lambda _: None
) -> None:
    """Adds the valued states of all jobs to a file of JSON lines, one line a job; goes on after an interruption.

    Raises MissingDependency without a compiler or sandbox.
    """
    finished = {key for key, _ in read_jobs(path)}
    missing = [job for job in jobs if job.key not in finished]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for number, outcome in enumerate(map_unordered(value_program, missing, workers, "local", JOB_S), 1):
            if isinstance(outcome.error, MissingDependency):
                raise outcome.error
            if outcome.error is not None:  # it ran out of time, or its worker ended: the next call tries it again
                note(f"{number} of {len(missing)}: {outcome.error}")
                continue
            states = outcome.get()
            line = {"job": missing[outcome.index].key, "states": [document_json(state) for state in states]}
            file.write(json.dumps(line) + "\n")
            file.flush()
            note(f"{number} of {len(missing)}: {sum(len(state.moves) for state in states)} moves")


def read_jobs(path: Path) -> Iterator[tuple[str, tuple[ValuedState, ...]]]:
    """(job, states) of each line of a file; a line that was cut is left out, a missing file has none."""
    if not path.exists():
        return
    with open_regular(path, MOST_BYTES) as file:
        for line in file:
            try:
                row = json.loads(line)
                yield str(row["job"]), tuple(from_json(ValuedState, state) for state in row["states"])
            except (ValueError, TypeError, KeyError):
                continue
