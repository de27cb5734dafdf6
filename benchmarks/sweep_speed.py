"""How many variants per second `synth predict --sweep` answers, beside one question at a time.

    python benchmarks/sweep_speed.py [--json]

Each program of the handwritten corpus is asked for many values of its first argument on one architecture, in one
process and on one core, compiled code warm. `alone`: the same sizes, a few of them, asked one by one. `interpreted`:
sizes that were not interpolated. `error`: the largest difference of a duration from that of the single answer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from hipsynth.training.analytic.batch import Variant, predict_variants
from hipsynth.training.analytic.predict import AnalyticPredictor, LaunchAssumptions

CORPUS = Path(__file__).resolve().parents[1] / "corpus" / "handwritten"
ARCH, FLAGS, DEVICE = "gfx942", "-O3", "mi300x"
ALONE = 12
PROGRAMS = {  # program -> first size, step, and how many sizes
    "black_scholes/black_scholes_structs": (1 << 16, 256, 3000),
    "per_thread/fma_chain": (1 << 16, 256, 3000),
    "softmax/softmax_row_per_group": (1024, 1, 300),
    "gemm/gemm_naive": (64, 1, 100),
}


def measure_program(name: str, first: int, step: int, sizes: int) -> dict[str, Any]:
    text, predictor = (CORPUS / f"{name}.hip").read_text(), AnalyticPredictor.load()
    questions = [LaunchAssumptions(arguments=(str(first + step * i),)) for i in range(sizes)]
    variants = [Variant(ARCH, FLAGS, DEVICE, question) for question in questions]
    predict_variants(predictor, text, variants[:1])
    start = time.perf_counter()
    answers = predict_variants(predictor, text, variants)
    together = time.perf_counter() - start
    chosen = range(0, sizes, sizes // ALONE)
    start = time.perf_counter()
    single = {i: predictor.predict(text, ARCH, FLAGS, DEVICE, questions[i]) for i in chosen}
    alone = time.perf_counter() - start
    times = [(answers[i].prediction.main, single[i].main) for i in chosen]
    errors = [abs((a.duration_ns or 0) / b.duration_ns - 1) for a, b in times if a and b and b.duration_ns]
    return {
        "program": name.split("/")[1],
        "sizes": sizes,
        "per_s": sizes / together,
        "alone_per_s": len(single) / alone,
        "interpreted": sum(not answer.interpolated for answer in answers),
        "error": max(errors, default=0.0),
    }


def main() -> int:
    rows = [measure_program(name, *program) for name, program in PROGRAMS.items()]
    if "--json" in sys.argv[1:]:
        print(json.dumps(rows))
        return 0
    print(f"{'program':<26}{'sizes':>7}{'variants/s':>12}{'alone/s':>10}{'interpreted':>13}{'error':>9}")
    for row in rows:
        print("{program:<26}{sizes:>7}{per_s:>12,.0f}{alone_per_s:>10.1f}{interpreted:>13}{error:>9.2%}".format(**row))
    return 0


if __name__ == "__main__":
    sys.exit(main())
