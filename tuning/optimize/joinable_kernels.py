"""Kernels that can be a part of another launch: the order of what they print would change."""

from __future__ import annotations

import re

from hipsynth.tuning.optimize.called_text import list_called, list_words
from hipsynth.tuning.optimize.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.statements import NotUnderstood

_PRINTS = re.compile(r"v?f?printf|puts|__ockl_\w+|assert|__assert\w*|abort|__trap|__builtin_trap|hostcall\w*")


def check_joinable(program: ParsedProgram, kernel: KernelDefinition) -> None:
    """Raises NotUnderstood for a kernel that prints, or may end the program."""
    for span in [(kernel.first, kernel.last), *list_called(program, kernel)]:
        if printing := next(filter(_PRINTS.fullmatch, sorted(list_words(program, span))), ""):
            raise NotUnderstood(f"it uses {printing}, and the order of what launches print would change")
