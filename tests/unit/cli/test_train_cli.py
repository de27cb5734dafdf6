"""The verbs train, evaluate, predict and report on a small stored corpus, from the command line."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import jsonschema_rs
import needs
import pytest
import training_corpus as made
from click.testing import CliRunner, Result

from hipsynth.cli.evaluate import _save_with_model
from hipsynth.cli.main import cli
from hipsynth.core.documents import document_json
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.reasons import Reason
from hipsynth.core.store import CorpusWriter
from hipsynth.profiling.metrics.definitions import answer_ids
from hipsynth.training.analytic.predict import SHIPPED
from hipsynth.training.data.training_set import read_training_set
from hipsynth.training.evaluation import report
from hipsynth.training.evaluation.documents import EvaluatedModel, EvaluationDocument, PredictedSample
from hipsynth.training.evaluation.evaluate import Evaluation
from hipsynth.training.evaluation.report import ModelAccuracy, render_report
from hipsynth.training.models.documents import TrainDocument
from hipsynth.training.models.model_record import RECORD, ModelRecord, model_record
from tools.document_schemas import make_schema

needs.installed("torch", "transformers")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("verbs")
    made.write_corpus(root / "corpus", made.samples(15, 1))
    (root / "toy.toml").write_text(made.TOY)
    (root / "kernel.hip").write_text(made.samples(1, 1)[0].text)
    document = run("train", root / "corpus", "--config", root / "toy.toml", "--out", root / "model", "--json")
    assert document["status"] == "finished"
    schema = jsonschema_rs.validator_for(make_schema(TrainDocument))
    assert list(schema.iter_errors(document)) == [] and not schema.is_valid({**document, "config": {}})
    return root


def invoke(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(a) for a in arguments], catch_exceptions=True)


def run(*arguments: object) -> Any:
    result = invoke(*arguments)
    assert result.exit_code == 0, result.output + repr(result.exception)
    return json.loads(result.stdout)


def test_training_a_finished_model_reports_finished(work: Path) -> None:
    result = invoke("train", work / "corpus", "--config", work / "toy.toml", "--out", work / "model")
    assert "already finished, 2 steps of toy" in result.output


def test_documents_of_training_say_what_applies(tmp_path: Path) -> None:
    config = json.loads(json.dumps(asdict(made.toy_config())))
    record: ModelRecord = {
        "version": 1,
        "status": "finished",
        "fingerprint": "0",
        "config": config,
        "base": "analytic",
        "format": "sig3",
        "context": 0,
        "thresholds": {"stores": math.inf, "loads": 0.02},  # as earlier versions wrote them
    }
    (tmp_path / RECORD).write_text(json.dumps(record))
    document = document_json(TrainDocument.of(tmp_path, model_record(tmp_path) or {}))
    assert document["thresholds"] == {"stores": None, "loads": 0.02} and "steps" not in document
    reinforced: ModelRecord = {**record, "rollouts": [{"reward": 0.5, "ended": "answer", "tokens": 9}]}
    assert document_json(TrainDocument.of(tmp_path, reinforced))["rollouts"] == reinforced["rollouts"]
    with pytest.raises(BadInput, match=RECORD):
        TrainDocument.of(tmp_path, {**record, "context": "long"})  # type: ignore[typeddict-item]


@pytest.mark.full
def test_evaluate_prints_a_table_and_writes_figures(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hipsynth.training.models.baselines.cached_disassembly", lambda *_: None)
    document = run(
        "evaluate", work / "model", work / "corpus", "--json", "--free-samples", "1", "--out", work / "scores"
    )
    assert document["backends"] == ["sim"]
    assert document["splits"]["lineage"]["n"] > 0
    written = {path.name for path in (work / "scores").iterdir()}
    assert {"evaluation.json", "predictions.json", "scatter_lineage.svg", "within_lineage.png"} <= written


def test_the_shipped_predictor_is_evaluated_without_a_model(work: Path) -> None:
    document = run("evaluate", work / "corpus", "--json", "--share", "0.5")
    assert document["model"] == {"path": str(SHIPPED), "base": "analytic", "config": "analytic"}
    (scored,) = (scored for scored in document["splits"].values() if scored["n"])
    assert scored["n"] > scored["no_preview"] and scored["duration"]["within"]["10"] is not None
    assert not (SHIPPED / "evaluation.json").exists()


def test_the_shipped_predictor_says_what_it_learned_from() -> None:
    record, learned = model_record(SHIPPED), read_training_set(SHIPPED)
    assert record is not None and record["previewed"] > 4000
    assert record["samples"]["train"] + record["samples"]["valid"] == len(learned.keys) > len(learned.lineages) > 300


def test_predict_answers_in_physical_units(work: Path) -> None:
    document = run(
        "predict", work / "kernel.hip", "--arch", "gfx90a", "--arch", "gfx942", "--model", work / "model", "--json"
    )
    assert [r["arch"] for r in document["results"]] == ["gfx90a", "gfx942"]
    assert len(document["results"][0]["metrics"]) == 12
    assert "roofline" in document["results"][0]
    text = invoke("predict", work / "kernel.hip", "--arch", "gfx90a", "--flags=-O3", "--model", work / "model").output
    assert "L2_Fabric_Read_BW" in text and "GB/s" in text and "FLOP/B" in text


def test_a_report_is_one_file_with_the_evaluation_of_all_samples(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hipsynth.training.models.baselines.cached_disassembly", lambda *_: None)
    model, out = work / "model", work / "report.html"
    part = run("evaluate", model, work / "corpus", "--json", "--free-samples", "1", "--share", "0.5")
    assert run("report", work / "corpus", "--model", model, "--out", out, "--json")["evaluated"]
    require_self_contained(out.read_text())
    evaluated = (model / "evaluation.json").read_bytes()
    counts = [sum(scored["n"] for scored in row["splits"].values()) for row in (json.loads(evaluated), part)]
    assert counts[0] > counts[1] > 0
    run("report", work / "corpus", "--model", model, "--out", out, "--json")
    assert (model / "evaluation.json").read_bytes() == evaluated


def require_self_contained(html: str) -> None:
    """Fails for a report that lacks a part or loads anything."""
    for text in (
        "Simulated values",
        "Split by lineage",
        "Example prediction",
        "clang 22",
        "HIP 7.1",
        "MI300X",
        "Accuracy of the simulated values",
    ):
        assert text in html, text
    for outside in ("http://", "https://", "src=", "@import", "url("):
        assert outside not in html.replace("http://www.w3.org/2000/svg", ""), outside  # a name, which nothing loads


def test_a_report_of_a_model_that_learned_elsewhere_has_no_baselines() -> None:
    sample = made.samples(1, 1)[0]
    truth = sample.true_metrics()
    row = PredictedSample(
        split="lineage", key=sample.key, arch=sample.arch, flags=sample.flags, program_id=sample.program_id,
        family=sample.family, kernel=sample.kernel, truth=truth, predicted={"model": truth},
    )  # fmt: skip
    html = render_report([sample], {}, {}, "corpus", ModelAccuracy(empty_document(), [row], [sample]))
    assert "Example prediction" in html


def empty_document() -> EvaluationDocument:
    """An evaluation without samples."""
    model = EvaluatedModel(path="m", base="tiny", config="toy")
    return EvaluationDocument(
        model=model, format="sig3", train_samples=0, backends=(), splits={}, baselines={}, about_baselines={},
        without_code_features=0, excluded={}, fingerprint="0" * 64,
    )  # fmt: skip


def test_a_report_counts_the_chosen_backend_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made.write_corpus(tmp_path / "corpus", made.samples(2, 1))
    item = made.item_of(replace(made.samples(1, 1)[0], arguments="9"))
    with CorpusWriter(tmp_path / "corpus", answer_ids()) as writer:
        for backend, reason in (("sim", Reason.TRAP), ("preview", Reason.NO_PREVIEW)):
            writer.add(replace(item, backend=backend, status="failed", reason=reason, kernels=[]))
    counts: list[dict[str, int]] = []

    def render(samples: object, failures: Mapping[str, int], *_: object) -> str:
        counts.append(dict(failures))
        return ""

    monkeypatch.setattr(report, "render_report", render)
    report.write_report(tmp_path / "corpus", tmp_path / "report.html", backend="sim")
    assert counts == [{"trap": 1}]


def test_numbers_are_kept_where_the_models_folder_cannot_be_written_to(
    work: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(evaluation: object, folder: Path) -> None:
        raise BadInput(f"{folder}: read-only")

    monkeypatch.setattr("hipsynth.training.evaluation.evaluate.save_evaluation", refuse)
    evaluation = Evaluation(empty_document(), {}, {})
    _save_with_model(evaluation, work / "model")
    assert "read-only" in capsys.readouterr().err
    _save_with_model(evaluation, SHIPPED)
    assert not capsys.readouterr().err, "nothing is written beside the shipped one"


def test_charts_are_well_formed_and_report_works_without_a_model(work: Path) -> None:
    from xml.etree import ElementTree

    out = work / "plain.html"
    assert not run("report", work / "corpus", "--out", out, "--json")["evaluated"]
    html = out.read_text()
    charts = re.findall(r"<svg viewBox.*?</svg>", html)
    assert len(charts) == 12 and all(ElementTree.fromstring(chart).tag == "svg" for chart in charts)
    data = re.search(r'<script id="roofline-data"[^>]*>(.*?)</script>', html)
    assert data
    plots = json.loads(data[1])
    assert [plot["plot"]["device"] for plot in plots] == ["mi250", "mi300x"]
    on_roof = [s for s in made.samples(15, 1) if s.metrics["HBM_GFLOPS"] > 0]
    assert sum(len(plot["dots"]) for plot in plots) == len(on_roof)
    assert "function mount(" in html, "the plots are drawn by the shared component"


@pytest.mark.full
@pytest.mark.skipif(shutil.which("chromium") is None, reason="chromium is not installed")
def test_a_browser_draws_the_report(work: Path, tmp_path: Path) -> None:
    out = work / "drawn.html"
    run("report", work / "corpus", "--out", out, "--json")
    quiet = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=5000",
        "--dump-dom",
    ]
    drawn = subprocess.run(["chromium", *quiet, out.as_uri()], capture_output=True, text=True, timeout=120).stdout
    assert len(re.findall(r'class="roofline" viewBox="0 0 \d', drawn)) == 2
    on_roof = [s for s in made.samples(15, 1) if s.metrics["HBM_GFLOPS"] > 0]
    assert drawn.count('<circle class="dot"') == len(on_roof)


def test_the_report_shows_bottlenecks_and_expected_errors() -> None:
    from hipsynth.training.evaluation.report import _expected_errors, _limit_shares

    (chart,) = _limit_shares({"gfx90a": {"hbm": 3, "launch": 1}})
    assert [(row.unit, row.share) for row in chart.rows] == [("HBM bandwidth", 75), ("launch overhead", 25)]
    found = _expected_errors([replace(sample, backend="sim") for sample in made.samples(3, 2)])
    assert found.devices == ("mi250", "mi300x")
    assert all(len(row.cells) == 2 for row in found.rows) and len(found.rows) == 12 + 1


def test_bad_input_is_a_clear_error(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(work)
    kernel, corpus = work / "kernel.hip", work / "corpus"
    (work / "empty.hip").write_text("int main() { return 0; }\n")
    cases: list[tuple[type[Exception], list[object]]] = [
        (UsageError, ["predict", kernel, "--arch", "gfx1", "--model", work / "model"]),
        (UsageError, ["predict", kernel, "--arch", "gfx90a", "--flags=--evil", "--model", work / "model"]),
        (BadInput, ["predict", work / "none.hip", "--arch", "gfx90a"]),
        (BadInput, ["predict", work / "empty.hip", "--arch", "gfx90a", "--model", work / "model"]),
        (UsageError, ["train", corpus, "--config", "no-such", "--out", work / "m2"]),
        (BadInput, ["train", work / "nowhere", "--config", "tiny-cpu", "--out", work / "m2"]),
        (BadInput, ["evaluate", work / "nowhere", corpus]),
        (BadInput, ["report", corpus, "--model", work / "nowhere", "--out", work / "x.html"]),
        (BadInput, ["evaluate", work / "model", work / "nowhere"]),
        (BadInput, ["evaluate", work / "nowhere"]),
        (UsageError, ["evaluate", work / "model", corpus, corpus]),
        (BadInput, ["report", corpus, "--out", kernel / "x.html"]),
    ]
    for error, arguments in cases:
        result = invoke(*arguments)
        assert isinstance(result.exception, error), (arguments, result.exception)
