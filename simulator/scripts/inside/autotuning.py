"""What `triton.autotune` tried, and what it chose: a line of JSON for each kernel and key, for simulator.scripts.

Written beside the script, which may damage it: whoever reads the file checks its form (simulator.scripts.tuning_file).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from triton.runtime.autotuner import Autotuner, Config

from .triton_driver import plain_value

NS_IN_MS = 1e6


def activate_autotuning() -> None:
    """Writes what is tuned into the file that the environment names."""
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


def _shortest_time(times: Sequence[float] | float) -> float | None:
    """Nanoseconds; None of a configuration that does not compile."""
    first = float(times[0] if isinstance(times, Sequence) else times)
    return first * NS_IN_MS if math.isfinite(first) else None


def _append_line(path: Path, row: Mapping[str, object]) -> None:
    with contextlib.suppress(OSError), path.open("a") as file:  # the script may have removed the folder
        file.write(json.dumps(row) + "\n")
