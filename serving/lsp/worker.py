"""The process behind source.Worker: reads one query per line and writes one answer per line."""

from __future__ import annotations

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

from hipsynth.serving.lsp.source import Query
from hipsynth.synth.core.errors import HipsynthError


def main() -> None:
    # What libraries print must not get between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        asked = json.loads(line)
        answers.write(json.dumps(answer(asked["verb"], Query(**asked["query"]))) + "\n")
        answers.flush()


def answer(verb: str, query: Query) -> dict[str, Any]:
    """{"document"} or {"error", "message"}."""
    try:
        return {"document": {"predict": predict, "profile": profile}[verb](query)}
    except HipsynthError as error:
        said = getattr(error, "diagnostics", "")
        return {"error": error.reason, "message": "\n".join(filter(None, [str(error), said]))}
    except Exception as error:  # a defect must not end the worker
        return {"error": "internal_error", "message": f"{type(error).__name__}: {error}"}


@functools.cache
def _predictor() -> Any:
    from hipsynth.training.analytic.predict import AnalyticPredictor

    return AnalyticPredictor.load()


def predict(query: Query) -> dict[str, Any]:
    """As `synth predict --json`; nothing of the program runs natively."""
    found: dict[str, Any] = _predictor().predict(query.source, query.arch, query.flags, query.device or None).document()
    return found


def profile(query: Query) -> dict[str, Any]:
    """As `synth profile --lines --json`, in the sandbox."""
    from hipsynth.profiling import sandbox
    from hipsynth.profiling.backends.protocol import Target
    from hipsynth.profiling.devices import device_of
    from hipsynth.profiling.matrix.job import profile_program
    from hipsynth.profiling.reports.documents import result_document
    from hipsynth.profiling.sim.limits import Limits
    from hipsynth.synth.core.program import Program, Project, SourceFile

    sandbox.require()
    path = Path(query.path)
    project = Project((SourceFile(path),), path.parent) if query.path else None
    program = Program(query.source, "handwritten", "", name=query.name, project=project)
    target = Target(query.arch, query.flags, device_of(query.arch, query.device or None).name)
    [result] = profile_program(program, [target], "sim", Limits(time_s=query.seconds, lines=True))
    return result_document(result)


if __name__ == "__main__":
    main()
