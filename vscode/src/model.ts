// Pure functions of what the language server sends.

import type { EditorPanel as Panel, PanelFigure as Figure, PanelKernel as Kernel } from "./documents";

export type { EditorPanel as Panel, EditorTargets as Targets, PanelFigure as Figure, PredictionNotice } from "./documents";

export type Format = "svg" | "png" | "csv";
/** What the panel's page asks its host for. `data`: text, or base64 of a PNG. */
export type Request =
  | { type: "ready" | "device" | "flags" | "profile" | "compare" }
  | { type: "line"; line: number }
  | { type: "export"; format: Format; data: string };
/** What the host tells the page. */
export type Message = { type: "show"; file: string; status: string; panel: Panel | null } | { type: "export"; format: Format };

/** Whether a text holds the words that begin a kernel, of HIP or of Triton; the server finds out the rest. */
export function hasKernel(text: string): boolean {
  return /\b__global__\b/.test(text) || (/^[ \t]*(?:import[ \t][^\n]*\btriton\b|from[ \t]+triton\b)/m.test(text) && /^[ \t]*@(?:triton\.)?jit\b/m.test(text));
}

/** The kernel that a line belongs to: the last one that begins at or above it, else the first. */
export function kernelAt(panel: Panel, line: number): Kernel | undefined {
  return panel.kernels.findLast((kernel) => kernel.line <= line) ?? panel.kernels[0];
}

/** The table as comma-separated values, with the numbers in the units of the metric table. */
export function csv(panel: Panel): string {
  const head = ["kernel", "metric", "unit", "how", "value", "low", "high", "predicted", "saved"];
  const rows = panel.kernels.flatMap((kernel) =>
    kernel.figures.map((f) => [kernel.name, f.id, f.unit, f.how, f.value, f.low, f.high, f.predicted, f.saved]),
  );
  return [head, ...rows].map((row) => row.map(cell).join(",") + "\r\n").join("");
}

function cell(value: string | number | null): string {
  const text = String(value ?? "");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** The kernels with their tables, as HTML. Columns without content are left out. */
export function tables(panel: Panel): string {
  return panel.kernels.map((kernel) => section(kernel, panel.edited)).join("");
}

function section(kernel: Kernel, edited: boolean): string {
  const columns: [string, (figure: Figure) => string][] = [
    ["now", (f) => f.text],
    ["is", (f) => (f.text ? f.how : "")],
    ...(edited ? ([["saved (predicted)", (f) => f.savedText], ["change", (f) => f.change]] satisfies [string, (figure: Figure) => string][]) : []),
    ["predicted", (f) => f.predictedText],
    ["interval", (f) => f.interval],
  ];
  const shown = columns.filter(([, of]) => kernel.figures.some((figure) => of(figure)));
  const head = ["metric", ...shown.map(([name]) => name)].map((name) => `<th scope="col">${name}</th>`).join("");
  const rows = kernel.figures.map((figure) => {
    const cells = shown.map(([, of]) => `<td>${escaped(of(figure))}</td>`).join("");
    return `<tr class="${escaped(figure.how)}"><th scope="row">${escaped(figure.title)}</th>${cells}</tr>`;
  });
  const why = kernel.why.map((reason) => `<li>${escaped(reason)}</li>`).join("");
  return (
    `<section><h2><button data-line="${kernel.line}">${escaped(kernel.name)}</button></h2><p>${escaped(kernel.summary)}</p>` +
    (why ? `<ul>${why}</ul>` : "") +
    (rows.length ? `<table><caption>Metrics of ${escaped(kernel.name)}</caption><thead><tr>${head}</tr></thead><tbody>${rows.join("")}</tbody></table>` : "") +
    "</section>"
  );
}

/** Whether a server that ended is started again: not after `most` ends within `windowMs`. Keeps the times of ends. */
export class Restarts {
  private ends: number[] = [];

  constructor(private readonly most = 4, private readonly windowMs = 180_000) {}

  again(now: number): boolean {
    this.ends = [...this.ends.filter((end) => now - end < this.windowMs), now];
    return this.ends.length <= this.most;
  }

  forget(): void {
    this.ends = [];
  }
}

/** Settings of VS Code -> initialization options of the server: debounceMs -> debounce_ms. */
export function options(get: (name: string) => unknown, trusted: boolean): Record<string, unknown> {
  const names = ["arch", "device", "flags", "execute", "seconds", "debounceMs", "codeLens", "inlayHints", "diagnostics", "grid", "block", "values"];
  const found = Object.fromEntries(names.map((name) => [name.replace(/[A-Z]/g, (c) => `_${c.toLowerCase()}`), get(name)]));
  return { ...found, execute: trusted && found["execute"] === true };
}
