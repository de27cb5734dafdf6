// The tables: predicted with intervals, executed, their difference; both programs side by side. All text goes through
// textContent: names come from somebody's source.

import { significant } from "./roofline.js";

/** A kernel's name without return type, namespaces, template and function arguments. */
export function baseName(name) {
  return name.replaceAll("(anonymous namespace)::", "").split("(")[0].split("<")[0].split(" ").pop().split("::").pop();
}

const element = (tag, text = "", attributes = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

const shown = (value) => (value === null || value === undefined ? "-" : significant(value));

/** The kernels of a side: {name, predicted, executed}, in the order of their launches. */
export function kernelsOf(side) {
  const rows = new Map();
  const results = side.predicted?.results[0];
  const source = results && !results.kernels ? [{ name: "program", metrics: results.metrics, intervals: {}, duration_ns: null }] : null;
  for (const kernel of source ?? results?.kernels ?? []) rows.set(kernel.name, rows.get(kernel.name) ?? { name: kernel.name, predicted: kernel });
  for (const kernel of side.executed?.results[0].kernels ?? []) {
    const name = baseName(kernel.name);
    if (!rows.get(name)?.executed) rows.set(name, { name, ...rows.get(name), executed: kernel });
  }
  return [...rows.values()];
}

const QUANTITIES = [["duration_ns", "Duration", "us", 1e-3]];

function value(kernel, id, scale) {
  const found = id === "duration_ns" ? kernel?.duration_ns : kernel?.metrics[id];
  return found === null || found === undefined ? null : found * scale;
}

/** By how much a prediction is off, in per cent; what only rounding makes differ is equal. */
function difference(predicted, executed) {
  const percent = (100 * (predicted - executed)) / executed;
  return Math.abs(percent) < 1e-6 ? "equal" : `${percent > 0 ? "+" : ""}${significant(percent)} %`;
}

/** A cell with a second line. */
function twice(first, second) {
  const cell = element("td", first);
  cell.append(document.createElement("br"), element("span", second, { class: "range" }));
  return cell;
}

function cells(row, id, scale, compact) {
  const predicted = value(row?.predicted, id, scale), executed = value(row?.executed, id, scale);
  const range = row?.predicted?.intervals[id];
  const off = predicted !== null && executed ? difference(predicted, executed) : "";
  const between = range ? `${significant(range[0] * scale)} to ${significant(range[1] * scale)}` : "";
  const truth = executed === null ? "" : shown(executed);
  if (compact) return [twice(shown(predicted), between), twice(truth, off)];
  return [element("td", shown(predicted)), element("td", between, { class: "range" }), element("td", truth), element("td", off)];
}

/** The one number that is wanted first: "saxpy 12.3 us predicted (11 to 14), 12.1 us executed". */
export function durationLine(side, name, several) {
  const row = kernelsOf(side).find((kernel) => kernel.name === name);
  const predicted = value(row?.predicted, "duration_ns", 1e-3), executed = value(row?.executed, "duration_ns", 1e-3);
  const range = row?.predicted?.intervals.duration_ns;
  const line = element("p", several ? `${side.name}: ${name} ` : `${name} `);
  const between = range ? ` (80 %: ${significant(range[0] * 1e-3)} to ${significant(range[1] * 1e-3)})` : "";
  if (predicted !== null) line.append(element("strong", `${significant(predicted)} us`), ` predicted${between}`);
  if (executed !== null) line.append(predicted === null ? "" : ", ", element("strong", `${significant(executed)} us`), " executed");
  return line;
}

const COLUMNS = ["predicted", "80 % interval", "executed", "difference"];
const COMPACT = ["predicted, 80 % interval", "executed, difference"];

/** One table for the chosen kernel: a row per metric, four columns for one program, two for each of two. */
export function metricsTable(sides, name, options) {
  const rows = sides.map((side) => kernelsOf(side).find((kernel) => kernel.name === name));
  const table = element("table");
  const compact = sides.length > 1 || matchMedia("(max-width: 40rem)").matches;
  table.append(element("caption", name));
  const head = element("thead"), line = element("tr"), body = element("tbody");
  line.append(element("th", "Metric", { scope: "col" }));
  for (const side of sides) {
    const own = sides.length > 1 ? `${side.name} ` : "";
    for (const title of compact ? COMPACT : COLUMNS) line.append(element("th", own + title, { scope: "col" }));
  }
  if (sides.length > 1) line.append(element("th", "B / A", { scope: "col" }));
  head.append(line);
  for (const [id, title, unit, scale] of [...QUANTITIES, ...options.metrics.filter((m) => m.shown).map((m) => [m.id, m.title, m.unit, 1])]) {
    const made = element("tr");
    made.append(element("th", `${title} [${unit}]`, { scope: "row" }), ...rows.flatMap((row) => cells(row, id, scale, compact)));
    if (sides.length > 1) made.append(element("td", ratio(rows, id)));
    body.append(made);
  }
  table.append(head, body);
  return table;
}

/** B over A, of executed figures where both have them, else of predictions. */
function ratio([a, b], id) {
  const kind = value(a?.executed, id, 1) !== null && value(b?.executed, id, 1) !== null ? "executed" : "predicted";
  const [first, second] = [value(a?.[kind], id, 1), value(b?.[kind], id, 1)];
  return first && second !== null ? `${significant(second / first)} (${kind})` : "";
}

/** Sentences about what limits a kernel, each with whether it is predicted or executed. */
export function limits(side, name, options) {
  const row = kernelsOf(side).find((kernel) => kernel.name === name);
  const said = [];
  if (row?.predicted?.verdict) said.push(`predicted: ${row.predicted.verdict}`);
  if (row?.predicted?.abstained) said.push(`not reliable: ${row.predicted.reason}`);
  for (const why of row?.predicted?.why ?? []) said.push(why);
  const found = row?.executed?.bottleneck;
  if (found) said.push(`executed: ${found.summary}`);
  return said;
}

export function limitsList(sides, name, options) {
  const list = element("ul");
  for (const side of sides) {
    for (const text of limits(side, name, options)) list.append(element("li", sides.length > 1 ? `${side.name}: ${text}` : text));
  }
  return list;
}

/** The counters of the executed program. */
export function countersTable(sides, name) {
  const found = sides.map((side) => kernelsOf(side).find((kernel) => kernel.name === name)?.executed?.counters ?? {});
  const names = [...new Set(found.flatMap((counters) => Object.keys(counters)))].sort();
  if (!names.length) return element("p", "Counters are known once the program is executed.", { class: "quiet" });
  const details = element("details"), table = element("table"), head = element("tr");
  details.append(element("summary", `${names.length} counters, executed, per dispatch`));
  head.append(element("th", "Counter", { scope: "col" }), ...sides.map((side) => element("th", `Program ${side.name}`, { scope: "col" })));
  table.append(head, ...names.map((counter) => {
    const line = element("tr");
    line.append(element("th", counter, { scope: "row" }), ...found.map((counters) => element("td", counters[counter]?.toLocaleString("en") ?? "-")));
    return line;
  }));
  details.append(table);
  return details;
}
