"""The languages that programs are written in: HIP, and Triton in Python scripts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path

from hipsynth.core.errors import UsageError

HIP, TRITON = "hip", "triton"


class SourceLanguage(StrEnum):
    """What a file is written in, as a compiler's -x names it: HIP is host and device code, C++ and C are host code."""

    HIP = "hip"
    CPP = "c++"
    C = "c"
    PYTHON = "python"


SUFFIXES = {HIP: ".hip", TRITON: ".py"}
# Endings of the files that a compiler of HIP programs is given, host code among them.
SOURCE_SUFFIXES = frozenset({".hip", ".cpp", ".cc", ".cxx", ".c++", ".cu", ".c", ".C"})
HEADER_SUFFIXES = frozenset({".h", ".hh", ".hpp", ".hxx", ".H", ".cuh", ".inc", ".inl", ".ipp", ".tpp", ".def"})
INCLUDED_SUFFIXES = HEADER_SUFFIXES | SOURCE_SUFFIXES  # of the files that programs include
NAMES = {HIP: "HIP", TRITON: "Triton"}  # in prose
_IMPORTS = re.compile(r"^[ \t]*(?:import[ \t][^\n]*\btriton\b|from[ \t]+triton\b)", re.MULTILINE)
_KERNEL = re.compile(r"^[ \t]*@(?:triton\.)?jit\b", re.MULTILINE)


def language_of_file(path: Path) -> SourceLanguage:
    """What a source of a HIP program, or a script, is taken to be written in: C++ may hold kernels, so it is HIP."""
    return {".c": SourceLanguage.C, ".py": SourceLanguage.PYTHON}.get(path.suffix, SourceLanguage.HIP)


def language_of(text: str) -> str:
    """The language of a program's text: TRITON for a Python script that imports Triton and has a kernel, else HIP."""
    # A text without the word needs no search line by line, which editors would wait for at each edit.
    return TRITON if "triton" in text and _IMPORTS.search(text) and _KERNEL.search(text) else HIP


def refuse_hip_options(options: Mapping[str, bool]) -> None:
    """Raises UsageError if an option that is for HIP programs was given for a Python script. `options`: name -> whether
    it was given."""
    if wrong := [option for option, is_given in options.items() if is_given]:
        problem = f"{' and '.join(wrong)}: only for HIP programs, not for a Python script"
        raise UsageError(problem, remedy="leave it out; the script itself sets compile options and launches")
