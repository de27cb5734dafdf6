"""The checks of a full verification after the first comparison; docs/explanation/honest-gains.md explains each."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import replace

from hipsynth.core.errors import BadInput
from hipsynth.core.reasons import Reason
from hipsynth.simulator.observation import Family
from hipsynth.tuning.optimize.analysis.program_model import read_program
from hipsynth.tuning.optimize.documents import VerificationCheck
from hipsynth.tuning.optimize.evaluate import original_name
from hipsynth.tuning.optimize.transformations.matrix_cores import list_half_products
from hipsynth.tuning.optimize.verification.check_sizes import (
    Arguments,
    default_words,
    draw_edges,
    draw_sizes,
    multiply_sizes,
)
from hipsynth.tuning.optimize.verification.repeated_runs import (
    check_moved_memory,
    check_repeated_calls,
    check_repeated_launches,
)
from hipsynth.tuning.optimize.verification.support import (
    POISON,
    SEEDS,
    OutputSource,
    TrialSource,
    check_each_size,
    copies_of,
    first_size,
    run_both,
    seed_of,
    sum_counters,
)
from hipsynth.tuning.optimize.verification.waiting import check_waiting
from hipsynth.tuning.trial import Conditions, Trial, find_uploaded_results
from hipsynth.tuning.trial.output_elements import ParameterTypes
from hipsynth.tuning.trial.search_clock import LEAST_RUN_S

ON_DEVICE = frozenset({"device_to_device", "fill"})
MOST_FILLED, MOST_FILLED_SHARE = 4096, 0.01  # bytes, and of those that are copied to the host
NARROW = ("F16", "BF16", "I8", "XF32", "F8")
FAST_MATH = ("-ffast-math", "-ffinite-math-only", "-Ofast")  # with these, compilers assume that there are no infinities
LARGER, LARGER_SHARE = (8, 4, 2), 0.2  # factors of the timed size; of the price at which outputs are compared there
FAR_LARGER, FAR_LARGER_S = (512, 64), 1.0  # for more work-groups than a device holds; price up to which that is tried
SAME_WORK = 0.75  # of the arithmetic that is gone
EXACT_ONLY = frozenset({Family.SMALL, Family.INFINITE, Family.ZEROS_AND_INFINITIES})
INTEGERS_ONLY = frozenset({Family.LARGE_INTEGERS, Family.NEGATIVE_INTEGERS, Family.REPEATED_PLACES})
# Where integers turn out to be lengths, a loop may not end: what a run gets, in seconds, and times as long as usual.
LEAST_INTEGERS_S, INTEGERS_TIMES = 5.0, 20.0


def check_precision(source: TrialSource, text: str) -> VerificationCheck:
    """No arithmetic in a narrower type than the original's."""
    conditions = first_size(source)
    before, after = run_both(source, text, conditions)
    if _count_operations(after, "F16") > _count_operations(before, "F16"):
        return VerificationCheck("precision", False, "it calculates with halves where the original does not")
    for ours, theirs in ((before, after), *_pair_kernels(before, after)):
        if _calculates_with_floats(ours, theirs):
            return VerificationCheck("precision", False, "it calculates with floats where the original uses doubles")
    wider = [kind for kind in NARROW if _count_products(after, kind) > _count_products(before, kind)]
    exact = _list_half_products(source, before) if wider else {}
    if any(_count_products(after, kind, exact) > _count_products(before, kind, exact) for kind in wider):
        return VerificationCheck("precision", False, "it multiplies matrices in a narrower type than the original")
    return VerificationCheck("precision", True)


def check_stale_reads(source: TrialSource, text: str) -> VerificationCheck:
    """New allocations and the LDS hold NaNs: nothing may be read that was not written."""

    def check(plain: Conditions) -> VerificationCheck:
        conditions = _watched(plain)
        if not source.reference_trial(conditions).ok:
            return VerificationCheck("stale_memory", None, "the original itself reads memory that it has not written")
        return source.check_equal("stale_memory", text, conditions)

    return check_each_size(source, check)


def _watched(plain: Conditions) -> Conditions:
    return replace(plain, poison=POISON, watch=True)


def check_outside_kernels(source: TrialSource, text: str) -> VerificationCheck:
    """The work is done by kernels: not by the host in device memory, nor by more copies and fills on the device."""
    before, after = run_both(source, text, _watched(first_size(source)))
    if not before.ok:
        return VerificationCheck("outside_kernels", None, "the original itself reads memory that it has not written")
    for count, more, label in (
        (_host_writes, 0.0, "the host writes device memory"),
        (_moved_bytes, _count_more_fills(before, after), "copies and fills move more"),
    ):
        if count(after) > count(before) + more:
            return VerificationCheck(
                "outside_kernels", False, f"{label}: {count(after):g} instead of {count(before):g}"
            )
    for uploaded in find_uploaded_results(before, after, source.tolerance.types or ParameterTypes()):
        results = f"the host copies {uploaded.uploaded} bytes to buffer {uploaded.index}"
        return VerificationCheck("outside_kernels", False, f"{results}, which only kernels of the original write")
    guarded = replace(first_size(source), guard=True)
    before, after = run_both(source, text, guarded)
    if before.ok and after.reason == Reason.HOST_CRASH:
        return VerificationCheck("outside_kernels", False, "the host reads or writes device memory")
    return VerificationCheck("outside_kernels", True)


def check_races(source: OutputSource, text: str) -> VerificationCheck:
    """No two waves use one word, one of them to change it, unless a barrier or atomics put them in order; and no fence
    is left out that makes visible what one group wrote to another one."""
    return check_each_size(source, lambda plain: _check_races_of(source, text, plain))


def _check_races_of(source: OutputSource, text: str, plain: Conditions) -> VerificationCheck:
    before, after = run_both(source, text, replace(plain, races=True, count=True))
    for name, trial in (("original", before), ("changed program", after)):
        if not trial.ok:
            return VerificationCheck(
                "races", None, f"the {name} does not end where accesses are logged: {trial.reason}"
            )
    if before.races:
        return VerificationCheck("races", None, f"the original's own waves race: {before.races[0]}")
    texts = after.races or (() if before.unfenced else after.unfenced)
    return VerificationCheck("races", not texts, "".join(texts[:1]))


def check_other_inputs(source: TrialSource, text: str) -> VerificationCheck:
    """Inputs drawn again, as numbers of several families; those of one family also at the further sizes, where other
    branches may be taken."""
    check = _check_families(source, text, first_size(source), tuple(Family))
    for size in source.further_sizes if check.passed else ():
        further = _check_families(source, text, source.run_conditions(size), (Family.LARGE,))
        if further.passed is False:
            return further
    return check


def _check_families(source: TrialSource, text: str, plain: Conditions, families: Sequence[Family]) -> VerificationCheck:
    checked: list[tuple[Family, VerificationCheck]] = []
    failed = False
    for family, conditions in _drawn_inputs(source, plain, families):
        if family in INTEGERS_ONLY:
            usable = next((drawn for drawn in conditions if _takes_integers(source, plain, drawn)), None)
        else:
            usable = next((drawn for drawn in conditions if run_both(source, text, drawn)[0].ok), None)
            failed |= usable is None
        usual = copies_of(source.reference_trial(plain))
        if usable is None or copies_of(source.reference_trial(usable)) == usual:
            continue
        check = source.check_equal("other_inputs", text, usable)
        if not check.passed:
            return replace(check, detail=f"inputs of the family {family.name.lower()}, {check.detail}")
        checked.append((family, check))
    if checked:
        names = ", ".join(dict.fromkeys(family.name.lower() for family, _ in checked))
        return replace(checked[0][1], detail=f"{checked[0][1].detail}; families: {names}")
    if failed:
        return VerificationCheck("other_inputs", None, "the original fails on inputs that are drawn again")
    return VerificationCheck("other_inputs", None, "no result depends on data that could be drawn again")


def _takes_integers(source: TrialSource, plain: Conditions, drawn: Conditions) -> bool:
    """Whether integers are data to the original: other ones change its results, but lead to no fault and no race."""
    trial = source.reference_trial(drawn)
    if not trial.ok or copies_of(trial) == copies_of(source.reference_trial(plain)):
        return False
    logged = source.reference_trial(replace(drawn, races=True))
    return logged.ok and not logged.races


def _drawn_inputs(
    source: TrialSource, plain: Conditions, families: Sequence[Family]
) -> Iterator[tuple[Family, list[Conditions]]]:
    """Each family with its conditions: first also integers, which may make the original fail, then floating point."""
    fast = any(flag in source.target.flags for flag in FAST_MATH)
    for family in families:
        if fast and family in EXACT_ONLY:
            continue
        for seed in SEEDS if family == Family.SCALED else (SEEDS[0] + family,):
            drawn = replace(plain, redraw=seed, family=family)
            integers = replace(drawn, redraw_integers=True)
            time_s = max(LEAST_INTEGERS_S, INTEGERS_TIMES * source.reference_trial(plain).cpu_s)
            short = replace(integers, time_s=min(plain.time_s, time_s))
            yield family, [short] if family in INTEGERS_ONLY else [integers, drawn]


def check_other_sizes(source: TrialSource, text: str) -> VerificationCheck:
    """The outputs at the other sizes, and at some that whoever wrote the changed program did not know."""
    sizes = [*source.sizes[1:], *_unknown_sizes(source, text)]
    if not sizes:
        return VerificationCheck("other_sizes", None, "the program takes no size as an argument")
    checks = [source.check_equal("other_sizes", text, source.run_conditions(size)) for size in sizes]
    return next((check for check in checks if not check.passed), checks[0])


def _unknown_sizes(source: TrialSource, text: str) -> Iterator[Arguments]:
    """The first of the drawn sizes at which the original runs, and leaves no more than is kept, if so elsewhere; and
    those of the edges, and larger than what is timed, at which it does."""
    keeps_all = source.keeps_outputs(source.sizes[0])

    def is_usable(size: Arguments, most_s: float = math.inf) -> bool:
        if size in source.sizes or not source.try_size(size, most_s=most_s):
            return False
        return not keeps_all or source.keeps_outputs(size)

    def fits(size: Arguments, most_s: float = math.inf) -> bool:
        return not source.clock.late and is_usable(size, most_s)

    seed = seed_of(source.original + text)
    yield from itertools.islice(filter(is_usable, draw_sizes(source.sizes[0], seed)), 1)
    yield from filter(fits, draw_edges(source.original, source.sizes[0], seed))
    for *far_larger, larger in _list_larger(source):
        usable = (size for size in far_larger if fits(size, LEAST_RUN_S))
        yield from itertools.islice(itertools.chain(usable, filter(fits, [larger])), 1)


def _list_larger(source: TrialSource) -> Iterator[tuple[Arguments, ...]]:
    """For each argument, the timed size with that one multiplied, by as much as can be executed in a part of the usual
    time last, and by much more before it where that takes next to no time: work may grow by more than the factor."""
    if source.timed is None:
        return
    words = source.timed[0].arguments or default_words(source.original)
    exact_s = max(run.exact_s for run in source.timed)
    factors = [by for by in FAR_LARGER if by * exact_s <= FAR_LARGER_S]
    factors += [by for by in LARGER if by * exact_s <= LARGER_SHARE * source.most_exact_s][:1]
    yield from zip(*(multiply_sizes(words, factor) for factor in factors), strict=True)


# Outputs come first, those at the timed size before all: the later checks are also made at further sizes.
CHECKS: tuple[Callable[[TrialSource, str], VerificationCheck], ...] = (
    check_other_sizes,
    check_precision,
    check_outside_kernels,
    check_stale_reads,
    check_races,
    check_other_inputs,
    check_repeated_launches,
    check_moved_memory,
    check_repeated_calls,
    check_waiting,
)


def _host_writes(trial: Trial) -> float:
    return sum(output.bytes for output in trial.outputs if output.kind == "host_writes")


def _moved_bytes(trial: Trial, kinds: Set[str] = ON_DEVICE) -> float:
    """Bytes copied within the device, or filled, by the runtime."""
    return sum(transfer.bytes for transfer in trial.transfers if transfer.kind in kinds)


def _count_more_fills(before: Trial, after: Trial) -> float:
    """Bytes that a changed program may fill and the original does not: sums by atomics begin with zeros."""
    copied = sum(output.bytes for output in before.outputs if output.kind == "copy")
    more = _moved_bytes(after, {"fill"}) - _moved_bytes(before, {"fill"})
    return min(max(0.0, more), max(MOST_FILLED, MOST_FILLED_SHARE * copied))


def _calculates_with_floats(before: Trial, after: Trial) -> bool:
    """Whether half of the arithmetic in doubles is gone and there is more in floats, conversions included; or nearly as
    much more without them: a function of a float, such as a square root, takes a tenth of the instructions."""
    lost = _count_doubles(before) - _count_doubles(after)
    gained = _count_operations(after, "F32") - _count_operations(before, "F32")
    more = _count_floats(after) > _count_floats(before) or gained >= SAME_WORK * lost
    return lost > 0.5 * _count_doubles(before) and more


def _pair_kernels(before: Trial, after: Trial) -> Iterator[tuple[Trial, Trial]]:
    """Both trials with one kernel alone, for each that both have."""
    for name in dict.fromkeys(original_name(kernel.name) for kernel in before.kernels):
        ours, theirs = (
            replace(trial, kernels=tuple(each for each in trial.kernels if original_name(each.name) == name))
            for trial in (before, after)
        )
        if theirs.kernels:
            yield ours, theirs


def _count_doubles(trial: Trial) -> float:
    """Instructions of a wavefront; matrix instructions are counted in units of 512 operations, as many as four of these
    have."""
    return _count_operations(trial, "F64") + 4 * _count_products(trial, "F64")


def _count_floats(trial: Trial) -> float:
    """Instructions of a wavefront in single precision, and conversions: a program that only shares what it calculated
    twice has no more of them."""
    return _count_operations(trial, "F32") + sum_counters(trial, ("SQ_INSTS_VALU_CVT",))


def _count_products(trial: Trial, kind: str, exact: Mapping[str, str] | None = None) -> float:
    """The work of matrix instructions, without kernels whose products of halves are `exact` in this kind."""
    return sum(
        kernel.counters.get(f"SQ_INSTS_VALU_MFMA_MOPS_{kind}", 0.0) * kernel.dispatches
        for kernel in trial.kernels
        if (exact or {}).get(original_name(kernel.name)) != kind
    )


def _list_half_products(source: TrialSource, before: Trial) -> dict[str, str]:
    """The original's kernels that do nothing in their loop but add products of halves -> the kind of these: matrix
    instructions of that kind round nothing that the original does not round."""
    try:
        program = read_program(source.original, source.target.arch, source.target.flags)
    except BadInput:
        return {}
    blocks = {original_name(kernel.name): kernel.block for kernel in before.kernels}
    kinds = list_half_products(program, blocks)
    return {name: "BF16" if "bfloat" in kind else "F16" for name, kind in kinds.items()}


def _count_operations(trial: Trial, kind: str) -> float:
    return sum_counters(trial, [f"SQ_INSTS_VALU_{operation}_{kind}" for operation in ("ADD", "MUL", "FMA", "TRANS")])
