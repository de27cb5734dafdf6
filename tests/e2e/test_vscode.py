"""The VS Code extension: its package is the same every time, and a journey through it in a real VS Code."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path

import pytest

from hipsynth.serving.lsp.session import EditorOptions
from tools import vscode_journey, vsix
from tools.build_step import BuildFailure
from tools.screenshots import find_chromium

ROOT = Path(__file__).resolve().parents[2]
MANIFEST = json.loads((ROOT / "vscode" / "package.json").read_text())


def test_settings_are_the_options_of_the_language_server() -> None:
    settings = {
        name.removeprefix("hipsynth."): row
        for name, row in MANIFEST["contributes"]["configuration"]["properties"].items()
    }
    given = {re.sub("[A-Z]", lambda c: f"_{c[0].lower()}", name): row["default"] for name, row in settings.items()}
    del given["server"]
    assert set(given) == set(EditorOptions.__dataclass_fields__)
    assert EditorOptions.of(given) == EditorOptions(execute=True)  # in trusted workspaces
    assert settings["server"]["scope"] == "machine", "a workspace must not choose the program"


def test_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert MANIFEST["version"] == project["version"]
    pinned = MANIFEST["devDependencies"]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in pinned.values()), pinned
    assert MANIFEST["engines"]["vscode"] == f"^{pinned['@types/vscode']}"


def test_the_lock_file_names_no_other_registry() -> None:
    lock = json.loads((ROOT / "vscode" / "package-lock.json").read_text())
    found = {row["resolved"] for row in lock["packages"].values() if "resolved" in row}
    assert all(address.startswith("https://registry.npmjs.org/") for address in found), sorted(found)
    assert all("integrity" in row for name, row in lock["packages"].items() if name)


@pytest.mark.full
def test_two_builds_are_equal(tmp_path: Path) -> None:
    try:
        first = vsix.build_extension(tmp_path / "first.vsix", check=True)
    except BuildFailure as error:
        if "is the package index reachable?" in str(error):
            pytest.skip(str(error).splitlines()[0])
        raise
    assert first.read_bytes() == vsix.build_extension(tmp_path / "second.vsix", check=False).read_bytes()


needs_browser = pytest.mark.skipif(find_chromium() is None, reason="Chromium is not installed")


@pytest.mark.full
@needs_browser
@pytest.mark.parametrize("release", vscode_journey.RELEASES)
def test_a_journey_in_a_real_vs_code(release: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert vscode_journey.main(["--release", release]) == 0, capfd.readouterr()


@pytest.mark.full
@needs_browser
def test_inside_the_extension_host(capfd: pytest.CaptureFixture[str]) -> None:
    assert vscode_journey.main(["--host"]) == 0, capfd.readouterr()
    assert capfd.readouterr().out.count("ok  ") == (ROOT / "vscode/test/host.ts").read_text().count('  async "')


def test_the_oldest_release_is_the_one_that_the_manifest_allows() -> None:
    _, minor, _ = vscode_journey.RELEASES["oldest"].split(".")
    assert MANIFEST["engines"]["vscode"] == f"^1.{minor}.0"
