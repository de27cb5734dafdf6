"""Do image instructions load, filter and store texels according to the published formulas of texture sampling?

The oracle is written from the formulas (CUDA and HIP programming guides, "Texture Fetching"), in floating point.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from hipsynth.simulator import _core, devices

LANES = 64
SIZE = (7, 5)  # width, height
FORMATS: dict[str, tuple[int, int, Any, int]] = {  # name -> data format, number format, numpy type, components
    "float": (4, 7, np.float32, 1),
    "float2": (11, 7, np.float32, 2),
    "float4": (14, 7, np.float32, 4),
    "half4": (12, 7, np.float16, 4),
    "uchar4 as float": (10, 0, np.uint8, 4),
    "char2 as float": (3, 1, np.int8, 2),
    "ushort as float": (2, 0, np.uint16, 1),
    "short4 as float": (12, 1, np.int16, 4),
    "uchar": (1, 4, np.uint8, 1),
    "int": (4, 5, np.int32, 1),
    "short2": (5, 5, np.int16, 2),
    "uint4": (14, 4, np.uint32, 4),
}
WRAPS = {"repeat": 0, "mirror": 1, "clamp": 2, "border": 6}


def put(words: list[int], at: int, bits: int, value: int) -> None:
    for i in range(bits):
        words[(at + i) // 32] |= (value >> i & 1) << (at + i) % 32


def image_words(base: int, form: str, size: tuple[int, int], pitch: int) -> list[int]:
    """T# of a 2-D image, from the bit positions of the ISA guide."""
    words = [0] * 8
    put(words, 0, 40, base >> 8)
    put(words, 52, 6, FORMATS[form][0])
    put(words, 58, 4, FORMATS[form][1])
    put(words, 64, 14, size[0] - 1)
    put(words, 78, 14, size[1] - 1)
    for k in range(4):
        put(words, 96 + 3 * k, 3, 4 + k)
    put(words, 124, 4, 9)
    put(words, 141, 16, pitch - 1)
    return words


def sampler_words(wrap: str, linear: bool, unnormalised: bool) -> list[int]:
    words = [0] * 4
    for k in range(3):
        put(words, 3 * k, 3, WRAPS[wrap])
    put(words, 15, 1, unnormalised)
    put(words, 84, 2, linear)
    put(words, 86, 2, linear)
    return words


class Device:
    def __init__(self) -> None:
        self.core = _core.Device("gfx90a", devices.load_device("mi250").spec(), count=True)

    def upload(self, data: bytes) -> int:
        address: int = self.core.allocate(len(data))
        self.core.write(address, np.frombuffer(data, np.uint8))
        return address

    def download(self, address: int, size: int) -> np.ndarray:
        out = np.zeros(size, np.uint8)
        self.core.read(address, out)
        return out

    def run(self, text: str, *addresses: int) -> dict[str, Any]:
        """s[4:5], s[6:7] ... hold the addresses; v1 = 16 * lane; v[2:5] the 16 bytes of the second one."""
        head = "".join(
            f"s_load_dwordx2 s[{4 + 2 * i}:{5 + 2 * i}], s[0:1], {8 * i:#x}\n" for i in range(len(addresses))
        )
        head += "s_waitcnt lgkmcnt(0)\ns_load_dwordx8 s[24:31], s[4:5], 0x0\ns_load_dwordx4 s[32:35], s[4:5], 0x30\n"
        head += "v_lshlrev_b32 v1, 4, v0\nglobal_load_dwordx4 v[2:5], v1, s[6:7]\ns_waitcnt vmcnt(0) lgkmcnt(0)\n"
        module = self.core.load_text(head + text + "\ns_waitcnt vmcnt(0)\ns_endpgm\n")
        args = struct.pack(f"<{len(addresses)}Q", *addresses)
        done: dict[str, Any] = self.core.launch(module, "kernel", (1, 1, 1), (LANES, 1, 1), args)
        return done


def texels(form: str, pitch: int) -> np.ndarray:
    """Random texels, [height, pitch, components]."""
    _, _, kind, components = FORMATS[form]
    rng = np.random.default_rng(len(form))
    shape = (SIZE[1], pitch, components)
    if np.issubdtype(kind, np.floating):
        return rng.uniform(-4, 4, shape).astype(kind)
    info = np.iinfo(kind)
    return rng.integers(info.min, info.max, shape, dtype=kind, endpoint=True)


def as_read(form: str, raw: np.ndarray) -> np.ndarray:
    """The value that a texel load gives: four float64 components; missing ones are 0, 0, 0, 1."""
    _, number, kind, components = FORMATS[form]
    values = raw.astype(np.float64)
    if number in (0, 1):
        values = np.maximum(values / np.iinfo(kind).max, -1.0)
    out = np.zeros((*raw.shape[:-1], 4))
    out[..., 3] = 1
    out[..., :components] = values
    return out


def index(i: int, n: int, wrap: str) -> int | None:
    if wrap == "repeat":
        return i % n
    if wrap == "mirror":
        return i % (2 * n) if i % (2 * n) < n else 2 * n - 1 - i % (2 * n)
    if wrap == "clamp":
        return min(max(i, 0), n - 1)
    return i if 0 <= i < n else None


def fetched(form: str, picture: np.ndarray, x: int, y: int, wrap: str) -> np.ndarray:
    i, j = index(x, SIZE[0], wrap), index(y, SIZE[1], wrap)
    return np.zeros(4) if i is None or j is None else as_read(form, picture[j, i])


def expected(form: str, picture: np.ndarray, u: float, v: float, wrap: str, linear: bool) -> np.ndarray:
    """Sample at (u, v) in texels: nearest, or bilinear with weights in 256ths."""
    if not linear:
        return fetched(form, picture, int(np.floor(u)), int(np.floor(v)), wrap)
    fixed = [int(np.floor((c - 0.5) * 256 + 0.5)) for c in (u, v)]
    (x, y), (a, b) = (f >> 8 for f in fixed), ((f & 255) / 256 for f in fixed)
    return sum(
        (a if dx else 1 - a) * (b if dy else 1 - b) * fetched(form, picture, x + dx, y + dy, wrap)
        for dx in (0, 1)
        for dy in (0, 1)
    )


def results(form: str, raw: np.ndarray) -> np.ndarray:
    number = FORMATS[form][1]
    kind = {4: np.uint32, 5: np.int32}.get(number, np.float32)
    return raw.view(kind).reshape(LANES, 4).astype(np.float64)


FILTERS = [(form, False) for form in FORMATS] + [(form, True) for form in FORMATS if FORMATS[form][1] not in (4, 5)]


@pytest.mark.parametrize("unnormalised", [False, True])
@pytest.mark.parametrize("wrap", WRAPS)
@pytest.mark.parametrize(("form", "linear"), FILTERS)
def test_sampling(form: str, wrap: str, linear: bool, unnormalised: bool) -> None:
    device, pitch = Device(), 8
    picture = texels(form, pitch)
    base = device.upload(picture.tobytes())
    sizes = np.array(SIZE, np.float32)
    at = np.zeros((LANES, 4), np.float32)
    at[:, :2] = np.random.default_rng(7).uniform(-1.5, 2.5, (LANES, 2)) * sizes
    coordinates = at[:, :2].copy() if unnormalised else at[:, :2] / sizes
    given = np.zeros((LANES, 4), np.float32)
    given[:, :2] = coordinates
    words = image_words(base, form, SIZE, pitch) + [0] * 4 + sampler_words(wrap, linear, unnormalised)
    places = device.upload(struct.pack("<16I", *words)), device.upload(given.tobytes())
    out = device.upload(bytes(16 * LANES))
    text = "image_sample v[8:11], v2, s[24:31], s[32:35] dmask:0xf\ns_waitcnt vmcnt(0)\n"
    device.run(text + "global_store_dwordx4 v1, v[8:11], s[8:9]", *places, out)
    got = results(form, device.download(out, 16 * LANES))
    scale = np.ones(2) if unnormalised else sizes.astype(np.float64)
    for lane in range(LANES):
        u, v = coordinates[lane].astype(np.float64) * scale
        want = expected(form, picture, u, v, wrap, linear)
        assert np.allclose(got[lane], want, rtol=1e-6, atol=1e-6), (lane, u, v, got[lane], want)


@pytest.mark.parametrize("form", FORMATS)
def test_loads_and_stores_of_texels(form: str) -> None:
    device, pitch = Device(), 8
    picture = texels(form, pitch)
    base, target = device.upload(picture.tobytes()), device.upload(np.zeros_like(picture).tobytes())
    at = np.zeros((LANES, 4), np.uint32)
    at[:, 0], at[:, 1] = np.arange(LANES) % 8, np.arange(LANES) // 8  # some outside
    words = image_words(base, form, SIZE, pitch)
    places = device.upload(struct.pack("<16I", *words, *[0] * 8)), device.upload(at.tobytes())
    out, second = (
        device.upload(bytes(16 * LANES)),
        device.upload(struct.pack("<8I", *image_words(target, form, SIZE, pitch))),
    )
    text = "image_load v[8:11], v2, s[24:31] dmask:0xf unorm\ns_load_dwordx8 s[36:43], s[10:11], 0x0\n"
    text += "s_waitcnt vmcnt(0) lgkmcnt(0)\nglobal_store_dwordx4 v1, v[8:11], s[8:9]\n"
    device.run(text + "image_store v[8:11], v2, s[36:43] dmask:0xf unorm", *places, out, second)
    got = results(form, device.download(out, 16 * LANES))
    for lane in range(LANES):
        x, y = int(at[lane, 0]), int(at[lane, 1])
        want = as_read(form, picture[y, x]) if x < SIZE[0] and y < SIZE[1] else np.zeros(4)
        assert np.allclose(got[lane], want, rtol=1e-6)
    copied = device.download(target, picture.nbytes).view(picture.dtype).reshape(picture.shape)
    kept = picture.copy()
    if FORMATS[form][1] == 1:  # -128 and -127 both read as -1
        kept = np.maximum(kept, -np.iinfo(picture.dtype).max)
    assert (copied[:, : SIZE[0]] == kept[:, : SIZE[0]]).all()
    assert (copied[:, SIZE[0] :] == 0).all()


def test_components_are_chosen_by_the_mask_and_halves_are_packed() -> None:
    device, pitch = Device(), 8
    picture = texels("float4", pitch)
    words = image_words(device.upload(picture.tobytes()), "float4", SIZE, pitch)
    places = device.upload(struct.pack("<16I", *words, *[0] * 8)), device.upload(bytes(16 * LANES))
    out = device.upload(bytes(16 * LANES))
    text = "image_load v[8:9], v2, s[24:31] dmask:0xa unorm\nimage_load v[10:11], v2, s[24:31] dmask:0xf unorm d16\n"
    device.run(text + "s_waitcnt vmcnt(0)\nglobal_store_dwordx4 v1, v[8:11], s[8:9]", *places, out)
    raw = device.download(out, 16)
    assert raw[:8].view(np.float32).tolist() == picture[0, 0, [1, 3]].tolist()
    assert (raw[8:].view(np.float16) == picture[0, 0].astype(np.float16)).all()


def test_the_size_of_an_image_can_be_asked_for() -> None:
    device = Device()
    words = image_words(device.upload(bytes(4096)), "float", SIZE, 8)
    places = device.upload(struct.pack("<16I", *words, *[0] * 8)), device.upload(bytes(16 * LANES))
    out = device.upload(bytes(16 * LANES))
    device.run(
        "image_get_resinfo v[8:11], v2, s[24:31] dmask:0xf\nglobal_store_dwordx4 v1, v[8:11], s[8:9]", *places, out
    )
    assert device.download(out, 16).view(np.uint32).tolist() == [*SIZE, 1, 1]


@pytest.mark.parametrize("form", ["float", "uchar4 as float", "short2", "float4"])
def test_typed_buffers_are_textures_over_linear_memory(form: str) -> None:
    device = Device()
    data, number, _, components = FORMATS[form]
    values = texels(form, 8)[0]
    step = values.itemsize * components
    base = device.upload(values.tobytes())
    words = [base & 0xFFFFFFFF, (base >> 32) | step << 16, len(values), 0]
    for k in range(4):
        words[3] |= (4 + k) << 3 * k
    words[3] |= number << 12 | data << 15
    at = np.zeros((LANES, 4), np.uint32)
    at[:, 0] = np.arange(LANES)
    places = device.upload(struct.pack("<16I", *words, *[0] * 12)), device.upload(at.tobytes())
    out = device.upload(bytes(16 * LANES))
    text = "buffer_load_format_xyzw v[8:11], v2, s[24:27], 0 idxen\ns_waitcnt vmcnt(0)\n"
    device.run(text + "global_store_dwordx4 v1, v[8:11], s[8:9]", *places, out)
    got = results(form, device.download(out, 16 * LANES))
    want = np.zeros((LANES, 4))
    want[: len(values)] = as_read(form, values)
    assert np.allclose(got, want, rtol=1e-6)


def test_an_image_outside_of_every_allocation_is_an_illegal_access() -> None:
    device = Device()
    words = image_words(0x7F00_0000_1000, "float", SIZE, 8)
    places = device.upload(struct.pack("<16I", *words, *[0] * 8)), device.upload(bytes(16 * LANES))
    with pytest.raises(_core.SimError) as caught:
        device.run("image_load v8, v2, s[24:31] dmask:0x1 unorm", *places)
    assert caught.value.args[0] == "illegal_access"
    with pytest.raises(_core.SimError):
        device.run("image_load v8, v127, s[24:31] dmask:0x1 unorm", *places)


def buffer_words(base: int, form: str, step: int, count: int) -> list[int]:
    """V# of a typed buffer whose records are `step` bytes."""
    data, number, _, _ = FORMATS[form]
    words = [base & 0xFFFFFFFF, (base >> 32) | step << 16, count, number << 12 | data << 15]
    for k in range(4):
        words[3] |= (4 + k) << 3 * k
    return words


def lanes(*columns: Any) -> bytes:
    at = np.zeros((LANES, 4), np.uint32)
    for k, column in enumerate(columns):
        at[:, k] = column
    return at.tobytes()


def test_levels_of_one_level_images() -> None:
    """Level 0 is the image; loads from other levels give zero and stores to them are dropped."""
    device = Device()
    picture = texels("uint4", 8)
    words = image_words(device.upload(picture.tobytes()), "uint4", SIZE, 8)
    x, y, level = np.arange(LANES) % 7, np.arange(LANES) // 7 % 5, np.arange(LANES) % 2
    places = device.upload(struct.pack("<16I", *words, *[0] * 8)), device.upload(lanes(x, y, level))
    out = device.upload(bytes(16 * LANES))
    text = "image_load_mip v[8:11], v[2:4], s[24:31] dmask:0xf unorm\ns_waitcnt vmcnt(0)\n"
    text += "global_store_dwordx4 v1, v[8:11], s[8:9]\nv_mov_b32 v8, 7\nv_mov_b32 v4, 1\n"
    device.run(text + "image_store_mip v8, v[2:4], s[24:31] dmask:0x1 unorm", *places, out)
    got = device.download(out, 16 * LANES).view(np.uint32).reshape(LANES, 4)
    want = np.where(level[:, None] == 0, picture[y, x], 0)
    assert (got == want).all()
    address = (words[0] | words[1] << 32 & 0xFF00000000) << 8
    assert (device.download(address, picture.nbytes).view(np.uint32) == picture.ravel()).all()


ATOMICS = {
    "swap": lambda old, v: v, "add": lambda old, v: old + v, "sub": lambda old, v: old - v,
    "smin": lambda old, v: min(int(np.int32(old)), int(np.int32(v))), "umin": min,
    "smax": lambda old, v: max(int(np.int32(old)), int(np.int32(v))), "umax": max,
    "and": lambda old, v: old & v, "or": lambda old, v: old | v, "xor": lambda old, v: old ^ v,
    "inc": lambda old, v: 0 if old >= v else old + 1, "dec": lambda old, v: v if old == 0 or old > v else old - 1,
}  # fmt: skip


@pytest.mark.parametrize("name", [*ATOMICS, "cmpswap"])
def test_atomics_on_texels(name: str) -> None:
    device = Device()
    rng = np.random.default_rng(len(name))
    picture = rng.integers(0, 1 << 32, (SIZE[1], 8), dtype=np.uint32)
    values = rng.integers(0, 1 << 32, LANES, dtype=np.uint32)
    x, y = np.arange(LANES) % 8, np.arange(LANES) // 8  # column 7 and rows from 5 on are outside
    compare = np.where(np.arange(LANES) % 3, picture[np.minimum(y, 4), x], values)
    base = device.upload(picture.tobytes())
    words = image_words(base, "int", SIZE, 8)
    places = device.upload(struct.pack("<16I", *words, *[0] * 8)), device.upload(lanes(x, y, values, compare))
    out = device.upload(bytes(16 * LANES))
    data, mask = ("v[4:5]", 3) if name == "cmpswap" else ("v4", 1)
    text = f"image_atomic_{name} {data}, v[2:3], s[24:31] dmask:{mask:#x} unorm glc\ns_waitcnt vmcnt(0)\n"
    device.run(text + "global_store_dwordx4 v1, v[2:5], s[8:9]", *places, out)
    after = device.download(base, picture.nbytes).view(np.uint32).reshape(picture.shape)
    old = device.download(out, 16 * LANES).view(np.uint32).reshape(LANES, 4)[:, 2]
    want, returned = picture.copy(), np.zeros(LANES, np.uint32)
    for n in range(LANES):
        if x[n] < SIZE[0] and y[n] < SIZE[1]:
            before = int(picture[y[n], x[n]])
            returned[n] = before
            if name == "cmpswap":
                fresh = int(values[n]) if before == int(compare[n]) else before
            else:
                with np.errstate(over="ignore"):
                    fresh = ATOMICS[name](before, int(values[n])) if name[0] != "s" or name in ("sub", "swap") else (
                        ATOMICS[name](np.uint32(before).view(np.int32), values[n].view(np.int32)))  # fmt: skip
            want[y[n], x[n]] = fresh & 0xFFFFFFFF
    assert (after == want).all() and (old == returned).all()


HALVES = ["float2", "half4", "uchar4 as float", "short2", "uchar"]


def as_halves(form: str, values: np.ndarray) -> np.ndarray:
    """Bits of the 16-bit components that d16 loads give: halves, or the low bits of integers."""
    if FORMATS[form][1] in (4, 5):
        return values.astype(np.int64).astype(np.uint16)
    return values.astype(np.float32).astype(np.float16).view(np.uint16)


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("form", HALVES)
def test_typed_buffers_of_halves_and_named_formats(form: str, named: bool) -> None:
    """d16 loads into registers and upper halves, and d16 stores; named formats override the V#."""
    device = Device()
    data, number, _, components = FORMATS[form]
    values = texels(form, 8)[0]
    step = values.itemsize * components
    base, target = device.upload(values.tobytes()), device.upload(bytes(values.nbytes))
    words = [*buffer_words(base, form, step, len(values)), *buffer_words(target, form, step, len(values))]
    if named:
        words[3], words[7] = (w & 0xFFF | 4 << 15 | 7 << 12 for w in (words[3], words[7]))
    kind, tail = ("tbuffer", f"format:{data | number << 4}") if named else ("buffer", "")
    size = "xyzw"[:components]
    places = device.upload(struct.pack("<16I", *words, *[0] * 8)), device.upload(lanes(np.arange(LANES)))
    out = device.upload(bytes(16 * LANES))
    registers = "v8" if components < 3 else "v[8:9]"
    text = f"{kind}_load_format_d16_xyzw v[8:9], v2, s[24:27], 0 {tail} idxen\nv_mov_b32 v10, 0x1234\n"
    if not named:
        text += "buffer_load_format_d16_hi_x v10, v2, s[24:27], 0 idxen\n"
    text += f"s_waitcnt vmcnt(0)\n{kind}_store_format_d16_{size} {registers}, v2, s[28:31], 0 {tail} idxen\n"
    device.run(text + "global_store_dwordx4 v1, v[8:11], s[8:9]", *places, out)
    got = device.download(out, 16 * LANES).view(np.uint16).reshape(LANES, 8)
    want = np.zeros((LANES, 4), np.uint16)
    want[: len(values)] = as_halves(form, as_read(form, values))
    if named:  # the V# selects nothing, and what the format lacks is 0 (CDNA3 ISA, section 9.1.4)
        want[:, components:] = 0
    assert (got[:, :4] == want).all()
    assert (got[:, 4] == 0x1234).all() and (named or (got[:, 5] == want[:, 0]).all())
    copied = device.download(target, values.nbytes).view(values.dtype).reshape(values.shape)
    assert np.allclose(copied.astype(np.float64), values.astype(np.float64), rtol=2**-10, atol=1 if number == 0 else 0)


SCALED = {
    "unsigned": (4, 2, 0.0, 2.0**32 - 1),
    "signed": (4, 3, -(2.0**31), 2.0**31 - 1),
    "byte": (1, 3, -128.0, 127.0),
}


@pytest.mark.parametrize("kind", SCALED)
def test_scaled_texels_saturate(kind: str) -> None:
    """Scaled formats: stores truncate floats to integers and saturate."""
    device = Device()
    data, number, low, high = SCALED[kind]
    values = np.zeros((LANES, 4), np.float32)
    values[:, 1] = [float(x) for x in (0, 1.75, -1.75, 100, -100, 3e9, -3e9, 1e20, -1e20, 127.5, -128.5, np.nan)] + [
        5
    ] * 52
    values[:, 0] = np.arange(LANES, dtype=np.uint32).view(np.float32)
    step = 4 if data == 4 else 1
    target = device.upload(bytes(step * LANES))
    words = [target & 0xFFFFFFFF, (target >> 32) | step << 16, LANES, 0]
    places = device.upload(struct.pack("<16I", *words, *[0] * 12)), device.upload(values.tobytes())
    device.run(f"tbuffer_store_format_x v3, v2, s[24:27], 0 format:{data | number << 4} idxen", *places)
    got = device.download(target, step * LANES).view(
        {0: np.uint32, 1: np.int32}[int(kind == "signed")] if step == 4 else np.int8
    )
    wide = values[:, 1].astype(np.float64)
    want = np.where(np.isnan(wide), 0, np.trunc(np.clip(wide, low, high)))
    assert got.astype(np.float64).tolist() == want.tolist()
