"""Schemas, reference page and TypeScript types follow from the documents, and documents are as their schemas say."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import document_samples as samples
import jsonschema_rs
import needs
import pytest
from profiling_samples import result, target

needs.package("pydantic")
needs.package("pygls")
from hipsynth.core.documents import document_json, from_json  # noqa: E402
from hipsynth.core.errors import ErrorDocument, UsageError  # noqa: E402
from hipsynth.profiling.reports.describe import profile_document  # noqa: E402
from hipsynth.profiling.reports.documents import ProfileDocument  # noqa: E402
from hipsynth.serving.documents import JobDocument  # noqa: E402
from hipsynth.serving.lsp.documents import EditorPanel, NotifiedKernel, PanelTarget, PredictionNotice  # noqa: E402
from hipsynth.training.models.documents import FailedExecution, PredictDocument  # noqa: E402
from tools.document_schemas import DOCUMENTS, find_stale_files, make_schema  # noqa: E402

MEASURED = profile_document("0123", "k.hip", [result(target())])
FAILED = replace(samples.prediction(samples.KERNEL), executed=(FailedExecution("failed", "trap", "it stopped"),))
PANEL = EditorPanel(
    target=PanelTarget("gfx90a", "", "-O3"), model="m", state="", edited=False, kernels=(), roofline=None
)
SAMPLES: list[Any] = [
    MEASURED,
    samples.profile_document(),
    samples.predict_document(),
    PredictDocument(program=samples.PROGRAM, model="m", results=(FAILED,)),
    ErrorDocument.of(UsageError("no such option")),
    JobDocument(job="j", state="done", elapsed_s=1.0, limit_s=2.0, document=MEASURED, problem=None),
    PredictionNotice(
        uri="file:///k.hip", version=1, state="", kernels=(NotifiedKernel("k", 0, "", samples.KERNEL),), panel=PANEL
    ),
]


def test_generated_files_are_current() -> None:
    assert not find_stale_files(), "run `python -m tools.document_schemas`"


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: type(sample).__name__)
def test_documents_are_as_their_schemas_say(sample: Any) -> None:
    schema = jsonschema_rs.validator_for(make_schema(type(sample)))
    found = json.loads(json.dumps(document_json(sample), allow_nan=False))
    assert list(schema.iter_errors(found)) == []
    for name in found:
        if name not in ("diagnostics",):
            assert not schema.is_valid({key: value for key, value in found.items() if key != name}), name
    assert from_json(type(sample), found) == sample


def test_published_documents_have_names_of_their_own() -> None:
    names = [document.name for document in DOCUMENTS]
    assert len(set(names)) == len(names) and ProfileDocument in [document.kind for document in DOCUMENTS]
