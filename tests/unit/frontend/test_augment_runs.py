"""Many programs at once: lineage, failures by reason, resuming, the same bytes for any number of workers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from generated_samples import small

from hipsynth.core.errors import BadInput, TimeLimitReached, UsageError
from hipsynth.core.program import INDEX, Expected, Program, ProgramRun, iter_programs, program_path, write_programs
from hipsynth.core.workers import ItemOutcome
from hipsynth.source.arguments import with_defaults
from hipsynth.source.parse import ParseConfig
from hipsynth.synth.frontend import augment
from hipsynth.synth.frontend.augment import FAILURES, JOURNAL, augment_programs, find_items
from hipsynth.synth.frontend.comments_and_strings import Texts
from hipsynth.synth.frontend.make_copies import AugmentInput, copy_seed
from hipsynth.synth.frontend.pass_input import BuildConfiguration, CompileSettings
from hipsynth.synth.frontend.sandboxed_copies import AugmentRequest, CopyRecipe
from hipsynth.synth.generate.problem_sizes import expected_output

TEXT = """#include <hip/hip_runtime.h>
__global__ void kern_{n}(int* data_) {{ data_[threadIdx.x] = {n}; }}
int main() {{ return 0; }}
"""


def _bases(folder: Path, count: int = 3) -> list[Program]:
    expected = Expected(("done",), 1e-5)
    programs = [
        Program(TEXT.format(n=n), "synthetic", "test", params={"n": n}, expected=expected) for n in range(count)
    ]
    write_programs(folder, programs)
    return programs


def test_copies_keep_lineage_and_record(config: ParseConfig, tmp_path: Path) -> None:
    bases = _bases(tmp_path / "in")
    summary = augment_programs(tmp_path / "in", tmp_path / "out", config, CopyRecipe(2, 9))
    assert (summary.bases, summary.programs, summary.failed) == (3, 6, 0)
    copies = list(iter_programs(tmp_path / "out"))
    assert [c.lineage for c in copies] == [b.id for b in bases for _ in range(2)]
    assert [c.derivation for c in copies[:2]] == [(f"rename:{copy_seed(9, k)}",) for k in (1, 2)]
    assert all(c.expected == bases[0].expected and c.origin == "synthetic" for c in copies)
    assert len({c.id for c in copies}) == 6
    assert not any("kern_" in c.text or "data_" in c.text for c in copies)


@pytest.mark.parametrize("isolate", [True, False])
def test_copies_with_other_texts_have_no_expected_output(config: ParseConfig, tmp_path: Path, isolate: bool) -> None:
    _bases(tmp_path / "in")
    recipe = CopyRecipe(1, 9, Texts(strings="rewrite"), isolate=isolate)
    augment_programs(tmp_path / "in", tmp_path / "out", config, recipe)
    copies = list(iter_programs(tmp_path / "out"))
    assert copies and all(copy.expected is None and not copy.choices for copy in copies)


def test_programs_of_others_are_not_replaced(config: ParseConfig, tmp_path: Path) -> None:
    _bases(tmp_path / "in")
    index = (tmp_path / "in" / INDEX).read_bytes()
    for path, error in ((tmp_path / "in", UsageError), (tmp_path / "own", BadInput)):
        path.mkdir(exist_ok=True)
        (path / "own.hip").write_text(TEXT.format(n=7))
        with pytest.raises(error):
            augment_programs(path, tmp_path / "in", config)
    assert (tmp_path / "in" / INDEX).read_bytes() == index
    for name in ("manifest.json", "release.json"):
        other = tmp_path / name.partition(".")[0]
        other.mkdir()
        (other / name).write_text("{}")
        with pytest.raises(BadInput, match="did not make"):
            augment_programs(tmp_path / "own", other, config)


def test_copies_inside_of_the_folder_are_no_originals(config: ParseConfig, tmp_path: Path) -> None:
    (tmp_path / "one.hip").write_text(TEXT.format(n=1))
    first = augment_programs(tmp_path, tmp_path / "varied", config)
    again = augment_programs(tmp_path, tmp_path / "varied", config)
    assert (again.bases, again.programs, again.reused) == (1, first.programs, 1)


def test_a_copy_made_before_is_reported_under_its_program(config: ParseConfig, tmp_path: Path) -> None:
    for name in ("one.hip", "two.hip"):
        (tmp_path / name).write_text(TEXT.format(n=1))
    summary = augment_programs(tmp_path, tmp_path / "out", config)
    assert (summary.programs, summary.reasons) == (1, {"duplicate": 1})
    assert summary.examples["duplicate"].startswith("two.hip: the same text as program")


@pytest.mark.parametrize("family", ["gather", "loop", "gemm", "vector_types"])
def test_copies_of_generated_programs_take_the_same_sizes(config: ParseConfig, tmp_path: Path, family: str) -> None:
    program, run = small(family)
    write_programs(tmp_path / "in", [program.with_runs([ProgramRun(), run])])
    augment_programs(tmp_path / "in", tmp_path / "out", config, CopyRecipe(2, 9))
    copies = list(iter_programs(tmp_path / "out"))
    assert len(copies) == 2
    for copy in copies:
        assert copy.runs == (ProgramRun(), run) and copy.lineage == program.id and copy.choices == program.choices
        text = with_defaults(copy.text, run.arguments)
        changed = [new for old, new in zip(copy.text.splitlines(), text.splitlines(), strict=True) if old != new]
        before = with_defaults(program.text, run.arguments)
        assert len(changed) == sum(
            old != new for old, new in zip(program.text.splitlines(), before.splitlines(), strict=True)
        )
        assert expected_output(copy, run) == expected_output(program, run) is not None


def test_copies_of_copies_keep_the_first_lineage(config: ParseConfig, tmp_path: Path) -> None:
    base = _bases(tmp_path / "in", 1)[0]
    augment_programs(tmp_path / "in", tmp_path / "one", config)
    augment_programs(tmp_path / "one", tmp_path / "two", config)
    grandchild = next(iter_programs(tmp_path / "two"))
    assert grandchild.lineage == base.id
    assert len(grandchild.derivation) == 2


def test_failures_are_counted_and_kept(config: ParseConfig, tmp_path: Path) -> None:
    programs = _bases(tmp_path / "in", 4)
    program_path(tmp_path / "in", programs[0].id).unlink()
    program_path(tmp_path / "in", programs[1].id).write_text("edited")
    program_path(tmp_path / "in", programs[2].id).write_bytes(b"\xff\xfe")
    with (tmp_path / "in" / INDEX).open("a") as stream:
        stream.write("{ not json\n")
    summary = augment_programs(tmp_path / "in", tmp_path / "out", config)
    assert summary.programs == 1
    assert summary.reasons == {"bad_record": 2, "missing_file": 1, "not_utf8": 1}
    lines = [json.loads(line) for line in (tmp_path / "out" / FAILURES).read_text().splitlines()]
    assert [f["name"] for f in lines][:3] == [p.id for p in programs[:3]]


def test_workers_do_not_change_a_byte(config: ParseConfig, tmp_path: Path) -> None:
    _bases(tmp_path / "in")
    for workers in (1, 2):
        augment_programs(tmp_path / "in", tmp_path / str(workers), config, CopyRecipe(2, 3), workers=workers)
    names = sorted(p.name for p in (tmp_path / "1").iterdir())
    assert names == sorted(p.name for p in (tmp_path / "2").iterdir())
    assert all((tmp_path / "1" / n).read_bytes() == (tmp_path / "2" / n).read_bytes() for n in names)


def test_an_interrupted_run_resumes(config: ParseConfig, tmp_path: Path) -> None:
    _bases(tmp_path / "in")
    out = tmp_path / "out"

    class Stop(Exception):
        pass

    def stop(_: str) -> None:
        raise Stop

    with pytest.raises(Stop):
        augment_programs(tmp_path / "in", out, config, on_item=stop)
    assert not (out / INDEX).exists()
    with (out / JOURNAL).open("a") as stream:
        stream.write('\n{"key": "torn')
    summary = augment_programs(tmp_path / "in", out, config)
    assert (summary.reused, summary.programs) == (1, 3)
    first = (out / INDEX).read_bytes()
    lost = next(out.glob("*.hip"))
    lost.unlink()
    again = augment_programs(tmp_path / "in", out, config)
    assert (again.reused, lost.exists()) == (2, True)
    assert (out / INDEX).read_bytes() == first


def test_what_ran_out_of_time_is_tried_again(
    config: ParseConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _bases(tmp_path / "in", 1)
    late = ItemOutcome[object](0, error=TimeLimitReached("the copies took longer than 60 s"))
    with monkeypatch.context() as patched:
        patched.setattr(augment, "map_unordered", lambda *_, **__: iter([late]))
        summary = augment_programs(tmp_path / "in", tmp_path / "out", config)
        assert (summary.programs, summary.failed) == (0, 1)
    summary = augment_programs(tmp_path / "in", tmp_path / "out", config)
    assert (summary.reused, summary.programs, summary.failed) == (0, 1, 0)


def test_changed_input_is_processed_again(config: ParseConfig, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.hip").write_text('#include "../part.h"\nint main() { return 0; }\n')
    (folder / "part.h").write_text(TEXT.format(n=1).split("int main")[0])
    assert augment_programs(folder, folder / "out", config).reused == 0
    (folder / "part.h").write_text(TEXT.format(n=2).split("int main")[0])
    assert augment_programs(folder, folder / "out", config).reused == 0
    assert augment_programs(folder, folder / "out", config).reused == 1


def test_what_a_program_may_include_is_part_of_its_key(
    config: ParseConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    main, prelude = tmp_path / "src" / "main.hip", tmp_path / "prelude.txt"
    main.parent.mkdir()
    main.write_text(TEXT.format(n=1))
    build = BuildConfiguration((main,), (CompileSettings(preludes=(prelude,)),))
    request = AugmentRequest(AugmentInput("main.hip", files=(main,), root=tmp_path, builds=(build,)), config)
    keys = [augment._request_key(request, {})]
    for path in (main.with_name("own.h"), main.with_name("part.cpp"), tmp_path / "beside.inc", prelude):
        for text in (b"// here\n", b"// in Latin-1: \xe9\nint \xe9;"):
            path.write_bytes(text)
            keys.append(augment._request_key(request, {}))
    monkeypatch.setattr(augment, "libclang_version", lambda: "another")
    keys.append(augment._request_key(request, {}))
    assert len(set(keys)) == len(keys)
    write_programs(tmp_path / "out", [])
    (tmp_path / "out" / "copy.hip").write_text(TEXT.format(n=2))
    assert augment._request_key(request, {}) == keys[-1]


def test_generated_headers_are_known_by_their_content(config: ParseConfig, tmp_path: Path) -> None:
    main = tmp_path / "program" / "main.hip"
    main.parent.mkdir()
    main.write_text(TEXT.format(n=1))
    keys = []
    for place, text in (("b", "// one"), ("a", "// one"), ("c", "// two")):
        (tmp_path / place / "0").mkdir(parents=True)
        (tmp_path / place / "0" / "config.h").write_text(text)
        build = BuildConfiguration((main,), (CompileSettings(includes=(tmp_path / place / "0",)),))
        item = AugmentInput("main.hip", files=(main,), root=main.parent, builds=(build,))
        settings = replace(config, include=(tmp_path / place,))
        keys.append(augment._request_key(AugmentRequest(item, settings, generated=settings.include), {}))
    assert keys[0] == keys[1] != keys[2]


def test_copies_of_another_run_are_not_dropped(config: ParseConfig, tmp_path: Path) -> None:
    for name in ("one", "two"):
        _bases(tmp_path / name, 1)
    out = tmp_path / "out"
    augment_programs(tmp_path / "one", out, config, CopyRecipe(1, 9))
    index = (out / INDEX).read_bytes()
    for name, recipe in (("two", CopyRecipe(1, 9)), ("one", CopyRecipe(1, 8)), ("one", CopyRecipe(0, 9))):
        with pytest.raises(BadInput, match="another run") as caught:
            augment_programs(tmp_path / name, out, config, recipe)
        assert "another --out" in caught.value.remedy and (out / INDEX).read_bytes() == index
    assert augment_programs(tmp_path / "one", out, config, CopyRecipe(2, 9)).programs == 2
    assert (out / INDEX).read_bytes().startswith(index)


def test_programs_are_found_by_their_files(tmp_path: Path) -> None:
    for name, text in {
        "single/a.hip": "int main() {}",
        "single/b.hip": "int main() {}",
        "several/main.hip": "int main(int c, char** v) {}",
        "several/src/part.cpp": "void part() {}",
        "several/varied/programs.jsonl": "",
        "several/varied/copy.hip": "int main() {}",
        "several/interrupted/augment.json": "{}",
        "several/interrupted/copy.hip": "int main() {}",
        "inside/main.hip": '#include "kernels.cu"\nint main() {}',
        "inside/kernels.cu": "void kernels() {}",
        "library/k.hip": "__global__ void k() {}",
        "library/notes.txt": "main() {}",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    found = {item.name: [p.name for p in item.files] for item in find_items(tmp_path)}
    assert found == {
        "inside/main.hip": ["main.hip"],
        "library/k.hip": ["k.hip"],
        "several/main.hip": ["part.cpp", "main.hip"],
        "single/a.hip": ["a.hip"],
        "single/b.hip": ["b.hip"],
    }


def test_no_base_program_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadInput):
        find_items(tmp_path / "absent")
    with pytest.raises(BadInput):
        find_items(tmp_path)
