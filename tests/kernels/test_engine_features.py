"""Does every feature of the engine give the values that the same C++ gives on the host?"""

from __future__ import annotations

import signal

import numpy as np
import pytest
from sim_device import KernelTestDevice, core

BOTH = pytest.mark.parametrize("name", ["mi250", "mi300x"])


@BOTH
def test_recursive_calls_use_the_stack_of_each_lane(name: str) -> None:
    def recurse(n: int, p: np.ndarray) -> int:
        return 1 if n <= 1 else n + recurse(n - 1, p) * int(p[n & 3])

    device = KernelTestDevice(name)
    numbers = np.array([3, 1, 2, 4], np.int32)
    out = np.zeros(64, np.int32)
    at = device.upload(out)
    device.launch("calls", (1,), (64,), "QQi", at, device.upload(numbers), 4)
    assert device.download(at, out).tolist() == [recurse(4 + i % 3, numbers) for i in range(64)]


@BOTH
def test_constants_globals_and_relocated_pointers(name: str) -> None:
    device = KernelTestDevice(name)
    out = np.zeros(64, np.int32)
    at = device.upload(out)
    device.launch("globals", (1,), (64,), "Q", at)
    assert device.download(at, out).tolist() == [10 * (i % 4 + 1) + 5 for i in range(64)]
    address, size = device.core.symbol(device.module, "counter")
    assert size == 4 and device.download(address, np.zeros(1, np.int32))[0] == 5 + 64


@BOTH
@pytest.mark.parametrize("block", [(64, 1, 1), (5, 7, 2), (1, 1, 1), (3, 1, 33)])
def test_work_item_and_group_ids_in_three_dimensions(name: str, block: tuple[int, int, int]) -> None:
    device = KernelTestDevice(name)
    threads, groups = int(np.prod(block)), 2 * 3 * 2
    out = np.full(threads * groups, -1, np.int32)
    at = device.upload(out)
    result = device.launch("ids", (2, 3, 2), block, "Q", at)
    assert device.download(at, out).tolist() == [g * 10000 + t for g in range(groups) for t in range(threads)]
    assert result["counters"]["SQ_ITEMS"] == threads * groups


@BOTH
def test_dynamic_lds_barriers_and_shuffles(name: str) -> None:
    device = KernelTestDevice(name)
    data = np.arange(200, dtype=np.int32)
    at = device.upload(data)
    device.launch("reverse", (1,), (200,), "Q", at, lds=800)
    assert device.download(at, data).tolist() == [199 - i + (1 << ((i ^ 1) & 7)) for i in range(200)]


@BOTH
@pytest.mark.parametrize("which", [0, 1, 2])
def test_generic_pointers_reach_global_lds_and_private_memory(name: str, which: int) -> None:
    device = KernelTestDevice(name)
    out = np.zeros(128, np.int32)
    at = device.upload(out)
    device.launch("generic", (1,), (64,), "Qi", at, which)
    assert set(device.download(at, out)[64:].tolist()) == {8}


@BOTH
def test_private_arrays_indexed_at_run_time(name: str) -> None:
    def expected(n: int, step: int) -> int:
        local = [0] * 64
        for i in range(64):
            local[(i * 7 + n) & 63] = i * n
        return sum(local[(i * step) & 63] * (i + 1) for i in range(n))

    device = KernelTestDevice(name)
    steps = np.array([3, 5] + [0] * 62, np.int32)
    at = device.upload(steps)
    device.launch("stack", (1,), (64,), "Qi", at, 9)
    assert device.download(at, steps).tolist() == [expected(9, (3, 5)[i & 1]) for i in range(64)]


@BOTH
def test_atomics_sum_over_all_work_groups(name: str) -> None:
    device = KernelTestDevice(name)
    at = device.upload(np.zeros(1, np.int32))
    device.launch("add_to_one", (50,), (100,), "Q", at)
    assert device.download(at, np.zeros(1, np.int32))[0] == 50 * sum(range(100))


@BOTH
def test_contended_compare_and_swap_retries_seldom(name: str) -> None:
    waves = 4000  # if every try cost a turn of all other waves, this would be millions of tries
    device = KernelTestDevice(name)
    at = device.upload(np.zeros(1, np.float32))
    result = device.launch("add_floats", (waves // 4,), (256,), "Q", at)
    assert device.download(at, np.zeros(1, np.float32))[0] == waves * 64
    assert waves <= result["counters"]["TCC_ATOMIC"] <= 3 * waves


@BOTH
@pytest.mark.parametrize("poll_with_atomics", [0, 1])
def test_waves_that_wait_for_another_work_group_make_progress(name: str, poll_with_atomics: int) -> None:
    device = KernelTestDevice(name, max_wave_instructions=1_000_000)
    groups = 200
    flag, out = device.upload(np.zeros(1, np.int32)), np.zeros(groups, np.int32)
    at = device.upload(out)
    device.launch("wait_for_last_group", (groups,), (64,), "QQi", flag, at, poll_with_atomics)
    assert device.download(at, out).tolist() == [7] * (groups - 1) + [0]


@BOTH
def test_a_spin_lock_gives_mutual_exclusion(name: str) -> None:
    device = KernelTestDevice(name, max_wave_instructions=10_000_000)
    lock, guarded = device.upload(np.zeros(1, np.int32)), device.upload(np.zeros(1, np.int32))
    device.launch("spin_lock", (100,), (64,), "QQ", lock, guarded)
    assert device.download(guarded, np.zeros(1, np.int32))[0] == 100


@BOTH
def test_buffered_printf(name: str) -> None:
    text = KernelTestDevice(name).launch("say", (1,), (2,), "i", 5)["printf"]
    assert text == b"lane 0 of  0.62%\nlane 1 of  0.62%\n"


@BOTH
def test_out_of_bounds_names_kernel_instruction_lane_and_allocation(name: str) -> None:
    device = KernelTestDevice(name)
    at = device.upload(np.zeros(100, np.int32))
    with pytest.raises(core.SimError) as caught:
        device.launch("out_of_bounds", (1,), (64,), "Qi", at, 60)
    reason, message = caught.value.args
    assert reason == "illegal_access"
    for part in ("out_of_bounds", "global_store_dword", "lane 40", hex(at), "400 bytes", "work-group (0, 0, 0)"):
        assert part in message


@BOTH
@pytest.mark.parametrize(("kernel", "reason"), [("forever", "instruction_limit"), ("abort_it", "trap")])
def test_endless_loops_and_traps_are_results_with_a_reason(name: str, kernel: str, reason: str) -> None:
    device = KernelTestDevice(name, max_wave_instructions=100_000)
    at = device.upload(np.zeros(1, np.int32))
    with pytest.raises(core.SimError) as caught:
        device.launch(kernel, (1,), (64,), "Q", at)
    assert caught.value.args[0] == reason


def test_the_handler_of_a_signal_ends_a_launch_that_is_timed() -> None:
    class Stopped(Exception):
        pass

    def stop(*_: object) -> None:
        raise Stopped

    device = KernelTestDevice("mi300x")
    at = device.upload(np.zeros(1, np.int32))
    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, 0.2)
    try:
        with pytest.raises(Stopped):
            device.launch("forever", (1,), (64,), "Q", at)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@BOTH
def test_ended_waves_count_as_arrived_at_a_barrier(name: str) -> None:
    device = KernelTestDevice(name)
    at = device.upload(np.zeros(128, np.int32))
    device.launch("one_thread_waits", (1,), (128,), "Q", at)
    assert device.download(at, np.zeros(128, np.int32)).tolist() == [0] * 64 + [1] * 64


@BOTH
@pytest.mark.parametrize("damage", ["truncate", "zero", "text"])
def test_a_damaged_code_object_is_refused(name: str, damage: str) -> None:
    device = KernelTestDevice(name)
    from sim_device import code

    elf, text = code(device.table.arch)
    broken = {"truncate": elf[: len(elf) // 2], "zero": bytes(len(elf)), "text": b"\x7fELF hello"}[damage]
    with pytest.raises(core.SimError) as caught:
        device.core.load(broken, text)
    assert caught.value.args[0] == "bad_code_object"


def test_private_memory_of_a_wave_is_a_whole_number_of_kib() -> None:
    device = KernelTestDevice("mi300x")
    out = np.zeros(100, np.uint32)
    at = device.upload(out)
    result = device.launch("private_base", (100,), (64,), "QQ", at, device.upload(np.zeros(300, np.int32)))
    bases = np.unique(device.download(at, out))
    assert result["registers"]["scratch_bytes"] * 64 % 1024 != 0
    assert len(bases) > 50 and (np.diff(bases) % 1024 == 0).all()
