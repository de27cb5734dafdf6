"""What the tools answer for labelled samples, computed once and kept in a file, so that training and scoring replay it.

An execution's answer is the sample's label, which an execution made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hipsynth.core.errors import HipsynthError, MissingDependency
from hipsynth.core.json_lines import append_json_line, read_documents
from hipsynth.core.workers import map_unordered
from hipsynth.training.analytic.examples import (
    BuildSamples,
    group_builds,
    job_limit_s,
    preview_build,
)
from hipsynth.training.analytic.preview_journal import PreviewFeatures
from hipsynth.training.data.dataset import LabelledSample

OUTCOMES = "outcomes.jsonl"


@dataclass(frozen=True)
class PreviewOutcome:
    """The preview of a sample's kernel; None where it has none. `sample`: the sample's key and kernel."""

    sample: str
    preview: PreviewFeatures | None


def sample_id(sample: LabelledSample) -> str:
    """Names a sample in a file of outcomes."""
    return f"{sample.key} {sample.kernel}"


def collect_outcomes(
    samples: Sequence[LabelledSample],
    path: Path,
    workers: int,
    note: Callable[[str], None] = lambda _: None,
) -> dict[str, PreviewFeatures | None]:
    """The previews of all samples by sample_id; those that the file does not have are computed and added to it.

    Goes on after an interruption. Raises BadInput for a damaged file, MissingDependency without a compiler or sandbox.
    """
    previews = read_outcomes(path)
    missing = [sample for sample in samples if sample_id(sample) not in previews]
    jobs = group_builds(missing)
    for finished, outcome in enumerate(map_unordered(preview_build, jobs, workers, "local", job_limit_s(jobs)), 1):
        if isinstance(outcome.error, MissingDependency):
            raise outcome.error
        build = jobs[outcome.index]
        lost = isinstance(outcome.error, HipsynthError)  # its worker ended
        for row in _outcomes_of(build, [None] * len(build.samples) if lost else outcome.get()):
            previews[row.sample] = row.preview
            append_json_line(path, asdict(row))
        if finished % 50 == 0:
            note(f"previewed {finished} of {len(jobs)} builds")
    return {sample_id(sample): previews[sample_id(sample)] for sample in samples}


def _outcomes_of(build: BuildSamples, previews: Iterable[PreviewFeatures | None]) -> list[PreviewOutcome]:
    return [PreviewOutcome(sample_id(sample), preview) for sample, preview in zip(build.samples, previews, strict=True)]


def read_outcomes(path: Path) -> dict[str, PreviewFeatures | None]:
    """The previews of a file by sample_id; a missing file has none. Raises BadInput for a damaged line."""
    rows = read_documents(path, PreviewOutcome, "name another folder", missing_ok=True)
    return {row.sample: row.preview for row in rows}
