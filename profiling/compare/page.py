"""A comparison as one HTML page that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from hipsynth.profiling.backends.protocol import describe_target
from hipsynth.profiling.compare.differ import describe_change
from hipsynth.profiling.compare.documents import (
    CompareDocument,
    DurationPair,
    KernelPair,
    LinePair,
    TargetName,
    TargetPair,
)
from hipsynth.profiling.compare.text import (
    LEGEND,
    Row,
    counter_rows,
    failure_lines,
    line_cells,
    line_place,
    meta_text,
    metric_rows,
)
from hipsynth.profiling.reports.numbers import format_quantity
from hipsynth.profiling.reports.pages import escape, head_row, render_page


def comparison_page(document: CompareDocument) -> str:
    """The page of a comparison: verdict and durations first, then what changed, then all counters."""
    parts = [
        f"<header><h1>Compared</h1><p>A: <code>{escape(document.a.source)}</code></p>",
        f"<p>B: <code>{escape(document.b.source)}</code></p></header><main>",
    ]
    for target in document.targets:
        parts += _target_parts(target)
    for side, targets in (("A", document.only_a), ("B", document.only_b)):
        parts += [f"<p>Only {side} was profiled for {_name_target(target)}.</p>" for target in targets]
    parts.append(f'<p class="soft">{escape(LEGEND)}</p></main>')
    return render_page(f"{document.a.source} and {document.b.source} compared", "\n".join(parts))


def _name_target(target: TargetName) -> str:
    return escape(describe_target(target.arch, target.device, target.flags))


def _target_parts(target: TargetPair) -> Iterator[str]:
    same = target.a == target.b
    both = _name_target(target.a) if same else f"A on {_name_target(target.a)}, B on {_name_target(target.b)}"
    yield f"<section><h2>{both}</h2>"
    yield from (f"<p><strong>{escape(line)}</strong></p>" for line in failure_lines(target))
    if target.total is not None and len(target.kernels) + len(target.only_a) + len(target.only_b) > 1:
        yield f"<p>All kernels: {_duration_text(target.total)}; {_verdict_text(target.total, '')}</p>"
    for kernel in target.kernels:
        yield from _kernel_parts(kernel)
    for side, names in (("A", target.only_a), ("B", target.only_b)):
        yield from (f"<p>Only in {side}: <code>{escape(name)}</code></p>" for name in names)
    yield "</section>"


def _verdict_text(pair: DurationPair, text: str) -> str:
    return f'<span class="verdict {pair.verdict}">{escape(text or describe_change(pair))}</span>'


def _duration_text(pair: DurationPair) -> str:
    return escape(f"{format_quantity(pair.a_ns, 'ns')} → {format_quantity(pair.b_ns, 'ns')}")


def _kernel_parts(kernel: KernelPair) -> Iterator[str]:
    name = kernel.name if kernel.name == kernel.name_b else f"{kernel.name} → {kernel.name_b} (paired by order)"
    yield f'<article class="card"><h3><code>{escape(name)}</code></h3>'
    if specialized := meta_text(kernel):
        yield f'<p class="soft">{escape(specialized.replace("->", "→"))}</p>'
    yield f"<p>{_verdict_text(kernel.duration, kernel.summary)}</p>"
    speed = "" if kernel.duration.verdict == "equal" else f" <small>{kernel.duration.speedup:.2f}x as fast</small>"
    yield f'<p class="duration">{_duration_text(kernel.duration)}{speed}</p>'
    for side, limit in (("A", kernel.limit_a), ("B", kernel.limit_b)):
        if limit:
            yield f"<p>{side} {escape(limit)}</p>"
    rows, counters = list(metric_rows(kernel)), list(counter_rows(kernel, True))
    if rows:
        yield _table_text("Metrics that changed", rows)
    if counters:
        yield f"<details><summary>Counters that changed</summary>{_table_text('', counters)}</details>"
    if kernel.lines:
        yield _lines_table(kernel, kernel.lines)
    yield "</article>"


def _table_text(caption: str, rows: Sequence[Row]) -> str:
    head = f"<thead>{head_row(('', 'A', 'B', 'change'))}</thead>"
    title = f"<caption>{caption}</caption>" if caption else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="wide" tabindex="0"><table>{title}{head}<tbody>{body}</tbody></table></div>'


def _lines_table(kernel: KernelPair, lines: Sequence[LinePair]) -> str:
    """The source lines that cost time, in the order of the files."""
    rows = []
    for pair in lines:
        place = line_place(pair).replace("->", "→")
        times = "".join(f"<td>{cell}</td>" for cell in line_cells(kernel, pair))
        source = f'<td class="text"><code class="source">{escape(pair.text)}</code></td>'
        rows.append(f"<tr><td>{place}</td>{times}{source}</tr>")
    head = f"<thead>{head_row(('line', 'A', 'B', 'change', 'source'))}</thead>"
    return (
        f'<div class="wide" tabindex="0"><table class="lines"><caption>Time by source line</caption>{head}'
        f"<tbody>{''.join(rows)}</tbody></table></div>"
    )
