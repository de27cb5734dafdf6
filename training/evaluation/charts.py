"""Inline SVG charts of the report. Colours come from CSS classes and variables, so they adapt to dark mode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from hipsynth.profiling.metrics import roofline
from hipsynth.profiling.reports.numbers import number

WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 44


@dataclass(frozen=True)
class Dot:
    """One kernel on a roofline: x in FLOP/B of HBM traffic, y in GFLOP/s, family, and tooltip text."""

    x: float
    y: float
    group: str
    title: str


def colour(index: int) -> str:
    """A CSS colour for category `index`; hues step by the golden angle, so that adjacent categories differ."""
    return f"hsl({(index * 137.508 + 205) % 360:.0f} 62% {(48, 58, 40)[index % 3]}%)"


def roofline_chart(device: str, dots: Sequence[Dot], colours: Mapping[str, str]) -> str:
    """An SVG roofline of a device with one dot per kernel and logarithmic axes; `colours` maps group to colour."""
    limits = roofline.ceilings(device)
    xs = [dot.x for dot in dots]
    low_x = math.floor(math.log10(min([0.01, *xs])))
    high_x = math.ceil(math.log10(max([1000.0, *xs])))
    high_y = math.log10(limits.peak) + 0.35
    low_y = min([math.log10(max(dot.y, 1e-3)) for dot in dots] + [high_y - 4.5]) - 0.2

    def px(x: float) -> float:
        return LEFT + (math.log10(x) - low_x) / (high_x - low_x) * (WIDTH - LEFT - RIGHT)

    def py(y: float) -> float:
        return TOP + (high_y - math.log10(max(y, 10**low_y))) / (high_y - low_y) * (HEIGHT - TOP - BOTTOM)

    parts = [_open(WIDTH, HEIGHT, f"Roofline of {device}")]
    parts += _decades(low_x, high_x, low_y, high_y, px, py)
    for level, label_position in (("L1", 0.78), ("L2", 0.42), ("HBM", 0.3)):
        ridge = roofline.ridge(level, limits)
        start = 10**low_x
        first = max(roofline.attainable(start, level, limits), 10**low_y)
        start = max(start, first / limits.bandwidth[level])
        points = f"{px(start):.1f},{py(first):.1f} {px(ridge):.1f},{py(limits.peak):.1f}"
        parts.append(f'<polyline class="roof roof-{level}" points="{points}"/>')
        label = f"{level} {limits.bandwidth[level] / 1000:.1f} TB/s"
        mid = 10 ** (math.log10(start) + label_position * (math.log10(ridge) - math.log10(start)))
        x, y = px(mid), py(roofline.attainable(mid, level, limits))
        slope = math.degrees(math.atan2(py(limits.peak) - py(first), px(ridge) - px(start)))
        parts.append(
            f'<text class="roof-label" text-anchor="middle" transform="translate({x:.1f} {y:.1f}) '
            f'rotate({slope:.1f}) translate(0 {14 if level == "HBM" else -5})">{label}</text>'
        )
    above = -math.inf
    for name, peak in sorted(_distinct(limits.compute).items(), key=lambda roof: -roof[1]):
        begin = px(max(peak / limits.bandwidth["L1"], 10**low_x))
        parts.append(
            f'<line class="roof" x1="{begin:.1f}" x2="{WIDTH - RIGHT}" y1="{py(peak):.1f}" y2="{py(peak):.1f}"/>'
        )
        label = f"{name} {peak / 1000:.1f} TFLOP/s"
        height = py(peak) + (14 if py(peak) - above < 16 else -5)  # below its line if the line above is close
        above = py(peak)
        parts.append(f'<text class="roof-label" text-anchor="end" x="{WIDTH - RIGHT}" y="{height:.1f}">{label}</text>')
    for dot in dots:
        parts.append(
            f'<circle class="dot" data-group="{escape(dot.group)}" cx="{px(dot.x):.1f}" cy="{py(dot.y):.1f}" r="4" '
            f'fill="{colours[dot.group]}"><title>{escape(dot.title)}</title></circle>'
        )
    parts.append(_axis_titles(WIDTH, HEIGHT, "arithmetic intensity against HBM, FLOP/B", "GFLOP/s"))
    return "".join([*parts, "</svg>"])


def _distinct(compute: Mapping[str, float]) -> dict[str, float]:
    """Compute roofs, with formats of equal peak merged into one."""
    by_peak: dict[float, list[str]] = {}
    for name, peak in compute.items():
        by_peak.setdefault(peak, []).append(name)
    return {", ".join(names): peak for peak, names in by_peak.items()}


def _decades(low_x: int, high_x: int, low_y: float, high_y: float, px: object, py: object) -> list[str]:
    assert callable(px) and callable(py)
    parts = []
    for exponent in range(low_x, high_x + 1):
        x = px(10.0**exponent)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        parts.append(
            f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{HEIGHT - BOTTOM + 15}">{_power(exponent)}</text>'
        )
    for exponent in range(math.ceil(low_y), math.floor(high_y) + 1):
        y = py(10.0**exponent)
        parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 3.5:.1f}">{_power(exponent)}</text>')
    return parts


def _power(exponent: int) -> str:
    if -3 <= exponent <= 4:
        return f"{10.0**exponent:g}"
    return f'10<tspan class="up" dy="-4">{exponent}</tspan>'


def _open(width: int, height: int, label: str) -> str:
    return f'<svg viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}">'


def _axis_titles(width: int, height: int, x: str, y: str) -> str:
    return (
        f'<text class="axis" text-anchor="middle" x="{(LEFT + width - RIGHT) / 2}" y="{height - 8}">{escape(x)}</text>'
        f'<text class="axis" text-anchor="middle" transform="translate(13 {(TOP + height - BOTTOM) / 2}) rotate(-90)">'
        f"{escape(y)}</text>"
    )


def histogram(series: Mapping[str, Sequence[float]], title: str, bins: int = 24, log: bool = True) -> str:
    """An SVG histogram of values by group (one colour class per group, in order), on a logarithmic or linear axis.

    On a logarithmic axis, zeros have a separate bar at the left.
    """
    width, height, left, right, top, bottom = 300, 150, 30, 8, 8, 26
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
    parts = [_open(width, height, f"Distribution of {title}")]
    for index, name in enumerate(series):
        bars = [(0, zeros[name])] if offset else []
        bars += [(b + offset, c) for b, c in enumerate(counts[name])]
        for slot, count in bars:
            if count:
                tall = (height - top - bottom) * count / tallest
                x, y = left + slot * step, height - bottom - tall
                tip = f"<title>{escape(name)}: {count}</title>"
                box = f'x="{x:.1f}" y="{y:.1f}" width="{step - 1:.1f}" height="{tall:.1f}"'
                parts.append(f'<rect class="bar bar-{index}" {box}>{tip}</rect>')
    base = height - bottom
    parts.append(f'<line class="base" x1="{left}" x2="{width - right}" y1="{base}" y2="{base}"/>')
    parts.append(f'<text class="tick" text-anchor="end" x="{left - 4}" y="{top + 8}">{tallest}</text>')
    ends = [(left + offset * step, low, "start"), (width - right, high, "end")]
    for x, value, anchor in ends:
        shown = number(10**value if log else value, 3)
        parts.append(f'<text class="tick" text-anchor="{anchor}" x="{x:.1f}" y="{base + 14}">{shown}</text>')
    if offset:
        parts.append(f'<text class="tick" text-anchor="middle" x="{left + step / 2:.1f}" y="{base + 14}">0</text>')
    return "".join([*parts, "</svg>"])
