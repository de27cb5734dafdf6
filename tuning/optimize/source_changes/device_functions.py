"""What functions of the device do, as far as one statement says it."""

from __future__ import annotations

from hipsynth.tuning.optimize.analysis.program_model import KernelDefinition, ParsedProgram

_SCOPES = (("::",), ("std", "::"))


def find_forwarded(program: ParsedProgram, name: str) -> frozenset[str]:
    """The functions that the definitions of a function return with their own, only parameter, such as `expf` and `exp`
    of a template's specialisations: `float power(float x) { return expf(x); }`. Empty where one does anything else."""
    definitions = [function for function in program.functions if function.name == name]
    forwarded = {_read_forwarded(program, function) for function in definitions}
    return frozenset() if "" in forwarded else frozenset(forwarded)


def _read_forwarded(program: ParsedProgram, function: KernelDefinition) -> str:
    words = [token.text for token in program.tokens[function.first : function.last]]
    if len(function.parameters) != 1 or words[:1] != ["return"]:
        return ""
    (parameter,) = function.parameters
    call = words[1:]
    for scope in _SCOPES:
        call = call[len(scope) :] if tuple(call[: len(scope)]) == scope else call
    is_value = not {"*", "&", "["} & set(parameter.text)
    is_forwarded = call[1:] == ["(", parameter.name, ")", ";"] and call[0] not in program.macros
    is_of_user = any(other.name == call[0] for other in program.functions)
    return call[0] if is_value and is_forwarded and not is_of_user else ""
