"""Questions about bottlenecks: answers come from the label, words from data, and nothing is asked twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import training_corpus as made

from hipsynth.core.errors import BadInput
from hipsynth.core.store import Corpus, CorpusItem, CorpusWriter
from hipsynth.profiling.metrics.bottleneck import UNITS
from hipsynth.training.data.dataset import LabelledSample
from hipsynth.training.data.questions import (
    answerable_questions,
    export_questions,
    find_placeholders,
    label_facts,
    load_texts,
)
from hipsynth.training.data.work_facts import COUNTERS, STRIDES

ROW: dict[str, Any] = {
    **dict.fromkeys(COUNTERS, 64.0),
    **made.metrics("fma", "float", 2, 65536, "gfx942", "-O3"),
    "measurement_id": "abc",
    "kernel": "axpy<float>",
    "grid": [1, 1, 1],
    "block": [64, 1, 1],
    "arch": "gfx942",
    "flags": "-O3",
    "device": "mi300x",
    "duration_ns": 2000.0,
    "occupancy": 0.5,
    "bottleneck": "hbm",
    "limits": {"bottleneck": "hbm", "bounds": {"hbm": 1500.0, "valu": 500.0, "lds": 0.0}},
    "occupancy_of": {"fraction": 0.5, "waves_per_cu": 16.0, "limited_by": "vgprs"},
}


def test_answers_follow_from_limits_and_counters() -> None:
    answers = {
        name: messages[-1]["content"] for name, messages in answerable_questions(ROW, "__global__ void axpy() {}")
    }
    assert set(answers) == set(load_texts()["questions"])
    assert answers["bottleneck"] == "HBM bandwidth. Alone it would need 1.5 us of the 2 us, 75 %."
    assert answers["next"] == "vector ALU, at 25 % of the duration; the first limit is HBM bandwidth, at 75 %."
    assert answers["occupancy"] == "16 waves per CU, an occupancy of 50 %, limited by vgprs."
    assert answers["work"].startswith("1 FLOPs and 3 bytes per work-item")


def test_what_a_label_does_not_know_is_not_asked() -> None:
    measured = {**ROW, "limits": None, "occupancy_of": None, "EXACT_FLOPS": None}
    assert [name for name, _ in answerable_questions(measured, "x")] == ["caches"]
    assert "second" not in label_facts({**ROW, "limits": {"bottleneck": "hbm", "bounds": {"hbm": 1.0}}})


def test_the_wording_depends_on_the_label_alone() -> None:
    assert list(answerable_questions(ROW, "x")) == list(answerable_questions(ROW, "x"))
    words = {next(answerable_questions({**ROW, "measurement_id": str(i)}, "x"))[1][1]["content"] for i in range(30)}
    assert len(words) == len(load_texts()["questions"]["bottleneck"]["ask"])


def test_the_table_is_complete() -> None:
    assert set(load_texts()["units"]) == set(UNITS)
    assert set(load_texts()["strides"]) == {name for name, _ in STRIDES}
    known = set(label_facts(ROW)) | {"source"}
    for name, entry in load_texts()["questions"].items():
        assert find_placeholders(entry["answer"]) <= known, name
        assert all(find_placeholders(ask) == {"kernel"} for ask in entry["ask"]), name
        assert len(set(entry["ask"])) == len(entry["ask"]) >= 2, name


def corpus(root: Path, chosen: list[LabelledSample], counted: bool) -> Corpus:
    with CorpusWriter(root, tuple(made.metrics("fma", "float", 1, 1, "gfx942", ""))) as writer:
        for one in chosen:
            record = {"id": one.program_id, "origin": one.origin, "family": one.family, "lineage": one.lineage}
            writer.add_program({**record, "name": ""}, one.text)
            kernel: dict[str, Any] = {"name": "k", "dispatches": 1, "grid": [1, 1, 1], "block": [64, 1, 1]}
            kernel |= {"counters": dict.fromkeys(COUNTERS, 64.0), "metrics": dict(one.metrics), "duration_ns": 2000.0}
            if counted:
                bounds = {"bottleneck": "hbm", "wave_cycles": 1.0, "bounds": {"hbm": 1500.0, "valu": 500.0}}
                kernel |= {"limits": bounds}
            facts = {
                name: getattr(one, name) for name in ("program_id", "lineage", "origin", "family", "arch", "flags")
            }
            tools = {"backend": "sim", "backend_version": "1", "compiler": "c", "headers": "h", "status": "ok"}
            writer.add(CorpusItem(**facts, **tools, arguments="", device=one.device, kernels=[kernel]))
    return Corpus.open(root)


def test_renamed_copies_are_asked_once(tmp_path: Path) -> None:
    base, copy = made.sample(1, 0, "gfx942", "-O3"), made.sample(1, 1, "gfx942", "-O3")
    other = made.sample(2, 0, "gfx942", "-O3")
    summary = export_questions(corpus(tmp_path / "c", [base, copy, other], True), tmp_path / "q.jsonl")
    lines = [json.loads(line) for line in (tmp_path / "q.jsonl").read_text().splitlines()]
    assert summary.samples == len(lines) > 8
    assert summary.duplicates == len(lines) / 2
    assert len({line["id"] for line in lines}) == len(lines)
    assert all(line["split"]["lineage"] in ("train", "validation", "test") for line in lines)


def test_a_corpus_without_limits_and_counters_is_refused(tmp_path: Path) -> None:
    bare = replace(made.sample(1, 0, "gfx942", "-O3"), metrics={})
    with pytest.raises(BadInput):
        export_questions(corpus(tmp_path / "c", [bare], False), tmp_path / "q.jsonl")
    assert not (tmp_path / "q.jsonl").exists()
