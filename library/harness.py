"""HIP files as programs that can be optimized: their own headers written in, a main() for kernels without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hipsynth.library.programs import read_nonempty

if TYPE_CHECKING:
    from hipsynth.profiling.backends.protocol import Target


def read_runnable(path: Path, target: Target, includes: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """(the text of a HIP file with the headers of its folder and of the folders `includes` written in, with a main()
    behind it if it has kernels and none; what was assumed of its launches). Raises BadInput if it cannot be read, or
    its kernels' arguments cannot be made."""
    from hipsynth.source.harness import lacks_main
    from hipsynth.source.own_headers import write_in_headers
    from hipsynth.tuning.trial.fitting_main import add_fitting_main

    text = write_in_headers(read_nonempty(path), path.parent, [Path(folder) for folder in includes])
    if not lacks_main(text):
        return text, ()
    harnessed = add_fitting_main(text, target)
    return harnessed.text, harnessed.notes
