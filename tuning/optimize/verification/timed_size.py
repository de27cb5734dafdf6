"""The check of a program at the size that is timed: in full where that is cheap, else in windows of its grid."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement
from hipsynth.tuning.optimize.verification.check_sizes import Arguments, default_words, divide_sizes
from hipsynth.tuning.optimize.verification.support import (
    POISON,
    TrialSource,
    run_both,
    seed_of,
    sum_counters,
)
from hipsynth.tuning.trial import Conditions, Trial, differing_outputs, map_at_once, same_allocations
from hipsynth.tuning.trial.output_elements import ParameterTypes
from hipsynth.tuning.trial.paired_buffers import leaves_results_out
from hipsynth.tuning.trial.rounding import Array, compare_numbers

LEAST_GROWTH = 0.5  # of work from a checked size to the timed one, relative to the original's
WORK = {
    "loads": ["TCP_TOTAL_READ"],
    "stores": ["TCP_TOTAL_WRITE"],
    "vector instructions": ["SQ_INSTS_VALU"],
    "LDS instructions": ["SQ_INSTS_LDS"],
}
ATOMICS = ["TCC_ATOMIC"]
BETWEEN = (2, 4, 8, 16)  # by which sizes are divided for one between the checked ones and the timed one
WINDOW_BYTES = 128 << 20  # of outputs that are kept for a comparison in windows
MOST_WINDOWS = 4096  # of which one is executed
LEAST_WRITTEN = 0.5  # of what the original writes
PARTS = 8  # of a grid, each with one window (simulator/native/core/functional.cpp)


def check_timed_size(source: TrialSource, text: str) -> VerificationCheck:
    """Outputs at the timed size, of which there must be one; where that takes too long, those of windows of the grid,
    and work must grow from the largest checked size as the original's does, and as much must be copied to the host."""
    assert source.timed is not None
    before, after = source.timed
    plain = source.run_conditions(before.arguments)
    full = replace(plain, count=False, time_s=max(plain.time_s, 2 * source.most_exact_s))
    short = max(before.exact_s, after.exact_s) <= source.most_exact_s and not source.clock.late
    compared: VerificationCheck | None = None
    if short and (trials := run_both(source, text, full))[0].ok:
        check = _compare_in_full(source, text, full)
        complete = all(output.recorded == output.bytes for output in trials[0].outputs)
        if check.passed and not same_allocations(*trials):
            compared = check  # of memory, not all is
        elif check.passed or complete:
            return check
    if before.copied_bytes != after.copied_bytes:
        copied = f"{after.copied_bytes} bytes instead of {before.copied_bytes}"
        return VerificationCheck("timed_size", False, f"at the size that is timed, it copies {copied} to the host")
    fault = _find_missing_growth(source, text, before, after)
    if fault:
        return VerificationCheck("timed_size", False, f"at the size that is timed, it makes {fault}")
    if compared:
        return compared
    if source.clock.late or not _is_one_launch(before) or not _is_one_launch(after):
        return VerificationCheck("timed_size", True, "work grows as the original's")
    return _compare_windows(source, text, full, (before, after))


def _compare_in_full(source: TrialSource, text: str, full: Conditions) -> VerificationCheck:
    """Both programs with their wavefronts in the order of plain execution; where the original's own outputs depend on
    it, as its wavefronts race, in that of the timing model."""
    check = source.check_equal("timed_size", text, full)
    timed = replace(full, count=True)
    if check.passed or not differing_outputs(source.reference_trial(full), source.reference_trial(timed)):
        return check
    check = source.check_equal("timed_size", text, timed)
    return replace(check, detail=f"{check.detail}; the original's own outputs depend on the order of its wavefronts")


def _find_missing_growth(
    source: TrialSource, text: str, before: CandidateMeasurement, after: CandidateMeasurement
) -> str:
    """What does not grow as the original's from the largest checked size. Tiles that are not full there make it look
    so, or rows that are short there: then a size between decides, at which the outputs must be equal, too; not where
    some of these are not compared."""
    conditions = [source.run_conditions(size) for size in source.sizes]
    largest = max(conditions, key=lambda size: source.reference_trial(size).duration_ns)
    trials = run_both(source, text, largest)
    fault = _compare_growth(trials, before, after)
    if not fault or source.clock.late or leaves_results_out(*trials, source.tolerance.types or ParameterTypes()):
        return fault
    for size in _list_between(source, before.arguments, max(before.exact_s, after.exact_s)):
        between = source.run_conditions(size)
        trials = run_both(source, text, between)
        original, changed = trials
        if not original.ok:
            continue  # a shape that the program does not take
        if not changed.ok or not source.check_equal("timed_size", text, between).passed:
            break
        if not _compare_growth(trials, before, after):
            return ""
        if source.clock.late:
            break
    return fault


def _list_between(source: TrialSource, arguments: Arguments, exact_s: float) -> Iterator[Arguments]:
    """Sizes between the checked ones and the timed one that run in full within the usual time: all of them divided,
    then each alone, by as much as possible, so that a kernel for rows of some length meets such rows, but few."""
    words = arguments or default_words(source.original)
    for only in (None, *(range(len(words)) if len(words) > 1 else ())):
        for factor in BETWEEN if only is None else reversed(BETWEEN):
            size = divide_sizes(words, factor, only)
            if size != words and exact_s / factor <= source.most_exact_s:
                yield size
                break


def _compare_growth(trials: Sequence[Trial], before: CandidateMeasurement, after: CandidateMeasurement) -> str:
    for work, names in WORK.items():
        small = [sum_counters(trial, names) for trial in trials]
        large = before.counted(names), after.counted(names)
        if min(*small, *large) > 0 and large[1] / large[0] < LEAST_GROWTH * min(1.0, small[1] / small[0]):
            return f"{large[1] / small[1]:.3g} times as many, the original {large[0] / small[0]:.3g} times {work}"
    return ""


def _is_one_launch(timed: CandidateMeasurement) -> bool:
    """Whether the words that a work-group writes are final: there is one launch, without atomics."""
    return sum(kernel.dispatches for kernel in timed.kernels) == 1 and not timed.counted(ATOMICS)


def _compare_windows(
    source: TrialSource, text: str, full: Conditions, timed: tuple[CandidateMeasurement, CandidateMeasurement]
) -> VerificationCheck:
    """Compares the words that both programs write in the same windows of their grids, which nobody can know."""
    grows = "work grows as the original's"
    one_in = math.ceil(max(2.0, *(run.exact_s / source.most_exact_s for run in timed)))
    if one_in > MOST_WINDOWS:
        return VerificationCheck("timed_size", True, grows)
    window = replace(
        full, record_bytes=WINDOW_BYTES, poison=POISON, poison_results=True, one_in=one_in,
        which=seed_of(source.original + text) % one_in,
    )  # fmt: skip
    only_first = replace(window, which=one_in)  # of the work-groups
    wanted = ((source.original, only_first), (source.original, window), (text, window))
    nothing, before, after = map_at_once(lambda run: source.run_once(*run), wanted)
    if not nothing.ok or not before.ok:
        return VerificationCheck("timed_size", True, grows)
    if not after.ok:
        return VerificationCheck("timed_size", False, f"at the size that is timed, it fails: {after.message[:200]}")
    written = [_find_written(nothing, before, after, number) for number in _find_copies(nothing, before, after)]
    counts = [
        sum(int(words[which].sum()) for words in written) / _executed_share(run, one_in)
        for which, run in enumerate(timed)
    ]
    if counts[1] < LEAST_WRITTEN * counts[0]:
        less = f"it writes about {counts[1]:.3g} pieces of 8 bytes, as windows of the grid show, not {counts[0]:.3g}"
        return VerificationCheck("timed_size", False, f"at the size that is timed, {less}")
    compared = 0
    for number, words in zip(_find_copies(nothing, before, after), written, strict=True):
        both = words[0] & words[1]
        compared += int(both.sum())
        fault = _compare_words(before, after, number, both, source)
        if fault:
            return VerificationCheck("timed_size", False, f"in windows of the grid that is timed, a copy {fault}")
    return VerificationCheck("timed_size", True, f"{compared} words in windows of the grid are equal; {grows}")


def _executed_share(timed: CandidateMeasurement, one_in: int) -> float:
    """The share of a grid that its windows are."""
    groups = max(math.prod(kernel.grid) for kernel in timed.kernels)
    part = -(-groups // PARTS)
    return min(1.0, PARTS * max(1, part // one_in) / groups)


def _find_copies(*trials: Trial) -> list[int]:
    """The places of copies to the host that were kept of all trials."""
    outputs = zip(*(trial.outputs for trial in trials), strict=False)
    return [
        number
        for number, same in enumerate(outputs)
        if all(output.kind == "copy" and output.bytes == same[0].bytes for output in same)
        and not same[0].bytes % 8
        and all(number in (trial.recorded or {}) for trial in trials)
    ]


def _words_of(trial: Trial, number: int, size: int = 4) -> Array:
    return np.frombuffer((trial.recorded or {})[number], np.uint64 if size == 8 else np.uint32)


def _find_written(nothing: Trial, before: Trial, after: Trial, number: int) -> tuple[Array, Array]:
    """Pieces of 8 bytes that each program writes as a whole: they differ from what is there without its windows, and
    are not what memory holds before. The first work-group runs in `nothing`, too, and may be in no other window."""
    plain = _words_of(nothing, number)
    runs = (_words_of(before, number), _words_of(after, number))
    ours, theirs = (((words != plain) & (words != POISON)).reshape(-1, 2).all(axis=1) for words in runs)
    return ours, theirs


def _compare_words(before: Trial, after: Trial, number: int, both: Array, source: TrialSource) -> str:
    ours, theirs = (_words_of(trial, number, 8)[both] for trial in (before, after))
    if np.array_equal(ours, theirs):
        return ""
    tolerance = source.tolerance.for_output(before.outputs[number])
    if not tolerance.kind:
        return "differs"
    return compare_numbers(ours.tobytes(), theirs.tobytes(), tolerance.kind, tolerance.relative).reason
