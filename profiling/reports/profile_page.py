"""One profile as an HTML page that needs nothing else: verdict, speed of light by unit, memory chart, roofline, source
lines beside counts, occupancy with its next step, launches, metrics and counters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from hipsynth.core.documents import Json, to_json
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.protocol import TargetResult, describe_target
from hipsynth.profiling.lines.line_records import KernelLines
from hipsynth.profiling.metrics.bottleneck import latency_breakdown, rank_bounds, simd_occupancy, summarise_bounds
from hipsynth.profiling.reports.describe import result_document
from hipsynth.profiling.reports.documents import ProfiledKernel
from hipsynth.profiling.reports.lines import compact_count, select_lines, source_lines
from hipsynth.profiling.reports.memory_chart import draw_memory_chart
from hipsynth.profiling.reports.numbers import format_number, format_quantity, unit_prefix
from hipsynth.profiling.reports.occupancy import next_occupancy_step
from hipsynth.profiling.reports.pages import escape, head_row, render_page
from hipsynth.profiling.reports.what_if import LEAST_WORTH, answer_what_if

LEAST_BOUND = 0.005  # shares of the duration below this are not drawn
CONTEXT = 2  # lines of source before and after those with instructions
LINE_COLUMNS = ("share", "", "instr", "bytes", "vL1D", "L2 miss", "conflicts", "stalls", "line", "source")


def profile_page(path: str, results: Sequence[TargetResult]) -> str:
    """The page of a program's profile. Source lines are there if the results have them (RunLimits.lines)."""
    parts = [f"<header><h1>Profile of <code>{escape(Path(path).name)}</code></h1>"]
    parts += [f'<p class="soft">{escape(path)}; simulated on the CPU</p></header><main>']
    plots: list[Json] = []
    for result in results:
        parts += [f"<section><h2>{escape(describe_target(result.arch, result.device, result.flags))}</h2>"]
        if result.status != RunStatus.OK:
            parts.append(f'<p class="verdict slower">{escape(f"{result.reason}: {result.message}")}</p>')
        if result.launches:
            parts.append(_launch_table(result))
            document = result_document(result)
            for kernel, described in zip(result.launches, document.kernels, strict=True):
                parts += _kernel_parts(kernel, result, described)
            parts.append(f'<h3>Roofline</h3><div class="card plot"><div data-plot="{len(plots)}"></div></div>')
            plots.append(to_json(document.plot))
        parts.append("</section>")
    parts.append("</main>")
    return render_page(f"Profile of {Path(path).name}", "\n".join(parts), "profile.js", plots)


def _launch_table(result: TargetResult) -> str:
    total = sum(kernel.duration_ns * kernel.dispatches for kernel in result.launches)
    rows = [
        (
            kernel.name,
            _dims_text(kernel.grid),
            _dims_text(kernel.block),
            f"{kernel.dispatches:,}",
            format_quantity(kernel.duration_ns, "ns"),
            f"{100 * kernel.duration_ns * kernel.dispatches / total:.1f} %" if total else "",
            "" if kernel.sampling is None else kernel.sampling.strategy,
        )
        for kernel in result.launches
    ]
    return "<h3>Launches</h3>" + _table(
        ("kernel", "grid", "block", "times", "duration each", "of the time", "run"), rows
    )


def _dims_text(dims: Sequence[int]) -> str:
    return " x ".join(map(str, dims))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    titles = f"<thead>{head_row(head)}</thead>" if any(head) else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table>{titles}<tbody>{body}</tbody></table></div>'


def _kernel_parts(kernel: KernelRecord, result: TargetResult, document: ProfiledKernel) -> Iterator[str]:
    error = (document.expected_error or {}).get("Duration")
    unsure = f" <small>± {error.range:.2g} % to the hardware</small>" if error is not None and error.range else ""
    verdict = summarise_bounds(rank_bounds(kernel), latency_breakdown(kernel, result.device))
    yield f"<h3><code>{escape(kernel.name)}</code></h3>"
    yield f'<p class="duration">{escape(format_quantity(kernel.duration_ns, "ns"))}{unsure}</p>'
    yield f'<p class="verdict">{escape(verdict or "what limits it is not known")}</p>'
    if document.no_evidence:
        yield f'<p class="soft">Unlike every recorded kernel: {escape(", ".join(document.no_evidence))}.</p>'
    yield '<div class="grid">'
    yield from _speed_of_light(kernel)
    yield from _what_if_parts(kernel, result.device)
    yield from _occupancy_parts(kernel, result.device)
    yield "</div>"
    if kernel.counters:
        yield '<h3>Memory chart, per dispatch</h3><div class="card wide" tabindex="0">'
        yield draw_memory_chart(kernel, result.device, result.transfers) + "</div>"
    lines = next((rows for rows in result.lines if rows.symbol == kernel.symbol), None)
    if lines is not None and lines.lines:
        yield from _source_parts(lines)
    yield from _figure_parts(kernel)


def _bar(share: float) -> str:
    filled = round(100 * min(1.0, max(0.0, share)), 2)
    return (
        f'<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" role="img" aria-label="{filled:.0f} %">'
        f'<rect class="track" width="100" height="10"/><rect class="fill" width="{filled}" height="10"/></svg>'
    )


def _speed_of_light(kernel: KernelRecord) -> Iterator[str]:
    """Each unit's own time as a share of the duration."""
    bounds = [bound for bound in rank_bounds(kernel) if bound.share >= LEAST_BOUND]
    if not bounds:
        return
    yield '<section class="card"><h3>Time that each unit alone needs</h3><div class="wide" tabindex="0"><table><tbody>'
    for bound in bounds:
        yield f"<tr><td>{escape(bound.name)}</td><td>{_bar(bound.share)}</td><td>{100 * bound.share:.0f} %</td>"
        yield f"<td>{escape(format_quantity(bound.ns, 'ns'))}</td></tr>"
    yield '</tbody></table></div><p class="soft">Units work at the same time: shares overlap.</p></section>'


def _what_if_parts(kernel: KernelRecord, device: str) -> Iterator[str]:
    answers = [row for row in answer_what_if(kernel, device) or () if row.worth_percent >= LEAST_WORTH]
    if not answers:
        return
    yield '<section class="card"><h3>What removing a cause is worth at most</h3>'
    yield '<div class="wide" tabindex="0"><table><tbody>'
    for row in answers:
        yield f"<tr><td>{escape(row.cause.replace('_', ' '))}</td><td>{_bar(row.worth_percent / 100)}</td>"
        yield f"<td>{row.worth_percent:.0f} %</td><td>{escape(format_quantity(row.duration_ns, 'ns'))}</td></tr>"
    yield '</tbody></table></div><p class="soft">The timing model without it; causes hide each other.</p></section>'


def _occupancy_parts(kernel: KernelRecord, device: str) -> Iterator[str]:
    room = simd_occupancy(kernel, device)
    if room is None:
        return
    yield f'<section class="card"><h3>Occupancy</h3><p>{escape(room)}</p><p>{_bar(room.waves / room.most)}</p>'
    if step := next_occupancy_step(kernel, device):
        yield f"<p>Next step: {escape(step)}.</p>"
    if registers := kernel.registers:
        rows = [
            ("VGPRs", f"{registers.vgprs:g}"),
            ("AGPRs", f"{registers.agprs:g}"),
            ("SGPRs", f"{registers.sgprs:g}"),
            ("LDS per work-group", f"{registers.lds_bytes:,.0f} B"),
            ("scratch per work-item", f"{registers.scratch_bytes:,.0f} B"),
        ]
        yield _table(("", ""), rows)
    yield "</section>"


def _source_parts(lines: KernelLines) -> Iterator[str]:
    """The source with the counts of each line."""
    for file in dict.fromkeys(line.file for line in lines.lines if line.line):
        yield f"<h3>Source: <code>{escape(Path(file).name)}</code></h3>"
        yield f'<div class="card wide" tabindex="0"><table class="code"><thead>{head_row(LINE_COLUMNS)}</thead><tbody>'
        yield from _source_rows(lines, file)
        yield "</tbody></table></div>"
    yield '<p class="soft">Per dispatch; share: of the kernel\'s time, by the units that bound it.</p>'


def _source_rows(lines: KernelLines, file: str) -> Iterator[str]:
    costs = {line.line: line.amounts for line in lines.lines if line.file == file}
    for row in select_lines(costs, source_lines(file), CONTEXT):
        if row is None:
            yield f'<tr><td colspan="{len(LINE_COLUMNS)}">…</td></tr>'
            continue
        number, source = row
        cells = ["", "", "", "", "", "", "", ""]
        if a := costs.get(number):
            counts = (a.instructions, a.bytes + a.lds_bytes, a.accesses, a.l2_misses, a.bank_conflicts, a.stall_cycles)
            cells = [f"{100 * a.share:.1f} %", _bar(a.share), *(compact_count(c) if c else "" for c in counts)]
        places = f'<td>{number}</td><td class="text">{escape(source)}</td>'
        yield f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}{places}</tr>"


def _figure_parts(kernel: KernelRecord) -> Iterator[str]:
    """All metrics and counters, folded."""
    table = metrics.metric_table()
    rows = []
    for name in metrics.all_ids():
        value = kernel.metrics.get(name)
        if value is not None and name not in metrics.EQUAL_TO_THROUGHPUT:
            factor, unit = unit_prefix([value], table.metrics[name].unit)
            rows.append((metrics.display_name(name), metrics.display_title(name), format_number(value / factor), unit))
    yield f"<details><summary>Metrics</summary>{_table(('metric', 'title', 'value', 'unit'), rows)}</details>"
    counts = [(name, f"{value:,.0f}") for name, value in sorted(kernel.counters.items()) if value]
    yield f"<details><summary>Counters</summary>{_table(('counter', 'value'), counts)}</details>"
