"""The languages that programs are written in: HIP, and Triton in Python scripts."""

from __future__ import annotations

import re

HIP, TRITON = "hip", "triton"
SUFFIXES = {HIP: ".hip", TRITON: ".py"}
NAMES = {HIP: "HIP", TRITON: "Triton"}  # in prose
_IMPORTS = re.compile(r"^[ \t]*(?:import[ \t][^\n]*\btriton\b|from[ \t]+triton\b)", re.MULTILINE)
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)


def language_of(text: str) -> str:
    """The language of a program's text: TRITON for a Python script that imports Triton and has a kernel, else HIP."""
    return TRITON if _IMPORTS.search(text) and _KERNEL.search(text) else HIP
