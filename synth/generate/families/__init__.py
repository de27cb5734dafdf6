"""The program families, one module each: `build_kernels(ctx)` builds the typed program from parameters and choices."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module

BuildKernels = Callable[[Context], Module]


@cache
def builder_of(family: str) -> BuildKernels:
    """The `build_kernels` function of the family's module; raises ModuleNotFoundError if there is none."""
    build: BuildKernels = importlib.import_module(f"hipsynth.synth.generate.families.{family}").build_kernels
    return build
