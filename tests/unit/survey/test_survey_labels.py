"""The records of surveyed programs: source, licence, identity."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.profiling.survey.labels import NOT_KNOWN, licence_of, program_record, source_text
from hipsynth.profiling.survey.plan import BuildPlan, Program, SourceUnit
from hipsynth.synth.core.program import check_record, text_id

MIT = "Permission is hereby granted, free\n of charge, to any person"


@pytest.mark.parametrize(
    ("files", "text", "licence"),
    [
        ({}, "int main() {}", NOT_KNOWN),
        ({}, "// SPDX-License-Identifier: GPL-2.0-only", "GPL-2.0-only"),
        ({"LICENSE": MIT}, "int main() {}", "MIT"),
        ({"LICENSE": MIT, "a/license.txt": "Apache License 2.0"}, "int main() {}", "Apache-2.0"),
        ({"LICENSE": MIT}, "// SPDX-License-Identifier: BSD-3-Clause", "BSD-3-Clause"),
        ({"LICENSE": "all rights reserved"}, "/* Redistributions of source code must */", "BSD-2-Clause"),
    ],
)
def test_the_nearest_licence_counts(files: dict[str, str], text: str, licence: str, tmp_path: Path) -> None:
    (tmp_path / "root/a").mkdir(parents=True)
    (tmp_path / "LICENSE").write_text("GNU GENERAL PUBLIC LICENSE")  # outside the surveyed folder
    for name, words in files.items():
        (tmp_path / "root" / name).write_text(words)
    assert licence_of(text, tmp_path / "root/a", tmp_path / "root") == licence


def test_a_program_of_several_files_is_one_text(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text("int main() {}\n")
    (tmp_path / "k.hip").write_text("void k() {}\n")
    units = tuple(SourceUnit(tmp_path / name) for name in ("main.hip", "k.hip"))
    plan = BuildPlan("p", units, tmp_path, "make")
    text = source_text(plan)
    assert text == "// file: main.hip\nint main() {}\n\n// file: k.hip\nvoid k() {}\n"
    record = program_record(Program("main.hip", tmp_path / "main.hip"), plan, tmp_path, ("512",))
    check_record({name: value for name, value in record.items() if name != "text"})
    assert record["id"] == text_id(text) and record["params"]["path"] == "main.hip"
    assert source_text(BuildPlan("p", units[:1], tmp_path, "make")) == "int main() {}\n"


def test_a_program_in_another_size_belongs_to_its_original(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text("const int n = 512; int main() {}\n")
    plan = BuildPlan("p", (SourceUnit(tmp_path / "main.hip"),), tmp_path, "make")
    program = Program("main.hip", tmp_path / "main.hip")
    record = program_record(program, plan, tmp_path, (), base="0123456789abcdef", change="n=512")
    check_record({name: value for name, value in record.items() if name != "text"})
    assert record["lineage"] == "0123456789abcdef" != record["id"]
    assert record["derivation"] == ["constants:n=512"]
