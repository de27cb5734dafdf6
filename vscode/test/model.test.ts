import { expect, test } from "vitest";
import { csv, escaped, hasKernel, kernelAt, options, Restarts, tables, type Figure, type Panel } from "../src/model";

const FIGURE: Figure = {
  id: "duration_ns", title: "Duration", unit: "ns", how: "predicted", value: 5000, low: 2500, high: 10000, predicted: null, saved: 4000,
  text: "5 us", interval: "2.5 us to 10 us", predictedText: "", savedText: "4 us", change: "+25.0 %",
};
const PANEL: Panel = {
  target: { arch: "gfx90a", device: "", flags: "-O3" }, model: "m", state: "", edited: true, roofline: null,
  kernels: [
    { name: "first", line: 3, how: "predicted", summary: "5 us", note: "", why: ["reads <much>"], figures: [FIGURE] },
    { name: "a,\"b\"", line: 10, how: "", summary: "…", note: "", why: [], figures: [{ ...FIGURE, value: null, text: "" }] },
  ],
};

test("a kernel begins with a whole word", () => {
  expect(hasKernel("template <class T> __global__ void f()")).toBe(true);
  expect(hasKernel("int my__global__x; __globa")).toBe(false);
  expect(hasKernel("import triton\n@triton.jit\ndef f(x):\n")).toBe(true);
  expect(hasKernel("from triton import jit\n@jit\ndef f(x):\n")).toBe(true);
  expect(hasKernel("import numba\n@numba.jit\ndef f(x):\n")).toBe(false);
  expect(hasKernel("# import triton\nprint('@triton.jit')\n")).toBe(false);
  expect(hasKernel("")).toBe(false);
  expect(hasKernel("\u0000\ufffd".repeat(2_500_000))).toBe(false); // 5 MB of a binary file
});

test("a line belongs to the kernel that begins above it", () => {
  expect(kernelAt(PANEL, 0)?.name).toBe("first");
  expect(kernelAt(PANEL, 9)?.name).toBe("first");
  expect(kernelAt(PANEL, 10)?.name).toBe("a,\"b\"");
  expect(kernelAt({ ...PANEL, kernels: [] }, 1)).toBeUndefined();
});

test("the export has numbers, quotes names, and leaves unknown ones empty", () => {
  const lines = csv(PANEL).split("\r\n");
  expect(lines[0]).toBe("kernel,metric,unit,how,value,low,high,predicted,saved");
  expect(lines[1]).toBe("first,duration_ns,ns,predicted,5000,2500,10000,,4000");
  expect(lines[2]).toBe('"a,""b""",duration_ns,ns,predicted,,2500,10000,,4000');
  expect(lines).toHaveLength(4);
});

test("the table says how each figure is known, and shows the saved file's only after an edit", () => {
  const edited = tables(PANEL);
  expect(edited).toContain('<tr class="predicted"><th scope="row">Duration</th><td>5 us</td><td>predicted</td>');
  expect(edited).toContain("<td>4 us</td><td>+25.0 %</td>");
  expect(edited).toContain("reads &#60;much&#62;");
  expect(tables({ ...PANEL, edited: false })).not.toContain("saved (predicted)");
});

test("names cannot become markup", () => {
  expect(escaped(`<img src=x onerror="a('b')">&`)).toBe("&#60;img src=x onerror=&#34;a(&#39;b&#39;)&#34;&#62;&#38;");
});

test("a server that keeps dying is given up, one that dies now and then is not", () => {
  const restarts = new Restarts(4, 1000);
  expect([0, 1, 2, 3, 4].map((now) => restarts.again(now))).toEqual([true, true, true, true, false]);
  restarts.forget();
  expect([0, 600, 1200, 1800, 2400, 3000].every((now) => restarts.again(now))).toBe(true);
});

test("settings become options; without trust nothing is executed", () => {
  const settings: Record<string, unknown> = { arch: "gfx942", execute: true, debounceMs: 50, codeLens: false };
  const get = (name: string): unknown => settings[name];
  expect(options(get, true)).toMatchObject({ arch: "gfx942", execute: true, debounce_ms: 50, code_lens: false });
  expect(options(get, false)["execute"]).toBe(false);
});
