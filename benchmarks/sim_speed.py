"""Wave-instructions per second of the simulator, one core, full counting.

    python benchmarks/sim_speed.py [--json] [--mgpusim CHECKOUT] [--tinygrad CHECKOUT]

CPU time of the single simulating thread, best of several dispatches; run it on an idle machine. Targets: 120 M/s
ALU-bound, 20 M/s streaming. Other simulators are measured in the same run if their checkout is given: tinygrad's
emulator executes the same machine code (the `alu` kernel), MGPUSim its own vector addition sample (which must be built,
or `go` be installed to build it).
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from hipsynth import toolchain
from hipsynth.core.scratch import scratch_folder
from hipsynth.simulator.device import SimDevice

SOURCE = Path(__file__).with_name("kernels.hip")
DEVICES = ("mi250", "mi300x")
ELEMENTS = 1 << 20
REPEATS = 5
# kernel (float* out, int steps), launched with 1216 work-groups of 256 -> steps per work-item
STEPS = {
    "alu": 200,
    "integers": 100,
    "some_lanes": 100,
    "halves": 60,
    "transcendental": 20,
    "matrix": 10,
    "lds": 10,
}
TINYGRAD_STEPS = 20


def measure_rate(device: SimDevice, *launch: Any) -> float:
    """Wave instructions per second of CPU time, best of REPEATS dispatches."""
    best = 0.0
    for _ in range(REPEATS):
        start = time.process_time()
        executed = device.launch(*launch)["counters"]["SQ_INSTS"]
        best = max(best, executed / (time.process_time() - start))
    return best


def measure_rates(name: str, scratch: Path) -> dict[str, float]:
    """Millions of wave-instructions per second, by kernel."""
    device = SimDevice(name, SOURCE, scratch, reuse=False)
    a, b = (device.core.allocate(8 * ELEMENTS) for _ in range(2))
    rates = {kernel: measure_rate(device, kernel, (1216,), (256,), "Qi", a, steps) for kernel, steps in STEPS.items()}
    rates["streaming"] = measure_rate(device, "streaming", (ELEMENTS // 256,), (256,), "QQi", a, b, ELEMENTS)
    return {kernel: rate / 1e6 for kernel, rate in rates.items()}


# --- tinygrad's emulator: executes the machine code of our kernel from memory ----------------------------------------

EMULATE = """
import ctypes, json, sys, time
sys.path.insert(0, sys.argv[1])
from test.mockgpu.amd.emu import run_asm
job = json.loads(sys.stdin.read())
code = (ctypes.c_uint32 * len(job["words"]))(*job["words"])
out = (ctypes.c_float * 256)()
kernarg = ctypes.create_string_buffer(512)
ctypes.memmove(kernarg, (ctypes.c_uint64 * 1)(ctypes.addressof(out)), 8)
ctypes.memmove(ctypes.addressof(kernarg) + 8, (ctypes.c_uint32 * 1)(job["steps"]), 4)
ctypes.memmove(ctypes.addressof(kernarg) + job["group_size_at"], (ctypes.c_uint16 * 1)(64), 2)
at = ctypes.addressof(kernarg)
users = [0] * job["kernarg_sgpr"] + [at & 0xffffffff, at >> 32]
launch = lambda: run_asm(ctypes.addressof(code), 4 * len(job["words"]), 1, 1, 1, 64, 1, 1, at,
                         len(users) << 1 | 1 << 7, 0, "cdna", users)
launch()  # compiles
start = time.process_time()
launch()
print(json.dumps({"seconds": time.process_time() - start, "out": list(out[:64])}))
"""


def extract_kernel_words(disassembly: str, kernel: str) -> list[int]:
    """The machine code of one kernel as 32-bit words, from the encodings in the disassembler's comments."""
    body = disassembly.split(f"<{kernel}>:\n")[1].split(">:\n")[0]
    encodings = re.findall(r"// [0-9A-F]+:((?: [0-9A-F]{8})+)", body)
    return [int(word, 16) for encoding in encodings for word in encoding.split()]


def measure_tinygrad(checkout: Path, scratch: Path) -> float:
    """Millions of wave-instructions per second of one wave of the `alu` kernel. Asserts that the results agree."""
    device = SimDevice("mi250", SOURCE, scratch, reuse=False)
    text = next(scratch.glob("gfx90a/*.s")).read_text()
    body = text.split("<alu>:\n")[1].split("s_endpgm")[0]
    base = re.search(r"s_load_dword\w* s\S+, s\[(\d+):", body)
    sizes = re.findall(r"s_load_dword s\d+, s\[\d+:\d+\], (0x\w+)", body)
    assert base is not None, "the kernel loads no argument"
    job = {
        "words": extract_kernel_words(text, "alu"),
        "steps": TINYGRAD_STEPS,
        "kernarg_sgpr": int(base[1]),
        "group_size_at": int(sizes[-1], 16),
    }
    process = subprocess.run(
        [sys.executable, "-c", EMULATE, str(checkout)],
        input=json.dumps(job),
        capture_output=True,
        text=True,
        check=True,
        cwd=checkout,
        env={
            "CC": str(toolchain.find_toolchain().clang),
            **os.environ,
        },  # the emulator compiles each instruction on first use
    )
    theirs = json.loads(process.stdout.splitlines()[-1])
    at = device.core.allocate(4096)
    executed = device.launch("alu", (1,), (64,), "Qi", at, TINYGRAD_STEPS)["counters"]["SQ_INSTS"]
    ours = device.download(at, np.zeros(64, np.float32))
    assert np.array_equal(ours, np.array(theirs["out"], np.float32)), "the emulators disagree"
    return float(executed) / float(theirs["seconds"]) / 1e6


# --- MGPUSim: its own vector addition of the same number of elements -------------------------------------------------


def time_mgpusim(checkout: Path, *options: str) -> float:
    """CPU seconds of one run of MGPUSim's sample; builds it first if necessary and `go` is installed."""
    sample = checkout / "amd/samples/vectoradd"
    binary = sample / "vectoradd"
    if not binary.exists() and shutil.which("go"):
        subprocess.run(["go", "build", "-o", binary, "."], cwd=sample, check=True)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    size = ["-width", "1024", "-height", str(ELEMENTS // 1024)]
    with scratch_folder() as folder:  # MGPUSim writes metrics to the current folder
        subprocess.run([binary, *size, "-magic-memory-copy", "-disable-rtm", *options], cwd=folder, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def time_vector_add(scratch: Path) -> float:
    """CPU seconds of one dispatch of the same addition in this simulator, best of REPEATS."""
    device = SimDevice("mi300x", SOURCE, scratch, reuse=False)
    a, b, c = (device.core.allocate(4 * ELEMENTS) for _ in range(3))
    best = float("inf")
    for _ in range(REPEATS):
        start = time.process_time()
        device.launch("vector_add", (ELEMENTS // 256,), (256,), "QQQi", a, b, c, ELEMENTS)
        best = min(best, time.process_time() - start)
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--mgpusim", type=Path, metavar="CHECKOUT")
    parser.add_argument("--tinygrad", type=Path, metavar="CHECKOUT")
    options = parser.parse_args()
    with scratch_folder() as scratch:
        result: dict[str, dict[str, float]] = {name: measure_rates(name, scratch) for name in DEVICES}
        if options.tinygrad:
            result["tinygrad"] = {"alu": measure_tinygrad(options.tinygrad.resolve(), scratch)}
        if options.mgpusim:
            checkout = options.mgpusim.resolve()
            result["vector addition, elements in millions"] = {
                "ours, full counting": ELEMENTS / 1e6 / time_vector_add(scratch),
                "MGPUSim, emulation": ELEMENTS / 1e6 / time_mgpusim(checkout),
                "MGPUSim, timing": ELEMENTS / 1e6 / time_mgpusim(checkout, "-timing"),
            }
    if options.json:
        print(json.dumps(result, indent=2))
        return
    for name, rows in result.items():
        unit = "M/s" if name.startswith("vector") else "M wave-instructions/s"
        for label, rate in rows.items():
            print(f"{name:8} {label:20} {rate:9.2f} {unit}")


if __name__ == "__main__":
    main()
