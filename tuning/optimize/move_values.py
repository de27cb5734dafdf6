"""What moves are worth: the states of a program along its best moves, each with its moves as previews of a few
work-groups value them, and with executions of some. The order of moves and models with tools learn from them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.json_lines import read_documents
from hipsynth.core.reasons import Reason
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import KernelTime, kernel_of, sum_durations
from hipsynth.tuning.optimize.move_order import OrderedMove
from hipsynth.tuning.optimize.transformation_plan import PlanValue

LIKELY_GAIN = 1.02  # previewed, from which a move is executed
LEAST_SPEEDUP = 1.01  # executed, from which a move leads to the next state
PREVIEWED = 12  # moves of a state that models are shown a preview of, as `propose` does
MOST_DIFF = 4000  # characters


@dataclass(frozen=True)
class ValuedMove:
    """A move from `before` to `plan`, by the decisions that differ from the original, and its speed-up of the whole
    program, None where it has no preview. `why`: the counter that should move."""

    transformation: str
    kernel: str
    before: Mapping[str, PlanValue]
    plan: Mapping[str, PlanValue]
    gain: float | None
    why: str = ""


@dataclass(frozen=True)
class ExecutedMove:
    """The measured run of a state's move, by its number among the state's moves. `kernels`: () where the changed
    program did not run; `diff`: of the text, cut to MOST_DIFF characters."""

    move: int
    kernels: tuple[KernelTime, ...]
    diff: str

    @property
    def duration_ns(self) -> float:
        return sum_durations(self.kernels)


@dataclass(frozen=True)
class ValuedState:
    """A state of a program with the measured run of its kernels and all its moves, in the order of a search. `split`:
    that of its lineage; `depth`: moves made before. `executed`: in the order of the executions. `checks`: of the
    program that a path ends with, in its last state."""

    program: str
    lineage: str
    split: str
    arch: str
    depth: int
    kernels: tuple[KernelTime, ...]
    moves: tuple[ValuedMove, ...]
    executed: tuple[ExecutedMove, ...] = ()
    checks: tuple[VerificationCheck, ...] = ()

    @property
    def duration_ns(self) -> float:
        return sum_durations(self.kernels)

    @property
    def next_move(self) -> ExecutedMove | None:
        """The first executed move that gained: it leads to the next state."""
        return next((row for row in self.executed if is_faster(self.duration_ns, row.duration_ns)), None)

    def ordered_moves(self) -> list[OrderedMove]:
        """What the learned order is asked about the moves."""
        return [self._ordered_move(move) for move in self.moves]

    def _ordered_move(self, move: ValuedMove) -> OrderedMove:
        kernel = kernel_of(self.kernels, move.kernel)
        assert kernel is not None
        share = kernel.duration_ns / self.duration_ns
        return OrderedMove(move.transformation, move.before, move.plan, kernel, share, self.arch)


@dataclass(frozen=True)
class ValuedProgram:
    """A program on a target with the states of its path; `origin` and `text` are the program's. `reason`: what ended
    the path early; `made_with`: versions of the tools that valued it."""

    job: str
    origin: str
    text: str
    states: tuple[ValuedState, ...]
    reason: Reason = Reason.NONE
    made_with: str = ""


def is_faster(before_ns: float, after_ns: float) -> bool:
    """Whether a measured run is so much faster that a path goes on from it; 0 is of a program that did not run."""
    return 0 < after_ns * LEAST_SPEEDUP <= before_ns


def diff_texts(before: str, after: str, names: tuple[str, str] = ("before", "after")) -> str:
    """The change as a unified diff of at most MOST_DIFF characters."""
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), *names, "", "", 1)
    text = "\n".join(line.rstrip() for line in lines)
    return text if len(text) <= MOST_DIFF else text[:MOST_DIFF] + "\n[cut]"


def read_jobs(path: Path) -> Iterator[ValuedProgram]:
    """The programs of a file, one a line, of each job the last; a missing file has none. Raises BadInput for a damaged
    line."""
    rows = read_documents(path, ValuedProgram, "delete the line: its program is valued again", missing_ok=True)
    yield from {row.job: row for row in rows}.values()
