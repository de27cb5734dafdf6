"""Whether two texts of a program are the same program: both compile to identical host executables, and to identical
device code for one architecture, and for more where the text may tell them apart."""

from __future__ import annotations

import functools
import re

from hipsynth.core.errors import BadInput
from hipsynth.core.scratch import scratch_folder
from hipsynth.toolchain import compile_device, compile_host

ARCHS, FLAGS = ("gfx942", "gfx90a", "gfx950"), "-O3"
_ARCH_WORD = re.compile(r"gfx9|amdgcn|__HIP_ARCH|wavefrontsize", re.IGNORECASE)
NAME = "program.hip"  # in its folder; the same for both, as __FILE__ may be in the code


def same_code(one: str, other: str) -> bool:
    """True if both texts compile, in the sandbox, to the same bytes for device and host."""
    try:
        return _compiled_code(one) == _compiled_code(other)
    except BadInput:  # one does not compile
        return False


@functools.lru_cache(maxsize=4)
def _compiled_code(text: str) -> tuple[bytes, ...]:
    with scratch_folder() as scratch:
        source = scratch / NAME
        source.write_text(text)
        archs = ARCHS if _ARCH_WORD.search(text) else ARCHS[:1]
        devices = [compile_device(source, arch, FLAGS, scratch / arch, use_cache=False) for arch in archs]
        host = compile_host(source, FLAGS, scratch / "host", use_cache=False)
        return *(device.code_object.read_bytes() for device in devices), host.executable.read_bytes()
