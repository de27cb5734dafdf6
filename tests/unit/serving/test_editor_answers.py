"""Which answers the language server keeps and shows when options change."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import needs
import pytest

needs.package("pygls")
from test_language_server import TEXT, FakeSource, document, prediction, server_outcome, session  # noqa: E402

from hipsynth.serving.documents import ImprovedProgram  # noqa: E402
from hipsynth.serving.lsp import kernel_results, server  # noqa: E402
from hipsynth.serving.lsp.analysis_provider import Query, QueryFailed  # noqa: E402


class SlowSearch(FakeSource):
    """Searches until it may end."""

    def __init__(self) -> None:
        super().__init__()
        self.end = asyncio.Event()

    async def optimize(self, query: Query, budget_s: float) -> ImprovedProgram:
        await self.end.wait()
        return await super().optimize(query, budget_s)


@pytest.mark.parametrize(
    ("change", "is_kept"),
    [({"arch": "gfx90a"}, False), ({"flags": "-O1"}, False), ({"grid": (64,)}, False), ({"inlay_hints": True}, True)],
)
def test_a_faster_version_for_other_options_is_not_offered(change: dict[str, object], is_kept: bool) -> None:
    async def search_while_options_change() -> None:
        source = SlowSearch()
        editor, _ = session(source, execute=True)
        editor.open("u", Path("/k.hip"), 1, TEXT)
        search = asyncio.create_task(editor.optimize("u"))
        await asyncio.sleep(0)
        editor.configure(replace(editor.options, **change))
        source.end.set()
        if is_kept:
            await search
        else:
            with pytest.raises(QueryFailed, match="ask again"):
                await search
        assert (editor.documents["u"].faster is not None) == is_kept
        editor.close("u")

    asyncio.run(search_while_options_change())


def test_diagnostics_that_are_switched_off_are_removed() -> None:
    published: list[int] = []
    client: Any = SimpleNamespace(
        text_document_publish_diagnostics=lambda params: published.append(len(params.diagnostics)),
        protocol=SimpleNamespace(notify=lambda *_: None),
        client_capabilities=SimpleNamespace(workspace=None),
    )
    editor, _ = session(FakeSource())
    shown = document()
    shown.predicted = server_outcome(shown, kernel_results.predicted_facts(prediction(occupancy=0.06)))
    for diagnostics in (True, False):
        editor.options = replace(editor.options, diagnostics=diagnostics)
        asyncio.run(server._publish_document(client, editor, shown))
    assert published == [1, 0]
