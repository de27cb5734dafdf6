"""What holds for every verb: help with an example, --json, exit codes; and the reference page says what they take."""

from __future__ import annotations

import json
from pathlib import Path

import click
import pytest

from hipsynth.cli.exit_codes import EXIT_CODES
from hipsynth.cli.main import RESUMED_BY, VERBS, cli, keeps_finished_work, main
from hipsynth.cli.reference import PAGE, render_page

MISSING = {
    "generate": ("--count", "1", "--out", "{file}/below"),
    "llm": ("--url", "http://127.0.0.1:9", "--model", "m", "--out", "{file}/below"),
    "augment": ("{none}",),
    "profile": ("{none}.hip",),
    "compare": ("{none}.hip", "{none}.hip"),
    "run": ("{none}.hip",),
    "survey": ("{none}",),
    "stats": ("{none}",),
    "release": ("verify", "{none}"),
    "export": ("{none}", "--out", "{none}.jsonl"),
    "train": ("{none}", "--config", "tiny-cpu", "--out", "{none}-model"),
    "evaluate": ("{none}", "{none}"),
    "predict": ("{none}.hip",),
    "optimize": ("{none}.hip",),
    "verify": ("{none}.hip", "{file}"),
    "swizzle": ("{none}.hip",),
    "traces": ("{none}", "--out", "{none}-traces"),
    "serve": ("--port", "0", "--model", "{none}"),
    "report": ("{none}", "--out", "{none}.html"),
}


def command(verb: str) -> click.Command:
    found = cli.get_command(click.Context(cli), verb)
    assert found is not None
    return found


def options(verb: str) -> dict[str, click.Option]:
    """The options of a verb; of one with parts, those that all of its parts have."""
    whole = command(verb)
    parts = list(whole.commands.values()) if isinstance(whole, click.Group) else [whole]
    found = [{name: p for p in part.params if isinstance(p, click.Option) for name in p.opts} for part in parts]
    return {name: option for name, option in found[0].items() if all(name in other for other in found)}


def run(*words: str) -> int:
    with pytest.raises(SystemExit) as caught:
        main(list(words))
    return int(caught.value.code or 0)


@pytest.mark.parametrize("verb", VERBS)
def test_a_verb_has_help_with_an_example_and_json(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb, "--help") == 0
    assert f"  synth {verb}" in capsys.readouterr().out.partition("Examples:")[2]
    assert "--json" in options(verb)


@pytest.mark.parametrize("part", ["make", "pack", "verify"])
def test_a_part_of_release_has_examples(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("release", part, "--help") == 0
    assert f"  synth release {part}" in capsys.readouterr().out.partition("Examples:")[2]


@pytest.mark.parametrize("verb", VERBS)
def test_an_unknown_option_is_a_usage_error(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(verb, "--colour", "--json") == 2
    assert json.loads(capsys.readouterr().out)["error"] == "usage"


def test_every_verb_that_reads_something_is_listed() -> None:
    assert set(VERBS) - set(MISSING) == {"doctor", "lsp", "mcp"}


@pytest.mark.parametrize("verb", MISSING)
def test_a_missing_input_is_bad_input(verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    words = [word.format(none=tmp_path / "none", file=tmp_path / "file") for word in MISSING[verb]]
    assert run(verb, *words, "--json") == 3
    assert set(json.loads(capsys.readouterr().out)) == {"error", "message", "cause", "remedy"}


def test_an_option_means_the_same_on_every_verb() -> None:
    """Of what several verbs share, only the default differs."""
    for name in ("--sandbox", "--caches", "--memory", "--workers", "--json"):
        found = [options(verb)[name] for verb in VERBS if name in options(verb)]
        assert len(found) > 1 and len({(o.help, tuple(o.secondary_opts)) for o in found}) == 1, name
    with_arch = {verb for verb in VERBS if "--arch" in options(verb)}
    assert {
        "run",
        "profile",
        "compare",
        "survey",
        "predict",
        "llm",
        "optimize",
        "verify",
        "swizzle",
        "mcp",
        "traces",
    } == with_arch
    assert all("--device" in options(verb) for verb in with_arch)
    assert all("--sandbox" in options(verb) for verb in ("run", "profile", "survey"))


def test_the_reference_page_is_fresh() -> None:
    assert PAGE.read_text() == render_page(), "run: python -m hipsynth.cli.reference"
    assert set(EXIT_CODES) >= {0, 1, 2, 3, 4, 5}


def test_an_option_is_a_flag_on_every_verb_or_takes_a_value_on_every_verb() -> None:
    """`--check` executes or compiles something besides; `--budget` is an amount of work, `--clock` a time."""
    kinds: dict[str, set[tuple[bool, str]]] = {}
    for verb in VERBS:
        for name, option in options(verb).items():
            kinds.setdefault(name, set()).add((option.is_flag, type(option.type).__name__))
    for name in ("--check", "--check-args", "--budget", "--clock", "--kernel", "--timeout", "--value"):
        assert len(kinds[name]) == 1, (name, kinds[name])
    assert [verb for verb in VERBS if "--check" in options(verb)] == ["predict", "doctor"]
    work = [options(verb)["--budget"] for verb in VERBS if "--budget" in options(verb)]
    assert all(str(option.help).startswith("Work ") for option in work)


def test_only_a_command_that_goes_on_says_so_when_it_is_interrupted() -> None:
    assert keeps_finished_work(["generate", "--count", "9", "--out", "programs"])
    assert keeps_finished_work(["optimize", "k.hip", "--journal=j"])
    for command in (
        ["verify", "a.hip", "b.hip"],
        ["profile", "k.hip", "--json"],
        ["optimize", "k.hip", "--out", "f.hip"],
    ):
        assert not keeps_finished_work(command), command
    assert all(options(verb).keys() >= set(names) for verb, names in RESUMED_BY.items() if verb != "release")


def test_help_has_the_table_of_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("--help") == 0
    printed = " ".join(capsys.readouterr().out.split())
    for code, meaning in EXIT_CODES.items():
        assert f" {int(code)} {meaning}" in printed


def test_a_misspelled_name_gets_a_near_one(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "k.hip").write_text("__global__ void f(float* in) { in[0] = 1; }\n")
    for words, near in (
        (("predict", str(tmp_path / "k.hip"), "--arch", "gfx9042"), "gfx942"),
        (("predict", str(tmp_path / "k.hip"), "--device", "mi300"), "mi300x"),
        (("generate", "--count", "1", "--out", str(tmp_path / "o"), "--family", "stencl1d"), "stencil1d"),
        (("profile", str(tmp_path / "k.hip"), "--backend", "simm"), "sim"),
    ):
        assert run(*words) == 2
        assert f"did you mean {near}?" in capsys.readouterr().err


def test_a_misspelled_verb_gets_a_near_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("profle", "k.hip") == 2
    assert "did you mean profile?" in capsys.readouterr().err
    assert run("-V") == 0 and "hipsynth" not in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--value", "--sweep"])
def test_predict_refuses_names_that_no_kernel_has(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "k.hip").write_text("__global__ void f(float* in, int length) { in[length] = 1; }\n")
    assert run("predict", str(tmp_path / "k.hip"), option, "lenght=3") == 2
    assert "did you mean length?" in capsys.readouterr().err


def test_a_second_file_of_a_prediction_is_no_argument_of_the_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / name for name in ("a.hip", "b.hip")]
    for file in files:
        file.write_text("__global__ void f(float* a) { a[threadIdx.x] = 1; }\n")
    assert run("predict", *map(str, files)) == 2
    assert f"{files[1]}: synth predict takes one file" in capsys.readouterr().err
