"""Writes docs/reference/reasoning.md: models that optimize held-out kernels with tools, beside the search.

    python -m tools.reasoning_table --trained FOLDER [--practised FOLDER] [--untrained BASE] [--kernels N] [--arch A]

Each row works on the naive versions of handwritten problems, none of which is in training: with the tools, or without
(one answer with the whole changed program). What a model ends with is verified like an answer of the search. Results
are kept in out/reasoning.jsonl; a second call goes on.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from hipsynth.profiling.backends.protocol import Target
from hipsynth.synth.core.errors import HipsynthError
from hipsynth.synth.core.files import write_whole
from hipsynth.training.models.base import load_base, load_trained
from hipsynth.training.models.train import model_record
from hipsynth.tuning.agent.conclude import conclude
from hipsynth.tuning.optimize.optimize import Request, optimize
from hipsynth.tuning.reason.local import LocalModel
from hipsynth.tuning.reason.practise import worked
from hipsynth.tuning.tools import Workshop, call
from hipsynth.tuning.trial import target_of
from tools.optimize_table import naive

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "reasoning.md"
KEPT = Path("out/reasoning.jsonl")
BUDGET_S, CALLS, WHOLE = 30.0, 12, 1200
ONE_SHOT = (
    "Write the whole program again so that its kernels run faster and it does the same. Answer with one ```cpp block."
)
BLOCK = re.compile(r"```(?:cpp|c\+\+|hip)?\n(.*?)(?:```|$)", re.DOTALL)
HEAD = """# Models that optimize with tools

Written by `python -m tools.reasoning_table` on {date}: {kernels} naive handwritten kernels on {arch}, none of them in
training. A kernel counts as improved if the answer is at least 1 % faster and passes every
[check](../explanation/honest-gains.md); the geometric mean counts the others as 1. "Correct": answers that were not
slower by their own account and failed no check. Times are the simulator's. How the models were trained:
[train a model to use the tools](../how-to/train-with-tools.md).

| | improved | geometric mean | correct | calls a kernel | ended by themselves |
|---|---:|---:|---:|---:|---:|
"""
Row = dict[str, Any]


def searched(text: str, target: Target) -> Row:
    found = optimize(Request(text, target, BUDGET_S))
    return {"speedup": found.speedup, "calls": 0, "ended": "finished", "wrong": 0}


def with_tools(model: LocalModel, text: str, target: Target) -> Row:
    model.clear()
    driven, ended = worked(model, text, target, calls=CALLS)
    if driven is None:
        return {"speedup": 1.0, "calls": 0, "ended": ended, "wrong": 0}
    wrong = sum("equal" in step.reason or "fails" in step.reason for step in driven.found.steps)
    return {"speedup": driven.found.speedup, "calls": driven.calls, "ended": driven.ended, "wrong": wrong}


def without_tools(model: LocalModel, text: str, target: Target) -> Row:
    """One answer with a whole program, compiled and verified."""
    model.clear()
    model.most = WHOLE
    ended = "finished"
    shop = Workshop(target)
    shop.add(text, made="source")
    try:
        asked = f"{ONE_SHOT}\n\n```cpp\n{text.rstrip()}\n```"
        answer = model.ask({"messages": [{"role": "user", "content": asked}]})
        block = BLOCK.search(answer.raw)
        made = call(shop, "compile", {"source": block[1], "replaces": "v0"}) if block else None
        ended = "no program" if made is None else "does not compile" if made.failed else "finished"
        speedup = conclude(shop, {}, lambda line: None).speedup
    except HipsynthError as error:
        ended, speedup = error.reason, 1.0
    finally:
        model.most = LocalModel.most
    return {"speedup": speedup, "calls": 0, "ended": ended, "wrong": int(ended != "finished")}


def local(folder: str) -> LocalModel:
    """A trained model's folder, or a base by name."""
    record = model_record(Path(folder))
    if record is None:
        return LocalModel(*load_base(folder), context=4096)
    return LocalModel(*load_trained(Path(folder), record), context=int(record["context"]) + 1024)


def rows_of(given: argparse.Namespace) -> dict[str, Callable[[str, Target], Row]]:
    """The rows of the table, each with how it answers; models are loaded at their first question."""
    found: dict[str, Callable[[str, Target], Row]] = {"search": searched}
    loaded: dict[str, LocalModel] = {}

    def of(folder: str) -> LocalModel:
        if folder not in loaded:
            loaded.clear()
            loaded[folder] = local(folder)
        return loaded[folder]

    for name in ("practised", "trained", "untrained"):
        if folder := getattr(given, name):
            found[f"{name}, tools"] = partial(asking, with_tools, of, folder)
            if name != "practised":
                found[f"{name}, no tools"] = partial(asking, without_tools, of, folder)
    return found


def asking(
    way: Callable[[LocalModel, str, Target], Row],
    of: Callable[[str], LocalModel],
    folder: str,
    text: str,
    target: Target,
) -> Row:
    return way(of(folder), text, target)


def table(results: Mapping[str, Sequence[Row]]) -> str:
    lines = []
    for name, rows in results.items():
        n = len(rows)
        gains = [max(1.0, row["speedup"]) for row in rows]
        improved = sum(gain >= 1.01 for gain in gains)
        mean = math.exp(sum(map(math.log, gains)) / n)
        correct = sum(not row["wrong"] for row in rows)
        ended = sum(row["ended"] == "finished" for row in rows)
        calls = sum(row["calls"] for row in rows) / n
        lines.append(f"| {name} | {improved} of {n} | {mean:.2f} | {correct} of {n} | {calls:.1f} | {ended} of {n} |")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trained", required=True, help="model of `synth train TRACES --config tools-smollm2`")
    parser.add_argument("--practised", default="", help="that model after `--config tools-grpo`")
    parser.add_argument("--untrained", default="smollm2", help="the base that it was before")
    parser.add_argument("--kernels", type=int, default=10)
    parser.add_argument("--arch", default="gfx942")
    given = parser.parse_args(arguments)
    chosen = [path for _, path in naive()][: given.kernels]
    target, kept = target_of(given.arch), {}
    for line in KEPT.read_text().splitlines() if KEPT.exists() else ():
        row = json.loads(line)
        kept[row["row"], row["program"], row["arch"]] = row
    results: dict[str, list[Row]] = {}
    for name, answer in rows_of(given).items():
        for path in chosen:
            key = name, path.stem, given.arch
            if key not in kept:
                found = answer(path.read_text(), target)
                kept[key] = {"row": name, "program": path.stem, "arch": given.arch} | found
                KEPT.parent.mkdir(parents=True, exist_ok=True)
                with KEPT.open("a") as file:
                    file.write(json.dumps(kept[key]) + "\n")
                print(name, path.stem, found, flush=True)
            results.setdefault(name, []).append(kept[key])
    head = HEAD.format(date=datetime.now(UTC).date(), kernels=len(chosen), arch=given.arch)
    write_whole(PAGE, head + table(results))
    print(table(results))


if __name__ == "__main__":
    main()
