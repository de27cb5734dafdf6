// The page in the panel: draws what the host sends, and tells it what was chosen. It asks no server by itself.

import { mount, type Roofline } from "../../profiling/reports/web/roofline.js";
import { csv, tables, type Format, type Message, type Panel, type Request } from "./model";

declare function acquireVsCodeApi(): { postMessage(message: Request): void };

const LEVELS = ["L1", "L2", "HBM"];
const PNG_SCALE = 2;
const host = acquireVsCodeApi();
const levels = new Set(LEVELS);
let panel: Panel | null = null;
let plot: Roofline | null = null;

function at(id: string): HTMLElement {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found;
}

function show(message: Extract<Message, { type: "show" }>): void {
  panel = message.panel;
  at("file").textContent = message.file;
  at("status").textContent = [message.status, panel?.state].filter(Boolean).join(" · ");
  at("device").textContent = panel ? panel.target.device || `${panel.target.arch}, default device` : "device";
  at("flags").textContent = panel?.target.flags ?? "flags";
  at("model").textContent = panel?.model ? `Predictions by ${panel.model}, for the problem sizes of the file's host code.` : "";
  redraw();
  // A button that has the focus keeps it.
  const focused = document.activeElement instanceof HTMLElement ? document.activeElement.dataset["line"] : undefined;
  at("kernels").innerHTML = panel ? tables(panel) : "";
  if (focused !== undefined) document.querySelector<HTMLElement>(`[data-line="${focused}"]`)?.focus();
}

function redraw(): void {
  const roofline = panel?.roofline ?? null;
  at("plot").hidden = at("levels").hidden = roofline === null;
  if (!roofline) return;
  const chosen = { levels: [...levels] };
  if (plot) plot.update(roofline, chosen);
  else plot = mount(at("plot"), roofline, chosen);
  const left = roofline.unplotted;
  at("unplotted").textContent = left.length ? `Not in the plot, for want of floating-point work or of its figures: ${left.join(", ")}` : "";
}

async function png(svg: string): Promise<string> {
  const picture = new Image();
  picture.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  const box = /viewBox="0 0 ([\d.]+) ([\d.]+)"/.exec(svg);
  const canvas = document.createElement("canvas");
  canvas.width = Number(box?.[1]) * PNG_SCALE;
  canvas.height = Number(box?.[2]) * PNG_SCALE;
  await picture.decode();
  canvas.getContext("2d")?.drawImage(picture, 0, 0, canvas.width, canvas.height);
  return canvas.toDataURL("image/png").replace(/^[^,]*,/, "");
}

async function exportAs(format: Format): Promise<void> {
  if (!panel) return;
  if (format === "csv") host.postMessage({ type: "export", format, data: csv(panel) });
  else if (plot && panel.roofline) {
    const svg = plot.svg();
    host.postMessage({ type: "export", format, data: format === "svg" ? svg : await png(svg) });
  }
}

window.addEventListener("message", (event: MessageEvent<Message>) => {
  if (event.data.type === "show") show(event.data);
  else void exportAs(event.data.format);
});

document.addEventListener("click", (event) => {
  const button = (event.target as Element).closest("button");
  if (!button) return;
  const { line, ask, format } = button.dataset;
  if (line !== undefined) host.postMessage({ type: "line", line: Number(line) });
  else if (format) void exportAs(format as Format);
  else if (ask) host.postMessage({ type: ask as "device" | "flags" | "profile" | "compare" });
});

for (const level of LEVELS) {
  const box = document.createElement("input");
  box.type = "checkbox";
  box.checked = true;
  box.addEventListener("change", () => {
    if (box.checked) levels.add(level);
    else levels.delete(level);
    redraw();
  });
  const label = document.createElement("label");
  label.append(box, level === "L1" ? "vL1D" : level);
  at("levels").append(label);
}
host.postMessage({ type: "ready" });
