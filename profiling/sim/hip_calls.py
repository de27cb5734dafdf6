"""Which of the HIP calls that real programs make the runtime library carries out.

    python -m hipsynth.profiling.sim.hip_calls

The library itself says what it only declares (native/runtime/unsupported.cpp), so the answer cannot be out of date.
"""

from __future__ import annotations

import ctypes
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.profiling.sim.api import library_path

TABLE = Path(__file__).with_suffix(".toml")


@dataclass(frozen=True)
class Coverage:
    """`done` and `missing`: calls and the number of programs that name them."""

    programs: int
    done: Mapping[str, int]
    missing: Mapping[str, int]

    @property
    def least(self) -> float:
        """Share of programs all of whose calls are carried out, if no two missing calls were of one program."""
        return max(0.0, 1 - sum(self.missing.values()) / self.programs)

    @property
    def most(self) -> float:
        """The same if all missing calls were of the same programs."""
        return 1 - max(self.missing.values(), default=0) / self.programs


def coverage() -> Coverage:
    """Compares the table of calls with the library. Raises Missing when the library is not built."""
    table = tomllib.loads(TABLE.read_text())
    library = ctypes.CDLL(str(library_path()))
    library.hipsynthUnsupportedCalls.restype = ctypes.c_char_p
    declared = set(library.hipsynthUnsupportedCalls().decode().split())
    done: dict[str, int] = {}
    missing: dict[str, int] = {}
    for call, count in table["calls"].items():
        function = table["spelled"].get(call, call)
        works = hasattr(library, function) and function not in declared
        (done if works else missing)[call] = count
    return Coverage(table["programs"], done, missing)


def main() -> None:
    """Prints one line per call, then the share of programs."""
    found = coverage()
    calls = {**found.done, **found.missing}
    for call in sorted(calls, key=lambda name: (-calls[name], name)):
        print(f"{calls[call]:5}  {'yes' if call in found.done else 'no ':3}  {call}")
    print(f"{len(found.done)} of {len(calls)} calls are carried out.")
    print(f"Of {found.programs} programs {found.least:.1%} to {found.most:.1%} make no other calls.")


if __name__ == "__main__":
    main()
