"""Compares two profile documents: durations with their uncertainty, causes, metrics and counters."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hipsynth.core.errors import BadInput
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import describe_target
from hipsynth.profiling.compare.documents import (
    ChangeCause,
    CompareDocument,
    ComparedSide,
    DurationPair,
    KernelPair,
    MetaPair,
    Pairing,
    QuantityPair,
    TargetName,
    TargetPair,
    Verdict,
)
from hipsynth.profiling.compare.line_pairs import ReadLines, pair_lines, read_no_lines
from hipsynth.profiling.compare.pairing import pair_kernels, pair_targets
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.profiling.metrics.uncertainty import DURATION as DURATION_METRIC
from hipsynth.profiling.reports.documents import ProfiledKernel, ProfileDocument, ProfileResult

# Two kernels of one device: the model errs alike on both, so that their ratio is more certain than either. 80 % of the
# ratios of recorded kernels of one study are within FLOOR and OF_CHANGE times the change (both natural logarithms,
# added as independent errors); tests/unit/compare/test_differ.py computes that share from the validation pages.
FLOOR, OF_CHANGE = 0.05, 0.20
UNKNOWN_RANGE = 0.5  # of a duration on a device without recordings
LIMITING = 0.5  # units with at least this share of the largest bound may explain a change
LEAST_FACTOR_PERCENT = 200.0  # larger changes are said as factors
LEAST_EXPLAINING_CHANGE = 0.02  # smallest relative change of a counter that explains one


@dataclass(frozen=True)
class _Explanation:
    """A counter that explains the time of units, and what it counts."""

    units: tuple[str, ...]
    counter: str
    title: str


EXPLANATIONS = (
    _Explanation(("hbm", "infinity", "fabric", "write_back"), "TCC_MISS", "L2 misses"),
    _Explanation(("l2",), "TCC_REQ", "L2 requests"),
    _Explanation(("vl1d",), "TCP_TOTAL_CACHE_ACCESSES", "vL1D look-ups"),
    _Explanation(("lds",), "SQ_LDS_BANK_CONFLICT", "LDS bank conflicts"),
    _Explanation(("lds",), "SQ_INSTS_LDS", "LDS instructions"),
    _Explanation(("valu",), "SQ_INSTS_VALU", "vector instructions"),
    _Explanation(("mfma",), "SQ_INSTS_MFMA", "matrix instructions"),
    _Explanation(("salu",), "SQ_INSTS_SALU", "scalar instructions"),
    _Explanation(("atomics",), "TCC_ATOMIC", "atomics"),
    _Explanation(("dispatch",), "SQ_WAVES", "waves"),
    _Explanation(("latency",), "SQ_INSTS_VMEM", "vector memory instructions"),
)


def compare_profiles(
    first: ProfileDocument,
    second: ProfileDocument,
    names: tuple[str, str] | None = None,
    slower_limit_percent: float | None = None,
    readers: tuple[ReadLines, ReadLines] = (read_no_lines, read_no_lines),
) -> CompareDocument:
    """What differs between two profiles. `names`: as the user gave them, by default their paths; `readers`: give the
    lines of A's and B's files, by default none, since a profile that was read may name any file;
    `slower_limit_percent`: how much longer a kernel, or all together, may take before `slower` names it; raises
    BadInput with one if a program failed or did not run to its end, since what it would have launched has no time."""
    name_a, name_b = names or (first.program.path, second.program.path)
    pairs, only_a, only_b = pair_targets(first.results, second.results)
    targets = tuple(_compare_target(a, b, readers) for a, b in pairs)
    if slower_limit_percent is not None:
        if not any(target.kernels for target in targets):
            cause = (
                "A and B have no target in common" if not targets else "no kernel of one has a counterpart in the other"
            )
            raise BadInput("nothing to judge", cause=cause, remedy="profile both for the same devices and flags")
        if any(is_simulated(a.kernels) != is_simulated(b.kernels) for a, b in pairs if a.kernels and b.kernels):
            cause = "one side was measured, the other simulated: they differ by the simulator's error, too"
            raise BadInput("nothing to judge", cause=cause, remedy="measure both, or simulate both")
        for name, failures in ((name_a, [t.failure_a for t in targets]), (name_b, [t.failure_b for t in targets])):
            _require_success(name, failures)
    slower = () if slower_limit_percent is None else tuple(_list_slower(targets, slower_limit_percent))
    return CompareDocument(
        ComparedSide(name_a, first.program.id),
        ComparedSide(name_b, second.program.id),
        targets,
        tuple(map(_target_name, only_a)),
        tuple(map(_target_name, only_b)),
        slower_limit_percent,
        slower,
    )


def _target_name(result: ProfileResult) -> TargetName:
    return TargetName(result.arch, result.device, result.flags)


def _require_success(name: str, failures: Sequence[str]) -> None:
    """Raises BadInput for a program that failed on a target."""
    for failure in filter(None, failures):
        remedy = "mend it, or compare without a limit: what ran is compared then"
        raise BadInput(f"{name} cannot be judged by its time: it failed", cause=failure, remedy=remedy)


def _describe_failure(result: ProfileResult, other: ProfileResult) -> str:
    """Why a program did not run to its end, or failed there though the other one did not; "" if it did neither. Of
    sampled kernels no results are computed, so that the exit code says nothing."""
    if result.status == RunStatus.OK:
        is_sampled = any(kernel.sampled for kernel in result.kernels)
        if not result.exit_code or is_sampled or result.exit_code == other.exit_code:
            return ""
        return f"it ended with exit code {result.exit_code}" + (f": {result.message}" if result.message else "")
    reason = result.reason.meaning if result.reason else f"status {result.status}"
    return f"{reason} ({result.message})" if result.message and result.message != reason else reason


def _list_slower(targets: Sequence[TargetPair], limit: float) -> Iterator[str]:
    for target in targets:
        where = describe_target(target.b.arch, target.b.device, target.b.flags)
        for kernel in target.kernels:
            if kernel.duration.change_percent > limit:
                yield f"{kernel.name_b} on {where}: {kernel.summary}"
        if target.total is not None and target.total.change_percent > limit:
            yield f"all kernels on {where}: slower by {target.total.change_percent:.3g} %"


def _compare_target(a: ProfileResult, b: ProfileResult, readers: tuple[ReadLines, ReadLines]) -> TargetPair:
    pairs, only_a, only_b = pair_kernels(a.kernels, b.kernels)
    same_device = a.device == b.device
    kernels = tuple(_compare_kernels(x, y, by, same_device, readers) for x, y, by in pairs)
    total = None
    if a.kernels and b.kernels:
        sums = [sum(kernel.duration_ns * kernel.dispatches for kernel in side.kernels) for side in (a, b)]
        total = _compare_durations(sums[0], sums[1], _total_uncertainty(a.kernels, b.kernels, same_device))
    return TargetPair(
        _target_name(a),
        _target_name(b),
        total,
        kernels,
        tuple(kernel.name for kernel in only_a),
        tuple(kernel.name for kernel in only_b),
        _describe_failure(a, b),
        _describe_failure(b, a),
    )


def _compare_kernels(
    a: ProfiledKernel, b: ProfiledKernel, paired_by: Pairing, same_device: bool, readers: tuple[ReadLines, ReadLines]
) -> KernelPair:
    sigma = _ratio_uncertainty(a, b, same_device)
    duration = _compare_durations(a.duration_ns, b.duration_ns, sigma)
    causes = tuple(_find_causes(a, b))
    return KernelPair(
        name=a.name,
        name_b=b.name,
        paired_by=paired_by,
        grid_a=a.grid,
        grid_b=b.grid,
        block_a=a.block,
        block_b=b.block,
        dispatches_a=a.dispatches,
        dispatches_b=b.dispatches,
        duration=duration,
        causes=causes,
        limit_a=a.bottleneck.summary if a.bottleneck else "",
        limit_b=b.bottleneck.summary if b.bottleneck else "",
        metrics=_pair_quantities({**a.metrics, **a.extra_metrics}, {**b.metrics, **b.extra_metrics}),
        counters={n: pair for n, pair in _pair_quantities(a.counters, b.counters).items() if pair.a != pair.b},
        summary=describe_change(duration, causes),
        language_a=a.language,
        language_b=b.language,
        meta=_pair_meta(a, b),
        lines=pair_lines(a, b, *readers),
    )


def _pair_meta(a: ProfiledKernel, b: ProfiledKernel) -> dict[str, MetaPair] | None:
    """What the two were specialized for, in the order of A; None if neither is a Triton kernel."""
    if a.meta is None and b.meta is None:
        return None
    first, second = a.meta or {}, b.meta or {}
    return {name: MetaPair(first.get(name), second.get(name)) for name in {**first, **second}}


def _pair_quantities(a: Mapping[str, float | None], b: Mapping[str, float | None]) -> dict[str, QuantityPair]:
    pairs = {}
    for name in [*a, *(name for name in b if name not in a)]:
        x, y = a.get(name), b.get(name)
        pairs[name] = QuantityPair(x, y, None if not x or y is None else 100 * (y / x - 1))
    return pairs


def _compare_durations(a_ns: float, b_ns: float, sigma: float | None) -> DurationPair:
    """`sigma`: the uncertainty of the ratio's logarithm."""
    if a_ns <= 0 or b_ns <= 0:  # a program may have forged it
        return DurationPair(a_ns, b_ns, 0.0, 0.0, None, "uncertain")
    ratio = b_ns / a_ns
    uncertainty = None if sigma is None else 100 * ratio * math.expm1(sigma)
    verdict: Verdict = "faster" if ratio < 1 else "slower"
    if ratio == 1:
        verdict = "equal"
    elif sigma is not None and abs(math.log(ratio)) <= sigma:
        verdict = "uncertain"
    return DurationPair(a_ns, b_ns, 1 / ratio, 100 * (ratio - 1), uncertainty, verdict)


def _ratio_uncertainty(a: ProfiledKernel, b: ProfiledKernel, same_device: bool) -> float | None:
    """The uncertainty of the logarithm of two durations' ratio, as far as they are simulated; None if both were
    measured."""
    simulated = [kernel for kernel in (a, b) if kernel.bottleneck is not None]
    if not simulated or not a.duration_ns > 0 or not b.duration_ns > 0:
        return None
    if len(simulated) == 1:
        (kernel,) = simulated
        return math.hypot(float(kernel.error_estimate.get(DURATION_METRIC, 0.0)), _duration_range(kernel))
    if same_device and a.counters == b.counters and a.duration_ns == b.duration_ns:
        return 0.0  # the model says the same of both, whatever it errs by
    sampling = [float(kernel.error_estimate.get(DURATION_METRIC, 0.0)) for kernel in (a, b)]
    if same_device:
        model = [FLOOR, OF_CHANGE * abs(math.log(b.duration_ns / a.duration_ns))]
    else:  # another device errs in its own way
        model = [_duration_range(a), _duration_range(b)]
    return math.hypot(*sampling, *model)


def _duration_range(kernel: ProfiledKernel) -> float:
    """The relative error that 8 of 10 durations of the kernel's class stay within."""
    error = (kernel.expected_error or {}).get(DURATION_METRIC)
    if error is None:
        return UNKNOWN_RANGE
    return (error.median if error.range is None else error.range) / 100


def _total_uncertainty(
    first: Sequence[ProfiledKernel], second: Sequence[ProfiledKernel], same_device: bool
) -> float | None:
    """As _ratio_uncertainty(), of all launches together."""
    if all(kernel.bottleneck is None for kernel in [*first, *second]):
        return None
    sums, errors = [], list[float]()
    for kernels in (first, second):
        times = [kernel.duration_ns * kernel.dispatches for kernel in kernels]
        sums.append(sum(times))
        parts = zip(times, kernels, strict=True)
        if not sums[-1] > 0:
            return None
        errors += [t / sums[-1] * float(kernel.error_estimate.get(DURATION_METRIC, 0.0)) for t, kernel in parts]
    if sums[0] == sums[1] and [k.counters for k in first] == [k.counters for k in second] and same_device:
        return 0.0
    if same_device and is_simulated(first) and is_simulated(second):
        return math.hypot(*errors, FLOOR, OF_CHANGE * abs(math.log(sums[1] / sums[0])))
    ranges = [max(map(_duration_range, side)) for side in (first, second) if is_simulated(side)]
    return math.hypot(*errors, *ranges)


def is_simulated(kernels: Sequence[ProfiledKernel]) -> bool:
    """Whether the durations of a side come from the timing model, not from hardware."""
    return any(kernel.bottleneck is not None for kernel in kernels)


def _find_causes(a: ProfiledKernel, b: ProfiledKernel) -> Iterator[ChangeCause]:
    """The units whose time changed most in the direction of the duration, among those that limited the slower one."""
    if a.bottleneck is None or b.bottleneck is None or a.duration_ns == b.duration_ns:
        return
    times = [{bound.unit: bound.ns for bound in kernel.bottleneck.bounds} for kernel in (a, b) if kernel.bottleneck]
    is_faster = b.duration_ns < a.duration_ns
    slow, fast = times if is_faster else reversed(times)
    largest = max(slow.values(), default=0.0)
    saved = {unit: ns - fast.get(unit, 0.0) for unit, ns in slow.items() if ns >= LIMITING * largest}
    for unit, gain in sorted(saved.items(), key=lambda item: -item[1])[:2]:
        if gain <= LEAST_EXPLAINING_CHANGE * max(a.duration_ns, b.duration_ns):
            continue
        counter, text = _explain_unit(unit, a.counters, b.counters, is_faster)
        yield ChangeCause(unit, unit_name(unit), times[0].get(unit, 0.0), times[1].get(unit, 0.0), counter, text)


def _explain_unit(unit: str, a: Mapping[str, float], b: Mapping[str, float], is_faster: bool) -> tuple[str, str]:
    """(counter, words) for a change of a unit's time; without a counter that changed as the time did, ("", words)."""
    best: tuple[float, str, str] | None = None
    for row in EXPLANATIONS:
        before, after = a.get(row.counter, 0.0), b.get(row.counter, 0.0)
        larger = max(before, after)
        if unit not in row.units or not larger or (after < before) != is_faster:
            continue
        size = abs(after - before) / larger
        if size >= LEAST_EXPLAINING_CHANGE and (best is None or size > best[0]):
            change = format_change(100 * (after / before - 1), ".0f") if before else f"{after:,.0f}, before none"
            best = (size, row.counter, f"{'fewer' if is_faster else 'more'} {row.title} ({change})")
    if best is not None:
        return best[1], best[2]
    return "", f"{'less' if is_faster else 'more'} time at {unit_name(unit)}"


def describe_change(duration: DurationPair, causes: Sequence[ChangeCause] = ()) -> str:
    """A change of duration in words: "faster by 12 ± 3 %, from fewer L2 misses (-40 %)"."""
    if duration.verdict == "equal":
        return "the same duration"
    word, size, unit = _change_size(duration)
    error = duration.uncertainty_percent
    if error is not None:
        size += f" ± {_short_number(error if unit == '%' else error / 100)}"
    texts = dict.fromkeys(cause.text for cause in causes)  # one counter may explain several units
    reasons = f", from {' and '.join(texts)}" if causes else ""
    if duration.verdict == "uncertain":
        return f"no certain change: {word} {size} {unit}{reasons}"
    return f"{word} {size} {unit}{reasons}"


def _change_size(duration: DurationPair) -> tuple[str, str, str]:
    """(words, number, unit) of a change of duration."""
    if duration.change_percent >= LEAST_FACTOR_PERCENT:
        return "slower:", f"{1 + duration.change_percent / 100:.3g}", "times as long"
    return "faster by" if duration.change_percent < 0 else "slower by", f"{abs(duration.change_percent):.3g}", "%"


def format_change(percent: float, digits: str = ".3g") -> str:
    """A change in per cent, or, where it is large, as a factor: "12.6 times" for +1160 %."""
    if percent < LEAST_FACTOR_PERCENT:
        return f"{percent:+{digits}} %"
    factor = 1 + percent / 100
    return f"{factor:.3g} times" if factor < 1000 else f"{factor:,.0f} times"


def _short_number(value: float) -> str:
    return f"{value:.2g}" if value < 10 else f"{value:.0f}"
