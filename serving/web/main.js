// The workbench: one or two programs, one roofline, one table.

import { call } from "./client.js";
import { countersTable, durationLine, kernelsOf, limitsList, metricsTable } from "./figures.js";
import { EXAMPLES } from "./examples.js";
import { instructionsTable, markLine } from "./isa.js";
import { mount } from "./roofline.js";
import { checkPrograms, packPrograms, unpackPrograms } from "./share.js";
import { Side } from "./side.js";

const LEVELS = { L1: "vL1D", L2: "L2", HBM: "HBM" };
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
  $("age").hidden = !stale;
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
  sides.forEach((side) => side.costs());
}

/** The predicted kernel that takes longest. */
function slowest() {
  const known = sides.flatMap(kernelsOf).filter((kernel) => kernel.predicted?.duration_ns);
  return known.sort((a, b) => b.predicted.duration_ns - a.predicted.duration_ns)[0]?.name;
}

function figures(name) {
  $("durations").replaceChildren(...(name ? sides.map((side) => durationLine(side, name, sides.length > 1)) : []));
  $("isa").replaceChildren(...(name ? sides.map((side) => instructionsTable(side, name, sides.length > 1, (line) => chooseLine(side, line))) : []));
  if (!name) return $("figures").replaceChildren();
  const scroll = document.createElement("div");
  scroll.className = "scroll";
  for (const [attribute, value] of [["role", "group"], ["aria-label", "Metrics"], ["tabindex", "0"]]) scroll.setAttribute(attribute, value);
  scroll.append(metricsTable(sides, name, options));
  $("figures").replaceChildren(limitsList(sides, name, options), scroll, countersTable(sides, name));
}

/** A source line that was chosen among the instructions is marked in the text and there. */
function chooseLine(side, line) {
  side.editor.mark(line);
  markLine($("isa"), line);
}

/** What a page before this one kept, or the example. */
function kept() {
  try {
    const found = checkPrograms(JSON.parse(localStorage.getItem("programs")));
    if (found) return found;
  } catch { /* another version of the page may have kept something else */ }
  return [{ source: EXAMPLES[0][1] }];
}

function keep() {
  try {
    localStorage.setItem("programs", JSON.stringify(sides.map((side) => side.inputs)));
  } catch { /* no space, or a browser that keeps nothing */ }
}

/** Puts a link to the programs into the address bar and on the clipboard. */
async function share() {
  const fragment = await packPrograms(sides.map((side) => side.inputs));
  history.replaceState(null, "", fragment);
  const copied = await navigator.clipboard?.writeText(location.href).then(() => true, () => false);
  $("status").textContent = `${copied ? "The link is on the clipboard" : "The address bar holds the link"}: it opens these programs in any workbench`;
}

/** The programs of a link, whose fragment then leaves the address bar: later edits are not in it. */
async function linked() {
  const found = await unpackPrograms(location.hash);
  if (found) history.replaceState(null, "", location.pathname);
  return found;
}

/** A side with these inputs. */
function add(name, inputs) {
  const side = new Side(name, options, redraw, () => Number($("limit").value) || 0, () => Math.min(Number($("budget").value) || 60, options.search_s));
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
      if (sides.length === 1) return add("B", side.inputs).editor.focus();
      sides.splice(index, 1);
      side.close();
      side.element.remove();
      sides[0].rename("A");
      labels();
      redraw();
      sides[0].editor.focus();
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
  $("budget").max = options.search_s;
  $("limit").value = Math.min(5, options.execute_s);
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
  $("sides").addEventListener("line", (event) => markLine($("isa"), event.detail));
  $("share").addEventListener("click", share);
  (await linked() ?? kept()).forEach((inputs, index) => add("AB"[index], inputs));
  $("status").textContent = options.model ? "Connected; code that does not compile is answered by the language model" : "Connected";
}

start().catch((error) => {
  const status = error.status === 401 ? "Open the link that `synth serve` printed: this browser has no token" : error.message;
  $("status").textContent = status;
});
