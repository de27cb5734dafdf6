"""What the tools answer for labelled samples, computed once and kept in a file, so that training and scoring replay it.

An execution's answer is the sample's label, which an execution made.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency
from hipsynth.core.files import open_regular
from hipsynth.core.workers import map_unordered
from hipsynth.training.analytic.examples import (
    JOB_SECONDS,
    BuildSamples,
    PreviewFeatures,
    group_builds,
    preview_build,
)
from hipsynth.training.data.dataset import LabelledSample

OUTCOMES = "outcomes.jsonl"
MOST_BYTES = 1 << 30


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
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        for finished, outcome in enumerate(map_unordered(preview_build, jobs, workers, "local", JOB_SECONDS), 1):
            if isinstance(outcome.error, MissingDependency):
                raise outcome.error
            build = jobs[outcome.index]
            lost = isinstance(outcome.error, HipsynthError)  # its worker ended
            rows = _outcomes_of(build, [None] * len(build.samples) if lost else outcome.get())
            previews |= {row.sample: row.preview for row in rows}
            file.writelines("\n" + json.dumps(asdict(row)) for row in rows)
            file.flush()
            if finished % 50 == 0:
                note(f"previewed {finished} of {len(jobs)} builds")
    return {sample_id(sample): previews[sample_id(sample)] for sample in samples}


def _outcomes_of(build: BuildSamples, previews: Iterable[PreviewFeatures | None]) -> list[PreviewOutcome]:
    return [PreviewOutcome(sample_id(sample), preview) for sample, preview in zip(build.samples, previews, strict=True)]


def read_outcomes(path: Path) -> dict[str, PreviewFeatures | None]:
    """The previews of a file by sample_id; a line that was cut is left out, a missing file has none. Raises BadInput
    for a file that is no file of outcomes."""
    previews: dict[str, PreviewFeatures | None] = {}
    if not path.exists():
        return previews
    with open_regular(path, MOST_BYTES) as file:
        for line in file:
            if not line.strip():
                continue
            try:
                document = json.loads(line)
            except ValueError:
                continue  # the last line of a call that was interrupted
            try:
                row = from_json(PreviewOutcome, document)
            except (TypeError, ValueError) as error:
                raise BadInput(
                    f"{path} is no file of outcomes", cause=str(error), remedy="name another folder"
                ) from error
            previews[row.sample] = row.preview
    return previews
