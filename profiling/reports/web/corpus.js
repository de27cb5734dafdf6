
// The page of a corpus: draws the counts that corpus_page.py put into it.

const data = JSON.parse(document.getElementById("data").textContent);
const SERIES = ["first", "second"];
const SVG = "http://www.w3.org/2000/svg";
const WIDE = 280, HIGH = 130, FOOT = 18;

/** An element with attributes and children; texts are never parsed as HTML. */
function make(name, attributes = {}, ...children) {
  const element = ["svg", "g", "rect", "text", "line", "title"].includes(name)
    ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const short = (value) => (value >= 1e3 || (value > 0 && value < 0.01) ? value.toExponential(0).replace("e+", "e") : significant(value));

/** Makes an element open an example by click, Enter or space. */
function opens(element, number) {
  element.addEventListener("click", () => show(data.examples[number]));
  element.addEventListener("keydown", (event) => {
    if ((event.key === "Enter" || event.key === " ") && element.namespaceURI === SVG) {
      event.preventDefault();
      show(data.examples[number]);
    }
  });
  return element;
}

function show(example) {
  const rows = (pairs) => pairs.map(([name, value]) => make("tr", {}, make("th", { scope: "row" }, name), make("td", {}, value)));
  const { kernel, family } = example.facts;
  document.getElementById("example-title").textContent = `${kernel} (${family})`;
  document.getElementById("facts").replaceChildren(...rows(Object.entries(example.facts).map(([k, v]) => [k.replace("_", " "),
    typeof v === "number" ? v.toLocaleString("en") : v])));
  document.getElementById("metrics").replaceChildren(...rows(example.metrics.map((value, n) => [data.metrics[n][0],
    value === null ? "not known" : `${value.toLocaleString("en")} ${data.metrics[n][1]}`])));
  document.getElementById("source").textContent = data.sources[example.facts.program_id] || "Its source was not kept.";
  document.getElementById("example").showModal();
}

function bottlenecks({ archs, rows }) {
  const largest = Math.max(...rows.flatMap((row) => Object.values(row.cells).map((cell) => cell.share)));
  const head = make("tr", {}, make("th", {}, ""), ...archs.map((arch) => make("th", { scope: "col" }, arch)));
  const body = rows.map((row) => make("tr", {}, make("th", { scope: "row" }, row.name), ...archs.map((arch, n) => {
    const cell = row.cells[arch];
    if (!cell) return make("td", {}, "none");
    const bar = make("span");
    bar.style.width = `${(75 * cell.share) / largest}%`;
    const button = make("button", { class: `bar ${SERIES[n % 2]}`, title: `${cell.count.toLocaleString("en")} kernels` }, bar, percent(cell.share));
    return make("td", {}, opens(button, cell.example));
  })));
  document.getElementById("bottlenecks").append(make("table", {}, head, ...body));
}

function rooflines(level) {
  document.getElementById("rooflines").replaceChildren(...data.rooflines.map((plot) => {
    const card = make("div", { class: "card" }, make("h3", {}, plot.document.title));
    const figure = make("div");
    card.append(figure);
    mount(figure, plot.document);
    figure.firstElementChild.append(cells(plot, level));
    return card;
  }));
}

function cells({ document: limits, per_decade: steps, cells: levels }, level) {
  const { x, y, frame } = scales(limits.axes, 720, 440);
  const most = Math.max(1, ...levels[level].map((cell) => cell.count));
  const group = make("g", { class: "cells" });
  for (const cell of levels[level]) {
    const left = Math.max(frame.left, x(10 ** (cell.x / steps))), right = Math.min(frame.right, x(10 ** ((cell.x + 1) / steps)));
    const top = Math.max(frame.top, y(10 ** ((cell.y + 1) / steps))), bottom = Math.min(frame.bottom, y(10 ** (cell.y / steps)));
    if (right <= left || bottom <= top) continue; // outside the plot
    const said = `${cell.count} kernels near ${significant(10 ** ((cell.x + 0.5) / steps))} FLOP/B and ` +
      quantity(10 ** ((cell.y + 0.5) / steps), "FLOP/s");
    group.append(opens(make("rect", { x: left, y: top, width: right - left, height: bottom - top, tabindex: 0, role: "button",
      "aria-label": said, "fill-opacity": (0.25 + (0.75 * Math.log1p(cell.count)) / Math.log1p(most)).toFixed(2) },
    make("title", {}, said)), cell.example));
  }
  return group;
}

function chart({ title, unit, ends, bars }) {
  const drawing = make("svg", { viewBox: `0 0 ${WIDE} ${HIGH + FOOT}`, class: "bars", role: "group", "aria-label": title });
  const series = Object.entries(bars), step = WIDE / Math.max(1, ends.length);
  const largest = Math.max(...series.flatMap(([, found]) => Object.values(found).map((bar) => bar.share)));
  series.forEach(([arch, found], n) => {
    const group = make("g", { class: SERIES[n % 2] });
    for (const [place, bar] of Object.entries(found)) {
      const high = Math.max(1, (bar.share / largest) * (HIGH - 4)), wide = (step - 2) / series.length;
      const said = `${arch}: ${percent(bar.share)} (${bar.count.toLocaleString("en")}) from ${short(ends[place][0])} to ${short(ends[place][1])} ${unit}`;
      group.append(opens(make("rect", { x: place * step + 1 + n * wide, y: HIGH - high, width: wide, height: high, tabindex: 0,
        role: "button", "aria-label": said }, make("title", {}, said)), bar.example));
    }
    drawing.append(group);
  });
  drawing.append(make("line", { x1: 0, x2: WIDE, y1: HIGH, y2: HIGH }));
  const every = Math.ceil(ends.length / 6);
  ends.forEach(([low], n) => n % every === 0 && drawing.append(make("text", { x: n * step, y: HIGH + 12 }, short(low))));
  return make("div", { class: "card" }, make("h3", {}, unit ? `${title}, ${unit}` : title), drawing);
}

document.getElementById("totals").append(...data.totals.map(([name, count]) =>
  make("li", {}, make("strong", {}, count.toLocaleString("en")), name)));
document.getElementById("families").append(...Object.entries(data.families).map(([name, count]) =>
  make("li", {}, `${name}: ${count.toLocaleString("en")}`)));
document.getElementById("legend").append("Shares of the kernels of each architecture:", ...data.bottlenecks.archs.flatMap((arch, n) =>
  [make("span", { class: `key ${SERIES[n % 2]}` }), arch]));
bottlenecks(data.bottlenecks);
rooflines("HBM");
document.getElementById("charts").append(...data.charts.filter((found) => found.ends.length).map(chart));
document.getElementById("level").addEventListener("change", (event) => rooflines(event.target.value));
const linked = data.examples[/^#example-(\d+)$/.exec(location.hash)?.[1]]; // corpus.html#example-3
if (linked) show(linked);
document.getElementById("close").addEventListener("click", () => document.getElementById("example").close());
