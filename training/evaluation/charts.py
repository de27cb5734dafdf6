"""Inline SVG histograms of the report. Colours come from CSS classes and variables, so they adapt to dark mode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

from hipsynth.profiling.reports.numbers import format_number

HISTOGRAM_SHAPE = 300, 150, 30, 8, 8, 26  # width, height, margins left, right, top and bottom, in pixels


def category_colour(index: int) -> str:
    """A CSS colour for category `index`; hues step by the golden angle, so that adjacent categories differ."""
    return f"hsl({(index * 137.508 + 205) % 360:.0f} 62% {(48, 58, 40)[index % 3]}%)"


def svg_histogram(series: Mapping[str, Sequence[float]], title: str, bins: int = 24, log: bool = True) -> str:
    """An SVG histogram of values by group (one colour class per group, in order), on a logarithmic or linear axis.

    On a logarithmic axis, zeros have a separate bar at the left.
    """
    width, height, left, right, top, bottom = HISTOGRAM_SHAPE
    values = [v for group in series.values() for v in group if not log or v > 0]
    zeros = {name: sum(v <= 0 for v in group) if log else 0 for name, group in series.items()}
    scale = math.log10 if log else float
    low, high = (min(map(scale, values)), max(map(scale, values))) if values else (0.0, 1.0)
    if high - low < 1e-9:
        low, high = low - 0.5, high + 0.5
    counts = {name: [0] * bins for name in series}
    for name, group in series.items():
        for v in group:
            if not log or v > 0:
                counts[name][min(bins - 1, int((scale(v) - low) / (high - low) * bins))] += 1
    offset = 2 if any(zeros.values()) else 0
    step = (width - left - right) / (bins + offset)
    tallest = max([1, *(c for row in counts.values() for c in row), *zeros.values()])
    label = escape(f"Distribution of {title}")
    parts = [f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{label}">']
    for index, name in enumerate(series):
        bars = [(0, zeros[name])] if offset else []
        bars += [(b + offset, c) for b, c in enumerate(counts[name])]
        parts += [_draw_bar(name, index, left + slot * step, step, c, tallest) for slot, c in bars if c]
    base = height - bottom
    parts.append(f'<line class="base" x1="{left}" x2="{width - right}" y1="{base}" y2="{base}"/>')
    parts.append(f'<text class="tick" text-anchor="end" x="{left - 4}" y="{top + 8}">{tallest}</text>')
    ends = [(left + offset * step, low, "start"), (width - right, high, "end")]
    for x, value, anchor in ends:
        tick_label = format_number(10**value if log else value, 3)
        parts.append(f'<text class="tick" text-anchor="{anchor}" x="{x:.1f}" y="{base + 14}">{tick_label}</text>')
    if offset:
        parts.append(f'<text class="tick" text-anchor="middle" x="{left + step / 2:.1f}" y="{base + 14}">0</text>')
    return "".join([*parts, "</svg>"])


def _draw_bar(name: str, colour: int, x: float, step: float, count: int, tallest: int) -> str:
    """A bar of `count` values at `x`; the tallest bar fills the height."""
    _, height, _, _, top, bottom = HISTOGRAM_SHAPE
    tall = (height - top - bottom) * count / tallest
    box = f'x="{x:.1f}" y="{height - bottom - tall:.1f}" width="{step - 1:.1f}" height="{tall:.1f}"'
    return f'<rect class="bar bar-{colour}" {box}><title>{escape(name)}: {count}</title></rect>'
