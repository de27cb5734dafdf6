"""Whether two texts of a program are the same program: both compile to identical device code and host executable."""

from __future__ import annotations

import functools

from hipsynth.core.errors import BadInput
from hipsynth.core.scratch import scratch_folder
from hipsynth.toolchain import compile_device, compile_host

ARCH, FLAGS = "gfx942", "-O3"
NAME = "program.hip"  # in its folder; the same for both, as __FILE__ may be in the code


def same_code(one: str, other: str) -> bool:
    """True if both texts compile, in the sandbox, to the same bytes for device and host."""
    try:
        return _compiled_code(one) == _compiled_code(other)
    except BadInput:  # one does not compile
        return False


@functools.lru_cache(maxsize=4)
def _compiled_code(text: str) -> tuple[bytes, bytes]:
    with scratch_folder() as scratch:
        source = scratch / NAME
        source.write_text(text)
        device = compile_device(source, ARCH, FLAGS, scratch / "device", use_cache=False)
        host = compile_host(source, FLAGS, scratch / "host", use_cache=False)
        return device.code_object.read_bytes(), host.executable.read_bytes()
