// The roofline plot of every page: workbench, HTML reports, editors. No dependency; works as a module, inlined in a page,
// and under a content security policy without 'unsafe-inline'. Input: the document of profiling/metrics/roofline.py.
//
//   mount(element, document, options)   draws into a page; returns {update(document, options), svg(), element}
//   draw(document, options)             the plot as SVG text, without a page
//   exported(document, options, look)   a stand-alone SVG file
//
// options: levels (which memory levels have points; default all), width and height in SVG units.
// Colours are CSS variables (--roofline-ink, -grid, -roof, -paper, -series-0 ... -series-3); VS Code's are taken if there.

const MARGIN = { left: 64, right: 20, top: 18, bottom: 48 };
const SHAPES = { L1: "M0,-5.5 L5.5,4.5 L-5.5,4.5 Z", L2: "M-4.5,-4.5 H4.5 V4.5 H-4.5 Z", HBM: "M5,0 A5,5 0 1 1 -5,0 A5,5 0 1 1 5,0 Z" };
const LEVEL_NAMES = { L1: "vL1D", L2: "L2", HBM: "HBM" };
const LABEL_HEIGHT = 13;
const SERIES_COLOURS = 4;

export const STYLE = `
.roofline { --ink: var(--roofline-ink, var(--vscode-editor-foreground, #1c2128));
  --grid: var(--roofline-grid, var(--vscode-editorIndentGuide-background1, #d9dee5));
  --roof: var(--roofline-roof, var(--vscode-descriptionForeground, #59636e));
  --paper: var(--roofline-paper, var(--vscode-editor-background, #ffffff));
  --series-0: var(--roofline-series-0, #0b62c4); --series-1: var(--roofline-series-1, #b3420e);
  --series-2: var(--roofline-series-2, #1a7f37); --series-3: var(--roofline-series-3, #8250df);
  display: block; width: 100%; height: auto; font: 12px system-ui, sans-serif; }
@media (prefers-color-scheme: dark) { .roofline {
  --ink: var(--roofline-ink, var(--vscode-editor-foreground, #e6edf3));
  --grid: var(--roofline-grid, var(--vscode-editorIndentGuide-background1, #30363d));
  --roof: var(--roofline-roof, var(--vscode-descriptionForeground, #9aa4af));
  --paper: var(--roofline-paper, var(--vscode-editor-background, #0d1117));
  --series-0: var(--roofline-series-0, #58a6ff); --series-1: var(--roofline-series-1, #ff9b57);
  --series-2: var(--roofline-series-2, #56d364); --series-3: var(--roofline-series-3, #bc8cff); } }
.roofline text { fill: var(--ink); }
.roofline .grid { stroke: var(--grid); stroke-width: 1; }
.roofline .roof { stroke: var(--roof); stroke-width: 1.6; fill: none; }
.roofline .peak { stroke: var(--roof); stroke-width: 1.2; stroke-dasharray: 5 3; }
.roofline .roof-label { fill: var(--roof); font-size: 11px; paint-order: stroke; stroke: var(--paper); stroke-width: 6px; }
.roofline .name { paint-order: stroke; stroke: var(--paper); stroke-width: 3px; }
.roofline .path { fill: var(--paper); stroke-width: 2; }
.roofline .executed .path, .roofline .measured .path { fill: var(--own); }
.roofline .point, .roofline .join, .roofline .range { stroke: var(--own); }
.roofline .join { stroke-dasharray: 2 3; }
.roofline .point { outline: none; }
.roofline .point .halo { fill: none; stroke: none; }
.roofline .point:focus .halo, .roofline .point:hover .halo { stroke: var(--ink); stroke-width: 2; }
.roofline .point text { stroke: none; }
.roofline .series-0 { --own: var(--series-0); } .roofline .series-1 { --own: var(--series-1); }
.roofline .series-2 { --own: var(--series-2); } .roofline .series-3 { --own: var(--series-3); }
@media (forced-colors: active) { .roofline { --ink: CanvasText; --roof: CanvasText; --paper: Canvas; --grid: GrayText; } }
`;

const escape = (text) => String(text).replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);

/** A quantity with three significant digits and a prefix of its unit, such as "81.7 TFLOP/s" for (81715, "G", "FLOP/s"). */
export function quantity(value, unit) {
  const steps = [[1e6, "P"], [1e3, "T"], [1, "G"], [1e-3, "M"]];
  const [scale, prefix] = steps.find(([step]) => Math.abs(value) >= step) ?? [1e-6, "k"];
  return `${significant(value / scale)} ${prefix}${unit}`;
}

export function significant(value) {
  return value >= 999.5 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

/** Where things stand: x(FLOP/B) and y(GFLOP/s) in SVG units, both logarithmic, and the frame. */
export function scales(axes, width, height) {
  const [x0, x1] = axes.intensity, [y0, y1] = axes.gflops;
  const frame = { left: MARGIN.left, right: width - MARGIN.right, top: MARGIN.top, bottom: height - MARGIN.bottom };
  const x = (v) => frame.left + ((Math.log10(v) - x0) / (x1 - x0)) * (frame.right - frame.left);
  const y = (v) => frame.bottom - ((Math.log10(v) - y0) / (y1 - y0)) * (frame.bottom - frame.top);
  return { x, y, frame };
}

export function draw(document, options = {}) {
  const width = options.width ?? 720, height = options.height ?? 440;
  const place = scales(document.axes, width, height);
  const label = `Roofline of ${document.title}: ${document.points.length ? "points by kernel and memory level" : "no points"}`;
  const parts = [...decades(document.axes, place), ...roofs(document, place), ...kernels(document, options.levels, place)];
  return `<svg xmlns="http://www.w3.org/2000/svg" class="roofline" viewBox="0 0 ${width} ${height}" role="group" ` +
    `aria-label="${escape(label)}">${parts.join("")}</svg>`;
}

function decades(axes, { x, y, frame }) {
  const parts = [];
  for (let power = axes.intensity[0]; power <= axes.intensity[1]; power += 1) {
    const at = x(10 ** power).toFixed(1);
    parts.push(`<line class="grid" x1="${at}" x2="${at}" y1="${frame.top}" y2="${frame.bottom}"/>`,
      `<text x="${at}" y="${frame.bottom + 17}" text-anchor="middle">${decade(power)}</text>`);
  }
  for (let power = axes.gflops[0]; power <= axes.gflops[1]; power += 1) {
    const at = y(10 ** power).toFixed(1);
    parts.push(`<line class="grid" x1="${frame.left}" x2="${frame.right}" y1="${at}" y2="${at}"/>`,
      `<text x="${frame.left - 7}" y="${at}" dy="4" text-anchor="end">${quantity(10 ** power, "").replace(" ", "\u2009")}</text>`);
  }
  const middle = (frame.top + frame.bottom) / 2;
  parts.push(`<text x="${(frame.left + frame.right) / 2}" y="${frame.bottom + 38}" text-anchor="middle">arithmetic intensity, FLOP/B</text>`,
    `<text transform="translate(14 ${middle}) rotate(-90)" text-anchor="middle">performance, FLOP/s</text>`);
  return parts;
}

const decade = (power) => (power < 0 ? (10 ** power).toFixed(-power) : String(10 ** power));

function roofs(document, place) {
  const { x, y, frame } = place;
  const [x0, x1] = document.axes.intensity.map((power) => 10 ** power);
  const floor = 10 ** document.axes.gflops[0];
  const top = Math.max(...document.peaks.map((peak) => peak.gflops));
  const fastest = Math.max(...document.bandwidths.map((roof) => roof.gbps));
  const slope = (Math.atan2(y(1) - y(10), x(10) - x(1)) * -180) / Math.PI;
  const lines = [], labels = []; // a label lies above every line that crosses it
  document.bandwidths.forEach(({ level, gbps }, index) => {
    const start = Math.max(x0, floor / gbps), end = Math.min(x1, top / gbps);
    lines.push(line("roof", start, start * gbps, end, end * gbps, place));
    // Two caches' roofs may be close, and so may the Infinity Cache's and the HBM's: one name above, one below.
    const at = start * 1.3, below = index % 2 === 1 || index === document.bandwidths.length - 1;
    labels.push(`<text class="roof-label" transform="translate(${x(at).toFixed(1)} ${y(at * gbps).toFixed(1)}) ` +
      `rotate(${slope.toFixed(2)})" dy="${below ? 14 : -5}">${LEVEL_NAMES[level] ?? escape(level)} ${quantity(gbps, "B/s")}</text>`);
  });
  let last = -Infinity;
  for (const { name, gflops } of document.peaks) {
    const at = y(gflops);
    lines.push(line("peak", Math.max(x0, gflops / fastest), gflops, x1, gflops, place));
    const baseline = Math.max(at - 4, last + 15);
    last = baseline;
    labels.push(`<text class="roof-label" x="${frame.right - 2}" y="${baseline.toFixed(1)}" text-anchor="end">` +
      `${escape(name)} ${quantity(gflops, "FLOP/s")}</text>`);
  }
  return [...lines, ...labels];
}

function line(kind, x1, y1, x2, y2, { x, y }) {
  return `<line class="${kind}" x1="${x(x1).toFixed(1)}" y1="${y(y1).toFixed(1)}" x2="${x(x2).toFixed(1)}" y2="${y(y2).toFixed(1)}"/>`;
}

/** The points of each kernel, joined across memory levels; its name stands once, right of its last point. */
function kernels(document, levels, place) {
  const shown = document.points.filter((point) => !levels || levels.includes(point.level));
  const names = [...new Set(document.points.map((point) => point.series))];
  const groups = grouped(shown);
  const parts = [], labels = [];
  for (const points of groups.values()) {
    const kind = `series-${names.indexOf(points[0].series) % SERIES_COLOURS} ${points[0].kind}`;
    const spots = points.map((point) => ({ point, ...inside(point, place) }));
    const left = Math.min(...spots.map((s) => s.x)), right = Math.max(...spots.map((s) => s.x));
    const height = spots[0].y;
    parts.push(`<g class="${escape(kind)}">`);
    if (spots.length > 1) {
      parts.push(`<line class="join" x1="${left.toFixed(1)}" x2="${right.toFixed(1)}" y1="${height.toFixed(1)}" y2="${height.toFixed(1)}"/>`);
    }
    parts.push(...spots.map((spot) => marker(spot, place)), "</g>");
    const text = names.length > 1 ? `${points[0].name} (${points[0].series})` : points[0].name;
    const twin = labels.find((label) => label.text === text && Math.abs(label.y - height) < 3 * LABEL_HEIGHT);
    if (!twin) labels.push({ x: right, y: height, text }); // predicted and executed lie close: one name for both
  }
  return [...parts, ...apart(labels, place.frame)];
}

const key = (point) => JSON.stringify([point.name, point.series, point.kind]);

function grouped(points) {
  const groups = new Map();
  for (const point of points) groups.set(key(point), [...(groups.get(key(point)) ?? []), point]);
  return groups;
}

/** The place of a point; one outside the frame stands at its edge, and says so. */
function inside(point, { x, y, frame }) {
  const at = { x: x(point.intensity), y: y(point.gflops) };
  const kept = { x: Math.min(Math.max(at.x, frame.left), frame.right), y: Math.min(Math.max(at.y, frame.top), frame.bottom) };
  return { ...kept, outside: kept.x !== at.x || kept.y !== at.y };
}

function marker({ point, x, y, outside }, place) {
  const share = point.attainable > 0 ? `, ${Math.round((100 * point.gflops) / point.attainable)} % of what this level allows` : "";
  const said = `${point.name}${point.series ? `, ${point.series}` : ""}, ${point.kind}, ${LEVEL_NAMES[point.level] ?? point.level}: ` +
    `${significant(point.intensity)} FLOP/B, ${quantity(point.gflops, "FLOP/s")}${share}${outside ? ", outside the plot" : ""}`;
  const clamp = (value) => Math.min(Math.max(place.y(value), place.frame.top), place.frame.bottom) - y;
  const range = point.low > 0 && point.high > 0
    ? `<line class="range" x1="0" x2="0" y1="${clamp(point.low).toFixed(1)}" y2="${clamp(point.high).toFixed(1)}"/>` : "";
  const badge = outside ? '<text x="0" y="-9" text-anchor="middle">\u2197</text>' : "";
  return `<g class="point" tabindex="0" role="img" aria-label="${escape(said)}" transform="translate(${x.toFixed(1)} ${y.toFixed(1)})">` +
    `<title>${escape(said)}</title>${range}<circle class="halo" r="9"/><path class="path" d="${SHAPES[point.level] ?? SHAPES.HBM}"/>${badge}</g>`;
}

/** Names beside their points, moved down where they would cover each other. */
function apart(labels, frame) {
  const placed = [];
  for (const label of labels.sort((a, b) => a.y - b.y)) {
    const long = label.text.length > 34 ? `${label.text.slice(0, 33)}\u2026` : label.text;
    const wide = 6.6 * long.length;
    const flip = label.x + 10 + wide > frame.right;
    const start = flip ? label.x + 6 - wide : label.x - 6;
    let y = label.y + 17; // below: roofs are above
    for (const other of placed) {
      if (start < other.end && other.start < start + wide && Math.abs(other.y - y) < LABEL_HEIGHT) y = other.y + LABEL_HEIGHT;
    }
    placed.push({ start, end: start + wide, y, text: long, x: label.x + (flip ? 6 : -6), anchor: flip ? "end" : "start" });
  }
  return placed.map(({ x, y, text, anchor }) =>
    `<text class="name" x="${x.toFixed(1)}" y="${y.toFixed(1)}" text-anchor="${anchor}">${escape(text)}</text>`);
}

/** A stand-alone SVG file; `look` gives the colours of the page that it is exported from. */
export function exported(document, options = {}, look = "") {
  const text = draw(document, options);
  return text.replace(">", `><style>${STYLE}${look}</style><rect width="100%" height="100%" fill="var(--paper)"/>`);
}

export function mount(element, document, options = {}) {
  const page = element.ownerDocument;
  if (!page.rooflineStyle) {
    page.rooflineStyle = new page.defaultView.CSSStyleSheet(); // allowed where inline styles are not
    page.rooflineStyle.replaceSync(STYLE);
    page.adoptedStyleSheets = [...page.adoptedStyleSheets, page.rooflineStyle];
  }
  const plot = {
    element,
    update(next, changed = options) {
      [document, options] = [next, changed];
      const focused = element.contains(page.activeElement) ? page.activeElement.getAttribute("aria-label") : null;
      element.innerHTML = draw(document, options);
      arrows(element);
      if (focused !== null) nearest(element, focused)?.focus();
    },
    svg() {
      const look = page.defaultView.getComputedStyle(element.firstElementChild);
      const names = ["ink", "grid", "roof", "paper", ...Array.from({ length: SERIES_COLOURS }, (_, n) => `series-${n}`)];
      const lines = names.map((name) => `--${name}: ${look.getPropertyValue(`--${name}`)};`);
      return exported(document, options, `.roofline { ${lines.join(" ")} }`);
    },
  };
  plot.update(document, options);
  return plot;
}

/** After a redraw the focus stays on the same kernel's point at the same level. */
function nearest(element, said) {
  const points = [...element.querySelectorAll(".point")];
  const name = said.split(":")[0];
  return points.find((point) => point.getAttribute("aria-label").split(":")[0] === name) ?? points[0];
}

/** Left and right move between points, as in other groups of controls. */
function arrows(element) {
  const points = [...element.querySelectorAll(".point")];
  points.forEach((point, index) => point.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      points[(index + step + points.length) % points.length].focus();
    }
  }));
}
