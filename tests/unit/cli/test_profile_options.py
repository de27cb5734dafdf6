"""Options of `synth profile` and `synth survey`: durations, and what excludes what."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from hipsynth.cli.options import LEAST_BUDGET, MOST_BUDGET, Duration, ShapeType, parse_units, parse_values
from hipsynth.cli.profile import command as profile
from hipsynth.cli.survey import command as survey
from hipsynth.cli.traces import command as traces
from hipsynth.cli.train import command as train
from hipsynth.core.errors import UsageError

DURATION = Duration(LEAST_BUDGET, MOST_BUDGET)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30", 30), ("30s", 30), ("2m", 120), ("1.5m", 90), ("1h", 3600), (" 5s ", 5), ("1", 1)]
)
def test_durations(text: str, seconds: float) -> None:
    assert DURATION.convert(text, None, None) == seconds


@pytest.mark.parametrize(
    "text", ["", "s", "-3", "3 s", "1e3", "nan", "inf", "30 seconds", "3ms", "0", "0.5s", "25h", "²"]
)
def test_what_is_no_duration_is_refused_with_advice(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"seconds such as 30 or 30s|is not between 1s and 24h"):
        DURATION.convert(text, None, None)


def test_values_of_arguments() -> None:
    values = parse_values(("n=0x10", "a=-2", "m=1e3", "f=2.5"))
    assert values == {"n": 16, "a": -2, "m": 1000.0, "f": 2.5} and type(values["n"]) is int
    for text in ("n", "n=", "n=many", "n=nan", "n=1e400", f"n={10**30}"):
        with pytest.raises(UsageError, match="--value"):
            parse_values((text,))


def test_a_wrong_budget_is_a_usage_error(tmp_path: Path) -> None:
    for verb in (profile, survey):
        done = CliRunner().invoke(verb, [str(tmp_path), "--budget", "soon"])
        assert done.exit_code == 2 and "no duration" in done.output


def test_a_time_limit_is_one_that_the_system_can_count(tmp_path: Path) -> None:
    for verb in (profile, survey):
        done = CliRunner().invoke(verb, [str(tmp_path), "--timeout", "1e20"])
        assert done.exit_code == 2 and "is not in the range" in done.output


@pytest.mark.parametrize(
    ("words", "says"), [(("--per-kernel", "3"), "excludes --per-kernel"), (("--backend", "rocprof"), "the simulator")]
)
def test_options_that_exclude_a_budget(words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(profile, [str(tmp_path), "--budget", "30s", *words])
    assert isinstance(done.exception, UsageError) and says in str(done.exception)


def test_shrink_needs_a_budget(tmp_path: Path) -> None:
    done = CliRunner().invoke(survey, [str(tmp_path), "--shrink"])
    assert isinstance(done.exception, UsageError) and done.exception.remedy


@pytest.mark.parametrize(("name", "words", "says"), [
    ("a.hip", (), "for Python scripts"), ("a.py", ("--backend", "rocprof"), "on the simulator"),
    ("folder", ("--out", "corpus"), "for one program"),
])  # fmt: skip
def test_where_an_autotune_cache_is_refused(name: str, words: tuple[str, ...], says: str, tmp_path: Path) -> None:
    place = tmp_path / name
    place.write_text("") if place.suffix else place.mkdir()
    done = CliRunner().invoke(profile, [str(place), "--autotune-cache", str(tmp_path / "results"), *words])
    assert isinstance(done.exception, UsageError) and says in str(done.exception)


@pytest.mark.parametrize(
    "words", [("-D", "N=4096"), ("-I", "include"), ("--kernel", "k"), ("--value", "n=4"), ("--csv",)]
)
def test_what_a_corpus_would_leave_out_is_refused(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.hip").write_text("int main() {}\n")
    done = CliRunner().invoke(profile, [str(tmp_path), "--out", str(tmp_path / "corpus"), *words])
    assert isinstance(done.exception, UsageError) and words[0] in str(done.exception)
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("words", [("-D", "N=1"), ("--backend", "sim")])
def test_an_open_quote_in_flags_is_a_usage_error(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "a.hip").write_text("int main() {}\n")
    for place in (tmp_path, tmp_path / "a.hip"):
        done = CliRunner().invoke(profile, [str(place), "--flags=-O3 'x", *words])
        assert isinstance(done.exception, UsageError) and "'x" in str(done.exception)


@pytest.mark.parametrize(("verb", "words", "says"), [
    (train, ("--config", "analytic", "--max-steps", "5"), "--max-steps"),
    (traces, ("--task", "predict", "--arch", "gfx90a"), "--arch"),
])  # fmt: skip
def test_options_of_another_task_are_refused(
    verb: click.Command, words: tuple[str, ...], says: str, tmp_path: Path
) -> None:
    done = CliRunner().invoke(verb, [str(tmp_path), "--out", str(tmp_path / "out"), *words])
    assert isinstance(done.exception, UsageError) and says in str(done.exception)


def test_sampling_units() -> None:
    assert [parse_units(text, False, None, 12) for text in ("auto", "2", "1000")] == [12, 2, 1000]
    assert parse_units("auto", True, None, 12) == 0
    for text in ("1", "0", "-3", "many", "1001"):
        with pytest.raises(UsageError, match=f"--sample {text}: no number of sampling units") as caught:
            parse_units(text, False, None, 12)
        assert "two at least" in caught.value.cause and "2 to 1000" in caught.value.remedy
    with pytest.raises(UsageError, match="--exact excludes"):
        parse_units("4", True, None, 12)


@pytest.mark.parametrize("text", ["16,8", "16x8", "16x8x1", "16,8,1"])
def test_shapes_are_written_with_commas_or_as_tables_print_them(text: str) -> None:
    assert ShapeType().convert(text, None, None) == (16, 8, 1)


@pytest.mark.parametrize("text", ["16x", "x", "1x2x3x4", "0x2", "16 8"])
def test_what_is_no_shape_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a shape such as 256, 16,16 or 16x16"):
        ShapeType().convert(text, None, None)
