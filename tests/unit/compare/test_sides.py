"""Profile documents and git revisions as sides of a comparison, and the verb over them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from profiling_samples import kernel, result, target

from hipsynth.cli.main import cli
from hipsynth.core.documents import to_json
from hipsynth.core.errors import BadInput, HipsynthError, UsageError
from hipsynth.profiling.compare.sides import checkout_file, read_profile, split_revision
from hipsynth.profiling.reports.describe import profile_document


def write_profile(path: Path, scale: float) -> Path:
    document = profile_document("p", "p.hip", [result(target(), kernel(scale=scale))])
    path.write_text(json.dumps(to_json(document)))
    return path


def run(*words: str) -> Any:
    return CliRunner().invoke(cli, ["compare", *words], prog_name="synth", standalone_mode=False)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "repository"
    (folder / "src").mkdir(parents=True)
    monkeypatch.chdir(folder)
    git("init", "-q")
    (folder / "shared.h").write_text("int old;\n")
    (folder / "src" / "k.hip").write_text('#include "../shared.h"\n#include "absent.h"\n')
    git("add", ".")
    git("commit", "-q", "-m", "one")
    (folder / "shared.h").write_text("int fresh;\n")
    (folder / "src" / "link.hip").symlink_to("/etc/passwd")
    git("add", ".")
    git("commit", "-q", "-m", "two")
    return folder


def git(*words: str) -> None:
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *identity, *words], check=True, capture_output=True)


def test_a_revision_comes_with_its_headers(repository: Path, tmp_path: Path) -> None:
    found = checkout_file("HEAD~1", Path("src/k.hip"), tmp_path / "old")
    assert found == tmp_path / "old" / "src" / "k.hip" and "absent.h" in found.read_text()
    assert (tmp_path / "old" / "shared.h").read_text() == "int old;\n"
    assert checkout_file("HEAD", Path("src/k.hip"), tmp_path / "new").exists()
    assert (tmp_path / "new" / "shared.h").read_text() == "int fresh;\n"


@pytest.mark.parametrize(
    ("revision", "name", "problem"),
    [
        ("nowhere", "src/k.hip", "no such revision"),
        ("HEAD", "src/none.hip", "no such file"),
        ("HEAD", "src/link.hip", "no such file"),
        ("HEAD", "src", "no such file"),
        ("HEAD", "../outside.hip", "outside"),
        ("--help", "src/k.hip", "no revision"),
    ],
)
def test_what_no_revision_has(repository: Path, tmp_path: Path, revision: str, name: str, problem: str) -> None:
    with pytest.raises(BadInput, match=problem) as caught:
        checkout_file(revision, Path(name), tmp_path / "out")
    assert caught.value.remedy


def test_a_file_with_a_colon_is_no_revision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert split_revision("HEAD:k.hip") == ("HEAD", Path("k.hip"))
    (tmp_path / "a:b.hip").touch()
    assert split_revision("a:b.hip") is None and split_revision("k.hip") is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"program": {"id": "", "path": ""}, "results": [{}]}', "[" * 9**5]
)
def test_what_is_no_profile(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(BadInput, match="is no"):
        read_profile(tmp_path / "a.json")


def test_two_documents(tmp_path: Path) -> None:
    a, b = (str(write_profile(tmp_path / f"{scale}.json", scale)) for scale in (1, 2))
    done = run(a, b, "--json", "--html", str(tmp_path / "page.html"))
    (found,) = json.loads(done.stdout)["targets"]
    assert done.return_value == 0 and found["total"]["change_percent"] == 100
    assert "slower by 100 %" in (tmp_path / "page.html").read_text()
    shown = run(a, b)
    assert "15.84 us -> 31.68 us" in shown.stdout and "slower by 100 %" in shown.stdout


@pytest.mark.parametrize(("limit", "code"), [("5%", 6), ("99.5", 6), ("100%", 0)])
def test_slower_than_allowed_has_its_own_exit_code(tmp_path: Path, limit: str, code: int) -> None:
    a, b = (str(write_profile(tmp_path / f"{scale}.json", scale)) for scale in (1, 2))
    done = run(a, b, "--fail-if-slower", limit, "--json")
    assert done.return_value == code and bool(json.loads(done.stdout)["slower"]) == (code == 6)
    assert run(b, a, "--fail-if-slower", limit).return_value == 0


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (["a.json"], UsageError),
        (["a.json", "b.json", "c.json"], UsageError),
        (["a.json", "a.json", "--flags=-O1", "--flags=-O2", "--flags=-O3"], UsageError),
        (["a.json", "none.json"], BadInput),
        (["a.json", "a.json", "--arch", "gfx1"], UsageError),
        (["none.hip", "--flags=-O1", "--flags=-O2"], BadInput),
    ],
)
def test_bad_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], kind: type[HipsynthError]
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.json"):
        write_profile(tmp_path / name, 1)
    done = run(*words)
    assert isinstance(done.exception, kind) and done.exception.remedy
