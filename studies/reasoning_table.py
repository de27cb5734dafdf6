"""Writes out/reasoning.md: models that optimize held-out kernels with tools, beside the search.

    python -m studies.reasoning_table --trained FOLDER [--reinforced FOLDER] [--untrained BASE] [--kernels N] [--arch A]
        [--traces FOLDER] [--as-is]

Each row works on the naive versions of handwritten problems, and with --traces on programs of held-out lineages; none
is in training. Models have the tools, or write the kernels again in one answer. The control takes proposed moves at
random, with as many calls as the trained model made. What a model ends with is verified like an answer of the search.
Results are kept in out/reasoning.jsonl; a second call goes on.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from hipsynth.core.errors import HipsynthError
from hipsynth.core.files import write_whole
from hipsynth.profiling.backends.protocol import Target
from hipsynth.training.models.base import load_base, load_trained
from hipsynth.training.models.model_record import model_record
from hipsynth.training.models.trainer import computes_bf16
from hipsynth.tuning.agent.choose_answer import choose_answer
from hipsynth.tuning.optimize.optimize import OptimizeRequest, OptimizeResult, optimize_program
from hipsynth.tuning.reason.grpo import run_model
from hipsynth.tuning.reason.kernel_rewrite import replace_kernels
from hipsynth.tuning.reason.local_model import LocalModel
from hipsynth.tuning.reason.random_baseline import RandomMoves
from hipsynth.tuning.reason.sft import read_chats, source_of
from hipsynth.tuning.tools import ToolSession, run_tool
from hipsynth.tuning.trial import target_of
from studies.optimize_table import naive
from studies.reasoning_traces import training_set

PAGE = Path("out/reasoning.md")
KEPT = Path("out/reasoning.jsonl")
BUDGET_S, CALLS, WHOLE = 30.0, 12, 700
ONE_SHOT = "Write the kernels again so that they run faster and do the same. Answer with one ```cpp block."
HARMLESS = ("", "not faster")  # why a program that a model made is not the answer
HEAD = """# Models that optimize with tools

Written by `python -m studies.reasoning_table` on {date}, for {arch}. A kernel counts as improved if the answer is at
least 1 % faster and passes every [check](../docs/explanation/honest-gains.md); the geometric mean counts others as 1.
"Handed in": kernels for which at least one changed program was made; "correct": of those, without one that does not
compile, fails, or is faster but fails a check. Times are the simulator's. A search has a budget of {budget:g} s, a
model {calls} calls or one answer of {whole} tokens with the kernels written again. "Random moves" is the control: it
applies proposed moves drawn with equal chances, and makes as many calls for each kernel as the trained model did; a
model that is no better than it has not learned to choose. A second control has all {calls} calls. How models are
trained: [train a model to use the tools](../docs/how-to/train-with-tools.md).
"""
COLUMNS = """
| | improved | geometric mean | handed in | correct | calls a kernel | ended by itself |
|---|---:|---:|---:|---:|---:|---:|
"""
GROUPS = {
    "handwritten": "## Naive handwritten kernels",
    "lineages": "## Generated programs of held-out lineages\n\nThe search improves each, because it was chosen so.",
}
TRAINED, CONTROL, ALL_CALLS = "trained, tools", "random moves", f"random moves, {CALLS} calls"
Row = dict[str, Any]
Rows = list[Row]


def searched(text: str, target: Target) -> Row:
    return row_of(optimize_program(OptimizeRequest(text, target, BUDGET_S)), "finished", 0)


def row_of(found: OptimizeResult, ended: str, calls: int, wrong: bool = False) -> Row:
    has_worked = found.status == "improved" or (bool(found.steps) and calls > 0) or wrong
    bad = wrong or (calls > 0 and any(step.reason not in HARMLESS and not step.kept for step in found.steps))
    return {"speedup": round(found.speedup, 4), "calls": calls, "ended": ended, "made": has_worked, "wrong": bad}


def nothing(ended: str, made: bool = False) -> Row:
    return {"speedup": 1.0, "calls": 0, "ended": ended, "made": made, "wrong": made}


def with_tools(model: LocalModel, text: str, target: Target) -> Row:
    model.clear()
    driven, outcome = run_model(model, text, target, calls=CALLS)
    return row_of(driven.found, driven.ended, driven.calls) if driven else nothing(outcome)


def by_chance(calls: Mapping[str, int] | int, text: str, target: Target) -> Row:
    """Random moves with that many calls, or as many as `calls` names for the program."""
    if not (most := calls if isinstance(calls, int) else calls.get(text, 0)):
        return nothing("calls")
    driven, outcome = run_model(RandomMoves(), text, target, calls=most)
    return row_of(driven.found, driven.ended, driven.calls) if driven else nothing(outcome)


def without_tools(model: LocalModel, text: str, target: Target) -> Row:
    """One answer with the kernels, which is compiled and verified."""
    model.clear()
    model.most = WHOLE
    session = ToolSession(target)
    session.add(text, made="source")
    try:
        question = f"{ONE_SHOT}\n\n```cpp\n{text.rstrip()}\n```"
        kernels = replace_kernels(text, model.ask({"messages": [{"role": "user", "content": question}]}).raw)
        if kernels == text:
            return nothing("no changed kernel")
        if run_tool(session, "compile", {"source": kernels, "replaces": "v0"}).failed:
            return nothing("does not compile", made=True)
        answer = choose_answer(session, {}, lambda line: None)
        wrong = any(step.reason not in HARMLESS for step in answer.steps if not step.kept)
        return row_of(answer, "finished", 0, wrong) | {"made": True}
    except HipsynthError as error:
        return nothing(error.reason)
    finally:
        model.most = LocalModel.most


def local(folder: str) -> LocalModel:
    """A trained model's folder, or a base by name; in bfloat16 where the hardware calculates so."""
    record = model_record(Path(folder))
    model, tokenizer = load_base(folder) if record is None else load_trained(Path(folder), record)
    context = 4096 if record is None else int(record["context"]) + 1024
    return LocalModel(model.bfloat16() if computes_bf16() else model, tokenizer, context)


def rows_of(given: argparse.Namespace, calls: Mapping[str, int]) -> dict[str, tuple[str, Callable[[str, Target], Row]]]:
    """The rows of the table, each with its model and how it answers; models are loaded at their first question.

    `calls`: that the trained model made for a program's text, known when the control's turn comes."""
    makers: dict[str, tuple[str, Callable[[str, Target], Row]]] = {"search": ("", searched)}
    loaded: dict[str, LocalModel] = {}

    def of(folder: str) -> LocalModel:
        if folder not in loaded:
            loaded.clear()  # one model in memory at a time
            loaded[folder] = local(folder)
        return loaded[folder]

    for name in ("reinforced", "trained", "untrained"):
        if folder := getattr(given, name):
            record = model_record(Path(folder))
            model = f"{folder} {record['fingerprint'][:12]} {record['steps']}" if record else folder
            makers[f"{name}, tools"] = model, partial(asking, with_tools, of, folder)
            if name != "reinforced":
                makers[f"{name}, no tools"] = model, partial(asking, without_tools, of, folder)
    makers[CONTROL] = f"as {makers[TRAINED][0]}", partial(by_chance, calls)
    makers[ALL_CALLS] = "", partial(by_chance, CALLS)
    return makers


def asking(
    way: Callable[[LocalModel, str, Target], Row],
    of: Callable[[str], LocalModel],
    folder: str,
    text: str,
    target: Target,
) -> Row:
    return way(of(folder), text, target)


def table(results: Mapping[str, Rows]) -> str:
    lines = []
    for name, rows in results.items():
        n = len(rows)
        gains = [max(1.0, row["speedup"]) for row in rows]
        improved = sum(gain >= 1.01 for gain in gains)
        mean = math.exp(sum(map(math.log, gains)) / n)
        made_count = sum(row["made"] for row in rows)
        correct = sum(row["made"] and not row["wrong"] for row in rows)
        finished = sum(row["ended"] == "finished" for row in rows)
        calls = "" if not any(row["calls"] for row in rows) else f"{sum(row['calls'] for row in rows) / n:.1f}"
        counts = f"{made_count} of {n} | {correct} of {made_count} | {calls} | {finished} of {n}"
        lines.append(f"| {name} | {improved} of {n} | {mean:.3f} | {counts} |")
    return COLUMNS + "\n".join(lines) + "\n"


def programs_of(given: argparse.Namespace) -> Iterator[tuple[str, str, str]]:
    """(group, name, text) of each program."""
    every = [*naive()]
    for _, path in every[:: max(1, len(every) // given.kernels)][: given.kernels]:  # spread over the problems
        yield "handwritten", path.stem, path.read_text()
    if given.traces is not None:
        chats = [chat for chat in read_chats(given.traces)["held_out"] if chat["arch"] == given.arch]
        texts = {chat["program"]: source_of(chat) for chat in chats}
        for name in sorted(texts)[: given.kernels]:
            yield "lineages", name, texts[name]


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trained", required=True, help="model of `synth train TRACES --config tools-smollm2`")
    parser.add_argument("--reinforced", default="", help="that model after `--config tools-grpo`")
    parser.add_argument("--untrained", default="smollm2", help="the base that it was before")
    parser.add_argument("--kernels", type=int, default=10, help="of each kind, at most")
    parser.add_argument("--arch", default="gfx942")
    parser.add_argument("--traces", type=Path, help="folder of `synth traces`, for its held-out programs")
    parser.add_argument("--as-is", action="store_true", help="ask nothing more: a page of what is kept")
    return parser.parse_args(arguments)


def answers(given: argparse.Namespace, programs: Sequence[tuple[str, str, str]]) -> dict[tuple[str, str], Row]:
    """Each row's answer for each program; what is kept is not asked again, and with --as-is nothing is asked."""
    target, answers_by_key, rows_by_pair = target_of(given.arch), {}, {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else ():
        row = json.loads(line)
        answers_by_key[row["row"], row["model"], row["program"], row["arch"]] = row
    calls: dict[str, int] = {}
    for name, (model, answer) in rows_of(given, calls).items():
        for _, program, text in programs:
            key = name, model, program, given.arch
            if key not in answers_by_key and not given.as_is:
                about = dict(zip(("row", "model", "program", "arch"), key, strict=True))
                answers_by_key[key] = about | answer(text, target)
                KEPT.parent.mkdir(parents=True, exist_ok=True)
                with KEPT.open("a") as file:
                    file.write(json.dumps(answers_by_key[key]) + "\n")
                print(name, program, answers_by_key[key], flush=True)
            if key in answers_by_key:
                rows_by_pair[name, program] = answers_by_key[key]
                if name == TRAINED:
                    calls[text] = answers_by_key[key]["calls"]
    return rows_by_pair


def groups(found: Mapping[tuple[str, str], Row], programs: Sequence[tuple[str, str, str]]) -> list[str]:
    """A table for each group. Rows have the same kernels: those that each row with any answer has."""
    parts = []
    for group in GROUPS:
        chosen = [program for group_name, program, _ in programs if group_name == group]
        rows = {name: None for name, program in found if program in chosen}
        complete = [program for program in chosen if all((name, program) in found for name in rows)]
        if complete and rows:
            results = {name: [found[name, program] for program in complete] for name in rows}
            note = f"\nKernels: {', '.join(f'`{program}`' for program in complete)}.\n"
            if left := len(chosen) - len(complete):
                note += (
                    f"Of the {len(chosen)} that were chosen, {left} are left out: not every row has been run on them.\n"
                )
            parts.append(f"\n{GROUPS[group]}\n{note}{table(results)}")
    return parts


def main(arguments: Sequence[str] | None = None) -> None:
    options = parsed(arguments)
    programs = list(programs_of(options))
    parts = groups(answers(options, programs), programs)
    if options.traces is not None and (record := model_record(Path(options.trained))) is not None:
        parts.append(training_set(options.traces, Path(options.trained), record))
    date = datetime.now(UTC).date()
    head = HEAD.format(date=date, arch=options.arch, budget=BUDGET_S, calls=CALLS, whole=WHOLE)
    write_whole(PAGE, head + "".join(parts))
    print("".join(parts))


if __name__ == "__main__":
    main()
