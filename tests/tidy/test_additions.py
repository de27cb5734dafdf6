"""A row added to a table shows in the C++ that the generators write, and leaves no trace when it is removed.

Generators run on a scratch copy of the tables; one generated header is compiled.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import needs
import pytest

ROOT = Path(__file__).resolve().parents[2]
CLANG = shutil.which("clang++-22") or shutil.which("clang++")
NATIVE = ROOT / "simulator" / "native"


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return copy_tables(tmp_path)


def copy_tables(folder: Path) -> Path:
    """The packages that generators import, with the tables."""
    for name in ("simulator/devices", "profiling/metrics", "simulator/isa", "core"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    package = folder / "hipsynth"
    package.mkdir()
    (package / "__init__.py").touch()
    for name in ("core", "simulator", "profiling"):
        (package / name).symlink_to(folder / name)
        for inner in (folder / name, *(folder / name).rglob("*/")):
            if not (inner / "__init__.py").exists() and inner.is_dir():
                (inner / "__init__.py").touch()
    return folder


def generated(tree: Path) -> dict[str, str]:
    """File name -> text of what all generators write."""
    out = tree / "out"
    shutil.rmtree(out, ignore_errors=True)
    for script in ("simulator/devices/generate.py", "profiling/metrics/generate.py", "simulator/isa/generate.py"):
        subprocess.run([sys.executable, "-S", str(tree / "hipsynth" / script), str(out)], check=True, cwd=tree)
    return {path.name: path.read_text() for path in sorted(out.iterdir())}


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What is generated from the tables as they are."""
    return generated(copy_tables(tmp_path_factory.mktemp("unchanged")))


def append(path: Path, text: str) -> str:
    """Adds a line to a table; returns what was there before."""
    before = path.read_text()
    path.write_text(before.rstrip("\n") + "\n" + text)
    return before


def test_an_opcode_is_one_row(tree: Path, unchanged: dict[str, str]) -> None:
    table = tree / "simulator/isa/salu.toml"
    row = 's_twice_u32 = { sig = "d:u32 a:u32", sem = "d = a + a + scc; scc = d < a" }\n'
    old = append(table, row)
    after = generated(tree)
    line = next(line for line in after["table.cpp"].splitlines() if "s_twice_u32" in line)
    assert ".unit = Unit::salu" in line and ".reads = 1, .writes = 1" in line, "SCC follows from the statement"
    assert any("d = a + a + scc; scc = d < a" in text for name, text in after.items() if name.startswith("ops_"))
    table.write_text(old)
    assert generated(tree) == unchanged


def test_an_opcode_with_an_unknown_register_is_refused(tree: Path) -> None:
    append(tree / "simulator/isa/salu.toml", 's_odd = { sig = "", sem = "", reads = ["scd"] }\n')
    with pytest.raises(subprocess.CalledProcessError):
        generated(tree)


def test_a_memory_operation_is_one_row(tree: Path, unchanged: dict[str, str]) -> None:
    mem = '{ space = "lds", kind = "atomic", op = "triple_u32" }'
    row = f'ds_triple_rtn_u32 = {{ sig = "d:b32 a:addr b:b32", mem = {mem} }}\n'
    table = tree / "simulator/isa/lds.toml"
    text = table.read_text()
    table.write_text(text.replace("[op]\n", "[op]\n" + row, 1))
    after = generated(tree)
    assert "  triple_u32,\n" in after["opcode_enums.h"] and "MemOp::triple_u32" in after["table.cpp"]
    table.write_text(text)
    assert generated(tree) == unchanged


ARCHITECTURES = "simulator/devices/architectures.toml"


def test_an_architecture_is_one_section(tree: Path, unchanged: dict[str, str]) -> None:
    table = tree / ARCHITECTURES
    text = table.read_text()
    section = text[text.index("[gfx950]") :].replace("[gfx950]", "[gfx960]")
    old = append(table, section)
    # Opcodes that name no architecture are on all of them; matrix instructions give the cycles of each.
    header = subprocess.run(
        [sys.executable, "-S", str(tree / "hipsynth/simulator/devices/generate.py"), str(tree / "more")],
        check=True,
        cwd=tree,
        capture_output=True,
    )
    assert header.returncode == 0
    added = (tree / "more" / "architectures.h").read_text()
    assert "{ gfx90a, gfx942, gfx950, gfx960 }" in added and "kArchs = 4" in added and '.name = "gfx960"' in added
    table.write_text(old)
    assert generated(tree) == unchanged


def test_an_architecture_fact_is_one_row_for_each(tree: Path, unchanged: dict[str, str]) -> None:
    table = tree / ARCHITECTURES
    text = table.read_text()
    row = 'speaks_fp4 = { value = true, source = "guide" }\n'
    append(table, row)
    with pytest.raises(subprocess.CalledProcessError):
        generated(tree)  # gfx90a lacks it
    for arch in ("gfx942", "gfx950"):
        text_with_rows = table.read_text().replace(f"[{arch}]", f"{row}\n[{arch}]")
        table.write_text(text_with_rows)
    assert "  bool speaks_fp4;\n" in generated(tree)["architectures.h"]
    table.write_text(text)
    assert generated(tree) == unchanged


def test_generated_headers_compile(tree: Path) -> None:
    if CLANG is None:
        needs.missing("clang is not installed")
    append(tree / "simulator/isa/salu.toml", 's_twice_u32 = { sig = "d:u32 a:u32", sem = "d = a + a" }\n')
    generated(tree)
    command = [CLANG, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", f"-I{NATIVE}", f"-I{tree / 'out'}"]
    subprocess.run([*command, str(tree / "out" / "table.cpp")], check=True)


def test_a_device_is_one_file(tree: Path) -> None:
    """A device that inherits restates only what differs."""
    path = tree / "simulator/devices/mi999.toml"
    path.write_text(
        'inherits = "mi300x"\nname = "mi999"\ntitle = "AMD Instinct MI999"\n\n'
        '[topology]\ncus = { value = 999, source = "sheet" }\n'
    )
    show = (
        "from hipsynth.simulator.devices import load_device; t = load_device('mi999'); "
        "print(t.arch, t['topology.cus'], t.name)"
    )
    environment = {"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin"}

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-S", "-c", show], cwd=tree, env=environment, capture_output=True, text=True, check=False
        )

    assert run().stdout == "gfx942 999.0 mi999\n"
    path.unlink()
    assert "unknown device" in run().stderr


def test_a_device_constant_is_one_row_in_each_file(tree: Path, unchanged: dict[str, str]) -> None:
    row = 'spare_lanes = { value = 1, source = "guide" }\n'
    tables = [tree / "simulator/devices" / f"{name}.toml" for name in ("mi250", "mi300x")]
    texts = [append(path, row) for path in tables]
    header = generated(tree)["device_spec.h"]
    assert "    double spare_lanes = 0;\n" in header and '{"timing.spare_lanes", ' in header
    tables[1].write_text(texts[1])
    with pytest.raises(subprocess.CalledProcessError):
        generated(tree)  # one device lacks it
    tables[0].write_text(texts[0])
    assert generated(tree) == unchanged


def test_a_counter_is_one_row(tree: Path, unchanged: dict[str, str]) -> None:
    table = tree / "profiling/metrics/metrics.toml"
    text = table.read_text()
    table.write_text(text.replace("[others]\n", '[others]\nSQ_NAPS = { doc = "naps" }\n'))
    after = generated(tree)["counter_names.h"]
    assert "  SQ_NAPS,  // naps\n" in after and '    "SQ_NAPS",\n' in after
    table.write_text(text)
    assert generated(tree) == unchanged
