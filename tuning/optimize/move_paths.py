"""Walks along a program's best moves, as a search without a budget would: what moves are worth on the way."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth.core.documents import document_json
from hipsynth.core.errors import HipsynthError, MissingDependency
from hipsynth.core.json_lines import append_json_line
from hipsynth.core.program import Program
from hipsynth.core.reasons import TRANSIENT, Reason
from hipsynth.core.store.splits import splits_of
from hipsynth.core.workers import map_unordered
from hipsynth.profiling.backends.protocol import Target
from hipsynth.source.skeletons import relatives_key
from hipsynth.training.analytic.preview_journal import describe_preview_tools
from hipsynth.tuning.optimize.analysis.analysis_faults import AnalysisFaults
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.candidates import SearchState, make_candidates
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import RUN_TIME_S, CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.move_order import order_moves
from hipsynth.tuning.optimize.move_values import (
    LEAST_SPEEDUP,
    LIKELY_GAIN,
    PREVIEWED,
    ExecutedMove,
    ValuedMove,
    ValuedProgram,
    ValuedState,
    diff_texts,
    is_faster,
    read_jobs,
)
from hipsynth.tuning.optimize.optimize import duration_predictor
from hipsynth.tuning.optimize.transformation_plan import Move, TransformationPlan
from hipsynth.tuning.optimize.verification.verify_change import prepare_verifier

DEPTH = 4  # states of a program
MOST_PREVIEWED = 60  # moves of the first state
MOST_TRIED = 3  # moves of a state that are executed until one gains
LOSING = (2, 1)  # moves executed although their previews expect nothing: of the first state, and of a later one
JOB_S = 900.0  # of one program


@dataclass(frozen=True)
class ValuationJob:
    """A program whose moves are to be valued on a target; `base_text`: that of its lineage, if it is another's."""

    program: Program
    target: Target
    base_text: str = ""

    @property
    def key(self) -> str:
        """What it is about: the program, its arguments and its target."""
        target = self.target
        return " ".join((self.program.id, target.arch, target.device, target.flags, shlex.join(self.arguments)))

    @property
    def arguments(self) -> tuple[str, ...]:
        """The program's arguments at its first size."""
        return self.program.runs[0].arguments if self.program.runs else ()

    @property
    def split(self) -> str:
        """The split of the program, as a corpus has it."""
        program, lineage = self.program, self.lineage
        base_text = program.text if lineage == program.id else self.base_text
        return splits_of([program.family], [relatives_key(lineage, base_text)], origins=[program.origin])[0]

    @property
    def lineage(self) -> str:
        """The program's lineage: its own, if it has no base."""
        return self.program.lineage or self.program.id


@dataclass(frozen=True)
class PathWalker:
    """Walks the path of a program's best moves on a target, with the tools of a search."""

    job: ValuationJob
    about: tuple[str, str, str, str]  # program, lineage, split, architecture
    program: ParsedProgram
    evaluate: Evaluator
    predict: Callable[[str], float | None]

    @classmethod
    def open(cls, job: ValuationJob) -> PathWalker:
        """Raises BadInput for a program that cannot be parsed."""
        program, target = job.program, job.target
        return cls(
            job,
            (program.id, job.lineage, job.split, target.arch),
            read_program(program.text, target.arch, target.flags),
            Evaluator(target, job.arguments, RUN_TIME_S, None),
            duration_predictor(target, job.arguments),
        )

    def walk(self) -> Iterator[ValuedState]:
        """The states; none of a program that does not run, or has no preview. The last one has the checks."""
        origin = state = SearchState({}, self.program.text, self.evaluate(self.program.text))
        for depth in range(DEPTH):
            expected = self.predict(state.text) if state.found.ok else None
            if expected is None:
                return
            candidates = make_candidates(
                self.program, state, origin, (state.text, self.program.text), faults=AnalysisFaults()
            )
            valued = self._value_moves(state, depth, candidates, expected)
            runs = dict(self._execute_moves(state, valued, candidates))
            executed = tuple(
                ExecutedMove(number, run.kernels if run.ok else (), diff_texts(state.text, candidates[number][1]))
                for number, run in runs.items()
            )
            valued = replace(valued, executed=executed)
            following = valued.next_move
            if following is None or depth == DEPTH - 1:
                last = state.text if following is None else candidates[following.move][1]
                yield replace(valued, checks=self._check(last))
                return
            yield valued
            move, changed = candidates[following.move]
            state = SearchState({**state.plans, move.kernel: move.plan}, changed, runs[following.move])

    def _value_moves(
        self, state: SearchState, depth: int, candidates: Sequence[tuple[Move, str]], expected: float
    ) -> ValuedState:
        """The state with its moves; the likeliest get a preview, of the first state nearly all."""
        moves = tuple(
            ValuedMove(
                move.transformation,
                move.kernel,
                state.plans.get(move.kernel, TransformationPlan()).decisions(),
                move.plan.decisions(),
                None,
                move.why,
            )
            for move, _ in candidates
        )
        plain = ValuedState(*self.about, depth, state.found.kernels, moves)
        order = order_moves(plain.ordered_moves())
        chosen = order[: MOST_PREVIEWED if depth == 0 else PREVIEWED]
        after = {number: self.predict(candidates[number][1]) for number in chosen}
        return replace(
            plain,
            moves=tuple(replace(move, gain=_previewed_gain(expected, after.get(n))) for n, move in enumerate(moves)),
        )

    def _execute_moves(
        self, state: SearchState, valued: ValuedState, candidates: Sequence[tuple[Move, str]]
    ) -> Iterator[tuple[int, CandidateMeasurement]]:
        """The best previewed moves until one gains, then some that the learned order likes and the previews do not."""
        expected = {n: move.gain for n, move in enumerate(valued.moves) if move.gain is not None}
        best = sorted((n for n in expected if expected[n] >= LIKELY_GAIN), key=lambda n: -expected[n])
        for number in best[:MOST_TRIED]:
            run = self.evaluate(candidates[number][1])
            yield number, run
            if run.ok and is_faster(state.found.duration_ns, run.duration_ns):
                break
        losing = [n for n in order_moves(valued.ordered_moves())[:PREVIEWED] if expected.get(n, LEAST_SPEEDUP) < 1]
        for number in losing[: LOSING[min(valued.depth, 1)]]:
            yield number, self.evaluate(candidates[number][1])

    def _check(self, text: str) -> tuple[VerificationCheck, ...]:
        """The outputs at a small size of the program that a path ends with; nothing of the original, of handwritten
        programs (nothing is learned from them), or where it runs at no size."""
        if text == self.program.text or self.job.program.origin == "handwritten":
            return ()
        verifier = prepare_verifier(self.program, self.job.target)
        return (verifier.quick(text),) if verifier.sizes else ()


def _previewed_gain(before: float, after: float | None) -> float | None:
    return before / after if after else None


def value_program(job: ValuationJob) -> ValuedProgram:
    """A job's program at its first size; without states where it cannot be parsed or run."""
    states: list[ValuedState] = []
    reason = Reason.NONE
    try:
        for state in PathWalker.open(job).walk():
            states.append(state)
    except MissingDependency:
        raise
    except HipsynthError as error:
        reason = error.reason
    return ValuedProgram(job.key, job.program.origin, job.program.text, tuple(states), reason, describe_preview_tools())


def collect_move_values(
    jobs: Iterable[ValuationJob], path: Path, workers: int, note: Callable[[str], None] = lambda _: None
) -> None:
    """Adds the valued states of all jobs to a file of JSON lines, one line a job; goes on after an interruption. What
    other versions of the compiler or the simulator valued is valued again.

    Raises MissingDependency without a compiler or sandbox.
    """
    identity = describe_preview_tools()
    finished = {valued.job for valued in read_jobs(path) if valued.made_with == identity}
    missing = [job for job in jobs if job.key not in finished]
    for number, outcome in enumerate(map_unordered(value_program, missing, workers, "local", JOB_S), 1):
        if isinstance(outcome.error, MissingDependency):
            raise outcome.error
        if outcome.error is not None:  # it ran out of time, or its worker ended: the next call tries it again
            note(f"{number} of {len(missing)}: {outcome.error}")
            continue
        valued = outcome.get()
        if valued.reason in TRANSIENT:
            note(f"{number} of {len(missing)}: {valued.reason.meaning}")
            continue
        append_json_line(path, document_json(valued))
        note(f"{number} of {len(missing)}: {sum(len(state.moves) for state in valued.states)} moves")
