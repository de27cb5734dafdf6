"""Samples of a corpus, their split into training and test parts, and the leak check.

The splits are those of releases and exports (core.store.splits), under the names of PARTS: `lineage` is the test
split, `families` and `device` are what is never trained on. They depend on hashes alone, so they do not change when a
corpus grows or is stored in another order. Besides:

- `random`: single samples held out of training lineages; renamed copies and other builds of the same programs are in
  `train`. The paper tests this way (on samples of the whole pool); the leak is reported with the scores.
- `duplicate`: samples of other parts whose text, apart from names, also occurs in training lineages; not used.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from hipsynth.core.errors import BadInput
from hipsynth.core.languages import TRITON, language_of
from hipsynth.core.store import Corpus, splits_of
from hipsynth.core.store.splits import BY_ORIGIN
from hipsynth.profiling.metrics.definitions import answer_ids, extra_ids, normalise_metric
from hipsynth.source.arguments import run_text
from hipsynth.training.data.samples import no_labels, require_sources, select_labels

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
    `dispatches`: the launches that it is the mean of, of which `reused` have the counters of an earlier one;
    `further_metrics`: those beyond the paper's twelve."""

    name: str = ""
    backend_version: str = ""
    compiler: str = ""
    headers: str = ""
    bottleneck: str = ""
    dispatches: int | None = None
    reused: int = 0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    further_metrics: Mapping[str, float | None] = field(default_factory=dict)


@dataclass(frozen=True)
class LabelledSample:
    """One run of a build on one device, with its metrics in physical units by metric id. `text` has the run's arguments
    as defaults; `program_text`, if not empty, is the program that is run with them."""

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
    facts: LabelFacts = LabelFacts()

    @property
    def language(self) -> str:
        """The language of its program: "hip" or "triton"."""
        return language_of(self.text)

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
    columns = zip(*((s.family, s.lineage, s.device, s.origin) for s in ordered), strict=True)
    for sample, name in zip(ordered, splits_of(*columns, fill=True) if ordered else (), strict=True):
        part = PARTS.get(name, "")
        if part == "train" and hash_share(f"held-out:{sample.key}") < RANDOM_SHARE:
            part = "random"
        if part:
            parts[part].append(sample)
    ids = {canonical_id(s.text) for s in parts["train"] + parts["random"]}
    for name in ("valid", *LEAK_FREE):
        parts["duplicate"] += [s for s in parts[name] if canonical_id(s.text) in ids]
        parts[name] = [s for s in parts[name] if canonical_id(s.text) not in ids]
    return parts


_PYTHON_TOKEN = re.compile(
    r"#[^\n]*|\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'"
    r"|[A-Za-z_]\w*|\d(?:[\w.]|(?<=[eE])[+-])*|\S",
    re.DOTALL,
)
_TOKEN = re.compile(r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|[A-Za-z_]\w*|\d(?:[\w.']|[eEpP][+-])*|\S", re.DOTALL)


def code_tokens(text: str) -> list[str]:
    """The tokens of a program without comments: of C++, or of Python in a script."""
    if language_of(text) == TRITON:
        return [t for t in _PYTHON_TOKEN.findall(text) if not t.startswith("#")]
    return [t for t in _TOKEN.findall(text) if not t.startswith(("//", "/*"))]


# Keywords that may precede a name without declaring it; below, names of the language and the HIP API.
_NOT_A_TYPE = frozenset(
    {"return", "else", "case", "goto", "new", "delete", "throw", "operator", "using", "typename", "sizeof", "not"}
)
_WORD_LIST = """
auto bool break char class const constexpr continue default do double enum extern false float for if inline int long
namespace nullptr private public restrict short signed size_t static struct switch template this true typedef union
unsigned void volatile while half include define ifdef ifndef endif pragma
threadIdx blockIdx blockDim gridDim warpSize std main x y z w
"""
_FIXED = _NOT_A_TYPE | frozenset(re.findall(r"\w+", _WORD_LIST))


def declared_names(words: Sequence[str]) -> set[str]:
    """Names that a file with the tokens `words` seems to declare, by a token-level heuristic: names after a type, and
    names in a list that are not called."""
    names = set()
    for before, word, after in zip(words[:-1], words[1:], [*words[2:], ""], strict=True):
        if not _is_name(word) or word in _FIXED or word.startswith(("__", "hip")):
            continue
        after_type = _is_name(before) and before not in _NOT_A_TYPE
        if after_type or (before in {"*", "&", ",", ">"} and after != "("):
            names.add(word)
    return names


def _is_name(word: str) -> bool:
    return word[0].isalpha() or word[0] == "_"


@lru_cache(maxsize=65536)
def canonical_id(text: str) -> str:
    """A hash that ignores comments, white space and the spelling of declared names (they are numbered by first use)."""
    words = code_tokens(text)
    declared = declared_names(words)
    order: dict[str, str] = {}
    return _hash_text(" ".join(order.setdefault(w, f"n{len(order)}") if w in declared else w for w in words))


@dataclass(frozen=True)
class Leak:
    """How many of the `n` samples of a test part share lineage, text, or text apart from names with training."""

    n: int
    same_lineage: int
    same_text: int
    same_but_names: int

    @property
    def share(self) -> float:
        """Share of leaked test samples, 0 to 1."""
        return max(self.same_lineage, self.same_text, self.same_but_names) / self.n if self.n else 0.0


def measure_leak(train: Sequence[LabelledSample], test: Sequence[LabelledSample]) -> Leak:
    """Compares a test part with the training part by lineage, by text, and by `canonical_id`."""
    lineages = {s.lineage for s in train}
    texts = {s.program_id for s in train}
    forms = {canonical_id(s.text) for s in train}
    return Leak(
        n=len(test),
        same_lineage=sum(s.lineage in lineages for s in test),
        same_text=sum(s.program_id in texts for s in test),
        same_but_names=sum(canonical_id(s.text) in forms for s in test),
    )


def require_no_leak(train: Sequence[LabelledSample], test: Sequence[LabelledSample]) -> None:
    """Raises BadInput if a test part that must be leak-free shares a lineage or a renamed text with training."""
    leak = measure_leak(train, test)
    if leak.share > 0:
        raise BadInput(
            f"{leak.same_lineage} of {leak.n} test samples share a lineage with training, "
            f"{leak.same_but_names} have the same text apart from names",
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
    path: Path, backend: str | None = None, every_device: bool = False, every_kernel: bool = False
) -> list[LabelledSample]:
    """The labelled samples of a corpus folder: one per run, architecture and flags (see data.samples), of the
    architectures' default devices or of all; with `every_kernel` one for each kernel of the run, the heaviest first.

    Leaves out surveyed programs whose source was not kept. Raises BadInput if no sample is left, UsageError if the
    corpus has several backends and `backend` is not given.
    """
    corpus = Corpus.open(path)
    measurements = corpus.measurements()
    selection = select_labels(measurements, backend=backend, every_device=every_device, every_kernel=every_kernel)
    if not selection.rows:
        raise no_labels(path, measurements, selection)
    selection = require_sources(corpus, selection)
    programs = {row["id"]: row for row in corpus.programs().select(["id", "text", "name"]).to_pylist()}
    return [_build_sample(row, programs[row["program_id"]]) for row in selection.rows]


def _build_sample(row: Mapping[str, Any], program: Mapping[str, Any]) -> LabelledSample:
    return LabelledSample(
        program_id=row["program_id"],
        lineage=row["lineage"],
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
            further_metrics={metric: row.get(metric) for metric in extra_ids()},
        ),
    )
