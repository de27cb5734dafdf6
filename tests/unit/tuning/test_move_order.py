"""The learned order of moves: what it reads, what it learns, and that the shipped one orders a search."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hipsynth.core.documents import document_json
from hipsynth.core.errors import BadInput
from hipsynth.tuning.optimize.evaluate import KernelTime
from hipsynth.tuning.optimize.move_order import MoveOrder, OrderedMove, move_features, shipped_order, take_turns
from hipsynth.tuning.optimize.move_values import ValuedMove, ValuedProgram, ValuedState, read_jobs

KERNEL = KernelTime(
    "scale", 9000.0, 1, "latency", "VGPRs", (512, 1, 1), (64, 1, 1), True, {"IPC": 0.2}, {"SQ_WAVES": 512.0}
)
SPLIT = OrderedMove("split_loops", {}, {"split": 8}, KERNEL, 1.0, "gfx942")
HINTS = OrderedMove("hints", {}, {"restrict": True}, KERNEL, 1.0, "gfx942")


def test_features_are_those_of_the_move_and_its_kernel() -> None:
    features = move_features(SPLIT)
    assert features["transformation=split_loops"] == features["limit=latency"] == features["arch=gfx942"] == 1
    assert features["split"] == features["change of split"] > 0 == features["change of restrict"]
    again = move_features(replace(SPLIT, before={"split": 8}))
    assert again["split"] == features["split"] and again["change of split"] == 0
    shaped = move_features(replace(HINTS, plan={"shape": (16, 16, 1)}))
    assert shaped["change of shape y"] == 4 and shaped["change of shape x"] == -2


def test_it_learns_which_move_gains(tmp_path: Path) -> None:
    order = MoveOrder.fit([[(SPLIT, 4.0), (HINTS, 0.5)]] * 60)
    gain, loss = order.expect([SPLIT, HINTS])
    assert gain > 0.5 and loss < -0.3
    order.save(tmp_path / "order.json.gz")
    assert MoveOrder.load(tmp_path / "order.json.gz").expect([SPLIT, HINTS]) == [gain, loss]
    assert order.expect([]) == []
    [unknown] = order.expect([replace(HINTS, transformation="new")])
    assert unknown > gain


def test_turns_have_every_move_once() -> None:
    assert take_turns([3, 2, 1, 0], [0, 1, 2, 3]) == [3, 0, 2, 1]
    assert take_turns([], []) == []


@pytest.mark.parametrize("data", [b"", b"{}", b"\x1f\x8b"])
def test_a_damaged_order_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "order.json.gz").write_bytes(data)
    with pytest.raises(BadInput, match="not a usable model"):
        MoveOrder.load(tmp_path / "order.json.gz")


def test_the_shipped_order_expects_less_of_coarsening_where_the_grid_is_small() -> None:
    coarsened = OrderedMove("coarsen", {}, {"shape": (64, 1, 1), "coarsen": 8}, KERNEL, 1.0, "gfx942")
    small, large = (
        replace(coarsened, kernel=replace(KERNEL, grid=(groups, 1, 1), counters={"SQ_WAVES": float(groups)}))
        for groups in (64, 65536)
    )
    of_large, of_small = shipped_order().expect([large, small])
    assert of_small < of_large


def test_values_are_read_again_and_a_cut_line_is_left_out(tmp_path: Path) -> None:
    move = ValuedMove("hints", "scale", {}, {"restrict": True, "shape": (8, 8, 1)}, None)
    state = ValuedState("p", "l", "train", "gfx942", 0, (KERNEL,), (move,))
    valued = ValuedProgram("p gfx942", "synthetic", "text", (state,))
    line = json.dumps(document_json(valued))
    (tmp_path / "moves.jsonl").write_text(f"{line}\n{line[:50]}")
    assert list(read_jobs(tmp_path / "moves.jsonl")) == [valued]
    assert list(read_jobs(tmp_path / "none.jsonl")) == []
