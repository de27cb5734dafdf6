"""A virtual AMD GPU for Triton kernels where there is none, in this process.

    import hipsynth.triton as vgpu

    vgpu.activate("mi300x")
    with vgpu.profile() as p:
        kernel[grid](x, y, n, BLOCK=1024)
    assert p.kernel("kernel").traffic.hbm_read_bytes <= 1.1 * x.nbytes

The how-to: docs/how-to/triton-tests.md. It isolates nothing: for scripts that you do not trust, `synth profile`.
"""

from __future__ import annotations

from hipsynth.library.device_profile import DeviceProfile
from hipsynth.library.virtual_device import KernelFailed, activate, is_active, profile

__all__ = ["DeviceProfile", "KernelFailed", "activate", "is_active", "profile"]
