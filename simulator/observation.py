"""What a run observes and changes besides counters, so that two programs can be compared (native/runtime/trial.h)."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from enum import IntEnum
from pathlib import Path

RECORD_FILE = "hipsynth-outputs.bin"  # in the program's folder
MOST_OUTPUTS = 4098  # the runtime library keeps 4096, one digest of what came after them, and one of what it watched
MOST_USES = 16  # of an allocation that are listed
MOST_RECORDED = 256 << 20  # bytes


class Family(IntEnum):
    """What the floating-point numbers of inputs become, from those that a program made (native/runtime/redraw.h)."""

    SCALED = 0  # each by 0.75 to 1.25, as in all families; signs and zeros stay
    SIGNS = 1  # half of the signs are other ones
    WIDE = 2  # by a power of two between 2^-6 and 2^6
    ZEROS = 3  # a quarter are zero
    REPEATED = 4  # all are one of them
    SORTED = 5  # in ascending order
    OUTLIERS = 6  # one in a hundred is 4096 times as large
    LARGE = 7  # all are 256 times as large
    SMALL = 8  # all are 2^-20 times as large; some are denormal
    INFINITE = 9  # a few are infinite
    # Of these, floating-point numbers stay as they are, and so do integers but those of 32 bits that kernels only read.
    LARGE_INTEGERS = 10  # half are up to 2^28
    NEGATIVE_INTEGERS = 11  # most signed ones are negative, some down to -2^28
    REPEATED_PLACES = 12  # those that are all different and small, so that two may be equal
    # Of floating-point numbers again: some are zero, of either sign, and a few are infinite.
    ZEROS_AND_INFINITIES = 13


class Elements(IntEnum):
    """What an allocation holds (native/runtime/redraw.h)."""

    UNKNOWN = 0
    FLOATS = 1
    DOUBLES = 2
    HALVES = 3
    BFLOATS = 4
    INTEGERS = 5
    WORDS = 6  # of 32 bits, signed; of inputs alone, as the next one
    UNSIGNED_WORDS = 7


class Deferral(IntEnum):
    """Whose work of streams comes first where it waits until the program waits for it (native/runtime/deferred_work.h);
    of two operations that do not wait for each other, one of the orders runs the later one first."""

    NONE = 0  # work is executed when it is submitted
    OLDEST_STREAM_FIRST = 1
    YOUNGEST_STREAM_FIRST = 2


@dataclass(frozen=True)
class KnownElements:
    """What the allocation with number `index` holds, if it has so many bytes."""

    index: int
    bytes: int
    elements: Elements

    def __str__(self) -> str:
        return f"{self.index}:{self.bytes}:{int(self.elements)}"


@dataclass(frozen=True)
class KnownInput:
    """What an input holds whose contents have a digest. `constant`: it was uploaded, and kernels only read it."""

    contents: int
    elements: Elements
    constant: bool

    def __str__(self) -> str:
        return f"{self.contents}:{int(self.elements)}:{int(self.constant)}"


LDS_FILL = 0xFF  # the byte that fills a work-group's LDS where memory is poisoned: NaNs, and no index


@dataclass(frozen=True, kw_only=True)
class MemoryChanges:
    """What a run changes in memory and reports of it; by default nothing.

    `record_bytes`: keep up to so many bytes of what is digested. `redraw`: not 0, a seed by which the inputs of
    kernels are drawn again, as numbers of a `family`; with `redraw_integers`, other data is resampled, or permuted if
    its numbers are all different, unless it is non-decreasing. `nudge`: not 0, a seed by which the last bit of each
    number moves. `elements`: what inputs hold, where that is known; others are recognised by their bytes, and may hold
    `halves`. `inputs`: likewise by their contents, which are the same in two programs. `poison`: not 0, the 32-bit
    word that fills new allocations; the LDS is filled, too. `poison_every`: not 0, also fill what kernels had written
    after every so many launches, and change inputs that are drawn again once more; `poison_from`: launches before the
    first of them. `poison_results`: before the first launch, also fill device memory that no input was copied to.
    `scatter`: not 0, a seed by which device memory is allocated at other places. `watch`: also report how often the
    host had written device memory directly; `guard`: end the program where the host reads or writes it. `races`: warn
    of accesses to one word that nothing puts in order. `exact_sums`: atomics that add floating-point numbers carry
    what rounding loses, so that sums do not depend on their order. `one_in`: where nothing is counted, about one in so
    many work-groups of a grid runs, in windows of equal parts that begin `which` / `one_in` into each; as many as
    `one_in`: only the first one. `deferral`: launches, copies and fills are executed no earlier than the program waits
    for them.
    """

    record_bytes: int = 0
    redraw: int = 0
    redraw_integers: bool = False
    poison: int = 0
    watch: bool = False
    family: Family = Family.SCALED
    nudge: int = 0
    elements: tuple[KnownElements, ...] = ()
    inputs: tuple[KnownInput, ...] = ()
    halves: bool = True
    poison_every: int = 0
    poison_from: int = 0
    poison_results: bool = False
    scatter: int = 0
    guard: bool = False
    races: bool = False
    exact_sums: bool = False
    one_in: int = 1
    which: int = 0
    deferral: Deferral = Deferral.NONE


@dataclass(frozen=True)
class Observation(MemoryChanges):
    """`outputs`: digest every copy to the host, and every allocation when it is freed or the program ends."""

    outputs: bool = True

    @classmethod
    def with_changes(cls, changes: MemoryChanges, *, outputs: bool) -> Observation:
        """The observation that makes the same changes."""
        shared = {field.name: getattr(changes, field.name) for field in fields(MemoryChanges)}
        return cls(outputs, **shared)

    def entries(self, folder: Path) -> list[tuple[str, object]]:
        """The entries of a run's configuration, for a program that runs in `folder`."""
        optional: list[tuple[str, int]] = [
            ("watch", self.watch),
            ("family", self.family),
            ("nudge", self.nudge),
            ("poison_every", self.poison_every),
            ("poison_from", self.poison_from),
            ("poison_results", self.poison_results),
            ("scatter", self.scatter),
            ("lds_fill", LDS_FILL if self.poison else 0),
            ("guard", self.guard),
            ("races", self.races),
            ("exact_sums", self.exact_sums),
            ("one_in", self.one_in if self.one_in > 1 else 0),
            ("which", self.which),
            ("deferral", self.deferral),
        ]
        inputs = (("elements", self.elements), ("inputs", self.inputs))
        described = [(name, ",".join(map(str, rows))) for name, rows in inputs if rows]
        return [
            *described,
            ("halves", int(self.halves)),
            ("outputs", int(self.outputs)),
            ("record_bytes", min(self.record_bytes, MOST_RECORDED)),
            ("record_path", folder.resolve() / RECORD_FILE),
            ("redraw", self.redraw),
            ("redraw_integers", int(self.redraw_integers)),
            ("poison", self.poison),
            *((name, int(value)) for name, value in optional if value),
        ]


@dataclass(frozen=True)
class BufferUse:
    """A kernel, by its symbol, and the number of the parameter that an allocation was passed as. `last`: the number of
    the last such launch among launches, copies to or within the device, and fills."""

    kernel: str
    parameter: int
    last: int = field(default=0, compare=False)


@dataclass(frozen=True)
class Output:
    """Bytes that a run left behind. `kind`: "copy" to the host, "buffer" or "variable" of the device at its end, or the
    "rest" of very many; "host_writes" has no contents, and its number in `bytes`.

    `index` counts copies, and buffers in the order of their allocation; that of a variable is a hash of its name.
    `recorded` of the bytes were kept. `uses`: of the allocation, up to MOST_USES. Of a buffer, `uploaded` are the bytes
    that were copied to it from the host, `inputs` digests of these copies, up to MOST_USES, and `written_at` is the
    number of the last copy to it, or fill, as in `uses`. A copy of one piece of memory is that at `offset` in the
    buffer with the index `source`.
    """

    kind: str
    index: int
    bytes: int
    recorded: int
    digest: str
    uses: tuple[BufferUse, ...] = field(default=(), compare=False)  # by which kernels, whatever they are called
    uploaded: int = field(default=0, compare=False)
    written_at: int = field(default=0, compare=False)
    source: int = field(default=-1, compare=False)
    offset: int = field(default=0, compare=False)
    inputs: tuple[int, ...] = field(default=(), compare=False)
