"""The launches of a program, learned by running its host code: exact where text could only be guessed at, and typed
reasons for host code that goes wrong."""

from __future__ import annotations

import json
import struct
import time
from pathlib import Path

import needs
import pytest
from click.testing import CliRunner

import hipsynth
from hipsynth.cli.main import cli
from hipsynth.core.errors import BadInput, CompileFailed
from hipsynth.core.reasons import Reason
from hipsynth.profiling.preview import programs, record
from hipsynth.profiling.preview.interpret import Interpreter
from hipsynth.profiling.preview.launch import DeviceLaunch
from hipsynth.profiling.preview.programs import device_code, find_launches, interpret_all
from hipsynth.profiling.preview.record import HostCode, Recording, host_text
from hipsynth.simulator import launch_record
from hipsynth.simulator.build import build_text
from hipsynth.simulator.devices import load_device
from hipsynth.simulator.launch_record import FILE, parse_recording

HEAD = """#include <hip/hip_runtime.h>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>
__global__ void add(const float* a, float* b, int n) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] += a[i];
}
"""


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recordings of its own for each test; builds come from the common cache."""
    needs.simulator()
    needs.sandbox()
    monkeypatch.setattr(record, "cache_dir", lambda: tmp_path / "cache")


def interpreter_of(text: str) -> Interpreter:
    return Interpreter(device_code(text, "gfx942", "-O3"), load_device("mi300x"))


def run(text: str, *arguments: str) -> Recording:
    return find_launches(text, interpreter_of(text), arguments)


def numbers(launch: DeviceLaunch) -> tuple[list[int], int]:
    """The bytes of the buffers that add() is given, and its n."""
    return [one.bytes for _, one in launch.pointers], struct.unpack_from("<i", launch.arguments, 16)[0]


WAYS = {
    "a class": """
      struct Matrix {
        Matrix(int rows, int n) : host(rows * n) { if (hipMalloc(&device, bytes()) != hipSuccess) throw 1; }
        std::size_t bytes() const { return host.size() * sizeof(float); }
        std::vector<float> host; float* device = nullptr;
      };
      int main() { Matrix a(10, 100), b(100, 10); add<<<4, 256>>>(a.device, b.device, 1000); }
    """,
    "smart pointers": """
      struct Free { void operator()(float* p) const { (void)hipFree(p); } };
      static std::unique_ptr<float, Free> make(size_t n) {
        float* p; if (hipMalloc(&p, n * 4) != hipSuccess) exit(2); return std::unique_ptr<float, Free>(p); }
      int main() { auto a = make(1000), b = make(1000); add<<<4, 256>>>(a.get(), b.get(), 1000); }
    """,
    "random numbers": """
      int main() { std::mt19937 draw(5489); size_t n = 0; for (int i = 0; i < 10000; ++i) n = draw();
        float *a, *b; if (hipMalloc(&a, 4000) || hipMalloc(&b, 4000)) return 1;
        add<<<n == 4123659995u ? 4 : 1, 256>>>(a, b, 1000); }
    """,
    "a driver's call": """
      int main() { float *a, *b; int n = 1000; if (hipMalloc(&a, 4000) || hipMalloc(&b, 4000)) return 1;
        void* args[] = {&a, &b, &n};
        return hipLaunchKernel((const void*)add, dim3(4), dim3(256), args, 0, nullptr); }
    """,
    "a file": """
      int main() { FILE* f = fopen("n.txt", "w+"); fprintf(f, "1000"); rewind(f); int n; if (fscanf(f, "%d", &n) != 1)
        return 1; float *a, *b; if (hipMalloc(&a, n * 4) || hipMalloc(&b, n * 4)) return 1;
        add<<<(n + 255) / 256, 256>>>(a, b, n); }
    """,
}


@pytest.mark.parametrize("way", WAYS)
def test_launches_are_those_that_the_program_makes(way: str) -> None:
    made = run(HEAD + WAYS[way])
    (launch,) = made.launches
    assert (launch.kernel, launch.grid, launch.block, made.reason) == ("add", (4, 1, 1), (256, 1, 1), "")
    assert numbers(launch) == ([4000, 4000], 1000)


def test_names_of_kernels_have_letters_of_any_language() -> None:
    (launch,) = run(HEAD.replace("add", "größe") + WAYS["a class"].replace("add", "größe")).launches
    assert (launch.kernel, numbers(launch)) == ("größe", ([4000, 4000], 1000))


SIZED = """
  int main(int argc, char** argv) { int n = argc > 1 ? atoi(argv[1]) : 4096; float *a, *b;
    if (hipMalloc(&a, n * 4) || hipMalloc(&b, n * 4)) return 1;
    BODY
    return hipDeviceSynchronize(); }
"""
LAUNCH = "add<<<(n + 255) / 256, 256>>>(a, b, n);"


def sized(body: str) -> str:
    return HEAD + SIZED.replace("BODY", body)


def test_arguments_of_the_command_line_and_those_that_a_text_states() -> None:
    text = sized(LAUNCH)
    assert numbers(run(text, "1000").launches[0])[1] == 1000
    assert numbers(run("// arguments: 3000\n" + text).launches[0])[1] == 3000
    assert numbers(run(text).launches[0])[1] == 4096


def test_a_loop_that_waits_for_results_ends_as_on_the_device() -> None:
    """Each step halves what is left; without the kernel's results it would go on for ever."""
    text = sized("""
      int *left, host = 64; if (hipMalloc(&left, 4) || hipMemcpy(left, &host, 4, hipMemcpyHostToDevice)) return 1;
      while (host > 1) { halve<<<1, 1>>>(left); (void)hipMemcpy(&host, left, 4, hipMemcpyDeviceToHost); }
    """).replace("int main", "__global__ void halve(int* n) { *n /= 2; }\nint main")
    made = run(text)
    assert made.reason == "" and [launch.times for launch in made.launches] == [6]
    assert not made.launches[0].after_loss


KEEPS_BUSY = """__global__ void halve(int* n) { float x = *n; for (int i = 0; i < 9999; ++i) x = x * 1.5f + 2;
  if (x == 7 || blockIdx.x == gridDim.x - 1) *n /= 2; }
"""


def test_a_loop_whose_kernels_are_too_long_is_ended() -> None:
    text = sized("""
      int *left, host = 64; if (hipMalloc(&left, 4) || hipMemcpy(left, &host, 4, hipMemcpyHostToDevice)) return 1;
      while (host > 1) { halve<<<65536, 1024>>>(left); (void)hipMemcpy(&host, left, 4, hipMemcpyDeviceToHost); }
    """).replace("int main", KEEPS_BUSY + "int main")
    made = run(text)
    assert (made.reason, [launch.kernel for launch in made.launches]) == ("settled", ["halve"])
    assert made.launches[0].times > record.SETTLED


def test_a_device_variable_holds_what_the_host_put_there() -> None:
    text = (
        HEAD
        + """
      __constant__ int many[4];
      __global__ void loop(float* b) { float x = b[threadIdx.x];
        for (int i = 0; i < many[2]; ++i) x = x * 1.5f + 2; b[threadIdx.x] = x; }
      int main(int argc, char**) { float* b; int turns[4] = {0, 0, argc > 1 ? 4000 : 4, 0}; if (hipMalloc(&b, 1 << 20)
        || hipMemcpyToSymbol(HIP_SYMBOL(many), turns, 16)) return 1; loop<<<256, 256>>>(b); }
    """
    )
    interpreter = interpreter_of(text)
    few, more = (find_launches(text, interpreter, words).launches[0] for words in ((), ("more",)))
    first, second = interpret_all([few, more], interpreter).previews
    assert second.duration_ns > 10 * first.duration_ns


def test_code_that_is_loaded_while_the_program_runs_is_previewed() -> None:
    text = (
        HEAD
        + """
      #include <hip/hiprtc.h>
      int main() { float *a, *b; if (hipMalloc(&a, 4 << 20) || hipMalloc(&b, 4 << 20)) return 1;
        const char* code = "extern \\"C\\" __global__ void twice(float* a) { a[blockIdx.x * 256 + threadIdx.x] *= 2; }";
        hiprtcProgram made; hiprtcCreateProgram(&made, code, "twice.hip", 0, nullptr, nullptr);
        if (hiprtcCompileProgram(made, 0, nullptr) != HIPRTC_SUCCESS) return 2;
        size_t size; hiprtcGetCodeSize(made, &size); std::vector<char> object(size); hiprtcGetCode(made, object.data());
        hipModule_t module; hipFunction_t f; void* args[] = {&a};
        if (hipModuleLoadData(&module, object.data()) || hipModuleGetFunction(&f, module, "twice")) return 3;
        add<<<4, 256>>>(a, b, 1000);
        return hipModuleLaunchKernel(f, 4096, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr); }
    """
    )
    interpreter = interpreter_of(text)
    found = interpret_all(find_launches(text, interpreter).launches, interpreter)
    assert [one.launch.kernel for one in found.previews] == ["add", "twice"] and not found.failures
    assert found.previews[1].counters["TCC_REQ"] > 0


COMPILED_AT_RUN_TIME = """#include <hip/hip_runtime.h>
#include <hip/hiprtc.h>
#include <vector>
int main() { float* a; if (hipMalloc(&a, 4 << 20)) return 1;
  const char* code = "extern \\"C\\" __global__ void twice(float* a) { a[blockIdx.x * 256 + threadIdx.x] *= 2; }";
  hiprtcProgram made; hiprtcCreateProgram(&made, code, "twice.hip", 0, nullptr, nullptr);
  if (hiprtcCompileProgram(made, 0, nullptr) != HIPRTC_SUCCESS) return 2;
  size_t size; hiprtcGetCodeSize(made, &size); std::vector<char> object(size); hiprtcGetCode(made, object.data());
  hipModule_t module; hipFunction_t f; void* args[] = {&a};
  if (hipModuleLoadData(&module, object.data()) || hipModuleGetFunction(&f, module, "twice")) return 3;
  return hipModuleLaunchKernel(f, 4096, 1, 1, 256, 1, 1, 0, nullptr, args, nullptr); }
"""
LOADED_FROM_A_MISSING_FILE = """#include <hip/hip_runtime.h>
int main() { hipModule_t module; return hipModuleLoad(&module, "module.co") != hipSuccess; }
"""


def test_a_program_without_kernels_of_its_own_is_predicted_and_executed(tmp_path: Path) -> None:
    program = tmp_path / "program.hip"
    program.write_text(COMPILED_AT_RUN_TIME)
    [result] = hipsynth.predict(program, arch="gfx942", check=True).results
    [kernel] = result.kernels
    assert (kernel.name, kernel.grid) == ("twice", (4096, 1, 1)) and not kernel.abstained
    assert isinstance(result.executed, tuple), result.executed
    [executed] = result.executed
    assert executed.name == "twice" and kernel.duration_ns == pytest.approx(executed.duration_ns, rel=0.2)


def test_a_program_that_loads_no_kernel_after_all_has_no_prediction(tmp_path: Path) -> None:
    program = tmp_path / "program.hip"
    program.write_text(LOADED_FROM_A_MISSING_FILE)
    [result] = hipsynth.predict(program, arch="gfx942").results
    [kernel] = result.kernels
    assert kernel.abstained and kernel.reason == "its host code launches no kernel"
    assert kernel.reason_code == Reason.NO_DISPATCH


def test_a_program_that_lacks_headers_of_older_releases_is_previewed() -> None:
    text = """#include <hip/hip_runtime.h>
      __global__ void check(const float* a) { assert(a[threadIdx.x] == 0); }
      int main() { float* a; if (hipMalloc(&a, 4096) || hipMemset(a, 0, 4096)) return 1;
        check<<<4, 256>>>(a); assert(!hipDeviceSynchronize()); printf("done\\n"); return 0; }
    """
    interpreter = interpreter_of(text)
    recording = find_launches(text, interpreter)
    assert [launch.kernel for launch in recording.launches] == ["check"] and not recording.reason
    with pytest.raises(CompileFailed, match="does not compile"):
        interpreter_of(text.replace("threadIdx.x", "thread"))


HOSTILE = {
    "never ends": (LAUNCH + "for (volatile int i = 0;; ++i) {}", "budget"),
    "starts processes": (LAUNCH + '(void)!system("true"); abort();', "forbidden_call"),
    "crashes": (LAUNCH + "*(volatile int*)8 = 1;", "host_crash"),
    "takes all memory": (LAUNCH + "for (;;) { char* p = (char*)malloc(1 << 28); for (int i = 0; i < 1 << 28; i += 4096)"
                         " p[i] = 1; }", "host_crash"),
    "launches a million kernels": (f"for (int i = 0; i < 1000000; ++i) {{ {LAUNCH} }}", "settled"),
    "launches a million different shapes": ("for (n = 1;; ++n) add<<<n, 256>>>(a, b, n);", "recorded"),
}  # fmt: skip


@pytest.mark.parametrize("deed", HOSTILE)
def test_what_was_launched_before_a_program_goes_wrong_is_kept(deed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record, "HOST_SECONDS", 1.0)
    monkeypatch.setattr(record, "MEMORY_BYTES", 1 << 30)
    body, reason = HOSTILE[deed]
    made = run(sized(body))
    assert made.reason == reason and made.message
    assert made.launches and made.launches[0].kernel == "add"


@pytest.mark.parametrize(
    "text", ["launch add x\n", "again 7\n", "layout 99999999999999999999999\n", "\xff\n", "ran\n" * 9]
)
def test_a_program_that_writes_over_the_record_is_refused(text: str) -> None:
    data = "\\n".join(text.split("\n"))
    body = f'{LAUNCH} FILE* f = fopen("{FILE}", "r+"); if (f == nullptr) return 9; fputs("{data}", f); fclose(f);'
    with pytest.raises(BadInput) as error:
        run(sized(body))
    assert error.value.reason == "bad_result"


def test_any_cut_of_a_record_is_read_or_refused() -> None:
    text = sized(LAUNCH * 2)
    run(text)
    (kept,) = (record.cache_dir() / "launches").iterdir()
    data = kept.read_bytes().partition(b"\n")[2]
    whole = parse_recording(data).launches
    assert len(whole) == 1 and whole[0].times == 2
    for end in range(0, len(data), 7):
        assert len(parse_recording(data[:end]).launches) <= 1


def test_host_code_runs_once_for_edits_inside_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    text = sized(LAUNCH)
    assert run(text).launches
    monkeypatch.setattr(programs, "record_launches", lambda *_: pytest.fail("the host code was run again"))
    edited = text.replace("b[i] += a[i]", "b[i] += 3 * a[i]")
    assert edited != text and numbers(run(edited).launches[0])[1] == 4096
    assert host_text(edited) == host_text(text) != host_text(text.replace("4096", "8192"))
    unrolled = text.replace("b[i] += a[i]", "\n#pragma unroll 2\n  for (int k = 0; k < 2; ++k) b[i] += a[i]")
    assert unrolled != text and host_text(unrolled.replace("unroll", "clang loop unroll")) == host_text(unrolled)
    assert numbers(run(unrolled).launches[0])[1] == 4096


HOST = "int main() { add<<<(1 << 16) / BLOCK, BLOCK>>>(a, b, n); }"


@pytest.mark.parametrize(
    ("before", "inside", "other"),
    [
        ("", "#define BLOCK 64\n", "#define BLOCK 1024\n"),
        ("", "#define BLOCK \\\n 64\n", "#define BLOCK \\\n 1024\n"),
        ("", "%: define BLOCK 64\n", "%: define BLOCK 1024\n"),
        ("", "%> void k() <% int i = 64;", "%> void k() <% int i = 65;"),
        ("#define END }\n#define BEGIN {\n", "END void k() BEGIN int i = 64;", "END void k() BEGIN int i = 65;"),
    ],
)
def test_what_a_body_says_to_the_host_is_host_code(before: str, inside: str, other: str) -> None:
    texts = [f"{before}__global__ void add(float* a) {{\n{part}a[0] = 1;\n}}\n{HOST}" for part in (inside, other)]
    assert host_text(texts[0]) != host_text(texts[1])
    if "END" not in inside and "%>" not in inside:
        assert host_text(texts[0]) == host_text(texts[0].replace("a[0] = 1", "a[0] = 2"))


def test_launches_after_the_caches_were_emptied() -> None:
    launch, again = b"launch add 0 1 1 1 64 1 1 0 0 0 0 0\n", b"again 0\n"
    (cold,) = parse_recording(launch + again + b"cleared\n" + again + again).launches
    assert (cold.times, cold.in_a_row, cold.cold, cold.starts_cold) == (4, 2, 1, False)
    (first, second) = parse_recording(launch + b"cleared\n" + launch).launches
    assert (first.starts_cold, second.starts_cold, second.cold) == (False, True, 1)


def test_a_forged_record_takes_no_memory_of_its_reader() -> None:
    module = b"contents 0\nmodule 0 234881024 0\n"
    with pytest.raises(BadInput, match="damaged") as refused:
        parse_recording(module * 2)
    assert str(refused.value.__cause__) == "too large"
    allocations = b"".join(struct.pack("<3Q", (1 << 21) * i, 4096, 0) for i in range(50_000))
    launches = b"launch add 0 1 1 1 64 1 1 0 0 0 0 0\n" * 400
    made = parse_recording(b"layout 50000\n" + allocations + launches).launches
    assert 0 < len(made) < 100, "those beyond the limit are left out"


def test_a_forged_record_takes_no_time_of_its_reader() -> None:
    launch = b"launch add 0 1 1 1 64 1 1 0 0 0 0 0\n"
    variables = b"".join(b"global v%d 0\n" % i for i in range(100_000))
    start = time.process_time()
    (launches,) = parse_recording(b"contents 0\n" + variables + launch).launches
    assert time.process_time() - start < 10 and len(launches.variables) == 100_000
    changing = b"contents 0\n" + variables + (b"global v0 0\n" + launch) * 1000
    assert 0 < len(parse_recording(changing).launches) < 100, "those beyond the limit are left out"
    with pytest.raises(BadInput, match="damaged"):
        parse_recording(b"contents 4096\n" + b" " * 4096 + b"variant 0\n" * 60_000)


@pytest.mark.parametrize("line", [b"contents 0\n", b"module 0 0 0\n", b"refused a 0\n"])
def test_lines_of_a_record_beyond_a_limit_are_left_out(monkeypatch: pytest.MonkeyPatch, line: bytes) -> None:
    monkeypatch.setattr(launch_record, "_MOST_ENTRIES", 50)
    launch = b"launch add 0 1 1 1 64 1 1 0 0 0 0 0\n"
    assert len(parse_recording(b"contents 0\n" + line * 40 + launch).launches) == 1
    assert not parse_recording(b"contents 0\n" + line * 50 + launch).launches


@pytest.mark.parametrize(
    ("end", "reason"),
    [
        ("", Reason.NONE), ("ran\n", Reason.NONE), ("lost\n", Reason.NONE), ("failed trap\n", Reason.TRAP),
        ("failed bad_launch\n", Reason.BAD_CODE_OBJECT), ("failed time_limit\n", Reason.TIMEOUT),
        ("failed bad_spec\n", Reason.BAD_CONFIGURATION), ("failed bad_work\n", Reason.INTERNAL_ERROR),
        ("failed of_its_own\n", Reason.INTERNAL_ERROR),
    ],
)  # fmt: skip
def test_a_launch_that_failed_has_the_reason_of_it(end: str, reason: Reason) -> None:
    launches = parse_recording(b"launch add 0 1 1 1 64 1 1 0 0 0 0 0\n" + end.encode()).launches
    assert [launch.failure for launch in record.as_launches(launches, {})] == [reason]


def test_launches_have_the_variables_of_their_time() -> None:
    launch = b"launch add 0 1 1 1 64 1 1 0 0 0 0 0\n"
    contents = b"contents 1\nacontents 1\nb"
    launches = parse_recording(contents + launch + b"global v 0\n" + launch * 2 + b"global v 1\n" + launch).launches
    assert [dict(each.variables) for each in launches] == [{}, {"v": b"a"}, {"v": b"a"}, {"v": b"b"}]
    assert launches[1].variables is launches[2].variables


def test_an_edit_on_which_launches_may_depend_runs_the_host_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The host reads what the kernel wrote, then launches again."""
    text = sized(LAUNCH + "float x; (void)hipMemcpy(&x, b, 4, hipMemcpyDeviceToHost); n = x > 1 ? 64 : 128; " + LAUNCH)
    assert [numbers(one)[1] for one in run(text).launches] == [4096, 128]
    assert [numbers(one)[1] for one in run(text.replace("b[i] += a[i]", "b[i] = 2")).launches] == [4096, 64]


def test_an_edit_of_what_fills_an_index_runs_the_host_again() -> None:
    """The second kernel reads where the first one says, so that the contents recorded for it are the first one's."""
    text = sized("int* at; if (hipMalloc(&at, n * 4)) return 1; fill<<<n / 256, 256>>>(at);\n"
                 "gather<<<n / 256, 256>>>(a, at, b);").replace("int main", """
      __global__ void fill(int* at) { const int i = blockIdx.x * 256 + threadIdx.x; at[i] = i; }
      __global__ void gather(const float* a, const int* at, float* b) {
        const int i = blockIdx.x * 256 + threadIdx.x; b[i] = a[at[i]]; }
      int main""")  # fmt: skip
    for edited, last in ((text, 4095), (text.replace("at[i] = i", "at[i] = 4095 - i"), 0)):
        contents = run(edited).launches[1].pointers[1][1].contents
        assert contents is not None and int.from_bytes(contents.data[4 * 4095 :].ljust(4, b"\0"), "little") == last


def test_launches_with_null_pointers_or_one_array_twice_are_others() -> None:
    """They may do other work, while other arrays in the same places make the same launch."""
    made = run(sized("add<<<8, 64>>>(a, b, n); add<<<8, 64>>>(b, a, n); add<<<8, 64>>>(a, a, n);"
                     "scale<<<8, 64>>>(a, nullptr); scale<<<8, 64>>>(a, b);").replace("int main", """
      __global__ void scale(float* a, const float* by) { if (by) a[threadIdx.x] *= by[threadIdx.x]; }
      int main"""))  # fmt: skip
    assert [(one.kernel, one.times) for one in made.launches] == [("add", 2), ("add", 1), ("scale", 1), ("scale", 1)]


def test_more_launches_than_can_be_previewed_are_recorded() -> None:
    made = run(sized(f"for (int i = 1; i <= 300; ++i) add<<<1, 64>>>(a, b, i); {LAUNCH}"))
    assert len(made.launches) == 301 and made.launches[-1].grid == (16, 1, 1) and not made.reason


@pytest.mark.full
def test_a_recording_ends_at_its_bytes_and_names_kernels_without_a_launch() -> None:
    """4,000 allocations exist at each launch."""
    many = "for (int i = 0; i < 4000; ++i) { void* p; if (hipMalloc(&p, 64)) return 1; }"
    loop = "for (int i = 1; i <= 900; ++i) add<<<1, 64>>>(a, b, i);"
    text = sized(f"{many} {loop} late<<<1, 64>>>(b);").replace(
        "int main", "__global__ void late(float* b) { b[threadIdx.x] = 1; } int main"
    )
    made = run(text)
    (note,) = programs.note_incomplete(made, interpreter_of(text))
    assert made.reason == Reason.RECORDED and 256 < len(made.launches) < 900
    assert note.startswith("not all launches may be known: ") and note.endswith("; none is known of late")


def test_previews_are_spread_over_the_launches_of_each_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "for (int i = 1; i <= 90; ++i) { add<<<2, 64>>>(a, b, i); if (i % 9 == 0) add<<<1, 64>>>(a, b, i); }"
    made = run(sized(loop + "for (int i = 1; i < 6; ++i) add<<<3, 64>>>(a, b, 7);"))
    monkeypatch.setattr(programs, "MOST_PREVIEWS", 12)
    selected = programs.select_launches(made.launches)
    ends = {grid: [numbers(one)[1] for one in selected if one.grid[0] == grid] for grid in (1, 2, 3)}
    assert ends == {1: [9], 2: [1, 10, 19, 28, 37, 46, 55, 64, 73, 82], 3: [7]}
    assert [one.represented for one in selected] == [9, 10, *[9] * 9, 5]
    (note,) = programs.note_omissions(made.launches)
    assert note == "89 further launches are taken to be like those of their shape before them"


def test_shapes_beyond_the_most_of_a_kernel_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "for (int i = 1; i <= 50; ++i) add<<<i, 64>>>(a, b, n); "
    made = run(sized(loop + "other<<<1, 64>>>(b);").replace(
        "int main", "__global__ void other(float* b) { b[threadIdx.x] = 1; } int main"
    ))  # fmt: skip
    monkeypatch.setattr(programs, "MOST_SHAPES", 40)
    selected = programs.select_launches(made.launches)
    assert len(selected) == 41 and selected[-1].kernel == "other"
    assert programs.note_omissions(made.launches) == (
        "10 further launches of add, of more than 40 shapes, are not predicted",
    )


def test_launches_that_the_device_does_not_start_are_kept_apart() -> None:
    recording = run(sized(f"add<<<n, 2048>>>(a, b, n); {LAUNCH} add<<<1, 64, 100000>>>(a, b, n);"))
    assert [launch.block for launch in recording.launches] == [(256, 1, 1)]
    (refused,) = recording.refused
    assert (refused.kernel, refused.why) == (
        "add(float const*, float*, int)",
        "work-groups of 2048 x 1 x 1 work-items; at most 1024",
    )


def test_a_refused_launch_is_tried_again_with_other_kernels() -> None:
    text = sized("add<<<1, 1024>>>(a, b, n);").replace("__global__", "__global__ __launch_bounds__(256)")
    assert run(text).refused
    mended = run(text.replace("__launch_bounds__(256)", "__launch_bounds__(1024)"))
    assert not mended.refused and len(mended.launches) == 1


def test_a_prediction_says_which_kernel_is_not_started(tmp_path: Path) -> None:
    path = tmp_path / "refused.hip"
    path.write_text(sized("add<<<1, 64, 100000>>>(a, b, n);"))
    done = CliRunner().invoke(cli, ["predict", str(path), "--arch", "gfx90a", "--json"])
    (kernel,) = json.loads(done.stdout)["results"][0]["kernels"]
    assert kernel["reason_code"] == "bad_configuration" and "100000 bytes of LDS" in kernel["reason"], kernel
    assert kernel["duration_ns"] is None


def test_nothing_runs_without_permission() -> None:
    text = sized(LAUNCH)
    interpreter = interpreter_of(text)
    assert find_launches(text, interpreter, (), HostCode.KNOWN) == Recording(
        (), "not_run", "its host code has not been run"
    )
    assert find_launches(text, interpreter).launches
    assert find_launches(text, interpreter, (), HostCode.KNOWN).launches


def test_a_text_without_main_launches_nothing() -> None:
    made = run(HEAD)
    assert (made.launches, made.reason) == ((), "no_host_code")


def test_two_numbers_that_look_like_an_address_tell_launches_apart() -> None:
    """A word of two numbers of four bytes may be the address of an allocation."""
    text = sized("for (int span = 1; span < 8; span *= 2) step<<<1, 64>>>(a, span, 8192);").replace(
        "int main", "__global__ void step(float* a, int span, unsigned groups) { a[span] = groups; }\nint main"
    )
    made = run(text)
    assert [launch.times for launch in made.launches] == [1, 1, 1]


def test_errors_of_a_program_are_not_those_of_headers_it_lacks(tmp_path: Path) -> None:
    text = """#include <hip/hip_runtime.h>
__global__ void k(float* x, int n) { int i = threadIdx.x; assert(i < n); x[i] = 1 }
int main() { return 0; }
"""
    with pytest.raises(CompileFailed) as previewed:
        device_code(text, "gfx942", "-O3")
    with pytest.raises(CompileFailed) as executed:
        build_text(text, "program", "gfx942", "-O3", tmp_path)
    for failure in (previewed.value, executed.value):
        assert "expected ';'" in failure.diagnostics and "undeclared" not in failure.diagnostics
