"""Writes docs/explanation/realism.md: how near generated programs are to real ones, beside the paper's single family.

    python -m studies.realism                                 # the page and its picture; some minutes
    python -m studies.realism --tables OPCODES.csv SURVEYED   # renews studies/realism.json from real programs

OPCODES.csv has the columns mnemonic and, per architecture, <arch>_static and <arch>_programs: instructions in the
code of public programs, and how many programs have them.
SURVEYED is a corpus of `synth survey --corpus SURVEYED --keep-sources`. The table keeps shares, none of their text.
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hipsynth.core.program import Program
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.store import Corpus
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.collect import MatrixOptions, collect_matrix
from hipsynth.simulator.build import build_program
from hipsynth.simulator.devices import default_device, recorded_architectures
from hipsynth.simulator.limits import CORPUS_EFFORT, CORPUS_UNITS, RunLimits
from hipsynth.simulator.opcodes import count_opcodes
from hipsynth.source.declarations import KERNEL_MARK
from hipsynth.source.skeletons import device_code
from hipsynth.synth.generate.producer import generate_programs

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "studies" / "realism.json"
PAGE = ROOT / "docs" / "explanation" / "realism.md"
PICTURE = ROOT / "docs" / "images" / "realism.svg"
COUNT, SEED = 120, 7  # programs of each mix
ARCH = "gfx90a"  # on which kernels are compared
LIMITS = RunLimits(sampling_units=CORPUS_UNITS, effort=CORPUS_EFFORT)
WAVE = 64
PADDING = "s_nop"  # how much of it a listing shows depends on the alignment of kernels
AIM = 0.5  # of the paper family's distance

_NAMES = ("sqrt", "exp", "log", "sin", "cos", "tan", "pow", "tanh", "rsqrt", "erf", "floor")
MATHS = frozenset(f"{name}{end}" for name in _NAMES for end in ("", "f"))

# What device code may have: name -> whether its tokens show it.
FEATURES: Mapping[str, Callable[[frozenset[str]], bool]] = {
    "LDS": lambda words: "__shared__" in words,
    "barrier": lambda words: any(word.startswith("__syncthreads") for word in words),
    "atomics": lambda words: any(word.startswith("atomic") for word in words),
    "loop": lambda words: bool(words & {"for", "while", "do"}),
    "branch": lambda words: bool(words & {"if", "switch"}),
    "double": lambda words: "double" in words,
    "half": lambda words: bool(words & {"half", "__half", "_Float16", "__half2", "half2"}),
    "device function": lambda words: "__device__" in words,
    "template": lambda words: "template" in words,
    "struct": lambda words: "struct" in words,
    "constant memory": lambda words: "__constant__" in words,
    "dynamic LDS": lambda words: {"extern", "__shared__"} <= words,
    "cross-lane": lambda words: any(re.match(r"__(?:shfl|ballot|any|all)\b|__shfl_\w+", word) for word in words),
    "launch bounds": lambda words: "__launch_bounds__" in words,
    "two or three dimensions": lambda words: bool(words & {"y", "z"}),
    "mathematical function": lambda words: bool(words & MATHS),
}


@dataclass(frozen=True)
class ProgramMix:
    """Shares of what programs consist of: opcodes by architecture, histograms and features by name."""

    opcodes: Mapping[str, Mapping[str, float]]
    presence: Mapping[str, Mapping[str, float]]  # share of programs that have the opcode
    histograms: Mapping[str, Mapping[str, float]]
    features: Mapping[str, float]
    programs: int
    kernels: int


def count_shares(counts: Mapping[str, float]) -> dict[str, float]:
    total = sum(counts.values())
    return {name: count / total for name, count in sorted(counts.items()) if count} if total else {}


def measure_divergence(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Jensen-Shannon divergence of two distributions in bits: 0 for equal ones, 1 for those with nothing in common."""
    total = 0.0
    for name in first.keys() | second.keys():
        p, q = first.get(name, 0.0), second.get(name, 0.0)
        total += sum(x / 2 * math.log2(2 * x / (p + q)) for x in (p, q) if x)
    return total


def measure_feature_distance(first: Mapping[str, float], second: Mapping[str, float]) -> float:
    """Mean absolute difference of the shares of programs that have each feature."""
    return sum(abs(first.get(name, 0.0) - second.get(name, 0.0)) for name in FEATURES) / len(FEATURES)


def measure_features(texts: Iterable[str]) -> dict[str, float]:
    """The share of programs with each feature in their device code."""
    counts: Counter[str] = Counter()
    total = 0
    for text in texts:
        words = frozenset(token for _, token in device_code(text))
        if KERNEL_MARK in words:
            total += 1
            counts.update(name for name, has in FEATURES.items() if has(words))
    return {name: counts[name] / total for name in FEATURES} if total else {}


def build_histograms(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Shares of kernels by instructions of a wave, work-items and work-groups; each program counts the same."""
    per_program = Counter(row["program_id"] for row in rows)
    by_feature: dict[str, dict[str, float]] = {name: {} for name in PLACES}
    for row in rows:
        for name, place in PLACES.items():
            key = str(place(row))
            by_feature[name][key] = by_feature[name].get(key, 0.0) + 1 / per_program[row["program_id"]]
    return {name: count_shares(counts) for name, counts in by_feature.items()}


def _count_waves(row: Mapping[str, Any]) -> int:
    return int(math.prod(row["grid"]) * math.ceil(math.prod(row["block"]) / WAVE))


PLACES: Mapping[str, Callable[[Mapping[str, Any]], int]] = {  # bins: powers of two, for work-groups of four
    "instructions of a wave": lambda row: round(
        math.log2(max(1.0, dict(row["counters"])["SQ_INSTS"] / _count_waves(row)))
    ),
    "work-items of a work-group": lambda row: round(math.log2(math.prod(row["block"]))),
    "work-groups": lambda row: round(math.log2(math.prod(row["grid"])) / 2),
}


def measure_opcodes(programs: Sequence[Program]) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, float]]]:
    """By architecture, of each opcode: its mean share of the instructions of a program, and the share of programs that
    have it. One unrolled program can have more instructions than all others, so each counts the same."""
    mean: dict[str, dict[str, float]] = {arch: {} for arch in recorded_architectures()}
    presence: dict[str, dict[str, float]] = {arch: {} for arch in recorded_architectures()}
    for program, arch in itertools.product(programs, recorded_architectures()):
        with scratch_folder() as scratch:
            built, _ = build_program(program, arch, "-O3", scratch / "build")
            opcodes = count_opcodes(path for _, path in built.modules)
        for name, share in count_shares({name: n for name, n in opcodes.items() if name != PADDING}).items():
            mean[arch][name] = mean[arch].get(name, 0.0) + share / len(programs)
            presence[arch][name] = presence[arch].get(name, 0.0) + 1 / len(programs)
    return mean, presence


def read_kernels(corpus: Corpus) -> Sequence[Mapping[str, Any]]:
    """The kernels of a corpus on gfx90a."""
    rows = corpus.measurements().select(["program_id", "arch", "grid", "block", "counters"]).to_pylist()
    return [row for row in rows if row["arch"] == ARCH]


def read_generated(family: str | None) -> ProgramMix:
    """Programs of the default policy, or of one family, drawn, compiled and profiled anew."""
    programs = list(generate_programs(COUNT, seed=SEED, family=family))
    with scratch_folder() as scratch:
        collect_matrix(
            programs, [Target(ARCH, "-O3", default_device(ARCH))], scratch / "corpus", MatrixOptions(limits=LIMITS)
        )
        rows = read_kernels(Corpus.open(scratch / "corpus"))
    names = (program.text for program in programs)
    labelled = len({row["program_id"] for row in rows})
    return ProgramMix(*measure_opcodes(programs), build_histograms(rows), measure_features(names), labelled, len(rows))


def read_real() -> ProgramMix:
    """The table of real programs."""
    data = json.loads(TABLE.read_text())
    surveyed = data["surveyed"]
    counted = {arch: count_shares(counts) for arch, counts in data["opcodes"]["instructions"].items()}
    number = data["opcodes"]["programs"]
    presence = {arch: {k: n / number for k, n in row.items()} for arch, row in data["opcodes"]["presence"].items()}
    return ProgramMix(
        counted, presence, surveyed["histograms"], surveyed["features"], surveyed["programs"], surveyed["kernels"]
    )


def write_table(listing: Path, surveyed: Path) -> None:
    """Renews studies/realism.json from the statistics of public programs and a corpus of surveyed ones."""
    with listing.open(newline="") as file:
        lines = [line for line in csv.DictReader(file) if line["mnemonic"] != PADDING]
    counted = {
        arch: {line["mnemonic"]: int(line[f"{arch}_static"]) for line in lines if int(line[f"{arch}_static"])}
        for arch in recorded_architectures()
    }
    present = {
        arch: {line["mnemonic"]: int(line[f"{arch}_programs"]) for line in lines if int(line[f"{arch}_programs"])}
        for arch in recorded_architectures()
    }
    corpus = Corpus.open(surveyed)
    rows = read_kernels(corpus)
    texts = [row["text"] for row in corpus.programs().to_pylist()]
    table = {
        "opcodes": {
            "source": "instructions that clang emits for 586 public HIP programs, counted in their code objects",
            "instructions": counted,
            "presence": present,
            "programs": max(max(row.values()) for row in present.values()),
        },
        "surveyed": {
            "source": "kernels of collections in docs/explanation/real-programs.md, as `synth survey` ran them",
            "programs": len({row["program_id"] for row in rows}),
            "kernels": len(rows),
            "histograms": build_histograms(rows),
            "features": measure_features(texts),
        },
    }
    TABLE.write_text(json.dumps(table, indent=1, sort_keys=True) + "\n")


def measure_distances(ours: ProgramMix, theirs: ProgramMix) -> dict[str, float]:
    """The distance on every axis of the page."""
    divergences = {
        f"opcodes, {arch}": measure_divergence(ours.opcodes[arch], theirs.opcodes[arch]) for arch in theirs.opcodes
    }
    divergences |= {name: measure_divergence(ours.histograms[name], theirs.histograms[name]) for name in PLACES}
    divergences |= {
        f"presence of opcodes, {arch}": measure_presence_distance(ours, theirs, arch) for arch in theirs.opcodes
    }
    return divergences | {"features of the source": measure_feature_distance(ours.features, theirs.features)}


def measure_presence_distance(ours: ProgramMix, theirs: ProgramMix, arch: str) -> float:
    """Mean absolute difference of the shares of programs that have each opcode."""
    first, second = ours.presence[arch], theirs.presence[arch]
    names = first.keys() | second.keys()
    return sum(abs(first.get(name, 0.0) - second.get(name, 0.0)) for name in names) / len(names)


def render_page(policy: ProgramMix, paper: ProgramMix, theirs: ProgramMix) -> Iterator[str]:
    ours, single = measure_distances(policy, theirs), measure_distances(paper, theirs)
    yield INTRODUCTION.format(ours=policy, paper=paper, real=theirs, count=COUNT)
    yield from ("| distance to real programs | default policy | paper's family | ratio |", "|---|---:|---:|---:|")
    for name in ours:
        yield f"| {name} | {ours[name]:.3f} | {single[name]:.3f} | {ours[name] / single[name]:.2f} |"
    short = [name for name in ours if ours[name] > AIM * single[name]]
    missed = f"missed by: {', '.join(short)}" if short else "met on every axis"
    yield from ("", f"The aim, at most {AIM:g} of the distance of the paper's family, is {missed}.")
    yield from ("", "![Shares of programs and kernels](../images/realism.svg)", "", "## Opcodes", "")
    yield from _render_opcodes(policy, paper, theirs)
    yield from ("", "## Features", "", "| share of programs with | real | default policy | paper's family |")
    yield "|---|---:|---:|---:|"
    for name in FEATURES:
        yield f"| {name} | " + " | ".join(f"{mix.features.get(name, 0):.0%}" for mix in (theirs, policy, paper)) + " |"


def _render_opcodes(policy: ProgramMix, paper: ProgramMix, theirs: ProgramMix) -> Iterator[str]:
    for arch, real_shares in theirs.opcodes.items():
        both = [real_shares.keys() & mix.opcodes[arch].keys() for mix in (policy, paper)]
        totals = [sum(real_shares[name] for name in names) for names in both]
        yield f"{arch}: {totals[0]:.1%} of the instructions of real programs have opcodes that the default policy's"
        yield f"programs have, too; {totals[1]:.1%} those of the paper's family.\n"
        yield "| opcode | real | default policy | paper's family |"
        yield "|---|---:|---:|---:|"
        gaps = {name: abs(share - policy.opcodes[arch].get(name, 0)) for name, share in real_shares.items()}
        for name in sorted(gaps, key=lambda name: (-gaps[name], name))[:8]:
            cells = (mix.opcodes[arch].get(name, 0) for mix in (theirs, policy, paper))
            yield f"| `{name}` | " + " | ".join(f"{share:.1%}" for share in cells) + " |"
        yield ""


INTRODUCTION = """# How real generated programs are

Written by `python -m studies.realism`; do not edit. It compares what generated programs consist of with real ones: the
default policy (templates/policy), and the single family of synthetic programs in the paper (templates/paper).

- **Opcodes**: shares of the instructions in code objects at -O3. Real: 586 public HIP programs, of which only the sums
  are known; ours: {count} programs of each mix, each of which counts the same, since one unrolled program can have more
  instructions than all others. Their presence: the share of programs that have an opcode.
- **Kernels**: instructions that a wave executes, work-items of a work-group and work-groups, in powers of two (of four
  for work-groups), on gfx90a; every program counts the same. Real: {real.kernels} kernels of {real.programs} surveyed
  programs; ours: {ours.kernels} of {ours.programs}; the paper's family: {paper.kernels} of {paper.programs}.
- **Features**: the share of programs whose device code has each, by the tokens of its source.

The distance of two distributions is their Jensen-Shannon divergence in bits: 0 if they are equal, 1 if they have
nothing in common. That of features and presence is the mean absolute difference of the shares. Surveyed programs run at
the sizes that their authors chose, often small ones: the default policy draws large ones on purpose, so that its
kernels are limited by something else than their launch. Their work-groups are therefore not meant to agree.
"""


LINES = {"real": "#57606a", "default policy": "#0b62c4", "paper's family": "#b3420e"}  # of the picture, with colours


def draw_picture(policy: ProgramMix, paper: ProgramMix, theirs: ProgramMix) -> None:
    """Draws the histograms of the three mixes side by side."""
    import matplotlib

    matplotlib.use("svg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"svg.hashsalt": "hipsynth", "svg.fonttype": "none", "font.size": 8})
    figure, axes = plt.subplots(1, len(PLACES), figsize=(10, 2.8), layout="constrained")
    for ax, name in zip(axes, PLACES, strict=True):
        places = range(13)
        for (label, colour), mix in zip(LINES.items(), (theirs, policy, paper), strict=True):
            counts = [mix.histograms[name].get(str(place), 0.0) for place in places]
            ax.plot(places, counts, marker="o", markersize=3, label=label, color=colour)
        base = 4 if name == "work-groups" else 2
        ax.set_xticks(list(places)[::2], [f"{base**place:,}" for place in list(places)[::2]], rotation=40)
        ax.set_title(name)
    axes[0].set_ylabel("share of kernels")
    axes[-1].legend(frameon=False)
    figure.savefig(PICTURE, metadata={"Date": None})
    plt.close(figure)


def main(arguments: Sequence[str]) -> int:
    if "--tables" in arguments:
        write_table(*map(Path, arguments[arguments.index("--tables") + 1 :][:2]))
        return 0
    mixes = read_generated(None), read_generated("paper"), read_real()
    PAGE.write_text("\n".join(render_page(*mixes)).rstrip() + "\n")
    draw_picture(*mixes)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
