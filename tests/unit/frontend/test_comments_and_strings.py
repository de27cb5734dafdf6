"""Old names in comments and strings."""

from __future__ import annotations

import pytest

from hipsynth.core.errors import UsageError
from hipsynth.source.parse import ParseConfig, parse_source
from hipsynth.synth.frontend.comments_and_strings import Texts
from hipsynth.synth.frontend.passes.rename import rename_unit

TEXT = b"""#include <hip/hip_runtime.h>
#include <cstdio>
// tile_sum adds up what each block has; p[q] is `q`. A block is a tile.
__global__ void tile_sum(float* p, int q) { p[q] = 1; /* writes
 p */ }
#define SCALE 2 /* of tile_sum
 */ + 1
int main() {
  int d = SCALE;
  std::printf("tile_sum: %d\\n", d);
  std::printf("\\tile_sum");
  return 0;
}
"""


def after(config: ParseConfig, texts: Texts) -> tuple[str, dict[str, frozenset[str]]]:
    unit, problems = parse_source(TEXT, config)
    assert unit is not None, problems
    text, renaming, problems = rename_unit(unit, config, 3, texts)
    assert text is not None and renaming is not None, problems
    return text.decode(), renaming.names


def test_comments_follow_the_names_by_default(config: ParseConfig) -> None:
    text, names = after(config, Texts())
    (kernel,) = names["tile_sum"]
    (index,) = names["q"]
    assert f"// {kernel} adds up what each block has" in text
    assert f"`{index}`. A block is a tile." in text
    assert '"tile_sum: %d\\n"' in text


def test_comments_are_kept_or_dropped_on_request(config: ParseConfig) -> None:
    assert "// tile_sum adds up" in after(config, Texts("keep"))[0]
    dropped, _ = after(config, Texts("drop"))
    assert "//" not in dropped and "/*" not in dropped
    assert dropped.count("\n") == TEXT.count(b"\n"), "no line moves"


def test_strings_are_rewritten_on_request(config: ParseConfig) -> None:
    text, names = after(config, Texts(strings="rewrite"))
    (kernel,) = names["tile_sum"]
    assert f'"{kernel}: %d\\n"' in text, "and %d, which is no name, stays"
    assert '"\\tile_sum"' in text, "\\t and ile_sum"


def test_literals_that_decide_something_stay(config: ParseConfig) -> None:
    text = """#include <hip/hip_runtime.h>
#include <cstring>
#include <string>
__global__ void tile_sum(int* rows_left) { *rows_left = 1; }
int main(int argc, char** argv) {
  int rows_left = 0;
  if (argc > 1 && (!strcmp(argv[1], "rows_left") || std::string(argv[1]) == "tile_sum")) rows_left = 1;
  return rows_left + printf("the rows_left of tile_sum\\n");
}
"""
    unit, problems = parse_source(text.encode(), config)
    assert unit is not None, problems
    copy, _, _ = rename_unit(unit, config, 3, Texts(strings="rewrite"))
    assert copy is not None
    assert b'"rows_left")' in copy and b'== "tile_sum"' in copy and b"the rows_left of tile_sum" not in copy


def test_keys_stay_wherever_they_are_spelled(config: ParseConfig) -> None:
    text = """#include <hip/hip_runtime.h>
#include <map>
#include <string>
__global__ void tile_sum(int* rows_left) { *rows_left = 1; }
int take(const std::map<std::string, int>& options, const char* key) { return options.at(key); }
const char* const names[] = {"tile_sum"};
int main() {
  std::map<std::string, int> options{{"rows_left", 5}};
  int rows_left = options["options"];
  return rows_left + take(options, "rows_left") + take(options, "tile_sum") + printf("the rows_left of tile_sum\\n");
}
"""
    unit, problems = parse_source(text.encode(), config)
    assert unit is not None, problems
    copy, _, _ = rename_unit(unit, config, 3, Texts(strings="rewrite"))
    assert copy is not None and b"the rows_left of tile_sum" not in copy
    for literal, count in ((b'"rows_left"', 2), (b'"tile_sum"', 2), (b'["options"]', 1)):
        assert copy.count(literal) == count


def test_settings_are_written_and_read() -> None:
    for texts in (Texts(), Texts("drop"), Texts("keep", "rewrite")):
        assert Texts.read(f"7{texts.words}".split(",")[1:]) == texts
    with pytest.raises(UsageError):
        Texts.read(["comments=burn"])
