"""The one table of sizes of C++ types."""

from __future__ import annotations

import pytest

from hipsynth.source.type_sizes import type_bytes
from hipsynth.synth.generate.types import DTYPES

SIZES = {
    "float": 4,
    "const double": 8,
    "unsigned": 4,
    "unsigned char": 1,
    "long long int": 8,
    "unsigned long": 8,
    "std::uint16_t": 2,
    "const float* __restrict__": 8,
    "float3": 12,
    "ulonglong2": 16,
    "long double": 16,
    "Particle": None,
    "": None,
}


@pytest.mark.parametrize("spelling", SIZES)
def test_sizes_of_types(spelling: str) -> None:
    assert type_bytes(spelling) == SIZES[spelling]


def test_the_generators_types_have_the_same_sizes() -> None:
    sizes = {one.cpp: one.bytes for one in DTYPES.values() if one.lanes == 1}
    assert sizes and {name: type_bytes(name) for name in sizes} == sizes
