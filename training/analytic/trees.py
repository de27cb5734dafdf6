"""Fitted gradient boosting, asked without LightGBM, which only fits it; and the files that models of it are kept in."""

from __future__ import annotations

import functools
import gzip
import io
import json
import re
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput
from hipsynth.core.files import read_regular, replace_atomically

DEFAULT_LEFT = "2"  # LightGBM's decision_type of a numerical split of a column without missing values
ROWS_AT_ONCE = 512
MOST_BYTES = 40 << 20  # of a model's file
MOST_TEXT_BYTES = 160 << 20  # of the text in it, which is about three times as long
Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]
Number = TypeVar("Number", np.int64, np.float64)
M = TypeVar("M")


@dataclass(frozen=True)
class _Nodes:
    """The nodes of all trees in one numbering. A leaf leads to itself: all trees take the same number of steps."""

    columns: int
    roots: Numbers  # of each tree
    column: Numbers
    threshold: Floats
    left: Numbers
    right: Numbers
    value: Floats  # of a leaf
    depth: int


class Trees:
    """A model in LightGBM's text form; it is parsed when it is first asked."""

    def __init__(self, text: str) -> None:
        self.text = text

    @functools.cached_property
    def _nodes(self) -> _Nodes:
        return _parse_model(self.text)

    def predict(self, table: Floats) -> Floats:
        """One value per row, in every bit what LightGBM answers.

        Raises ValueError for a damaged model or another number of columns.
        """
        rows = np.nan_to_num(np.asarray(table, dtype=np.float64), nan=0.0, posinf=np.inf, neginf=-np.inf)
        nodes = self._nodes
        if rows.ndim != 2 or rows.shape[1] != nodes.columns:
            raise ValueError(f"the model asks for {nodes.columns} columns; the table's shape is {rows.shape}")
        parts = [_sum_leaves(nodes, rows[at : at + ROWS_AT_ONCE]) for at in range(0, len(rows), ROWS_AT_ONCE)]
        return np.concatenate(parts) if parts else np.empty(0)


def save_model(path: Path, version: int, members: Mapping[str, object]) -> None:
    """Writes a model's members as compressed JSON, with equal bytes for equal members."""
    document = {"version": version, **members}
    with replace_atomically(path) as fresh:
        fresh.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))


def load_model(path: Path, version: int, build: Callable[[dict[str, Any]], M]) -> M:
    """Builds a model of what save_model() wrote. Raises BadInput for a file that is damaged or of another version."""
    try:
        document = json.loads(_decompress_text(read_regular(path, MOST_BYTES)))
        if document["version"] != version:
            raise ValueError(f"version {document['version']}, this program reads {version}")
        return build(document)
    except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{path}: not a usable model", cause=str(error), remedy="train it again") from error


def _decompress_text(data: bytes) -> bytes:
    """The text that gzip packed. Raises ValueError if it is longer than MOST_TEXT_BYTES: a few bytes can hold GiB."""
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        text = file.read(MOST_TEXT_BYTES + 1)
    if len(text) > MOST_TEXT_BYTES:
        raise ValueError(f"its text is longer than {MOST_TEXT_BYTES >> 20} MiB")
    return text


def _sum_leaves(nodes: _Nodes, rows: Floats) -> Floats:
    place = np.broadcast_to(nodes.roots, (len(rows), len(nodes.roots)))
    number = np.arange(len(rows))[:, np.newaxis]
    for _ in range(nodes.depth):
        goes_left = rows[number, nodes.column[place]] <= nodes.threshold[place]
        place = np.where(goes_left, nodes.left[place], nodes.right[place])
    return np.cumsum(nodes.value[place], axis=1)[:, -1]  # tree after tree: another order rounds otherwise


def _parse_model(text: str) -> _Nodes:
    """Splits before leaves; LightGBM numbers both within a tree, and writes leaf n as -1 - n."""
    body, end, _ = text.partition("\nend of trees")
    head, *trees = body.split("\nTree=")
    most = re.search(r"^max_feature_idx=(\d+)$", head, re.MULTILINE)
    if not text.startswith("tree\n") or most is None or not trees or not end:
        raise ValueError("this is no model of LightGBM")
    sizes = _read_numbers(body, "num_leaves", np.int64, len(trees))
    splits, leaves = int(np.sum(sizes - 1)), int(np.sum(sizes))
    kinds = {*_text_of(body, "decision_type").split(), *_text_of(body, "is_linear").split()}
    if kinds - {DEFAULT_LEFT, "0"} or sizes.min() < 1:
        raise ValueError("the model has splits of a kind that is not fitted here")
    column = _read_numbers(body, "split_feature", np.int64, splits)
    first_split, first_leaf = np.cumsum(sizes - 1) - (sizes - 1), splits + np.cumsum(sizes) - sizes
    own_first_split, own_first_leaf = np.repeat(first_split, sizes - 1), np.repeat(first_leaf, sizes - 1)
    to_itself = np.arange(splits, splits + leaves)
    children = []
    for name in ("left_child", "right_child"):
        child = _read_numbers(body, name, np.int64, splits)
        if (np.where(child < 0, -1 - child, child + 1) >= np.repeat(sizes, sizes - 1)).any():
            raise ValueError(f"the model is damaged: a {name} is not there")
        inner = np.where(child < 0, own_first_leaf - 1 - child, own_first_split + child)
        children.append(np.concatenate([inner, to_itself]))
    columns = int(most.group(1)) + 1
    if column.max(initial=0) >= columns or column.min(initial=0) < 0:
        raise ValueError("the model is damaged: a split asks for a column that is not there")
    roots = np.where(sizes > 1, first_split, first_leaf)
    return _Nodes(
        columns=columns,
        roots=roots,
        column=np.concatenate([column, np.zeros(leaves, dtype=np.int64)]),
        threshold=np.concatenate([_read_numbers(body, "threshold", np.float64, splits), np.zeros(leaves)]),
        left=children[0],
        right=children[1],
        value=np.concatenate([np.zeros(splits), _read_numbers(body, "leaf_value", np.float64, leaves)]),
        depth=_depth_of(roots, children, splits),
    )


def _text_of(body: str, name: str) -> str:
    return " ".join(re.findall(rf"\n{name}=(.*)", body))


def _read_numbers(body: str, name: str, kind: type[Number], count: int) -> npt.NDArray[Number]:
    """A field's numbers, of all trees."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # of text that is no number
            numbers = np.fromstring(_text_of(body, name), dtype=kind, sep=" ")
    except (ValueError, DeprecationWarning) as error:
        raise ValueError(f"the model is damaged: {name}: {error}") from None
    if len(numbers) != count:
        raise ValueError(f"the model is damaged: {len(numbers)} of {count} numbers of {name}")
    return numbers


def _depth_of(roots: Numbers, children: Sequence[Numbers], splits: int) -> int:
    """The most splits on a way. Raises ValueError if ways meet: then they may lead in a circle."""
    depth, level = 0, roots[roots < splits]
    while len(level):
        depth += 1
        level = np.concatenate([child[level] for child in children])
        level = level[level < splits]
        if len(level) > splits or depth > splits:
            raise ValueError("the model is damaged: splits lead in a circle")
    return depth
