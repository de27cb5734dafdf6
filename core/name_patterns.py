"""Patterns of names, as the options `--kernel` and `--metric` take them."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence

from hipsynth.core.errors import UsageError, suggest_name


def matches_name(name: str, pattern: str) -> bool:
    """Whether a name matches a pattern (* and ? as in file names), or a part of it does; case does not matter."""
    return fnmatch.fnmatchcase(name.lower(), f"*{pattern.lower()}*")


def matches_any(name: str, patterns: Sequence[str]) -> bool:
    """Whether a name matches one of these patterns, or there are none."""
    return not patterns or any(matches_name(name, pattern) for pattern in patterns)


def check_kernel_pattern(pattern: str, names: Sequence[str]) -> None:
    """Raises UsageError if none of the kernels matches."""
    if not any(matches_name(name, pattern) for name in names):
        listed = ", ".join(dict.fromkeys(names))
        cause = suggest_name(pattern, names)
        raise UsageError(f"--kernel {pattern}: no kernel matches", cause=cause, remedy=f"kernels: {listed}")
