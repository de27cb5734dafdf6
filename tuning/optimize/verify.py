"""Checks that a faster program is the same program: docs/explanation/honest-gains.md says what each check is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.sizes import Arguments
from hipsynth.tuning.trial import BIT_FOR_BIT, Conditions, Tolerance, Trial, compare, trial

RECORD_BYTES = 64 << 20
SEEDS = (11, 12)  # the search itself uses the program's own inputs only
POISON = 0x7FF7A5A5  # a NaN as half, float and double, and no usable index
MOST_SIZES = 3
TIME_S = 20.0  # processor time of one exact run


@dataclass(frozen=True)
class Check:
    """One check. `passed` is None where it says nothing, because of `detail`."""

    name: str
    passed: bool | None
    detail: str = ""
    error: float = 0.0


@dataclass(frozen=True)
class Verification:
    """All checks of a candidate."""

    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Nothing failed, and the outputs were compared at least once."""
        found = {check.name: check.passed for check in self.checks}
        return found.get("outputs_equal") is True and False not in found.values()

    @property
    def failure(self) -> str:
        return next((f"{c.name}: {c.detail}" for c in self.checks if c.passed is False), "")

    def document(self) -> dict[str, Any]:
        found: dict[str, bool | None] = {"outputs_equal": False, "other_inputs": None, "other_sizes": None}
        found |= {check.name: check.passed for check in self.checks}
        return {**found, "checks": [asdict(check) for check in self.checks]}


@dataclass
class Verifier:
    """Compares candidates with the original at small sizes, where every work-group is executed.

    Raises nothing: a size at which the original fails, or runs too long, is not used.
    """

    original: str
    target: Target
    sizes: Sequence[Arguments]
    tolerance: Tolerance = BIT_FOR_BIT
    _known: dict[Conditions, Trial] = field(default_factory=dict)

    def __post_init__(self) -> None:
        usable: list[Arguments] = []
        for size in self.sizes:
            if len(usable) < MOST_SIZES and self._usable(size):
                usable.append(size)
        self.sizes = usable

    def _usable(self, size: Arguments) -> bool:
        found = self._reference(self._conditions(size))
        return found.ok and found.exit_code == 0 and bool(found.kernels)

    def _conditions(self, size: Arguments) -> Conditions:
        return Conditions(size, exact=True, record_bytes=RECORD_BYTES if self.tolerance.kind else 0, time_s=TIME_S)

    def _reference(self, conditions: Conditions) -> Trial:
        if conditions not in self._known:
            self._known[conditions] = trial(self.original, self.target, conditions)
        return self._known[conditions]

    def quick(self, text: str) -> Check:
        """The outputs at the first size only, for a search."""
        if not self.sizes:
            return Check("outputs_equal", None, "the original runs at no size that can be executed in full")
        return self._equal("outputs_equal", text, self._conditions(self.sizes[0]))

    def _equal(self, name: str, text: str, conditions: Conditions) -> Check:
        after = trial(text, self.target, conditions)
        found = compare(self._reference(conditions), after, self.tolerance, texts=not conditions.redraw)
        size = " ".join(conditions.arguments) or "none"
        reason = found.reason or (
            "bit for bit" if found.exact else f"within {found.error:.2g}: {self.tolerance.reason}"
        )
        return Check(name, found.equal, f"arguments {size}: {reason}", found.error)

    def full(self, text: str) -> Verification:
        """All checks, until the first failure."""
        checks = [self.quick(text)]
        for check in (self._precision, self._stale, self._other_inputs, self._other_sizes):
            if checks[-1].passed is False or not self.sizes:
                break
            checks.append(check(text))
        return Verification(tuple(checks))

    def _precision(self, text: str) -> Check:
        """No arithmetic in a narrower type than the original's."""
        conditions = self._conditions(self.sizes[0])
        before, after = self._reference(conditions), trial(text, self.target, conditions)
        if _operations(after, "F16") > _operations(before, "F16"):
            return Check("precision", False, "it calculates with halves where the original does not")
        if _operations(after, "F64") < 0.5 * _operations(before, "F64"):
            return Check("precision", False, "it calculates with floats where the original uses doubles")
        return Check("precision", True)

    def _stale(self, text: str) -> Check:
        """New allocations hold NaNs: nothing may be read that was not written."""
        conditions = replace(self._conditions(self.sizes[0]), poison=POISON)
        if not self._reference(conditions).ok:
            return Check("stale_memory", None, "the original itself reads memory that it has not written")
        return self._equal("stale_memory", text, conditions)

    def _other_inputs(self, text: str) -> Check:
        """Inputs drawn again: first also integers, which may make the original fail, then floating point only."""
        plain = self._conditions(self.sizes[0])
        last = Check("other_inputs", None, "the program copies no data to the device that could be drawn again")
        for integers in (True, False):
            drawn = [replace(plain, redraw=seed, redraw_integers=integers) for seed in SEEDS]
            before = [self._reference(conditions) for conditions in drawn]
            if not all(one.ok for one in before):
                last = Check("other_inputs", None, "the original fails on inputs that are drawn again")
            elif any(one.outputs != self._reference(plain).outputs for one in before):
                found = [self._equal("other_inputs", text, conditions) for conditions in drawn]
                return next((one for one in found if not one.passed), found[0])
        return last

    def _other_sizes(self, text: str) -> Check:
        if len(self.sizes) < 2:
            return Check("other_sizes", None, "the program takes no size as an argument")
        found = [self._equal("other_sizes", text, self._conditions(size)) for size in self.sizes[1:]]
        return next((one for one in found if not one.passed), found[0])


def _operations(found: Trial, kind: str) -> float:
    names = [f"SQ_INSTS_VALU_{what}_{kind}" for what in ("ADD", "MUL", "FMA", "TRANS")]
    return sum(kernel.counters.get(name, 0.0) * kernel.dispatches for kernel in found.kernels for name in names)
