"""The HIP runtime library answers API calls as the documentation of HIP says."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hip_programs import FOLDER, RUNTIME_SOURCES, built, require_compiler, run

from hipsynth import toolchain
from hipsynth.simulator import api, devices
from hipsynth.simulator.limits import RunLimits
from hipsynth.simulator.observation import Deferral, Observation
from hipsynth.simulator.run_result import NoticeKind

# The calls that real HIP programs make, by how many of 937 public programs make them (our own count), most first.
# hipLaunchKernelGGL and hipGetDeviceProperties are macros over hipLaunchKernel and hipGetDevicePropertiesR0600.
USED_CALLS = """
hipFree hipMalloc hipMemcpy hipDeviceSynchronize hipGetErrorString hipMemset hipGetLastError hipSetDevice
hipHostMalloc hipEventRecord hipEventCreate hipEventSynchronize hipEventElapsedTime hipHostFree hipMemcpyAsync
hipGetDevice hipGetDeviceCount hipEventDestroy hipStreamCreate hipStreamDestroy hipStreamSynchronize
hipDeviceGetAttribute hipMallocManaged hipMemcpyToSymbol hipHostGetDevicePointer hipMemGetInfo hipMemsetAsync
hipDeviceReset hipPeekAtLastError hipStreamCreateWithFlags hipStreamWaitEvent hipDeviceGetPCIBusId hipGetErrorName
hipLaunchKernel hipEventCreateWithFlags hipMemcpyFromSymbol hipFuncSetAttribute hipDeviceCanAccessPeer
hipDeviceEnablePeerAccess hipDriverGetVersion hipMemPrefetchAsync hipOccupancyMaxActiveBlocksPerMultiprocessor
hipCreateTextureObject hipDestroyTextureObject hipHostAlloc hipMallocHost hipDeviceDisablePeerAccess hipMallocPitch
hipModuleGetFunction hipModuleLaunchKernel hipHostRegister hipHostUnregister hipDeviceGetDefaultMemPool hipFreeAsync
hipMallocAsync hipMemPoolSetAttribute hipDeviceGetStreamPriorityRange hipStreamCreateWithPriority hipGraphDestroy
hipGraphExecDestroy hipGraphInstantiate hipGraphLaunch hipStreamBeginCapture hipStreamEndCapture
hipFuncSetCacheConfig hipFreeHost hipMalloc3D hipBindTexture hipFreeArray hipMallocArray hipMemcpy2DToArray
hipGraphicsMapResources hipGraphicsResourceGetMappedPointer hipGraphicsUnmapResources hipGraphicsUnregisterResource
hipOccupancyMaxPotentialBlockSize hipDestroyExternalMemory hipDestroyExternalSemaphore
hipExternalMemoryGetMappedBuffer hipImportExternalMemory hipImportExternalSemaphore hipSignalExternalSemaphoresAsync
hipWaitExternalSemaphoresAsync hipLaunchCooperativeKernel hipModuleLoadData hipModuleUnload hipModuleLoad
hipGetSymbolAddress hipGetSymbolSize hipExtMallocWithFlags hipDeviceGetLimit hipDeviceSetLimit
hipGetDevicePropertiesR0600 hipLaunchKernelExC hipExtLaunchKernel
__hipRegisterFatBinary __hipRegisterFunction __hipRegisterVar __hipRegisterManagedVar __hipUnregisterFatBinary
__hipPushCallConfiguration __hipPopCallConfiguration __hip_fatbin
"""


def exported() -> set[str]:
    out = subprocess.run(
        ["nm", "-D", "--defined-only", api.library_path()], capture_output=True, text=True, check=True
    ).stdout
    return {line.split()[-1] for line in out.splitlines()}


def test_every_used_call_is_exported() -> None:
    assert set(USED_CALLS.split()) - exported() == set()


def test_nothing_but_hip_is_exported() -> None:
    mangled = ("_Z24hipExtModuleLaunchKernel", "_Z24hipHccModuleLaunchKernel")  # which the headers declare as C++
    foreign = {name for name in exported() if not name.startswith(("hip", "__hip", *mangled))}
    assert foreign == set()


def test_layouts_and_values_match_the_headers(tmp_path: Path) -> None:
    require_compiler()
    flags = f'-I "{RUNTIME_SOURCES}"'
    host = toolchain.compile_host(FOLDER / "abi.hip", flags, tmp_path, runtime=api.library_path())
    assert host.executable.exists()


@pytest.mark.parametrize("name", ["api_memory", "api_device", "api_limits", "arrays"])
def test_calls_without_kernels(name: str, tmp_path: Path) -> None:
    done = run(name, tmp_path)
    assert done.exit_code == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == name.removeprefix("api_") + " ok"


@pytest.mark.parametrize(
    ("arch", "line"),
    [
        ("gfx90a", "AMD Instinct MI250 (one GCD) | gfx90a:sramecc+:xnack- | 104 CUs | 1700 MHz"),
        ("gfx942", "AMD Instinct MI300X | gfx942:sramecc+:xnack- | 304 CUs | 2100 MHz"),
    ],
)
def test_device_properties_come_from_the_arch_table(arch: str, line: str, tmp_path: Path) -> None:
    assert run("api_device", tmp_path, arch=arch).stdout.splitlines()[0] == line


def test_unsupported_calls_say_so(tmp_path: Path) -> None:
    done = run("api_device", tmp_path)
    assert "hipGraphicsUnmapResources is not supported by the simulator" in done.stderr
    assert "hipGraphicsUnmapResources" in done.subjects(NoticeKind.UNSUPPORTED_CALL)


def test_wild_pointers_and_lying_code_objects_are_errors(tmp_path: Path) -> None:
    done = run("wild_pointers", tmp_path)
    assert (done.status, done.exit_code, done.stdout) == ("ok", 0, "survived\n"), done
    assert [len(done.subjects(kind)) for kind in NoticeKind] == [0, 1, 1], "many refusals of memory are said once"
    assert done.subjects(NoticeKind.MISSING_CODE_OBJECT) == ["none.hsaco"]
    assert done.stderr.count("hipsynth: out of device memory") == done.stderr.count("hipsynth: no such code") == 1


@pytest.mark.parametrize(
    ("order", "printed"), [(Deferral.OLDEST_STREAM_FIRST, "0123\n"), (Deferral.YOUNGEST_STREAM_FIRST, "3210\n")]
)
def test_a_wait_for_the_default_stream_completes_the_others_by_age(
    order: Deferral, printed: str, tmp_path: Path
) -> None:
    device = devices.load_device(devices.default_device("gfx90a"))
    observation = Observation(deferral=order)
    done = api.run_program(built("stream_order"), device, tmp_path, RunLimits(time_s=30.0), observation=observation)
    assert (done.exit_code, done.stdout) == (0, printed), done.stderr
