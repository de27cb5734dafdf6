"""Writes the C++ side of the architecture table; run by the build.

Usage: python generate.py OUT_DIR
Output: architectures.h (enum Arch, struct ArchTraits, look-up by name), device_spec.h (struct Spec).
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # run as a script by the build

from hipsynth.core.errors import BadInput
from hipsynth.core.files import write_if_changed
from hipsynth.simulator.devices import Fact, default_device, load_architectures, load_device

PYTHON_ONLY = {"default_device", "recorded"}
CPP_TYPES: dict[type, str] = {bool: "bool", int: "uint32_t", str: "const char*"}


def cpp_literal(value: Fact) -> str:
    """The fact as a C++ literal."""
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def architectures_header(table: Mapping[str, Mapping[str, Fact]]) -> str:
    """The text of architectures.h: enum Arch in the table's order, and a row of struct ArchTraits for each member."""
    table = {arch: {k: v for k, v in facts.items() if k not in PYTHON_ONLY} for arch, facts in table.items()}
    fields = next(iter(table.values()))
    members = "".join(f"  {CPP_TYPES[type(value)]} {key};\n" for key, value in fields.items())
    rows = "".join(
        f'    {{.name = "{arch}", ' + ", ".join(f".{k} = {cpp_literal(v)}" for k, v in facts.items()) + "},\n"
        for arch, facts in table.items()
    )
    return (
        "// Generated from simulator/devices/architectures.toml by generate.py.\n#pragma once\n\n"
        "#include <cstddef>\n#include <cstdint>\n#include <stdexcept>\n#include <string>\n\n"
        f"namespace hipsynth {{\n\nenum class Arch : uint8_t {{ {', '.join(table)} }};\n"
        f"inline constexpr size_t kArchs = {len(table)};\n\n"
        f"struct ArchTraits {{\n  const char* name;\n{members}}};\n\n"
        f"inline constexpr ArchTraits kArchTraits[kArchs] = {{\n{rows}}};\n\n"
        "constexpr const ArchTraits& traits(Arch arch) { return kArchTraits[static_cast<size_t>(arch)]; }\n\n"
        "// Throws std::invalid_argument, with the names that there are.\n"
        "inline Arch parse_arch(const std::string& name) {\n"
        "  for (size_t i = 0; i < kArchs; ++i) {\n"
        "    if (name == kArchTraits[i].name) return static_cast<Arch>(i);\n  }\n"
        f'  throw std::invalid_argument("unknown architecture " + name + ": {" or ".join(table)}");\n}}\n\n'
        "}  // namespace hipsynth\n"
    )


def spec_header(architectures: Iterable[str]) -> str:
    """The text of device_spec.h: struct Spec with one member per constant, and its members by "section.key".

    Raises BadInput if the devices do not all have the same constants.
    """
    constants = {arch: list(load_device(default_device(arch)).constants) for arch in architectures}
    keys = next(iter(constants.values()))
    for arch, constant_names in constants.items():
        if different := set(constant_names) ^ set(keys):
            raise BadInput(f"{default_device(arch)}: not every device has {', '.join(sorted(different))}")
    sections: dict[str, list[str]] = {}
    for key in keys:
        section, name = key.split(".")
        sections.setdefault(section, []).append(name)
    members = "".join(
        "  struct {\n" + "".join(f"    double {name} = 0;\n" for name in names) + f"  }} {section};\n"
        for section, names in sections.items()
    )
    entries = "".join(f'    {{"{key}", [](Spec& spec) -> double& {{ return spec.{key}; }}}},\n' for key in keys)
    return (
        "// Generated from simulator/devices/*.toml by generate.py.\n#pragma once\n\nnamespace hipsynth {\n\n"
        f"// The constants of one device; units and sources stand in its table.\nstruct Spec {{\n{members}}};\n\n"
        "struct SpecEntry {\n  const char* key;\n  double& (*value)(Spec&);\n};\n\n"
        f"inline constexpr SpecEntry kSpecEntries[] = {{\n{entries}}};\n\n}}  // namespace hipsynth\n"
    )


def main(out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    write_if_changed(out / "architectures.h", architectures_header(load_architectures()))
    write_if_changed(out / "device_spec.h", spec_header(load_architectures()))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
