"""Documents: what of a dataclass is in its JSON form, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import pytest

from hipsynth.core.documents import document_json, from_json, to_json


class Colour(StrEnum):
    RED = "red"


@dataclass(frozen=True)
class Inner:
    class_: str
    ends: tuple[float, float] | None


@dataclass(frozen=True)
class RefusedDocument:
    reason: str


@dataclass(frozen=True, kw_only=True)
class Outer:
    inner: Inner
    rows: tuple[Inner | RefusedDocument, ...] = ()
    values: Mapping[str, float | None] = field(default_factory=dict)
    word: str | None = None


FULL = Outer(
    inner=Inner("a", (1, 2.5)), rows=(Inner("b", None), RefusedDocument("no")), values={"x": None, "y": 1.0}, word="w"
)


def test_members_are_in_the_order_of_the_fields_and_absent_ones_are_left_out() -> None:
    assert json.dumps(to_json(FULL)) == (
        '{"inner": {"class": "a", "ends": [1, 2.5]}, "rows": [{"class": "b", "ends": null}, {"reason": "no"}],'
        ' "values": {"x": null, "y": 1.0}, "word": "w"}'
    )
    assert list(document_json(Outer(inner=Inner("a", None)))) == ["inner", "rows", "values"]


def test_documents_survive_json() -> None:
    for whole in (FULL, Outer(inner=Inner("a", (0.0, math.inf)))):
        assert from_json(Outer, json.loads(json.dumps(to_json(whole)))) == whole


def test_enumerations_are_texts_and_other_objects_are_refused() -> None:
    assert json.dumps(to_json({"colour": Colour.RED})) == '{"colour": "red"}'
    with pytest.raises(TypeError, match="set is no part of a document"):
        to_json((1, {2}))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": [{"class": 1, "ends": None}]}, "unknown fields: class, ends"),
        ({"rows": [{}]}, "^lacks the key reason$"),
        ({"inner": {}}, "^lacks the keys class, ends$"),
        ({"rows": "text"}, "is no list"),
        ({"values": {"x": "1"}}, "'1' is no float"),
        ({"inner": None}, "is no list"),
        ({"inner": {"ends": None}}, "^lacks the key class$"),
    ],
)
def test_what_does_not_fit_is_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        from_json(Outer, document_json(FULL) | changed)


@dataclass(frozen=True)
class PathDocument:
    path: Path
    others: tuple[Path, ...] = ()


def test_paths_are_texts_in_json() -> None:
    folder = PathDocument(Path("/a/b"), (Path("c"),))
    assert to_json(folder) == {"path": "/a/b", "others": ["c"]} and from_json(PathDocument, to_json(folder)) == folder
    with pytest.raises(TypeError, match="5 is no str"):
        from_json(PathDocument, {"path": 5})
