"""Finds the mapping of work-groups that makes each kernel of a program fastest, proves that it is a bijection, and
computes the limit that no mapping can beat.

The reuse model ranks the whole grammar; the best few run on the simulator, all kernels' at once; the winner's output is
compared with the original's bit for bit. Everything is deterministic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hipsynth.core.errors import BadInput
from hipsynth.core.kernel_record import Dim, KernelRecord
from hipsynth.core.name_patterns import check_kernel_pattern, matches_any
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.metrics import bottleneck
from hipsynth.simulator import devices
from hipsynth.simulator.line_sharing import REASONS, LineSharing, SharingObservation
from hipsynth.source.names import base_name
from hipsynth.tuning.swizzle.documents import SwizzleStatus
from hipsynth.tuning.swizzle.l2_reuse import Chips, Reuse, SharedLines, exchange_between_groups, reuse_of
from hipsynth.tuning.swizzle.line_use import ObservedLaunches
from hipsynth.tuning.swizzle.mappable import HipProgram, KernelMappings, MappableProgram
from hipsynth.tuning.swizzle.mapping import Formula, GroupMapping, Spread, Tile, candidate_mappings
from hipsynth.tuning.swizzle.proof import Proof, prove_bijection
from hipsynth.tuning.trial import Conditions, Trial, compare_trials
from hipsynth.tuning.trial.prices import exact_price_s
from hipsynth.tuning.trial.refusal import KernelRefusal
from hipsynth.tuning.trial.search_clock import Clock

HIT_RATE = "L2_Cache_Hit_Rate"
LEAST_GAIN = 0.01  # of a duration: the timing model does not tell smaller differences
LEAST_POINTS = 1.0  # of the hit rate, in percent
MOST_EXACT_S = 4.0  # price of a run whose outputs are compared
Say = Callable[[str], None]


@dataclass(frozen=True)
class SwizzleSettings:
    """What to search. `executed`: mappings per kernel that run; `formula`: only this one; `kernels`: only these;
    `check_arguments`: those of the runs whose outputs are compared, by default `arguments`, or smaller ones; `grids`:
    others than a kernel is launched with here, which its mapping has to fit too."""

    target: Target
    arguments: tuple[str, ...] = ()
    check_arguments: tuple[str, ...] | None = None
    executed: int = 4
    formula: str = ""
    kernels: tuple[str, ...] = ()
    time_s: float = 60.0
    budget_s: float = 60.0  # on the clock: no mapping is executed that would end later
    grids: Mapping[str, Sequence[Dim]] = field(default_factory=dict)


@dataclass(frozen=True)
class MappingTrial:
    """One executed mapping: the entry of the history. `misses`: what the model predicts, relative to the original."""

    mapping: GroupMapping
    misses: float
    duration_ns: float
    hit_rate: float
    bottleneck: str


@dataclass
class KernelSwizzle:
    """The result for one kernel. `status`: "improved", "ceiling" (nothing gains) or "refused", with the reason, and its
    code where the source says it.

    `ceiling`: the largest L2 hit rate that any mapping can have, in percent; `exact_ceiling` is False if it is
    estimated from a sample of lines.
    """

    name: str
    status: SwizzleStatus = SwizzleStatus.REFUSED
    reason: str = ""
    refusal: Reason = Reason.NONE
    mapping: GroupMapping = field(default_factory=GroupMapping)
    proof: Proof = field(default_factory=lambda: Proof(""))
    outputs_equal: bool = False
    before: KernelRecord | None = None
    after: KernelRecord | None = None
    ceiling: float | None = None
    exact_ceiling: bool = True
    uncertainty: float = 0.0  # of the ratio of durations
    evaluated: int = 0
    history: list[MappingTrial] = field(default_factory=list)
    sharing: SharedLines | None = None  # None if they were not followed
    seconds: float = 0.0


@dataclass(frozen=True)
class ProgramSwizzle:
    """All kernels of a program, and its text with the improvements, equal to the original if there are none."""

    answers: tuple[KernelSwizzle, ...]
    text: str
    checked_with: tuple[str, ...] = ()


@dataclass
class _Work:
    """A kernel in progress. `best` is None while nothing beats the original."""

    answer: KernelSwizzle
    base: str
    record: KernelRecord
    reuse: Reuse
    chips: Chips
    grid: Dim
    grids: tuple[Dim, ...] = ()  # of all its launches
    ranked: list[tuple[float, GroupMapping]] = field(default_factory=list)
    best: tuple[GroupMapping, KernelRecord] | None = None

    @property
    def shares_lines(self) -> bool:
        """Whether several groups touch a line."""
        return self.answer.sharing is not None and self.answer.sharing.shared_lines > 0


def search_mappings(text: str, question: SwizzleSettings, say: Say = lambda _: None) -> ProgramSwizzle:
    """Searches mappings for every kernel of a HIP program.

    Raises CompileFailed or BadInput for a program that does not compile or run, UsageError for bad options.
    """
    return map_program(HipProgram(text, question.target), question, say)


def map_program(source: MappableProgram, question: SwizzleSettings, say: Say = lambda _: None) -> ProgramSwizzle:
    """Searches mappings for every kernel of a program in any language; raises what search_mappings() does."""
    clock = Clock(question.budget_s)
    _check_options(source, question)
    say("running the program and following its work-groups")
    observed = source.observe_launches(question.arguments, SharingObservation(), question.time_s)
    works, answers = _prepare_work(source, observed, question)
    if works:
        say("comparing outputs needs the program's own")
        begin = clock.spent_s
        original, question = _run_original(source, question, sum(map(exact_price_s, observed.kernels)))
        clock.reserve_s = clock.spent_s - begin  # a mapped program's run for its outputs takes as long
        problem = _why_incomparable(original)
        if problem:
            _refuse_works(works, problem)
            works = []
        works = [work for work in works if _shows_in(work, original)]
    for round_ in range(2 if not question.formula else 1):
        _execute_round(source, works, question, round_, say, clock)
    chosen = [work for work in works if work.best is not None]
    final = source.text
    if chosen:
        say("comparing outputs")
        final = _verify_program(source, chosen, original, question)
    for work in works:
        _conclude_work(work)
    for answer in answers:
        answer.seconds = clock.spent_s
    return ProgramSwizzle(tuple(answers), final, question.check_arguments or ())


def _check_options(source: MappableProgram, question: SwizzleSettings) -> None:
    for pattern in question.kernels:
        check_kernel_pattern(pattern, sorted(source.kernels))
    if question.formula:
        Formula(question.formula).expression  # noqa: B018  raises UsageError


def _xcd_caches(question: SwizzleSettings, record: KernelRecord) -> Chips:
    spec = devices.load_device(question.target.device).spec()
    xcds, cus = int(spec["topology.xcds"]), int(spec["topology.cus"])
    per_cu = int(record.occupancy.groups_per_cu) if record.occupancy else 1
    return Chips(xcds, max(1, cus // xcds * per_cu), int(spec["l2.bytes"] / spec["l2.line_bytes"]))


def _prepare_work(
    source: MappableProgram, observed: ObservedLaunches, question: SwizzleSettings
) -> tuple[list[_Work], list[KernelSwizzle]]:
    works, answers = [], []
    named = [(record, base_name(record.name)) for record in observed.kernels]
    chosen = [(record, base) for record, base in named if matches_any(base, question.kernels)]
    for number, (record, base) in enumerate(chosen):
        answer = KernelSwizzle(record.name, before=record)
        answers.append(answer)
        launch = observed.launch_of(record)
        launches: list[LineSharing | None] = [*observed.launches_of(record)]
        reasons = (_kernel_refusal(source, base, recorded) for recorded in launches or [None])
        refusal = next(filter(None, reasons), None)
        if refusal is not None:
            answer.reason, answer.refusal = refusal.text, refusal.code
        if not answer.reason and any(earlier == base for _, earlier in chosen[:number]):
            answer.reason = "another instance of its source is mapped, and with it this one"
        if answer.reason or launch is None:
            continue
        reuse = reuse_of(launch)
        grids = (*(recorded.grid for recorded in observed.launches_of(record)), *question.grids.get(base, ()))
        work = _Work(answer, base, record, reuse, _xcd_caches(question, record), launch.grid, grids)
        _set_ceiling(work, launch)
        work.ranked = _rank_mappings(work, question)
        works.append(work)
    return works, answers


def _kernel_refusal(source: MappableProgram, base: str, launch: LineSharing | None) -> KernelRefusal | None:
    if launch is None:
        return source.find_refusal(base) or KernelRefusal(Reason.UNSUPPORTED, "its launches were not seen")
    if launch.cooperative:
        text = "it is cooperative: its groups wait for each other and know their places"
        return KernelRefusal(Reason.UNSUPPORTED, text)
    if launch.state != "all":
        return KernelRefusal(Reason.UNSUPPORTED, REASONS[launch.state])
    refusal = source.find_refusal(base)
    exchange = "" if refusal else exchange_between_groups(launch)
    return KernelRefusal(Reason.UNSUPPORTED, exchange) if exchange else refusal


def _set_ceiling(work: _Work, launch: LineSharing) -> None:
    """Sets the ceiling of a kernel and the reported figures of its sharing."""
    reuse, chips, record = work.reuse, work.chips, work.record
    requests = record.counters.get("TCC_HIT", 0.0) + record.counters.get("TCC_MISS", 0.0)
    total_reuse = reuse_of(launch, most_pairs=len(launch.touches) or 1)
    least = total_reuse.least_misses(chips)
    work.answer.exact_ceiling = total_reuse.one_in == 1
    if requests and record.same_shape:  # counters are means over the launches
        work.answer.ceiling = max(0.0, 100 * (1 - least / requests))
    order = GroupMapping().numbers(work.grid)
    work.answer.sharing = SharedLines(
        lines=int(len(total_reuse.sharers) * total_reuse.one_in),
        shared_lines=int((total_reuse.sharers > 1).sum() * total_reuse.one_in),
        groups_per_line=float(total_reuse.sharers.mean()) if len(total_reuse.sharers) else 0.0,
        lines_one_in=launch.one_in,
        lines_by_xcd=tuple(reuse.lines_by_xcd(order, chips)),
        least_misses=least,
        modelled_misses=reuse.misses(order, chips),
    )


def _prove_for_grids(mapping: GroupMapping, work: _Work) -> Proof:
    """For the largest launch's grid, and every other grid that the kernel is launched with."""
    proof = prove_bijection(mapping, work.grid, work.record.language)
    others = (prove_bijection(mapping, grid, work.record.language) for grid in work.grids)
    return next((grid for grid in others if proof.kind and not grid.kind), proof)


def _row_widths(work: _Work) -> tuple[str, ...]:
    """Row lengths for programs that number their tiles along one axis: those near the root of the grid's size."""
    x, y, z = work.grid
    if y > 1 or z > 1:
        return ()
    return tuple(str(width) for width in (8, 16, 32, 64, 128, 256) if x % width == 0 and x // width >= 4)


def _rank_mappings(work: _Work, question: SwizzleSettings) -> list[tuple[float, GroupMapping]]:
    """The mappings by modelled misses, relative to the original, best first; of equal ones the cheapest."""
    chips = work.chips
    spec = devices.load_device(question.target.device).spec()
    if question.formula:
        candidates = [GroupMapping((Formula(question.formula),))]
        proof = _prove_for_grids(candidates[0], work)
        if not proof.kind:
            work.answer.reason = f"the mapping is no bijection: {proof.reason}"
            work.answer.proof = proof
            return []
        if proof.kind == "exhaustive":
            candidates = [replace(candidates[0], grids=tuple(dict.fromkeys((work.grid, *work.grids))))]
    else:
        candidates = candidate_mappings(work.grid, chips.xcds, int(spec["topology.cus"]), _row_widths(work))
    before = max(work.reuse.misses(GroupMapping().numbers(work.grid), chips), 1.0)
    scored = [(work.reuse.misses(candidate.numbers(work.grid), chips) / before, candidate) for candidate in candidates]
    return sorted(scored, key=lambda pair: (round(pair[0], 3), pair[1].cost, pair[1].label))


def _choose_mappings(work: _Work, question: SwizzleSettings, round_: int) -> list[tuple[float, GroupMapping]]:
    """The mappings to run in a round: first the model's best of each kind, then neighbours of the best one."""
    mappings_tried = {trial.mapping for trial in work.answer.history}
    if not work.shares_lines and not question.formula:
        return []
    ranked = [
        pair
        for pair in work.ranked
        if pair[1] not in mappings_tried and (len(work.grids) < 2 or _prove_for_grids(pair[1], work).kind)
    ]
    if round_ == 0:
        kinds: dict[tuple[object, ...], tuple[float, GroupMapping]] = {}
        for pair in ranked:
            kinds.setdefault(_mapping_kind(pair[1]), pair)
        return list(kinds.values())[: question.executed]
    if work.best is None:
        return []
    kind = _mapping_kind(work.best[0])
    return [pair for pair in ranked if _mapping_kind(pair[1]) == kind][: max(1, question.executed // 2)]


def _mapping_kind(mapping: GroupMapping) -> tuple[object, ...]:
    """Mappings of one kind differ in sizes alone."""
    kinds: list[object] = []
    for step in mapping.steps:
        if isinstance(step, Tile):
            kinds.append((step.outer, step.inner, step.rows == step.columns))
        else:
            kinds.append((type(step).__name__, isinstance(step, Spread) and step.run > 0))
    return tuple(kinds)


def _execute_round(
    source: MappableProgram,
    works: Sequence[_Work],
    question: SwizzleSettings,
    round_: int,
    say: Say,
    clock: Clock,
) -> None:
    """Runs the chosen mappings of a round, the i-th of every kernel in one program, while there is time."""
    slowest_s = 0.0
    plans = {id(work): _choose_mappings(work, question, round_) for work in works}
    for position in range(max(map(len, plans.values()), default=0)):
        if clock.over(slowest_s) and any(work.answer.history for work in works):
            break
        begin = clock.spent_s
        now = [(work, plans[id(work)][position]) for work in works if position < len(plans[id(work)])]
        say(f"executing mapping {position + 1} of round {round_ + 1}")
        trials = _run_mappings(source, {work.base: (pair[1], work.grid) for work, pair in now}, question)
        slowest_s = max(slowest_s, clock.spent_s - begin)
        for work, (misses, mapping) in now:
            work.answer.evaluated += 1
            after = next((k for k in trials.kernels if _is_same(k, work.record)), None) if trials.ok else None
            if after is None:
                failure = f"a mapped program failed: {trials.reason} {trials.message[:200]}"
                work.answer.reason = work.answer.reason or failure
                continue
            hits = float(after.metrics.get(HIT_RATE) or 0.0)
            limit = bottleneck.rank_bounds(after)[0].unit if after.limits else ""
            work.answer.history.append(MappingTrial(mapping, misses, after.duration_ns or 0.0, hits, limit))
            if _is_better(after, work.best[1] if work.best else work.record, original=work.best is None):
                work.best = (mapping, after)


def _duration_uncertainty(kernel: KernelRecord, other: KernelRecord) -> float:
    errors = [record.sampling.error.get("Duration", 0.0) if record.sampling else 0.0 for record in (kernel, other)]
    return float((errors[0] ** 2 + errors[1] ** 2) ** 0.5)


def _is_better(after: KernelRecord, than: KernelRecord, original: bool) -> bool:
    """Whether a kernel is faster by more than is uncertain, or hits more in the L2 and is not slower. Between mappings,
    the faster one of two with equal hits is better, too."""
    now, then = after.duration_ns or 0.0, than.duration_ns or 0.0
    margin = max(LEAST_GAIN, _duration_uncertainty(after, than))
    points = (after.metrics.get(HIT_RATE) or 0.0) - (than.metrics.get(HIT_RATE) or 0.0)
    if now < then * (1 - margin) or (points > LEAST_POINTS and now <= then):
        return True
    return not original and now < then and points > -LEAST_POINTS


def _is_same(kernel: KernelRecord, other: KernelRecord) -> bool:
    return (kernel.name, kernel.meta) == (other.name, other.meta)


def _run_mappings(source: MappableProgram, mappings: KernelMappings, question: SwizzleSettings) -> Trial:
    try:
        text = source.write_mapped(mappings)
    except BadInput as error:
        return Trial(RunStatus.FAILED, Reason.UNSUPPORTED, str(error))
    return source.run_trial(text, Conditions(question.arguments, time_s=question.time_s))


def _run_original(source: MappableProgram, question: SwizzleSettings, exact_s: float) -> tuple[Trial, SwizzleSettings]:
    """An exact run of the program for its outputs: with the arguments asked for, or halved until it ends in time.
    `exact_s`: the price of such a run with the program's own arguments, by which they are halved beforehand."""
    arguments = question.check_arguments if question.check_arguments is not None else question.arguments
    sizes = arguments or source.default_arguments()
    while question.check_arguments is None and exact_s > MOST_EXACT_S:
        smaller = tuple(map(_halve_argument, sizes))
        if smaller == sizes:
            break
        exact_s /= 2 ** sum(size_pair != other for size_pair, other in zip(sizes, smaller, strict=True))
        arguments = sizes = smaller
    while True:
        trial = source.run_trial(source.text, _exact_conditions(arguments, question))
        smaller = tuple(map(_halve_argument, sizes))
        if trial.reason not in (Reason.TIMEOUT, Reason.INSTRUCTION_LIMIT, Reason.OUT_OF_MEMORY) or smaller == sizes:
            return trial, replace(question, check_arguments=arguments)
        arguments = sizes = smaller


def _exact_conditions(arguments: tuple[str, ...], question: SwizzleSettings) -> Conditions:
    return Conditions(arguments, exact=True, count=False, time_s=min(20.0, question.time_s))


def _halve_argument(argument: str) -> str:
    return str(int(argument) // 2) if argument.isdecimal() and int(argument) >= 128 else argument


def _why_incomparable(original: Trial) -> str:
    """Why a program cannot be compared with itself."""
    if not original.ok:
        return f"the program cannot be checked: {original.reason}: {original.message[:300]}"
    if original.exit_code != 0:
        last = (original.stdout.strip().splitlines() or [""])[-1][:200]
        return f"the program is wrong to begin with: exit code {original.exit_code}; it prints {last!r}"
    return ""


def _shows_in(work: _Work, original: Trial) -> bool:
    """Whether the run whose outputs are compared has a grid that the kernel's mappings change; refuses it otherwise."""
    checked = {kernel.grid for kernel in original.shapes or original.kernels if base_name(kernel.name) == work.base}
    unchanged = [mapping for _, mapping in work.ranked if mapping.grids and not checked.intersection(mapping.grids)]
    if unchanged:
        text = "the mapping is proven for this grid alone, which the runs whose outputs are compared do not have"
        _refuse_works([work], f"{text}: give the size that is timed as --check-args, too")
    return not unchanged


def _refuse_works(works: Iterable[_Work], reason: str) -> None:
    for work in works:
        work.answer.status, work.answer.reason, work.best = SwizzleStatus.REFUSED, reason, None


def _verify_program(
    source: MappableProgram, chosen: Sequence[_Work], original: Trial, question: SwizzleSettings
) -> str:
    """The program with all mappings whose outputs are the original's."""
    arguments = question.check_arguments or ()

    def fault(works: Sequence[_Work]) -> str:
        text = source.write_mapped({work.base: (work.best[0], work.grid) for work in works if work.best})
        comparison = compare_trials(original, source.run_trial(text, _exact_conditions(arguments, question)))
        return "" if comparison.equal else comparison.reason

    wrong = fault(chosen)
    if wrong and len(chosen) > 1:
        for work in chosen:
            alone = fault([work])
            if alone:
                _refuse_works([work], f"outputs differ: {alone}")
        left = [work for work in chosen if work.best]
        if left and (wrong := fault(left)):
            _refuse_works(left, f"outputs differ with all mappings together: {wrong}")
    elif wrong:
        _refuse_works(chosen, f"outputs differ: {wrong}")
    mappings_kept = {work.base: (work.best[0], work.grid) for work in chosen if work.best}
    for work in chosen:
        work.answer.outputs_equal = work.best is not None
    return source.write_mapped(mappings_kept) if mappings_kept else source.text


def _conclude_work(work: _Work) -> None:
    answer = work.answer
    if work.best is not None:
        mapping, after = work.best
        answer.status, answer.mapping, answer.after = SwizzleStatus.IMPROVED, mapping, after
        answer.proof = _prove_for_grids(mapping, work)
        answer.uncertainty = _duration_uncertainty(after, work.record)
        order = mapping.numbers(work.grid)
        if answer.sharing is not None:
            by_xcd = tuple(work.reuse.lines_by_xcd(order, work.chips))
            answer.sharing = replace(answer.sharing, lines_by_xcd_after=by_xcd)
        _raise_ceiling(answer, after)
        answer.reason = _explain_bound(work, after)
    elif not answer.reason:
        answer.status, answer.reason = SwizzleStatus.CEILING, _explain_bound(work, work.record)
        answer.outputs_equal, answer.proof = True, prove_bijection(GroupMapping(), work.grid)


def _raise_ceiling(answer: KernelSwizzle, after: KernelRecord) -> None:
    """The ceiling of a mapping that makes more requests than the original, for which it was computed. One that is
    exceeded all the same is an estimate."""
    requests = [record.counters.get("TCC_HIT", 0.0) + record.counters.get("TCC_MISS", 0.0)
                for record in (answer.before, after) if record is not None]  # fmt: skip
    if answer.ceiling is None or len(requests) < 2 or not requests[1]:
        return
    least = (1 - answer.ceiling / 100) * requests[0]
    answer.ceiling = max(answer.ceiling, 100 * (1 - least / requests[1]))
    hits = float(after.metrics.get(HIT_RATE) or 0.0)
    if hits > answer.ceiling:
        answer.ceiling, answer.exact_ceiling = hits, False


def _explain_bound(work: _Work, record: KernelRecord) -> str:
    """Where the kernel stands against its bound."""
    hits, ceiling = float(record.metrics.get(HIT_RATE) or 0.0), work.answer.ceiling
    if not record.counters.get("TCC_HIT", 0.0) + record.counters.get("TCC_MISS", 0.0):
        return "it makes no requests to the L2"
    limit = bottleneck.rank_bounds(record)[0].name if record.limits else "unknown"
    bound = "its grids differ, so there is no bound" if ceiling is None else f"at most {ceiling:.1f} % can"
    place = f"{hits:.1f} % of requests hit in the L2, {bound}; its limit is {limit}"
    if not work.shares_lines:
        return f"no two work-groups touch a line, so their order decides nothing: {place}"
    if work.answer.status == SwizzleStatus.IMPROVED:
        gain = (work.record.duration_ns or 0.0) / (record.duration_ns or 1.0) - 1
        faster = gain > max(LEAST_GAIN, work.answer.uncertainty)
        return f"it is faster: {place}" if faster else f"more hits in the same time (within 1 %): {place}"
    if ceiling is not None and ceiling - hits < LEAST_POINTS:
        return f"no mapping can gain: {place}"
    if not work.answer.history:
        return f"the grid has no other order worth trying: {place}"
    best = min(trial.duration_ns for trial in work.answer.history) / (work.record.duration_ns or 1.0)
    return f"no mapping of {work.answer.evaluated} executed gains (best duration x {best:.3f}): {place}"
