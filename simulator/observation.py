"""What a run observes and changes besides counters, so that two programs can be compared (native/runtime/trial.h)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

RECORD_FILE = "hipsynth-outputs.bin"  # in the program's folder
MOST_OUTPUTS = 4098  # the runtime library keeps 4096, one digest of what came after them, and one of what it watched
MOST_RECORDED = 256 << 20  # bytes


@dataclass(frozen=True)
class Observation:
    """`outputs`: digest every copy to the host, and every allocation when it is freed or the program ends.

    `record_bytes`: also keep up to so many of these bytes. `redraw`: not 0, a seed by which the inputs of kernels are
    drawn again: floating-point numbers are scaled by 0.75 to 1.25 each; with `redraw_integers`, other data is permuted
    unless it is non-decreasing. `poison`: not 0, the 32-bit word that fills new allocations. `watch`: also report how
    often the host had written device memory directly.
    """

    outputs: bool = True
    record_bytes: int = 0
    redraw: int = 0
    redraw_integers: bool = False
    poison: int = 0
    watch: bool = False

    def entries(self, folder: Path) -> list[tuple[str, object]]:
        """The entries of a run's configuration, for a program that runs in `folder`."""
        return [
            ("outputs", int(self.outputs)),
            ("record_bytes", min(self.record_bytes, MOST_RECORDED)),
            ("record_path", folder.resolve() / RECORD_FILE),
            ("redraw", self.redraw),
            ("redraw_integers", int(self.redraw_integers)),
            ("poison", self.poison),
        ] + ([("watch", 1)] if self.watch else [])


@dataclass(frozen=True)
class Output:
    """Bytes that a run left behind. `kind`: "copy" to the host, "buffer" at its end, or the "rest" of very many;
    "host_writes" has no contents, and its number in `bytes`.

    `index` counts copies, and buffers in the order of their allocation; `recorded` of the bytes were kept.
    """

    kind: str
    index: int
    bytes: int
    recorded: int
    digest: str
