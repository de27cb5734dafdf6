"""What Ctrl-C does to a training: a checkpoint is written first."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import TYPE_CHECKING

from hipsynth.core import stop_signal

if TYPE_CHECKING:
    from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

SIGNALS = (signal.SIGINT, signal.SIGTERM)
NOTICE = b"\nstopping: a checkpoint is written after this step; once more stops at once\n"


@contextlib.contextmanager
def checkpoint_at_signals(trainer: Trainer) -> Iterator[None]:
    """While the block trains, the first SIGINT or SIGTERM lets the trainer finish its step, write a checkpoint and end;
    then KeyboardInterrupt is raised. The second one raises it at once. Does nothing outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        stop_signal.remember_signal(number)
        received.append(number)
        if len(received) > 1:
            raise KeyboardInterrupt
        os.write(2, NOTICE)

    trainer.add_callback(_stop_when_received(received))
    before = {number: signal.signal(number, stop) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if received:
        raise KeyboardInterrupt


def _stop_when_received(received: list[int]) -> TrainerCallback:
    from transformers import TrainerCallback

    class StopWithCheckpoint(TrainerCallback):  # type: ignore[misc, unused-ignore]
        def on_step_end(
            self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **_: object
        ) -> None:
            if received:
                control.should_save = control.should_training_stop = True

    return StopWithCheckpoint()
