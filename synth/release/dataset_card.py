"""The dataset card of a release: YAML front matter in Hugging Face's form, then what the columns and splits are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth.core.store.release import ReleaseFacts
from hipsynth.core.store.splits import RELEASED
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.synth.release.column_dictionary import column_lines
from hipsynth.synth.release.release_plan import load_plans

ABOUT = {
    "train": "80 % of the lineages",
    "validation": "10 % of the lineages",
    "test": "10 % of the lineages",
    "unseen_families": "families, and compositions with parts, that are never trained on",
    "unseen_devices": "programs of `test` on devices that are never trained on",
    "other": "not for training or testing: other programs on those devices, near-duplicates of unseen families",
}
TITLES = {"sim": "hipsynth release v1", "preview": "hipsynth previews"}
INTRODUCTIONS = {
    "sim": """
HIP programs and the hardware counters of their kernels on AMD Instinct accelerators: generated sources, compiled by the
real AMDGPU compiler for gfx90a and gfx942, executed by the simulator of hipsynth, which counts what the hardware
counts. **All labels are simulated, none is measured on a device**; how well the model agrees with recorded hardware is
documented in docs/explanation/validation.md.
""",
    "preview": """
HIP programs and estimates of the hardware counters of their kernels on AMD Instinct accelerators: generated sources,
compiled by the real AMDGPU compiler for gfx90a and gfx942; their host code is run, and a sample of each launch's
work-groups is interpreted by hipsynth. **All labels are previews: estimates, neither executed in full nor measured**;
how near they are to executed labels is documented in docs/explanation/prediction.md.
""",
}
BODY = """```python
import datasets

labels = datasets.load_dataset(".", "labels", split="train")  # in this folder
programs = datasets.load_dataset(".", "programs", split="train")
```

`hipsynth` reads the folder as a corpus: `synth stats`, `synth train` and `synth evaluate` take it as it is. `synth
release verify` compares the checksums and rebuilds a sample of rows; `synth release verify --row ID` rebuilds one.

## Splits

A lineage is all programs with one control skeleton: the same statements of device code, declarations, names and numbers
aside. A lineage lies in one split, so that no near-duplicate of a test program is trained on.
"""
COLUMNS = """
## Columns

`labels` has one row per kernel of a run. `release.json` holds the tools (simulator, compiler, headers) and the numbers
of each labelled shard.
"""


def render_card(out: Path, facts: ReleaseFacts, tables: Mapping[str, pa.Table]) -> str:
    """The text of README.md."""
    backend = _backend_of(facts)
    head = [f"# {TITLES[backend]}", INTRODUCTIONS[backend], BODY]
    contents = [*_contents_lines(facts, tables), *_making_lines(facts, tables["labels"])]
    return "\n".join(
        [*_front_matter(out, tables, TITLES[backend]), *head, *_split_table(out), *contents, *_columns(tables)]
    )


def _making_lines(facts: ReleaseFacts, labels: pa.Table) -> Iterator[str]:
    """How a release of a plan with a last shard is made again, or completed, and what its shards took."""
    backend = _backend_of(facts)
    name, plan = next(
        ((name, plan) for name, plan in load_plans().items() if plan.shards and plan.backend == backend), ("", None)
    )
    if plan is None:
        return
    numbers = sorted(map(int, facts.shards))
    yield from ("", "## Make it again, or make the rest", "")
    yield (
        f"It has {len(numbers)} of the {plan.shards} shards of the plan `{name}` in synth/release/release.toml "
        f"({_number_ranges(numbers)}). All of them draw {plan.shards * plan.programs:,} programs."
    )
    yield from ("", "```sh", f"synth release make --plan {name} --work work --out {name}", "```", "")
    yield "A shard follows from its seed and the versions of generator, previews and compiler:"
    yield from ("", "| shards | generator | previews | compiler | headers |", "|---|---|---|---|---|")
    yield from (*_version_rows(facts), "")
    origins = [shard.origin for shard in facts.shards.values() if shard.origin is not None]
    timed = [(origin.seconds, origin.workers) for origin in origins if origin.seconds is not None]
    if timed:
        elapsed, of_workers = sum(seconds for seconds, _ in timed), sum(seconds * workers for seconds, workers in timed)
        yield f"{len(timed)} of these shards say what they took: {elapsed:,.0f} s, {of_workers:,.0f} s of workers."
    yield _shared_code_line(labels)


def _backend_of(facts: ReleaseFacts) -> str:
    """The backend of all labels of a release; "sim" without any."""
    return next((shard.tools["backend"] for shard in facts.shards.values()), "sim")


def _number_ranges(numbers: Sequence[int]) -> str:
    """Numbers in order as text: "0-3, 7"."""
    ranges: list[list[int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _version_rows(facts: ReleaseFacts) -> Iterator[str]:
    versions: dict[tuple[str, ...], list[int]] = {}
    for number, shard in facts.shards.items():
        tools = shard.tools
        key = shard.origin.grammar if shard.origin else "", tools["version"], tools["compiler"], tools["headers"]
        versions.setdefault(key, []).append(int(number))
    yield from (f"| {_number_ranges(numbers)} | {' | '.join(key)} |" for key, numbers in versions.items())


def _shared_code_line(labels: pa.Table) -> str:
    """How many kinds of machine code, arguments and devices the labels have: equal ones have equal labels."""
    names = ("code", "arguments", "device", "kernel_index")
    kinds = len(set(zip(*(labels[name].to_pylist() for name in names), strict=True)))
    return f"{kinds:,} of the {labels.num_rows:,} labels differ in machine code, arguments, device or kernel."


def _columns(tables: Mapping[str, pa.Table]) -> Iterator[str]:
    yield COLUMNS
    for config in ("programs", "labels"):
        yield from column_lines(config, tables[config].schema.names)


def _split_files(out: Path, config: str, split: str) -> list[Path]:
    return sorted((out / config).glob(f"{split}-*.parquet"))


def _front_matter(out: Path, tables: Mapping[str, pa.Table], title: str) -> Iterator[str]:
    count = tables["labels"].num_rows
    size = next((name for name, limit in SIZES if count < limit), "1M<n<10M")
    yield from ("---", "license: mit", f"pretty_name: {title}", "language: [code]")
    yield from ("tags: [performance, gpu, hip, rocm, hardware-counters, simulation]", f"size_categories: [{size}]")
    yield "configs:"
    for config in ("labels", "programs"):
        yield f"- config_name: {config}"
        if config == "labels":
            yield "  default: true"
        yield "  data_files:"
        for split in RELEASED:
            if _split_files(out, config, split):
                yield f"  - split: {split}"
                yield f"    path: {config}/{split}-*.parquet"
    yield "---"


SIZES = (("n<1K", 1000), ("1K<n<10K", 10_000), ("10K<n<100K", 100_000), ("100K<n<1M", 1_000_000))


def _split_table(out: Path) -> Iterator[str]:
    yield from ("| split | labels | programs | what |", "|---|---:|---:|---|")
    for split in RELEASED:
        counts = [
            sum(_count_rows(path) for path in _split_files(out, config, split)) for config in ("labels", "programs")
        ]
        yield f"| {split} | {counts[0]:,} | {counts[1]:,} | {ABOUT[split]} |"


def _count_rows(path: Path) -> int:
    return int(pq.read_metadata(path).num_rows)


def _contents_lines(facts: ReleaseFacts, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    labels, programs = tables["labels"], tables["programs"]
    failed = Counter[str]()
    for shard in facts.shards.values():
        failed.update(shard.reasons)
    yield from ("", "## Contents", "")
    families, lineages = (len(set(programs[name].to_pylist())) for name in ("family", "lineage"))
    yield (
        f"{labels.num_rows:,} labels of {programs.num_rows:,} programs, {lineages:,} lineages, "
        f"{families:,} families and compositions; {len(facts.shards)} labelled shards."
    )
    excluded = ", ".join(f"{count:,} {reason}" for reason, count in sorted(failed.items()))
    yield f"Runs left out because they failed: {excluded or 'none'}."
    for column in ("device", "flags"):
        counts = Counter(labels[column].to_pylist())
        yield from ("", f"| {column} | labels |", "|---|---:|")
        yield from (f"| {name} | {count:,} |" for name, count in sorted(counts.items()))
    yield from _bottleneck_shares(labels)


def _bottleneck_shares(labels: pa.Table) -> Iterator[str]:
    """Shares of what limits the kernels, by architecture."""
    counts = Counter(zip(labels["arch"].to_pylist(), labels["bottleneck"].to_pylist(), strict=True))
    archs = sorted({arch for arch, _ in counts})
    totals = {arch: sum(count for (other, _), count in counts.items() if other == arch) for arch in archs}
    yield from ("", "| limited by | " + " | ".join(archs) + " |", "|---" + "|---:" * len(archs) + "|")
    for unit in sorted({unit for _, unit in counts}):
        yield (
            f"| {unit_name(unit)} | " + " | ".join(f"{counts[arch, unit] / totals[arch]:.1%}" for arch in archs) + " |"
        )
