"""Writes docs/reference/gallery.md: the programs of corpus/handwritten, each step beside the one before it.

    python -m studies.gallery              # profiles all programs, some ten minutes on one core
    python -m studies.gallery gemm fft     # rewrites the sections of these problems alone

Programs are profiled one after the other, each on the default device of every architecture.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Callable, Mapping, Sequence

from hipsynth.profiling.metrics import bottleneck
from hipsynth.simulator import devices
from studies import handwritten
from studies.handwritten import HandwrittenStep, ProgramFigures

PAGE = handwritten.CORPUS.parents[1] / "docs" / "reference" / "gallery.md"
PROGRAMS = "../../corpus/handwritten"
INTRODUCTION = """# Gallery of handwritten programs

Every program of `corpus/handwritten`, by problem and optimisation step, profiled with `-O3` at its default size by
`python -m studies.gallery`. What each expects is in its header, whose format is in `studies/handwritten.py`;
`tests/kernels/test_handwritten.py` holds headers and this page against the simulator.

Times, traffic and counts are sums over all launches, in brackets relative to the step before. Bottleneck and L2 hit
rate are those of the kernel that takes longest. HBM: bytes read and written; waves, requests and instructions: in
thousands.
"""
GalleryColumn = tuple[str, Callable[[ProgramFigures], float], Callable[[float], str]]


def _format_number(value: float) -> str:
    """Three significant digits without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _make_counter_reader(counter: str) -> Callable[[ProgramFigures], float]:
    return lambda figures: figures.sum_launches(counter) / 1e3


def _sum_hbm_mb(figures: ProgramFigures) -> float:
    """MB read from and written to the HBM by all launches."""
    traffic = ((k.dispatches, k.traffic) for k in figures.kernels)
    return sum(n * (t.hbm_read_bytes + t.hbm_write_bytes) for n, t in traffic if t is not None) / 1e6


# Figures of which the ratio to the step before is shown too.
FIGURES: tuple[GalleryColumn, ...] = (
    ("time, us", lambda figures: figures.sum_launches("Duration") / 1e3, _format_number),
    ("HBM, MB", _sum_hbm_mb, _format_number),
    ("L2 requests", _make_counter_reader("TCC_REQ"), _format_number),
    ("waves", _make_counter_reader("SQ_WAVES"), _format_number),
    ("VALU", _make_counter_reader("SQ_INSTS_VALU"), _format_number),
    ("MFMA", _make_counter_reader("SQ_INSTS_MFMA"), _format_number),
    ("LDS", _make_counter_reader("SQ_INSTS_LDS"), _format_number),
)


def format_cell(figure: GalleryColumn, figures: ProgramFigures, before: ProgramFigures | None) -> str:
    """A figure, and its ratio to that of the step before; "-" for zero."""
    _, value, text = figure
    now, old = value(figures), value(before) if before else 0.0
    if not now:
        return "-"
    return f"{text(now)} (x {_format_number(now / old)})" if old else text(now)


def describe_step(step: HandwrittenStep) -> str:
    path = f"{PROGRAMS}/{step.problem}/{step.name}.hip"
    return f"{step.number}. [{step.name}]({path}) ({step.paradigm}): {step.idea}"


def format_row(step: HandwrittenStep, figures: ProgramFigures, before: ProgramFigures | None) -> str:
    first = bottleneck.rank_bounds(figures.heaviest_kernel)[0]
    time, *rest = (format_cell(figure, figures, before) for figure in FIGURES)
    bound, hits = f"{first.name} {100 * first.share:.0f} %", f"{figures.find_value('L2_Cache_Hit_Rate'):.1f} %"
    return f"| {' | '.join([f'{step.number} {step.name}', time, bound, hits, *rest])} |"


def render_section(steps: Sequence[HandwrittenStep], figures: Mapping[str, Mapping[str, ProgramFigures]]) -> str:
    """The section of one problem; `figures`: by program and architecture."""
    titles = [title for title, *_ in FIGURES]
    head = ["step", titles[0], "bottleneck", "L2 hits", *titles[1:]]
    lines = [f"## {steps[0].problem}", "", *map(describe_step, steps)]
    for arch in devices.recorded_architectures():
        device = devices.default_device(arch)
        lines += ["", f"{arch} ({device}):", "", f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
        lines += [format_row(s, figures[s.name][arch], figures[s.after][arch] if s.after else None) for s in steps]
    return "\n".join(lines) + "\n"


def group_steps() -> dict[str, list[HandwrittenStep]]:
    """The steps of each problem, in their order."""
    return {name: list(group) for name, group in itertools.groupby(handwritten.list_steps(), lambda step: step.problem)}


def profile_steps(steps: Sequence[HandwrittenStep]) -> dict[str, dict[str, ProgramFigures]]:
    """The figures of programs, by name and architecture."""
    return {
        s.name: {arch: handwritten.measure_step(s, arch) for arch in devices.recorded_architectures()} for s in steps
    }


def split_sections(page: str) -> dict[str, str]:
    """The sections of a page by their heading."""
    return {part.splitlines()[0]: f"## {part}" for part in re.split(r"^## ", page, flags=re.MULTILINE)[1:]}


def assemble_page(parts: Mapping[str, str]) -> str:
    """The page of sections, one per problem, each of which ends with one line break."""
    return "\n".join([INTRODUCTION, *(parts[name].rstrip("\n") + "\n" for name in sorted(parts))])


def main(arguments: Sequence[str]) -> int:
    problems = group_steps()
    if unknown := sorted(set(arguments) - set(problems)):
        print(f"gallery: no problem {', '.join(unknown)}; one of: {', '.join(problems)}", file=sys.stderr)
        return 2
    parts = split_sections(PAGE.read_text()) if PAGE.exists() else {}
    for name in arguments or problems:
        print(name, flush=True)
        parts[name] = render_section(problems[name], profile_steps(problems[name]))
        PAGE.write_text(assemble_page({name: text for name, text in parts.items() if name in problems}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
