"""The families, one file each: `build(ctx)` turns parameters and choices into a module of the typed language."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

from hipsynth.synth.generate.context import Context
from hipsynth.synth.generate.ir import Module

Build = Callable[[Context], Module]


@cache
def builder_of(family: str) -> Build:
    """The builder of a family, which lives in the module of its name."""
    build: Build = importlib.import_module(f"hipsynth.synth.generate.families.{family}").build
    return build
