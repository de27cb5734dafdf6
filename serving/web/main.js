// The workbench: one or two programs, one roofline, one table.

import { call } from "./client.js";
import { countersTable, durationLine, kernelsOf, limitsList, metricsTable } from "./figures.js";
import { mount } from "./roofline.js";
import { Side } from "./side.js";

const LEVELS = { L1: "vL1D", L2: "L2", HBM: "HBM" };
const EXAMPLE = `#include <hip/hip_runtime.h>

__global__ void saxpy(const float* x, float* y, float a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

int main() {
  const int n = 1 << 22;
  float *x, *y;
  hipMalloc(&x, n * sizeof(float));
  hipMalloc(&y, n * sizeof(float));
  hipMemset(x, 0, n * sizeof(float));
  hipMemset(y, 0, n * sizeof(float));
  saxpy<<<n / 256, 256>>>(x, y, 2.0f, n);
  hipDeviceSynchronize();
}
`;
const $ = (id) => document.getElementById(id);

const sides = [];
let options, plot;

/** Both sides' plots as one: on the roofs of the first one's device. */
function plotted() {
  const documents = sides.flatMap((side) => [side.predicted, side.executed].filter(Boolean).map((found) => [side, found.results[0].plot]));
  const base = documents[0]?.[1] ?? sides[0].device.plot;
  const points = documents.flatMap(([side, own]) => own.points.map((point) => ({ ...point, series: sides.length > 1 ? side.name : "" })));
  const named = new Set(points.map((point) => point.name));
  return { ...base, points, unplotted: [...new Set(documents.flatMap(([, own]) => own.unplotted))].filter((name) => !named.has(name)) };
}

function levels() {
  return [...$("levels").querySelectorAll("input:checked")].map((box) => box.value);
}

/** Figures that wait for the answer to a newer text, or never get one, are dimmed. */
function dim() {
  const stale = sides.some((side) => side.stale);
  $("results").classList.toggle("stale", stale);
  $("results").setAttribute("aria-busy", String(stale));
}

function redraw() {
  dim();
  const found = plotted();
  plot.update(found, { levels: levels() });
  const other = sides.length > 1 && sides[0].device !== sides[1].device ? ` The roofs are those of ${found.title}.` : "";
  $("unplotted").textContent = (found.unplotted.length ? `Without floating-point work, so not on the plot: ${found.unplotted.join(", ")}.` : "") + other;
  const names = [...new Set(sides.flatMap((side) => kernelsOf(side).map((kernel) => kernel.name)))];
  const chosen = names.includes($("kernel").value) ? $("kernel").value : slowest() ?? names[0];
  $("kernel").replaceChildren(...names.map((name) => new Option(name, name, false, name === chosen)));
  figures(chosen);
  sides.forEach((side) => side.numbers());
}

/** The predicted kernel that takes longest. */
function slowest() {
  const known = sides.flatMap(kernelsOf).filter((kernel) => kernel.predicted?.duration_ns);
  return known.sort((a, b) => b.predicted.duration_ns - a.predicted.duration_ns)[0]?.name;
}

function figures(name) {
  $("durations").replaceChildren(...(name ? sides.map((side) => durationLine(side, name, sides.length > 1)) : []));
  if (!name) return $("figures").replaceChildren();
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  scroll.append(metricsTable(sides, name, options));
  $("figures").replaceChildren(limitsList(sides, name, options), scroll, countersTable(sides, name));
}

/** What a page before this one kept, or the example. */
function kept() {
  try {
    const found = JSON.parse(localStorage.getItem("programs"));
    if (Array.isArray(found) && found.length && found.every((one) => typeof one?.source === "string")) return found.slice(0, 2);
  } catch { /* another version of the page may have kept something else */ }
  return [{ source: EXAMPLE }];
}

function keep() {
  try {
    localStorage.setItem("programs", JSON.stringify(sides.map((side) => side.inputs)));
  } catch { /* no space, or a browser that keeps nothing */ }
}

/** A side with these inputs. */
function add(name, inputs) {
  const side = new Side(name, options, redraw, () => Number($("limit").value) || 0);
  sides.push(side);
  $("sides").append(side.element);
  side.inputs = inputs;
  labels();
  return side;
}

function labels() {
  sides.forEach((side, index) => {
    side.parts.other.textContent = sides.length === 1 ? "Compare with a copy" : `Remove ${side.name}`;
    side.parts.other.onclick = () => {
      if (sides.length === 1) return add("B", side.inputs).parts.source.focus();
      sides.splice(index, 1)[0].element.remove();
      Object.assign(sides[0], { name: "A" });
      sides[0].element.querySelector("h2").textContent = "Program A";
      labels();
      redraw();
      sides[0].parts.source.focus();
    };
  });
}

function download(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  URL.revokeObjectURL(link.href);
}

async function start() {
  options = await call("/v1/options");
  $("limit").max = options.execute_s;
  $("limit").value = Math.min(5, options.execute_s);
  $("flag-sets").append(...options.flags.map((row) => new Option(row.about, row.flags)));
  for (const [level, name] of Object.entries(LEVELS)) {
    const label = document.createElement("label"), box = document.createElement("input");
    Object.assign(box, { type: "checkbox", value: level, checked: true, onchange: redraw });
    label.append(box, ` ${name}`);
    $("levels").append(label);
  }
  plot = mount($("roofline"), options.devices.at(-1).plot, {});
  $("kernel").addEventListener("change", () => figures($("kernel").value));
  $("export").addEventListener("click", () => download("roofline.svg", plot.svg(), "image/svg+xml"));
  addEventListener("pagehide", keep);
  $("sides").addEventListener("stale", dim);
  kept().forEach((inputs, index) => add("AB"[index], inputs));
  $("status").textContent = options.model ? "Connected; code that does not compile is answered by the language model" : "Connected";
}

start().catch((error) => {
  const status = error.status === 401 ? "Open the link that `synth serve` printed: this browser has no token" : error.message;
  $("status").textContent = status;
});
