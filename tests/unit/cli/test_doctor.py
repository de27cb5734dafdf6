"""`synth doctor` lists every part with its version, and for missing parts the consequence and a remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from click.testing import CliRunner

from hipsynth.cli import doctor_checks
from hipsynth.cli.doctor import command
from hipsynth.toolchain import sandbox

EXPECTED = {
    "python", "clang", "lld", "llvm-objdump", "libclang", "header tree", "fp16", "bf16", "cooperative groups", "thrust",
    "simulator core", "HIP runtime library", "bubblewrap", "torch", "transformers", "peft", "deepspeed", "lightgbm",
    "ray", "rocprof", "AMD GPU", "user of programs", "network", "visible files", "memory limit", "process limit",
    "system calls",
}  # fmt: skip


def test_every_part_is_listed_once_with_the_effect_of_its_absence() -> None:
    components = doctor_checks.examine_components()
    names = [part.name for part in components]
    assert set(names) >= EXPECTED
    assert len(names) == len(set(names))
    for part in components:
        assert part.status in ("ok", "missing", "broken")
        assert part.cost
        assert part.remedy
        assert part.version or part.status == "missing", part


def test_the_compiler_and_headers_are_found_with_their_versions() -> None:
    parts = {part.name: part for part in doctor_checks.examine_components()}
    assert parts["clang"].version.startswith("22.")
    assert parts["lld"].version.startswith("22.")
    assert parts["llvm-objdump"].version.startswith("22.")
    assert parts["header tree"].version.startswith("HIP 7.1")


def test_without_the_header_tree_the_exit_code_is_4(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIPSYNTH_CACHE", str(tmp_path))
    monkeypatch.delenv("ROCM_PATH", raising=False)
    ran = CliRunner().invoke(command, ["--json"], standalone_mode=False)
    assert ran.return_value == 4
    document = json.loads(ran.stdout)
    assert document["ok"] is False
    tree = next(part for part in document["components"] if part["name"] == "header tree")
    assert (tree["status"], tree["required"]) == ("missing", True)
    assert "make setup" in tree["remedy"]


def test_the_table_names_what_is_missing_and_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [
        doctor_checks.Component("one", "base", "ok", "1.0", True, "everything", "make setup"),
        doctor_checks.Component("two", "base", "missing", "", True, "half of it", "apt-get install two"),
    ]
    monkeypatch.setattr(doctor_checks, "examine_components", lambda compile_headers: parts)
    ran = CliRunner().invoke(command, [], standalone_mode=False)
    assert ran.return_value == 4
    assert "half of it" in ran.output
    assert "apt-get install two" in ran.output
    assert "1 required part(s) missing: two" in ran.output


def test_a_tool_that_does_not_run_is_broken_not_a_crash(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "clang"
    fake.write_text("#!/bin/sh\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(doctor_checks.locate, "find_tool", lambda _name: fake)
    parts = {part.name: part for part in doctor_checks.examine_components()}
    assert parts["clang"].status == "broken"
    assert parts["clang"] in doctor_checks.missing_required(list(parts.values()))


def isolation() -> dict[str, doctor_checks.Component]:
    return {part.name: part for part in doctor_checks.examine_components() if part.group == "isolation"}


@pytest.mark.usefixtures("sandboxed")
def test_what_is_enforced_is_what_a_program_in_the_sandbox_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIPSYNTH_CGROUP", raising=False)
    said = {name: (part.status, part.version) for name, part in isolation().items()}
    user = "65534" if os.geteuid() == 0 else f"{os.geteuid()} (yours)"
    assert said["user of programs"] == ("ok", f"{user}, without capabilities")
    assert said["network"] == ("ok", "none") and said["system calls"] == ("ok", "filtered (seccomp)")
    assert said["memory limit"] == said["process limit"] == ("ok", "polled every 20 to 100 ms")
    assert said["visible files"] == ("ok", "its own folder, the compiler's and /usr")


def test_why_isolation_does_not_work_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox.bubblewrap, "why_unavailable", lambda: "no namespaces here")
    parts = isolation()
    assert {part.status for part in parts.values()} == {"broken"}
    assert {part.version for part in parts.values()} == {"no namespaces here"}


@pytest.mark.usefixtures("sandboxed")
def test_a_bad_control_group_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIPSYNTH_CGROUP", "/nonexistent")
    part = isolation()["memory limit"]
    assert part.status == "broken" and "HIPSYNTH_CGROUP=/nonexistent" in part.version


def test_the_library_that_programs_would_be_linked_with_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    assert doctor_checks._check_runtime() is not None
    monkeypatch.setenv("HIPSYNTH_RUNTIME", "/nowhere/lib.so")
    found = doctor_checks._check_runtime()
    assert found is not None and found.broken
