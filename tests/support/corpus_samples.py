"""A small corpus for tests: items of made-up programs, and the bytes of a corpus folder."""

from __future__ import annotations

from pathlib import Path

from profiling_samples import VCOPY_GFX90A, program

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.store import CorpusItem, CorpusWriter
from hipsynth.core.store.schema import KINDS

METRICS = ("L1_Cache_Hit_Rate", "HBM_GFLOPS")


def kernel(name: str = "copy", value: float = 50.0) -> KernelRecord:
    labels = {"L1_Cache_Hit_Rate": value, "HBM_GFLOPS": None}
    return KernelRecord(name, 3, (4096, 1, 1), (256, 1, 1), 15840.0, VCOPY_GFX90A, labels)


def item(number: int, *, reason: str = "", kernels: int = 1, flags: str = "-O3", arguments: str = "") -> CorpusItem:
    base = program(number)
    return CorpusItem(
        program_id=base.id,
        arguments=arguments,
        lineage=f"base{number // 2}",
        origin="synthetic",
        family="stream",
        arch="gfx90a",
        flags=flags,
        device="mi250",
        backend="recorded",
        backend_version="1",
        compiler="clang 22",
        headers="7.1",
        status="failed" if reason else "ok",
        reason=reason,
        message=f"because {reason}" if reason else "",
        exit_code=0,
        provenance={"rocm": "none", "a": "b"},
        kernels=[] if reason else [kernel(f"copy{k}", float(number)) for k in range(kernels)],
    )


def fill(path: Path, items: list[CorpusItem], programs: int = 0) -> None:
    with CorpusWriter(path, METRICS) as writer:
        for number in range(programs):
            writer.add_program(program(number).record(), program(number).text)
        for one in items:
            writer.add(one)


def content(path: Path) -> dict[str, bytes]:
    files = [*(file for kind in KINDS for file in (path / kind).glob("*")), path / "manifest.json"]
    return {str(file.relative_to(path)): file.read_bytes() for file in files}
