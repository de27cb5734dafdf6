"""Reasons of failures are members of one enumeration: no code writes or compares one as a text."""

from __future__ import annotations

import ast
import json
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hipsynth.core.documents import to_json
from hipsynth.core.errors import UsageError
from hipsynth.core.reasons import Reason
from tools.code_figures import ROOMS

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"[a-z][a-z0-9_]*")


def texts(node: ast.AST) -> Iterator[ast.Constant]:
    """The texts that an expression may be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node
    elif isinstance(node, ast.Tuple | ast.List | ast.Set):
        for part in node.elts:
            yield from texts(part)
    elif isinstance(node, ast.IfExp):
        yield from texts(node.body)
        yield from texts(node.orelse)


def is_reason(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr in ("reason", "reason_code")


def literal_reasons(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and text of each reason that is given or compared as a text."""
    found: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.keyword) and node.arg in ("reason", "reason_code"):
            found.append(node.value)
        elif isinstance(node, ast.Compare) and is_reason(node.left):
            found += node.comparators
        elif isinstance(node, ast.Dict):
            keys = [key.value if isinstance(key, ast.Constant) else "" for key in node.keys]
            found += [value for key, value in zip(keys, node.values, strict=True) if key in ("reason", "reason_code")]
        elif isinstance(node, ast.ClassDef):
            named = [one for one in node.body if isinstance(one, ast.Assign)]
            found += [one.value for one in named if any(ast.unparse(target) == "reason" for target in one.targets)]
    for value in found:
        for text in texts(value):
            if CODE.fullmatch(str(text.value)):
                yield text.lineno, str(text.value)


def test_no_reason_is_written_as_a_text() -> None:
    wrong = []
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            source = path.read_text()
            if "reason" in source:
                found = literal_reasons(ast.parse(source))
                wrong += [f"{path.relative_to(ROOT)}:{line}: {text}" for line, text in found]
    assert not wrong, wrong


@pytest.mark.parametrize(
    "code", ['f(reason="trap")', '{"reason": "trap"}', 'error.reason in ("a", "trap")', 'class A:\n  reason = "trap"']
)
def test_a_text_is_found(code: str) -> None:
    assert [text for _, text in literal_reasons(ast.parse(code))][-1] == "trap"


def test_reasons_are_texts_where_they_are_stored() -> None:
    assert json.dumps(to_json({"reason": Reason.TRAP})) == json.dumps({"reason": Reason.TRAP}) == '{"reason": "trap"}'
    assert pickle.loads(pickle.dumps(Reason.TRAP)) is Reason.TRAP and f"{Reason.TRAP:>5}" == " trap"
    assert UsageError("no").reason == "usage" and Reason.of("trap") is Reason.TRAP and not Reason.NONE
    assert all(reason.meaning and CODE.fullmatch(reason) for reason in Reason if reason)
