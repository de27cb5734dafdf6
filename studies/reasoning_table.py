"""Lets models optimize held-out kernels with tools, beside the search and policies without a model.

    python -m studies.reasoning_table [--trained FOLDER] [--reinforced FOLDER] [--untrained BASE] [--arch A ...]
        [--traces FOLDER] [--group G ...] [--kernels N] [--tools-only] [--as-is] [--page]

All work on the naive versions of handwritten problems, and with --traces on programs of held-out lineages with
something to gain; none is in training. Models have the tools, or write the kernels again in one answer; policies choose
among the proposed moves, two of them with as many calls as the trained model made, or without one the best preview.
What any of them ends with is verified like an answer of the search. Results are kept in out/reasoning.jsonl, and a
second call goes on; --page writes the tables of docs/reference/reasoning.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.core.documents import document_json
from hipsynth.core.errors import HipsynthError
from hipsynth.core.json_lines import append_json_line, read_documents
from hipsynth.profiling.backends.protocol import Target
from hipsynth.training.models.base import load_base, load_trained
from hipsynth.training.models.model_record import model_record
from hipsynth.training.models.trainer import computes_bf16
from hipsynth.tuning.agent.choose_answer import choose_answer
from hipsynth.tuning.optimize.move_values import LEAST_SPEEDUP, ValuedProgram, read_jobs
from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult, optimize_program
from hipsynth.tuning.reason.grpo import run_model
from hipsynth.tuning.reason.kernel_rewrite import replace_kernels
from hipsynth.tuning.reason.local_model import LocalModel
from hipsynth.tuning.reason.move_policies import LearnedMoves, PreviewedMoves, RandomMoves
from hipsynth.tuning.tools import ToolLimits, ToolSession, run_tool
from hipsynth.tuning.trial import target_of
from studies.markdown import format_table, write_tables
from studies.optimize_table import list_naive_steps
from studies.reasoning_traces import render_training_set
from studies.result_origin import UNKNOWN, ResultOrigin, describe_origins, record_origin

PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "reasoning.md"
TABLES = "studies.reasoning_table"
ANSWERS_PATH, JOURNAL = Path("out/reasoning.jsonl"), Path("out/reasoning-runs")
BUDGET_S, CALLS, WHOLE, RUN_S = 60.0, 16, 700, 30.0
ARCHS = ("gfx942", "gfx90a")
ONE_SHOT = "Write the kernels again so that they run faster and do the same. Answer with one ```cpp block."
HARMLESS = ("", "not faster")  # why a program that was made is not the answer
SEARCH, PREVIEWS, ORDER, RANDOM = "search", "best preview first", "learned order", "random moves"
TRAINED = "trained, tools"
GROUPS = {"handwritten": "Naive handwritten kernels", "lineages": "Generated programs of held-out lineages"}
HEAD = [
    "", "improved", "geometric mean", "% of the search's log-gain", "executions", "calls", "answers correct",
    "ended by itself",
]  # fmt: skip
LEAST_QUESTIONS = 30  # of a group that is shown
LEAST_SPEEDUP_TO_ASK = 1.05  # speed-up of a held-out program's path from which it has something to gain


@dataclass(frozen=True)
class ReasoningAnswer:
    """What one contender did with a program: the verified speed-up (1 for none), programs executed with the original,
    calls of tools, and whether a program that it made fails, or is faster and wrong."""

    speedup: float
    executions: int
    calls: int
    ended: str
    wrong: bool = False
    origin: ResultOrigin = UNKNOWN


@dataclass(frozen=True)
class KeptAnswer:
    """A line of the file of results: `row` is the contender, `model` what answered."""

    row: str
    model: str
    program: str
    arch: str
    answer: ReasoningAnswer


@dataclass
class OptimizeQuestion:
    """A program on a target, and what any contender has measured of it. `calls`: that find_leader() made."""

    group: str
    name: str
    text: str
    target: Target
    calls: int = CALLS
    session: ToolSession = field(init=False)

    def __post_init__(self) -> None:
        self.session = ToolSession(self.target, ToolLimits(run_s=RUN_S), JOURNAL)


AnswerFunction = Callable[[OptimizeQuestion], ReasoningAnswer]


def run_search(question: OptimizeQuestion) -> ReasoningAnswer:
    """The search, with its budget of work."""
    try:
        result = optimize_program(OptimizeRequest(question.text, question.target, BUDGET_S, journal=JOURNAL))
    except HipsynthError as error:
        return ReasoningAnswer(1.0, 1, 0, error.reason)
    return ReasoningAnswer(round(result.speedup, 4), len(result.steps) + 1, 0, "finished")


def run_with_tools(model: LocalModel, question: OptimizeQuestion, calls: int = CALLS) -> ReasoningAnswer:
    """A model or policy with the tools."""
    if calls < 1:
        return ReasoningAnswer(1.0, 1, 0, "calls")
    model.clear()
    driven, ended = run_model(model, question.text, question.target, calls=calls, known=question.session)
    if driven is None:
        return ReasoningAnswer(1.0, 1, 0, ended)
    wrong = has_wrong_step(driven.found)
    return ReasoningAnswer(round(driven.found.speedup, 4), driven.programs, driven.calls, ended, wrong)


def has_wrong_step(result: OptimizeResult) -> bool:
    """Whether a program that was made fails, or is faster and wrong."""
    return any(step.reason not in HARMLESS and not step.kept for step in result.steps)


def rewrite_once(model: LocalModel, question: OptimizeQuestion) -> ReasoningAnswer:
    """One answer of a model with the kernels, which is compiled and verified."""
    model.clear()
    model.most = WHOLE
    session = question.session.start_again()
    session.add(question.text, made="source")
    try:
        prompt = f"{ONE_SHOT}\n\n```cpp\n{question.text.rstrip()}\n```"
        kernels = replace_kernels(question.text, model.ask({"messages": [{"role": "user", "content": prompt}]}).raw)
        if kernels == question.text:
            return ReasoningAnswer(1.0, 1, 0, "no changed kernel")
        if run_tool(session, "compile", {"source": kernels, "replaces": "v0"}).failed:
            return ReasoningAnswer(1.0, 2, 0, "does not compile", wrong=True)
        result = choose_answer(session, {}, lambda line: None)
        return ReasoningAnswer(round(result.speedup, 4), 2, 0, "finished", has_wrong_step(result))
    except HipsynthError as error:
        return ReasoningAnswer(1.0, 1, 0, error.reason)
    finally:
        model.most = LocalModel.most


def load_local(folder: str) -> LocalModel:
    """A trained model's folder, or a base by name; in bfloat16 where the hardware calculates so."""
    record = model_record(Path(folder))
    model, tokenizer = load_base(folder) if record is None else load_trained(Path(folder), record)
    context = 4096 if record is None else int(record["context"]) + 1024
    return LocalModel(model.bfloat16() if computes_bf16() else model, tokenizer, context)


def list_contenders(options: argparse.Namespace) -> dict[str, tuple[str, AnswerFunction]]:
    """Each row of the tables with what answers and how; models are loaded at their first question."""
    loaded: dict[str, LocalModel] = {}

    def load_once(folder: str) -> LocalModel:
        if folder not in loaded:
            loaded[folder] = load_local(folder)
        return loaded[folder]

    rows: dict[str, tuple[str, AnswerFunction]] = {
        SEARCH: ("", run_search),
        PREVIEWS: ("", lambda question: run_with_tools(PreviewedMoves(), question)),
    }
    for name in ("trained", "reinforced", "untrained"):
        if folder := str(getattr(options, name)):
            record = model_record(Path(folder))
            model = f"{Path(folder).name} {record['fingerprint'][:12]} {record['steps']}" if record else folder
            rows[f"{name}, tools"] = model, lambda question, f=folder: run_with_tools(load_once(f), question)  # type: ignore[misc]
            if name != "reinforced" and not options.tools_only:
                rows[f"{name}, no tools"] = model, lambda question, f=folder: rewrite_once(load_once(f), question)  # type: ignore[misc]
    model = f"as {rows[find_leader(rows)][0]}"
    rows[ORDER] = model, lambda question: run_with_tools(LearnedMoves(), question, question.calls)
    rows[RANDOM] = model, lambda question: run_with_tools(RandomMoves(), question, question.calls)
    return rows


def find_leader(rows: Collection[str]) -> str:
    """The contender whose calls are those of the policies that read no preview."""
    return TRAINED if TRAINED in rows else PREVIEWS


def compute_path_gain(valued: ValuedProgram) -> float:
    """The speed-up along a program's recorded path."""
    gain = 1.0
    for state in valued.states:
        if state.next_move is not None:
            gain *= state.duration_ns / state.next_move.duration_ns
    return gain


def list_questions(options: argparse.Namespace) -> Iterator[OptimizeQuestion]:
    """The programs on each architecture. Those of lineages come with the architecture of their recorded path."""
    groups = options.group or tuple(GROUPS)
    for arch in options.arch or ARCHS:
        for _, path in list(list_naive_steps())[: options.kernels if "handwritten" in groups else 0]:
            yield OptimizeQuestion("handwritten", path.stem, path.read_text(), target_of(arch))
        if options.traces is not None and "lineages" in groups:
            paths = (row for row in read_jobs(options.traces / "moves.jsonl") if row.states)
            heldout = [row for row in paths if row.states[0].split in ("validation", "test", "unseen_families")]
            worth = [
                row for row in heldout if row.states[0].arch == arch and compute_path_gain(row) >= LEAST_SPEEDUP_TO_ASK
            ]
            for row in worth[: options.kernels]:
                yield OptimizeQuestion("lineages", row.states[0].program, row.text, target_of(arch))


def read_kept_answers() -> dict[tuple[str, str, str, str], ReasoningAnswer]:
    """The kept answers by contender, model, program and architecture."""
    rows = read_documents(ANSWERS_PATH, KeptAnswer, "delete the line: its question is asked again", missing_ok=True)
    return {(row.row, row.model, row.program, row.arch): row.answer for row in rows}


def keep_answer(row: KeptAnswer) -> None:
    """Adds a line to the file of results."""
    append_json_line(ANSWERS_PATH, document_json(row))
    print(row.row, row.program, row.arch, row.answer, flush=True)


def answer_questions(
    options: argparse.Namespace, rows: Mapping[str, tuple[str, AnswerFunction]]
) -> dict[tuple[str, str], dict[str, ReasoningAnswer]]:
    """Each program's answers by contender; what is kept of the same text is not asked again, and with --as-is nothing
    is asked."""
    past_answers, answers = read_kept_answers(), dict[tuple[str, str], dict[str, ReasoningAnswer]]()
    for question in list_questions(options):
        place = answers.setdefault((question.group, f"{question.name} {question.target.arch}"), {})
        for name, (model, run) in rows.items():
            key = name, model, question.name, question.target.arch
            if key in past_answers and not past_answers[key].origin.is_of(question.text):
                del past_answers[key]
            if key not in past_answers and not options.as_is:
                past_answers[key] = replace(run(question), origin=record_origin(question.text))
                keep_answer(KeptAnswer(*key, past_answers[key]))
            if key in past_answers:
                place[name] = past_answers[key]
                question.calls = past_answers[key].calls if name == find_leader(rows) else question.calls
    return answers


def format_contender(name: str, answers: Sequence[ReasoningAnswer], search: Sequence[ReasoningAnswer]) -> list[str]:
    """A contender's row; `search` has the search's answers to the same questions."""
    number = len(answers)
    logs = [math.log(max(1.0, answer.speedup)) for answer in answers]
    of_search = sum(math.log(max(1.0, answer.speedup)) for answer in search)
    return [
        name,
        f"{sum(answer.speedup >= LEAST_SPEEDUP for answer in answers)} of {number}",
        f"{math.exp(sum(logs) / number):.3f}",
        f"{100 * sum(logs) / of_search:.0f}" if of_search else "",
        f"{sum(answer.executions for answer in answers) / number:.1f}",
        f"{sum(answer.calls for answer in answers) / number:.1f}",
        f"{sum(not answer.wrong for answer in answers)} of {number}",
        f"{sum(answer.ended == 'finished' for answer in answers)} of {number}",
    ]


def make_tables(
    answers: Mapping[tuple[str, str], Mapping[str, ReasoningAnswer]], rows: Sequence[str]
) -> dict[str, str]:
    """The dated table of each group of whose programs enough have been worked on by every contender."""
    tables = {}
    for group, title in GROUPS.items():
        in_group = [by_row for (of, _), by_row in answers.items() if of == group]
        complete = [by_row for by_row in in_group if all(name in by_row for name in rows)]
        if len(complete) < LEAST_QUESTIONS:
            continue
        search = [by_row[SEARCH] for by_row in complete]
        lines = [format_contender(name, [by_row[name] for by_row in complete], search) for name in rows]
        dates = describe_origins(by_row[name].origin for by_row in complete for name in rows)
        head = f"{dates}. **{title}**, {len(complete)} kernels and architectures:"
        tables[group] = f"\n{head}\n\n{format_table(HEAD, lines)}"
    return tables


def parse_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trained", default="", help="model of `synth train TRACES --config tools-smollm2`")
    parser.add_argument("--reinforced", default="", help="that model after `--config tools-grpo`")
    parser.add_argument("--untrained", default="", help="the base that it was before, smollm2 for example")
    parser.add_argument("--kernels", type=int, default=40, help="of each kind and architecture, at most")
    parser.add_argument("--arch", action="append", choices=ARCHS, help="may be repeated; default: both")
    parser.add_argument("--traces", type=Path, help="folder of `synth traces`, for its held-out programs")
    parser.add_argument("--group", action="append", choices=tuple(GROUPS), help="may be repeated; default: all")
    parser.add_argument("--tools-only", action="store_true", help="no row of models without tools")
    parser.add_argument("--as-is", action="store_true", help="ask nothing more: tables of what is kept")
    parser.add_argument("--page", action="store_true", help="write the tables into the page")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str] | None = None) -> None:
    options = parse_options(arguments)
    rows = list_contenders(options)
    tables = make_tables(answer_questions(options, rows), list(rows))
    print(*tables.values(), sep="\n")
    if options.traces is not None and options.trained and (record := model_record(Path(options.trained))) is not None:
        print(render_training_set(options.traces, Path(options.trained), record))
    for group, text in tables.items() if options.page else ():
        write_tables(PAGE, text, f"{TABLES} --group {group}")


if __name__ == "__main__":
    main()
