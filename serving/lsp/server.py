"""The language server: LSP on standard input and output."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import to_fs_path

from hipsynth.core.documents import document_json, to_json
from hipsynth.core.stop_signal import end_at_signals
from hipsynth.serving.lsp import panel, presentation
from hipsynth.serving.lsp.analysis_provider import AnswerSource, QueryFailed, WorkerSource
from hipsynth.serving.lsp.buffer import split_lines
from hipsynth.serving.lsp.session import EditorOptions, EditorSession, OpenDocument
from hipsynth.tuning.optimize.documents import SearchStatus

if TYPE_CHECKING:
    from hipsynth.serving.lsp.documents import PredictionNotice

PROFILE, COMPARE, TARGETS = "hipsynth.profile", "hipsynth.compare", "hipsynth.targets"
OPTIMIZE = "hipsynth.optimize"
PREDICTION = "hipsynth/prediction"  # notification: what is known of a document's kernels, for a client's own panel
NAME, VERSION = "hipsynth", "1"


def make_server(source: AnswerSource) -> LanguageServer:
    """A server that asks `source`."""
    server = LanguageServer(NAME, VERSION, text_document_sync_kind=types.TextDocumentSyncKind.Incremental)
    session = EditorSession(source, lambda document: _publish_document(server, session, document))
    _follow_documents(server, session)
    _answer_requests(server, session)
    _offer_commands(server, session)

    @server.feature(types.SHUTDOWN)
    async def shutdown(_params: None) -> None:
        for uri in list(session.documents):
            session.close(uri)
        await source.close()

    return server


def serve_client() -> None:
    """Serves one client until it says goodbye or closes the stream."""
    answers = os.fdopen(os.dup(1), "wb")  # pygls closes what it writes to when it is told to exit
    source = WorkerSource()
    end_at_signals(source.kill)
    try:
        make_server(source).start_io(stdout=answers)
    finally:
        source.kill()


def _follow_documents(server: LanguageServer, session: EditorSession) -> None:
    # The session keeps the texts; pygls would copy each document line by line for every edit.
    for method in (types.TEXT_DOCUMENT_DID_OPEN, types.TEXT_DOCUMENT_DID_CHANGE, types.TEXT_DOCUMENT_DID_CLOSE):
        del server.protocol.fm.builtin_features[method]

    @server.feature(types.INITIALIZE)
    def initialize(params: types.InitializeParams) -> None:
        session.options = EditorOptions.of(params.initialization_options)

    @server.feature(types.WORKSPACE_DID_CHANGE_CONFIGURATION)
    async def configured(params: types.DidChangeConfigurationParams) -> None:
        session.configure(EditorOptions.of(params.settings, session.options))  # some editors send empty settings

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    async def opened(params: types.DidOpenTextDocumentParams) -> None:
        it = params.text_document
        session.open(it.uri, Path(to_fs_path(it.uri) or "program.hip"), it.version, it.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    async def changed(params: types.DidChangeTextDocumentParams) -> None:
        it = params.text_document
        if it.uri in session.documents:
            session.edit(it.uri, it.version, params.content_changes, server.workspace.position_codec)

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE)
    def saved(params: types.DidSaveTextDocumentParams) -> None:
        if params.text_document.uri in session.documents:
            session.save(params.text_document.uri)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def closed(params: types.DidCloseTextDocumentParams) -> None:
        session.close(params.text_document.uri)
        server.text_document_publish_diagnostics(types.PublishDiagnosticsParams(params.text_document.uri, []))


def _answer_requests(server: LanguageServer, session: EditorSession) -> None:
    @server.feature(types.TEXT_DOCUMENT_HOVER)
    def hover(params: types.HoverParams) -> types.Hover | None:
        document = session.documents.get(params.text_document.uri)
        return hover_at(document, params.position.line, session.options) if document else None

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def lenses(params: types.CodeLensParams) -> list[types.CodeLens]:
        document = session.documents.get(params.text_document.uri)
        return lenses_of(document, session.options) if document else []

    @server.feature(types.TEXT_DOCUMENT_INLAY_HINT)
    def hints(params: types.InlayHintParams) -> list[types.InlayHint]:
        document = session.documents.get(params.text_document.uri)
        return hints_of(document, params.range) if document and session.options.inlay_hints else []

    @server.feature(types.TEXT_DOCUMENT_CODE_ACTION)
    def actions(params: types.CodeActionParams) -> list[types.CodeAction]:
        document = session.documents.get(params.text_document.uri)
        actions = actions_of(document, params.range.start.line, session.options) if document else []
        wanted = params.context.only
        return actions if wanted is None else [action for action in actions if _is_of_kinds(action, wanted)]


def _offer_commands(server: LanguageServer, session: EditorSession) -> None:
    def tell(kind: types.MessageType, text: str) -> None:
        server.window_show_message(types.ShowMessageParams(kind, f"hipsynth: {text}"))

    def refuse(error: QueryFailed) -> object:
        from hipsynth.serving.lsp.documents import CommandFailure

        tell(types.MessageType.Warning, str(error))
        return to_json(CommandFailure(error.reason, str(error)))

    @server.command(PROFILE)
    async def profile(uri: str) -> object:
        _end_with_request(server)
        try:
            return document_json(await session.profile(uri))
        except QueryFailed as error:
            return refuse(error)

    @server.command(COMPARE)
    async def compare(uri: str) -> object:
        _end_with_request(server)
        try:
            rows = await session.compare(uri)
        except QueryFailed as error:
            return refuse(error)
        tell(types.MessageType.Info, "saved → edited, predicted: " + "; ".join(row.text for row in rows))
        return {"kernels": to_json(rows)}

    @server.command(OPTIMIZE)
    async def optimize(uri: str) -> object:
        _end_with_request(server)
        try:
            report = await session.optimize(uri)
        except QueryFailed as error:
            return refuse(error)
        document = session.documents.get(uri)
        faster = document.faster if document and report.status == SearchStatus.IMPROVED else None
        tell(
            types.MessageType.Info,
            f"{faster.gain}: a code action of the kernel applies it" if faster else report.reason,
        )
        return document_json(report)

    @server.command(TARGETS)
    def targets() -> object:
        return document_json(panel.list_targets())


def _end_with_request(server: LanguageServer) -> None:
    """Cancels the running command when the client cancels its request; pygls itself only drops the answer."""
    task, message = asyncio.current_task(), server.protocol.msg_id
    request = server.protocol._request_futures.get(message) if message is not None else None
    if task and request:
        request.add_done_callback(lambda done: done.cancelled() and task.cancel())


def hover_at(document: OpenDocument, line: int, options: EditorOptions) -> types.Hover | None:
    """The kernel at its name's line, or why nothing is known of it; elsewhere in a kernel the line, if it has been
    executed."""
    flags = "" if document.is_script else f", `{options.flags}`"
    target = f"{options.arch}{f' ({options.device})' if options.device else ''}{flags}"
    for kernel in document.found:
        facts = document.facts(kernel.name)
        if kernel.line == line and not facts and document.failure:
            return _markdown_hover(f"```\n{document.failure}\n```")
        if kernel.line == line and facts:
            state = document.state()
            model = document.predicted.model if document.predicted else ""
            text = presentation.kernel_hover(facts, target, model) + (f"\n\n({state})" if state else "")
            return _markdown_hover(text)
    entry = document.lines().get(line)
    return _markdown_hover(presentation.line_hover(*entry)) if entry else None


def _markdown_hover(text: str) -> types.Hover:
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, text))


def lenses_of(document: OpenDocument, options: EditorOptions) -> list[types.CodeLens]:
    """A lens above every kernel, always; only its text changes, so that lines do not jump."""
    if not options.code_lens:
        return []
    state = document.state()
    return [
        types.CodeLens(
            _line_range(kernel.line),
            types.Command(
                presentation.lens_title(document.facts(kernel.name), state), PROFILE, arguments=[document.uri]
            ),
        )
        for kernel in document.found
    ]


def hints_of(document: OpenDocument, within: types.Range) -> list[types.InlayHint]:
    """The share of the time behind each line that costs something."""
    text = [line.rstrip("\r\n") for line in split_lines(document.text)]
    hints = []
    for at, (line, _) in sorted(document.lines().items()):
        if within.start.line <= at <= within.end.line and (label := presentation.hint_text(line)):
            end = types.Position(at, len(text[at].encode("utf-16-le")) // 2)
            hints.append(types.InlayHint(end, label, padding_left=True))
    return hints


def actions_of(document: OpenDocument, line: int, options: EditorOptions) -> list[types.CodeAction]:
    """The code actions for the kernel at a line."""
    if not any(kernel.holds(line) for kernel in document.found):
        return []
    commands = [("Compare with the saved file", COMPARE)]
    if options.execute:
        commands.append(("Execute and profile", PROFILE))
        commands.append(("Look for a faster version, and verify it", OPTIMIZE))
    return [
        *apply_actions(document),
        *(
            types.CodeAction(
                f"hipsynth: {title}",
                kind=types.CodeActionKind.Refactor,
                command=types.Command(title, command, arguments=[document.uri]),
            )
            for title, command in commands
        ),
    ]


def _is_of_kinds(action: types.CodeAction, kinds: Sequence[types.CodeActionKind | str]) -> bool:
    """Whether an action is of one of these kinds, or of a more special one."""
    kind = str(getattr(action.kind, "value", action.kind))
    names = [str(getattr(wanted, "value", wanted)) for wanted in kinds]
    return any(name in ("", kind) or kind.startswith(f"{name}.") for name in names)


def apply_actions(document: OpenDocument) -> list[types.CodeAction]:
    """The action that replaces the text by its faster version, while it is the text that one was found for."""
    faster = document.faster
    if faster is None or faster.text != document.text:
        return []
    all_lines = types.Range(types.Position(0, 0), types.Position(len(faster.text.splitlines()) + 1, 0))
    edit = types.WorkspaceEdit(changes={document.uri: [types.TextEdit(all_lines, faster.faster)]})
    title = f"hipsynth: Apply the faster version ({faster.gain})"
    return [types.CodeAction(title, kind=types.CodeActionKind.RefactorRewrite, edit=edit)]


def diagnostics_of(document: OpenDocument) -> list[types.Diagnostic]:
    """Findings as information, those of a prediction as hints."""
    result = []
    for placed in document.findings():
        severity = types.DiagnosticSeverity.Information if placed.is_executed else types.DiagnosticSeverity.Hint
        finding, where = placed.finding, _line_range(placed.line)
        result.append(types.Diagnostic(where, finding.message, severity, code=finding.code, source=NAME))
    return result


def _line_range(line: int) -> types.Range:
    return types.Range(types.Position(line, 0), types.Position(line + 1, 0))


async def _publish_document(server: LanguageServer, session: EditorSession, document: OpenDocument) -> None:
    """Publishes what has changed; lenses and hints are asked for again by clients that can."""
    diagnostics = diagnostics_of(document) if session.options.diagnostics else []  # which removes earlier ones
    server.text_document_publish_diagnostics(
        types.PublishDiagnosticsParams(document.uri, diagnostics, document.version)
    )
    server.protocol.notify(PREDICTION, document_json(prediction_params(document, session.options)))
    can = server.client_capabilities.workspace
    # Some clients announce these requests and do not answer them.
    with contextlib.suppress(Exception):
        if can and can.code_lens and can.code_lens.refresh_support:
            server.workspace_code_lens_refresh(None)
        if session.options.inlay_hints and can and can.inlay_hint and can.inlay_hint.refresh_support:
            server.workspace_inlay_hint_refresh(None)


def prediction_params(document: OpenDocument, options: EditorOptions) -> PredictionNotice:
    """The parameters of the PREDICTION notification."""
    from hipsynth.serving.lsp.documents import NotifiedKernel, PredictionNotice

    rows = [(kernel, document.facts(kernel.name)) for kernel in document.found]
    return PredictionNotice(
        uri=document.uri,
        version=document.version,
        state=document.state(),
        kernels=tuple(
            NotifiedKernel(
                kernel.name,
                kernel.line,
                kernel_facts.how if kernel_facts else "",
                kernel_facts.document if kernel_facts else None,
            )
            for kernel, kernel_facts in rows
        ),
        panel=panel.panel_document(document, options),
    )
