"""Targets of the functions: one name or several, as a caller gives them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from hipsynth.core.errors import UsageError
from hipsynth.profiling.backends.protocol import Target

Names = str | Sequence[str]
Shape = int | Sequence[int]


def list_names(names: Names) -> tuple[str, ...]:
    """One name or several as a tuple; "" is none."""
    return ((names,) if names else ()) if isinstance(names, str) else tuple(names)


def list_paths(paths: str | Path | Sequence[str | Path]) -> list[Path]:
    """One path or several. Raises UsageError for none, or an empty text."""
    wanted = [paths] if isinstance(paths, str | Path) else list(paths)
    if not wanted or not all(str(path) for path in wanted):
        raise UsageError("no path is given", remedy="give a HIP source file, or the folder of a program")
    return [Path(path) for path in wanted]


def complete_shape(shape: Shape | None) -> tuple[int, int, int] | None:
    """A grid or block of three numbers. Raises UsageError for anything else than 1 to 3 positive ones."""
    if shape is None:
        return None
    sides = (shape,) if isinstance(shape, int) else tuple(shape)
    if not 1 <= len(sides) <= 3 or not all(isinstance(side, int) and side > 0 for side in sides):
        raise UsageError(f"{shape!r} is no shape", remedy="give one to three positive numbers, such as 256 or (16, 16)")
    x, y, z = (*sides, 1, 1)[:3]
    return x, y, z


def list_targets(archs: Names, devices: Names, flags: Names) -> tuple[Target, ...]:
    """The targets of all combinations, with flags spelled as given. Raises UsageError for what does not exist, or if
    no target is left."""
    from hipsynth.profiling.matrix.targets import select_targets

    wanted, excluded = select_targets(list_names(archs), list_names(flags), list_names(devices))
    if not wanted:
        raise UsageError(f"this target is excluded: {excluded[0][1]}", remedy="give other flags or another device")
    return spell_flags(wanted, list_names(flags))


def spell_flags(targets: Sequence[Target], flags: Sequence[str]) -> tuple[Target, ...]:
    """The targets, with flags spelled exactly as given, including spaces."""
    from hipsynth.toolchain import check_flags

    checked = {check_flags(text): text for text in reversed(flags) if not text.startswith("@")}
    return tuple(replace(target, flags=checked.get(target.flags, target.flags)) for target in targets)
