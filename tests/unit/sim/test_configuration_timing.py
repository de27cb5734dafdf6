"""Which configurations of a sweep are timed again, and that the fastest is found."""

from __future__ import annotations

import math
import random

from hipsynth.simulator.scripts.inside.sweep import COVERS, LEAST, BestTimes, Timing, bound_error, time_finalists


class Stopwatch:
    """Exact times of configurations; it notes which it measured."""

    def __init__(self, times: list[float]) -> None:
        self.times = times
        self.measured: list[int] = []

    def measure(self, configuration: int) -> Timing[float]:
        self.measured.append(configuration)
        return Timing(self.times[configuration], self.times[configuration])


def choose(exact: list[float], coarse: list[tuple[float, float]]) -> tuple[int, list[int]]:
    stopwatch = Stopwatch(exact)
    timings = time_finalists(
        range(len(exact)), [Timing(time, time, error) for time, error in coarse], stopwatch.measure
    )
    return min(range(len(exact)), key=lambda number: timings[number].answer), stopwatch.measured


def test_those_that_may_be_the_fastest_are_timed_again() -> None:
    assert choose([11.0, 10.0, 30.0], [(10.2, 1.0), (10.5, 1.0), (30.0, 5.0)]) == (1, [0, 1])


def test_a_clear_winner_is_not_timed_again() -> None:
    assert choose([10.0, 20.0], [(10.0, 1.0), (20.0, 1.0)]) == (0, [])


def test_a_time_that_rises_brings_others_back() -> None:
    coarse = [(10.0, 0.5), (10.2, 0.5), (12.0, 0.8), (12.1, 0.8)]
    assert choose([14.0, 14.2, 12.6, 12.4], coarse) == (3, [0, 1, 2, 3])


def test_what_ran_in_full_is_not_timed_again() -> None:
    assert choose([10.0, 10.2], [(10.0, 0.0), (10.2, 0.0)]) == (0, [])
    assert choose([10.0, 9.8], [(10.0, 0.0), (10.2, 0.5)]) == (1, [1])


def test_what_does_not_compile_is_never_the_fastest() -> None:
    assert choose([math.inf, 10.0, 9.9], [(math.inf, 0.0), (10.0, 0.2), (10.1, 0.2)]) == (2, [1, 2])
    assert choose([math.inf, math.inf], [(math.inf, 0.0), (math.inf, 0.0)])[1] == []


def test_no_choice_is_slower_than_the_best_while_bounds_hold() -> None:
    draw = random.Random(5)
    for _ in range(200):
        exact = [draw.uniform(5, 9) for _ in range(12)]
        errors = [draw.choice([0.0, draw.uniform(0.1, 1)]) for _ in exact]
        coarse = [(time + draw.uniform(-error, error), error) for time, error in zip(exact, errors, strict=True)]
        number, measured = choose(exact, coarse)
        assert exact[number] == min(exact) and len(measured) == len(set(measured))


def test_a_bound_follows_the_samplers_estimate() -> None:
    assert bound_error(10.0, 0.0) == 0
    assert bound_error(10.0, 0.5) == COVERS * 0.5
    assert bound_error(10.0, 0.001) == LEAST * 10


def test_only_what_may_be_the_best_of_a_problem_is_benchmarked_again() -> None:
    best = BestTimes()
    assert not best.settles("a", Timing(None, 10.0, 0.2)) and best.settles("a", Timing(None, 10.0, 0.0))
    best.note_time("a", Timing(None, 10.0, 0.1))
    best.note_time("a", Timing(None, 12.0, 0.1))
    assert best.settles("a", Timing(None, 10.5, 0.3))
    assert not best.settles("a", Timing(None, 10.3, 0.3)), "it may be as fast"
    assert not best.settles("a", Timing(None, 20.0, 2.0)), "a script reads the time"
    assert not best.settles("b", Timing(None, 10.5, 0.3)), "another problem"
