"""The last moves of a search: work-groups in another order, so that those that share data run on one chiplet. The
mappings, their proofs and the edits are those of `synth swizzle`."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator import devices
from hipsynth.source.names import base_name
from hipsynth.tuning.optimize.analysis.analysis_faults import TEXT_ERRORS
from hipsynth.tuning.optimize.candidates import SearchState
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, KernelTime, original_name
from hipsynth.tuning.optimize.source_changes.source_change import LEAST_CHANGED_SHARE
from hipsynth.tuning.optimize.transformation_plan import Move, Shape, TransformationPlan
from hipsynth.tuning.swizzle import edits
from hipsynth.tuning.swizzle.mapping import GroupMapping, Spread, Tile
from hipsynth.tuning.swizzle.proof import prove_bijection

HIT_RATE = "L2_Cache_Hit_Rate"
LIMITS = frozenset({"l2", "hbm", "infinity", "fabric", "latency", "vl1d"})  # that hits in the L2 may move
MOST_TRIES = 4
LEAST_POINTS = 1.0  # of the hit rate, in percent: with less, the order of groups decides nothing
TRANSFORMATION = "swizzle"
# What groups that wait for each other use: in another order they might never end.
_WAITS = re.compile(
    r"\b(?:volatile|__threadfence\w*|atomic(?:CAS|Exch)\w*|__hip_atomic\w*|__atomic\w*|cooperative\w*)\b"
)


@functools.cache
def count_chiplets(device: str) -> int:
    """XCDs of the device, to which work-groups are dealt in turns."""
    return int(devices.load_device(device).spec()["topology.xcds"])


def worthwhile_kernels(timed: CandidateMeasurement) -> list[KernelTime]:
    """The kernels whose order of groups may decide something, the slowest first."""
    slow = (
        k for k in timed.kernels if k.duration_ns >= LEAST_CHANGED_SHARE * timed.duration_ns and k.bottleneck in LIMITS
    )
    return sorted((k for k in slow if k.same_shape), key=lambda kernel: -kernel.duration_ns)


def count_tries(text: str, timed: CandidateMeasurement, target: Target) -> int:
    """How many runs the moves of a program may take."""
    possible = count_chiplets(target.device) > 1 and not _WAITS.search(text)
    return min(MOST_TRIES, 2 * len(worthwhile_kernels(timed))) if possible else 0


def list_mappings(grid: Shape, chiplets: int) -> list[GroupMapping]:
    """The mappings to try on a grid, in this order: neighbours on one chiplet, then also in tiles."""
    spread = Spread(chiplets)
    rows, columns = grid[1] * grid[2], grid[0]
    mappings = [GroupMapping((spread,))]
    if rows >= 4 and columns >= 4:
        mappings += [GroupMapping((spread, Tile(4, 1, inner="columns"))), GroupMapping((Tile(8, 8),))]
    else:
        mappings += [GroupMapping((Spread(chiplets, 8),))]
    enough = rows * columns >= 2 * chiplets
    return [mapping for mapping in mappings if enough and prove_bijection(mapping, grid).kind == "symbolic"]


@dataclass
class GroupOrders:
    """The moves of one search. Tell it with `note` how each went, before the next is asked for."""

    target: Target
    tries: int
    _useless: set[str] = field(default_factory=set)  # kernels whose hits do not depend on the order

    def list_moves(self, state: SearchState) -> Iterator[tuple[Move, str]]:
        """The moves from a state, each with the program after it."""
        try:
            source = edits.read_source(state.text, self.target.arch, self.target.flags)
        except TEXT_ERRORS:
            return
        for kernel in worthwhile_kernels(state.found):
            name = base_name(kernel.name)
            if edits.refusal(source, name):
                continue
            for mapping in list_mappings(kernel.grid, count_chiplets(self.target.device)):
                if kernel.name in self._useless or self.tries <= 0:
                    break
                self.tries -= 1
                why = f"groups that share lines run on one chiplet ({mapping.label}); should change {HIT_RATE}"
                move = Move(TRANSFORMATION, original_name(kernel.name), TransformationPlan(), why)
                try:
                    yield move, edits.patched(source, {name: mapping.source(edits.call_of(name))})
                except TEXT_ERRORS:
                    break

    def note(self, move: Move, before: CandidateMeasurement, after: CandidateMeasurement) -> None:
        """Kernels whose hit rate stays as it was need no other order."""
        kernels = before.of(move.kernel), after.of(move.kernel)
        rates = [kernel.metrics.get(HIT_RATE) for kernel in kernels if kernel is not None]
        if len(rates) == 2 and abs((rates[0] or 0.0) - (rates[1] or 0.0)) < LEAST_POINTS:
            assert kernels[0] is not None
            self._useless.add(kernels[0].name)
