"""Which allocations of two programs are compared with each other: those of the same number where both programs make the
same ones, else those that kernels get as the same parameters; and which ones only hold steps on the way to results."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hipsynth.profiling.preview.launch import is_number, is_read_only
from hipsynth.simulator.observation import MOST_USES, BufferUse, Output
from hipsynth.tuning.trial.output_elements import ParameterTypes
from hipsynth.tuning.trial.run import Trial

UNCOMPARED = "uncompared"  # the kind of an output that is left out
LEAST_RESULT = 16  # what kernels pass on may be so many times as large as the results that they make of it
SMALL_STEP = 16  # of the largest allocation: what may be scratch memory where programs allocate otherwise
_APART = 1 << 32  # added to the index of allocations that have no partner

Pairs = dict[int, int]  # places of outputs: of the original -> of the changed program


@dataclass(frozen=True)
class BufferSteps:
    """When an allocation was written and read. 0: never."""

    written_by_kernel: int
    written_by_command: int
    read: int

    @classmethod
    def of_output(cls, output: Output, types: ParameterTypes) -> BufferSteps:
        """By what kernels may do with the pointers that they get."""
        reads, writes = [0], [0]
        for use in output.uses:
            names = types.list_types(use.kernel)
            read_only = use.parameter < len(names) and is_read_only(names[use.parameter])
            (reads if read_only else writes).append(use.last)
        return cls(max(writes), output.written_at, max(reads))

    @property
    def is_result(self) -> bool:
        """Whether a kernel may have written it, and none only reads it later."""
        return self.written_by_kernel > 0 and not self.is_step

    @property
    def is_step(self) -> bool:
        """Whether a kernel may have written what a later one reads, and nothing wrote it after that."""
        return 0 < self.written_by_kernel < self.read and self.written_by_command < self.read


def same_allocations(before: Trial, after: Trial, more: bool = True) -> bool:
    """Whether `after` makes the allocations of `before`, perhaps followed by `more`."""
    sizes = [
        {output.index: output.bytes for output in trial.outputs if output.kind == "buffer"} for trial in (before, after)
    ]
    return sizes[0].items() <= sizes[1].items() if more else sizes[0] == sizes[1]


def find_steps(trial: Trial, types: ParameterTypes, alike: bool = True) -> frozenset[int]:
    """The places of allocations that hold only steps on the way to results: a later kernel reads them, they are not
    copied to the host, and results in memory have at least a sixteenth of their bytes, so that more than a checksum is
    compared. Where programs allocate otherwise (not `alike`), also small ones, such as partial sums."""
    copies = [output for output in trial.outputs if output.kind == "copy"]
    if not copies or any(copy.source < 0 for copy in copies) or not _passes_plain_pointers(trial, types):
        return frozenset()
    copied = {copy.source for copy in copies}
    buffers = {place: output for place, output in enumerate(trial.outputs) if output.kind == "buffer"}
    steps = {place: BufferSteps.of_output(output, types) for place, output in buffers.items()}
    results = sum(buffers[place].bytes for place in buffers if steps[place].is_result)
    largest = max((output.bytes for output in buffers.values()), default=0)
    return frozenset(
        place
        for place, output in buffers.items()
        if steps[place].is_step
        and output.index not in copied
        and len(output.uses) < MOST_USES
        and (output.bytes <= LEAST_RESULT * results or (not alike and SMALL_STEP * output.bytes <= largest))
    )


def _passes_plain_pointers(trial: Trial, types: ParameterTypes) -> bool:
    """Whether all parameters of all kernels are numbers or pointers to what holds no pointers, so that all uses of
    memory are known."""
    for kernel in trial.kernels:
        names = types.list_types(kernel.symbol)
        if not names or not all(map(_is_plain, names)):
            return False
    return True


def _is_plain(name: str) -> bool:
    base, star, rest = name.replace("const", "").partition("*")
    return is_number(name) or (bool(star) and "*" not in rest and is_number(base.strip()))


def pair_by_use(before: Trial, after: Trial, types: ParameterTypes) -> Pairs:
    """Allocations that kernels get as the same parameters, and last as the same one; where kernels have other names, as
    those of the same number and type. Several of this kind are paired in the order of their last use, if both programs
    have as many."""

    def by_type(use: BufferUse) -> object:
        return use.parameter, types.list_types(use.kernel)[use.parameter : use.parameter + 1]

    pairs: Pairs = {}
    for describe in (lambda use: use, by_type):
        groups = _group_by_use(before, describe, pairs.keys()), _group_by_use(after, describe, pairs.values())
        for use, ours in groups[0].items():
            theirs = groups[1].get(use, [])
            if len(ours) == len(theirs):
                pairs.update(zip(ours, theirs, strict=True))
    return pairs


def _group_by_use(
    trial: Trial, describe: Callable[[BufferUse], object], without: Iterable[int]
) -> Mapping[object, list[int]]:
    groups: dict[object, list[int]] = defaultdict(list)
    last: dict[int, int] = {}
    paired = set(without)
    for place, output in enumerate(trial.outputs):
        if output.kind == "buffer" and output.uses and place not in paired:
            last[place] = max(use.last for use in output.uses)
            final = frozenset(describe(use) for use in output.uses if use.last == last[place])
            groups[frozenset(map(describe, output.uses)), final].append(place)
    for places in groups.values():
        places.sort(key=lambda place: (last[place], trial.outputs[place].index))
    return groups


def list_orders(before: Trial, after: Trial, types: ParameterTypes, more: bool = True) -> list[tuple[Trial, Trial]]:
    """Both trials with those outputs that are to be compared, in each way to pair allocations: one of these must hold.
    Outputs keep their places; those without a partner have the kind UNCOMPARED."""
    alike = same_allocations(before, after, more)
    left_out = find_steps(before, types, alike)
    if alike:
        kept_before = _leave_out(before, left_out)
        pairs = _complete_pairs(before, after, pair_by_use(before, after, types))
        orders = [(kept_before, after)]
        if any(before.outputs[mine].index != after.outputs[other].index for mine, other in pairs.items()):
            orders.append((kept_before, _renumber_allocations(before, after, pairs)))
        return orders
    if not any(output.kind == "copy" for output in before.outputs):
        return [(before, after)]
    results = {
        place
        for place, output in enumerate(before.outputs)
        if output.kind == "buffer"
        and place not in left_out
        and BufferSteps.of_output(output, types).written_by_kernel > 0
    }
    pairs = {mine: other for mine, other in pair_by_use(before, after, types).items() if mine in results}
    return [_compare_common_bytes(before, after, pairs)]


def _leave_out(trial: Trial, places: Iterable[int]) -> Trial:
    outputs = list(trial.outputs)
    for place in places:
        outputs[place] = replace(outputs[place], kind=UNCOMPARED)
    return replace(trial, outputs=tuple(outputs))


def _complete_pairs(before: Trial, after: Trial, by_use: Pairs) -> Pairs:
    """Pairs by use, of equal sizes; the others by number where that is free, then in order. {} if some stay alone."""
    ours, theirs = (
        {output.index: place for place, output in enumerate(trial.outputs) if output.kind == "buffer"}
        for trial in (before, after)
    )
    pairs = {m: o for m, o in by_use.items() if before.outputs[m].bytes == after.outputs[o].bytes}
    alone = [place for _, place in sorted(ours.items()) if place not in pairs]
    free = [place for _, place in sorted(theirs.items()) if place not in pairs.values()]
    for mine in sorted(alone, key=lambda place: theirs.get(before.outputs[place].index) not in free):
        fits = [place for place in free if after.outputs[place].bytes == before.outputs[mine].bytes]
        if not fits:
            return {}
        same = theirs.get(before.outputs[mine].index)
        pairs[mine] = same if same in fits else fits[0]
        free.remove(pairs[mine])
    return pairs


def _renumber_allocations(before: Trial, after: Trial, pairs: Pairs) -> Trial:
    """The changed program with the numbers of the original's allocations."""
    numbers = {other: before.outputs[mine].index for mine, other in pairs.items()}
    outputs = tuple(
        replace(output, index=numbers.get(place, _APART + output.index)) if output.kind == "buffer" else output
        for place, output in enumerate(after.outputs)
    )
    return replace(after, outputs=outputs)


def _compare_common_bytes(before: Trial, after: Trial, pairs: Pairs) -> tuple[Trial, Trial]:
    """Paired allocations as far as both have bytes: more of the changed program are nobody's, more of the original must
    be as they were allocated or filled. Pairs whose bytes were not kept are left out."""
    numbered = _renumber_allocations(before, after, pairs)
    compared: set[int] = set()
    for mine, other in pairs.items():
        ours, theirs = before.outputs[mine], after.outputs[other]
        if ours.bytes == theirs.bytes:
            compared.add(mine)
            continue
        data = [(trial.recorded or {}).get(place) for trial, place in ((before, mine), (after, other))]
        if data[0] is None or data[1] is None:
            continue
        common = min(ours.bytes, theirs.bytes)
        if not _is_uniform(data[0][common:]):
            common = ours.bytes  # what the original writes there is missing
        before, numbered = _cut_output(before, mine, common), _cut_output(numbered, other, common)
        compared.add(mine)
    buffers = {place for place, output in enumerate(before.outputs) if output.kind == "buffer"}
    return _leave_out(before, buffers - compared), numbered


def _is_uniform(data: bytes) -> bool:
    """Whether bytes repeat one word."""
    words = np.frombuffer(data[: len(data) // 4 * 4], np.uint32)
    return len(words) == 0 or bool((words == words[0]).all())


def _cut_output(trial: Trial, place: int, size: int) -> Trial:
    recorded = dict(trial.recorded or {})
    recorded[place] = recorded[place][:size]
    outputs = list(trial.outputs)
    digest = hashlib.sha256(recorded[place]).hexdigest()
    outputs[place] = replace(outputs[place], bytes=len(recorded[place]), recorded=len(recorded[place]), digest=digest)
    return replace(trial, outputs=tuple(outputs), recorded=recorded)


def leaves_results_out(before: Trial, after: Trial, types: ParameterTypes) -> bool:
    """Whether kernels of the original write what is neither compared nor copied to the host as a whole."""
    steps = find_steps(before, types, same_allocations(before, after))
    copied: dict[int, int] = defaultdict(int)
    for output in before.outputs:
        copied[output.source] += output.bytes if output.kind == "copy" else 0
    compared, _ = list_orders(before, after, types)[0]
    return any(
        left.kind == UNCOMPARED
        and place not in steps
        and BufferSteps.of_output(output, types).written_by_kernel > 0
        and copied[output.index] < output.bytes
        for place, (output, left) in enumerate(zip(before.outputs, compared.outputs, strict=True))
    )


def find_uploaded_results(before: Trial, after: Trial, types: ParameterTypes) -> Sequence[Output]:
    """The changed program's allocations to which the host copies data, where only kernels or fills write the
    original's: by number, by use, and by copies to the host where it sends more to the device."""
    by_index = {output.index: output for output in before.outputs if output.kind == "buffer"}
    by_use = {other: before.outputs[mine] for mine, other in pair_by_use(before, after, types).items()}
    alike = same_allocations(before, after)
    results: list[Output] = []
    for place, output in enumerate(after.outputs):
        same = by_index.get(output.index) if alike else None
        partner = by_use.get(place) or same
        if output.kind != "buffer" or not output.uploaded or partner is None or partner.uploaded:
            continue
        is_input = same is not None and same.uploaded and same.digest == output.digest
        if not is_input and BufferSteps.of_output(partner, types).written_by_kernel:
            results.append(output)
    return results or _find_copied_uploads(before, after)


def _find_copied_uploads(before: Trial, after: Trial) -> list[Output]:
    sent, more_sent = (sum(output.uploaded for output in trial.outputs) for trial in (before, after))
    if more_sent <= sent:
        return []
    ours, theirs = _list_copied(before), _list_copied(after)
    return [theirs[copy] for copy in ours.keys() & theirs.keys() if theirs[copy].uploaded and not ours[copy].uploaded]


def _list_copied(trial: Trial) -> Mapping[int, Output]:
    """The allocation of each copy to the host."""
    buffers = {output.index: output for output in trial.outputs if output.kind == "buffer"}
    copies = (output for output in trial.outputs if output.kind == "copy")
    return {copy.index: buffers[copy.source] for copy in copies if copy.source in buffers}
