"""Writes the schema of every JSON document, their reference page, and the TypeScript types of the extension.

    python -m tools.document_schemas [--check]

All follow from the dataclasses in the modules called documents.py. With --check nothing is written: the exit code is 1
if a file is not current.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hipsynth.cli.doctor_checks import DoctorDocument
from hipsynth.core.document_schema import list_definitions, list_members, list_parts, make_schema
from hipsynth.core.documents import Json, JsonObject
from hipsynth.core.errors import ErrorDocument
from hipsynth.core.reasons import Reason
from hipsynth.profiling.compare.documents import CompareDocument
from hipsynth.profiling.matrix.collect import MatrixSummary
from hipsynth.profiling.reports.documents import CorpusStatistics, ProfileDocument, RunDocument
from hipsynth.profiling.survey.documents import SurveyCollection, SurveyDocument
from hipsynth.serving.documents import ChatCompletion, Comparison, JobDocument, ServerChoices
from hipsynth.serving.lsp.documents import EditComparison, EditorTargets, PredictionNotice
from hipsynth.serving.lsp.session import EditorOffers
from hipsynth.synth.frontend.augment import AugmentSummary
from hipsynth.synth.generate.writer import GenerateSummary
from hipsynth.synth.llm.collect import CollectionReport
from hipsynth.synth.release.pack import PackResult
from hipsynth.synth.release.verify import ReleaseVerification
from hipsynth.training.data.documents import ChatExport, QuestionExport
from hipsynth.training.evaluation.documents import EvaluationDocument, ReportSummary
from hipsynth.training.models.documents import PredictDocument, TrainDocument, VariantDocument
from hipsynth.tuning.agent.sft_data import CollectionSummary
from hipsynth.tuning.optimize.documents import OptimizeDocument, VerifyDocument
from hipsynth.tuning.swizzle.documents import SwizzleDocument
from hipsynth.tuning.tools import documents as tools

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs" / "reference" / "schema"
PAGE = ROOT / "docs" / "reference" / "documents.md"
TYPES = ROOT / "vscode" / "src" / "documents.ts"


@dataclass(frozen=True)
class PublishedDocument:
    """A document under a name, and who answers with it."""

    name: str
    kind: type
    source: str


DOCUMENTS = (
    PublishedDocument("predict", PredictDocument, "`synth predict --json`, `POST /v1/predict`"),
    PublishedDocument("variant", VariantDocument, "a line of `synth predict --sweep --json` and `--variants`"),
    PublishedDocument("profile", ProfileDocument, "`synth profile --json` of one program"),
    PublishedDocument("profile-folder", MatrixSummary, "`synth profile --json` of a folder"),
    PublishedDocument("compare", CompareDocument, "`synth compare --json`"),
    PublishedDocument("run", RunDocument, "`synth run --json`"),
    PublishedDocument("optimize", OptimizeDocument, "`synth optimize --json`"),
    PublishedDocument("verify", VerifyDocument, "`synth verify --json`"),
    PublishedDocument("swizzle", SwizzleDocument, "`synth swizzle --json`"),
    PublishedDocument("survey", SurveyDocument, "`synth survey --json` of one folder and architecture"),
    PublishedDocument("surveys", SurveyCollection, "`synth survey --json` of several"),
    PublishedDocument("generate", GenerateSummary, "`synth generate --json`"),
    PublishedDocument("augment", AugmentSummary, "`synth augment --json`"),
    PublishedDocument("llm", CollectionReport, "`synth llm --json`"),
    PublishedDocument("stats", CorpusStatistics, "`synth stats --json`"),
    PublishedDocument("export-chat", ChatExport, "`synth export --format chat-jsonl --json`"),
    PublishedDocument("export-questions", QuestionExport, "`synth export --format questions --json`"),
    PublishedDocument("train", TrainDocument, "`synth train --json`"),
    PublishedDocument("evaluate", EvaluationDocument, "`synth evaluate --json`"),
    PublishedDocument("report", ReportSummary, "`synth report --json`"),
    PublishedDocument("release-pack", PackResult, "`synth release make --json` and `synth release pack --json`"),
    PublishedDocument("release-verify", ReleaseVerification, "`synth release verify --json`"),
    PublishedDocument("traces", CollectionSummary, "`synth traces --json`"),
    PublishedDocument("doctor", DoctorDocument, "`synth doctor --json`"),
    PublishedDocument("lsp", EditorOffers, "`synth lsp --json`"),
    PublishedDocument("tools", tools.ToolTable, "`synth mcp --json`"),
    PublishedDocument("tool-compile", tools.CompiledProgram, "the tool `compile` of `synth mcp`"),
    PublishedDocument("tool-read", tools.ProgramText, "the tool `read`"),
    PublishedDocument("tool-resources", tools.ProgramResources, "the tool `resources`"),
    PublishedDocument("tool-what-if", tools.ProgramCauses, "the tool `what_if`"),
    PublishedDocument("tool-profile", tools.TimedProgram, "the tool `profile`"),
    PublishedDocument("tool-predict", tools.ForecastProgram, "the tool `predict`"),
    PublishedDocument("tool-hot-lines", tools.HotLines, "the tool `hot_lines`"),
    PublishedDocument("tool-propose", tools.ProposedMoves, "the tool `propose`"),
    PublishedDocument("tool-apply", tools.ChangedProgram, "the tools `apply` and `edit`"),
    PublishedDocument("tool-compare", tools.ComparedPrograms, "the tool `compare`"),
    PublishedDocument("tool-run-and-verify", tools.VerifiedProgram, "the tools `run_and_verify` and `verify`"),
    PublishedDocument("tool-swizzle", tools.RemappedProgram, "the tool `swizzle`"),
    PublishedDocument("tool-failure", tools.ToolFailure, "every tool whose call fails"),
    PublishedDocument("error", ErrorDocument, "every verb with `--json` that fails, every error of the server"),
    PublishedDocument("job", JobDocument, "`GET` and `DELETE /v1/jobs/NAME`"),
    PublishedDocument("comparison", Comparison, "`POST /v1/compare`"),
    PublishedDocument("options", ServerChoices, "`GET /v1/options`"),
    PublishedDocument("chat", ChatCompletion, "`POST /v1/chat/completions`"),
    PublishedDocument("editor-prediction", PredictionNotice, "the notification `hipsynth/prediction`"),
    PublishedDocument("editor-targets", EditorTargets, "the command `hipsynth.targets`"),
    PublishedDocument("editor-comparison", EditComparison, "the command `hipsynth.compare`"),
)
EDITOR = ("editor-prediction", "editor-targets", "editor-comparison")  # with types for the extension


def render_type(schema: Json) -> str:
    """A schema as a type of TypeScript."""
    if not isinstance(schema, dict):
        return "unknown"
    if reference := schema.get("$ref"):
        return str(reference).rpartition("/")[2]
    if union := list_parts(schema, "anyOf"):
        return " | ".join(map(render_type, union))
    if choice := schema.get("enum"):
        return " | ".join(map(json.dumps, choice)) if isinstance(choice, list) else "unknown"
    kind = schema.get("type")
    if kind == "array":
        if ends := list_parts(schema, "prefixItems"):
            return f"[{', '.join(map(render_type, ends))}]"
        inner = render_type(schema.get("items"))
        return f"({inner})[]" if " " in inner else f"{inner}[]"
    if kind == "object":
        return f"Record<string, {render_type(schema.get('additionalProperties'))}>"
    return {"integer": "number", "None": "unknown"}.get(str(kind), str(kind))


def render_interfaces(definitions: Mapping[str, JsonObject]) -> Iterator[str]:
    """The definitions as interfaces of TypeScript, and those that are words as types."""
    for name, schema in sorted(definitions.items()):
        if "properties" not in schema:
            yield f"\nexport type {name} = {render_type(schema)};\n"
            continue
        required = schema.get("required", [])
        assert isinstance(required, list)
        yield f"\nexport interface {name} {{\n"
        for member, part in list_members(schema, "properties").items():
            yield f"  {member}{'' if member in required else '?'}: {render_type(part)};\n"
        yield "}\n"


def render_types() -> str:
    """The module of the extension with the types of what the language server sends."""
    definitions: dict[str, JsonObject] = {}
    for document in DOCUMENTS:
        if document.name in EDITOR:
            definitions |= list_definitions(make_schema(document.kind))
    return "// Generated by tools/document_schemas.py: what the language server sends.\n" + "".join(
        render_interfaces(definitions)
    )


def render_page() -> str:
    """The reference page: each document, and once the objects in them."""
    lines = [
        "# JSON documents",
        "",
        "Generated by `python -m tools.document_schemas` from the dataclasses of the documents. The schemas are in",
        "[schema/](schema/); the routes of a server have the same objects. `name?`: left out where it does not apply.",
        "",
        "| document | answers | schema |",
        "|---|---|---|",
    ]
    definitions: dict[str, JsonObject] = {}
    for document in DOCUMENTS:
        schema = make_schema(document.kind)
        title = str(schema["title"])
        definitions |= list_definitions(schema)
        schema_link = f"[{document.name}](schema/{document.name}.json)"
        lines.append(f"| [{title}](#{title.lower()}) | {document.source} | {schema_link} |")
    for name, schema in sorted(definitions.items()):
        lines += ["", f"## {name}", "", " ".join(str(schema.get("description", "")).split()), *_render_members(schema)]
    lines += [
        "",
        "## Reasons",
        "",
        "What `reason`, `reason_code` and `error` hold.",
        "",
        "| code | meaning | what to try where no error says more |",
        "|---|---|---|",
    ]
    lines += [f"| `{reason}` | {reason.meaning} | {reason.remedy} |" for reason in Reason if reason]
    return "\n".join(lines) + "\n"


def _render_members(schema: JsonObject) -> list[str]:
    if choice := schema.get("enum"):
        assert isinstance(choice, list)
        return ["", f"One of {', '.join(f'`{word}`' for word in choice)}."]
    required = schema.get("required", [])
    assert isinstance(required, list)
    rows = ["", "| member | type |", "|---|---|"]
    for member, part in list_members(schema, "properties").items():
        kind = render_type(part).replace("|", "\\|")
        rows.append(f"| `{member}{'' if member in required else '?'}` | {kind} |")
    return rows


def render_files() -> dict[Path, str]:
    """Every generated file: path -> text."""
    texts = {
        FOLDER / f"{document.name}.json": json.dumps(make_schema(document.kind), indent=1) + "\n"
        for document in DOCUMENTS
    }
    return texts | {PAGE: render_page(), TYPES: render_types()}


def find_stale_files() -> list[Path]:
    """Generated files that are not current, and schemas of documents that no longer exist."""
    files = render_files()
    stale = [path for path, text in files.items() if not path.is_file() or path.read_text() != text]
    return stale + [path for path in FOLDER.glob("*.json") if path not in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    if parser.parse_args().check:
        stale = find_stale_files()
        for path in stale:
            print(f"not current: {path.relative_to(ROOT)}")
        sys.exit(bool(stale))
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path, text in render_files().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
