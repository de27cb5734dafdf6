"""Outputs whose order a program leaves to its atomics: the same words in another order are no difference, but words
that belong together must stay together."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from hipsynth.simulator.observation import Elements, Output
from hipsynth.tuning.trial.output_elements import ParameterTypes
from hipsynth.tuning.trial.paired_buffers import UNCOMPARED
from hipsynth.tuning.trial.run import Trial

OutputName = tuple[str, int]  # kind and index
Words = np.ndarray[Any, np.dtype[np.uint32]]
Flags = np.ndarray[Any, np.dtype[np.bool_]]
MOST_WIDTH = 16  # words of a structure
_UNCOMPARED = frozenset({"host_writes", UNCOMPARED})  # a number without contents; what is left out


@dataclass(frozen=True)
class OutputRecord:
    """Words of several outputs, or `width` neighbours of one, that keep together in every order."""

    names: tuple[OutputName, ...]
    width: int = 1


@dataclass(frozen=True)
class UnorderedOutputs:
    """Outputs whose words may be in another order, and which of these keep together. `borders`: of an output, the
    places between two of its words that none crosses in any known order; `unknown`: allocations of integers whose words
    are others in another order, such as what longer queues before have left behind a queue."""

    names: frozenset[OutputName] = frozenset()
    records: tuple[OutputRecord, ...] = ()
    borders: Mapping[OutputName, Flags] = field(default_factory=dict, compare=False)
    unknown: frozenset[OutputName] = frozenset()


ALL_ORDERED = UnorderedOutputs()


def outputs_by_name(trial: Trial) -> dict[OutputName, int]:
    """The places of a trial's outputs that have contents."""
    outputs = enumerate(trial.outputs)
    return {(output.kind, output.index): number for number, output in outputs if output.kind not in _UNCOMPARED}


def differing_outputs(one: Trial, other: Trial) -> frozenset[OutputName]:
    """The outputs, by kind and index, that are not bit for bit the same in two trials of a program."""
    ours, theirs = outputs_by_name(one), outputs_by_name(other)
    return frozenset(
        name
        for name in ours.keys() & theirs.keys()
        if one.outputs[ours[name]].digest != other.outputs[theirs[name]].digest
    )


def permuted_outputs(one: Trial, other: Trial) -> frozenset[OutputName]:
    """Those of differing_outputs() that hold the same words of 4 bytes in another order."""
    ours, theirs = outputs_by_name(one), outputs_by_name(other)
    return frozenset(
        name for name in differing_outputs(one, other) if holds_same_words(one, other, ours[name], theirs[name])
    )


def find_unordered(
    one: Trial,
    other: Trial,
    types: ParameterTypes | None,
    names: Iterable[OutputName],
    more: Sequence[Trial] = (),
) -> UnorderedOutputs:
    """The outputs `names`, which two runs of a program leave in different orders, with what keeps together in both:
    places of two outputs of one length, the words of structures and vectors, and those of an interval, as a bucket is.
    `more`: runs in other orders, for which intervals hold, too, and in which other words tell that they are unknown."""
    permuted = sorted(set(names) & permuted_outputs(one, other))
    places = outputs_by_name(one)
    records = [OutputRecord(pair) for pair in itertools.combinations(permuted, 2)]
    for name in permuted:
        if types is None or types.holds_records(one.outputs[places[name]]):
            widths = (OutputRecord((name,), width) for width in range(2, MOST_WIDTH + 1))
            records += itertools.islice((record for record in widths if _keeps_together(one, other, record)), 1)
    lasting = tuple(record for record in records if _keeps_together(one, other, record))
    borders = {name: _find_borders(name, one, [other, *more]) for name in permuted}
    lost = frozenset[OutputName]().union(
        *(differing_outputs(one, order) - permuted_outputs(one, order) for order in (other, *more))
    )
    unknown = frozenset(name for name in lost & set(names) if _holds_integers(one.outputs[places[name]], types))
    return UnorderedOutputs(frozenset(names), lasting, borders, unknown)


def _holds_integers(output: Output, types: ParameterTypes | None) -> bool:
    """Whether it is an allocation of integers."""
    return output.kind == "buffer" and types is not None and types.classify(output) is Elements.INTEGERS


def _find_borders(name: OutputName, one: Trial, others: Sequence[Trial]) -> Flags:
    [words] = _read_columns(one, (name,))
    orders = [column for trial in others for column in _read_columns(trial, (name,))]
    borders = np.ones(len(words) + 1, np.bool_)
    for order in orders:
        same = _find_equal_prefixes(words, order) if len(order) == len(words) else borders
        borders = borders & same if same[-1] else borders
    return borders


def _find_equal_prefixes(one: Words, other: Words) -> Flags:
    """For each number of words, whether both begin with so many that are the same, in any order."""
    difference = np.cumsum(_digest_words(one) - _digest_words(other))
    return np.concatenate(([True], difference == 0))


def _digest_words(words: Words) -> np.ndarray[Any, np.dtype[np.uint64]]:
    """A digest of each word, of which sums differ where words do."""
    mixed = (words.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def find_crossed_border(before: Trial, after: Trial, mine: int, other: int, unordered: UnorderedOutputs) -> bool:
    """Whether words of an output, by its places in both trials, left their interval. Where a few words are at one place
    in every order, the border may be on either side of them."""
    output = before.outputs[mine]
    borders = unordered.borders.get((output.kind, output.index))
    words = [(trial.recorded or {}).get(place) for trial, place in ((before, mine), (after, other))]
    if borders is None or words[0] is None or words[1] is None or 4 * (len(borders) - 1) != len(words[0]):
        return False
    same = _find_equal_prefixes(*(np.frombuffer(data, np.uint32) for data in words if data is not None))
    starts = borders & ~np.concatenate(([False], borders[:-1]))
    group = np.cumsum(starts)
    return len(np.unique(group[borders & same])) < int(starts.sum())


def find_broken_record(before: Trial, after: Trial, unordered: UnorderedOutputs) -> str:
    """What no longer keeps together in a changed program; "" if all does."""
    compared = outputs_by_name(before)
    for record in unordered.records:
        if compared.keys() >= set(record.names) and not _keeps_together(before, after, record):
            places = " and ".join(f"{kind} {index}" for kind, index in record.names)
            return f"{places}: words that belong together are separated"
    return ""


def _keeps_together(one: Trial, other: Trial, record: OutputRecord) -> bool:
    """Whether both trials have the same rows of a record, in any order."""
    ours, theirs = (_read_rows(trial, record) for trial in (one, other))
    return ours is not None and theirs is not None and ours.shape == theirs.shape and bool((ours == theirs).all())


def _read_rows(trial: Trial, record: OutputRecord) -> Words | None:
    """The rows of a record, sorted; None if there are none of this form."""
    columns = list(_read_columns(trial, record.names))
    if len(columns) < len(record.names) or len({len(column) for column in columns}) != 1:
        return None
    if len(columns[0]) % record.width:
        return None
    rows = np.hstack([column.reshape(-1, record.width) for column in columns])
    return rows[np.lexsort(rows.T[::-1])]


def _read_columns(trial: Trial, names: Iterable[OutputName]) -> Iterator[Words]:
    places = outputs_by_name(trial)
    for name in names:
        data = (trial.recorded or {}).get(places.get(name, -1))
        if data is not None and len(data) % 4 == 0:
            yield np.frombuffer(data, np.uint32)


def holds_same_words(before: Trial, after: Trial, mine: int, other: int) -> bool:
    """Whether two outputs, by their places, hold the same words of 4 bytes, in any order."""
    words_before, two = (before.recorded or {}).get(mine), (after.recorded or {}).get(other)
    if words_before is None or two is None or len(words_before) != len(two) or len(words_before) % 4:
        return False
    return bool(np.array_equal(np.sort(np.frombuffer(words_before, np.uint32)), np.sort(np.frombuffer(two, np.uint32))))
