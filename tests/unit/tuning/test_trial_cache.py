"""Trials that are kept: each is run once, also for several threads, and those of old texts are forgotten."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from hipsynth.tuning.trial import Conditions, Trial, TrialCache, map_at_once

PLAIN, OTHER = Conditions(), Conditions(("256",))


class Runs:
    """Counts the trials that are run."""

    def __init__(self) -> None:
        self.made: Counter[tuple[str, Conditions]] = Counter()

    def __call__(self, text: str, conditions: Conditions) -> Trial:
        self.made[text, conditions] += 1
        return Trial("ok", message=text)


def test_a_trial_is_run_once_whoever_asks() -> None:
    runs, entered = Runs(), threading.Barrier(2, timeout=20)
    cache = TrialCache(runs, 4)

    def ask(number: int) -> Trial:
        entered.wait()
        return cache.get("a", PLAIN)

    assert [trial.message for trial in map_at_once(ask, [1, 2])] == ["a", "a"]
    assert cache.get("a", OTHER).ok and runs.made == {("a", PLAIN): 1, ("a", OTHER): 1}


def test_results_come_in_the_order_that_they_were_asked_for() -> None:
    cache = TrialCache(Runs(), 4)
    assert [trial.message for trial in cache.run_together([("b", PLAIN), ("a", PLAIN), ("b", OTHER)])] == list("bab")


def test_only_the_first_text_and_the_latest_ones_are_kept() -> None:
    runs = Runs()
    cache = TrialCache(runs, 2)
    for text in "oabcoab":
        cache.get(text, PLAIN)
    assert {text: times for (text, _), times in runs.made.items()} == {"o": 1, "a": 2, "b": 2, "c": 1}


def test_who_waits_for_a_run_that_fails_gets_its_error_too() -> None:
    entered = threading.Event()

    def fail(text: str, conditions: Conditions) -> Trial:
        entered.wait(20)
        raise RuntimeError(text)

    cache = TrialCache(fail, 2)
    errors: list[str] = []

    def ask() -> None:
        with pytest.raises(RuntimeError, match="a"):
            cache.get("a", PLAIN)
        errors.append("a")

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    entered.set()
    for thread in threads:
        thread.join(20)
    assert errors == ["a", "a", "a"]


def test_a_trial_from_elsewhere_is_kept() -> None:
    runs = Runs()
    cache = TrialCache(runs, 2)
    cache.put("a", PLAIN, Trial("ok", message="given"))
    assert cache.get("a", PLAIN).message == "given" and not runs.made
