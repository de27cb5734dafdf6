"""What `synth verify` and `synth optimize` print for people."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from hipsynth.core.reasons import Reason
from hipsynth.tuning.optimize.confirm import list_losses
from hipsynth.tuning.optimize.documents import (
    OptimizeDocument,
    SearchEnd,
    SearchStatus,
    ShapeSpeedup,
    VerificationCheck,
    VerifyDocument,
)

_FOUND = {True: "passed", False: "FAILED", None: "not possible"}
_ENDED = {
    SearchEnd.BUDGET: "the search ended with its budget; a larger one may find more",
    SearchEnd.CLOCK: "the clock ended the search before its budget was used; a longer one gives it more time",
}

_STAYS = {
    Reason.SEVERAL_SHAPES: "its groups keep their order, and its loops are not split over groups",
    Reason.OVERLOADED: "its groups keep their order, and its launches are not joined with others",
}


def describe_speedup(speedup: float) -> str:
    """How many times as fast something is, or how many times slower, with three digits."""
    if round(speedup, 2) >= 1:
        return f"{speedup:.2f} times as fast"
    if speedup <= 0:
        return "over 10000 times slower"
    slower = 1 / speedup
    return f"{slower:.{max(0, 2 - int(math.log10(slower)))}f} times slower"


def verification_text(document: VerifyDocument) -> str:
    """Each check and what it found."""
    last = "not verified" if document.speedup is None else f"verified; {describe_speedup(document.speedup)}"
    return "\n".join([*_check_lines(document.checks), last])


def optimization_text(document: OptimizeDocument, diff: str = "") -> str:
    """What the search found; `diff`: of the faster program."""
    lines = list(_search_lines(document))
    if document.status != SearchStatus.IMPROVED:
        return "\n".join([*lines, f"{document.status}: {document.reason}"])
    changes = [diff.rstrip(), ""] if diff else []
    lines += [*changes, *_check_lines(document.verified.checks), *_gain_lines(document)]
    return "\n".join([*lines, f"patched program: {document.patched}"])


def _check_lines(checks: Iterable[VerificationCheck]) -> Iterator[str]:
    for check in checks:
        detail = f" ({check.detail})" if check.detail else ""
        yield f"{check.name.replace('_', ' ')}: {_FOUND[check.passed]}{detail}"


def _search_lines(document: OptimizeDocument) -> Iterator[str]:
    """What the search could not do, and why it ended."""
    less = "no rewriting by work-item" if document.language == "hip" else "meta-parameters stay"
    yield from (f"kernel {name}: {less}, because {why}" for name, why in document.refused.items())
    yield from (f"kernel {name}: {_STAYS[why]}, because {why.meaning}" for name, why in document.limited.items())
    yield from (f"{name} was left out, by a fault of its own: {why}" for name, why in document.left_out.items())
    if document.ended in _ENDED:
        yield _ENDED[document.ended]


def _gain_lines(document: OptimizeDocument) -> Iterator[str]:
    """How much faster the program is, and where."""
    times = f"{document.before_ns / 1e3:.1f} us -> {document.after_ns / 1e3:.1f} us"
    yield f"{times}: {describe_speedup(document.speedup)}{_describe_losses(list_losses(document.shapes))}"
    for gain in document.gains:
        yield f"{gain.kernel}: {describe_speedup(gain.speedup)}, {100 * gain.share:.0f} % of the time before"
    if document.uncertainty:
        yield f"uncertainty of that, as the grid was sampled: {100 * document.uncertainty:.1f} %"
    for shape in document.shapes[1:]:
        yield f"at {_describe_arguments(shape)} ({shape.kind}): {describe_speedup(shape.speedup)}"
    for kernel, condition in document.dispatch.items():
        yield f"{kernel} is changed for {condition}; other sizes launch the original"


def _describe_losses(shapes: Sequence[ShapeSpeedup]) -> str:
    """The shapes at which the answer is slower, to stand behind the speed-up."""
    if not shapes:
        return ""
    slower = " and ".join(f"{describe_speedup(shape.speedup)} at {_describe_arguments(shape)}" for shape in shapes)
    return f", but {slower}: keep the original for such sizes"


def _describe_arguments(shape: ShapeSpeedup) -> str:
    return " ".join(shape.arguments) or "no arguments"
