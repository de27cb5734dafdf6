"""Beam search over plans: each round changes one kernel in one way, ranks by the predictor, executes the best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from hipsynth.synth.core.errors import HipsynthError
from hipsynth.tuning.optimize.candidates import State, candidates
from hipsynth.tuning.optimize.evaluate import Evaluation, Evaluator, moved
from hipsynth.tuning.optimize.plan import Move
from hipsynth.tuning.optimize.program import Program
from hipsynth.tuning.optimize.verify import Check
from hipsynth.tuning.trial.clock import Clock

BEAM = 2
PER_ROUND = 5  # candidates of a round that are executed
PREDICTION_S = 0.4  # price of a prediction, which compiles the device code
MOST_PREDICTED = 12
PREDICTIONS = 0.25  # of the time that a round leaves: what its predictions may take
GAIN = 0.01  # least relative gain of a step

Predict = Callable[[str], float | None]  # ns of all kernels, None if not known


@dataclass(frozen=True)
class Step:
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

    program: Program
    evaluator: Evaluator
    check: Callable[[str], Check]
    predict: Predict
    budget_s: float
    allow: frozenset[str] = frozenset()
    say: Callable[[str], None] = lambda line: None
    clock: Clock = field(default_factory=Clock)
    steps: list[Step] = field(default_factory=list)
    spent_s: float = 0.0
    _slowest_s: float = 0.0  # on the clock: the longest that a candidate took

    def run(self) -> list[State]:
        """All states that were kept, fastest first; the original is the last. Raises HipsynthError if it fails."""
        first = self._measure(self.program.text)
        if not first.ok:
            cause = f"{first.reason}: {first.message[:500]}"
            raise HipsynthError("the program does not run", cause=cause, reason=first.reason)
        origin = State({}, self.program.text, first)
        beam, kept = [origin], [origin]
        tried = {self.program.text}
        while not self._over():
            found = self._round(beam, tried, origin)
            if not found:
                break
            kept += found
            beam = sorted([*beam, *found], key=lambda state: state.found.duration_ns)[:BEAM]
        return sorted(kept, key=lambda state: state.found.duration_ns)

    def _over(self) -> bool:
        return self.spent_s >= self.budget_s or self.clock.over(self._slowest_s)

    def _measure(self, text: str) -> Evaluation:
        begin = self.clock.spent_s
        found = self.evaluator(text)
        self.spent_s += found.price
        self._slowest_s = max(self._slowest_s, self.clock.spent_s - begin)
        return found

    def _round(self, beam: list[State], tried: set[str], origin: State) -> list[State]:
        """Executes the most promising new candidates of the states in the beam; returns those that are faster."""
        options: list[tuple[float, int, State, Move, str]] = []
        for state in beam:
            for move, text in candidates(self.program, state, origin, tried, self.allow):
                options.append((0.0, len(options), state, move, text))
        options = self._ranked(options)
        kept = []
        for _, _, state, move, text in options[:PER_ROUND]:
            if self._over():
                break
            tried.add(text)
            made = self._try(state, move, text)
            if made is not None:
                kept.append(made)
        return kept

    def _ranked(self, options: list[tuple[float, int, State, Move, str]]) -> list[tuple[float, int, State, Move, str]]:
        """By predicted time relative to the prediction of the state; where nothing is predicted, in their order."""
        known: Mapping[int, float | None] = {}
        ranked: list[tuple[float, int, State, Move, str]] = []
        runs_s = PER_ROUND * self._slowest_s  # what the round will need for its candidates
        until = self.clock.spent_s + PREDICTIONS * max(0.0, self.clock.budget_s - self.clock.spent_s - runs_s)
        for _, number, state, move, text in options[:MOST_PREDICTED]:
            if self.clock.spent_s >= until:
                break
            if id(state) not in known:
                known = {**known, id(state): self._predicted(state.text)}
            before = known[id(state)]
            after = self._predicted(text) if before else None
            ratio = after / before if after and before else 1.0
            ranked.append((ratio * state.found.duration_ns, number, state, move, text))
        return sorted(ranked, key=lambda one: one[:2]) + options[len(ranked) :]

    def _predicted(self, text: str) -> float | None:
        self.spent_s += PREDICTION_S
        return self.predict(text)

    def _try(self, state: State, move: Move, text: str) -> State | None:
        found = self._measure(text)
        number = len(self.steps)
        before = state.found.duration_ns
        after = found.duration_ns if found.ok else None
        kept, reason = False, ""
        if not found.ok:
            reason = f"it fails: {found.reason}"
        elif found.duration_ns > (1 - GAIN) * before:
            reason = "not faster"
        else:
            check = self.check(text)
            kept, reason = check.passed is not False, check.detail if check.passed is False else move.why
        one, other = state.found.of(move.kernel), found.of(move.kernel)
        changed = moved(one, other) if one and other else {}
        plan = move.plan.document()
        step = Step(number, state.step, move.transformation, move.kernel, plan, before, after, kept, reason, changed)
        self.steps.append(step)
        times = f"{before / 1e3:.1f} us -> {'-' if after is None else f'{after / 1e3:.1f} us'}"
        self.say(f"{move.transformation} on {move.kernel}: {times}  {'kept' if kept else reason}")
        return State({**state.plans, move.kernel: move.plan}, text, found, number) if kept else None
