"""From a corpus to training samples and statistics."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from profiling_samples import captures, failure, kernel, program, result, target

from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput, UsageError
from hipsynth.core.store import Corpus, CorpusItem, CorpusWriter
from hipsynth.profiling import metrics
from hipsynth.profiling.backends.recorded import capture_result
from hipsynth.profiling.matrix.collect import MatrixOptions, collect_matrix
from hipsynth.profiling.reports.corpus_statistics import count_bottlenecks
from hipsynth.training.data.prompt import parse_answer
from hipsynth.training.data.questions import export_questions
from hipsynth.training.data.samples import export_chat, iter_samples, select_labels

TARGETS = [target("gfx90a"), target("gfx90a", "--std=c++17 -O3 -ffast-math"), target("gfx942")]
PROGRAMS = [program(n, lineage="one" if n < 2 else "") for n in range(4)]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four programs on three targets; one fails, one has three kernels, one has an unknown metric."""
    root = tmp_path_factory.mktemp("corpus")
    folder = captures(root / "captures", PROGRAMS, TARGETS)
    capture_result(folder, PROGRAMS[3].id, failure(TARGETS[2], "timeout"))
    kernels = [kernel(name="short"), kernel(name="often", dispatches=10), kernel(name="long", scale=9.0)]
    capture_result(folder, PROGRAMS[2].id, result(TARGETS[0], *kernels))
    whole = kernel()
    counters = {name: value for name, value in whole.counters.items() if name != "TCC_HIT"}
    capture_result(folder, PROGRAMS[2].id, result(TARGETS[1], replace(whole, counters=counters)))
    collect_matrix(PROGRAMS, TARGETS, root / "c", MatrixOptions(f"recorded:{folder}", workers=2))
    return root / "c"


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_one_sample_per_program_arch_and_flags(corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "samples.jsonl"
    summary = export_chat(Corpus.open(corpus), out, digits="fixed3")
    samples = lines(out)
    assert summary.samples == len(samples) == 10
    assert summary.left_out == {"other kernels of the program": 2, "a metric is not known": 1}
    keys = {(s["program_id"], s["arch"], s["flags"]) for s in samples}
    assert len(keys) == 10
    texts = {p.id: p.text for p in PROGRAMS}
    for sample in samples:
        system, user, assistant = sample["messages"]
        assert system["role"] == "system" and texts[sample["program_id"]].strip() in user["content"]
        found = parse_answer(assistant["content"], arch=sample["arch"], flags=sample["flags"])
        assert found.valid, found.errors
        assert f"compiler flags {sample['flags']}, what" in user["content"]
    stored = {row["measurement_id"]: row for row in Corpus.open(corpus).measurements().to_pylist()}
    one = next(s for s in samples if s["program_id"] == PROGRAMS[1].id)
    found = parse_answer(one["messages"][2]["content"])
    for metric in metrics.answer_ids():
        shown = metrics.normalise_metric(metric, found.values[metric])
        assert shown == pytest.approx(metrics.normalise_metric(metric, stored[one["id"]][metric]), abs=0.0005001)


def test_the_label_is_the_kernel_with_the_largest_total_time(corpus: Path) -> None:
    rows = select_labels(Corpus.open(corpus).measurements()).rows
    (row,) = [r for r in rows if r["program_id"] == PROGRAMS[2].id and r["arch"] == "gfx90a" and r["flags"] == "-O3"]
    assert row["kernel"] == "often"  # ten dispatches of 15.8 us beat one of 143 us


def test_copies_of_a_lineage_are_never_in_two_parts(corpus: Path, tmp_path: Path) -> None:
    export_chat(Corpus.open(corpus), tmp_path / "s.jsonl")
    parts: dict[str, set[str]] = {}
    for sample in lines(tmp_path / "s.jsonl"):
        parts.setdefault(sample["lineage"], set()).add(sample["split"]["lineage"])
    assert all(len(part) == 1 for part in parts.values()) and len(set.union(*parts.values())) == 3


def test_measured_and_simulated_labels_never_mix_silently(tmp_path: Path) -> None:
    with CorpusWriter(tmp_path, metrics.all_ids()) as writer:
        writer.add_program(PROGRAMS[0].record(), PROGRAMS[0].text)
        for backend in ("sim", "rocprof"):
            for version, flags in (("1", "-O3"), ("1", "-O2"), ("2", "-O3")):
                writer.add(label(backend, version, flags))
    table = Corpus.open(tmp_path).measurements()
    with pytest.raises(UsageError, match="rocprof and sim"):
        select_labels(table)
    selection = select_labels(table, backend="sim")
    assert [(row["backend"], row["backend_version"]) for row in selection.rows] == [("sim", "1")] * 2
    assert dict(selection.left_out) == {"other backend or device": 3, "other tool version": 1}


def test_each_run_of_a_build_is_a_label_of_its_own(tmp_path: Path) -> None:
    base = replace(
        PROGRAMS[0],
        text="int main(int argc, char** argv) {\n  int n = 64;\n  if (argc > 1) n = std::atoi(argv[1]);\n}\n",
    )
    with CorpusWriter(tmp_path, metrics.all_ids()) as writer:
        writer.add_program(base.record(), base.text)
        for arguments in ("", "128", "4096"):
            writer.add(replace(label("sim", "1", "-O3", arguments), program_id=base.id))
    corpus = Corpus.open(tmp_path)
    selection = select_labels(corpus.measurements())
    assert sorted(row["arguments"] for row in selection.rows) == ["", "128", "4096"]
    sizes = {sample["arguments"]: sample["messages"][1]["content"] for sample in iter_samples(corpus, selection)}
    assert {name: re.findall(r"int n = (\d+)", text) for name, text in sizes.items()} == {
        "": ["64"], "128": ["128"], "4096": ["4096"],
    }  # fmt: skip


def label(backend: str, version: str, flags: str, arguments: str = "") -> CorpusItem:
    one = kernel()
    where = TARGETS[0]
    row = {"name": one.name, "dispatches": 1, "grid": one.grid, "block": one.block, "counters": one.counters}
    row |= {"metrics": one.metrics, "duration_ns": one.duration_ns}
    facts = {"compiler": "", "headers": "", "status": "ok", "kernels": [row]}
    facts |= {
        "arch": where.arch,
        "flags": flags,
        "device": where.device,
        "backend": backend,
        "backend_version": version,
    }
    facts |= {"program_id": PROGRAMS[0].id, "arguments": arguments}
    return CorpusItem(lineage="one", origin="synthetic", family="stream", **facts)


def test_an_empty_export_is_an_error_and_writes_nothing(corpus: Path, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no labels") as empty:
        export_chat(Corpus.open(corpus), tmp_path / "s.jsonl", device="mi210")
    assert "on mi250" in empty.value.remedy, "what there is to ask for"
    with pytest.raises(UsageError, match="unknown device"):
        export_chat(Corpus.open(corpus), tmp_path / "s.jsonl", device="h100")
    with pytest.raises(BadInput, match="cannot be written"):
        export_chat(Corpus.open(corpus), corpus / "manifest.json" / "s.jsonl")
    assert list(tmp_path.iterdir()) == []


def run(*arguments: str) -> Any:
    return CliRunner().invoke(cli, list(arguments), prog_name="synth", standalone_mode=False)


def test_export_verb(corpus: Path, tmp_path: Path) -> None:
    done = run("export", str(corpus), "--format", "chat-jsonl", "--out", str(tmp_path / "s.jsonl"), "--json")
    assert json.loads(done.stdout)["samples"] == 10 and json.loads(done.stdout)["digits"] == "sig3"
    done = run("export", str(corpus), "--out", str(tmp_path / "s.jsonl"))
    assert "10 samples" in done.stdout and "largest total time" in done.stdout


def test_stats_verb(corpus: Path) -> None:
    found = json.loads(run("stats", str(corpus), "--json").stdout)
    assert found["programs"] == {
        "total": 4,
        "by_origin": {"synthetic": 4},
        "by_language": {"hip": 4},
        "by_family": {"stream": 4},
        "lineages": 3,
    }
    assert (found["measurements"]["total"], found["measurements"]["kernels"]) == (11, 13)
    assert found["measurements"]["by_arch"] == {"gfx90a": 8, "gfx942": 3}
    assert found["failures"] == {"total": 1, "by_reason": {"timeout": 1}}
    rate = found["metrics"]["L2_Cache_Hit_Rate"]
    assert rate["unknown"] == 1 and 33 < rate["p0"] <= rate["p50"] <= rate["p100"] < 35
    text = run("stats", str(corpus)).stdout
    assert "4 programs of 3 lineages" in text and "timeout" in text and "L2_Cache_Hit_Rate" in text


def test_stats_count_bottlenecks() -> None:
    limits = [{"bottleneck": "hbm"}, {"bottleneck": "valu"}, {"bottleneck": "hbm"}, None]
    rows = pa.table({"arch": ["gfx90a", "gfx90a", "gfx90a", "gfx942"], "limits": limits})
    assert count_bottlenecks(rows) == {"gfx90a": {"hbm": 2, "valu": 1}}, "measured kernels have no bottleneck"


def test_stats_counts_equal_labels(tmp_path: Path) -> None:
    folder = tmp_path / "captures"
    for one in PROGRAMS[:3]:
        capture_result(folder, one.id, result(TARGETS[0]))
    collect_matrix(PROGRAMS[:3], TARGETS[:1], tmp_path / "c", MatrixOptions(f"recorded:{folder}"))
    found = json.loads(run("stats", str(tmp_path / "c"), "--json").stdout)
    assert found["duplicates"] == {"same_lineage": 1, "other_lineage": 1}


def test_a_corpus_without_manifest_is_described_with_a_note(tmp_path: Path) -> None:
    folder = captures(tmp_path / "captures", PROGRAMS, TARGETS[:1])
    out = tmp_path / "c"
    collect_matrix(PROGRAMS, TARGETS[:1], out, MatrixOptions(f"recorded:{folder}"))
    (out / "manifest.json").unlink()
    shards = {path: path.read_bytes() for path in out.rglob("*.parquet")}
    done = run("stats", str(out), "--json")
    assert json.loads(done.stdout)["programs"]["total"] == 4
    assert "manifest.json is missing; it was rebuilt from the shards" in done.stderr
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "p.hip").write_text(PROGRAMS[0].text)
    command = ("profile", str(tmp_path / "one"), "--out", str(out), "--backend", f"recorded:{folder}")
    done = run(*command, "--arch", TARGETS[0].arch, f"--flags={TARGETS[0].flags}")
    assert "rebuilt from the shards" in done.stderr
    assert {path: path.read_bytes() for path in out.rglob("*.parquet")} == shards
    assert run("stats", str(out)).stderr == ""


def test_a_damaged_corpus_is_an_error_with_exit_code_3(corpus: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(corpus, tmp_path / "c"))
    shard = next((copy / "failures").iterdir())
    shard.write_bytes(shard.read_bytes()[:-9])
    done = run("stats", str(copy))
    assert isinstance(done.exception, BadInput) and done.exception.exit_code == 3
    assert shard.name in str(done.exception)
    found = json.loads(run("stats", str(copy), "--skip-damaged", "--json").stdout)
    assert found["failures"]["total"] == 0 and found["measurements"]["total"] == 11


def test_labels_whose_programs_are_in_a_damaged_shard_are_left_out(corpus: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(corpus, tmp_path / "c"))
    (shard,) = (copy / "programs").iterdir()
    shard.write_bytes(shard.read_bytes()[:-9])
    done = run("export", str(copy), "--out", str(tmp_path / "s.jsonl"), "--skip-damaged")
    assert isinstance(done.exception, BadInput) and "no program of its labels can be read" in str(done.exception)
    damaged = Corpus.open(copy, skip_damaged=True)
    intact = Corpus.open(corpus).programs().slice(0, 2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(damaged, "programs", lambda: intact)
        summary = export_chat(damaged, tmp_path / "s.jsonl")
    ids = intact["id"].to_pylist()
    assert summary.samples > 0 and {line["program_id"] for line in lines(tmp_path / "s.jsonl")} == set(ids)
    assert summary.left_out["its program is in a damaged shard"] == 10 - summary.samples


def test_labels_without_a_source_are_counted_apart(tmp_path: Path) -> None:
    kept, bare = PROGRAMS[0], PROGRAMS[1]
    for folder, programs in ((tmp_path / "some", (kept, bare)), (tmp_path / "none", (bare,))):
        with CorpusWriter(folder, metrics.all_ids()) as writer:
            for program in programs:
                writer.add_program(program.record(), program.text if program is kept else "")
                writer.add(replace(label("sim", "1", "-O3"), program_id=program.id))
    summary = export_chat(Corpus.open(tmp_path / "some"), tmp_path / "some.jsonl")
    assert summary.samples == len(lines(tmp_path / "some.jsonl")) == 1
    assert summary.left_out == {"the source was not kept": 1}
    for export in (export_chat, export_questions):
        with pytest.raises(BadInput, match="were not kept"):
            export(Corpus.open(tmp_path / "none"), tmp_path / "none.jsonl")
    assert not (tmp_path / "none.jsonl").exists()
