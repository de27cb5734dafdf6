// What a search for a faster program found, beside the program: how it went, the gain, the changes, and a button to take them.

import { runJob } from "./client.js";
import { significant } from "./roofline.js";

const TITLES = { optimize: "Optimize", swizzle: "Swizzle" };
const us = (ns) => `${significant(ns * 1e-3)} us`;

function gain(speedup, uncertainty) {
  return `${significant(speedup)}${uncertainty ? ` ± ${significant(speedup * uncertainty)}` : ""} times as fast`;
}

/** Sentences about the report of `synth optimize`. */
function optimized(report, budget) {
  const tried = report.steps.length === 1 ? "1 candidate was" : `${report.steps.length} candidates were`;
  const end = report.ended === "nothing_left" ? "nothing is left to try" : `ended by the ${report.ended}`;
  const work = `${tried} executed; ${end}, ${significant(report.budget_spent_s)} of ${budget} s of work used`;
  if (report.status !== "improved") return [`${report.status}: ${report.reason}`, work];
  const checks = report.verified.checks;
  const passed = checks.filter((check) => check.passed).map((check) => check.name.replaceAll("_", " "));
  const open = checks.filter((check) => check.passed === null).map((check) => check.name.replaceAll("_", " "));
  return [
    `${gain(report.speedup, report.uncertainty)}: ${us(report.before_ns)} → ${us(report.after_ns)}`,
    `verified: ${passed.join(", ")}${open.length ? `; not possible: ${open.join(", ")}` : ""}`,
    ...Object.entries(report.dispatch).map(([kernel, sizes]) => `${kernel}: changed for ${sizes}, the original otherwise`),
    ...(report.holds ? [] : [report.reason]),
    work,
  ];
}

/** Sentences about the report of `synth swizzle`. */
function swizzled(report) {
  return report.kernels.map((kernel) => {
    if (kernel.status !== "improved") return `${kernel.name}: ${kernel.reason}`;
    const hits = [kernel.before, kernel.after].map((side) => `${significant(side.L2_Cache_Hit_Rate)} %`).join(" → ");
    return `${kernel.name}: ${gain(kernel.speedup, kernel.uncertainty)}, L2 hit rate ${hits}; a bijection (${kernel.proof}), outputs equal bit for bit`;
  });
}

export class Proposal {
  /** Fills `element`; `apply` takes the new source. */
  constructor(element, apply) {
    this.element = element;
    this.parts = Object.fromEntries(["title", "findings", "diff", "apply", "dismiss"].map((part) => [part, element.querySelector(`.${part}`)]));
    this.parts.apply.addEventListener("click", () => {
      apply(this.source);
      this.element.hidden = true;
    });
    this.parts.dismiss.addEventListener("click", () => this.hide());
  }

  hide() {
    this.searching?.abort();
    this.element.hidden = true;
  }

  #show(findings, working = false) {
    this.parts.findings.replaceChildren(...findings.map((text) => Object.assign(document.createElement("li"), { textContent: text })));
    this.parts.findings.classList.toggle("working", working);
  }

  /** Looks for a faster version of the program in `body`. Returns when that is shown. */
  async search(kind, body, budget) {
    this.searching?.abort();
    const own = new AbortController();
    this.searching = own;
    Object.assign(this.parts.title, { textContent: TITLES[kind] });
    this.parts.apply.hidden = this.parts.diff.hidden = true;
    this.element.hidden = false;
    this.#show(["waits for its turn"], true);
    try {
      const found = await runJob(`/v1/${kind}`, { ...body, budget_s: budget }, own.signal, (job) => {
        this.#show([`${job.elapsed_s.toFixed(0)} s on the clock, budget: ${budget} s of work`, ...job.progress.slice(-6)], true);
      });
      this.#found(kind, found, budget);
    } catch (error) {
      if (error.name === "AbortError") return;
      if (!error.problem) throw error;
      this.#show([error.problem.message, error.problem.cause, error.problem.remedy].filter(Boolean));
    }
  }

  #found(kind, found, budget) {
    this.source = found.source;
    this.#show([...(kind === "optimize" ? optimized(found.report, budget) : swizzled(found.report)), ...found.assumed]);
    this.parts.apply.hidden = this.parts.diff.hidden = !found.diff;
    const rows = found.diff.split("\n").slice(2).map((text) => {
      const row = document.createElement("div");
      row.textContent = text;
      row.className = { "+": "added", "-": "removed", "@": "quiet" }[text[0]] ?? "";
      return row;
    });
    this.parts.diff.replaceChildren(...rows);
  }
}
