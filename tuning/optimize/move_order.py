"""The learned order of moves: what each is worth, by gradient boosting on the transformation, the plans before and
after it, and the measured run of its kernel. It needs no preview, and answers in microseconds."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from hipsynth.training.analytic.trees import Trees, load_model, save_model
from hipsynth.tuning.optimize.candidates import SearchState
from hipsynth.tuning.optimize.evaluate import KernelTime
from hipsynth.tuning.optimize.transformation_plan import Move, PlanValue, Shape, TransformationPlan

SHIPPED = Path(__file__).with_name("move_order.json.gz")
VERSION = 1
ROUNDS = 300
SETTINGS = {
    "objective": "regression",
    "num_leaves": 7,
    "learning_rate": 0.05,
    "min_data_in_leaf": 10,
    "num_threads": 1,
    "deterministic": True,
    "seed": 1,
    "verbose": -1,
}
LARGEST = math.log(20)  # of a gain that is learned from
METRICS = ("L1_Cache_Hit_Rate", "L2_Cache_Hit_Rate", "HBM_Arithmetic_Intensity", "IPC", "VALU_Active_Threads")
PER_WAVE = ("SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_INSTS_SMEM", "SQ_INSTS_VMEM_RD", "SQ_INSTS_VMEM_WR", "SQ_INSTS_LDS",
            "SQ_INSTS_BRANCH", "SQ_INSTS_MFMA", "TCP_TOTAL_CACHE_ACCESSES", "TCC_REQ", "TCC_MISS", "TCC_ATOMIC",
            "SQ_LDS_BANK_CONFLICT")  # fmt: skip
Floats = npt.NDArray[np.float64]
Features = dict[str, float]


@dataclass(frozen=True)
class OrderedMove:
    """What the order is asked about: a move of a kernel by its plans, the run of the kernel before it, the kernel's
    share of the program's time, and the architecture."""

    transformation: str
    before: Mapping[str, PlanValue]
    plan: Mapping[str, PlanValue]
    kernel: KernelTime
    share: float
    arch: str


def describe_move(move: Move, state: SearchState, arch: str) -> OrderedMove:
    """A move of a state, whose run has its kernel."""
    kernel = state.found.of(move.kernel)
    assert kernel is not None
    before = state.plans.get(move.kernel, TransformationPlan()).decisions()
    share = kernel.duration_ns / max(1e-9, state.found.duration_ns)
    return OrderedMove(move.transformation, before, move.plan.decisions(), kernel, share, arch)


def move_features(move: OrderedMove) -> Features:
    """The features by name; what a move does not have is 0."""
    kernel = move.kernel
    waves = max(1.0, kernel.counters.get("SQ_WAVES", 1.0))
    features: Features = {
        f"transformation={move.transformation}": 1.0,
        f"limit={kernel.bottleneck}": 1.0,
        f"occupancy={kernel.limited_by}": 1.0,
        f"arch={move.arch}": 1.0,
        "share": move.share,
        "duration": _log2(kernel.duration_ns / max(1, kernel.dispatches)),
        "groups": _log2(math.prod(kernel.grid)),
        "lanes": _log2(math.prod(kernel.block)),
    }
    features |= {f"block {axis}": _log2(size) for axis, size in zip("xyz", kernel.block, strict=True)}
    features |= {name: kernel.metrics.get(name) or 0.0 for name in METRICS}
    features |= {f"{name} per wave": _log2(1 + kernel.counters.get(name, 0.0) / waves) for name in PER_WAVE}
    now, then = (dict(_plan_features(plan, kernel.block)) for plan in (move.before, move.plan))
    return features | then | {f"change of {name}": then[name] - now[name] for name in then}


def _plan_features(plan: Mapping[str, PlanValue], block: Shape) -> Iterator[tuple[str, float]]:
    """Each decision as a number; counts as logarithms."""
    for name, plain in vars(TransformationPlan()).items():
        value = plan.get(name, plain)
        if name == "shape":
            shape = value if isinstance(value, tuple | list) else block
            yield from ((f"shape {axis}", _log2(size)) for axis, size in zip("xyz", shape, strict=True))
        elif isinstance(value, int):
            yield name, float(value) if isinstance(plain, bool) or name in ("lanes", "axis") else _log2(1 + value)


def _log2(value: float) -> float:
    return math.log2(max(value, 1e-9))


@dataclass
class MoveOrder:
    """Expects the natural logarithm of a move's speed-up of the whole program."""

    columns: tuple[str, ...]
    trees: Trees

    @classmethod
    def fit(cls, states: Sequence[Sequence[tuple[OrderedMove, float]]]) -> MoveOrder:
        """Fits to the moves of states, each with its speed-up; all states weigh the same. Needs lightgbm."""
        import lightgbm

        rows = [move_features(move) for state in states for move, _ in state]
        gains = [gain for state in states for _, gain in state]
        weights = [1 / len(state) for state in states for _ in state]
        columns = tuple(sorted({name for row in rows for name in row}))
        targets = np.clip(np.log(np.maximum(gains, 1e-3)), -LARGEST, LARGEST)
        data = lightgbm.Dataset(_make_table(rows, columns), targets, weight=weights, free_raw_data=False)
        return cls(columns, Trees(lightgbm.train(SETTINGS, data, num_boost_round=ROUNDS).model_to_string()))

    def expect(self, moves: Sequence[OrderedMove]) -> list[float]:
        """The expected logarithm of each move's speed-up; that of a transformation which it has not learned about is
        the largest, so that it is tried."""
        if not moves:
            return []
        expected = self.trees.predict(_make_table(map(move_features, moves), self.columns))
        return [
            float(value) if f"transformation={move.transformation}" in self.columns else LARGEST
            for move, value in zip(moves, expected, strict=True)
        ]

    def save(self, path: Path) -> None:
        """Writes the model, with equal bytes for an equal model."""
        save_model(path, VERSION, {"columns": self.columns, "trees": self.trees.text})

    @classmethod
    def load(cls, path: Path = SHIPPED) -> MoveOrder:
        """Raises BadInput for a file that is damaged or of another version."""
        return load_model(path, VERSION, lambda document: cls(tuple(document["columns"]), Trees(document["trees"])))


def take_turns(learned: Sequence[int], given: Sequence[int]) -> list[int]:
    """Two orders of the same numbers as one, by turns: alone, a learned order tries much that is alike."""
    return list(dict.fromkeys(number for pair in zip(learned, given, strict=True) for number in pair))


def order_moves(moves: Sequence[OrderedMove]) -> list[int]:
    """The numbers of moves in the order in which they are worth a preview: by turns what is learned, and as given."""
    expected, numbers = shipped_order().expect(moves), range(len(moves))
    return take_turns(sorted(numbers, key=lambda number: -expected[number]), numbers)


@functools.cache
def shipped_order() -> MoveOrder:
    """The order that is part of the package."""
    return MoveOrder.load()


def _make_table(rows: Iterator[Features] | Sequence[Features], columns: Sequence[str]) -> Floats:
    return np.array([[row.get(name, 0.0) for name in columns] for row in rows], dtype=np.float64)
