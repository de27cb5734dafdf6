// The machine code of an executed kernel: a row for each instruction that ran, under its source line.

import { baseName } from "./figures.js";
import { significant } from "./roofline.js";

const COLUMNS = [
  ["Times", "wave instructions per dispatch", (row) => row.instructions],
  ["Issue", "cycles that issuing took, summed over waves", (row) => row.issue_cycles],
  ["Stall", "cycles that waves wait for what it fetches, and at barriers", (row) => row.stall_cycles + row.barrier_cycles],
  ["Bytes", "requested by active lanes, of memory and LDS", (row) => row.bytes + row.lds_bytes],
  ["Share", "of the kernel's time, in per cent", (row) => (row.share >= 0.0005 ? 100 * row.share : 0)],
];

const element = (tag, text = "", attributes = {}) => {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
};

function shortened(value) {
  if (!value) return "";
  const [scale, unit] = value >= 1e9 ? [1e9, " G"] : value >= 1e6 ? [1e6, " M"] : value >= 1e4 ? [1e3, " k"] : [1, ""];
  return significant(value / scale) + unit;
}

/** The instructions of a side's executed kernel; null if they are not known. */
export function instructionsOf(side, name) {
  const kernels = side.executed?.results[0].kernels ?? [];
  return kernels.find((kernel) => baseName(kernel.name) === name)?.instructions ?? null;
}

/** A table of instructions, a button for each source line above those that it was compiled to. `chosen` hears of lines. */
export function instructionsTable(side, name, several, chosen) {
  const rows = instructionsOf(side, name);
  if (!rows?.length) return element("p", "Instructions are known once the program is executed.", { class: "quiet" });
  const sources = side.source.split("\n");
  const table = element("table", "", { class: "isa" }), head = element("tr");
  table.append(element("caption", `${several ? `${side.name}: ` : ""}${name}, ${rows.length} instructions that ran`));
  head.append(element("th", "Instruction", { scope: "col" }), ...COLUMNS.map(([title, about]) => element("th", title, { scope: "col", title: about })));
  table.append(element("thead"));
  table.tHead.append(head);
  const body = element("tbody");
  let line = null;
  for (const row of rows) {
    if (row.line !== line) body.append(sourceRow(line = row.line, sources, chosen));
    const made = element("tr", "", { "data-line": row.line });
    made.append(element("td", row.text, { title: `0x${row.address.toString(16)}` }), ...COLUMNS.map(([, , value]) => element("td", shortened(value(row)))));
    body.append(made);
  }
  table.append(body);
  return table;
}

function sourceRow(line, sources, chosen) {
  const made = element("tr", "", { class: "source-row", "data-line": line });
  const cell = element("th", "", { scope: "rowgroup", colspan: COLUMNS.length + 1 });
  const button = element("button", line ? `${line}: ${(sources[line - 1] ?? "").trim()}` : "no source line", { type: "button" });
  if (line) button.addEventListener("click", () => chosen(line));
  else button.disabled = true;
  cell.append(button);
  made.append(cell);
  return made;
}

/** Marks the rows of a source line, and scrolls the first into view within `scroll`. */
export function markLine(scroll, line) {
  let first = null;
  for (const row of scroll.querySelectorAll("tr[data-line]")) {
    const own = Number(row.dataset.line) === line;
    row.classList.toggle("marked", own);
    if (own) first ??= row;
  }
  if (first) scroll.scrollTop = first.offsetTop - scroll.clientHeight / 3;
}
