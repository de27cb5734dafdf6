"""Tables of TOML files as dataclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from hipsynth.core.errors import BadInput
from hipsynth.core.tables import read_table


@dataclass(frozen=True)
class Part:
    name: str
    rows: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Whole:
    part: tuple[Part, ...]
    rates: Mapping[str, float]
    note: str = ""


def read(tmp_path: Path, text: str) -> Whole:
    path = tmp_path / "table.toml"
    path.write_text(text)
    return read_table(path, Whole)


def test_a_table_becomes_its_dataclass(tmp_path: Path) -> None:
    text = 'rates = { read = 1 }\n[[part]]\nname = "one"\nrows = [["a", 1.5], ["b", 2]]\n'
    assert read(tmp_path, text) == Whole((Part("one", (("a", 1.5), ("b", 2))),), {"read": 1})


@pytest.mark.parametrize(
    "text",
    [
        "part = []",  # a key is missing
        "part = []\nrates = {}\nnotes = 1",  # unknown key
        "part = []\nrates = { read = 'fast' }",
        'rates = {}\n[[part]]\nname = "one"\nrows = [["a"]]\n',
        "part = 1\nrates = {}",
        "part = [",
    ],
)
def test_a_wrong_table_is_bad_input_that_names_the_file(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadInput, match=r"table\.toml"):
        read(tmp_path, text)
