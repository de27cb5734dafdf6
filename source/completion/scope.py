"""What a kernel around an unfinished statement offers for it: parameters, variables and indices that fit."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from hipsynth.source.completion.words import NAME
from hipsynth.source.declarations import FunctionDeclaration, FunctionParameter
from hipsynth.source.outline import blank_opaque, outline_kernels

SCALAR_DECLARATION = re.compile(r"\b(?:float|double|int|unsigned|auto|long|size_t|T|half|_Float16)\s+(\w+)\s*=")
_REAL = re.compile(r"\b(?:float|double|half|__half|_Float16)\b")
FOR_INIT = re.compile(r"\bfor\s*\([^;]*;")
GLOBAL_INDEX = "(blockIdx.x * blockDim.x + threadIdx.x)"


@dataclass(frozen=True)
class FunctionScope:
    """The kernel that holds a position, and the code of its body without comments and literals."""

    kernel: FunctionDeclaration
    body: str
    before: str  # of the body, the part before the statement in question

    def unused_parameters(self) -> list[FunctionParameter]:
        """The parameters that the body does not name, in their order."""
        words = set(NAME.findall(self.body))
        return [parameter for parameter in self.kernel.parameters if parameter.name and parameter.name not in words]


def enclosing_kernel(text: str, at: int) -> FunctionScope | None:
    """The kernel around the statement that begins at a position, else the last one before it."""
    kernels = [kernel for kernel in outline_kernels(text) if kernel.start <= at]
    if not kernels:
        return None
    start, end = kernels[-1].body
    code = blank_opaque(text)
    return FunctionScope(kernels[-1], code[start : max(start, end)], code[start : max(start, at)])


def next_axis(scope: FunctionScope) -> str:
    """The first axis that the body does not use yet."""
    return next(
        (axis for axis in "xyz" if not re.search(rf"\b(?:blockIdx|threadIdx)\s*\.\s*{axis}\b", scope.body)), "x"
    )


def guess_stored_value(words: Sequence[str], scope: FunctionScope) -> str:
    """What a store without a value probably writes: the last variable that was accumulated, else the last scalar."""
    sums = re.findall(r"\b(\w+)\s*[-+*/|&^]=[^=]", scope.body)
    return next((name for name in reversed(sums) if name not in words), "") or last_local(words, scope) or "1"


def guess_value(words: Sequence[str], scope: FunctionScope) -> str:
    """An expression for a missing operand: a parameter that the kernel has not used, else a value that it has."""
    unused = scope.unused_parameters()
    index = guess_index(words, scope)
    inside = words[-1] == "[" or (words.count("[") > words.count("]"))
    numbers = [parameter.name for parameter in unused if "*" not in parameter.text]
    if inside:
        integers = [
            parameter.name for parameter in unused if "*" not in parameter.text and not _REAL.search(parameter.text)
        ]
        return integers[0] if integers else index
    pointers = [parameter.name for parameter in unused if parameter.base]
    if pointers:
        return f"{pointers[0]}[{index}]"
    if numbers:
        return numbers[0]
    if idle := unused_locals(words, scope):
        return idle[-1]
    if local := last_local(words, scope):
        return local
    loaded = re.findall(r"\b(\w+)\s*\[([^\[\];]+)\]", scope.body)
    read = {parameter.name for parameter in scope.kernel.parameters if parameter.constant}
    for name, at in reversed(loaded):
        if name in read and name not in words:
            return f"{name}[{at}]"
    return "1"


def guess_index(words: Sequence[str], scope: FunctionScope) -> str:
    """The index expression that was used last: in the statement, else in the body, else the global index."""
    text = " ".join(words)
    inner = re.findall(r"\[([^\[\]]+)\]", text)
    if inner:
        return str(inner[-1]).strip()
    names = _names_in_scope(scope)
    others = [index.strip() for index in re.findall(r"\[([^\[\];]+)\]", scope.body)]
    usable = [index for index in others if set(NAME.findall(index)) <= names]
    return usable[-1] if usable else GLOBAL_INDEX


def _names_in_scope(scope: FunctionScope) -> set[str]:
    """Names that hold in the whole body: parameters, coordinates, and variables of its outermost block."""
    outer, depth = [], 0
    for sign in scope.body:
        depth += (sign == "{") - (sign == "}")
        if depth == 0:
            outer.append(sign)
    flat = FOR_INIT.sub("", "".join(outer))
    declared = re.findall(r"\b(?:int|unsigned|long|size_t|auto|uint\w*|int\w*)\s+(\w+)\s*=|,\s*(\w+)\s*=", flat)
    return {name for pair in declared for name in pair if name} | parameter_words(scope)


def unused_locals(words: Sequence[str], scope: FunctionScope) -> list[str]:
    """The scalar variables before the statement that the body names once, in their declaration."""
    names = SCALAR_DECLARATION.findall(FOR_INIT.sub("", scope.before))
    return [name for name in names if name not in words and len(re.findall(rf"\b{re.escape(name)}\b", scope.body)) == 1]


def last_local(words: Sequence[str], scope: FunctionScope) -> str:
    """The scalar variable declared last before the statement, "" without one."""
    names = SCALAR_DECLARATION.findall(FOR_INIT.sub("", scope.before))
    return next((name for name in reversed(names) if name not in words), "")


def is_changed(name: str, body: str) -> bool:
    """Whether a body assigns to a variable after its declaration."""
    after = re.split(rf"\b{re.escape(name)}\s*=[^=]", body, maxsplit=1)[-1]
    return bool(re.search(rf"\b{re.escape(name)}\s*(?:[-+*/|&^]|<<|>>)?=[^=]|(?:\+\+|--)\s*{re.escape(name)}\b", after))


def guess_bound(scope: FunctionScope) -> str:
    """A loop's bound: a number among the parameters that is not used yet, else the bound of another loop, else the last
    number among the parameters, else 16."""
    numbers = [parameter.name for parameter in scope.unused_parameters() if "*" not in parameter.text]
    if numbers:
        return numbers[0]
    other = re.findall(r"\bfor\s*\([^;]*;[^;]*<=?\s*([^;]+);", scope.body)
    if other:
        return str(other[-1]).strip()
    integers = [
        parameter.name
        for parameter in scope.kernel.parameters
        if "*" not in parameter.text and "float" not in parameter.text
    ]
    return integers[-1] if integers else "16"


def parameter_words(scope: FunctionScope) -> set[str]:
    """The names of the parameters, and those of coordinates."""
    return {parameter.name for parameter in scope.kernel.parameters} | {
        "threadIdx",
        "blockIdx",
        "blockDim",
        "x",
        "y",
        "z",
    }
