"""The tools of a program that nobody has labelled: it is compiled, previewed and executed when a model asks for it."""

from __future__ import annotations

import functools
import time
from collections import defaultdict
from pathlib import Path

from hipsynth.core.errors import BadInput, HipsynthError, MissingDependency
from hipsynth.core.kernel_record import KernelRecord
from hipsynth.core.program import Program
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix.job import profile_program
from hipsynth.profiling.metrics import roofline
from hipsynth.profiling.preview.programs import device_code, preview_program
from hipsynth.simulator.limits import RunLimits
from hipsynth.source.arguments import run_text
from hipsynth.source.names import short_name
from hipsynth.source.outline import kernel_names
from hipsynth.training.analytic.examples import preview_features
from hipsynth.training.analytic.preview_journal import PreviewFeatures
from hipsynth.training.data.dataset import LabelFacts, LabelledSample
from hipsynth.training.models.predict import Prediction, one_thread, physical_values
from hipsynth.tuning.prediction.agent import PredictionAgent, ToolPrediction
from hipsynth.tuning.prediction.chat import Question
from hipsynth.tuning.prediction.preview_error import PreviewErrorModel
from hipsynth.tuning.prediction.tools import DURATION, NS_PER_MS, ToolReply, normalise_tool_values, reply_of


class LiveTools:
    """The tools of one program on one target, for the kernel that takes longest. Host code runs in the sandbox."""

    def __init__(self, program: Program, target: Target, preview_error: PreviewErrorModel | None = None) -> None:
        self.program, self.target, self.preview_error = program, target, preview_error
        self.executed: KernelRecord | None = None
        self.problem = ""  # why the last call that failed did

    def call(self, name: str) -> ToolReply:
        """As PredictionTools.call(): what cannot be compiled, previewed or executed is a reply with its reason. Raises
        MissingDependency."""
        try:
            if name == "execute":
                return self._execute()
            preview = self.preview
            if preview is None:
                return ToolReply({"error": Reason.NO_PREVIEW})
            return reply_of(name, preview, self.target.arch, self._expected_share(preview))
        except MissingDependency:
            raise
        except HipsynthError as error:
            self.problem = error.what
            return ToolReply({"error": str(error.reason)})

    def _expected_share(self, preview: PreviewFeatures) -> float | None:
        return self.preview_error.expect_shares([preview.features])[0] if self.preview_error else None

    @functools.cached_property
    def preview(self) -> PreviewFeatures | None:
        """The preview of the kernel that takes longest; None if no launch has one. Raises CompileFailed, BadInput."""
        text = run_text(self.program.text, "")
        code = device_code(text, self.target.arch, self.target.flags)
        previews = preview_program(text, code, self.target.device, project=self.program.project).previews
        if not previews:
            return None
        times: defaultdict[str, float] = defaultdict(float)
        for preview in previews:
            times[preview.instance] += preview.duration_ns * preview.launch.times
        instance = max(times, key=times.__getitem__)
        longest = max((p for p in previews if p.instance == instance), key=lambda preview: preview.duration_ns)
        alike = sum(preview.launch.times for preview in previews if preview.instance == longest.instance)
        sample = self._as_sample(text, short_name(longest.instance), alike)
        return preview_features(previews, longest, sample)

    def _as_sample(self, text: str, kernel: str, dispatches: int) -> LabelledSample:
        """The kernel as a sample without a label."""
        program, target = self.program, self.target
        identity = (program.id, program.lineage, program.family, program.origin, text)
        facts = LabelFacts(dispatches=dispatches)
        return LabelledSample(*identity, target.arch, target.flags, target.device, kernel, {}, facts=facts)

    def _execute(self) -> ToolReply:
        result = profile_program(self.program, [self.target], "sim", RunLimits())[0]
        if result.status != RunStatus.OK or not result.kernels:
            self.problem = result.message
            return ToolReply({"error": str(result.reason or result.status)})
        self.executed = max(result.kernels, key=lambda kernel: kernel.duration_ns * kernel.dispatches)
        return ToolReply({}, normalise_tool_values(self.executed.metrics, self.executed.duration_ns))


def predict_program(agent: PredictionAgent, path: Path, program: Program, target: Target) -> Prediction:
    """The answer of the model in the folder `path` for the kernel of a program that takes longest. Raises BadInput for
    a source without a kernel, or one whose lines do not fit the model."""
    names = kernel_names(program.text)
    if not names:
        raise BadInput("no kernel in the file", cause="no __global__ function", reason=Reason.NO_KERNEL)
    start = time.monotonic()
    with one_thread():
        question = Question(program.text, target.arch, target.flags)
        tools = LiveTools(program, target, agent.preview_error)
        answer = agent.answer([(question, tools)])[0]
    values = physical_values(answer.values)
    return Prediction(
        arch=target.arch,
        flags=target.flags,
        device=target.device,
        metrics={metric: value for metric, value in values.items() if value is not None},
        position=roofline.locate_kernel(values, target.device),
        cut_lines=answer.cut_lines,
        prompt_tokens=answer.prompt_tokens,
        seconds=time.monotonic() - start,
        model=str(path),
        notes=(describe_answer(answer),),
        kernel=" or ".join(names),
        duration_ns=answer.values[DURATION] * NS_PER_MS,
        doubt="" if answer.measured else f"no tool measured the program: {tools.problem or 'none was called'}",
        doubt_code=Reason.NONE if answer.measured else Reason.NOT_MEASURED,
    )


def describe_answer(answer: ToolPrediction) -> str:
    """How the model came to an answer, and how sure it is."""
    calls = ", ".join(answer.calls) or "no tool"
    if not answer.measured:
        return f"the model called {calls}, which measured nothing: its values are a guess"
    return (
        f"the model called {calls} ({answer.price_s:.2g} s at the tools' prices) and expects "
        f"{answer.sure:.0%} of its values within 10 %"
    )
