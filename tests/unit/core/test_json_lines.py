"""Files of JSON lines: what is read of cut and damaged ones, and what an append leaves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.core.json_lines import append_json_line, read_documents, write_json_lines


@dataclass(frozen=True)
class NumberedStep:
    number: int


def read(path: Path) -> list[int]:
    return [step.number for step in read_documents(path, NumberedStep, "delete the line")]


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("", []),
        ('{"number": 1}\n{"number": 2}\n', [1, 2]),
        ('\n{"number": 1}\n \n{"number": 2}', [1, 2]),
        ('{"number": 1}\n{"number": 2', [1]),
        ('{"num', []),
    ],
)
def test_a_cut_last_line_is_left_out_and_replaced(tmp_path: Path, text: str, numbers: list[int]) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(text)
    assert read(path) == numbers
    append_json_line(path, {"number": 3})
    append_json_line(path, {"number": 4})
    assert read(path) == [*numbers, 3, 4]


@pytest.mark.parametrize("line", ['{"number": 1', '{"number": "1"}', "[1]", '{"count": 1}', "{" * 100_000 + "}", "\0"])
def test_damage_before_the_end_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "steps.jsonl"
    path.write_text(f'{{"number": 0}}\n{line}\n{{"number": 2}}\n')
    with pytest.raises(BadInput, match=r"steps.jsonl: line 2 is no NumberedStep") as caught:
        read(path)
    assert caught.value.remedy == "delete the line"


def test_text_of_another_kind_is_neither_read_nor_cut(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("one line without its end")
    with pytest.raises(BadInput, match="line 1 is no NumberedStep"):
        read(path)
    append_json_line(path, {"number": 1})
    assert path.read_text() == 'one line without its end\n{"number": 1}\n'


def test_a_missing_file_has_no_lines_if_that_is_allowed(tmp_path: Path) -> None:
    assert list(read_documents(tmp_path / "none.jsonl", NumberedStep, "", missing_ok=True)) == []
    with pytest.raises(BadInput, match="no such file"):
        read(tmp_path / "none.jsonl")


def test_rows_are_written_in_the_form_that_is_asked_for(tmp_path: Path) -> None:
    path, rows = tmp_path / "made" / "rows.jsonl", [{"b": "é", "a": 1}]
    append_json_line(path, rows[0])
    assert path.read_text() == '{"b": "\\u00e9", "a": 1}\n'
    write_json_lines(path, rows, sort_keys=True, ensure_ascii=False)
    assert path.read_text() == '{"a": 1, "b": "é"}\n'
