"""Kernels without a main() as programs that can be optimized."""

from __future__ import annotations

from pathlib import Path

from hipsynth.library.programs import read_nonempty


def read_runnable(path: Path) -> tuple[str, tuple[str, ...]]:
    """(the text of a HIP file, with a main() behind it if it has kernels and none; what was assumed of its launches).
    Raises BadInput if it cannot be read, or its kernels' arguments cannot be made."""
    from hipsynth.source.harness import ensure_main

    harnessed = ensure_main(read_nonempty(path))
    return harnessed.text, harnessed.notes
