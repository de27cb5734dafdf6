"""Reports which HIP calls of real programs the runtime library implements.

    python -m hipsynth.simulator.hip_calls

The list of unimplemented functions comes from the library itself (native/runtime/unsupported.cpp), so it is always
current.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.tables import read_table
from hipsynth.simulator.api import library_path

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class HipCallTable:
    """The content of hip_calls.toml. `calls`: name in programs -> how many use it; `spelled`: name in programs ->
    function that HIP's headers map it to."""

    programs: int
    spelled: Mapping[str, str]
    calls: Mapping[str, int]


@dataclass(frozen=True)
class HipCallCoverage:
    """`done`, `missing`: implemented and unimplemented calls -> number of programs that use them."""

    programs: int
    done: Mapping[str, int]
    missing: Mapping[str, int]

    @property
    def least(self) -> float:
        """Lower bound on the share of fully supported programs: every missing call is in a different program."""
        return max(0.0, 1 - sum(self.missing.values()) / self.programs)

    @property
    def most(self) -> float:
        """Upper bound on that share: all missing calls are in the same programs."""
        return 1 - max(self.missing.values(), default=0) / self.programs


def measure_coverage() -> HipCallCoverage:
    """Compares hip_calls.toml with the library. Raises MissingDependency if the library is not built."""
    table = read_table(TABLE, HipCallTable)
    library = ctypes.CDLL(str(library_path()))
    library.hipsynthUnsupportedCalls.restype = ctypes.c_char_p
    declared = set(library.hipsynthUnsupportedCalls().decode().split())
    counts: dict[str, int] = {}
    missing: dict[str, int] = {}
    for call, count in table.calls.items():
        function = table.spelled.get(call, call)
        works = hasattr(library, function) and function not in declared
        (counts if works else missing)[call] = count
    return HipCallCoverage(table.programs, counts, missing)


def main() -> None:
    """Prints one line per call, then the bounds on the share of fully supported programs."""
    coverage = measure_coverage()
    calls = {**coverage.done, **coverage.missing}
    for call in sorted(calls, key=lambda name: (-calls[name], name)):
        print(f"{calls[call]:5}  {'yes' if call in coverage.done else 'no ':3}  {call}")
    print(f"{len(coverage.done)} of {len(calls)} calls are implemented.")
    print(f"{coverage.least:.1%} to {coverage.most:.1%} of {coverage.programs} programs use only implemented calls.")


if __name__ == "__main__":
    main()
