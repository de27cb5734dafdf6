"""Beam search over plans: each round changes one kernel in one way, ranks by the predictor, executes the best.

A beam with nothing left to try gives way to the next best states."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from hipsynth.core.errors import HipsynthError
from hipsynth.tuning.optimize.analysis.analysis_faults import TEXT_ERRORS, AnalysisFaults
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood
from hipsynth.tuning.optimize.candidates import SearchState, launch_blocks, make_candidates
from hipsynth.tuning.optimize.documents import SearchEnd, SearchStep, StepOutcome, VerificationCheck
from hipsynth.tuning.optimize.emit import emit_program
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator, changed_metrics, is_short_launch
from hipsynth.tuning.optimize.group_order import GroupOrders, count_tries
from hipsynth.tuning.optimize.kernel_fusion.find_fusions import find_fusions
from hipsynth.tuning.optimize.kernel_fusion.fused_program import Fusion
from hipsynth.tuning.optimize.move_order import describe_move, shipped_order, take_turns
from hipsynth.tuning.optimize.register_sums import keep_sums_in_registers
from hipsynth.tuning.optimize.source_changes import MOST_CHANGES, SOURCE_CHANGES, list_source_changes
from hipsynth.tuning.optimize.source_changes.source_change import SourceChange, SourceChanger
from hipsynth.tuning.optimize.transformation_plan import Move, TransformationPlan
from hipsynth.tuning.trial import AT_ONCE, map_at_once
from hipsynth.tuning.trial.search_clock import Clock

BEAM = 2
# Time over the fastest state's, up to which a state is searched once those of the beam have nothing left
# (docs/log/optimize.md).
MOST_TIME_OVER_FASTEST = 1.25
PER_ROUND = 6  # candidates of a round that are executed
PREDICTION_S = 0.4  # price of a prediction, which compiles the device code
MOST_PREDICTED = 16
PREDICTIONS = 0.25  # of the time that a round leaves: what its predictions may take
ORDERS = 0.25  # of the budget: what other orders of work-groups may take at most
CHANGES = 0.2  # of the budget: what changes of the fastest program's source may take at most
LEAST_RELATIVE_GAIN = 0.01  # of the time, in a step that is kept
ALL_LAUNCHES = 1 << 30  # what a kernel counts for that makes all launches of a loop
SLOWER = 1.1  # predicted time over that of the state, from which a candidate is not executed

T = TypeVar("T")
R = TypeVar("R")
Predict = Callable[[str], float | None]  # ns of all kernels, None if not known


@dataclass(frozen=True)
class Candidate:
    """A program that may be executed: the text that a move makes of a state's."""

    state: SearchState
    move: Move
    text: str
    number: int = 0  # in its round


def _explain_fusion(fusion: Fusion) -> str:
    """Why launches are joined."""
    if fusion.one_group:
        return "a launch takes longer than its work"
    if fusion.many_passes:
        return "a group goes on with elements that it has in the LDS"
    return "what one launch leaves for the next stays in registers"


def _keep_promising(waiting: list[SearchState], states: list[SearchState], near: float) -> list[SearchState]:
    """Those that wait, fastest first, without those that are slower than the best BEAM of all states and than `near`
    times the fastest: what is third best now may be best after two more moves."""
    times = sorted(state.found.duration_ns for state in states)
    most_ns = max(near * times[0], times[min(BEAM, len(times)) - 1])
    promising = (state for state in waiting if state.found.duration_ns <= most_ns)
    return sorted(promising, key=lambda state: state.found.duration_ns)


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
    ended: SearchEnd = SearchEnd.NOTHING_LEFT
    faults: AnalysisFaults = field(default_factory=AnalysisFaults)
    orders: GroupOrders = field(init=False)
    _reserve_s: float = 0.0  # of the budget, for what comes last: changes of the source, orders of work-groups
    _orders_s: float = 0.0  # the part of it for orders
    _slowest_s: float = 0.0  # on the clock: the longest that a candidate took
    _origin: SearchState | None = None  # that the plans of the program change
    _predictions: dict[str, float | None] = field(default_factory=dict)

    def run(self) -> list[SearchState]:
        """All states that were kept, fastest first; the original is the last. Raises HipsynthError if it fails."""
        first, took_s = self._time_run(self.program.text)
        self._charge_work(first, took_s)
        if not first.ok:
            cause = f"{first.reason}: {first.message[:500]}"
            raise HipsynthError("the program does not run", cause=cause, reason=first.reason)
        self._reserve_for_last(first)
        states = self._keep_sums(SearchState({}, self.program.text, first))
        states += self._search_renumbered(states[-1]) + self._search_moves(states[-1])
        self.ended = self._find_end()
        for add_last in (self._change_source, self._order_groups):
            states += add_last(min(states, key=lambda state: state.found.duration_ns))
        return sorted(states, key=lambda state: state.found.duration_ns)

    def _search_renumbered(self, origin: SearchState) -> list[SearchState]:
        """A program whose products are renumbered and tiled, if that is better, and what is found from there. Few moves
        apply to it, so the original is searched, too."""
        program, states = self.program, self._change_first("work_axes", origin)
        if states:
            states += self._search_moves(states[-1], near=1.0)  # the rest of the budget is the original's
            self.program = program
        return states

    def _search_moves(self, origin: SearchState, near: float = MOST_TIME_OVER_FASTEST) -> list[SearchState]:
        """What is found from the program by divisions, joined launches and rounds of moves, of the best BEAM states and
        then of those within `near` times the fastest."""
        states = [origin, *self._change_first("fast_division", origin)]
        states = [*states[:-1], *self._fuse_launches(states[-1])]
        self._origin = origin = states[-1]  # of all plans
        waiting = [origin]  # states with changes that were not tried
        texts = {state.text for state in states}
        while waiting and not self._is_over():
            beam, waiting = waiting[:BEAM], waiting[BEAM:]
            before = len(texts)
            faster = self._run_round(beam, texts, origin)
            states += faster
            untried = beam if len(texts) != before else []
            waiting = _keep_promising([*untried, *faster, *waiting], states, near)
        return states[1:]

    def _reserve_for_last(self, first: CandidateMeasurement) -> None:
        """Leaves a part of the budget to the moves that come last."""
        target = self.evaluator.target
        self.orders = GroupOrders(target, count_tries(self.program.text, first, target))
        self._orders_s = min(ORDERS * self.budget_s, self.orders.tries * first.price)
        changes = sum(1 for _ in list_source_changes(self.program, first, target, self.faults))
        self._reserve_s = self._orders_s + min(CHANGES * self.budget_s, changes * first.price)

    def _change_source(self, state: SearchState) -> list[SearchState]:
        """The best program with its source changed further, those that are faster and correct."""
        self._reserve_s = self._orders_s
        faster = [] if (divided := self._divide_before_plans(state)) is None else [divided]
        state = faster[-1] if faster else state
        for name, changer in SOURCE_CHANGES.items():
            texts_tried: set[str] = set()
            while (judged := self._try_changes(name, changer, state, texts_tried)) is not None:
                faster.append(judged)
                state = judged
        return faster

    def _try_changes(
        self, name: str, changer: SourceChanger, state: SearchState, texts_tried: set[str]
    ) -> SearchState | None:
        """The first change of one kind that is faster and correct; of alternatives the fastest."""
        target, better, most = self.evaluator.target, [], len(texts_tried) + MOST_CHANGES
        try:
            program = read_program(state.text, target.arch, target.flags)
        except TEXT_ERRORS:
            return None
        for change in self.faults.iterate(name, changer.list_changes(program, state.found, target)):
            if self._is_over() or len(texts_tried) >= most:
                break
            if change.text in texts_tried:
                continue
            texts_tried.add(change.text)
            judged = self._try_change(name, state, change, change.text)
            if judged is not None:
                better.append(judged)
            if judged is not None and not changer.alternatives:
                break
        return min(better, key=lambda state: state.found.duration_ns, default=None)

    def _try_change(self, name: str, state: SearchState, change: SourceChange, text: str) -> SearchState | None:
        """The state of a program that a change of source leads to, if it is faster and correct."""
        plan = state.plans.get(change.kernel, TransformationPlan())
        candidate = Candidate(state, Move(name, change.kernel, plan, change.why), text)
        run, check, took_s = self._try_candidate(candidate)
        self.spent_s += run.price
        self._slowest_s = max(self._slowest_s, took_s)
        return self._judge_candidate(candidate, run, check)

    def _divide_before_plans(self, state: SearchState) -> SearchState | None:
        """The best program with its plans on top of fast divisions, if that is better: where something else took the
        kernel's time, they gained nothing at first."""
        origin, target = self._origin, self.evaluator.target
        if origin is None or not state.plans or self._is_over():
            return None
        blocks, name = launch_blocks(self.program, origin.found), "fast_division"
        with contextlib.suppress(*TEXT_ERRORS, NotUnderstood):
            if emit_program(self.program, state.plans, blocks) != state.text:
                return None
            changes = SOURCE_CHANGES[name].list_changes(self.program, origin.found, target)
            for change in self.faults.iterate(name, changes):
                program = read_program(change.text, target.arch, target.flags)
                judged = self._try_change(name, state, change, emit_program(program, state.plans, blocks))
                if judged is not None:
                    self.program = program
                return judged
        return None

    def _order_groups(self, state: SearchState) -> list[SearchState]:
        """The best program with its work-groups in other orders, those that are faster and correct."""
        self._reserve_s = 0.0
        faster: list[SearchState] = []
        moves = self.orders.list_moves(state)
        while not self._is_over() and (order := next(moves, None)):
            candidate = Candidate(state, *order)
            run, check, took_s = self._try_candidate(candidate)
            self.spent_s += run.price
            self._slowest_s = max(self._slowest_s, took_s)
            judged = self._judge_candidate(candidate, run, check)
            faster += [] if judged is None else [judged]
            if run.ok:
                self.orders.note(candidate.move, state.found, run)
        return faster

    def _keep_sums(self, origin: SearchState) -> list[SearchState]:
        """The original, then the program whose loops change local variables in place of elements, if it is better."""
        sums = self.faults.call("register_sums", lambda: keep_sums_in_registers(self.program))
        if sums is None or self._is_over():
            return [origin]
        why = "a loop that changes an element of memory loads and stores it in each iteration"
        move = Move("register_sums", " + ".join(sums.kernels), TransformationPlan(), why)
        candidate = Candidate(origin, move, sums.text)
        run, check, took_s = self._try_candidate(candidate)
        self._charge_work(run, took_s)
        state = self._judge_candidate(candidate, run, check)
        if state is None:
            return [origin]
        self.program = read_program(state.text, self.evaluator.target.arch, self.evaluator.target.flags)
        return [origin, SearchState({}, state.text, state.found, state.step)]

    def _change_first(self, name: str, origin: SearchState) -> list[SearchState]:
        """The program with a change of one kind, if it is better: later moves begin with it."""
        state = None if self._is_over() else self._try_changes(name, SOURCE_CHANGES[name], origin, set())
        if state is None:
            return []
        self.program = read_program(state.text, self.evaluator.target.arch, self.evaluator.target.flags)
        return [SearchState({}, state.text, state.found, state.step)]

    def _fuse_launches(self, origin: SearchState) -> list[SearchState]:
        """The original, then the program with launches joined, each run of them if it is faster and correct."""
        states = [origin]
        texts_tried: set[str] = set()
        while (fusion := self._next_fusion(states[-1], texts_tried)) is not None and not self._is_over():
            texts_tried.add(fusion.text)
            self.joined[fusion.name] = ALL_LAUNCHES if fusion.one_group or fusion.many_passes else len(fusion.kernels)
            move = Move("fuse", " + ".join(fusion.kernels), TransformationPlan(), _explain_fusion(fusion))
            candidate = Candidate(states[-1], move, fusion.text)
            run, check, took_s = self._try_candidate(candidate)
            self._charge_work(run, took_s)
            state = self._judge_candidate(candidate, run, check)
            if state is not None:
                states.append(SearchState({}, state.text, state.found, state.step))
                self.program = read_program(state.text, self.evaluator.target.arch, self.evaluator.target.flags)
        return states

    def _next_fusion(self, state: SearchState, texts_tried: set[str]) -> Fusion | None:
        """The first fusion that was not tried; loops by one work-group if all their launches are short."""
        device = self.evaluator.target.device
        for fusion in self.faults.iterate("fuse", find_fusions(self.program)):
            short = (is_short_launch(state.found.of(name), device) for name in fusion.kernels)
            if fusion.text not in texts_tried and (not fusion.one_group or all(short)):
                return fusion
        return None

    def _is_over(self) -> bool:
        return self.spent_s >= self.budget_s - self._reserve_s or self.clock.over(self._slowest_s)

    def _find_end(self) -> SearchEnd:
        if self.spent_s >= self.budget_s - self._reserve_s:
            return SearchEnd.BUDGET
        return SearchEnd.CLOCK if self.clock.over(self._slowest_s) else SearchEnd.NOTHING_LEFT

    def _time_run(self, text: str) -> tuple[CandidateMeasurement, float]:
        """A run, and how long it took on the clock."""
        began = self.clock.spent_s
        return self.evaluator(text), self.clock.spent_s - began

    def _charge_work(self, measurement: CandidateMeasurement, took_s: float) -> None:
        self.spent_s += measurement.price / AT_ONCE
        self._slowest_s = max(self._slowest_s, took_s)

    def _run_batches(
        self, items: Iterable[T], work: Callable[[T], R], over: Callable[[], bool]
    ) -> Iterator[tuple[T, R]]:
        """Each item with its result, in order; AT_ONCE are worked on together. Ends early when it is over."""
        waiting = iter(items)
        while not over() and (batch := list(itertools.islice(waiting, AT_ONCE))):
            yield from zip(batch, map_at_once(work, batch), strict=True)

    def _run_round(self, beam: list[SearchState], tried: set[str], origin: SearchState) -> list[SearchState]:
        """Executes the most promising new candidates of the states in the beam; returns those that are faster."""
        candidates: list[Candidate] = []
        for state in beam:
            for move, text in make_candidates(self.program, state, origin, tried, self.allow, self.faults):
                candidates.append(Candidate(state, move, text, len(candidates)))
        evident = [each for each in candidates if each.move.evident]
        others = [each for each in candidates if not each.move.evident and not self._is_known_slower(each)]
        ranked = self._rank_candidates(self._order_candidates(others))
        kept_states = []
        for candidate, (timed, check, took_s) in self._run_batches(
            (evident + ranked)[:PER_ROUND], self._try_candidate, self._is_over
        ):
            tried.add(candidate.text)
            self._charge_work(timed, took_s)
            judged = self._judge_candidate(candidate, timed, check)
            if judged is not None:
                kept_states.append(judged)
        return kept_states

    def _order_candidates(self, candidates: list[Candidate]) -> list[Candidate]:
        """By turns the one with the least time that the learned order expects, and the next one."""
        arch = self.evaluator.target.arch
        gains = shipped_order().expect([describe_move(each.move, each.state, arch) for each in candidates])
        times = [each.state.found.duration_ns * math.exp(-gain) for each, gain in zip(candidates, gains, strict=True)]
        numbers = range(len(candidates))
        return [candidates[number] for number in take_turns(sorted(numbers, key=times.__getitem__), numbers)]

    def _rank_candidates(self, candidates: list[Candidate]) -> list[Candidate]:
        """By predicted time relative to the prediction of the state, without those that are much slower by it. What is
        not predicted comes last, in its order; in a later round if a prediction takes less time than a run."""
        began = self.clock.spent_s
        runs_s = PER_ROUND / AT_ONCE * self._slowest_s  # what the round will need for its candidates
        until = began + PREDICTIONS * max(0.0, self.clock.budget_s - began - runs_s)
        states = {id(each.state): each.state for each in candidates[:MOST_PREDICTED]}
        predictions = {key: self._predict_duration(state.text) for key, state in states.items()}
        worth = [each for each in candidates[:MOST_PREDICTED] if predictions[id(each.state)]]
        expected_ns: dict[int, float] = {}  # by the candidate's number
        predicted_batches = self._run_batches(
            worth, lambda each: self._predict_duration(each.text), lambda: self.clock.spent_s >= until
        )
        for candidate, after in predicted_batches:
            self.spent_s += PREDICTION_S / AT_ONCE
            before = predictions[id(candidate.state)]
            ratio = after / before if after and before else 1.0
            expected_ns[candidate.number] = ratio * candidate.state.found.duration_ns
        ranked = sorted(
            (each for each in candidates if each.number in expected_ns),
            key=lambda each: (expected_ns[each.number], each.number),
        )
        unranked = [each for each in candidates if each.number not in expected_ns]
        promising = [each for each in ranked if not self._is_known_slower(each)]
        is_cheap = self.clock.spent_s - began < len(ranked) * self._slowest_s
        return promising if promising and is_cheap else promising + unranked

    def _is_known_slower(self, candidate: Candidate) -> bool:
        """Whether predictions that were made say that a candidate is much slower than its state."""
        before, after = (self._predictions.get(text) for text in (candidate.state.text, candidate.text))
        return before is not None and after is not None and after > SLOWER * before

    def _predict_duration(self, text: str) -> float | None:
        if text not in self._predictions:
            self._predictions[text] = self.predict(text)
        return self._predictions[text]

    def _try_candidate(self, candidate: Candidate) -> tuple[CandidateMeasurement, VerificationCheck | None, float]:
        """The run of a candidate and, if it is faster, the comparison of what it leaves behind; how long it ran."""
        timed, took_s = self._time_run(candidate.text)
        faster = timed.ok and timed.duration_ns <= (1 - LEAST_RELATIVE_GAIN) * candidate.state.found.duration_ns
        return timed, self.check(candidate.text) if faster else None, took_s

    def _judge_candidate(
        self, candidate: Candidate, measurement: CandidateMeasurement, check: VerificationCheck | None
    ) -> SearchState | None:
        """Records a candidate that was executed; its state if it is kept."""
        state, move, number = candidate.state, candidate.move, len(self.steps)
        before = state.found.duration_ns
        after = measurement.duration_ns if measurement.ok else None
        is_kept = check is not None and check.passed is not False
        if not measurement.ok:
            outcome, reason = StepOutcome.FAILED, f"it fails: {measurement.reason}"
        elif check is None:
            outcome, reason = StepOutcome.NOT_FASTER, "not faster"
        elif is_kept:
            outcome, reason = StepOutcome.KEPT, move.why
        else:
            outcome, reason = StepOutcome.WRONG, check.detail
        kernel_before, other = state.found.of(move.kernel), measurement.of(move.kernel)
        changed = changed_metrics(kernel_before, other) if kernel_before and other else {}
        plan = move.plan.decisions()
        step = SearchStep(
            number, state.step, move.transformation, move.kernel, plan, before, after, is_kept, reason, outcome, changed
        )
        self.steps.append(step)
        times = f"{before / 1e3:.1f} us -> {'-' if after is None else f'{after / 1e3:.1f} us'}"
        self.say(f"{move.transformation} on {move.kernel}: {times}  {'kept' if is_kept else reason}")
        return (
            SearchState({**state.plans, move.kernel: move.plan}, candidate.text, measurement, number)
            if is_kept
            else None
        )
