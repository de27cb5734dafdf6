"""The profiling matrix: what --arch, --flags and --device select."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hipsynth.core.errors import UsageError
from hipsynth.profiling.backends.protocol import Target
from hipsynth.profiling.matrix import targets


def test_defaults_are_both_architectures_with_the_papers_flags() -> None:
    wanted, excluded = targets.select_targets()
    flags = ("-O3", "-O3 -ffast-math", "-O3 -munsafe-fp-atomics")
    assert wanted == tuple(
        Target(arch, flag, device) for arch, device in (("gfx90a", "mi250"), ("gfx942", "mi300x")) for flag in flags
    )
    assert excluded == ()


def test_names_of_targets_ignore_case() -> None:
    assert targets.resolve_devices(["GFX942"], ["MI300X"]) == (("gfx942", "mi300x"),)


def test_literal_flags_tags_and_repeats() -> None:
    assert targets.resolve_flags(["-O3", " -O3 ", "--std=c++17  -O3 -ffast-math", "@default"]) == (
        "-O3",
        "--std=c++17 -O3 -ffast-math",
        "-O3 -ffast-math",
        "-O3 -munsafe-fp-atomics",
    )
    assert len(targets.resolve_flags(["@all"])) == len(targets.load_matrix().flags)


@pytest.mark.parametrize(
    "bad", ["-O9", "-O3 -fplugin=x.so", "-include /etc/passwd", "-o x", "", "x.hip", "-D", "@nothing"]
)
def test_unknown_flags_are_refused_with_the_list(bad: str) -> None:
    with pytest.raises(UsageError) as caught:
        targets.resolve_flags([bad])
    assert "-O3" in caught.value.remedy or "@default" in caught.value.remedy


def test_a_device_selects_its_architecture() -> None:
    assert targets.resolve_devices([], ["mi210"]) == (("gfx90a", "mi210"),)
    assert targets.resolve_devices(["gfx942", "gfx90a"], ["mi210", "mi250x"]) == (
        ("gfx942", "mi300x"),
        ("gfx90a", "mi210"),
        ("gfx90a", "mi250x"),
    )


@pytest.mark.parametrize(("archs", "devices"), [(["gfx1100"], []), ([], ["h100"]), (["gfx942"], ["mi210"])])
def test_unknown_or_contradicting_devices(archs: list[str], devices: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        targets.resolve_devices(archs, devices)
    assert caught.value.remedy


def test_exclusions_need_a_reason_and_apply_by_every_key() -> None:
    exclusion = targets.TargetExclusion("says nothing", arch="gfx942", flags="-O2")
    table = replace(targets.load_matrix(), exclude=(exclusion,))
    targets.check_matrix(table)
    assert targets.find_exclusion(Target("gfx942", "-O2", "mi300x"), table) == "says nothing"
    assert targets.find_exclusion(Target("gfx90a", "-O2", "mi250"), table) is None
    for bad in (targets.TargetExclusion("", arch="gfx942"), targets.TargetExclusion("all")):
        with pytest.raises(ValueError, match="exclusion"):
            targets.check_matrix(replace(table, exclude=(bad,)))


def test_a_flag_set_must_be_allowed() -> None:
    table = targets.TargetMatrix((targets.FlagSet("-O3 -fplugin=x", (), ""),))
    with pytest.raises(UsageError, match="fplugin"):
        targets.check_matrix(table)
