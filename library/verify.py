"""`synth verify` as a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from hipsynth.library.programs import read_source
from hipsynth.simulator.devices import choose_arch
from hipsynth.tuning.optimize.documents import VerifyDocument


def verify(
    original: str | Path,
    changed: str | Path,
    *,
    arch: str = "",
    device: str = "",
    flags: str = "-O3",
    args: Sequence[str] = (),
    check_args: Sequence[Sequence[str]] = (),
    allow_fast_math: bool = False,
    on_stage: Callable[[str], None] = lambda _: None,
) -> VerifyDocument:
    """Check that the program `changed` does the same as `original`, and say how much faster it is.

    `args`: the programs' arguments in the runs that are timed; `check_args`: argument lists of small runs whose
    outputs are compared, by default found. `on_stage` is told what is done next. Raises BadInput if the original does
    not run.
    """
    from hipsynth.toolchain import sandbox
    from hipsynth.tuning.optimize.verify_change import VerifyRequest, verify_change
    from hipsynth.tuning.trial import target_of

    sandbox.require_sandbox()
    target_arch = choose_arch(arch, device)
    request = VerifyRequest(
        read_source(Path(original)),
        read_source(Path(changed)),
        target_of(target_arch, flags, device),
        tuple(args),
        [tuple(words) for words in check_args],
        frozenset({"fast-math"} if allow_fast_math else ()),
    )
    return verify_change(request, on_stage).document(Path(original), Path(changed), target_arch, flags)
