"""What a corpus says about generated programs: which labels they gave, and how welcome more of each are."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from hipsynth.core.errors import UsageError
from hipsynth.core.store import Corpus
from hipsynth.profiling.reports.coverage import heaviest_kernels, measure_coverage
from hipsynth.synth.generate.headers import load_templates, template_of
from hipsynth.synth.generate.steer import Label


def labels_of(path: Path) -> list[Label]:
    """The labels of a corpus that belong to base programs of the generator, in the corpus' order. Raises UsageError if
    there are none."""
    corpus = Corpus.open(path)
    rows = heaviest_kernels(corpus.measurements().to_pylist())
    covered = measure_coverage(rows)
    programs = {row["id"]: row for row in corpus.programs().to_pylist() if row["origin"] == "synthetic"}
    labels = []
    for row in rows:
        program = programs.get(row["program_id"])
        if program and not program["derivation"] and template_of(program["family"]) in load_templates():
            labels.append(Label(program["family"], _run_params(program, row["arguments"]), covered.worth(row)))
    if not labels:
        raise UsageError(
            f"{path} holds no label of a generated program", remedy="profile programs of `synth generate` into it first"
        )
    return labels


def _run_params(program: dict[str, Any], arguments: str) -> dict[str, Any]:
    """The parameters of a program in the run with these arguments."""
    words = shlex.split(arguments)
    runs = json.loads(program["runs"] or "[]")
    changed: dict[str, Any] = next((run["params"] for run in runs if run["arguments"] == words), {})
    return {**json.loads(program["params"]), **changed}
