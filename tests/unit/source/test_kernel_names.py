"""Names of kernels, from demangled signatures and mangled names."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from hipsynth.source.names import base_name, short_name

# What compilers and tools call a kernel -> without return type and parameters, and as its definition says.
NAMES = {
    "axpy": ("axpy", "axpy"),
    "axpy(float*)": ("axpy", "axpy"),
    "void ns::axpy<float>(float, float*)": ("ns::axpy<float>", "axpy"),
    "void ns::axpy<ns::T<int>, 4>(ns::T<int>*, int (*)(int))": ("ns::axpy<ns::T<int>, 4>", "axpy"),
    "(anonymous namespace)::axpy(float*)": ("(anonymous namespace)::axpy", "axpy"),
    "void (anonymous namespace)::axpy<(anonymous namespace)::P>(int)": (
        "(anonymous namespace)::axpy<(anonymous namespace)::P>",
        "axpy",
    ),
    "void apply<void (*)(int)>(void (*)(int), int)": ("apply<void (*)(int)>", "apply"),
    "void Grid<float>::step<2>(float*) [clone .kd]": ("Grid<float>::step<2>", "step"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str) -> None:
    assert (short_name(name), base_name(name)) == NAMES[name]


MANGLED = {
    "_Z4axpyPf": "axpy",
    "_ZL4axpyPf": "axpy",
    "_ZN2ns4axpyIfEEvT_PS1_": "axpy",
    "_ZN12_GLOBAL__N_14axpyEPf": "axpy",
    "_Z8xdl_gemmPKDF16_S0_Pf": "xdl_gemm",
    "_ZN2ns4axpyIDF16_EEvv": "axpy",
}


@pytest.mark.parametrize("mangled", MANGLED)
def test_mangled_names_and_what_llvm_makes_of_them(mangled: str) -> None:
    assert base_name(mangled) == MANGLED[mangled]
    filter_ = shutil.which("llvm-cxxfilt-22")
    assert filter_, "llvm-22 is required"
    done = subprocess.run([filter_, mangled], capture_output=True, text=True, check=True)
    assert base_name(done.stdout.strip()) == MANGLED[mangled]
