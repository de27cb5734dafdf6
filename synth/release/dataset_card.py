"""The dataset card of a release: YAML front matter in Hugging Face's form, then what the columns and splits are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth.core.store.release import ReleaseFacts
from hipsynth.core.store.splits import RELEASED
from hipsynth.profiling.metrics.bottleneck import unit_name
from hipsynth.synth.release.column_dictionary import column_lines

ABOUT = {
    "train": "80 % of the lineages",
    "validation": "10 % of the lineages",
    "test": "10 % of the lineages",
    "unseen_families": "families, and compositions with parts, that are never trained on",
    "unseen_devices": "programs of `test` on devices that are never trained on",
    "other": "not for training or testing: other programs on those devices, near-duplicates of unseen families",
}
BODY = """# hipsynth release v1

HIP programs and the hardware counters of their kernels on AMD Instinct accelerators: generated sources, compiled by the
real AMDGPU compiler for gfx90a and gfx942, executed by the simulator of hipsynth, which counts what the hardware
counts. **All labels are simulated, none is measured on a device**; how well the model agrees with recorded hardware is
documented in docs/explanation/validation.md.

```python
import datasets

labels = datasets.load_dataset("corpus/release/v1", "labels", split="train")
programs = datasets.load_dataset("corpus/release/v1", "programs", split="train")
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
    return "\n".join(
        [*_front_matter(out, tables), BODY, *_split_table(out), *_contents_lines(facts, tables), *_columns(tables)]
    )


def _columns(tables: Mapping[str, pa.Table]) -> Iterator[str]:
    yield COLUMNS
    for config in ("programs", "labels"):
        yield from column_lines(config, tables[config].schema.names)


def _split_files(out: Path, config: str, split: str) -> list[Path]:
    return sorted((out / config).glob(f"{split}-*.parquet"))


def _front_matter(out: Path, tables: Mapping[str, pa.Table]) -> Iterator[str]:
    count = tables["labels"].num_rows
    size = next((name for name, limit in SIZES if count < limit), "1M<n<10M")
    yield from ("---", "license: mit", "pretty_name: hipsynth release v1", "language: [code]")
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
    for shard in facts["shards"].values():
        failed.update(shard["reasons"])
    yield from ("", "## Contents", "")
    families, lineages = (len(set(programs[name].to_pylist())) for name in ("family", "lineage"))
    yield (
        f"{labels.num_rows:,} labels of {programs.num_rows:,} programs, {lineages:,} lineages, "
        f"{families:,} families and compositions; {len(facts['shards'])} labelled shards."
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
