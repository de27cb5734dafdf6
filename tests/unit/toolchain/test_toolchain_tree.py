"""The header tree: whole or absent, from the recorded wheels only."""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path
from typing import Any

import pytest

from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import hash_file
from hipsynth.toolchain import build_tree, find_toolchain, header_tree, locate


@pytest.fixture
def empty_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")  # a package index that has nothing
    monkeypatch.delenv("HIPSYNTH_WHEELS", raising=False)
    return tmp_path / "cache"


def fake_wheels(folder: Path) -> list[dict[str, Any]]:
    """Two small wheels of the expected layout, with the table rows that describe them."""
    folder.mkdir()
    rows = []
    members = {
        "alpha": {
            "alpha/inc/hip/hip_version.h": "".join(
                f"#define HIP_VERSION_{name} {value}\n" for name, value in (("MAJOR", 7), ("MINOR", 1), ("PATCH", 3))
            ),
            "alpha/inc/hip/deep/a.h": "// a\n",
            "alpha/lib/ocml.bc": "bitcode",
            "alpha/huge.so": "not wanted",
        },
        "beta-two": {"beta/old.h": "// old\n"},
    }
    takes = {
        "alpha": {"alpha/inc/hip/": "include/hip/", "alpha/lib/ocml.bc": "amdgcn/bitcode/ocml.bc"},
        "beta-two": {"beta/old.h": "include/hip/old.h"},
    }
    for name, files in members.items():
        path = folder / f"{name.replace('-', '_')}-1.0-cp311-cp311-any.whl"
        with zipfile.ZipFile(path, "w") as archive:
            for member, text in files.items():
                archive.writestr(member, text)
        row = {
            "name": name,
            "version": "1.0",
            "abi": "cp311",
            "platforms": ["any"],
            "megabytes": 1,
            "provides": "parts",
        }
        rows.append(row | {"licence": "MIT", "sha256": hash_file(path), "take": takes[name]})
    return rows


def use_table(monkeypatch: pytest.MonkeyPatch, wheels: list[dict[str, Any]]) -> None:
    table = dict(locate.read_inputs()) | {"wheels": wheels}
    monkeypatch.setattr(locate, "read_inputs", lambda: table)


def test_a_tree_holds_the_files_in_the_table_and_records_them(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    use_table(monkeypatch, fake_wheels(tmp_path / "wheels"))
    built = build_tree(wheels=tmp_path / "wheels")
    files = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file()}
    assert {"include/hip/deep/a.h", "include/hip/old.h", "amdgcn/bitcode/ocml.bc", "amdgcn/bitcode/opencl.bc"} <= files
    assert {f"amdgcn/bitcode/oclc_isa_version_{name}.bc" for name in ("90a", "942", "950")} <= files
    assert not any("huge" in name for name in files)
    assert (built / "share/hip/version").read_text().splitlines()[0] == "HIP_VERSION_MAJOR=7"
    manifest = json.loads((built / "manifest.json").read_text())
    assert manifest["headers_version"] == "HIP 7.1.3"
    assert [(wheel["name"], wheel["files"]) for wheel in manifest["wheels"]] == [("alpha", 3), ("beta-two", 1)]
    assert list(empty_cache.iterdir()) == [built]  # no scratch folder is left
    assert list((tmp_path / "wheels").iterdir())  # what the user brought is not deleted


def test_a_wheel_that_is_not_the_recorded_one_is_refused(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rows = fake_wheels(tmp_path / "wheels")
    use_table(monkeypatch, [rows[0] | {"sha256": "0" * 64}, rows[1]])
    with pytest.raises(MissingDependency, match="not the recorded file"):
        build_tree(wheels=tmp_path / "wheels")
    assert list((tmp_path / "wheels").iterdir()), "what the user brought is not deleted"
    assert list(empty_cache.iterdir()) == []


def test_headers_without_a_version_are_missing(tmp_path: Path) -> None:
    header = tmp_path / "include/hip/hip_version.h"
    with pytest.raises(MissingDependency, match="tells no version"):
        locate.hip_version(tmp_path)
    header.parent.mkdir(parents=True)
    header.write_text("#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR    2\n")
    with pytest.raises(MissingDependency, match="tells no version"):
        locate.hip_version(tmp_path)
    header.write_text(header.read_text() + "#define HIP_VERSION_PATCH\t26015\n")
    assert locate.hip_version(tmp_path) == ("7", "2", "26015")


def test_a_missing_compiler_is_the_same_error_before_and_after_the_tree(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(locate, "find_tool", lambda _: None)
    problems = []
    for get in (build_tree, locate.require_compiler):
        with pytest.raises(MissingDependency) as caught:
            get()
        problems.append(str(caught.value))
    assert problems[0] == problems[1] and "clang-22" in problems[0]


def test_a_wheel_that_cannot_be_fetched_is_one_clear_line(empty_cache: Path) -> None:
    lines: list[str] = []
    with pytest.raises(MissingDependency) as caught:
        build_tree(lines.append)
    assert len(lines) == 1
    assert "286 MB" in lines[0]
    assert "triton 3.9.0" in caught.value.what
    assert "HIPSYNTH_WHEELS" in caught.value.remedy
    assert list(empty_cache.iterdir()) == []


def test_an_incomplete_tree_is_rebuilt(empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_table(monkeypatch, fake_wheels(tmp_path / "wheels"))
    half = locate.tree_path()
    (half / "include").mkdir(parents=True)
    (half / "include/rubbish.h").touch()
    built = build_tree(wheels=tmp_path / "wheels")
    assert built == half
    assert not (built / "include/rubbish.h").exists()
    assert locate.read_manifest(built) is not None


def test_an_existing_tree_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    find_toolchain()

    def never(*_: object) -> None:
        raise AssertionError("a wheel is taken although the tree is there")

    monkeypatch.setattr(header_tree, "_take_wheel", never)
    assert locate.read_manifest(build_tree()) is not None


def test_a_tree_knows_when_it_was_used_last() -> None:
    tree = Path(locate.find_toolchain().root)
    os.utime(tree, (0, 0))
    locate._find_cached.cache_clear()
    locate.find_toolchain()
    assert tree.stat().st_mtime > 0


def test_another_architecture_needs_no_wheel_again(
    empty_cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A tree of the same wheels is reused for what they gave; one of other wheels is not."""
    rows = fake_wheels(tmp_path / "wheels")
    use_table(monkeypatch, rows)
    old = build_tree(wheels=tmp_path / "wheels")
    header = (old / "include/hip/deep/a.h").read_text()
    table = dict(locate.read_inputs())
    monkeypatch.setattr(locate, "read_inputs", lambda: table | {"archs": {**table["archs"], "gfx908": 9008}})

    def never(*_: object) -> int:
        raise AssertionError("a wheel is taken although a tree holds its files")

    with monkeypatch.context() as patch:
        patch.setattr(header_tree, "_take_wheel", never)
        built = build_tree()
    assert built != old and old.exists(), "another installation may use it"
    os.utime(old, (0, 0))
    header_tree._remove_unused(built)
    assert built.exists() and not old.exists()
    assert (built / "include/hip/deep/a.h").read_text() == header
    assert (built / "amdgcn/bitcode/oclc_isa_version_908.bc").exists()
    assert [wheel["files"] for wheel in json.loads((built / "manifest.json").read_text())["wheels"]] == [3, 1]
    newer = [rows[0] | {"version": "2.0"}, rows[1]]
    monkeypatch.setattr(locate, "read_inputs", lambda: table | {"wheels": newer})
    monkeypatch.setattr(header_tree, "_take_wheel", never)
    with pytest.raises(AssertionError):
        build_tree()


def test_the_same_wheels_make_the_same_tree(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    rows = fake_wheels(tmp_path / "wheels")
    use_table(monkeypatch, rows)
    identities = []
    for name in ("one", "two"):
        monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path / name))
        manifest = locate.read_manifest(build_tree(wheels=tmp_path / "wheels"))
        assert manifest is not None
        identities.append(manifest["identity"])
    assert identities[0] == identities[1]
