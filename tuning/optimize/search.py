"""Beam search over plans: each round changes one kernel in one way, ranks by the predictor, executes the best."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

from hipsynth.core.errors import HipsynthError
from hipsynth.tuning.optimize.candidates import SearchState, make_candidates
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator, changed_metrics
from hipsynth.tuning.optimize.kernel_fusion import find_fusions
from hipsynth.tuning.optimize.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.transformation_plan import Move, TransformationPlan
from hipsynth.tuning.optimize.verify import VerificationCheck
from hipsynth.tuning.trial.search_clock import Clock

BEAM = 2
AT_ONCE = 2  # candidates that run at the same time; on every machine, so that all try the same ones
PER_ROUND = 6  # candidates of a round that are executed
PREDICTION_S = 0.4  # price of a prediction, which compiles the device code
MOST_PREDICTED = 16
PREDICTIONS = 0.25  # of the time that a round leaves: what its predictions may take
GAIN = 0.01  # least relative gain of a step

T = TypeVar("T")
R = TypeVar("R")
Option = tuple[float, int, SearchState, Move, str]  # expected time, number, what is changed, how, the text
Predict = Callable[[str], float | None]  # ns of all kernels, None if not known


@dataclass(frozen=True)
class SearchStep:
    """One candidate that was executed: the tree of what was tried is in `parent`, the number of the step it changes
    (-1: the original). `changed`: metrics and counters of the kernel, [before, after]."""

    number: int
    parent: int
    transformation: str
    kernel: str
    plan: dict[str, Any]
    before_ns: float
    after_ns: float | None
    kept: bool
    reason: str
    changed: dict[str, Any] = field(default_factory=dict)

    def document(self) -> dict[str, Any]:
        return asdict(self)


@dataclass
class Search:
    """The search for one program on one target."""

    program: ParsedProgram
    evaluator: Evaluator
    check: Callable[[str], VerificationCheck]
    predict: Predict
    budget_s: float
    allow: frozenset[str] = frozenset()
    say: Callable[[str], None] = lambda line: None
    clock: Clock = field(default_factory=Clock)
    joined: dict[str, int] = field(default_factory=dict)  # kernels made of several -> of how many; `check` knows it
    steps: list[SearchStep] = field(default_factory=list)
    spent_s: float = 0.0
    _slowest_s: float = 0.0  # on the clock: the longest that a candidate took
    _predictions: dict[str, float | None] = field(default_factory=dict)

    def run(self) -> list[SearchState]:
        """All states that were kept, fastest first; the original is the last. Raises HipsynthError if it fails."""
        first, took_s = self._timed(self.program.text)
        self._spend(first, took_s)
        if not first.ok:
            cause = f"{first.reason}: {first.message[:500]}"
            raise HipsynthError("the program does not run", cause=cause, reason=first.reason)
        origin = SearchState({}, self.program.text, first)
        kept = self._fused(origin)
        origin = kept[-1]  # of all plans
        beam = [origin]
        tried = {state.text for state in kept}
        before = -1
        while not self._over() and len(tried) != before:  # until there is nothing left to try
            before = len(tried)
            found = self._round(beam, tried, origin)
            kept += found
            beam = sorted([*beam, *found], key=lambda state: state.found.duration_ns)[:BEAM]
        return sorted(kept, key=lambda state: state.found.duration_ns)

    def _fused(self, origin: SearchState) -> list[SearchState]:
        """The original, then the program with launches joined, each run of them if it is faster and correct."""
        states = [origin]
        found = next(find_fusions(self.program), None)
        tried: set[str] = set()
        while found is not None and not self._over():
            tried.add(found.text)
            self.joined[found.name] = len(found.kernels)
            move = Move(
                "fuse",
                " + ".join(found.kernels),
                TransformationPlan(),
                "what one launch leaves for the next stays in registers",
            )
            option = 0.0, 0, states[-1], move, found.text
            run, check, took_s = self._tried(option)
            self._spend(run, took_s)
            made = self._judged(option, run, check)
            if made is not None:
                states.append(SearchState({}, made.text, made.found, made.step))
                self.program = read_program(made.text, self.evaluator.target.arch)
            found = next((one for one in find_fusions(self.program) if one.text not in tried), None)
        return states

    def _over(self) -> bool:
        return self.spent_s >= self.budget_s or self.clock.over(self._slowest_s)

    def _timed(self, text: str) -> tuple[CandidateMeasurement, float]:
        """A run, and how long it took on the clock."""
        began = self.clock.spent_s
        return self.evaluator(text), self.clock.spent_s - began

    def _spend(self, found: CandidateMeasurement, took_s: float) -> None:
        self.spent_s += found.price / AT_ONCE
        self._slowest_s = max(self._slowest_s, took_s)

    def _batches(self, items: Iterable[T], work: Callable[[T], R], over: Callable[[], bool]) -> Iterator[tuple[T, R]]:
        """Each item with its result, in order; AT_ONCE are worked on together. Ends early when it is over."""
        waiting = iter(items)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            while not over() and (batch := list(itertools.islice(waiting, AT_ONCE))):
                yield from zip(batch, list(pool.map(work, batch)), strict=True)

    def _round(self, beam: list[SearchState], tried: set[str], origin: SearchState) -> list[SearchState]:
        """Executes the most promising new candidates of the states in the beam; returns those that are faster."""
        options: list[Option] = []
        for state in beam:
            for move, text in make_candidates(self.program, state, origin, tried, self.allow):
                options.append((0.0, len(options), state, move, text))
        kept = []
        for option, (found, check, took_s) in self._batches(self._ranked(options)[:PER_ROUND], self._tried, self._over):
            tried.add(option[4])
            self._spend(found, took_s)
            made = self._judged(option, found, check)
            if made is not None:
                kept.append(made)
        return kept

    def _ranked(self, options: list[Option]) -> list[Option]:
        """By predicted time relative to the prediction of the state; where nothing is predicted, in their order."""
        runs_s = PER_ROUND / AT_ONCE * self._slowest_s  # what the round will need for its candidates
        until = self.clock.spent_s + PREDICTIONS * max(0.0, self.clock.budget_s - self.clock.spent_s - runs_s)
        states = {id(option[2]): option[2] for option in options[:MOST_PREDICTED]}
        known = {id(state): self._predicted(state.text) for state in states.values()}
        worth = [option for option in options[:MOST_PREDICTED] if known[id(option[2])]]
        ranked: list[Option] = []
        found = self._batches(worth, lambda option: self._predicted(option[4]), lambda: self.clock.spent_s >= until)
        for (_, number, state, move, text), after in found:
            self.spent_s += PREDICTION_S / AT_ONCE
            before = known[id(state)]
            ratio = after / before if after and before else 1.0
            ranked.append((ratio * state.found.duration_ns, number, state, move, text))
        seen = {option[1] for option in ranked}
        return sorted(ranked, key=lambda one: one[:2]) + [option for option in options if option[1] not in seen]

    def _predicted(self, text: str) -> float | None:
        if text not in self._predictions:
            self._predictions[text] = self.predict(text)
        return self._predictions[text]

    def _tried(self, option: Option) -> tuple[CandidateMeasurement, VerificationCheck | None, float]:
        """The run of a candidate and, if it is faster, the comparison of what it leaves behind; how long it ran."""
        _, _, state, _, text = option
        found, took_s = self._timed(text)
        faster = found.ok and found.duration_ns <= (1 - GAIN) * state.found.duration_ns
        return found, self.check(text) if faster else None, took_s

    def _judged(
        self, option: Option, found: CandidateMeasurement, check: VerificationCheck | None
    ) -> SearchState | None:
        """Records a candidate that was executed; its state if it is kept."""
        _, _, state, move, text = option
        number = len(self.steps)
        before = state.found.duration_ns
        after = found.duration_ns if found.ok else None
        kept = check is not None and check.passed is not False
        if not found.ok:
            reason = f"it fails: {found.reason}"
        elif check is None:
            reason = "not faster"
        else:
            reason = move.why if kept else check.detail
        one, other = state.found.of(move.kernel), found.of(move.kernel)
        changed = changed_metrics(one, other) if one and other else {}
        plan = move.plan.document()
        step = SearchStep(
            number, state.step, move.transformation, move.kernel, plan, before, after, kept, reason, changed
        )
        self.steps.append(step)
        times = f"{before / 1e3:.1f} us -> {'-' if after is None else f'{after / 1e3:.1f} us'}"
        self.say(f"{move.transformation} on {move.kernel}: {times}  {'kept' if kept else reason}")
        return SearchState({**state.plans, move.kernel: move.plan}, text, found, number) if kept else None
