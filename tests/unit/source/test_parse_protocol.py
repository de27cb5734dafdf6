"""Requests to the parser's process and its answers: decoded as they were sent, or refused."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from hipsynth.core.documents import document_json, from_json
from hipsynth.core.reasons import Reason
from hipsynth.source.entities import Entity
from hipsynth.source.functions import FunctionNode
from hipsynth.source.parse import Diagnostic, ParseConfig, UnparsableProgram
from hipsynth.source.parse_protocol import MOST_TEXT_CHARS, ParseAnswer, answer_with_problem
from hipsynth.synth.frontend.comments_and_strings import Texts
from hipsynth.synth.frontend.copy_protocol import (
    CopiedText,
    CopyAnswer,
    CopyRequest,
    FlattenTask,
    ReformTask,
    RenameTask,
)
from hipsynth.synth.frontend.pass_input import BuildConfiguration, CompileSettings

LONG = "x" * (MOST_TEXT_CHARS + 1)
CONFIG = ParseConfig(("-x", "hip"), Path("/cache"), (Path("/own"),))
SETTINGS = CompileSettings(("N=4",), (), (Path("/include"),), (Path("/first.h"),), "c++20")
TASKS = [
    FlattenTask((BuildConfiguration((Path("/a/b.hip"),), (SETTINGS,)),), Path("/a")),
    ReformTask(CopiedText("int a;", ("flatten",)), ("reform:7,0.2",)),
    RenameTask(CopiedText("int a;"), (1, 2), 7, Texts("rewrite", "keep")),
]


@pytest.mark.parametrize("task", TASKS)
def test_a_request_is_read_as_it_was_sent(task: FlattenTask | ReformTask | RenameTask) -> None:
    request = CopyRequest(CONFIG, "a/b.hip", task)
    assert from_json(CopyRequest, json.loads(json.dumps(document_json(request)))) == request


def test_an_unknown_task_is_refused() -> None:
    request = document_json(CopyRequest(CONFIG, "a", TASKS[2]))
    with pytest.raises(ValueError, match="unknown fields: do"):
        from_json(CopyRequest, {**request, "task": {"do": "delete"}})


@pytest.mark.parametrize(
    "answer",
    [
        ParseAnswer(entities=(Entity("n", ("", 4), "variable"),), tokens=((2, 0, 3),), referents=((0,),)),
        ParseAnswer(definitions=(FunctionNode("f", 5, (9, 11), True, "_Z1fv", ("T",), ((7, 8, "x"),)),)),
        answer_with_problem(Diagnostic(Reason.MISSING_INCLUDE, "not there", 1, 10, "gone.h")),
    ],
)
def test_an_answer_is_read_as_it_was_sent(answer: ParseAnswer) -> None:
    assert from_json(ParseAnswer, json.loads(json.dumps(document_json(answer)))) == answer


@pytest.mark.parametrize(
    "members",
    [
        {"problem": {"reason": "syntax_error", "message": LONG}},
        {"problem": {"reason": "anything", "message": ""}},
        {"entities": [{"name": LONG, "place": ["", 1], "category": "variable"}]},
        {"tokens": [[2, 0, "3"]]},
        {"tokens": [[2, 0]]},
    ],
)
def test_an_answer_that_no_parser_gives_is_refused(members: object) -> None:
    with pytest.raises((ValueError, TypeError)):
        from_json(ParseAnswer, members)


@pytest.mark.parametrize(
    "members",
    [
        {"programs": [{"text": ""}], "failures": []},
        {"programs": [{"text": "int a;", "derivation": [LONG]}], "failures": []},
        {"programs": [], "failures": [], "kept": {"a": LONG}},
        {"programs": [], "failures": [{"name": "a", "copy": 1, "reason": LONG, "message": ""}]},
    ],
)
def test_copies_that_no_parser_gives_are_refused(members: object) -> None:
    with pytest.raises(ValueError, match="too long"):
        from_json(CopyAnswer, members)


def test_a_long_message_is_cut_so_that_it_is_read() -> None:
    answer = answer_with_problem(Diagnostic(Reason.SYNTAX_ERROR, LONG))
    assert answer.problem is not None and len(answer.problem.message) == MOST_TEXT_CHARS


def test_what_a_parser_found_survives_the_way_between_processes() -> None:
    problem = Diagnostic(Reason.MISSING_INCLUDE, "'gone.h' file not found", 1, 10, "gone.h")
    error = pickle.loads(pickle.dumps(UnparsableProgram("the program cannot be parsed", problem=problem)))
    assert error.problem == problem and "1:10: 'gone.h'" in str(error) and error.reason == Reason.SYNTAX_ERROR
