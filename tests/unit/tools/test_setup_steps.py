"""The set-up script: one line per step, no repeated work, clear errors for unavailable parts."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[3] / "tools" / "setup.py"


@pytest.fixture
def setup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script as a module, working on an empty folder."""
    spec = importlib.util.spec_from_file_location("hipsynth_setup", SCRIPT)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "STAMPS", tmp_path / ".stamps")
    return module


def test_a_step_that_fails_ends_the_set_up_with_one_line(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails() -> str:
        raise setup.StepFailure("it is not there", "get it")

    monkeypatch.setattr(setup, "check_python", lambda: "3.11")
    monkeypatch.setattr(setup, "install_system_packages", fails)
    assert setup.main([]) == 1
    assert capsys.readouterr().out == "python: 3.11\nsystem packages: FAILED: it is not there; get it\n"


def test_an_old_python_is_named(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    with pytest.raises(setup.StepFailure, match=r"3\.9"):
        setup.check_python()


def test_an_optional_package_that_cannot_be_had_is_one_line(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(setup, "is_present", lambda name: name != "bubblewrap")
    monkeypatch.setattr(setup, "install_with_apt", lambda _names: "apt-get could not install it")
    assert setup.install_system_packages() == "nothing installed (apt-get could not install it)"
    out = capsys.readouterr().out
    assert out.count("\n") == 1
    assert "without bubblewrap programs run only with --no-sandbox" in out
    assert "apt-get install bubblewrap" in out


def test_a_required_package_that_cannot_be_had_stops(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "is_present", lambda name: name not in ("clang-22", "bubblewrap"))
    monkeypatch.setattr(setup, "install_with_apt", lambda _names: "neither root nor sudo")
    with pytest.raises(setup.StepFailure) as caught:
        setup.install_system_packages()
    assert "neither root nor sudo" in caught.value.args[0]
    assert "apt-get install clang-22 (from apt.llvm.org" in caught.value.args[1]


def test_packages_of_an_interpreter_are_named_by_its_version(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    default = tmp_path / "python3"
    default.symlink_to("python3.10")
    for version, name in (((3, 10, 4), "python3"), ((3, 12, 1), "python3.12")):
        monkeypatch.setattr(sys, "version_info", version)
        assert setup.name_python_packages(default) == name


def test_without_root_and_sudo_it_says_so(setup: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup.os, "geteuid", lambda: 1000)
    monkeypatch.setattr(setup.shutil, "which", lambda name: "/usr/bin/apt-get" if name == "apt-get" else None)
    assert setup.install_with_apt(["clang-22"]) == "neither root nor sudo"


def test_a_stamp_is_valid_until_its_inputs_change(setup: ModuleType) -> None:
    assert not setup.has_stamp("step", "inputs")
    setup.write_stamp("step", "inputs")
    assert setup.has_stamp("step", "inputs")
    assert not setup.has_stamp("step", "other inputs")


def test_a_failed_command_shows_its_first_error(setup: ModuleType, tmp_path: Path) -> None:
    command = ["/bin/sh", "-c", "echo fine; echo 'ERROR: no such thing' >&2; exit 1"]
    with pytest.raises(setup.StepFailure) as caught:
        setup.run_or_fail(command, "it failed", "try again")
    assert caught.value.args == ("it failed (ERROR: no such thing)", "try again")
    assert "fine" in (tmp_path / "build/setup.log").read_text()


def test_the_lock_file_pins_everything() -> None:
    lines = (SCRIPT.parents[1] / "requirements.lock").read_text().splitlines()
    pins = [line for line in lines if line and not line.startswith("#")]
    assert all(line.count("==") == 1 and "@" not in line for line in pins)
    assert "torch==2.13.0" in pins
    assert pins == sorted(pins, key=str.lower)


def test_ctrl_c_is_one_line(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted() -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr(setup, "check_python", interrupted)
    assert setup.main([]) == 130
    assert "run `make setup` again" in capsys.readouterr().out


def test_a_tool_that_is_not_there_is_a_failed_step(setup: ModuleType, tmp_path: Path) -> None:
    with pytest.raises(setup.StepFailure, match=r"the build fails .*No such file"):
        setup.run_or_fail([str(tmp_path / "cmake")], "the build fails", "try again")


def test_an_activated_environment_is_left(setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    base = tmp_path / "bin" / f"python{sys.version_info[0]}.{sys.version_info[1]}"
    base.parent.mkdir()
    base.touch()
    started: list[tuple[object, ...]] = []
    monkeypatch.setattr(setup.os, "execv", lambda *call: started.append(call))
    monkeypatch.setattr(sys, "argv", ["tools/setup.py", "--freeze"])
    monkeypatch.setattr(sys, "prefix", "/somewhere/venv")
    monkeypatch.setattr(sys, "base_prefix", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    setup.leave_activated_environment()
    assert started == [(base, [str(base), "tools/setup.py", "--freeze"])]
    assert "PYTHONPATH" not in setup.os.environ
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    setup.leave_activated_environment()
    assert len(started) == 1


def test_a_moved_checkout_gets_another_environment(
    setup: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def make(command: list[str], *_: str) -> None:
        folder = Path(command[-1])
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin" / "python").touch()
        (folder / "pyvenv.cfg").write_text(f"command = {' '.join(command)}\n")

    monkeypatch.setattr(setup, "run_or_fail", make)
    for name, message in (("here", "made .venv"), ("here", ".venv"), ("moved", "made .venv"), ("moved", ".venv")):
        if name == "moved" and not (tmp_path / name).exists():
            (tmp_path / "here").rename(tmp_path / name)
        monkeypatch.setattr(setup, "VENV", tmp_path / name / ".venv")
        monkeypatch.setattr(setup, "PYTHON", tmp_path / name / ".venv" / "bin" / "python")
        monkeypatch.setattr(setup, "STAMPS", tmp_path / name / ".venv" / ".stamps")
        assert setup.make_environment() == message
