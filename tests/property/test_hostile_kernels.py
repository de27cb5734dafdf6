"""Does the core survive kernels of random instructions? A short, fixed part of `make fuzz`."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import needs
import pytest

from hipsynth.simulator import devices

core = needs.core()
KERNELS = 400
ODD = [
    "0",
    "-1",
    "1.0",
    "0x7fffffff",
    "vcc",
    "exec",
    "m0",
    "off",
    "s[0:1]",
    "ttmp15",
    "flat_scratch",
    "-|v1|",
    "a3",
    "v255",
]
MODIFIERS = [" offset:8", " offset:65535", " offset0:255", " glc", " lds", " clamp", " offen", " idxen", " row_shr:15"]
MODIFIERS += [
    " op_sel:[1,1]",
    " dst_sel:WORD_1 dst_unused:UNUSED_PRESERVE",
    " cbsz:7",
    " blgp:7",
    " dmask:0xf",
    " mul:4",
]


def operand(rng: random.Random, kind: str) -> str:
    if rng.random() < 0.1:
        return rng.choice(ODD)
    digits = "".join(c for c in kind if c.isdigit()) if kind.startswith(("mat", "acc", "wide", "quad")) else ""
    wide = kind.endswith("64") or kind == "mask" or kind in ("pk_f32", "pk_b32")
    width = int(digits) if digits else 4 if kind == "b128" else 2 if wide else 1
    if kind in ("b32", "addr", "saddr") and rng.random() < 0.5:
        width = rng.choice([1, 2, 4, 8])
    first = rng.randrange(24) if rng.random() < 0.8 else rng.randrange(256)
    letter = "s" if kind == "saddr" or rng.random() < 0.3 else "v"
    return f"{letter}{first}" if width == 1 else f"{letter}[{first}:{first + width - 1}]"


def instruction(rng: random.Random, op: dict[str, str]) -> str:
    parts = []
    for token in op["signature"].split():
        slot, _, kind = token.partition(":")
        if "=" not in token and not (slot.endswith("?") and rng.random() < 0.5):
            parts.append(operand(rng, kind) if kind else str(rng.randrange(-8, 64)))
    return f"{op['name']} {', '.join(parts)}" + "".join(rng.sample(MODIFIERS, rng.choice([0, 0, 1])))


def attack(seed: int) -> None:
    """Runs in a process of its own, which a crash would end."""
    rng = random.Random(seed)
    table = list(core.opcodes())
    for arch, device in (("gfx90a", "mi250"), ("gfx942", "mi300x")):
        machine = core.Device(
            arch, devices.load_device(device).spec(), count=seed % 2 == 0, max_wave_instructions=20_000
        )
        for _ in range(KERNELS // 2):
            lines = [instruction(rng, rng.choice(table)) for _ in range(rng.randrange(1, 4))]
            try:
                module = machine.load_text("\n".join([*lines, "s_endpgm", ""]), lds_bytes=256, scratch_bytes=64)
                machine.launch(module, "kernel", (rng.choice([1, 3]), 1, 1), (64, 1, 1), bytes(64))
            except core.SimError:
                pass  # a refusal is an answer


@pytest.mark.parametrize("seed", [1, 2])
def test_random_kernels_end_in_results_or_refusals(seed: int) -> None:
    folder = str(Path(__file__).parent)
    support = str(Path(__file__).parents[1] / "support")
    code = f"import sys; sys.path[:0] = [{folder!r}, {support!r}]; import test_hostile_kernels as t; t.attack({seed})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
