"""A small made-up corpus for the training tests: three families whose metrics follow from the source."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from hipsynth.core.program import Program, text_id
from hipsynth.core.store import CorpusItem, CorpusWriter
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.models.base import TinyShape
from hipsynth.training.models.config import Config

SOURCE = """#include <hip/hip_runtime.h>

__global__ void {kernel}(const {dtype}* {a}, {dtype}* {b}) {{
  const int i = threadIdx.x + blockIdx.x * blockDim.x;
  {dtype} x = {a}[i];
  {own_statement};
{body}
  {b}[i] = x;
}}

int main() {{
  const int n = {n};
  {dtype}*{a};
  {dtype}*{b};
  hipMalloc(&{a}, n * sizeof({dtype}));
  hipMalloc(&{b}, n * sizeof({dtype}));
  {kernel}<<<n / {block}, {block}>>>({a}, {b});
  return hipDeviceSynchronize() == hipSuccess ? 0 : 1;
}}
"""
BODIES = {
    "copy": "",
    "fma": "  for (int k = 0; k < {steps}; ++k) x = x * x + x;",
    "mul": "  for (int k = 0; k < {steps}; ++k) x = x * x;",
}
# A recipe that trains in a second or two.
TOY = """
base = "tiny"
method = "full"
context = 768
view = "kernels"
max_steps = 2
batch = 2
bf16 = "no"
[tiny]
vocab = 800
hidden = 32
layers = 1
heads = 2
ff = 64
"""
TARGETS = [(arch, flags) for arch in ("gfx90a", "gfx942") for flags in ("-O3", "-O3 -ffast-math")]


def metrics(family: str, dtype: str, steps: int, n: int, arch: str, flags: str) -> dict[str, float]:
    """Plausible, smooth and made up; the copies' missing FLOPs give true zeros."""
    size = 8 if dtype == "double" else 4
    flops = {"copy": 0, "fma": 2, "mul": 1}[family] * (0 if family == "copy" else steps)
    bandwidth = min(n / 100.0, 4000.0 if arch == "gfx942" else 1400.0)
    hit = (62.5 if arch == "gfx942" else 50.0) if dtype == "double" else 0.0
    gflops = flops / (2 * size) * bandwidth * (1.1 if "fast" in flags else 1.0)
    intensity = flops / (2 * size)
    return {
        "L1_Cache_Hit_Rate": hit,
        "L2_Cache_Hit_Rate": 33.3 if arch == "gfx942" else 35.0,
        "L1_Cache_Bandwidth": 2 * bandwidth,
        "L2_Cache_Bandwidth": bandwidth,
        "L2_Fabric_Read_BW": bandwidth / 2,
        "L2_Fabric_Write_BW": bandwidth / 2.5,
        "L1_Cache_Arithmetic_Intensity": intensity / 2,
        "L2_Cache_Arithmetic_Intensity": intensity,
        "HBM_Arithmetic_Intensity": intensity,
        "L1_Cache_GFLOPS": gflops,
        "L2_Cache_GFLOPS": gflops,
        "HBM_GFLOPS": gflops,
    }


def own_statement_of(index: int) -> str:
    """A statement that no other of 1,024 base programs has, so that each is a lineage by itself."""
    operators = ("+-*/"[index // 4**digit % 4] for digit in range(5))
    return f"x = x {' x '.join(operators)} x"


def sample(index: int, copy: int, arch: str, flags: str, origin: str = "synthetic") -> LabelledSample:
    """Build `copy` (0: the base, else renamed) of base program `index` on one target."""
    family = sorted(BODIES)[index % 3]
    dtype = ("float", "double")[index // 3 % 2]
    steps, n, block = 1 + index % 7, 65536 * (1 + index % 5) + index * 256, 256

    def text(names: tuple[str, str, str]) -> str:
        kernel, a, b = names
        body = BODIES[family].format(steps=steps)
        own_statement = own_statement_of(index)
        return SOURCE.format(
            kernel=kernel, a=a, b=b, dtype=dtype, body=body, n=n, block=block, own_statement=own_statement
        )

    base = text(("kernel_main", "src", "dst"))
    own = base if copy == 0 else text((f"k{copy}_run", f"p{copy}", f"q{copy}"))
    values = metrics(family, dtype, steps, n, arch, flags)
    return LabelledSample(
        program_id=text_id(own),
        lineage=text_id(base),
        family=family,
        origin=origin,
        text=own,
        arch=arch,
        flags=flags,
        device="mi300x" if arch == "gfx942" else "mi250",
        kernel="kernel_main" if copy == 0 else f"k{copy}_run",
        metrics=values,
        duration_ns=1000.0 + n,
        backend="made-up",
    )


def samples(bases: int = 30, copies: int = 2) -> list[LabelledSample]:
    """`bases` programs, each with `copies` texts (the first is the base itself), on four targets."""
    return [sample(i, c, arch, flags) for i in range(bases) for c in range(copies) for arch, flags in TARGETS]


def count_groups(text: str) -> int:
    """The work-groups that a program of sample() launches."""
    number = re.search(r"const int n = (\d+)", text)
    return int(number[1]) // 256 if number else 1


def item_of(sample: LabelledSample) -> CorpusItem:
    """A sample as a corpus stores it, of backend "sim"."""
    kernel = {"name": sample.kernel, "dispatches": 1, "grid": [count_groups(sample.text), 1, 1], "block": [256, 1, 1]}
    kernel |= {"counters": {}, "metrics": dict(sample.metrics), "duration_ns": sample.duration_ns}
    return CorpusItem(
        program_id=sample.program_id,
        arguments=sample.arguments,
        lineage=sample.lineage,
        origin=sample.origin,
        family=sample.family,
        arch=sample.arch,
        flags=sample.flags,
        device=sample.device,
        backend="sim",
        backend_version="1",
        compiler="clang 22",
        headers="HIP 7.1",
        status="ok",
        kernels=[kernel],
    )


def write_corpus(root: Path, chosen: Sequence[LabelledSample]) -> Path:
    """Stores samples as a corpus folder."""
    with CorpusWriter(root, answer_ids()) as writer:
        for one in chosen:
            program = Program(one.text, one.origin, one.family, lineage=one.lineage)
            writer.add_program(program.record(), one.text)
            writer.add(item_of(one))
    return root


def toy_config(**changes: Any) -> Config:
    """The settings of a language model that trains in seconds, from scratch."""
    shape = TinyShape(vocab=800, hidden=32, layers=1, heads=2, ff=64)
    toy = Config(name="toy", base="tiny", method="full", context=768, view="kernels", max_steps=2, batch=2, bf16="no")
    return replace(toy, **{"tiny": shape, **changes})
