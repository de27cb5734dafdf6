"""Wave-instructions per second of the simulator: an ALU-bound and a streaming kernel, full counting.

CPU time of the one simulating thread; run on a calm machine: `python benchmarks/sim_speed.py [--json]`.
Targets: 60 M/s ALU-bound, 10 M/s streaming, per core.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kernels"))

from sim_device import SimDevice


def rates(name: str, repeats: int = 5) -> dict[str, float]:
    """Million wave-instructions per second, best of `repeats`, by kernel."""
    device = SimDevice(name)
    a, b, c = (device.core.allocate(8 << 20) for _ in range(3))
    cases = {
        "alu": ("fma_chain", (1216,), (256,), "Qi", a, 200),
        "streaming": ("copy_f64", (4096,), (256,), "QQQii", a, b, c, 1 << 20, 1),
    }
    best = dict.fromkeys(cases, 0.0)
    for label, case in cases.items():
        for _ in range(repeats):
            start = time.process_time()
            executed = device.launch(*case)["counters"]["SQ_INSTS"]
            best[label] = max(best[label], executed / (time.process_time() - start) / 1e6)
    return best


def main() -> None:
    result = {name: rates(name) for name in ("mi250", "mi300x")}
    if "--json" in sys.argv[1:]:
        print(json.dumps(result, indent=2))
        return
    for name, best in result.items():
        for label, rate in best.items():
            print(f"{name:8} {label:10} {rate:8.1f} M wave-instructions/s")


if __name__ == "__main__":
    main()
