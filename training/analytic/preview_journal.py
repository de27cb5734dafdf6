"""The previews that a training or an evaluation made, in a file, so that it goes on after an interruption."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.documents import document_json
from hipsynth.core.errors import MissingDependency
from hipsynth.core.json_lines import append_json_line, read_documents
from hipsynth.simulator.label_model import preview_version
from hipsynth.toolchain import find_toolchain
from hipsynth.training.data.dataset import LabelledSample

PREVIEWS = "previews.jsonl"  # in the folder that a training or an evaluation writes


@dataclass(frozen=True)
class PreviewFeatures:
    """What the preview of a sample's launch says: features and quantities for the correction, the unit that limits it,
    and the time that this unit alone takes."""

    features: Mapping[str, float]
    quantities: Mapping[str, float]
    bottleneck: str
    bound_ns: float


@dataclass(frozen=True)
class JournalEntry:
    """A line of the file: the preview of the launches with this digest, None if they have none; and its version."""

    launches: str
    version: str
    preview: PreviewFeatures | None


def describe_preview_tools() -> str:
    """What a preview depends on beside its program and target: the compiler, and versions of labels and previews."""
    try:
        compiler = find_toolchain().identity
    except MissingDependency:
        compiler = "none"
    return f"{compiler} {preview_version()}"


class PreviewJournal:
    """The previews in a file, by the launches that a sample's label is of; those of other tools are left out."""

    def __init__(self, path: Path) -> None:
        """Raises BadInput for a file that is damaged."""
        self.path, self.version = path, describe_preview_tools()
        rows = read_documents(path, JournalEntry, "remove the file to begin again", missing_ok=True)
        self._previews = {row.launches: row.preview for row in rows if row.version == self.version}

    def __contains__(self, sample: LabelledSample) -> bool:
        return _digest_launches(sample) in self._previews

    def find_preview(self, sample: LabelledSample) -> PreviewFeatures | None:
        """The preview of a sample that it contains."""
        return self._previews[_digest_launches(sample)]

    def keep_previews(self, previews: Iterable[tuple[LabelledSample, PreviewFeatures | None]]) -> None:
        """Keeps the previews of samples."""
        for sample, preview in previews:
            row = JournalEntry(_digest_launches(sample), self.version, preview)
            self._previews[row.launches] = preview
            append_json_line(self.path, document_json(row))

    def remove_file(self) -> None:
        """Removes the file, whose previews are no longer needed."""
        self.path.unlink(missing_ok=True)


def _digest_launches(sample: LabelledSample) -> str:
    facts = sample.facts
    parts = (
        sample.program_text or sample.text, sample.language, sample.arch, sample.flags, sample.device, sample.arguments,
        sample.kernel, facts.grid, facts.block, facts.dispatches, facts.reused,
    )  # fmt: skip
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogateescape")).hexdigest()[:32]
