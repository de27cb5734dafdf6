"""Matrix instructions of a wavefront: acc = A x B + acc, and which elements of A, B and acc each lane holds.

Lane l holds, of A, the elements A[l % side][l / side * lanes + j] for j < lanes, of B the same transposed. Sources: AMD
CDNA2 and CDNA3 ISA guides, "Matrix Arithmetic Instructions".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hipsynth.synth.generate.types import ACC4, ACC16, DACC4, F16, F32, F64, HALF4, DType


@dataclass(frozen=True)
class MatrixInstruction:
    """One instruction: `side` rows and columns, operands of `operand` type, of `lanes` elements per lane."""

    builtin: str
    side: int
    operand: DType
    accumulator: DType

    @property
    def lanes(self) -> int:
        return self.operand.lanes

    @property
    def depth(self) -> int:
        """Products per element of the result."""
        return 64 // self.side * self.lanes

    def row(self, lane_group: np.ndarray, register: int) -> np.ndarray:
        """The row of acc in a register of the lanes of group l / side."""
        if self.accumulator.base is F64:
            return 4 * register + lane_group
        rows: np.ndarray = 4 * lane_group + register % 4 + register // 4 * (256 // self.side)
        return rows


MATRICES = {
    "f32_16x16x4": MatrixInstruction("__builtin_amdgcn_mfma_f32_16x16x4f32", 16, F32, ACC4),
    "f32_32x32x2": MatrixInstruction("__builtin_amdgcn_mfma_f32_32x32x2f32", 32, F32, ACC16),
    "f16_16x16x16": MatrixInstruction("__builtin_amdgcn_mfma_f32_16x16x16f16", 16, HALF4, ACC4),
    "f16_32x32x8": MatrixInstruction("__builtin_amdgcn_mfma_f32_32x32x8f16", 32, HALF4, ACC16),
    "f64_16x16x4": MatrixInstruction("__builtin_amdgcn_mfma_f64_16x16x4f64", 16, F64, DACC4),
}
OF_TYPE = {t: [m for m in MATRICES.values() if m.operand.base is t] for t in (F16, F32, F64)}
