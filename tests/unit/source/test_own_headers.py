"""Headers of a program's own folders, written into its text and taken out again."""

from __future__ import annotations

from pathlib import Path

import pytest

from hipsynth.source.own_headers import find_line, take_out_headers, write_in_headers

PROGRAM = '#include <vector>\n#include "sizes.hpp"\n  #  include "sizes.hpp"  // again\nint main() { return COUNT; }\n'


def write_header_files(folder: Path) -> Path:
    (folder / "common").mkdir()
    (folder / "common" / "sizes.hpp").write_text('#pragma once\n#include "units.hpp"\n#define COUNT UNIT\n')
    (folder / "common" / "units.hpp").write_text('#ifndef UNIT\n#include "sizes.hpp"\n#define UNIT 3\n#endif\n')
    return folder / "common"


def test_headers_are_written_in_where_they_are_included(tmp_path: Path) -> None:
    text = write_in_headers(PROGRAM, tmp_path, [write_header_files(tmp_path)])
    assert "#include <vector>" in text and "#pragma once" not in text and text.count("#define UNIT 3") == 2
    guard = "#ifndef HIPSYNTH_OWN_HEADER_0\n#define HIPSYNTH_OWN_HEADER_0\n"
    assert text.count(guard) == 2, "each place has the guard of the one header that says #pragma once"


def test_headers_that_were_not_changed_are_included_again(tmp_path: Path) -> None:
    text = write_in_headers(PROGRAM, tmp_path, [write_header_files(tmp_path)])
    changed = text.replace("return COUNT", "return COUNT + 1")
    again = PROGRAM.replace("return COUNT", "return COUNT + 1")
    assert take_out_headers(changed) == again
    other = take_out_headers(text.replace("#define UNIT 3", "#define UNIT 4", 1))
    assert other.count("#define UNIT 4") == 1 and "#define UNIT 3" not in other, "what was changed stays written in"


def test_lines_are_found_in_the_files_that_have_them(tmp_path: Path) -> None:
    folder = write_header_files(tmp_path)
    text = write_in_headers(PROGRAM, tmp_path, [folder])
    sizes, units = ((folder / f"{name}.hpp").read_text().splitlines() for name in ("sizes", "units"))
    assert set(PROGRAM.splitlines()[-1:]) < set(text.splitlines())
    for line, row in enumerate(text.splitlines(), 1):
        name, number = find_line(text, line)
        if "own header" not in row and "HIPSYNTH" not in row and row:
            rows = {"": PROGRAM.splitlines(), "sizes.hpp": sizes, "units.hpp": units}[name]
            assert (row == "#endif" and number > len(rows)) or row == rows[number - 1], (line, row, name, number)


def test_a_form_feed_ends_no_line() -> None:
    assert find_line("int a;\n\f// part two\nint b;\x1c\u2028\nint c;\n", 4) == ("", 4)


def test_comments_around_includes_stay_whole(tmp_path: Path) -> None:
    (tmp_path / "util.h").write_text("#pragma once /* a\nb */\n/* licence */\nint f();  // last")
    quiet = '/* old:\n#include "util.h"\n*/\nconst char* text = R"(\n#include "util.h"\n)";\n'
    program = quiet + '#include "util.h" /* begins\nends */\nint main() { return f(); }\n'
    text = write_in_headers(program, tmp_path)
    assert text.startswith(quiet) and text.count("licence") == 1 and take_out_headers(text) == program
    assert "#define HIPSYNTH_OWN_HEADER_0\n/* a\nb */\n" in text
    assert ", before:\n/* begins\nends */\nint main" in text
    at = text.splitlines().index("int main() { return f(); }") + 1
    assert find_line(text, at) == ("", program.splitlines().index("int main() { return f(); }") + 1)


def test_a_header_that_is_nowhere_stays_included(tmp_path: Path) -> None:
    assert write_in_headers(PROGRAM, tmp_path) == PROGRAM
    assert take_out_headers(PROGRAM) == PROGRAM


def test_nothing_outside_of_the_folders_is_written_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, program = tmp_path / "home", tmp_path / "home" / "program"
    for folder in (program, home / ".ssh"):
        folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    for path in (home / ".ssh/key.h", home / "notes.txt", home / "own.h"):
        path.write_text("secret\n")
    (program / "link.h").symlink_to(home / "own.h")
    names = (f"{home}/own.h", "../own.h", "../.ssh/key.h", "link.h")
    text = "".join(f'#include "{name}"\n' for name in names)
    assert write_in_headers(text, program) == text
    at_home = '#include ".ssh/key.h"\n#include "notes.txt"\n'
    assert write_in_headers(at_home, home) == at_home
    assert "secret" in write_in_headers('#include "own.h"\n', home)
