"""Code compiled before and after a front-end pass is identical except for symbol names.

The programs in tests/golden/frontend are hard cases for renaming; each covers one group of features.
"""

from __future__ import annotations

import re
from pathlib import Path

import needs
import pytest
from asmcheck import Assembler, compare
from local_copies import make_copies

from hipsynth.source.parse import ParseConfig, parse_source
from hipsynth.synth.frontend.comments_and_strings import Texts
from hipsynth.synth.frontend.make_copies import AugmentInput
from hipsynth.synth.frontend.pass_input import BuildConfiguration, CompileSettings, ProgramSource
from hipsynth.synth.frontend.passes.flatten import program_sources
from hipsynth.synth.frontend.passes.rename import rename_unit
from hipsynth.synth.frontend.pipeline import run_steps

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "frontend"
PROGRAMS = sorted(p.stem for p in GOLDEN.glob("*.hip"))
HANDWRITTEN = sorted((GOLDEN.parents[2] / "corpus" / "handwritten").rglob("*.hip"))
FOLDERS = ("guards", "conditional")


@pytest.fixture(scope="module")
def assembler(tmp_path_factory: pytest.TempPathFactory) -> Assembler:
    from hipsynth.toolchain.driver import COMPATIBILITY

    toolchain = needs.compiler()
    args = ("-x", "hip", f"--rocm-path={toolchain.root}", *COMPATIBILITY, *toolchain.include_flags)
    return Assembler(str(toolchain.clang), args, tmp_path_factory.mktemp("headers"))


def _renamed(text: bytes, config: ParseConfig, seed: int) -> bytes:
    unit, problems = parse_source(text, config)
    assert unit is not None, problems
    result, renaming, problems = rename_unit(unit, config, seed)
    assert result is not None and renaming is not None, problems
    assert renaming.names, "nothing was renamed"
    return result


@pytest.mark.parametrize("name", PROGRAMS)
def test_rename_keeps_device_code(name: str, config: ParseConfig, assembler: Assembler) -> None:
    text = (GOLDEN / f"{name}.hip").read_bytes()
    after = _renamed(text, config, seed=1)
    assert compare(assembler.device(text, "gfx90a"), assembler.device(after, "gfx90a")) == []


@pytest.mark.full
@pytest.mark.parametrize("seed", [2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_rename_keeps_both_sides(name: str, seed: int, config: ParseConfig, assembler: Assembler) -> None:
    text = (GOLDEN / f"{name}.hip").read_bytes()
    after = _renamed(text, config, seed)
    for flags in (("-O3",), ("-O0",), ("-O3", "-ffast-math", "-munsafe-fp-atomics")):
        assert compare(assembler.device(text, "gfx942", flags), assembler.device(after, "gfx942", flags)) == []
    assembler.host(after)


@pytest.mark.full
@pytest.mark.parametrize("path", HANDWRITTEN, ids=lambda p: p.stem)
def test_rename_keeps_handwritten_programs(path: Path, config: ParseConfig, assembler: Assembler) -> None:
    text = path.read_bytes()
    after = _renamed(text, config, seed=1)
    for arch in ("gfx90a", "gfx942"):
        assert compare(assembler.device(text, arch), assembler.device(after, arch)) == []


def test_rename_keeps_host_code(config: ParseConfig, assembler: Assembler) -> None:
    for name in ("control", "lds_order"):  # no run-time type names, no error texts made of expressions
        text = (GOLDEN / f"{name}.hip").read_bytes()
        assert compare(assembler.host(text), assembler.host(_renamed(text, config, seed=1))) == []


def test_the_oracle_finds_a_wrong_rename(assembler: Assembler) -> None:
    text = (GOLDEN / "lds_order.hip").read_bytes()
    swapped = text.replace(b"b_tile[63 - t]", b"a_tile[63 - t]")
    assert compare(assembler.device(text, "gfx90a"), assembler.device(swapped, "gfx90a")) != []


def test_lds_layout_depends_on_the_order_of_names(assembler: Assembler) -> None:
    text = (GOLDEN / "lds_order.hip").read_bytes()
    reordered = text.replace(b"b_tile", b"Z_tile").replace(b"a_tile", b"b_tile").replace(b"Z_tile", b"a_tile")
    assert compare(assembler.device(text, "gfx90a"), assembler.device(reordered, "gfx90a")) != []


@pytest.mark.parametrize("name", FOLDERS)
def test_flatten_keeps_device_code(name: str, config: ParseConfig, assembler: Assembler) -> None:
    folder = GOLDEN / "multi" / name
    text = (folder / "main.hip").read_bytes()
    outcome = run_steps(ProgramSource(text, folder / "main.hip", folder), ["flatten", "rename:4"], config)
    assert outcome.source is not None, outcome.diagnostics
    before = assembler.device(text, "gfx90a", folder=str(folder))
    assert compare(before, assembler.device(outcome.source.text, "gfx90a")) == []


def test_settings_of_a_build_become_part_of_the_file(config: ParseConfig, assembler: Assembler, tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "helper.h").write_text("__device__ inline int twice_(int v_) { return FACTOR * v_; }\n")
    main = tmp_path / "main.hip"
    main.write_text(
        "#include <hip/hip_runtime.h>\n#include <helper.h>\n#ifndef SIZE\n#error no size\n#endif\n"
        "__global__ void kern_(int* p_) { p_[threadIdx.x] = twice_(SIZE); }\nint main() { return 0; }\n"
    )
    settings = CompileSettings(("SIZE=7", "FACTOR=3"), includes=(tmp_path / "common",))
    item = AugmentInput("main", files=(main,), root=tmp_path, builds=(BuildConfiguration((main,), (settings,)),))
    made = make_copies(item, 1, 0, config)
    assert len(made.programs) == 2, made.failures
    built = assembler.device(main.read_bytes(), "gfx90a", ("-O3", "-DSIZE=7", "-DFACTOR=3", f"-I{tmp_path / 'common'}"))
    for program in made.programs:
        assert compare(built, assembler.device(program.text.encode(), "gfx90a")) == []


def test_rewritten_strings_change_no_device_code(config: ParseConfig, assembler: Assembler) -> None:
    text = (
        b"#include <hip/hip_runtime.h>\n#include <cstdio>\n__global__ void kern_(int* p_) "
        b'{ p_[0] = 1; printf("kern_ %d\\n", p_[1]); }\nint main() { puts("kern_"); }\n'
    )
    unit, problems = parse_source(text, config)
    assert unit is not None, problems
    after, _, problems = rename_unit(unit, config, 1, Texts(strings="rewrite"))
    assert after is not None and b'puts("kern_' not in after, problems
    assert compare(assembler.device(text, "gfx90a"), assembler.device(after, "gfx90a")) == []


def test_merged_units_keep_each_kernel(config: ParseConfig, assembler: Assembler) -> None:
    folder = GOLDEN / "multi" / "units"
    sources = program_sources(folder)
    whole = ProgramSource(sources[-1].read_bytes(), sources[-1], folder, BuildConfiguration(tuple(sources)))
    outcome = run_steps(whole, ["flatten", "rename:4"], config)
    assert outcome.source is not None, outcome.diagnostics
    joined = _bodies(assembler.device(outcome.source.text, "gfx90a"))
    apart = [_bodies(assembler.device(p.read_bytes(), "gfx90a", folder=str(folder))) for p in sources[:-1]]
    assert len(joined) == 2
    assert joined == apart[0] + apart[1]


def _bodies(assembly: str) -> list[list[str]]:
    """The instructions of each kernel, in order."""
    found: list[list[str]] = []
    inside = False
    for line in assembly.splitlines():
        if "; @" in line:
            found.append([])
            inside = True
        elif line.startswith("\t.section") or line.startswith(".Lfunc_end"):
            inside = False
        elif inside and line.startswith("\t") and not line.startswith("\t."):
            found[-1].append(re.sub(r"BB\d+_", "BB_", line.split(";")[0].rstrip()))
    return [body for body in found if body]
