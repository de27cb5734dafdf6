"""The open documents, their latest predictions and profiles, and the tasks that update them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.workspace import PositionCodec

from hipsynth.core.documents import from_json
from hipsynth.core.languages import HEADER_SUFFIXES, TRITON, language_of
from hipsynth.core.reasons import Reason
from hipsynth.core.run_status import RunStatus
from hipsynth.core.time_limit import PREDICTION_SECONDS
from hipsynth.serving.limits import REQUEST_SOURCE_BYTES
from hipsynth.serving.lsp import kernel_results, presentation
from hipsynth.serving.lsp.analysis_provider import AnswerSource, Query, QueryFailed
from hipsynth.serving.lsp.buffer import TextBuffer
from hipsynth.serving.lsp.kernel_positions import KernelOutline, locate_kernels
from hipsynth.serving.lsp.kernel_results import KernelFacts
from hipsynth.simulator.devices import DEFAULT_ARCH
from hipsynth.source.harness import lacks_main
from hipsynth.source.includes import includes_own_files
from hipsynth.source.outline import outline_kernels

if TYPE_CHECKING:
    from hipsynth.profiling.reports.documents import LineCost, ProfileResult
    from hipsynth.serving.lsp.documents import ComparedKernel
    from hipsynth.tuning.optimize.documents import OptimizeDocument

# What a prediction of a text that does not compile is of, in a lens.
HALF_WRITTEN = {
    "completed": "does not compile; of a guessed completion",
    "last_compiled": "does not compile; of the text that compiled last",
    "text": "does not compile; of its words",
}
SCRIPT_FLAGS = "-O3"  # a script sets its own
SEARCH_S = 60.0  # of work, for a faster version
LEAST_SECONDS = 0.1
NOT_TRUSTED = 'execution is off: set the initialization option "execute" for folders that you trust'


@dataclass(frozen=True)
class EditorOptions:
    """Initialization options. `execute`: programs may run, in the sandbox; `debounce_ms`: pause before predicting;
    `grid`, `block`, `values`: launches of kernels without main(), and of those whose host code does not run."""

    arch: str = DEFAULT_ARCH
    flags: str = "-O3"
    device: str = ""
    execute: bool = False
    debounce_ms: int = 300
    code_lens: bool = True
    inlay_hints: bool = False
    diagnostics: bool = True
    seconds: float = 20.0
    grid: tuple[int, ...] = ()
    block: tuple[int, ...] = ()
    values: Mapping[str, float] = field(default_factory=dict)

    @property
    def target(self) -> tuple[str, str, str]:
        return self.arch, self.flags, self.device

    @staticmethod
    def of(options: object, default: EditorOptions | None = None) -> EditorOptions:
        """From what a client sent; unknown options are ignored, those missing or of a wrong type keep `default`."""
        default = default or EditorOptions()
        if not isinstance(options, Mapping):
            return default
        defaults = asdict(default)
        values = {name: _read_option(name, options.get(name), old) for name, old in defaults.items()}
        return from_json(EditorOptions, values)


def _read_option(name: str, value: object, old: object) -> object:
    """The option's value as EditorOptions has it; the old one if the client sent none, or one of another type."""
    if name in ("grid", "block"):
        is_shape = isinstance(value, list) and len(value) <= 3 and all(type(n) is int and n > 0 for n in value)
        return value if is_shape else old
    if name == "values" and isinstance(value, dict):
        are_numbers = all(type(n) in (int, float) and _is_finite(n) for n in value.values())
        return value if are_numbers else old
    if name in ("seconds", "debounce_ms"):
        least = 0.0 if name == "debounce_ms" else LEAST_SECONDS
        if not isinstance(value, int | float) or not least <= value < math.inf or not _is_finite(value):
            return old
    if isinstance(old, float) and type(value) is int:
        return float(value)
    return value if type(value) is type(old) else old


def _is_finite(number: float) -> bool:
    """Whether a number is finite; an integer that no float can hold is not."""
    try:
        return math.isfinite(number)
    except OverflowError:
        return False


@dataclass(frozen=True)
class EditorOffers:
    """The document of `synth lsp --json`: the server's commands and notifications, and the defaults of its options."""

    commands: tuple[str, ...]
    notifications: tuple[str, ...]
    initialization_options: EditorOptions


@dataclass(frozen=True)
class DocumentKernels:
    """The kernels of one version of a text."""

    version: int
    text: str
    kernels: Mapping[str, KernelFacts]
    model: str = ""
    at: float = field(default_factory=time.monotonic)


@dataclass(frozen=True)
class FasterText:
    """A verified faster version of a text, and its gain in words."""

    text: str
    faster: str
    gain: str


@dataclass(frozen=True)
class PlacedFinding:
    """A finding at a line (from 0) of the current text; `is_executed`: it was counted there, not predicted."""

    line: int
    finding: presentation.Finding
    is_executed: bool


@dataclass
class OpenDocument:
    """An open document and the latest outcomes for it. `saved`: its text on disk, as far as known."""

    uri: str
    path: Path
    version: int
    buffer: TextBuffer
    saved: str
    predicted: DocumentKernels | None = None
    executed: DocumentKernels | None = None
    baseline: DocumentKernels | None = None  # the prediction of the saved text
    compiled: str = ""  # the latest text that compiled
    faster: FasterText | None = None
    problem: str = ""
    forgotten: int = 0  # how often its answers were
    failure: str = ""  # why the latest prediction has no answer, in full
    busy: str = ""
    is_shown: bool = False  # the client knows of an answer, and of no edit since then
    task: asyncio.Task[None] | None = None
    _outlined: str | None = None  # the text that `_outline` is of
    _outline: list[KernelOutline] = field(default_factory=list)

    @property
    def text(self) -> str:
        return self.buffer.text

    @property
    def is_script(self) -> bool:
        """Whether it is a Python script with Triton kernels, which is run to predict them, so not for every edit."""
        return language_of(self.text) == TRITON

    @property
    def found(self) -> list[KernelOutline]:
        """The kernels of the text, looked for when they are asked for; none in a text that is too long to predict."""
        if self._outlined is not self.text:
            self._outline = locate_kernels(self.text) if len(self.text) <= REQUEST_SOURCE_BYTES else []
            self._outlined = self.text
        return self._outline

    def forget_answers(self) -> None:
        """Called when the same text may have other figures: for another target, or with other headers."""
        self.predicted = self.executed = self.baseline = None
        self.faster = None
        self.forgotten += 1

    def facts(self, name: str) -> KernelFacts | None:
        """Executed facts of this very text, else predicted ones, maybe of an earlier text."""
        if self.executed and self.executed.text == self.text and name in self.executed.kernels:
            return self.executed.kernels[name]
        return self.predicted.kernels.get(name) if self.predicted else None

    def state(self) -> str:
        """Why the shown facts may not be those of this text; "" if they are."""
        if self.busy:
            return self.busy
        if self.executed and self.executed.text == self.text:
            return ""
        if self.problem:
            return self.problem
        if self.predicted is not None and self.predicted.text == self.text:
            return ""
        if not self.found:
            return "" if len(self.text) <= REQUEST_SOURCE_BYTES else f"longer than {REQUEST_SOURCE_BYTES >> 10} KiB"
        return "of the saved text" if self.is_script and self.predicted else "…"

    def lines(self) -> dict[int, tuple[LineCost, str]]:
        """Line (from 0) -> its executed entry and the kernel that it costs most, for lines unchanged since then."""
        if self.executed is None:
            return {}
        moved = kernel_results.line_map(self.executed.text, self.text)
        costs: dict[int, tuple[LineCost, str]] = {}
        for kernel in self.executed.kernels.values():
            for line in kernel.lines:
                at = moved.get(line.line - 1)
                is_own_file = Path(line.file).name in (self.path.name, f"{self.path.stem}.hip")
                if at is not None and is_own_file and (at not in costs or costs[at][0].share < line.share):
                    costs[at] = line, kernel.name
        return costs

    def findings(self) -> Iterator[PlacedFinding]:
        """What can be changed in the current text: executed lines that are unchanged, and kernels by `facts`."""
        places = {line.line: at for at, (line, _) in self.lines().items()}
        for kernel in self.found:
            executed = self.executed.kernels.get(kernel.name) if self.executed else None
            for finding in presentation.kernel_findings(executed) if executed else ():
                if not finding.kernel and (at := places.get(finding.line)) is not None:
                    yield PlacedFinding(at, finding, is_executed=True)
            facts = self.facts(kernel.name)
            for finding in presentation.kernel_findings(facts) if facts else ():
                if finding.kernel:
                    yield PlacedFinding(kernel.line, finding, is_executed=facts is executed)


class EditorSession:
    """Documents by URI. `changed` is awaited after anything that is shown for a document has changed."""

    def __init__(self, source: AnswerSource, changed: Callable[[OpenDocument], Awaitable[None]]) -> None:
        self.source, self.changed = source, changed
        self.options = EditorOptions()
        self.documents: dict[str, OpenDocument] = {}
        self._announcements: set[asyncio.Task[None]] = set()

    def open(self, uri: str, path: Path, version: int, text: str) -> None:
        self.close(uri)
        self.documents[uri] = OpenDocument(uri, path, version, TextBuffer(text), text)
        self._predict_after_pause(self.documents[uri])

    def edit(
        self,
        uri: str,
        version: int,
        changes: Iterable[types.TextDocumentContentChangeEvent],
        codec: PositionCodec,
    ) -> None:
        """Changes a document's text. Only the version that is left after a pause is looked at, or asked for; scripts
        when they are saved."""
        document = self.documents[uri]
        document.version = version
        for change in changes:
            document.buffer.apply(change, codec)
        if document.is_script:
            document.problem = ""
        else:
            self._predict_after_pause(document)
        if document.is_shown:  # once for all edits until the next answer
            document.is_shown = False
            self._announce(document)

    def save(self, uri: str) -> None:
        """Takes the text for the saved one. A script that was edited since is run again; after a header, all that
        include headers of their own are predicted again."""
        document = self.documents[uri]
        document.saved = document.text
        if document.predicted and document.predicted.text == document.text:
            document.baseline = document.predicted
        elif document.is_script:
            self._predict_after_pause(document)
        self._announce(document)
        if document.path.suffix in HEADER_SUFFIXES:
            for other in self.documents.values():
                if includes_own_files(other.text):
                    other.forget_answers()
                    self._predict_after_pause(other)

    def configure(self, options: EditorOptions) -> None:
        """Takes new options; what was found out for another target or launch is forgotten."""
        if options == self.options:
            return
        old, self.options = self.options, options
        launches = (options.grid, options.block, options.values) != (old.grid, old.block, old.values)
        is_other = launches or options.target != old.target
        asks_again = is_other or (options.execute, options.seconds) != (old.execute, old.seconds)
        for document in self.documents.values():
            if is_other:
                document.forget_answers()
            if asks_again:
                self._predict_after_pause(document)
            else:
                self._announce(document)

    def _announce(self, document: OpenDocument) -> None:
        """Tells that what is shown is of another text now, without waiting for it."""
        task = asyncio.get_running_loop().create_task(_tell_quietly(self.changed(document)))
        self._announcements.add(task)
        task.add_done_callback(self._announcements.discard)

    def close(self, uri: str) -> None:
        document = self.documents.pop(uri, None)
        if document and document.task:
            document.task.cancel()

    def _predict_after_pause(self, document: OpenDocument) -> None:
        """Predicts the kernels after a pause; a newer version cancels an older one's work."""
        if document.task:
            document.task.cancel()
        document.busy = ""
        document.task = asyncio.get_running_loop().create_task(self._predict_document(document, document.version))

    async def _predict_document(self, document: OpenDocument, version: int) -> None:
        await asyncio.sleep(self.options.debounce_ms / 1000)
        document.problem = document.failure = ""
        if document.found:
            if document.is_script and self.options.execute:
                document.busy = "running the script …"
                await self.changed(document)
            text = document.saved if document.is_script else document.text  # that of a script may change meanwhile
            try:
                answer = await self.source.predict(self.query(document, text))
                document.problem = HALF_WRITTEN.get(answer.source, "")
                if answer.source == "program":
                    document.compiled = text
                document.predicted = DocumentKernels(
                    version, text, kernel_results.predicted_facts(answer), Path(answer.model).name
                )
                if text == document.saved:
                    document.baseline = document.predicted
            except QueryFailed as error:
                document.problem, document.failure = _short_failure(error), str(error)
            except Exception:  # whatever it is, the editor must not wait for an answer for ever
                logging.getLogger(__name__).exception("a prediction failed")
                document.problem = "hipsynth itself failed"
            document.busy = ""
            document.is_shown = document.predicted is not None
        await self.changed(document)

    def query(self, document: OpenDocument, text: str) -> Query:
        """The question about a document's text under the editor's settings; host code runs only if `execute` is set,
        and then makes its own launches."""
        o = self.options
        if document.is_script:
            path = str(document.path) if text == document.saved and document.path.is_file() else ""
            return Query(
                text, o.arch, SCRIPT_FLAGS, o.device, document.path.name, path, limit_s=o.seconds, run_host=o.execute
            )
        path = str(document.path) if document.path.is_file() else ""  # for the headers beside it
        limit_s = max(o.seconds, PREDICTION_SECONDS)
        query = Query(
            text, o.arch, o.flags, o.device, document.path.name, path, limit_s=limit_s, run_host=o.execute,
            last_compiled=document.compiled,
        )  # fmt: skip
        if o.execute and not lacks_main(text):
            return query
        arguments = {parameter.name for kernel in outline_kernels(text) for parameter in kernel.parameters}
        values = {name: value for name, value in o.values.items() if name in arguments}
        return replace(query, grid=o.grid or None, block=o.block or None, values=values)

    async def profile(self, uri: str) -> ProfileResult:
        """Executes the current text. Raises QueryFailed: not trusted, not open, or the words of `synth profile`."""
        if not self.options.execute:
            raise QueryFailed(Reason.NOT_TRUSTED, NOT_TRUSTED)
        document = self.documents.get(uri)
        if document is None:
            raise QueryFailed(Reason.NOT_OPEN, f"{uri} is not open")
        version, text, query = document.version, document.text, self.query(document, document.text)
        forgotten = document.forgotten
        if document.text != document.saved:
            query = replace(query, path="")
        query = replace(query, limit_s=self.options.seconds)
        document.busy = "executing …"
        await self.changed(document)
        try:
            answer = await self.source.profile(query)
            if answer.status != RunStatus.OK:
                raise QueryFailed(answer.reason, answer.message or answer.reason)
            if forgotten == document.forgotten:
                document.executed = DocumentKernels(version, text, kernel_results.executed_facts(answer))
            return answer
        finally:
            document.busy = ""
            if self.documents.get(uri) is document:  # what is closed shows nothing any more
                with contextlib.suppress(Exception):
                    await self.changed(document)

    async def optimize(self, uri: str) -> OptimizeDocument:
        """Looks for a faster version of the current text, which its code actions then offer. Raises QueryFailed as
        profile(), and if answers for other options or headers are wanted by then."""
        from hipsynth.tuning.optimize.documents import OptimizeDocument

        if not self.options.execute:
            raise QueryFailed(Reason.NOT_TRUSTED, NOT_TRUSTED)
        document = self.documents.get(uri)
        if document is None:
            raise QueryFailed(Reason.NOT_OPEN, f"{uri} is not open")
        text, forgotten = document.text, document.forgotten
        query = replace(self.query(document, text), path="")
        document.busy = "looking for a faster version …"
        await self.changed(document)
        try:
            answer = await self.source.optimize(query, SEARCH_S)
        finally:
            document.busy = ""
            if self.documents.get(uri) is document:
                with contextlib.suppress(Exception):
                    await self.changed(document)
        if forgotten != document.forgotten:
            raise QueryFailed(Reason.SUPERSEDED, "options or headers changed during the search: ask again")
        assert isinstance(answer.report, OptimizeDocument)
        if answer.diff:
            gain = f"{answer.report.speedup:.2f} times as fast, verified"
            document.faster = FasterText(text, answer.source, gain)
        return answer.report

    async def compare(self, uri: str) -> tuple[ComparedKernel, ...]:
        """The saved text beside the current one, both predicted. Raises QueryFailed."""
        document = self.documents.get(uri)
        if document is None:
            raise QueryFailed(Reason.NOT_OPEN, f"{uri} is not open")
        sides = []
        for text in (document.saved, document.text):
            earlier = (document.predicted, document.baseline)
            kernels = next((side.kernels for side in earlier if side is not None and side.text == text), None)
            if kernels is None:
                kernels = kernel_results.predicted_facts(await self.source.predict(self.query(document, text)))
            sides.append(kernels)
        return presentation.comparison_rows(*sides)


async def _tell_quietly(telling: Awaitable[None]) -> None:
    with contextlib.suppress(Exception):  # the client may be gone
        await telling


def _short_failure(error: QueryFailed) -> str:
    """A failure in a few words, for a lens."""
    if error.reason == Reason.COMPILE_FAILED:
        return "does not compile"
    if error.reason == Reason.NOT_RUN:
        return "execution is off: set `execute`"
    return str(error).splitlines()[0][:100] if str(error) else error.reason
