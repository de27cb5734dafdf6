"""Kernels without a main() as programs that can be optimized."""

from __future__ import annotations

from pathlib import Path

from hipsynth.library.programs import read_source


def read_runnable(path: Path) -> tuple[str, tuple[str, ...]]:
    """(the text of a HIP file, with a main() behind it if it has kernels and none; what was assumed of its launches).
    Raises BadInput if it cannot be read, or its kernels' arguments cannot be made."""
    from hipsynth.source.harness import HarnessChoices, add_harness, lacks_main

    text = read_source(path)
    if not lacks_main(text):
        return text, ()
    harnessed = add_harness(text, HarnessChoices())
    return harnessed.text, harnessed.notes
