"""`synth optimize` as a function."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from hipsynth.library.harness import read_runnable
from hipsynth.simulator.devices import choose_arch
from hipsynth.tuning.optimize.documents import OptimizeDocument


def optimize(
    path: str | Path,
    *,
    arch: str = "",
    device: str = "",
    flags: str = "-O3",
    args: Sequence[str] = (),
    check_args: Sequence[Sequence[str]] = (),
    budget_s: float = 60.0,
    clock_s: float = 0.0,
    allow_fast_math: bool = False,
    out: str | Path | None = None,
    say: Callable[[str], None] = lambda line: None,
) -> OptimizeDocument:
    """Search for source changes that make a HIP program's kernels faster, and verify them.

    `budget_s` is work at fixed prices, the same on every machine, `clock_s` the longest time on the clock (0: 1.2 times
    the budget). A faster program is written to `out`, by default NAME.optimized.hip in the current folder; `say` is
    told each step. Raises BadInput for a source without a kernel, HipsynthError for a program that does not run.
    """
    from hipsynth.core.files import write_whole
    from hipsynth.toolchain import sandbox
    from hipsynth.tuning.optimize.optimize import OptimizeRequest, optimize_program
    from hipsynth.tuning.trial import target_of

    sandbox.require_sandbox()
    file, target_arch = Path(path), choose_arch(arch, device)
    text, notes = read_runnable(file)
    for note in notes:
        warnings.warn(note, stacklevel=2)
    request = OptimizeRequest(
        text,
        target_of(target_arch, flags, device),
        budget_s,
        tuple(args),
        [tuple(words) for words in check_args],
        clock_s=clock_s,
        allow=frozenset({"fast-math"} if allow_fast_math else ()),
    )
    result = optimize_program(request, say)
    patched = Path(out or f"{file.stem}.optimized.hip") if result.status == "improved" else None
    if patched is not None:
        write_whole(patched, result.text)
    return result.document(file, target_arch, flags, patched)
