"""Where one architecture is wanted and none is named, every surface takes the same one."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hipsynth.cli.main import VERBS, cli
from hipsynth.cli.options import one_target_options
from hipsynth.core.errors import UsageError
from hipsynth.profiling.survey import SurveyOptions as SurveyOptions
from hipsynth.serving import app
from hipsynth.serving.limits import ServerSettings
from hipsynth.serving.lsp.session import EditorOptions as EditorOptions
from hipsynth.serving.schema import Build
from hipsynth.serving.service import DEFAULT_BUILD, Service
from hipsynth.simulator.devices import DEFAULT_ARCH, device_of, list_architectures, list_devices, recorded_architectures

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
            one = verb in ("compare", "survey") or not option.multiple
            expected = DEFAULT_ARCH if one else " and ".join(recorded_architectures())
            assert isinstance(option.show_default, str) and option.show_default.endswith(expected)


@pytest.mark.parametrize(
    ("arguments", "target"),
    [
        ([], (DEFAULT_ARCH, "")),
        (["--arch", "gfx90a"], ("gfx90a", "")),
        (["--device", "mi355x"], ("gfx950", "mi355x")),
        (["--device", "mi210"], ("gfx90a", "mi210")),
        (["--arch", "GFX90A", "--device", "MI210"], ("gfx90a", "mi210")),
        (["--device", "mi210", "--arch", "gfx950"], ("gfx950", "mi210")),  # refused by the verb, which says why
    ],
)
def test_a_device_alone_names_its_architecture(arguments: list[str], target: tuple[str, str]) -> None:
    @click.command()
    @one_target_options
    def command(arch: str, device: str) -> None:
        click.echo(f"{arch} {device}")

    assert CliRunner().invoke(command, arguments).stdout == f"{' '.join(target)}\n"


def test_an_unknown_device_is_refused() -> None:
    command = click.command()(one_target_options(lambda arch, device: None))
    with pytest.raises(UsageError, match="mi999"):
        command.main(["--device", "mi999"], standalone_mode=False)


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


def test_the_extension_offers_every_architecture_and_device() -> None:
    settings = settings_of_the_extension()
    assert settings["hipsynth.arch"]["enum"] == sorted(list_architectures())
    assert settings["hipsynth.device"]["enum"] == ["", *sorted(list_devices())]
