"""Samples of a corpus, their split into training and test parts, and the leak check.

The splits are those of releases and exports (core.store.splits), under the names of PARTS: `lineage` is the test
split, `families` and `device` are what is never trained on. They depend on hashes alone, so they do not change when a
corpus grows or is stored in another order. Besides:

- `random`: single samples held out of training lineages; renamed copies and other builds of the same programs are in
  `train`. The paper tests this way (on samples of the whole pool); the leak is reported with the scores.
- `duplicate`: samples of other parts whose text, apart from names, or machine code also occurs in training lineages, or
  whose base program has the control skeleton of one of these, as handwritten programs may; not used. Of parts that are
  only tested with, the same holds for `valid`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hipsynth.core.errors import BadInput
from hipsynth.core.languages import language_of
from hipsynth.core.store import Corpus, splits_of
from hipsynth.core.store.splits import BY_ORIGIN
from hipsynth.profiling.metrics.definitions import answer_ids, extra_ids, normalise_metric
from hipsynth.source.arguments import run_text
from hipsynth.source.canonical_text import canonical_id
from hipsynth.training.data.relatives import find_duplicates, split_keys
from hipsynth.training.data.samples import LOST, no_labels, require_sources, select_labels

PARTS = {  # split of the store -> part; "other" is in none
    "train": "train",
    "validation": "valid",
    "test": "lineage",
    "unseen_families": "families",
    "unseen_devices": "device",
    "handwritten": "handwritten",
    "real": "real",
}
TEST_PARTS = ("lineage", "random", "families", "device", "handwritten", "real")
LEAK_FREE = ("lineage", "families", "device", "handwritten", "real")
RANDOM_SHARE = 0.10  # of the samples of training lineages


@dataclass(frozen=True)
class LabelFacts:
    """What a corpus says of a label besides its metrics; "" or None where it does not. `name`: its program's;
    `dispatches`: the launches that it is the mean of, of which `reused` have the counters of an earlier one; `code`:
    the first digits of the machine code's hash; `further_metrics`: those beyond the paper's twelve."""

    name: str = ""
    backend_version: str = ""
    compiler: str = ""
    headers: str = ""
    bottleneck: str = ""
    dispatches: int | None = None
    reused: int = 0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    code: str = ""
    further_metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelledSample:
    """One run of a build on one device, with its metrics in physical units by metric id. `text` has the run's arguments
    as defaults; `program_text`, if not empty, is the program that is run with them. `split_key`: what its split goes
    by (data.relatives), if not its lineage."""

    program_id: str
    lineage: str
    family: str
    origin: str
    text: str
    arch: str
    flags: str
    device: str
    kernel: str
    metrics: Mapping[str, float]
    duration_ns: float = 0.0
    backend: str = ""
    arguments: str = ""
    program_text: str = ""
    split_key: str = ""
    facts: LabelFacts = LabelFacts()

    @property
    def language(self) -> str:
        """The language of its program: "hip" or "triton"."""
        return language_of(self.text)

    @property
    def relatives(self) -> str:
        """The id that it shares with its relatives: all of them lie in one split."""
        return self.split_key or self.lineage

    @property
    def key(self) -> str:
        """The sample's id: a hash of program, arguments, architecture, flags and device."""
        return _hash_text("\0".join((self.program_id, self.arguments, self.arch, self.flags, self.device)))[:16]

    def true_metrics(self) -> dict[str, float | None]:
        """The twelve metrics, normalised."""
        return normalise_all(self.metrics)


def normalise_all(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """The twelve metrics normalised, by metric id; None for missing values."""
    return {i: normalise_metric(i, metrics.get(i)) for i in answer_ids()}


def _hash_text(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def hash_share(text: str) -> float:
    """A hash of a text as a number in [0, 1)."""
    return int(_hash_text(text)[:13], 16) / 16**13


def split_samples(samples: Iterable[LabelledSample]) -> dict[str, list[LabelledSample]]:
    """Splits samples into the parts of the module docstring; each part is sorted by sample key."""
    parts: dict[str, list[LabelledSample]] = {name: [] for name in ("train", "valid", *TEST_PARTS, "duplicate")}
    ordered = sorted(samples, key=lambda s: (s.key, s.kernel))
    columns = zip(*((s.family, s.relatives, s.device, s.origin) for s in ordered), strict=True)
    splits = splits_of(*columns, fill=True) if ordered else []
    identities = [[s.relatives for s in ordered], [s.text for s in ordered], [s.facts.code for s in ordered]]
    duplicates = find_duplicates(splits, *identities)
    for sample, split, is_duplicate in zip(ordered, splits, duplicates, strict=True):
        part = PARTS.get(split, "")
        if part == "train" and hash_share(f"held-out:{sample.key}") < RANDOM_SHARE:
            part = "random"
        if part:
            parts["duplicate" if is_duplicate else part].append(sample)
    return parts


@dataclass(frozen=True)
class Leak:
    """How many of the `n` samples of a test part have relatives, text, text apart from names, or machine code in
    training."""

    n: int
    same_lineage: int
    same_text: int
    same_but_names: int
    same_code: int

    @property
    def share(self) -> float:
        """Share of leaked test samples, 0 to 1."""
        most = max(self.same_lineage, self.same_text, self.same_but_names, self.same_code)
        return most / self.n if self.n else 0.0


def measure_leak(train: Sequence[LabelledSample], test: Sequence[LabelledSample]) -> Leak:
    """Compares a test part with the training part by relatives, by text, by `canonical_id`, and by machine code."""
    lineages = {s.relatives for s in train}
    texts = {s.program_id for s in train}
    forms = {canonical_id(s.text) for s in train}
    codes = {s.facts.code for s in train} - {""}
    return Leak(
        n=len(test),
        same_lineage=sum(s.relatives in lineages for s in test),
        same_text=sum(s.program_id in texts for s in test),
        same_but_names=sum(canonical_id(s.text) in forms for s in test),
        same_code=sum(s.facts.code in codes for s in test),
    )


def require_no_leak(train: Sequence[LabelledSample], test: Sequence[LabelledSample]) -> None:
    """Raises BadInput if a test part that must be leak-free shares a lineage or a renamed text with training."""
    leak = measure_leak(train, test)
    if leak.share > 0:
        raise BadInput(
            f"{leak.same_lineage} of {leak.n} test samples share a lineage with training, "
            f"{leak.same_but_names} have the same text apart from names, {leak.same_code} the same machine code",
            cause="the corpus' lineage column does not link copies to their originals",
            remedy="profile the programs again from their `synth generate` folder, which records lineage",
        )


def no_training_samples(corpus: Path, samples: Sequence[LabelledSample]) -> BadInput:
    """The error for a corpus whose samples are none to train on."""
    if samples and all(sample.origin in BY_ORIGIN for sample in samples):
        return BadInput(
            f"{corpus}: no samples in the training part",
            cause="all its programs are handwritten, copies of such, or surveyed: those are never trained on",
            remedy="profile programs of `synth generate` into it",
        )
    remedy = "profile more programs into the corpus"
    return BadInput(f"{corpus}: no samples in the training part", remedy=remedy)


def load_samples(
    path: Path,
    backend: str | None = None,
    every_device: bool = False,
    every_kernel: bool = False,
    remark: Callable[[str], None] = lambda _: None,
) -> list[LabelledSample]:
    """The labelled samples of a corpus folder: one per run, architecture and flags (see data.samples), of the
    architectures' default devices or of all; with `every_kernel` one for each kernel of the run, the heaviest first.

    `remark` gets a sentence on labels that are left out, and why: surveyed programs whose source was not kept, labels
    that lack a metric or were made by other versions of the tools. Raises BadInput if no sample is left, UsageError if
    the corpus has several backends and `backend` is not given.
    """
    corpus = Corpus.open(path)
    measurements = corpus.measurements()
    selection = select_labels(measurements, backend=backend, every_device=every_device, every_kernel=every_kernel)
    if not selection.rows:
        raise no_labels(path, measurements, selection)
    selection = require_sources(corpus, selection)
    if lost := {reason: count for reason, count in selection.left_out.items() if reason in LOST}:
        why = ", ".join(f"{count:,} x {reason}" for reason, count in lost.items())
        remark(f"{path}: {sum(lost.values()):,} labels are not used beside {len(selection.rows):,}: {why}")
    programs = {row["id"]: row for row in corpus.programs().select(["id", "text", "name"]).to_pylist()}
    keys = split_keys([row["lineage"] for row in selection.rows], {id: row["text"] for id, row in programs.items()})
    return [_build_sample(row, programs[row["program_id"]], key) for row, key in zip(selection.rows, keys, strict=True)]


def _build_sample(row: Mapping[str, Any], program: Mapping[str, Any], split_key: str) -> LabelledSample:
    return LabelledSample(
        program_id=row["program_id"],
        lineage=row["lineage"],
        split_key=split_key,
        family=row["family"],
        origin=row["origin"],
        text=run_text(program["text"], row["arguments"]),
        arguments=row["arguments"],
        program_text=program["text"],
        arch=row["arch"],
        flags=row["flags"],
        device=row["device"],
        kernel=row["kernel"],
        metrics={metric: row[metric] for metric in answer_ids()},
        duration_ns=row["duration_ns"],
        backend=row["backend"],
        facts=LabelFacts(
            name=program["name"] or "",
            backend_version=row["backend_version"] or "",
            compiler=row["compiler"] or "",
            headers=row["headers"] or "",
            bottleneck=row["bottleneck"] or "",
            dispatches=row["dispatches"],
            reused=row["reused"] or 0,
            grid=tuple(row["grid"] or ()),
            block=tuple(row["block"] or ()),
            code=row["code"],
            further_metrics={metric: row.get(metric) for metric in extra_ids()},
        ),
    )
