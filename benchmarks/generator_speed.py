"""How many programs a second the generator makes.

    python benchmarks/generator_speed.py [--count N] [--repeats N] [--seed S]

Prints programs per second for one worker and for one per core, with one size each and with four, and milliseconds per
program by family.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import time

from hipsynth.synth.generate.headers import load_templates
from hipsynth.synth.generate.producer import draw_program, generate_programs
from hipsynth.synth.generate.types import IRError


def measure_rate(count: int, workers: int, seed: int, runs: int) -> float:
    """Programs of up to `runs` sizes per second over `count` programs, including the start of the workers."""
    begin = time.perf_counter()
    total = sum(1 for _ in generate_programs(count, seed, workers=workers, runs=runs))
    return total / (time.perf_counter() - begin)


def time_families(repeats: int, seed: int) -> dict[str, float]:
    """Mean milliseconds per program, by family, over `repeats` programs."""
    result = {}
    for family in load_templates():
        begin = time.perf_counter()
        for index in range(repeats):
            with contextlib.suppress(IRError):  # more memory than a program may have
                draw_program(seed, index, 0, family)
        result[family] = round(1000 * (time.perf_counter() - begin) / repeats, 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--repeats", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw_program(0, 0)  # load templates and policy before timing
    for workers, runs in itertools.product(sorted({1, os.cpu_count() or 1}), (1, 4)):
        speed = measure_rate(options.count, workers, options.seed, runs)
        print(f"{workers} worker{'s' * (workers > 1):1}, {runs} size{'s' * (runs > 1):1}  {speed:8.1f} programs/s")
    for family, milliseconds in time_families(options.repeats, options.seed).items():
        print(f"{family:14} {milliseconds:8.2f} ms per program")


if __name__ == "__main__":
    main()
