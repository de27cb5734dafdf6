"""The profiling matrix: converts `--arch`, `--flags` and `--device` into targets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from hipsynth.core.errors import UsageError
from hipsynth.core.program import Program
from hipsynth.core.tables import read_table
from hipsynth.profiling.backends.protocol import Target
from hipsynth.simulator.devices import default_device, load_device, recorded_architectures
from hipsynth.toolchain import check_flags

TABLE_PATH = Path(__file__).with_name("matrix.toml")


@dataclass(frozen=True)
class FlagSet:
    """One row of compiler flags with its tags."""

    flags: str
    tags: tuple[str, ...]
    doc: str


@dataclass(frozen=True)
class TargetExclusion:
    """Targets to leave out, and why; what is "" may be anything."""

    reason: str
    arch: str = ""
    flags: str = ""
    device: str = ""

    def excludes(self, target: Target) -> bool:
        """Whether the row is about a target."""
        pairs = (self.arch, target.arch), (self.flags, target.flags), (self.device, target.device)
        return all(excluded in ("", actual) for excluded, actual in pairs)


@dataclass(frozen=True)
class TargetMatrix:
    """The content of matrix.toml: flag sets and excluded cells."""

    flags: tuple[FlagSet, ...]
    exclude: tuple[TargetExclusion, ...] = ()


@cache
def load_matrix() -> TargetMatrix:
    """The flag sets and excluded targets of matrix.toml."""
    table = read_table(TABLE_PATH, TargetMatrix)
    check_matrix(table)
    return table


def check_matrix(table: TargetMatrix) -> None:
    """Raises ValueError for an exclusion without a target or a reason, UsageError for a flag that is not allowed."""
    for row in table.exclude:
        if not row.reason or not (row.arch or row.flags or row.device):
            raise ValueError(f"matrix exclusion {row}: wants arch, flags or device, and a reason")
    for flag_set in table.flags:
        check_flags(flag_set.flags)


def resolve_flags(flag_texts: Sequence[str]) -> tuple[str, ...]:
    """Expands values of --flags: literal flags, or @TAG for all flag sets with that tag. Duplicates are removed.

    Raises UsageError for an unknown tag or flag.
    """
    table = load_matrix()
    flag_sets: list[str] = []
    for value in flag_texts:
        if value.startswith("@"):
            tagged = [row.flags for row in table.flags if value[1:] in row.tags or value == "@all"]
            if not tagged:
                tags = sorted({tag for row in table.flags for tag in row.tags} | {"all"})
                raise UsageError(f"no flag sets tagged {value!r}", remedy="one of: " + ", ".join(f"@{t}" for t in tags))
            flag_sets += tagged
        else:
            flag_sets.append(check_flags(value))
    return tuple(dict.fromkeys(flag_sets))


def resolve_devices(archs: Sequence[str], devices: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """(arch, device) pairs for the given devices, or for the default device of each architecture with recordings. Names
    may be in any case. Raises UsageError for an unknown one."""
    archs, devices = [arch.lower() for arch in archs], [device.lower() for device in devices]
    for arch in archs:
        default_device(arch)
    arch_of_device = {device: load_device(device).arch for device in devices}
    for device, arch in arch_of_device.items():
        if archs and arch not in archs:
            raise UsageError(
                f"device {device} is {arch}, which is not among the architectures: {', '.join(archs)}",
                remedy=f"add {arch}, or leave out {device}",
            )
    wanted = list(archs) or ([] if devices else recorded_architectures())
    pairs = []
    for arch in dict.fromkeys([*wanted, *arch_of_device.values()]):
        named = [device for device in arch_of_device if arch_of_device[device] == arch]
        pairs += [(arch, device) for device in named or [default_device(arch)]]
    return tuple(pairs)


def select_targets(
    archs: Sequence[str] = (), flags: Sequence[str] = (), devices: Sequence[str] = ()
) -> tuple[tuple[Target, ...], tuple[tuple[Target, str], ...]]:
    """The targets to profile, and the excluded ones with their reasons.

    Default: the architectures with recordings, @default flags.

    Raises UsageError, listing the valid values, for an unknown architecture, flag, tag or device.
    """
    pairs = resolve_devices(archs, devices)
    wanted, left_out = [], []
    for arch, device in pairs:
        for flag_string in resolve_flags(flags or ("@default",)):
            target = Target(arch=arch, flags=flag_string, device=device)
            reason = find_exclusion(target, load_matrix())
            if reason is None:
                wanted.append(target)
            else:
                left_out.append((target, reason))
    return tuple(wanted), tuple(left_out)


def find_exclusion(target: Target, table: TargetMatrix) -> str | None:
    """The reason why a target is excluded, or None."""
    return next((row.reason for row in table.exclude if row.excludes(target)), None)


def targets_of(program: Program, targets: Sequence[Target]) -> tuple[Target, ...]:
    """The targets that differ for a program: compiler flags are for HIP, so a script has one for each device."""
    if not program.is_script:
        return tuple(targets)
    return tuple(dict.fromkeys(replace(target, flags="") for target in targets))
