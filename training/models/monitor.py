"""Progress reports of a training run: a progress line, logs (JSON lines, TensorBoard), throughput."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.core.json_lines import append_json_line, read_json_lines, write_json_lines

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
    append_json_line(path, row)
    if board is None:
        return
    for name, value in row.items():
        if name != "step" and isinstance(value, int | float):
            board.add_scalar(name, value, int(row["step"]))


class TrainingLog:
    """What a training run writes down: each log to LOG and TensorBoard's files, and steps, the latest loss and the time
    left to `progress`."""

    def __init__(self, out: Path, progress: Progress | None, throughput: Throughput) -> None:
        self.out, self.progress, self.throughput = out, progress, throughput
        self.begun, self.first_step, self.loss = 0.0, 0, ""
        self.board: SummaryWriter | None = None

    def begin(self, step: int, *, writes: bool) -> None:
        """Starts at `step`, beyond the first if a run goes on: later lines of LOG are dropped. `writes`: this process
        writes the files."""
        self.begun, self.first_step = time.monotonic(), step
        if writes:
            self.out.mkdir(parents=True, exist_ok=True)
            keep_lines(self.out / LOG, step)
            self.board = _open_tensorboard(self.out / BOARD)

    def add_row(self, step: int, logs: Mapping[str, float]) -> None:
        """Writes what the trainer logs at a step."""
        row = {"step": step, **logs, "tokens_per_second": round(self.throughput.tokens_per_second, 1)}
        _write_log(row, self.out / LOG, self.board)
        if "loss" in logs:
            self.loss = f"loss {float(logs['loss']):.3f}"

    def report_step(self, step: int, steps: int) -> None:
        """Tells `progress` that `step` of `steps` is done."""
        if self.progress is not None:
            self.progress(step, steps, self.loss + self._time_left(step, steps))

    def end(self) -> None:
        """Closes TensorBoard's files."""
        if self.board is not None:
            self.board.close()

    def _time_left(self, step: int, steps: int) -> str:
        left = (time.monotonic() - self.begun) / max(1, step - self.first_step) * (steps - step)
        return f"  {left / 60:.0f} min left" if left >= 60 else f"  {left:.0f} s left"


def training_monitor(log: TrainingLog) -> TrainerCallback:
    """A Trainer callback that keeps `log`."""
    from transformers import TrainerCallback

    class Monitor(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_train_begin(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            log.begin(state.global_step, writes=state.is_world_process_zero)

        def on_log(
            self,
            args: TrainingArguments,
            state: TrainerState,
            control: TrainerControl,
            logs: dict[str, float] | None = None,
            **_: object,
        ) -> None:
            if logs and state.is_world_process_zero:
                log.add_row(state.global_step, logs)

        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            if state.is_world_process_zero:
                log.report_step(state.global_step, state.max_steps)

        def on_train_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            log.end()

    return Monitor()


def keep_lines(path: Path, step: int) -> None:
    """Drops the log's lines after `step`, from which a run goes on, and a line that a kill cut short."""
    rows = read_json_lines(path, lambda row: (float(row["step"]), row), "step of a log", "delete it", missing_ok=True)
    write_json_lines(path, [row for logged, row in rows if logged <= step])


def _open_tensorboard(folder: Path) -> SummaryWriter | None:
    if importlib.util.find_spec("tensorboard") is None:  # part of the extra `train`, but training works without it
        return None
    from torch.utils.tensorboard import SummaryWriter

    return SummaryWriter(str(folder))
