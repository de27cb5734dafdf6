"""Does the memory model follow the rules that recorded counters fix? (rocprofiler-compute test data, gpu-benches)"""

from __future__ import annotations

import needs
import pytest

from hipsynth.simulator import devices

core = needs.core()
BASE = 1 << 40
DEVICES = pytest.mark.parametrize("device", ["mi250", "mi300x"])


def model(device: str) -> object:
    table = devices.load_device(device)
    made = core.MemoryModel(table.arch, table.spec())
    made.begin()
    return made


def one(device: str, kind: str, addresses: list[int], width: int, **options: object) -> dict[str, float]:
    memory = model(device)
    memory.access(0, kind, addresses, width, **options)  # type: ignore[attr-defined]
    return memory.end()  # type: ignore[attr-defined, no-any-return]


@DEVICES
@pytest.mark.parametrize(
    ("stride", "width", "offset", "look_ups"),
    [(4, 4, 0, 4), (8, 8, 0, 16), (16, 16, 0, 16), (4, 4, 4, 8), (4096, 8, 0, 64), (2, 2, 0, 4)],
    ids=["dword", "dwordx2", "dwordx4", "misaligned dword", "divergent 8 B", "short"],
)
def test_look_ups_per_wave_load(device: str, stride: int, width: int, offset: int, look_ups: int) -> None:
    counters = one(device, "load", [BASE + offset + i * stride for i in range(64)], width)
    assert counters["TCP_TOTAL_CACHE_ACCESSES"] == look_ups
    assert counters["TCP_TOTAL_ACCESSES"] == counters["TCP_TOTAL_READ"] == (16 if width <= 4 else 64)


@pytest.mark.parametrize(("device", "requests"), [("mi250", 8), ("mi300x", 4)])
def test_read_requests_are_64_bytes_on_gfx90a_and_128_on_gfx942(device: str, requests: int) -> None:
    counters = one(device, "load", [BASE + 8 * i for i in range(64)], 8)
    assert counters["TCP_TCC_READ_REQ"] == requests
    assert counters["TCC_MISS"] == 4


@DEVICES
def test_stores_leave_as_64_byte_requests_and_hit_in_the_second_half_of_a_line(device: str) -> None:
    counters = one(device, "store", [BASE + 8 * i for i in range(64)], 8)
    assert counters["TCP_TCC_WRITE_REQ"] == counters["TCC_WRITE"] == 8
    assert counters["TCC_HIT"] == counters["TCC_MISS"] == 4


@pytest.mark.parametrize(("device", "requests"), [("mi250", 64), ("mi300x", 16)])
def test_stores_of_a_line_by_the_four_groups_of_lanes_leave_as_one_request_on_gfx942(
    device: str, requests: int
) -> None:
    """Recorded on an MI300X: a transpose of bfloat16, 1,048,576 look-ups and 262,144 write requests."""
    addresses = [BASE + 16384 * (lane % 16) + 2 * (lane // 16) for lane in range(64)]
    counters = one(device, "store", addresses, 2)
    assert counters["TCP_TOTAL_CACHE_ACCESSES"] == 64
    assert counters["TCP_TCC_WRITE_REQ"] == counters["TCC_WRITE"] == requests
    assert counters["TCC_MISS"] == 16


@DEVICES
def test_inactive_lanes_count_as_accesses_but_reach_no_cache(device: str) -> None:
    counters = one(device, "load", [BASE + 8 * i for i in range(64)], 8, exec=1)
    assert counters["TCP_TOTAL_ACCESSES"] == 64
    assert counters["TCP_TOTAL_CACHE_ACCESSES"] == counters["TCP_TCC_READ_REQ"] == 1


@DEVICES
@pytest.mark.parametrize(("returns", "name"), [(True, "WITH_RET"), (False, "WITHOUT_RET")])
def test_atomics_to_one_address_are_one_request_per_lane(device: str, returns: bool, name: str) -> None:
    counters = one(device, "atomic", [BASE] * 64, 4, returns=returns)
    assert counters[f"TCP_TCC_ATOMIC_{name}_REQ"] == counters["TCC_ATOMIC"] == 64
    assert counters["TCC_MISS"] == 1


def test_a_pure_write_stream_leaves_half_of_the_l2_dirty() -> None:
    table = devices.load_device("mi250")
    memory = core.MemoryModel("gfx90a", table.spec())
    lines = int(table["l2.bytes"] / table["l2.line_bytes"])
    counters: dict[str, float] = {}
    for _ in range(2):  # the first dispatch of a device ends with a write-back of everything
        memory.begin()
        for first in range(0, 4 * lines, 4):
            memory.access(0, "store", [BASE + first * 128 + 8 * i for i in range(64)], 8)
        counters = memory.end()
    assert counters["TCC_NORMAL_WRITEBACK"] == 4 * lines - lines // 2
    assert counters["TCC_NORMAL_EVICT"] == 3 * lines


def test_partial_lines_are_written_as_32_byte_requests() -> None:
    counters = one("mi300x", "store", [BASE + 128 * i for i in range(64)], 4)
    assert counters["TCC_EA0_WRREQ"] == 64
    assert counters["TCC_EA0_WRREQ_64B"] == 0
    assert counters["WRITE_SIZE"] == 64 * 32 / 1024


@DEVICES
@pytest.mark.parametrize("width", [4, 8, 12, 16])
def test_lanes_known_to_be_contiguous_count_the_same(device: str, width: int) -> None:
    """Aligned or not; stores of whole segments only, since what they leave unwritten is not looked at."""
    known, found = model(device), model(device)
    for turn, offset in enumerate([0, 4, 36, 64, 100, 4096, 2**33, 0]):
        addresses = [BASE + offset + width * i for i in range(64)]
        kinds = ["load", "store"] if offset % 64 == 0 else ["load"]
        levels = [
            [memory.access(turn % 2, kind, addresses, width, contiguous=known_so) for kind in kinds]  # type: ignore[attr-defined]
            for memory, known_so in ((known, True), (found, False))
        ]
        assert levels[0] == levels[1]
    counters = known.end()  # type: ignore[attr-defined]
    assert counters == found.end()  # type: ignore[attr-defined]
    assert counters["TCP_TCC_WRITE_REQ"] == 5 * width  # five stores of 64 lanes


@DEVICES
def test_columns_of_power_of_two_row_strides_never_hit_in_the_vl1d(device: str) -> None:
    """Recorded: 0.00 % for rows 256 KiB apart, which several waves read column by column."""
    memory = model(device)
    rows, waves = 64, 8
    for column in range(2):
        for wave in range(waves):
            first = BASE + wave * rows * (256 << 10) + 4 * column
            memory.access(0, "load", [first + row * (256 << 10) for row in range(rows)], 4)  # type: ignore[attr-defined]
    assert memory.end()["TCP_TCC_READ_REQ"] == 2 * rows * waves  # type: ignore[attr-defined]


def requests_of_two_passes(rows: int, stride: int) -> float:
    """Requests to the L2 of reading one line in each of so many rows, twice."""
    memory = model("mi300x")
    for _ in range(2):
        for row in range(rows):
            memory.access(0, "load", [BASE + row * stride] * 64, 4)
    found: float = memory.end()["TCP_TCC_READ_REQ"]
    return found


def test_bits_7_and_8_of_the_address_choose_one_of_four_sets_of_64_lines_on_gfx942() -> None:
    for stride in (128, 896, 4224):  # all four sets
        assert requests_of_two_passes(256, stride) == 256, stride
    for stride in (256, 768, 1280):  # two of them
        assert requests_of_two_passes(128, stride) == 128, stride
        assert requests_of_two_passes(256, stride) == 512, stride
    for stride in (512, 4 << 10, 64 << 10, 1 << 20):  # one
        assert requests_of_two_passes(64, stride) == 64, stride
        assert requests_of_two_passes(128, stride) == 256, stride


def requests_of_column_walks(pitch: int, between: int, columns: int) -> float:
    """Four waves read column by column, each 64 rows `pitch` bytes apart of an array of its own."""
    memory = model("mi300x")
    rows, waves = 64, 4
    for column in range(columns):
        for wave in range(waves):
            first = BASE + wave * (rows * pitch + between) + 4 * column
            memory.access(0, "load", [first + row * pitch for row in range(rows)], 4)
    found: float = memory.end()["TCP_TCC_READ_REQ"]
    return found / (rows * waves)


@pytest.mark.parametrize("between", [64 << 10, 64 << 20])
@pytest.mark.parametrize("pitch", [64 << 10, 128 << 10, 256 << 10, 1 << 20])
def test_waves_that_walk_down_columns_keep_lines_only_if_the_rows_are_padded(pitch: int, between: int) -> None:
    columns = 32
    assert requests_of_column_walks(pitch, between, columns) == columns
    assert requests_of_column_walks(pitch + 128, between, columns) == 1


def test_the_vl1d_keeps_what_fits_and_compute_units_do_not_share_it() -> None:
    memory = model("mi250")
    for cu in (0, 0, 1):
        memory.access(cu, "load", [BASE + 4 * i for i in range(64)], 4)  # type: ignore[attr-defined]
    assert memory.end()["TCP_TCC_READ_REQ"] == 8  # type: ignore[attr-defined]


def test_accesses_go_from_vl1d_to_l2_to_memory() -> None:
    memory = model("mi300x")
    line = [BASE] * 64
    assert memory.access(0, "load", line, 4) == 4  # type: ignore[attr-defined]
    assert memory.access(0, "load", line, 4) == 1  # type: ignore[attr-defined]
    assert memory.access(1, "load", line, 4) == 2  # type: ignore[attr-defined]
    assert memory.access(38, "load", line, 4) == 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("device", devices.list_devices())
def test_tables_have_exactly_the_keys_that_the_core_reads(device: str) -> None:
    assert set(devices.load_device(device).constants) == set(core.spec_keys())


def test_a_table_with_missing_and_unknown_keys_is_refused_with_all_of_them() -> None:
    spec = devices.load_device("mi250").spec()
    del spec["l2.ways"], spec["vl1d.ways"]
    spec["l3.bytes"] = 1.0
    with pytest.raises(core.SimError) as caught:
        core.MemoryModel("gfx90a", spec)
    assert caught.value.args[0] == "bad_spec"
    for key in ("l2.ways", "vl1d.ways", "l3.bytes"):
        assert key in caught.value.args[1]


def test_an_unknown_kind_of_access_is_an_error() -> None:
    with pytest.raises(ValueError, match="no kind of access: fetch"):
        one("mi250", "fetch", [BASE], 4)
