"""Whether two texts of a program are the same program: both compile to identical host executables, and to identical
device code for one architecture, and for more where the text may tell them apart."""

from __future__ import annotations

import functools
import re
from pathlib import Path

from hipsynth.core.errors import BadInput
from hipsynth.core.scratch import scratch_folder
from hipsynth.toolchain import compile_device, compile_host

ARCHS, FLAGS = ("gfx942", "gfx90a", "gfx950"), "-O3"
_OPENMP_WORD = re.compile(r"\bpragma\s+omp\b|\b_Pragma\s*\(\s*\"omp\b")
_ARCH_WORD = re.compile(r"gfx9|amdgcn|__HIP_ARCH|wavefrontsize", re.IGNORECASE)
NAME = "program.hip"  # in its folder; the same for both, as __FILE__ may be in the code


def same_code(one: str, other: str) -> bool:
    """True if both texts compile, in the sandbox, to the same bytes for device and host."""
    hosts, devices = _compiled_code(one)
    return any(hosts) and any(devices) and (hosts, devices) == _compiled_code(other)


@functools.lru_cache(maxsize=4)
def _compiled_code(text: str) -> tuple[tuple[bytes, ...], tuple[bytes, ...]]:
    """The executable, with OpenMP another one where the text has its pragmas, and the device code of each architecture;
    empty where the program is not meant for that."""
    with scratch_folder() as scratch:
        source = scratch / NAME
        source.write_text(text)
        archs = ARCHS if _ARCH_WORD.search(text) else ARCHS[:1]
        settings = (FLAGS, f"{FLAGS} -fopenmp") if _OPENMP_WORD.search(text) else (FLAGS,)
        hosts = tuple(_host_code(source, flags, scratch / "host") for flags in settings)
        return hosts, tuple(_device_code(source, arch, scratch / arch) for arch in archs)


def _host_code(source: Path, flags: str, folder: Path) -> bytes:
    try:
        return compile_host(source, flags, folder, use_cache=False).executable.read_bytes()
    except BadInput:
        return b""


def _device_code(source: Path, arch: str, folder: Path) -> bytes:
    try:
        return compile_device(source, arch, FLAGS, folder, use_cache=False).code_object.read_bytes()
    except BadInput:
        return b""
