"""Progress reports of a training run: a progress line, logs (JSON lines, TensorBoard), throughput."""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch.utils.tensorboard import SummaryWriter
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

LOG = "log.jsonl"  # in the model folder; one JSON object per logged step: step, loss, learning rate, tokens per second
BOARD = "tensorboard"  # folder of TensorBoard's event files
FLOPS_PER_TOKEN = 6  # times parameters: forward and backward pass of a dense transformer (arXiv 2001.08361)
PEAK_SIZE, PEAK_RUNS = 1024, 4

Progress = Callable[[int, int, str], None]  # (steps done, total steps, note)


class Throughput:
    """Counts the tokens that the collator hands out, padding left out, and the time since the first batch."""

    def __init__(self) -> None:
        self.tokens, self.start = 0, 0.0

    def count(self, tokens: int) -> None:
        if not self.tokens:
            self.start = time.monotonic()
        self.tokens += tokens

    @property
    def tokens_per_second(self) -> float:
        seconds = time.monotonic() - self.start
        return self.tokens / seconds if self.tokens and seconds > 0 else 0.0


def peak_flops(dtype: torch.dtype) -> float:
    """Floating-point operations per second of a large matrix product on this machine: the upper bound for training."""
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    a = torch.ones((PEAK_SIZE, PEAK_SIZE), dtype=dtype, device=device)
    best = 0.0
    for _ in range(PEAK_RUNS):
        start = time.monotonic()
        (a @ a)[0, 0].item()  # waits for the result
        best = max(best, 2 * PEAK_SIZE**3 / (time.monotonic() - start))
    return best


def _write_log(row: Mapping[str, float], path: Path, board: SummaryWriter | None) -> None:
    """Appends a line to the log at `path`, and its numbers to TensorBoard's files."""
    with path.open("a") as file:
        file.write(json.dumps(row) + "\n")
    if board is None:
        return
    for name, value in row.items():
        if name != "step" and isinstance(value, int | float):
            board.add_scalar(name, value, int(row["step"]))


def training_monitor(out: Path, progress: Progress | None, throughput: Throughput) -> TrainerCallback:
    """A Trainer callback: appends each log to LOG, and to TensorBoard's files if that package is installed, and reports
    steps, the latest loss and the time left to `progress`."""
    from transformers import TrainerCallback

    class Monitor(TrainerCallback):  # type: ignore[misc, unused-ignore]
        note, begun, first = "", 0.0, 0
        board: SummaryWriter | None = None

        def on_train_begin(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            self.begun, self.first = time.monotonic(), state.global_step
            if state.is_world_process_zero:
                out.mkdir(parents=True, exist_ok=True)
                keep_lines(out / LOG, state.global_step)
                self.board = _open_tensorboard(out / BOARD)

        def on_log(
            self,
            args: TrainingArguments,
            state: TrainerState,
            control: TrainerControl,
            logs: dict[str, float] | None = None,
            **_: object,
        ) -> None:
            if not logs or not state.is_world_process_zero:
                return
            row = {"step": state.global_step, **logs, "tokens_per_second": round(throughput.tokens_per_second, 1)}
            _write_log(row, out / LOG, self.board)
            if "loss" in logs:
                self.note = f"loss {float(logs['loss']):.3f}"

        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            if state.is_world_process_zero and progress is not None:
                progress(state.global_step, state.max_steps, self.note + self._left(state))

        def on_train_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            if self.board is not None:
                self.board.close()

        def _left(self, state: TrainerState) -> str:
            steps = state.global_step - self.first
            left = (time.monotonic() - self.begun) / max(1, steps) * (state.max_steps - state.global_step)
            return f"  {left / 60:.0f} min left" if left >= 60 else f"  {left:.0f} s left"

    return Monitor()


def keep_lines(path: Path, step: int) -> None:
    """Drops the log's lines after `step`, from which a run goes on, and a line that a kill cut short."""
    if not path.exists():
        return
    kept_lines = []
    for line in path.read_text().splitlines():
        try:
            if json.loads(line)["step"] <= step:
                kept_lines.append(line + "\n")
        except (ValueError, KeyError, TypeError):
            continue
    path.write_text("".join(kept_lines))


def _open_tensorboard(folder: Path) -> SummaryWriter | None:
    if importlib.util.find_spec("tensorboard") is None:  # part of the extra `train`, but training works without it
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
