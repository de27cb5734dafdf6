"""The memory chart of a kernel as SVG: units in a row, between them bytes, requests and rates, in them hit rates."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hipsynth.core.kernel_record import KernelRecord
from hipsynth.profiling.reports.numbers import format_number, format_percent, format_quantity
from hipsynth.profiling.reports.pages import escape
from hipsynth.profiling.reports.rates import level_rates
from hipsynth.simulator.transfers import Transfer

BOX_WIDTH, BOX_HEIGHT, GAP, TOP = 116, 92, 118, 14
LINE = 15
LDS_TOP = TOP + BOX_HEIGHT + 74
TITLES = {"L1": "vL1D", "L2": "L2", "Infinity Cache": "Infinity Cache", "HBM": "HBM"}


@dataclass(frozen=True)
class _Unit:
    """A box, what stands in it, and what stands above and below the link from the unit before it."""

    title: str
    texts: tuple[str, ...]
    link: tuple[str, ...]
    share: float | None = None  # of the peak rate


def draw_memory_chart(kernel: KernelRecord, device: str, transfers: Sequence[Transfer] = ()) -> str:
    """The chart; `transfers`: the program's copies between host and device."""
    units, lds = list(_chain_units(kernel, device)), _lds_unit(kernel, device)
    host = _host_unit(transfers)
    width = BOX_WIDTH + len(units) * (BOX_WIDTH + GAP)
    height = LDS_TOP + BOX_HEIGHT + 10
    label = escape(f"Memory chart of {kernel.name}")
    parts = [
        f'<svg class="memory" viewBox="0 0 {width} {height}" role="img" aria-label="{label}">',
        *_draw_box(0, TOP, _Unit("CUs", (f"{kernel.counters.get('SQ_WAVES', 0.0):,.0f} waves",), ())),
    ]
    for number, unit in enumerate(units):
        left = (number + 1) * (BOX_WIDTH + GAP)
        parts += [*_draw_link(left - GAP, unit), *_draw_box(left, TOP, unit)]
    parts += [*_draw_drop(0, lds), *_draw_box(0, LDS_TOP, lds)]
    if host is not None:
        left = len(units) * (BOX_WIDTH + GAP)
        parts += [*_draw_drop(left, host), *_draw_box(left, LDS_TOP, host)]
    return "\n".join([*parts, "</svg>"])


def _chain_units(kernel: KernelRecord, device: str) -> Iterator[_Unit]:
    """vL1D, L2, the Infinity Cache where the device has one, and HBM."""
    rates = {rate.level: rate for rate in level_rates(kernel, device)}
    for level in ("L1", "L2", "Infinity Cache", "HBM"):
        if level in rates:
            rate = rates[level]
            achieved = format_quantity(rate.gbps, "GB/s") if rate.gbps else "no traffic"
            share = f"{format_percent(rate.share)} of its peak"
            yield _Unit(TITLES[level], (*_inside(level, kernel), achieved, share), _link(level, kernel), rate.share)


def _inside(level: str, kernel: KernelRecord) -> tuple[str, ...]:
    """The hit rate of a cache."""
    hit_rates = {"L1": kernel.metrics.get("L1_Cache_Hit_Rate"), "L2": kernel.metrics.get("L2_Cache_Hit_Rate")}
    if (rate := hit_rates.get(level)) is not None:
        return (f"{rate:.1f} % hits",)
    if level == "Infinity Cache" and kernel.traffic is not None:
        return (f"{_short_count(kernel.traffic.infinity_hits)} hits",)
    return ()


def _link(level: str, kernel: KernelRecord) -> tuple[str, ...]:
    """What passes from the unit before to this one, per dispatch."""
    count = kernel.counters.get
    if level == "L1":
        sizes = (count("EXACT_READ_BYTES", 0.0), count("EXACT_WRITE_BYTES", 0.0))
        return (*_sizes(*sizes), f"{_short_count(count('TCP_TOTAL_CACHE_ACCESSES', 0.0))} look-ups")
    if level == "L2":
        reads, writes = count("TCP_TCC_READ_REQ", 0.0), count("TCP_TCC_WRITE_REQ", 0.0)
        atomics = count("TCP_TCC_ATOMIC_WITH_RET_REQ", 0.0) + count("TCP_TCC_ATOMIC_WITHOUT_RET_REQ", 0.0)
        named = ((reads, "reads"), (writes, "writes"), (atomics, "atomics"))
        return tuple(f"{_short_count(number)} {name}" for number, name in named if number or name != "atomics")
    if level == "Infinity Cache" and kernel.work is not None:
        misses = f"{_short_count(count('TCC_MISS', 0.0))} L2 misses"
        return (*_sizes(kernel.work.fabric_read_bytes, kernel.work.fabric_write_bytes), misses)
    if level == "HBM" and kernel.traffic is not None:
        return _sizes(kernel.traffic.hbm_read_bytes, kernel.traffic.hbm_write_bytes)
    return ()


def _sizes(read: float, written: float) -> tuple[str, str]:
    return f"read {_short_bytes(read)}", f"write {_short_bytes(written)}"


def _lds_unit(kernel: KernelRecord, device: str) -> _Unit:
    moved = kernel.counters.get("EXACT_LDS_BYTES", 0.0)
    if not moved:
        return _Unit("LDS", ("not used",), ())
    rate = next(rate for rate in level_rates(kernel, device) if rate.level == "LDS")
    conflicts = kernel.counters.get("SQ_LDS_BANK_CONFLICT", 0.0)
    return _Unit(
        "LDS",
        (f"{_short_count(conflicts)} conflicts", f"{format_percent(rate.share)} of its peak"),
        (_short_bytes(moved), format_quantity(rate.gbps or 0.0, "GB/s")),
        rate.share,
    )


def _host_unit(transfers: Sequence[Transfer]) -> _Unit | None:
    """The host, with the copies of the whole program."""
    sizes = {row.kind: float(row.bytes) for row in transfers}
    texts = [
        f"{title} {_short_bytes(sizes[kind])}"
        for kind, title in (("host_to_device", "to device"), ("device_to_host", "from device"))
        if kind in sizes
    ]
    return _Unit("Host", ("all launches",), tuple(texts)) if texts else None


def _draw_box(left: int, top: int, unit: _Unit) -> Iterator[str]:
    yield f'<rect class="box" x="{left + 1}" y="{top}" width="{BOX_WIDTH - 2}" height="{BOX_HEIGHT}" rx="6"/>'
    yield from _draw_texts(left + BOX_WIDTH / 2, top + 20, (unit.title,), "title")
    yield from _draw_texts(left + BOX_WIDTH / 2, top + 38, unit.texts, "soft")
    for style, share in () if unit.share is None else (("track", 1.0), ("fill", min(1.0, unit.share))):
        size = f'x="{left + 10}" y="{top + BOX_HEIGHT - 10}" width="{(BOX_WIDTH - 20) * share:.1f}" height="5"'
        yield f'<rect class="{style}" {size} rx="2"/>'


def _draw_link(left: int, unit: _Unit) -> Iterator[str]:
    middle = TOP + BOX_HEIGHT // 2
    yield f'<path class="edge" d="M{left + 4},{middle} H{left + GAP - 4} m-6,-4 l6,4 l-6,4"/>'
    yield from _draw_texts(left + GAP / 2, middle - 8 - LINE * (len(unit.link[:2]) - 1), unit.link[:2], "")
    yield from _draw_texts(left + GAP / 2, middle + 18, unit.link[2:], "soft")


def _draw_drop(left: int, unit: _Unit) -> Iterator[str]:
    """The link from a box to the one below it."""
    middle, bottom = left + BOX_WIDTH // 2, TOP + BOX_HEIGHT
    yield f'<path class="edge" d="M{middle},{bottom + 4} V{LDS_TOP - 4} m-4,-6 l4,6 l4,-6"/>'
    side, anchor = (-10, "end") if left else (10, "start")  # within the picture
    for number, text in enumerate(unit.link):
        place = f'x="{middle + side}" y="{bottom + 30 + LINE * number}" text-anchor="{anchor}"'
        yield f"<text {place}>{escape(text)}</text>"


def _draw_texts(x: float, y: float, texts: Sequence[str], style: str) -> Iterator[str]:
    for number, text in enumerate(texts):
        yield f'<text class="{style}" x="{x:g}" y="{y + LINE * number:g}" text-anchor="middle">{escape(text)}</text>'


def _short_count(value: float) -> str:
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if value >= size:
            return format_number(value / min(size, 1e3 if suffix == "k" else size), 3) + f" {suffix}"
    return f"{value:,.0f}"


def _short_bytes(value: float) -> str:
    for size, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if value >= size:
            return f"{format_number(value / size, 3)} {unit}"
    return f"{value:,.0f} B"
