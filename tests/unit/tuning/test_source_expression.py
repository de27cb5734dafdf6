"""The structure of expressions, from tokens."""

from __future__ import annotations

import pytest

from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.analysis.source_expression import ExpressionNode, read_expression
from hipsynth.tuning.optimize.analysis.statements import NotUnderstood

HEAD = (
    "#include <hip/hip_runtime.h>\n__global__ void k(const float* x, const int* n, float3 v, float* out) {\n  *out = "
)


def read(text: str) -> tuple[ParsedProgram, ExpressionNode]:
    program = read_program(f"{HEAD}{text};\n}}\n", "gfx942")
    first, last = program.kernels[0].first, program.kernels[0].last
    return program, read_expression(program.tokens, first + 3, last - 1)


def write(program: ParsedProgram, node: ExpressionNode) -> str:
    """The expression with brackets around what belongs together."""
    parts = [write(program, part) for part in node.parts]
    if node.kind == "binary":
        return f"({parts[0]}{node.text}{parts[1]})"
    if node.kind == "choice":
        return f"({parts[0]}?{parts[1]}:{parts[2]})"
    if node.kind in ("element", "call"):
        return f"{node.kind} {node.text}<{', '.join(parts)}>"
    return f"{node.kind} {node.text}" + (f"<{', '.join(parts)}>" if parts else "")


@pytest.mark.parametrize(
    ("text", "structure"),
    [
        ("x[0] - x[1] * x[2]", "(element x<number 0>-(element x<number 1>*element x<number 2>))"),
        ("v.x - v.y - 2", "((member x<name v>-member y<name v>)-number 2)"),
        ("(float)n[1 + 2] * -v.x", "(cast float<element n<(number 1+number 2)>>*prefix -<member x<name v>>)"),
        ("static_cast<float>(n[0]) / float(n[1])", "(cast float<element n<number 0>>/cast float<element n<number 1>>)"),
        ("fmaxf(x[0], (v.x)) + 1.5f", "(call fmaxf<element x<number 0>, group (<member x<name v>>>+number 1.5f)"),
        ("v.x < 3 && 1 ? x[0] : 2", "(((member x<name v><number 3)&&number 1)?element x<number 0>:number 2)"),
        ("(unsigned long)n[0] << 2 | 1", "((cast unsigned long<element n<number 0>><<number 2)|number 1)"),
    ],
)
def test_operators_bind_as_in_the_language(text: str, structure: str) -> None:
    program, node = read(text)
    assert write(program, node) == structure


def test_each_part_has_its_tokens() -> None:
    program, node = read("(x[n[0] + 1] + 2) * v.x")
    texts = ["".join(token.text for token in program.tokens[slice(*part.span)]) for part in node.list_values()]
    assert texts == ["(x[n[0]+1]+2)*v.x", "(x[n[0]+1]+2)", "x[n[0]+1]+2", "x[n[0]+1]", "2", "v.x", "v"]


@pytest.mark.parametrize("text", ["out[1] = 2", "x[0], x[1]", "*x", "[](int a) { return a; }(2)", "n[0] ? 1 : 2, 3"])
def test_other_expressions_are_not_understood(text: str) -> None:
    with pytest.raises(NotUnderstood):
        read(text)
