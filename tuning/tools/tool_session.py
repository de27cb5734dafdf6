"""The state that tools work on: programs by short names, their results, and limits on a caller's resources.

Callers name programs, never files: nothing outside the session can be read or written through a tool.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from hipsynth.core.errors import HipsynthError
from hipsynth.core.reasons import Reason
from hipsynth.profiling.backends.protocol import Target
from hipsynth.tuning.optimize.analysis.analysis_faults import TEXT_ERRORS, AnalysisFaults
from hipsynth.tuning.optimize.analysis.program_model import ParsedProgram, read_program
from hipsynth.tuning.optimize.candidates import SearchState, make_candidates
from hipsynth.tuning.optimize.evaluate import CandidateMeasurement, Evaluator
from hipsynth.tuning.optimize.optimize import duration_predictor
from hipsynth.tuning.optimize.source_changes import MOST_CHANGES, list_source_changes
from hipsynth.tuning.optimize.transformation_plan import Move, Plans, TransformationPlan
from hipsynth.tuning.optimize.verification.check_sizes import Arguments, candidate_arguments
from hipsynth.tuning.optimize.verification.verify import Verification, Verifier
from hipsynth.tuning.optimize.verification.verify_change import PATIENT_S, prepare_verifier


class ToolRefusal(HipsynthError):
    """A call of a tool that cannot be answered: the reason and what to do instead go back to the caller."""

    reason = Reason.REFUSED


@dataclass(frozen=True)
class ToolLimits:
    """What callers may use in all. `seconds`: of tools at work; `run_s`: processor time of one measured run.

    `calls` and `seconds` of 0 mean no limit, for servers that live long.
    """

    calls: int = 0
    seconds: float = 0.0
    source_bytes: int = 64 << 10
    programs: int = 200
    run_s: float = 60.0


@dataclass(frozen=True)
class Version:
    """A program. `root`: the program that it must behave like, itself for one that is new. `base`: the one whose text
    its plans change; itself for a text that was written, not made by a move."""

    name: str
    text: str
    root: str
    base: str
    plans: Mapping[str, TransformationPlan] = field(default_factory=dict)
    arguments: Arguments = ()
    made: str = ""  # the transformation or "source"
    parent: str = ""


class ToolSession:
    """The programs of one caller on one target. Not for threads: a server lets one call run at a time."""

    def __init__(
        self,
        target: Target,
        limits: ToolLimits | None = None,
        journal: Path | None = None,
        sizes: tuple[Arguments, ...] = (),
        allow: frozenset[str] = frozenset(),
    ) -> None:
        """`sizes`: arguments for verification, () finds them."""
        self.target = target
        self.limits, self.journal, self.sizes, self.allow = limits or ToolLimits(), journal, sizes, allow
        self.versions: dict[str, Version] = {}
        self.calls, self.seconds = 0, 0.0
        self.faults = AnalysisFaults()
        # What is known of texts, whatever they are called.
        self._evaluations: dict[tuple[str, Arguments], CandidateMeasurement] = {}
        self._predictions: dict[tuple[str, Arguments], float | None] = {}
        self._parsed: dict[str, ParsedProgram] = {}
        self._verifiers: dict[tuple[str, Arguments], Verifier] = {}
        self._verified: dict[tuple[str, str, Arguments], Verification] = {}

    def start_again(self, limits: ToolLimits | None = None) -> ToolSession:
        """A new session without programs that reuses this one's measurements and verifications."""
        other = ToolSession(self.target, limits or self.limits, self.journal, self.sizes, self.allow)
        other._evaluations, other._parsed = self._evaluations, self._parsed
        other._predictions = self._predictions
        other._verifiers, other._verified = self._verifiers, self._verified
        return other

    def begin_call(self) -> float:
        """Counts a call, and returns when it begins. Raises ToolRefusal if a limit is reached."""
        if self.limits.calls and self.calls >= self.limits.calls:
            raise ToolRefusal(
                f"all {self.limits.calls} calls are used", remedy="end with what is found", reason=Reason.LIMIT
            )
        if self.limits.seconds and self.seconds >= self.limits.seconds:
            problem = f"all {self.limits.seconds:g} s of work are used"
            raise ToolRefusal(problem, remedy="end with what is found", reason=Reason.LIMIT)
        self.calls += 1
        return time.monotonic()

    def end_call(self, begin: float) -> None:
        self.seconds += time.monotonic() - begin

    def add(
        self,
        text: str,
        *,
        root: str = "",
        base: str = "",
        plans: Plans | None = None,
        arguments: Arguments | None = None,
        made: str = "",
        parent: str = "",
    ) -> Version:
        """Keeps a program; one with the same text and root is found again. Raises ToolRefusal for one that is too large
        or one too many."""
        size = len(text.encode(errors="replace"))
        if size > self.limits.source_bytes:
            problem = f"the source has {size} bytes; {self.limits.source_bytes} are allowed"
            raise ToolRefusal(problem, remedy="send less", reason=Reason.TOO_LARGE)
        for earlier in self.versions.values():
            same = earlier.root == (root or earlier.name) and arguments in (None, earlier.arguments)
            if earlier.text == text and same:
                return earlier
        if len(self.versions) >= self.limits.programs:
            raise ToolRefusal(
                f"{len(self.versions)} programs are kept already", remedy="start again", reason=Reason.LIMIT
            )
        name = f"v{len(self.versions)}"
        version = Version(name, text, root or name, base or name, plans or {}, arguments or (), made, parent)
        self.versions[name] = version
        return version

    def find_version(self, name: str) -> Version:
        """The program of this name. Raises ToolRefusal."""
        if name not in self.versions:
            names = ", ".join(list(self.versions)[-8:]) or "none yet: call compile with a source"
            raise ToolRefusal(
                f"no program is called {name[:80]!r}", cause=f"known: {names}", reason=Reason.UNKNOWN_PROGRAM
            )
        return self.versions[name]

    def measure(self, version: Version) -> CandidateMeasurement:
        """The measured run of a program, made once."""
        key = version.text, version.arguments
        if key not in self._evaluations:
            evaluator = Evaluator(self.target, version.arguments, self.limits.run_s, self.journal)
            self._evaluations[key] = evaluator(version.text)
        return self._evaluations[key]

    def measure_completed(self, version: Version) -> CandidateMeasurement:
        """As `measure`. Raises ToolRefusal if the program did not run to its end."""
        measured = self.measure(version)
        if not measured.ok:
            raise ToolRefusal(f"{version.name} does not run", cause=measured.message[:1500], reason=measured.reason)
        return measured

    def parse_base(self, version: Version) -> ParsedProgram:
        """The program whose text a version's plans change. Raises BadInput if it cannot be parsed."""
        return self._parse(self.versions[version.base].text)

    def _parse(self, text: str) -> ParsedProgram:
        if text not in self._parsed:
            self._parsed[text] = read_program(text, self.target.arch, self.target.flags)
        return self._parsed[text]

    def describe_state(self, version: Version) -> SearchState:
        return SearchState(dict(version.plans), version.text, self.measure_completed(version))

    def list_moves(self, version: Version) -> list[tuple[Move, str]]:
        """The moves that apply to a program, in a fixed order, each with the program text after it."""
        origin = self.describe_state(self.versions[version.base])
        return make_candidates(
            self.parse_base(version), self.describe_state(version), origin, (version.text,), self.allow, self.faults
        )

    def list_changes(self, version: Version) -> list[tuple[Move, str]]:
        """The changes of a program's source that apply to it, as moves without a plan, each with the text after it."""
        try:
            program = self._parse(version.text)
        except TEXT_ERRORS:  # a text that a move wrote
            return []
        return [
            (Move(name, change.kernel, TransformationPlan(), change.why), change.text)
            for name, change in list_source_changes(
                program, self.measure_completed(version), self.target, self.faults, MOST_CHANGES
            )
        ]

    def expected_gain(self, version: Version, changed: str) -> float | None:
        """The speed-up of a version by a changed text, as previews of both expect; None where one has no preview."""
        before, after = (self._predicted(text, version.arguments) for text in (version.text, changed))
        return before / after if before and after else None

    def _predicted(self, text: str, arguments: Arguments) -> float | None:
        """The predicted duration of all kernels in nanoseconds, asked for once."""
        key = text, arguments
        if key not in self._predictions:
            self._predictions[key] = duration_predictor(self.target, arguments)(text)
        return self._predictions[key]

    def prepare_verifier(self, root: str) -> Verifier:
        """The verifier of a program version, prepared once: preparing runs the original at every size."""
        version = self.versions[root]
        key = version.text, version.arguments
        if key not in self._verifiers:
            program = read_program(version.text, self.target.arch, self.target.flags)
            sizes = self.sizes or candidate_arguments(program.text, version.arguments)
            self._verifiers[key] = prepare_verifier(program, self.target, sizes, self.allow, most_exact_s=PATIENT_S)
        return self._verifiers[key]

    def verify(self, version: Version, original: str = "") -> Verification:
        """All checks of a program against `original`, by default its root, made once. Raises BadInput if that cannot be
        parsed, ToolRefusal if it does not run."""
        root = self.find_version(original or version.root)
        key = root.text, version.text, root.arguments
        if key not in self._verified:
            timed = self.measure_completed(root), self.measure_completed(replace(version, arguments=root.arguments))
            self._verified[key] = self.prepare_verifier(root.name).full(version.text, timed)
        return self._verified[key]
