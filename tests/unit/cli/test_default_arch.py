"""Where one architecture is wanted and none is named, every surface takes the same one."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from hipsynth.cli.main import VERBS, cli
from hipsynth.profiling.survey import SurveyOptions as SurveyOptions
from hipsynth.serving import app
from hipsynth.serving.limits import ServerSettings
from hipsynth.serving.lsp.session import EditorOptions as EditorOptions
from hipsynth.serving.schema import Build
from hipsynth.serving.service import DEFAULT_BUILD, Service
from hipsynth.simulator.devices import DEFAULT_ARCH, device_of, list_architectures

ROOT = Path(__file__).resolve().parents[3]


def settings_of_the_extension() -> dict[str, dict[str, object]]:
    manifest = json.loads((ROOT / "vscode" / "package.json").read_text())
    properties: dict[str, dict[str, object]] = manifest["contributes"]["configuration"]["properties"]
    return properties


def test_the_default_is_an_architecture() -> None:
    assert DEFAULT_ARCH in list_architectures()


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_for_one_architecture_takes_the_default(verb: str) -> None:
    """Of the verbs that may take several, `survey` and `compare` take one; `show_default` is what its help says."""
    command = cli.get_command(click.Context(cli), verb)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option) and "--arch" in option.opts:
            expected = DEFAULT_ARCH if verb in ("compare", "survey") or not option.multiple else "both"
            assert expected == (option.show_default if option.multiple else option.default)


def test_servers_pages_and_editors_take_the_default() -> None:
    page = app.list_choices(Service(ServerSettings()))
    found = {
        "survey": SurveyOptions().arch,
        "language server": EditorOptions().arch,
        "VS Code": settings_of_the_extension()["hipsynth.arch"]["default"],
        "requests": Build(source="").arch,
        "warmed predictor": DEFAULT_BUILD.arch,
        "workbench page": device_of(DEFAULT_ARCH, page.default_device).arch,
    }
    assert set(found.values()) == {DEFAULT_ARCH}, found
