"""Which kernel of a code object a launch means: its name, and the instance of a template."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from hipsynth.core.errors import BadInput
from hipsynth.profiling.preview.launching import UNTOLD, HostLaunch
from hipsynth.source.names import base_name, short_name

_CONSTANT = re.compile(r"(?:\([\w: ]+\))?(-?\d+)[ul]*$")
_TRUTH = {"true": 1, "false": 0}
_INTEGER_WORDS = frozenset({"signed", "unsigned", "long", "short", "int", "char"})
_ELABORATED = frozenset({"typename", "struct", "class", "enum"})
_INTEGERS = ("char", "short", "int", "long")
_UNSIGNED = {f"u{kind}": f"unsigned {kind}" for kind in _INTEGERS}
_ELEMENTS = {kind: kind for kind in (*_INTEGERS, "float", "double")} | _UNSIGNED
# Spelling -> the type that mangled names have.
_ALIASES = {
    **{f"int{8 << i}_t": kind for i, kind in enumerate(("signed char", *_INTEGERS[1:]))},
    **{f"uint{8 << i}_t": f"unsigned {kind}" for i, kind in enumerate(_INTEGERS)},
    **_UNSIGNED,
    **dict.fromkeys(("size_t", "uintptr_t"), "unsigned long"),
    **dict.fromkeys(("ptrdiff_t", "intptr_t", "ssize_t"), "long"),
    "half": "__half",
    **{f"{name}{n}": f"HIP_vector_type<{kind}, {n}u>" for name, kind in _ELEMENTS.items() for n in (1, 2, 3, 4)},
}
_BUILT_IN = frozenset({*_ALIASES.values(), *_INTEGERS, "bool", "float", "double", "_Float16"})


class UnknownInstance(BadInput):
    """Which instance of a kernel template a launch means is not known (exit 3)."""

    reason = "unknown_instance"


def resolve_template_instance(kernels: Sequence[Mapping[str, Any]], launch: HostLaunch) -> Mapping[str, Any] | None:
    """The descriptor of the kernel that a launch means; None if no kernel has its name.

    Template arguments are compared by value and type, whatever their spelling; those that the host code does not tell
    fit all. Raises UnknownInstance, which names the instances that exist, unless exactly one fits.
    """
    named = [kernel for kernel in kernels if base_name(kernel["name"]) == launch.kernel]
    verdicts = [_is_instance(kernel["name"], launch.template) for kernel in named]
    certain = [kernel for kernel, verdict in zip(named, verdicts, strict=True) if verdict]
    possible = [kernel for kernel, verdict in zip(named, verdicts, strict=True) if verdict is not False]
    if len(possible) > 1:
        possible = [kernel for kernel in possible if len(explicit_arguments(kernel)) == len(launch.arguments)]
    for candidates in (certain, possible):
        if len(candidates) == 1:
            return candidates[0]
    if not named:
        return None
    wanted = f"{launch.kernel}<{', '.join(launch.template)}>" if launch.template else launch.kernel
    existing = ", ".join(sorted(short_name(kernel["name"]) for kernel in named))
    raise UnknownInstance(
        f"which instance {wanted} means is not known before the program runs: the code object has {existing}",
        remedy="name the template arguments at the launch, as numbers or types",
    )


def explicit_arguments(kernel: Mapping[str, Any]) -> list[tuple[int, int, str]]:
    """(offset, bytes, kind) of the arguments that a launch gives."""
    return [a for a in kernel["args"] if not str(a[2]).startswith("hidden_")]


def _is_instance(kernel: str, given: Sequence[str]) -> bool | None:
    """Whether a kernel is the instance with these template arguments; None if it may be."""
    if kernel.startswith("_Z"):  # its name could not be demangled
        return None
    own = template_of(kernel)
    if len(own) < len(given):
        return False
    verdicts = [_is_argument(a, b) for a, b in zip(given, own, strict=False)]
    if False in verdicts:
        return False
    return True if given and len(own) == len(given) and all(verdicts) else None


def _is_argument(given: str, own: str) -> bool | None:
    """Whether host code's spelling of a template argument means that of a demangled name; None if it may."""
    if given == UNTOLD:
        return None
    numbers = _constant(given), _constant(own)
    if None not in numbers:
        return numbers[0] == numbers[1]
    types = canonical_type(given), canonical_type(own)
    if types[0] == types[1] or types[1].endswith("::" + types[0]):
        return True
    return False if _BUILT_IN.issuperset(types) else None


def _constant(text: str) -> int | None:
    """The value of a constant such as `128u`, `(Mode)1` or `true`; None for anything else."""
    match = _CONSTANT.match(text)
    return int(match.group(1)) if match else _TRUTH.get(text)


def canonical_type(text: str) -> str:
    """A type as mangled names have it: `uint32_t`, `unsigned` and `unsigned int` are one type."""
    words = [word for word in re.findall(r"\w+|[^\w\s]", re.sub(r"\bstd\s*::", "", text)) if word not in _ELABORATED]
    if words and _INTEGER_WORDS.issuperset(words):
        size = next((word for word in ("char", "short", "long") if word in words), "int")
        signed = "unsigned " if "unsigned" in words else "signed " if size == "char" and "signed" in words else ""
        return signed + ("long long" if words.count("long") > 1 else size)
    spelled = "".join(words)
    return _ALIASES.get(spelled, re.sub(r"\s*([<>,*&:])\s*", r"\1", " ".join(words)).replace(",", ", "))


def template_of(demangled: str) -> list[str]:
    """The template arguments of a demangled kernel name."""
    name = short_name(demangled)
    if not name.endswith(">"):
        return []
    depth, parts = 0, [""]
    for c in name[name.find("<") + 1 : -1]:
        depth += (c in "<(") - (c in ">)")
        if c == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts]
