"""Programs in two languages: HIP files, and Python scripts with Triton kernels."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from corpus_samples import fill, item
from triton_samples import DOUBLE

from hipsynth.core.errors import BadInput
from hipsynth.core.languages import language_of
from hipsynth.core.program import INDEX, Program, iter_programs, write_programs
from hipsynth.core.reasons import Reason
from hipsynth.core.store import Corpus
from hipsynth.core.store.shards import column_mismatch

SCRIPT = Program(DOUBLE, "handwritten", "copy", "double")
HIP_TEXT = "__global__ void k() {}\n"


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (DOUBLE, "triton"),
        ("from triton import jit\n@jit\ndef f(): pass\n", "triton"),
        ("import triton\nprint(triton.__version__)\n", "hip"),
        ("from numba.cuda import jit\n@jit\ndef f(): pass\n", "hip"),
        (f"// import triton, @triton.jit\n{HIP_TEXT}", "hip"),
    ],
)
def test_a_script_with_kernels_is_triton(text: str, language: str) -> None:
    assert language_of(text) == language


def test_a_folder_has_scripts_beside_hip_files_where_they_are_wanted(tmp_path: Path) -> None:
    (tmp_path / "a.hip").write_text(HIP_TEXT)
    (tmp_path / "helper.py").write_text("import triton\n")
    (tmp_path / "latin.py").write_bytes(b"# \xff\n" + DOUBLE.encode())
    for folder in ("kernels", ".hidden", "lib/site-packages"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "double.py").write_text(DOUBLE)
    assert [program.name for program in iter_programs(tmp_path)] == ["a"]
    both = list(iter_programs(tmp_path, scripts=True))
    assert [(program.name, program.family, program.language) for program in both] == [
        ("a", tmp_path.name, "hip"),
        ("double", "kernels", "triton"),
    ]


def test_a_listed_script_is_read_back_and_refused_where_only_hip_is_wanted(tmp_path: Path) -> None:
    write_programs(tmp_path, [SCRIPT])
    assert (tmp_path / f"{SCRIPT.id}.py").read_text() == DOUBLE
    assert list(iter_programs(tmp_path, scripts=True)) == [Program(**{**vars(SCRIPT), "lineage": SCRIPT.id})]
    refused: list[BadInput] = []
    assert not list(iter_programs(tmp_path, refused.append))
    assert [error.reason for error in refused] == [Reason.UNSUPPORTED]


def test_the_record_of_a_hip_program_does_not_name_its_language() -> None:
    assert "language" not in Program(HIP_TEXT, "handwritten", "copy").record()


def test_an_unknown_language_is_an_unreadable_record(tmp_path: Path) -> None:
    write_programs(tmp_path, [SCRIPT])
    (tmp_path / INDEX).write_text(json.dumps({**SCRIPT.record(), "language": "../x"}) + "\n")
    with pytest.raises(BadInput) as error:
        list(iter_programs(tmp_path, scripts=True))
    assert error.value.reason == Reason.BAD_RECORD


def test_programs_of_earlier_corpora_are_hip(tmp_path: Path) -> None:
    fill(tmp_path, [item(0)], programs=2)
    corpus = Corpus.open(tmp_path)
    assert set(corpus.programs()["language"].to_pylist()) == {"hip"}
    [shard] = corpus.manifest.shards["programs"]
    older = pq.read_schema(tmp_path / shard.path)
    older = older.remove(older.get_field_index("language"))
    assert column_mismatch("programs", older) == ""
    assert "column text" in column_mismatch("programs", older.remove(older.get_field_index("text")))
