"""Terminal output of predictions, beside executed figures where there are some."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hipsynth.profiling import metrics as table

DURATION = "duration_ns"


def prediction_lines(document: Mapping[str, Any], why: bool = False) -> list[str]:
    """A result of `synth predict` as lines: per kernel the metrics with their intervals, beside what launches of the
    same kernel and shape did."""
    lines = [f"{document['arch']} ({document['device']})  {document['flags']}   predicted, not executed"]
    executed = {_launched(row): row for row in document.get("executed", ()) if "status" not in row}
    kernels = document.get("kernels") or [_of_source(document)]
    for kernel in kernels:
        lines += ["", *_kernel_lines(kernel, executed.get(_launched(kernel)), why)]
    for other in (row for row in document.get("executed", ()) if "status" in row):
        lines += ["", f"  the program did not execute: {other['reason']} {other['message']}".rstrip()]
    answered = {_launched(kernel) for kernel in kernels}
    for row in (row for launched, row in executed.items() if launched not in answered):
        shape = f"{_shape(row['grid'])} x {_shape(row['block'])}"
        lines += ["", f"{row['instance']}  {shape}", f"  executed in {_number(row[DURATION] / 1000)} us, not predicted"]
    lines += [f"  note: {note}" for note in document["notes"]]
    lines.append(f"  answered in {document['seconds']:.2f} s")
    return lines


def _launched(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a prediction and an execution are compared by: the kernel's instance and the shape of its launch."""
    return row.get("instance"), *(tuple(row[name] or ()) for name in ("grid", "block"))


def variant_lines(answers: Sequence[Mapping[str, Any]]) -> list[str]:
    """The answers of `synth predict --sweep` as a table: what differs, and the kernel that takes longest."""
    cells = [_variant_cells(answer) for answer in answers]
    shown = [name for name in cells[0] if len({row.get(name) for row in cells}) > 1]
    rows = [[*shown, "kernel", "us", "80 % interval", "limited by"]]
    for answer, cell in zip(answers, cells, strict=True):
        timed = [kernel for kernel in answer["kernels"] if kernel[DURATION] is not None]
        main = max(timed, key=lambda kernel: kernel[DURATION], default=None)
        row = [cell.get(name, "") for name in shown]
        if main is None:
            rows.append([*row, "-", "-", "", answer["kernels"][0]["reason"] if answer["kernels"] else "no launch"])
            continue
        low, high = main["intervals"].get(DURATION, (main[DURATION], main[DURATION]))
        between = f"{_number(low / 1000)} - {_number(high / 1000)}" + (" unsure" if main["abstained"] else "")
        rows.append([*row, main["name"], _number(main[DURATION] / 1000), between, main["bottleneck"]])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(f"{text:<{width}}" for text, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _variant_cells(answer: Mapping[str, Any]) -> dict[str, str]:
    cells = {name: str(answer[name]) for name in ("device", "flags")}
    cells |= {name: _shape(answer[name]) if answer[name] else "" for name in ("grid", "block")}
    cells |= {f"arg{n}": word for n, word in enumerate(answer["arguments"], 1)}
    return cells | {name: _number(value) if value % 1 else f"{value:.0f}" for name, value in answer["values"].items()}


def _of_source(document: Mapping[str, Any]) -> dict[str, Any]:
    """A language model's answer, which is one for the whole program and has no duration, in the form of a kernel."""
    shape: dict[str, Any] = {"grid": None, "block": None, "bottleneck": "", "abstained": False, "reason": "", "why": []}
    return {"name": "", "metrics": document["metrics"], DURATION: None, "intervals": {}, **shape}


def _kernel_lines(kernel: Mapping[str, Any], executed: Mapping[str, Any] | None, why: bool) -> list[str]:
    shape = f"  {_shape(kernel['grid'])} x {_shape(kernel['block'])}" if kernel["grid"] else ""
    lines = [
        f"{kernel.get('instance') or kernel['name'] or 'program'}{shape}"
        + ("   limited by " + kernel["bottleneck"] if shape else "")
    ]
    if kernel["abstained"]:
        lines.append(f"  no reliable answer: {kernel['reason']}")
    if kernel[DURATION] is None and not kernel["metrics"]:
        return lines
    heads = f"  {'':<26} {'predicted':>12} {'80 % interval':>23} {'executed':>12} {'error':>8}"
    lines.append(heads if executed else heads[: 2 + 27 + 12 + 24])
    facts = table.table().metrics
    rows: list[tuple[str, str, str]] = [(DURATION, "Duration", "us")]
    rows += [(metric, facts[metric].title, facts[metric].unit) for metric in table.paper_ids()]
    for name, title, unit in rows:
        lines.append(_row(name, title, unit, kernel, executed))
    if why:
        lines += [f"  why: {reason}" for reason in kernel["why"]]
    return lines


def _row(name: str, title: str, unit: str, kernel: Mapping[str, Any], executed: Mapping[str, Any] | None) -> str:
    scale = 1e-3 if name == DURATION else 1.0
    value = kernel[DURATION] if name == DURATION else kernel["metrics"].get(name)
    ends: Sequence[float] | None = kernel["intervals"].get(name)
    between = f"{_number(ends[0] * scale)} - {_number(ends[1] * scale)}" if ends else ""
    line = f"  {f'{title} [{unit}]':<26} {_number(None if value is None else value * scale):>12} {between:>23}"
    if executed is None:
        return line.rstrip()
    true = executed[DURATION] if name == DURATION else executed["metrics"].get(name)
    error = f"{100 * (value / true - 1):+.1f} %" if value is not None and true else ""
    return f"{line} {_number(None if true is None else true * scale):>12} {error:>8}".rstrip()


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 10000 else f"{value:.4g}"


def _shape(dims: Sequence[int]) -> str:
    shown = list(dims)
    while len(shown) > 1 and shown[-1] == 1:
        shown.pop()
    return "x".join(map(str, shown))
