"""A wave's registers for tests that run a few assembler lines."""

from __future__ import annotations

import numpy as np

from hipsynth.simulator import _core

LANES = 64
LANE = np.arange(LANES, dtype=np.uint32)
ALL = (1 << LANES) - 1


class Wave:
    """Registers before and after `run`; v[r] is a row of 64 lanes, s[r] an SGPR."""

    def __init__(self, rows: int = 96) -> None:
        self.s = np.zeros(128, np.uint32)
        self.v = np.zeros((rows, LANES), np.uint32)
        self.scc = False
        self.exec = ALL

    def pair(self, r: int) -> int:
        return int(self.s[r]) | int(self.s[r + 1]) << 32

    def set_pair(self, r: int, value: int) -> None:
        self.s[r : r + 2] = [value & 0xFFFFFFFF, value >> 32]

    @property
    def exec(self) -> int:
        return self.pair(126)

    @exec.setter
    def exec(self, value: int) -> None:
        self.set_pair(126, value)

    def floats(self, r: int, values: object) -> None:
        self.v[r] = np.broadcast_to(np.asarray(values, np.float32), LANES).view(np.uint32)

    def as_floats(self, r: int) -> np.ndarray:
        return self.v[r].view(np.float32)

    def run(self, text: str, arch: str = "gfx942", mode: int = 0x3F0, accum_offset: int = 0) -> Wave:
        after = _core.alu_run(arch, text, self.s, self.v, scc=self.scc, mode=mode, accum_offset=accum_offset)
        out = Wave(self.v.shape[0])
        out.s, out.v, out.scc = after["sgprs"], after["vgprs"], bool(after["scc"])
        return out
