"""Tuning without a simulator: a program whose versions take times by their text, and are wrong if they say so."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from hipsynth.core.documents import document_json
from hipsynth.core.program import Program
from hipsynth.core.store.splits import splits_of
from hipsynth.tuning.agent.sft_data import MOVES_FILE, write_chats
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator, KernelTime
from hipsynth.tuning.optimize.move_order import OrderedMove
from hipsynth.tuning.optimize.move_paths import ValuationJob, value_program
from hipsynth.tuning.optimize.move_values import ValuedProgram
from hipsynth.tuning.optimize.verification.verify import Verification, Verifier
from hipsynth.tuning.trial import target_of

TEXT = """#include <hip/hip_runtime.h>
__global__ void scale(const float* in, float* out, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 2.0f * in[i];
}
int main() { scale<<<16, 256>>>(nullptr, nullptr, 0); }
"""
parsed = functools.cache(read_program)


def measure(_: Evaluator, text: str) -> CandidateMeasurement:
    """Restricted pointers help twofold, four work-items a lane by another half; "wrong" programs are the fastest."""
    ns = 100.0 / (2 if text.count("__restrict__") else 1) / (1.5 if "at_x < 4; " in text else 1)
    ns = 10.0 if "wrong" in text else ns
    kernel = KernelTime(
        "scale", ns, 1, "latency", "", (16, 1, 1), (256, 1, 1), True, {"VALU_Utilization": ns}, {"SQ_WAVES": ns}
    )
    return CandidateMeasurement("ok", "", "", 0, (kernel,), 1.0)


def full(
    _: Verifier, text: str, timed: tuple[CandidateMeasurement, CandidateMeasurement] | None = None
) -> Verification:
    return Verification((VerificationCheck("outputs_equal", "wrong" not in text, "a copy differs"),))


def predicted(text: str) -> float | None:
    """Previews expect what is measured, but know nothing of restricted pointers."""
    return None if "__restrict__" in text else 100.0 / (1.5 if "at_x < 4; " in text else 1)


def fake_program(number: int, split: str) -> Program:
    """TEXT with a comment, of a lineage that is in this split."""
    lineage = next(f"{number}-{n}" for n in range(10_000) if splits_of(["x"], [f"{number}-{n}"]) == [split])
    return Program(f"{TEXT}// {number}\n", "synthetic", "x", lineage=lineage)


def write_traces(folder: Path, splits: Sequence[str], arch: str = "gfx942") -> list[ValuedProgram]:
    """A folder as `synth traces` writes it, with a program of each of these splits. The paths are walked here: workers
    would not have the fakes."""
    jobs = [ValuationJob(fake_program(n, split), target_of(arch)) for n, split in enumerate(splits)]
    valued = [value_program(job) for job in jobs]
    folder.mkdir(parents=True)
    (folder / MOVES_FILE).write_text("".join(json.dumps(document_json(row)) + "\n" for row in valued))
    write_chats(folder)
    return valued


class UnlearnedOrder:
    """Leaves moves in their order, so that tests do not change when it is learned again."""

    def expect(self, moves: Sequence[OrderedMove]) -> list[float]:
        return [0.0] * len(moves)


def without_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Evaluator, "__call__", measure)
    for module in ("search", "move_order"):
        monkeypatch.setattr(f"hipsynth.tuning.optimize.{module}.shipped_order", UnlearnedOrder)
    monkeypatch.setattr(Verifier, "full", full)
    monkeypatch.setattr(Verifier, "quick", lambda self, text: full(self, text).checks[0])
    monkeypatch.setattr(Verifier, "try_size", lambda self, size, share=0.0: True)
    monkeypatch.setattr("hipsynth.tuning.tools.tool_session.read_program", parsed)
    for module in ("optimize", "move_paths"):
        monkeypatch.setattr(f"hipsynth.tuning.optimize.{module}.read_program", parsed)
    monkeypatch.setattr("hipsynth.tuning.optimize.optimize.duration_predictor", lambda *_: lambda text: None)
    for module in ("tools.tool_session", "optimize.move_paths"):
        monkeypatch.setattr(f"hipsynth.tuning.{module}.duration_predictor", lambda *_: predicted)
    monkeypatch.setattr("hipsynth.tuning.tools.functions.build_text", lambda *_: (None, 0))
    monkeypatch.setattr("hipsynth.tuning.optimize.optimize.time_checked_shapes", lambda *_: ())
    monkeypatch.setattr("hipsynth.tuning.optimize.optimize.time_drawn_shapes", lambda *_: ())
