// Runs the tests of host.ts inside the extension host of a real VS Code in a browser. Started by tools/vscode_journey.py
// with one JSON argument: {url, chromium, modules, extension, tests}. A built workbench takes tests only from its page's
// configuration, so that is where they are put.

import { createRequire } from "node:module";
import { join } from "node:path";

const { url, chromium: program, modules, extension, tests } = JSON.parse(process.argv[2]);
const { chromium } = createRequire(join(modules, "x.js"))("playwright-core");
const PATIENCE_MS = 400_000;

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });
const page = await browser.newPage();
await page.route((address) => address.hostname !== "127.0.0.1", (route) => route.abort());
const ended = new Promise((resolve, reject) => {
  setTimeout(() => reject(new Error(`no result within ${PATIENCE_MS / 1000} s`)), PATIENCE_MS).unref();
  page.exposeFunction("codeAutomationExit", resolve);
});
await page.exposeFunction("codeAutomationLog", (_level, words) => {
  const lines = words.join(" ").split("\n");
  const first = lines.findIndex((line) => /(ok|failed) {2}/.test(line)); // the rest is VS Code's own
  if (first >= 0) console.log(lines.slice(first).join("\n").replace(/^.*?(?=(ok|failed) {2})/, ""));
});
await page.addInitScript(([extension, tests]) => {
  const original = Element.prototype.getAttribute;
  Element.prototype.getAttribute = function (name) {
    const value = original.call(this, name);
    if (this.id !== "vscode-workbench-web-configuration" || name !== "data-settings") return value;
    const settings = JSON.parse(value);
    const at = (path) => ({ scheme: "vscode-remote", authority: settings.remoteAuthority, path });
    return JSON.stringify({ ...settings, developmentOptions: { extensions: [at(extension)], extensionTestsPath: at(tests) } });
  };
}, [extension, tests]);

try {
  await page.goto(url);
  process.exitCode = Number(await ended);
} catch (error) {
  console.log(`failed  ${error.message}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
