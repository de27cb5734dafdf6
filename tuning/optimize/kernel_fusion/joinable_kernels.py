"""Kernels that can be a part of another launch: the order of what they print would change, and what they keep in static
variables is not looked at."""

from __future__ import annotations

import re

from hipsynth.core.reasons import Reason
from hipsynth.tuning.optimize.analysis.called_text import list_called, list_words
from hipsynth.tuning.optimize.analysis.hidden_pointers import find_hidden_pointers
from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood

_PRINTS = re.compile(r"v?f?printf|puts|__ockl_\w+|assert|__assert\w*|abort|__trap|__builtin_trap|hostcall\w*")


def check_joinable(program: ParsedProgram, kernel: KernelDefinition) -> None:
    """Raises NotUnderstood for a kernel that prints, may end the program, has variables that outlive a work-item, or
    whose launches may be those of another one of its name."""
    if kernel.is_overloaded(program.kernels):
        raise NotUnderstood(Reason.OVERLOADED.meaning)
    for span in [(kernel.first, kernel.last), *list_called(program, (kernel.first, kernel.last))]:
        tokens = program.tokens[slice(*span)]
        words = list_words(program, span)
        if printing := next(filter(_PRINTS.fullmatch, sorted(words)), ""):
            raise NotUnderstood(f"it uses {printing}, and the order of what launches print would change")
        if any(tokens[i].text == "static" and not _is_constant(program, span[0] + i) for i in range(len(tokens))):
            raise NotUnderstood("a static variable")
        if "static" in words - {token.text for token in tokens}:
            raise NotUnderstood("a static variable of a macro")
        for token in tokens:
            if any(entity.shared and not entity.local for entity in program.entities(token)):
                raise NotUnderstood(f"{token.text}, which groups have outside of functions")


def check_arrays_known(program: ParsedProgram, kernel: KernelDefinition) -> None:
    """Raises NotUnderstood for a kernel that may reach arrays which its launches do not pass."""
    if reason := find_hidden_pointers(program, kernel):
        raise NotUnderstood(reason)


def _is_constant(program: ParsedProgram, at: int) -> bool:
    """Whether `static` at a token declares a constant for the compiler."""
    return "constexpr" in (program.tokens[at - 1].text, program.tokens[at + 1].text)
