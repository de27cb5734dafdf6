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
_ARCH_WORD = re.compile(r"gfx9|amdgcn|__HIP_ARCH|wavefrontsize", re.IGNORECASE)
NAME = "program.hip"  # in its folder; the same for both, as __FILE__ may be in the code


def same_code(one: str, other: str) -> bool:
    """True if both texts compile, in the sandbox, to the same bytes for device and host."""
    try:
        host, devices = _compiled_code(one)
        return any(devices) and (host, devices) == _compiled_code(other)
    except BadInput:  # the host's part of one does not compile
        return False


@functools.lru_cache(maxsize=4)
def _compiled_code(text: str) -> tuple[bytes, tuple[bytes, ...]]:
    """The executable, and the device code of each architecture; empty where the program is not meant for one."""
    with scratch_folder() as scratch:
        source = scratch / NAME
        source.write_text(text)
        archs = ARCHS if _ARCH_WORD.search(text) else ARCHS[:1]
        host = compile_host(source, FLAGS, scratch / "host", use_cache=False)
        return host.executable.read_bytes(), tuple(_device_code(source, arch, scratch / arch) for arch in archs)


def _device_code(source: Path, arch: str, folder: Path) -> bytes:
    try:
        return compile_device(source, arch, FLAGS, folder, use_cache=False).code_object.read_bytes()
    except BadInput:
        return b""
