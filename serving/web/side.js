// One program with its device and flags: the editor, its predictions while typing, its executed figures.

import { call, Refused, runJob } from "./client.js";
import { Editor, readProblems } from "./editor.js";
import { EXAMPLES } from "./examples.js";
import { Proposal } from "./proposal.js";

const PAUSE_MS = 40; // after a keystroke; the server drops what a newer version replaces
const SETTINGS = ["device", "flags", "arguments"];
const QUIET_MS = 900; // without a keystroke before a program is executed, or a script is run to predict it
const SCRIPT = "kernel.py"; // what a script is called
const BROWSER = Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(16)).join("");
let sides = 0; // that this page ever had: one that is added again is another document to the server

export class Side {
  /** `changed` is called whenever there are new figures; `limit` gives the seconds up to which programs execute by themselves,
   * `budget` those of a search. */
  constructor(name, options, changed, limit, budget) {
    Object.assign(this, { document: `${BROWSER}-${sides++}`, name, options, changed, limit, budget, version: 0, predicted: null, executed: null, asked: null, running: null, stale: false });
    this.element = document.importNode(document.getElementById("side").content.firstElementChild, true);
    const find = (selector) => this.element.querySelector(selector);
    this.parts = Object.fromEntries(["device", "flags", "arguments", "example", "flag-set", "execute", "optimize", "swizzle", "stop", "other", "state", "notes", "diagnostics"]
      .map((part) => [part, find(`.${part}`)]));
    this.editor = new Editor(find(".editor"), () => this.edited(), (line) => this.element.dispatchEvent(new CustomEvent("line", { bubbles: true, detail: line })));
    this.rename(name);
    find(".editor").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) { event.preventDefault(); event.stopPropagation(); this.execute(this.options.execute_s); }
    }, true);
    for (const device of options.devices) {
      this.parts.device.append(new Option(`${device.title.replace("AMD Instinct ", "")} (${device.arch})`, device.name));
    }
    this.parts.device.value = options.default_device;
    this.menu("example", EXAMPLES.map(([title], index) => new Option(title, index)), (index) => { this.source = EXAMPLES[index][1]; });
    this.menu("flag-set", options.flags.map((row) => new Option(`${row.flags}: ${row.about}`, row.flags)), (flags) => {
      this.parts.flags.value = flags;
      this.edited();
    });
    for (const part of SETTINGS) this.parts[part].addEventListener("change", () => this.edited());
    this.parts.execute.addEventListener("click", () => this.execute(this.options.execute_s));
    this.proposal = new Proposal(find(".proposal"), (source) => { this.source = source; });
    for (const kind of ["optimize", "swizzle"]) {
      this.parts[kind].addEventListener("click", () => this.proposal.search(kind, this.question(), this.budget()));
    }
    this.parts.stop.addEventListener("click", () => this.running?.abort());
    find("input[type=file]").addEventListener("change", (event) => this.open(event.target.files[0]));
  }

  rename(name) {
    this.name = name;
    this.element.querySelector("h2").textContent = `Program ${name}`;
    this.element.setAttribute("aria-label", `Program ${name}`);
    this.editor.name(`Source of program ${name}`);
  }

  /** A menu whose entries do something, and which then shows its title again. */
  menu(part, entries, chosen) {
    const menu = this.parts[part];
    menu.append(...entries);
    menu.addEventListener("change", () => {
      chosen(menu.value);
      menu.value = "";
    });
  }

  get device() { return this.options.devices.find((device) => device.name === this.parts.device.value); }
  get source() { return this.editor.text; }
  set source(text) { this.editor.text = text; }

  /** Text and settings, as they are kept. */
  get inputs() {
    return { source: this.source, ...Object.fromEntries(SETTINGS.map((part) => [part, this.parts[part].value])) };
  }

  set inputs(inputs) {
    for (const part of SETTINGS) {
      const known = part !== "device" || this.options.devices.some((device) => device.name === inputs.device);
      if (typeof inputs[part] === "string" && known) this.parts[part].value = inputs[part];
    }
    if (inputs.source === this.source) this.edited();
    this.source = inputs.source;
  }

  /** Whether the figures are of an older text than the editor's. */
  age(stale) {
    this.stale = stale;
    this.element.dispatchEvent(new CustomEvent("stale", { bubbles: true }));
  }

  say(text, working = false) {
    this.parts.state.textContent = text;
    this.parts.state.classList.toggle("working", working);
  }

  async open(file) {
    if (!file) return;
    if (file.size > 1 << 20) return this.say(`${file.name} is larger than 1 MiB`);
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (bytes.includes(0)) return this.say(`${file.name} is no text`);
    this.source = new TextDecoder().decode(bytes);
  }

  /** The program and how it is compiled. */
  question() {
    const words = this.parts.arguments.value.trim();
    const own = this.editor.script ? { name: SCRIPT } : {}; // and the script sets its own flags
    const flags = (!this.editor.script && this.parts.flags.value.trim()) || "-O3";
    return { ...own, source: this.source, arch: this.device.arch, device: this.device.name, flags, arguments: words ? words.split(/\s+/) : [] };
  }

  body() {
    return { ...this.question(), document: this.document, version: this.version };
  }

  /** Ends all work on the text as it was. A side that leaves the page is closed, too. */
  close() {
    this.version += 1;
    this.asked?.abort();
    this.running?.abort();
    this.proposal.hide();
    clearTimeout(this.soon);
    clearTimeout(this.later);
  }

  edited() {
    this.close();
    this.age(Boolean(this.source.trim() && this.predicted));
    if (!this.source.trim()) {
      this.predicted = this.executed = null;
      this.say("");
      this.parts.notes.textContent = "";
      this.diagnose("");
      return this.changed();
    }
    this.typed = performance.now();
    this.parts.flags.disabled = this.parts["flag-set"].disabled = this.editor.script;
    this.soon = setTimeout(() => this.predict(), this.editor.script ? QUIET_MS : PAUSE_MS);
  }

  async predict(attempt = 0) {
    const version = this.version;
    this.asked = new AbortController();
    this.say(this.editor.script ? "running the script for its launches" : "predicting", true);
    try {
      this.predicted = await call("/v1/predict", { method: "POST", body: this.body(), signal: this.asked.signal });
      if (version !== this.version) return;
      this.executed = null;
      this.age(false);
      const [result] = this.predicted.results;
      const half = ["completed", "last_compiled", "text"].includes(result.source);
      this.diagnose(half ? result.notes.join("\n") : "");
      this.say(`predicted ${Math.round(performance.now() - this.typed)} ms after the last change`);
      this.parts.notes.textContent = half ? "" : result.notes.join("; ");
      this.changed();
      if (this.limit() > 0 && result.kernels) this.later = setTimeout(() => this.execute(this.limit(), true), QUIET_MS);
    } catch (error) {
      if (error.name === "AbortError" || version !== this.version) return;
      if (!(error instanceof Refused)) throw error;
      if ([0, 429, 503].includes(error.status) && attempt < 30) { // the server is busy, or comes back
        this.say(`${error.problem.message}; trying again`, true);
        this.soon = setTimeout(() => this.predict(attempt + 1), 1000);
        return;
      }
      this.failed(error.problem);
    }
  }

  failed(problem) {
    const old = this.predicted ? "; the figures are of the last version that compiled" : "";
    this.say(`${problem.error === "compile_failed" ? "does not compile" : problem.message}${old}`);
    this.diagnose(problem.diagnostics || [problem.cause, problem.remedy].filter(Boolean).join("\n"));
  }

  diagnose(text) {
    this.parts.diagnostics.textContent = text;
    this.parts.diagnostics.hidden = !text;
    this.editor.setProblems(readProblems(text));
  }

  async execute(limit, unasked = false) {
    clearTimeout(this.later);
    this.running?.abort();
    const version = this.version, own = new AbortController();
    this.running = own;
    this.parts.stop.hidden = false;
    try {
      const note = (job) => this.say(`${job.state === "queued" ? "waits to execute" : "executing"}: ${job.elapsed_s.toFixed(0)} s`, true);
      const done = await runJob("/v1/profile", { ...this.body(), limit_s: limit, lines: true }, own.signal, note);
      if (version !== this.version) return;
      this.finished(done, limit, unasked);
    } catch (error) {
      if (error.name === "AbortError") { if (version === this.version) this.say("stopped"); return; }
      if (!(error instanceof Refused)) throw error;
      this.failed(error.problem);
    } finally {
      if (this.running === own) {
        this.running = null;
        this.parts.stop.hidden = true;
      }
    }
  }

  finished(done, limit, unasked) {
    const [result] = done.results;
    if (!result.kernels.length) {
      const slow = ["timeout", "instruction_limit"].includes(result.reason);
      const what = slow ? `takes more than ${limit} s` : result.reason === "no_kernel" ? "launches no kernel" : `did not execute: ${result.reason}`;
      this.say(`predicted; the program ${what}${slow && unasked ? ": press Execute to run it" : ""}`);
      if (!unasked) this.diagnose(result.message);
      return;
    }
    this.executed = done;
    this.say(result.exit_code ? `executed; the program ended with exit code ${result.exit_code}` : "executed");
    this.changed();
  }

  /** Shows beside each line which share of the time it costs, where that is known. */
  costs() {
    const costs = new Map();
    for (const kernel of this.executed?.results[0].kernels ?? []) {
      const own = (kernel.lines ?? []).filter(({ file }) => !this.editor.script || file.split("/").at(-1) === SCRIPT);
      for (const { line, share } of own) costs.set(line, Math.max(costs.get(line) ?? 0, share));
    }
    this.editor.setShares(costs);
  }
}
