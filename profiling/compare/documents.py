"""The document of `synth compare`. profiling/compare/differ.py fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from hipsynth.core.kernel_record import Dim
from hipsynth.core.tabular import Row, TabularDocument, frame_page, shape_text

PAGE_HEIGHT = 520  # pixels, in a notebook
Verdict = Literal["faster", "slower", "equal", "uncertain"]
Pairing = Literal["launch", "meta", "name", "order"]


@dataclass(frozen=True)
class QuantityPair:
    """A metric or counter in A and B (null: unknown), and its change in per cent of A; null where A has none."""

    a: float | None
    b: float | None
    change_percent: float | None


@dataclass(frozen=True)
class DurationPair:
    """Two durations in ns, how many times as fast B is, and how much longer B takes in per cent of A (negative: less).

    `uncertainty_percent`: what 8 of 10 changes are nearer to the hardware than, in per cent of A; null for measured
    durations. `verdict`: "uncertain" if the change is smaller than that.
    """

    a_ns: float
    b_ns: float
    speedup: float
    change_percent: float
    uncertainty_percent: float | None
    verdict: Verdict


@dataclass(frozen=True)
class ChangeCause:
    """Why a duration changed: a unit of the timing model, the time in ns that it alone needs in A and B, and the
    counter that explains it, "" if none does."""

    unit: str
    name: str
    a_ns: float
    b_ns: float
    counter: str
    text: str


@dataclass(frozen=True)
class LinePair:
    """A source line in A and B, and its share of the kernel's time in ns. `line_a` or `line_b` is null if only the
    other has it; a changed line is one of each."""

    file_a: str
    file_b: str
    line_a: int | None
    line_b: int | None
    text: str
    a_ns: float
    b_ns: float


@dataclass(frozen=True)
class MetaPair:
    """A member of `meta` of a Triton kernel in A and B: a block size, or a compile option; null where it has none."""

    a: bool | int | str | None
    b: bool | int | str | None


@dataclass(frozen=True)
class KernelPair:
    """A kernel of A and its counterpart in B, found by name, launch shape and, of Triton kernels, equal `meta`
    ("launch"), by name and `meta`, by name (those whose `meta` have most in common), or by its place in the order.

    `language_a` and `language_b`: "triton", or null for HIP; `meta`: what the two were specialized for, null if both
    are HIP. `metrics` has all metrics, `counters` those that changed; `limit_a` and `limit_b` say what limits each, ""
    if that is not known. `summary`: the change of the duration in words. With --lines: `lines`, those that cost time.
    """

    name: str
    name_b: str
    paired_by: Pairing
    grid_a: Dim
    grid_b: Dim
    block_a: Dim
    block_b: Dim
    dispatches_a: int
    dispatches_b: int
    duration: DurationPair
    causes: tuple[ChangeCause, ...]
    limit_a: str
    limit_b: str
    metrics: Mapping[str, QuantityPair]
    counters: Mapping[str, QuantityPair]
    summary: str
    language_a: str | None = None
    language_b: str | None = None
    meta: Mapping[str, MetaPair] | None = None
    lines: tuple[LinePair, ...] | None = None


@dataclass(frozen=True)
class TargetName:
    """A target of one of the two profiles."""

    arch: str
    device: str
    flags: str


@dataclass(frozen=True)
class TargetPair:
    """A target of A beside one of B. `total`: of all launches of all kernels, null if one side has none; `only_a` and
    `only_b`: kernels without a counterpart; `failure_a` and `failure_b`: why a program did not run to its end, or
    failed there, "" if it did not: kernels and launches may be missing then."""

    a: TargetName
    b: TargetName
    total: DurationPair | None
    kernels: tuple[KernelPair, ...]
    only_a: tuple[str, ...]
    only_b: tuple[str, ...]
    failure_a: str = ""
    failure_b: str = ""


@dataclass(frozen=True)
class ComparedSide:
    """One of the two: what was given, and the program's id."""

    source: str
    program: str


@dataclass(frozen=True, repr=False)
class CompareDocument(TabularDocument):
    """The document of `synth compare --json`. `only_a` and `only_b`: targets without a counterpart; `slower`: what is
    slower than --fail-if-slower allows (`slower_limit_percent`), [] without it."""

    a: ComparedSide
    b: ComparedSide
    targets: tuple[TargetPair, ...]
    only_a: tuple[TargetName, ...]
    only_b: tuple[TargetName, ...]
    slower_limit_percent: float | None
    slower: tuple[str, ...]

    def table_rows(self) -> list[Row]:
        """One row for each pair of kernels: the durations, then each metric in A and B."""
        pairs = [(target, kernel) for target in self.targets for kernel in target.kernels]
        metrics = list(dict.fromkeys(name for _, kernel in pairs for name in kernel.metrics))
        rows = list[Row]()
        for target, kernel in pairs:
            row: Row = {
                "kernel": kernel.name,
                "kernel_b": kernel.name_b,
                "device": target.a.device,
                "device_b": target.b.device,
                "grid": shape_text(kernel.grid_a),
                "grid_b": shape_text(kernel.grid_b),
                "duration_ns": kernel.duration.a_ns,
                "duration_ns_b": kernel.duration.b_ns,
                "speedup": kernel.duration.speedup,
                "verdict": kernel.duration.verdict,
                "summary": kernel.summary,
            }
            for name, value in (kernel.meta or {}).items():
                row |= {name: value.a, f"{name}_b": value.b}
            for name in metrics:
                both = kernel.metrics.get(name)
                row |= {name: both.a if both else None, f"{name}_b": both.b if both else None}
            rows.append(row)
        return rows

    def _repr_html_(self) -> str:
        from hipsynth.profiling.compare.page import comparison_page

        return frame_page(comparison_page(self), PAGE_HEIGHT)

    def __str__(self) -> str:
        from hipsynth.profiling.compare.text import comparison_lines

        return "\n".join(comparison_lines(self))
