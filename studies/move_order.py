"""Collects what moves of `synth optimize` are worth, learns their order, and scores it.

    python -m studies.move_order FOLDER [--programs N] [--held-out] [--workers N] [--stage collect|fit|score ...]
        [--page]

`collect` values the moves of N generated programs and of the naive handwritten ones by previews, and goes on after an
interruption; FOLDER/moves.jsonl holds the results. With --held-out it leaves out the training part: the rest is enough
for `score`, and for the questions of studies.reasoning_table. `fit` writes the order that `synth optimize` and the tool
`propose` use, learned from the training part. `score` tests it on the rest. --page writes the tables of
docs/reference/reasoning.md.
"""

from __future__ import annotations

import argparse
import itertools
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hipsynth.core.program import Program, ProgramRun
from hipsynth.synth.generate.producer import generate_programs
from hipsynth.tuning.optimize.move_order import SHIPPED, MoveOrder, OrderedMove, take_turns
from hipsynth.tuning.optimize.move_paths import ValuationJob, collect_move_values
from hipsynth.tuning.optimize.move_values import ValuedState, read_jobs
from hipsynth.tuning.trial import target_of
from studies.markdown import format_table, write_tables
from studies.optimize_table import list_naive_steps

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "reasoning.md"
SEED, DRAWS = 3203, 200
MIXED = 6  # generated programs before each handwritten one
ARCHS = ("gfx942", "gfx90a")
STAGES = ("collect", "fit", "score")
TRIES = (1, 3, 5, 16)
LEAST_BEST_SPEEDUP = 1.02  # speed-up of the best move from which a program has something to gain
SHRINKAGE = 3.0  # moves without a gain that a mean is drawn towards
SHIPPED_ORDER, LEARNED, MEANS, SEARCHED, CHANCE = (
    "by turns, learned first (what ships)",
    "learned order alone",
    "mean gain by transformation and decision",
    "by what limits the kernel, transformations by turns",
    "at random",
)
TITLES = {"handwritten": "Naive handwritten programs", "test": "Generated programs of unseen lineages"}


@dataclass(frozen=True)
class TestState:
    """The first state of a test program, with the logarithm of each move's speed-up."""

    moves: tuple[OrderedMove, ...]
    gains: tuple[float, ...]

    @property
    def best_gain(self) -> float:
        return max(0.0, *self.gains)


def list_handwritten_jobs() -> Iterator[ValuationJob]:
    """The naive version of each handwritten problem, on the architectures by turns."""
    for number, (problem, path) in enumerate(list_naive_steps()):
        program = Program(path.read_text(), "handwritten", problem, name=path.stem, runs=(ProgramRun(()),))
        yield ValuationJob(program, target_of(ARCHS[number % len(ARCHS)]))


def list_generated_jobs(count: int) -> Iterator[ValuationJob]:
    """Generated programs, on the architectures by turns."""
    for number, program in enumerate(generate_programs(count, SEED)):
        yield ValuationJob(program, target_of(ARCHS[number % len(ARCHS)]))


def is_held_out(job: ValuationJob) -> bool:
    """Whether nothing is learned from a job's program."""
    return job.split != "train"


def list_jobs(count: int, only_held_out: bool) -> Iterator[ValuationJob]:
    """What is to be collected of `count` generated programs and the handwritten ones, which come last if only what is
    held out is asked for."""
    generated = list_generated_jobs(count)
    if only_held_out:
        return itertools.chain(filter(is_held_out, generated), list_handwritten_jobs())
    return mix_jobs(generated, list_handwritten_jobs())


def mix_jobs(many: Iterator[ValuationJob], few: Iterator[ValuationJob]) -> Iterator[ValuationJob]:
    """All jobs, one of the few after each MIXED of the many: a collection that is ended early has both."""
    for number, job in enumerate(many, 1):
        yield job
        if number % MIXED == 0 and (other := next(few, None)) is not None:
            yield other
    yield from few


def list_training_states(moves: Path) -> list[ValuedState]:
    """The states of lineages that are trained on."""
    states = (state for valued in read_jobs(moves) for state in valued.states)
    return [state for state in states if state.split == "train" and list_valued_moves(state)]


def list_valued_moves(state: ValuedState) -> list[tuple[OrderedMove, float]]:
    """The moves of a state that have a preview, each with its speed-up."""
    pairs = zip(state.ordered_moves(), state.moves, strict=True)
    return [(ordered, move.gain) for ordered, move in pairs if move.gain]


def fit_order(moves: Path) -> MoveOrder:
    """The order learned from all training moves."""
    return MoveOrder.fit([list_valued_moves(state) for state in list_training_states(moves)])


def load_tests(moves: Path) -> dict[str, list[TestState]]:
    """The first states of programs that are not trained on, by split: those with something to gain."""
    sets: dict[str, list[TestState]] = {split: [] for split in TITLES}
    for program in read_jobs(moves):
        for state in program.states[:1]:
            valued = list_valued_moves(state)
            test = TestState(tuple(move for move, _ in valued), tuple(math.log(gain) for _, gain in valued))
            if state.split != "train" and len(valued) > 1 and test.best_gain >= math.log(LEAST_BEST_SPEEDUP):
                sets["handwritten" if state.split == "handwritten" else "test"].append(test)
    return sets


def list_changed_decisions(move: OrderedMove) -> tuple[str, ...]:
    """The transformation and the decisions that a move changes, for a table of means."""
    changed = sorted(name for name, value in move.plan.items() if value != move.before.get(name))
    return move.transformation, *(name if name == "shape" else f"{name}={move.plan[name]}" for name in changed)


def average_gains(moves: Path) -> dict[tuple[str, ...], float]:
    """The mean logarithm of the speed-up by list_changed_decisions(), drawn towards 0 where there are few."""
    logs: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for move, gain in itertools.chain.from_iterable(map(list_valued_moves, list_training_states(moves))):
        logs[list_changed_decisions(move)].append(math.log(gain))
    return {key: sum(values) / (len(values) + SHRINKAGE) for key, values in logs.items()}


Order = Callable[[TestState], Sequence[float]]


def build_orders(order: MoveOrder, means: Mapping[tuple[str, ...], float]) -> dict[str, Order]:
    """What each order expects of a state's moves; the largest is tried first."""
    return {
        SHIPPED_ORDER: lambda test: place_by_turns(order.expect(test.moves)),
        LEARNED: lambda test: order.expect(test.moves),
        MEANS: lambda test: [means.get(list_changed_decisions(move), 0.0) for move in test.moves],
        SEARCHED: lambda test: [-float(number) for number in range(len(test.moves))],
    }


def place_by_turns(expected: Sequence[float]) -> list[float]:
    """As build_orders(), for the order that a search tries."""
    numbers = range(len(expected))
    turns = take_turns(sorted(numbers, key=lambda number: -expected[number]), numbers)
    return [-float(turns.index(number)) for number in numbers]


def compute_gain(test: TestState, expected: Sequence[float], tries: int) -> float:
    """The logarithm of the speed-up by the best of the first moves; 0 if they all lose."""
    first = sorted(range(len(expected)), key=lambda number: -expected[number])[:tries]
    return max(0.0, *(test.gains[number] for number in first))


def average_random_gain(test: TestState, tries: int) -> float:
    """The mean of compute_gain() over random orders."""
    draw = random.Random(SEED)
    orders = ([draw.random() for _ in test.gains] for _ in range(DRAWS))
    return statistics.fmean(compute_gain(test, order, tries) for order in orders)


def format_order(name: str, gains: Callable[[TestState, int], float], tests: Sequence[TestState]) -> list[str]:
    """An order's row: the share of the log-gain of all moves after each of TRIES, and the geometric mean after 3."""
    best_of_all = sum(test.best_gain for test in tests)
    shares = [f"{100 * sum(gains(test, tries) for test in tests) / best_of_all:.0f}" for tries in TRIES]
    return [name, *shares, f"{math.exp(statistics.fmean(gains(test, TRIES[1]) for test in tests)):.2f}"]


def render_tables(order: MoveOrder, moves: Path) -> str:
    """The page's tables."""
    states = list_training_states(moves)
    gains = [gain for state in states for _, gain in list_valued_moves(state)]
    lineages, losing = len({state.lineage for state in states}), sum(gain < 1 for gain in gains) / len(gains)
    parts = [
        f"\n{datetime.now(UTC):%d %B %Y}; learned from {len(gains):,} moves of {len(states):,} states of {lineages:,} "
        f"lineages, {100 * losing:.0f} % of which lose.\n"
    ]
    functions = build_orders(order, average_gains(moves))
    head = ["order", *(f"{tries} tried, % of the log-gain of all" for tries in TRIES), "geometric mean after three"]
    for split, tests in load_tests(moves).items():
        if not tests:
            continue
        tries = statistics.fmean(len(test.gains) for test in tests)
        lines = [
            format_order(name, lambda test, tries, f=function: compute_gain(test, f(test), tries), tests)  # type: ignore[misc]
            for name, function in functions.items()
        ]
        lines.append(format_order(CHANCE, average_random_gain, tests))
        best = f"{math.exp(statistics.fmean(test.best_gain for test in tests)):.2f}"
        lines.append([f"all {tries:.0f}", *["100"] * len(TRIES), best])
        parts += [f"**{TITLES[split]}**, {len(tests)} states with something to gain:\n", format_table(head, lines)]
    return "\n".join(parts)


def write_page(text: str) -> None:
    """Puts the tables into the page."""
    write_tables(PAGE, text, "studies.move_order")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--held-out", action="store_true", help="collect nothing of the training part")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stage", choices=STAGES, action="append", help="may be repeated; default: all")
    parser.add_argument("--page", action="store_true", help=f"write the tables into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(arguments)
    moves = options.folder / "moves.jsonl"

    def print_progress(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    for stage in options.stage or STAGES:
        if stage == "collect":
            jobs = list_jobs(options.programs, options.held_out)
            collect_move_values(jobs, moves, options.workers, print_progress)
        elif stage == "fit":
            fit_order(moves).save(SHIPPED)
        else:
            print(text := render_tables(MoveOrder.load(), moves))
            if options.page:
                write_page(text)


if __name__ == "__main__":
    main()
