"""How far the kernels of a folder's programs are from what their bytes and arithmetic need: what a search could gain at
most that changes neither.

    python -m studies.headroom CHECKOUT [--arch A] [--only NAME ...]

Prints a row for each program: its time, and the time if each launch took no longer than an empty one and the larger of
what the memory needs for its bytes and the vector units for its instructions.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import hipsynth
from hipsynth.core.errors import HipsynthError
from hipsynth.core.kernel_record import KernelRecord
from studies.found_programs import find_programs
from studies.markdown import format_table

NEEDED = ("hbm", "valu", "mfma")  # units whose work a program that does the same in another way has, too


@dataclass(frozen=True)
class ProgramHeadroom:
    """A program's time in ns, and the least for its bytes and arithmetic."""

    program: str
    time_ns: float
    least_ns: float

    @property
    def ratio(self) -> float:
        return self.time_ns / self.least_ns


def find_least_ns(kernel: KernelRecord) -> float:
    """The time of one launch that nothing but its bytes and arithmetic, and the launch itself, would take."""
    if kernel.limits is None:
        return kernel.duration_ns
    bounds = kernel.limits.bounds
    return min(kernel.duration_ns, bounds["launch"] + max(bounds[name] for name in NEEDED))


def list_headroom(root: Path, arch: str, only: list[str]) -> Iterator[ProgramHeadroom]:
    for name, program in sorted(find_programs(root).programs.items()):
        if only and not any(word in name for word in only):
            continue
        try:
            (result,) = hipsynth.profile(program.path, arch=arch).measured
        except (HipsynthError, ValueError) as error:
            print(f"{name}: {error}".splitlines()[0], file=sys.stderr)
            continue
        kernels = result.kernels
        time_ns = sum(kernel.duration_ns * kernel.dispatches for kernel in kernels)
        yield ProgramHeadroom(name, time_ns, sum(find_least_ns(kernel) * kernel.dispatches for kernel in kernels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME")
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # what is assumed of launches
    rows = list(list_headroom(options.checkout, options.arch, options.only))
    print(
        format_table(
            ("program", "time, us", "least, us", "ratio"),
            [(f"`{r.program}`", f"{r.time_ns / 1e3:.1f}", f"{r.least_ns / 1e3:.1f}", f"{r.ratio:.2f}") for r in rows],
        )
    )
    mean = statistics.geometric_mean(row.ratio for row in rows) if rows else 1.0
    print(f"\n{len(rows)} programs, in geometric mean {mean:.2f}")


if __name__ == "__main__":
    main()
