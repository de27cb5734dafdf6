"""The families, one file each: `build(ctx)` turns parameters and choices into a module of the typed language."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import cache

from synth.generate.context import Context
from synth.generate.ir import Module

Build = Callable[[Context], Module]


@cache
def builder_of(family: str) -> Build:
    """The builder of a family, which lives in the module of its name."""
    build: Build = importlib.import_module(f"synth.generate.families.{family}").build
    return build
