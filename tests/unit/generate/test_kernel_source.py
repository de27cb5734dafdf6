"""The text of functions that kernels call."""

from __future__ import annotations

from hipsynth.synth.generate.ir import const
from hipsynth.synth.generate.kernel_source import function_source
from hipsynth.synth.generate.outlining import OutlinedFunction
from hipsynth.synth.generate.types import F32, F64, DType


def write(parameter: DType) -> str:
    function = OutlinedFunction("f_value", (("x", parameter),), (), const(2.0, F32))
    return function_source(function, False, {"inline": True}, F32)


def test_a_function_is_a_template_where_a_parameter_tells_the_type() -> None:
    assert write(F32).startswith("template <typename T>\n__device__ __forceinline__ T f_value(T x) {")


def test_a_function_whose_result_alone_has_the_type_is_none() -> None:
    """A call could not tell the compiler what T is."""
    assert write(F64).startswith("__device__ __forceinline__ float f_value(double x) {")
