"""How `triton.autotune` times configurations, and what it tried and chose: a line of JSON for each kernel and key.

The lines are written beside the script, which may damage them: whoever reads the file checks its form
(simulator.scripts.tuning_file).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from triton.runtime.autotuner import Autotuner, Config

from . import benchmark, hip
from .benchmark import NS_IN_MS
from .sweep import Timing, bound_error, time_finalists
from .triton_driver import plain_value


def activate_autotuning() -> None:
    """Times configurations coarsely first, and writes what is tuned into the file that the environment names."""
    _time_sweeps()
    path = os.environ.get("HIPSYNTH_AUTOTUNINGS")
    if not path:
        return
    run = Autotuner.run

    def run_and_record(tuner: Autotuner, *args: object, **kwargs: object) -> object:
        keys_before = set(tuner.cache)
        arguments = dict(zip(tuner.arg_names, args, strict=False)) | kwargs
        try:
            return run(tuner, *args, **kwargs)
        finally:
            for key in tuner.cache.keys() - keys_before:
                if tuner.cache[key] in getattr(tuner, "configs_timings", ()):
                    _append_line(Path(path), _describe_tuning(tuner, arguments, tuner.cache[key]))

    Autotuner.run = run_and_record


def _time_sweeps() -> None:
    """Lets a tuner's first benchmark time all configurations that it will ask for."""
    prune_configs, bench = Autotuner.prune_configs, Autotuner._bench

    def prune_and_note(tuner: Autotuner, kwargs: Mapping[str, object]) -> list[Config]:
        configurations: list[Config] = prune_configs(tuner, kwargs)
        tuner.untimed, tuner.sweep_answers = list(configurations), {}
        return configurations

    def answer_bench(tuner: Autotuner, *args: object, config: Config, **meta: object) -> object:
        def measure(configuration: Config) -> object:
            return bench(tuner, *args, config=configuration, **meta)

        configurations = getattr(tuner, "untimed", ())
        if any(config is configuration for configuration in configurations):
            tuner.untimed = ()
            _compile_together(tuner, configurations, args, meta)
            timings = _time_configurations(configurations, measure)
            tuner.sweep_answers = {
                id(configuration): timing.answer for configuration, timing in zip(configurations, timings, strict=True)
            }
        answers = getattr(tuner, "sweep_answers", {})
        return answers.pop(id(config)) if id(config) in answers else measure(config)

    Autotuner.prune_configs, Autotuner._bench = prune_and_note, answer_bench


def _compile_together(
    tuner: Autotuner, configurations: Sequence[Config], args: Sequence[object], meta: Mapping[str, object]
) -> None:
    """Compiles configurations on all cores, for the launches that time them. What does not compile is for those to
    say."""

    def compile_configuration(configuration: Config) -> None:
        with contextlib.suppress(Exception):
            tuner.fn.run(*args, **{**meta, **configuration.all_kwargs(), "warmup": True})

    threads = min(len(os.sched_getaffinity(0)), len(configurations))
    if threads > 1 and not any(configuration.pre_hook for configuration in configurations):
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(compile_configuration, configurations))


def _time_configurations(configurations: Sequence[Config], measure: Callable[[Config], object]) -> list[Timing[object]]:
    device = hip.library()
    with benchmark.time_once():
        is_coarse = device.sample_coarsely(True)
        try:
            timings = [_time_configuration(configuration, measure) for configuration in configurations]
        finally:
            device.sample_coarsely(False)
        if is_coarse:
            timings = time_finalists(
                configurations, timings, lambda configuration: _time_configuration(configuration, measure)
            )
        return timings


def _time_configuration(configuration: Config, measure: Callable[[Config], object]) -> Timing[object]:
    answer = measure(configuration)
    time_ms = _median_ms(answer)
    return Timing(answer, time_ms, bound_error(time_ms, hip.library().read_uncertainty() / NS_IN_MS))


def _describe_tuning(tuner: Autotuner, arguments: Mapping[str, object], chosen: Config) -> dict[str, object]:
    key = {name: plain_value(arguments[name]) for name in tuner.keys if name in arguments}
    rows = [
        {"meta": describe_config(config), "time_ns": _shortest_time(times), "chosen": config is chosen}
        for config, times in tuner.configs_timings.items()
    ]
    values = chosen.all_kwargs()
    is_plain = chosen.pre_hook is None and all(type(value) in (bool, int, str) for value in values.values())
    return {
        "kernel": tuner.base_fn.__name__, "key": key, "configurations": rows,
        "plain": is_plain and not {"maxnreg", "ir_override"} & values.keys(),
    }  # fmt: skip


def describe_config(config: Config) -> dict[str, bool | int | str]:
    """The parameters that a triton.Config sets."""
    return {name: plain_value(value) for name, value in config.all_kwargs().items()}


def _median_ms(answer: Any) -> float:
    """The time in what a benchmark answered; infinite for a configuration that does not compile."""
    return float(answer[0] if isinstance(answer, Sequence) else answer)


def _shortest_time(times: Sequence[float] | float) -> float | None:
    """Nanoseconds; None of a configuration that does not compile."""
    time_ms = _median_ms(times)
    return time_ms * NS_IN_MS if math.isfinite(time_ms) else None


def _append_line(path: Path, row: Mapping[str, object]) -> None:
    with contextlib.suppress(OSError), path.open("a") as file:  # the script may have removed the folder
        file.write(json.dumps(row) + "\n")
