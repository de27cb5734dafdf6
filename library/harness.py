"""HIP files as programs that can be optimized: their own headers written in, a main() for kernels without one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from hipsynth.library.programs import read_nonempty


def read_runnable(path: Path, includes: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """(the text of a HIP file with the headers of its folder and of the folders `includes` written in, with a main()
    behind it if it has kernels and none; what was assumed of its launches). Raises BadInput if it cannot be read, or
    its kernels' arguments cannot be made."""
    from hipsynth.source.harness import ensure_main
    from hipsynth.source.own_headers import write_in_headers

    text = write_in_headers(read_nonempty(path), path.parent, [Path(folder) for folder in includes])
    harnessed = ensure_main(text)
    return harnessed.text, harnessed.notes
