"""The rocprof backend: reads the real column layouts of ROCm's profilers, and drives rocprofv3."""

from __future__ import annotations

import stat
import time
from dataclasses import replace
from pathlib import Path

import pytest
from profiling_samples import ATOMICS, VCOPY_GFX90A, ZERO_FLOPS, program, target

from hipsynth.core.errors import BadInput, CompileFailed, MissingDependency
from hipsynth.core.program import Project, SourceFile
from hipsynth.profiling.backends import rocprof
from hipsynth.profiling.backends.rocprof import RocprofBackend, counter_passes, needed_counters
from hipsynth.profiling.backends.rocprof_csv import read_folder
from hipsynth.simulator.limits import RunLimits
from hipsynth.toolchain.sandbox import processes

# Column layouts: rocprofv3 as in the "Using rocprofv3" page of the ROCprofiler-SDK documentation; pmc_perf.csv and
# SQ_*.csv as in the test workloads of ROCm/rocprofiler-compute. Values: second dispatch of the recorded vector copy.
COLLECTION = (
    '"Correlation_Id","Dispatch_Id","Agent_Id","Queue_Id","Process_Id","Thread_Id","Grid_Size","Kernel_Id",'
    '"Kernel_Name","Workgroup_Size","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Counter_Name","Counter_Value","Start_Timestamp","End_Timestamp"\n'
)
TRACE = (
    '"Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id",'
    '"Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count",'
    '"Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z"\n'
)
NO_TIMES = COLLECTION.replace("Timestamp", "T")
NAME = "vecCopy(double*, double*, double*, int, int)"


def collection(dispatch: int, name: str, counter: str, value: float, *, start: int = 1000, end: int = 18000) -> str:
    return (
        f'{dispatch},{dispatch},"Agent 4",1,225049,225049,1048576,10,"{name}",256,0,0,8,0,16,'
        f'"{counter}",{value:.6f},{start},{end}\n'
    )


def trace(dispatch: int, name: str, start: int, end: int, grid: str = "1024,1024,1", block: str = "64,4,1") -> str:
    head = f'"KERNEL_DISPATCH","Agent 4",1,0,225049,{dispatch},10,"{name}",{dispatch}'
    return f"{head},{start},{end},0,0,8,0,16,{block},{grid}\n"


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path.parent


def test_counter_collection_means_per_dispatch_over_passes(tmp_path: Path) -> None:
    first = COLLECTION + "".join(collection(n, NAME, "TCC_HIT_sum", 70000 + n) for n in (1, 2, 3))
    first += collection(4, "__amd_rocclr_fillBufferAligned", "TCC_HIT_sum", 5)
    second = COLLECTION + "".join(collection(n, NAME, "TCC_MISS_sum", 131082) for n in (1, 2, 3))
    second += "".join(collection(n, NAME, "SQ_WAVES", 16384 + n) for n in (1, 2, 3))
    write(tmp_path / "pass_1" / "312_counter_collection.csv", first)
    write(tmp_path / "pass_2" / "313_counter_collection.csv", second)
    write(tmp_path / "pass_1" / "312_agent_info.csv", '"Node_Id","Agent_Type","Name"\n1,"GPU","gfx90a"\n')
    (kernel,) = read_folder(tmp_path, "gfx90a")
    assert (kernel.name, kernel.dispatches, kernel.grid, kernel.block) == ("vecCopy", 3, (4096, 1, 1), (256, 1, 1))
    assert kernel.counters == {"SQ_WAVES": 16386.0, "TCC_HIT": 70002.0, "TCC_MISS": 131082.0}
    assert kernel.duration_ns == 17000 and kernel.source.duration_from == "counter collection"
    assert kernel.metrics["L2_Cache_Hit_Rate"] == pytest.approx(100 * 70002 / (70002 + 131082))
    assert kernel.metrics["L1_Cache_Hit_Rate"] is None


def test_what_the_profiler_derives_is_read_too(tmp_path: Path) -> None:
    values = {"FETCH_SIZE": 65536.0, "WRITE_SIZE": 65600.5}
    write(tmp_path / "pmc_perf.csv", pmc(values))
    (kernel,) = read_folder(tmp_path, "gfx90a")
    assert kernel.counters == values


def test_rows_of_one_counter_are_summed_over_instances(tmp_path: Path) -> None:
    rows = [collection(1, NAME, "TCC_HIT", value) for value in (100, 20, 3)]
    rows += [collection(2, NAME, "TCC_HIT", value) for value in (200, 40, 6)]
    (kernel,) = read_folder(write(tmp_path / "a_counter_collection.csv", COLLECTION + "".join(rows)), "gfx90a")
    assert kernel.counters == {"TCC_HIT": (123 + 246) / 2}


@pytest.mark.parametrize("names", [("TCC_HIT_sum", "TCC_HIT[0]", "TCC_HIT[1]"), ("TCC_HIT", "TCC_HIT", "TCC_HIT_sum")])
def test_a_sum_row_takes_precedence(tmp_path: Path, names: tuple[str, ...]) -> None:
    rows = [collection(1, NAME, name, 123 if name.endswith("_sum") else 60) for name in names]
    (kernel,) = read_folder(write(tmp_path / "a_counter_collection.csv", COLLECTION + "".join(rows)), "gfx90a")
    assert kernel.counters == {"TCC_HIT": 123}


def test_a_kernel_trace_gives_shape_and_undisturbed_time(tmp_path: Path) -> None:
    write(tmp_path / "c_counter_collection.csv", COLLECTION + collection(1, NAME, "SQ_WAVES", 16384))
    write(tmp_path / "c_kernel_trace.csv", TRACE + trace(1, NAME, 100, 15900) + trace(2, NAME, 20000, 35880))
    (kernel,) = read_folder(tmp_path, "gfx90a")
    assert (kernel.grid, kernel.block) == ((16, 256, 1), (64, 4, 1))
    assert (kernel.duration_ns, kernel.dispatches) == (15840.0, 2)
    assert kernel.source.duration_from == "kernel trace"


def test_kernels_keep_their_order_and_a_traced_one_without_counters_is_left_out(tmp_path: Path) -> None:
    rows = collection(1, "zeta()", "SQ_WAVES", 1) + collection(2, "alpha()", "SQ_WAVES", 2)
    write(tmp_path / "a_counter_collection.csv", COLLECTION + rows)
    write(tmp_path / "b_kernel_trace.csv", TRACE + trace(1, "other()", 0, 10))
    assert [kernel.name for kernel in read_folder(tmp_path, "gfx90a")] == ["zeta", "alpha"]


PMC_HEAD = (
    "Dispatch_ID,Kernel_Name,GPU_ID,Grid_Size,Workgroup_Size,LDS_Per_Workgroup,Scratch_Per_Workitem,Arch_VGPR,"
    "Accum_VGPR,SGPR,wave_size,obj"
)
PMC_START = f'"{NAME} [clone .kd]",2,1048576,256,0,0,8,0,16,64,0x7fb673fe4ec0'


def pmc(values: dict[str, float], *, dispatch: int = 1, times: str = "1412702536508356,1412702536524196") -> str:
    head = f"{PMC_HEAD},{','.join(values)},wave_size_1,obj_1,Start_Timestamp,End_Timestamp\n"
    return head + f"{dispatch},{PMC_START},{','.join(str(v) for v in values.values())},64,0x7f3d464b0ec0,{times}\n"


def test_pmc_perf_of_mi200(tmp_path: Path) -> None:
    instanced = {name: value for name, value in VCOPY_GFX90A.items() if name.startswith(("TCP_", "TCC_"))}
    plain = {name: value for name, value in VCOPY_GFX90A.items() if name not in instanced and name not in ATOMICS}
    values: dict[str, float] = {**plain, **{f"{name}_sum": value for name, value in {**instanced, **ATOMICS}.items()}}
    write(tmp_path / "pmc_perf.csv", pmc(values))
    write(tmp_path / "sysinfo.csv", "workload_name,gpu_arch\nvcopy,gfx90a\n")
    (kernel,) = read_folder(tmp_path, "gfx90a")
    assert (kernel.name, kernel.signature) == ("vecCopy", NAME)
    assert (kernel.grid, kernel.block) == ((4096, 1, 1), (256, 1, 1))
    assert kernel.counters == VCOPY_GFX90A
    assert kernel.duration_ns == 15840 and kernel.source.duration_from == "rocprof-compute"
    assert kernel.metrics["L1_Cache_Hit_Rate"] == 50.0


def test_channels_are_summed_and_a_sum_column_wins(tmp_path: Path) -> None:
    values: dict[str, float] = {f"TCC_HIT[{n}]": 100 + n for n in range(4)}
    values |= {f"TCC_REQ[{n}]": 1 for n in range(4)} | {"TCC_REQ_sum": 201111}
    (kernel,) = read_folder(write(tmp_path / "pmc_perf.csv", pmc(values)), "gfx90a")
    assert kernel.counters == {"TCC_HIT": 406, "TCC_REQ": 201111}


def test_level_files_agree_with_each_other(tmp_path: Path) -> None:
    write(tmp_path / "pmc_perf.csv", pmc({"SQ_WAVES": 16384, "GRBM_COUNT": 30000}))
    for name, hires in (("SQ_IFETCH_LEVEL", 1859828), ("SQ_LEVEL_WAVES", 44244972)):
        write(tmp_path / f"{name}.csv", pmc({"SQ_WAVES": 16384, name: 5, "SQ_ACCUM_PREV_HIRES": hires}))
    (kernel,) = read_folder(tmp_path, "gfx90a")
    expected = {"GRBM_COUNT": 30000, "SQ_IFETCH_LEVEL": 5, "SQ_LEVEL_WAVES": 5, "SQ_WAVES": 16384}
    assert kernel.counters == expected, "SQ_ACCUM_PREV_HIRES means something else in each file"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.csv", "", "no kernel counters"),
        ("a.csv", "x,y\n1,2\n", "their columns: x, y"),
        ("pmc_perf.csv", pmc({"SQ_WAVES": 1}).replace(",1,64,", ",nan,64,"), "pmc_perf.csv:2"),
        ("c_counter_collection.csv", COLLECTION + collection(1, NAME, "SQ_WAVES", 1)[:60] + "\n", "csv:2: unreadable"),
        (
            "c_counter_collection.csv",
            NO_TIMES + collection(1, NAME, "SQ_WAVES", 1),
            "no time",
        ),
        ("pmc_perf.csv", pmc({"SQ_WAVES": 1}).replace(",256,", ",0,"), "pmc_perf.csv:2"),
        ("pmc_perf.csv", pmc({"SQ_WAVES": 1}).replace(",256,", ",inf,"), "pmc_perf.csv:2"),
        ("pmc_perf.csv", pmc({"SQ_WAVES": 1}, times="nan,1412702536524196"), "pmc_perf.csv:2"),
        ("pmc_perf.csv", pmc({"SQ_WAVES": 1}) + "x" * 140_000, "pmc_perf.csv: cannot be read"),
        ("notes.csv", "x" * 140_000, "notes.csv: cannot be read"),
    ],
)
def test_unusable_files_are_named(tmp_path: Path, name: str, text: str, message: str) -> None:
    write(tmp_path / name, text)
    with pytest.raises(BadInput, match=message):
        read_folder(tmp_path, "gfx90a")


def test_the_counters_asked_for_are_those_of_the_formulas_and_fit_the_slots() -> None:
    for arch, fabric in (("gfx90a", "TCC_EA_RDREQ_sum"), ("gfx942", "TCC_EA0_RDREQ_sum")):
        counters = needed_counters(arch)
        assert {fabric, "SQ_INSTS_VALU_FMA_F32", "TCP_TOTAL_CACHE_ACCESSES_sum"} <= set(counters)
        assert set(ZERO_FLOPS) <= set(counters) and "EXACT_FLOPS" not in counters
        groups = counter_passes(counters)
        assert sorted(name for group in groups for name in group) == sorted(counters)
        for group in groups:
            for block, slots in rocprof.SLOTS.items():
                assert sum(name.startswith(block + "_") for name in group) <= slots


FAKE_ROCPROF = """#!/bin/sh
# Answers like rocprofv3 for one kernel: every counter of --pmc is 128.
if [ "$1" = --version ]; then echo "version: 1.2.3"; exit 0; fi
pmc=""
while [ "$1" != -- ]; do
  case "$1" in
    --pmc) shift; while case "$1" in -*) false;; esac; do pmc="$pmc $1"; shift; done;;
    --kernel-trace) trace=1; shift;;
    -d) out="$2"; shift 2;;
    *) shift;;
  esac
done
shift
"$@" || exit $?
mkdir -p "$out"
if [ -n "$trace" ]; then cp TRACE "$out/out_kernel_trace.csv"; exit 0; fi
cp HEAD "$out/out_counter_collection.csv"
for c in $pmc; do
  echo "1,1,\\"Agent 4\\",1,9,9,1024,10,\\"copy\\",256,0,0,8,0,16,\\"$c\\",128.0,1,9"
done >> "$out/out_counter_collection.csv"
"""
FAKE_HIPCC = """#!/bin/sh
if [ "$1" = --version ]; then echo "HIP version: 7.1"; exit 0; fi
if grep -q "syntax error" "$3"; then echo "program.hip:1: error" >&2; exit 1; fi
[ "$1" = --offload-arch=gfx90a ] && [ "$2" = -O3 ] || exit 9
printf '#!/bin/sh\\necho copied\\n' > "$5"; chmod +x "$5"
"""


@pytest.fixture
def rocm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A PATH with stand-ins for ROCm's commands."""
    folder = tmp_path / "bin"
    write(folder / "head.csv", COLLECTION)
    write(folder / "trace.csv", TRACE + trace(1, "copy", 100, 1100, "32,32,1", "16,16,1"))
    profiler = FAKE_ROCPROF.replace("TRACE", str(folder / "trace.csv")).replace("HEAD", str(folder / "head.csv"))
    enumerator = "#!/bin/sh\necho gfx000\necho gfx90a\n"
    for name, text in (("rocprofv3", profiler), ("hipcc", FAKE_HIPCC), ("rocm_agent_enumerator", enumerator)):
        write(folder / name, text)
        (folder / name).chmod((folder / name).stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    rocprof._tool_version.cache_clear()
    rocprof._gpu_archs.cache_clear()
    return folder


@pytest.mark.usefixtures("rocm")
def test_running_on_a_gpu_collects_every_counter_in_passes(tmp_path: Path) -> None:
    backend = RocprofBackend()
    assert backend.available().ok and backend.version() == "1.2.3"
    assert backend.supports(target("gfx90a")) and not backend.supports(target("gfx942"))
    found = backend.profile(program(1), target("gfx90a"), tmp_path, RunLimits(time_s=20))
    assert (found.status, found.exit_code, found.stdout) == ("ok", 0, "copied\n")
    (kernel,) = found.kernels
    assert kernel.counters == {name.removesuffix("_sum"): 128.0 for name in needed_counters("gfx90a")}
    assert (kernel.grid, kernel.block, kernel.duration_ns) == ((2, 2, 1), (16, 16, 1), 1000.0)
    assert kernel.source.version == "1.2.3" and found.provenance["profiler"] == "rocprofv3 1.2.3"


def test_a_pass_that_fails_is_no_measurement(rocm: Path, tmp_path: Path) -> None:
    head = 'if [ -n "$trace" ]'
    failing = (
        (rocm / "rocprofv3").read_text().replace(head, f'[ -n "$trace" ] || {{ echo no counter >&2; exit 7; }}\n{head}')
    )
    (rocm / "rocprofv3").write_text(failing)
    found = RocprofBackend().profile(program(1), target("gfx90a"), tmp_path, RunLimits(time_s=20))
    assert (found.status, found.reason, found.kernels) == ("failed", "exit_code", ())
    assert "ended with 7" in found.message and "no counter" in found.message


def test_what_the_profiler_started_ends_with_it(rocm: Path, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    write(rocm / "rocprofv3", f"#!/bin/sh\nsleep 60 > /dev/null 2>&1 & echo $! > {pid}\nwait\n")
    found = RocprofBackend().profile(program(1), target("gfx90a"), tmp_path, RunLimits(time_s=1))
    assert (found.status, found.reason) == ("failed", "timeout")
    for _ in range(100):  # a killed process may take a moment to end
        if processes.is_running(int(pid.read_text())):
            time.sleep(0.02)
    assert not processes.is_running(int(pid.read_text()))


@pytest.mark.usefixtures("rocm")
def test_a_file_is_compiled_in_its_folder_with_its_own_flags(tmp_path: Path) -> None:
    source = SourceFile(tmp_path / "user/main.hip", flags="-DN=3")
    write(source.path, program(1).text)
    write(tmp_path / "bin/hipcc", f'#!/bin/sh\necho "$@" > {tmp_path}/words\nexit 1\n')
    built = replace(program(1), project=Project((source,), source.path.parent))
    with pytest.raises(CompileFailed):
        RocprofBackend().profile(built, target("gfx90a"), tmp_path, RunLimits())
    words = (tmp_path / "words").read_text().split()
    assert words[:4] == ["--offload-arch=gfx90a", "-O3", "-DN=3", str(source.path)]
    several = replace(built, project=Project((source, source), source.path.parent))
    refused = RocprofBackend().profile(several, target("gfx90a"), tmp_path, RunLimits())
    assert (refused.status, refused.reason) == ("failed", "unsupported") and "several files" in refused.message


@pytest.mark.usefixtures("rocm")
def test_programs_that_cannot_run_on_the_gpu(tmp_path: Path) -> None:
    backend = RocprofBackend()
    hostile = backend.profile(program(1, origin="llm"), target("gfx90a"), tmp_path, RunLimits())
    assert (hostile.status, hostile.reason) == ("failed", "untrusted")
    with pytest.raises(MissingDependency, match="gfx942"):
        backend.profile(program(1), target("gfx942"), tmp_path, RunLimits())
    broken = program(1).__class__("syntax error", "handwritten", "x")
    with pytest.raises(CompileFailed) as caught:
        backend.profile(broken, target("gfx90a"), tmp_path, RunLimits())
    assert "program.hip:1: error" in caught.value.diagnostics


def test_without_rocm_the_backend_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = RocprofBackend().available()
    assert not found.ok and "rocprofv3" in found.detail and "ROCm" in found.remedy


def test_reading_folders_written_elsewhere(tmp_path: Path) -> None:
    where = target("gfx90a")
    folder = tmp_path / rocprof._folder_name(program(1).id, where)
    write(folder / "pmc_perf.csv", pmc({"SQ_WAVES": 16384}))
    backend = RocprofBackend(tmp_path)
    assert backend.available().ok and backend.supports(where) and not backend.supports(target("gfx942"))
    assert backend.profile(program(1), where, tmp_path, RunLimits()).kernels[0].counters == {"SQ_WAVES": 16384}
    assert backend.profile(program(2), where, tmp_path, RunLimits()).reason == "not_recorded"
    before = backend.version()
    write(folder / "pmc_perf.csv", pmc({"SQ_WAVES": 16385}))
    assert backend.version() != before
