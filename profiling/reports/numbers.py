"""Formatting of numbers in reports: significant digits, no exponents, units with a suitable prefix."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

# Unit of the metric table -> (factor, name), smallest first.
PREFIXES: Mapping[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")),
    "GB/s": ((1e-6, "kB/s"), (1e-3, "MB/s"), (1, "GB/s"), (1e3, "TB/s")),
    "GFLOP/s": ((1e-6, "kFLOP/s"), (1e-3, "MFLOP/s"), (1, "GFLOP/s"), (1e3, "TFLOP/s")),
}
SMALLEST = 1e-4  # anything closer to zero is shown as "<0.0001"


def unit_prefix(values: Sequence[float], unit: str) -> tuple[float, str]:
    """(factor, unit name) such that the largest value lies between 1 and 1000, if the unit has such a prefix."""
    largest = max((abs(value) for value in values), default=0.0)
    steps = PREFIXES.get(unit, ((1.0, unit),))
    fitting = [(factor, name) for factor, name in steps if largest >= factor]
    return fitting[-1] if fitting else steps[0] if largest else (1.0, unit)


def format_quantity(value: float, unit: str) -> str:
    """A value with four significant digits and a suitable unit prefix."""
    factor, name = unit_prefix([value], unit)
    return f"{format_number(value / factor)} {name}"


def format_percent(share: float) -> str:
    """A fraction as whole per cent; "<1 %" for small nonzero values."""
    return f"{100 * share:.0f} %" if share == 0 or share >= 0.01 else "<1 %"


def format_percentage(share: float | None) -> str:
    """A fraction in per cent with one decimal, for a column of a table; "-" if there is none."""
    return "-" if share is None else f"{100 * share:.1f}"


def format_number(value: float, digits: int = 4) -> str:
    """Formats with `digits` significant digits (integers keep all digits), thousands separators, no exponent."""
    if value == 0:
        return "0"
    if abs(value) < SMALLEST:
        return f"<{SMALLEST:.4f}" if value > 0 else f">-{SMALLEST:.4f}"
    places = max(0, digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{places}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
