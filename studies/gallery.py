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
from studies.handwritten import Figures, HandwrittenStep

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
Figure = tuple[str, Callable[[Figures], float], Callable[[float], str]]


def _short(value: float) -> str:
    """Three significant digits without an exponent."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _thousands(counter: str) -> Callable[[Figures], float]:
    return lambda found: found.total(counter) / 1e3


def _hbm_mb(found: Figures) -> float:
    traffic = ((k.dispatches, k.traffic) for k in found.kernels)
    return sum(n * (t.hbm_read_bytes + t.hbm_write_bytes) for n, t in traffic if t is not None) / 1e6


# Figures of which the ratio to the step before is shown too.
FIGURES: tuple[Figure, ...] = (
    ("time, us", lambda found: found.total("Duration") / 1e3, _short),
    ("HBM, MB", _hbm_mb, _short),
    ("L2 requests", _thousands("TCC_REQ"), _short),
    ("waves", _thousands("SQ_WAVES"), _short),
    ("VALU", _thousands("SQ_INSTS_VALU"), _short),
    ("MFMA", _thousands("SQ_INSTS_MFMA"), _short),
    ("LDS", _thousands("SQ_INSTS_LDS"), _short),
)


def format_cell(figure: Figure, found: Figures, before: Figures | None) -> str:
    """A figure, and its ratio to that of the step before; "-" for zero."""
    _, value, text = figure
    now, old = value(found), value(before) if before else 0.0
    if not now:
        return "-"
    return f"{text(now)} (x {_short(now / old)})" if old else text(now)


def describe_step(step: HandwrittenStep) -> str:
    path = f"{PROGRAMS}/{step.problem}/{step.name}.hip"
    return f"{step.number}. [{step.name}]({path}) ({step.paradigm}): {step.idea}"


def format_row(step: HandwrittenStep, found: Figures, before: Figures | None) -> str:
    first = bottleneck.rank_bounds(found.main)[0]
    time, *rest = (format_cell(figure, found, before) for figure in FIGURES)
    bound, hits = f"{first.name} {100 * first.share:.0f} %", f"{found.value('L2_Cache_Hit_Rate'):.1f} %"
    return f"| {' | '.join([f'{step.number} {step.name}', time, bound, hits, *rest])} |"


def render_section(steps: Sequence[HandwrittenStep], found: Mapping[str, Mapping[str, Figures]]) -> str:
    """The section of one problem; `found`: figures by program and architecture."""
    titles = [title for title, *_ in FIGURES]
    head = ["step", titles[0], "bottleneck", "L2 hits", *titles[1:]]
    lines = [f"## {steps[0].problem}", "", *map(describe_step, steps)]
    for arch in devices.recorded_architectures():
        device = devices.default_device(arch)
        lines += ["", f"{arch} ({device}):", "", f"| {' | '.join(head)} |", "|---|" + "---:|" * (len(head) - 1)]
        lines += [format_row(s, found[s.name][arch], found[s.after][arch] if s.after else None) for s in steps]
    return "\n".join(lines) + "\n"


def by_problem() -> dict[str, list[HandwrittenStep]]:
    return {name: list(group) for name, group in itertools.groupby(handwritten.list_steps(), lambda step: step.problem)}


def profile_steps(steps: Sequence[HandwrittenStep]) -> dict[str, dict[str, Figures]]:
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
    problems = by_problem()
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
