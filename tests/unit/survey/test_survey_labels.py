"""The records of surveyed programs: source, licence, identity."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from corpus_samples import item, kernel
from profiling_samples import program

from hipsynth.cli.survey import _label_writer
from hipsynth.core.program import check_record, text_id
from hipsynth.core.store import Corpus
from hipsynth.profiling.survey.build import code_flags
from hipsynth.profiling.survey.build_plan import BuildPlan, SourceUnit, SurveyedProgram
from hipsynth.profiling.survey.labels import NOT_KNOWN, licence_of, program_record, source_text

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
    text = source_text(plan, tmp_path)
    assert text == "// file: main.hip\nint main() {}\n\n// file: k.hip\nvoid k() {}\n"
    record = program_record(SurveyedProgram("main.hip", tmp_path / "main.hip"), plan, tmp_path, ("512",))
    check_record({name: value for name, value in record.items() if name != "text"})
    assert record["id"] == text_id(text) and record["params"]["path"] == "main.hip"
    assert source_text(BuildPlan("p", units[:1], tmp_path, "make"), tmp_path) == "int main() {}\n"


def test_a_text_holds_its_own_headers_and_macros(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "app").mkdir(parents=True)
    (root / "common").mkdir()
    (tmp_path / "secret.h").write_text("int secret;\n")
    (root / "common/a.h").write_text('#pragma once\n#include "b.h"\nint a;\n')
    (root / "common/b.h").write_text("int b;\n")
    (root / "app/main.hip").write_text(
        '#include <vector>\n#include "a.h"\n  # include "../common/b.h"  // again\n#include "../../secret.h"\n'
        '#include "missing.h"\n#include <c.h>\n#include <main.hip>\nint main() {}\n'
    )
    (root / "common/c.h").write_text("int c;\n")
    unit = SourceUnit(root / "app/main.hip", includes=(root / "common",), defines=("N=4", "FAST"))
    text = source_text(BuildPlan("p", (unit,), root / "app", "make"), root)
    assert text == (
        "#define N 4\n#define FAST 1\n#include <vector>\n// file: a.h\n\n// file: b.h\nint b;\n\nint a;\n\n\n"
        '#include "../../secret.h"\n#include "missing.h"\n// file: c.h\nint c;\n\n#include <main.hip>\nint main() {}\n'
    )


def test_comments_around_includes_of_a_text_stay_whole(tmp_path: Path) -> None:
    main = '/* old:\n#include "util.h"\n*/\n#include "util.h" /* begins\nends */\nint main() {}\n'
    (tmp_path / "main.hip").write_text(main)
    (tmp_path / "util.h").write_text("/* licence */\nint f();  // last")
    plan = BuildPlan("p", (SourceUnit(tmp_path / "main.hip"),), tmp_path, "make")
    quiet = main.partition("*/\n")[0]
    inside = "// file: util.h\n/* licence */\nint f();  // last\n"
    assert source_text(plan, tmp_path) == f"{quiet}*/\n{inside}/* begins\nends */\nint main() {{}}\n"


def test_flags_of_a_label_hold_the_standard_that_its_text_needs(tmp_path: Path) -> None:
    unit = SourceUnit(tmp_path / "main.hip", defines=("N=4",), standard="c++20", options=("-O2",))
    assert code_flags(unit) == "-O2 -std=c++20"
    assert code_flags(replace(unit, standard="")) == "-O2"


def test_a_program_in_another_size_belongs_to_its_original(tmp_path: Path) -> None:
    (tmp_path / "main.hip").write_text("const int n = 512; int main() {}\n")
    plan = BuildPlan("p", (SourceUnit(tmp_path / "main.hip"),), tmp_path, "make")
    program = SurveyedProgram("main.hip", tmp_path / "main.hip")
    record = program_record(program, plan, tmp_path, (), base="0123456789abcdef", change="n=512")
    check_record({name: value for name, value in record.items() if name != "text"})
    assert record["lineage"] == "0123456789abcdef" != record["id"]
    assert record["derivation"] == ["constants:n=512"]


def test_equal_kernels_of_two_programs_have_a_label_each(tmp_path: Path) -> None:
    """Otherwise the one that ends first would have it, and a survey that goes on would not know of the other."""
    items = [replace(item(number), kernels=(kernel(),)) for number in range(2)]
    with _label_writer(tmp_path / "corpus", True) as label:
        assert label is not None
        for number, labelled in enumerate(items):
            label(({**program(number).record(), "text": program(number).text}, labelled))
    rows = Corpus.open(tmp_path / "corpus").measurements().to_pylist()
    assert {row["program_id"] for row in rows} == {labelled.program_id for labelled in items}
