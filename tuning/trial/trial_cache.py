"""Trials that are run once, and at most two of them at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from hipsynth.tuning.trial.run import Conditions, Trial

AT_ONCE = 2  # trials that run at the same time; on every machine, so that all try the same ones

T = TypeVar("T")
R = TypeVar("R")


def map_at_once(work: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """The results for all items, in order; AT_ONCE are worked on together."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(work, items))


class TrialCache:
    """Trials of texts, each run once under the same conditions, also where several threads ask for it. `run` makes one;
    those of all but the first text and the `most_texts` latest others are forgotten."""

    def __init__(self, run: Callable[[str, Conditions], Trial], most_texts: int) -> None:
        self._run, self._most_texts = run, most_texts
        self._trials: dict[str, dict[Conditions, Future[Trial]]] = {}
        self._lock = threading.Lock()

    def get(self, text: str, conditions: Conditions) -> Trial:
        """The trial of a text; waits if another thread runs it."""
        with self._lock:
            trials = self._trials.setdefault(text, {})
            for other in list(self._trials)[1 : -self._most_texts]:
                del self._trials[other]
            is_new = conditions not in trials
            future = trials.setdefault(conditions, Future())
        if is_new:
            self._fill(future, text, conditions)
        return future.result()

    def put(self, text: str, conditions: Conditions, trial: Trial) -> None:
        """Keeps a trial that was run elsewhere."""
        future: Future[Trial] = Future()
        future.set_result(trial)
        with self._lock:
            self._trials.setdefault(text, {})[conditions] = future

    def _fill(self, future: Future[Trial], text: str, conditions: Conditions) -> None:
        try:
            future.set_result(self._run(text, conditions))
        except BaseException as error:  # whoever waits for this trial gets it too
            future.set_exception(error)
            raise

    def run_together(self, wanted: Iterable[tuple[str, Conditions]]) -> list[Trial]:
        """The trials of several texts under their conditions, run AT_ONCE together."""
        return map_at_once(lambda pair: self.get(*pair), wanted)
