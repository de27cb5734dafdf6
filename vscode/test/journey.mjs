// A journey through a real VS Code in a real browser: without trust, predict, panel, edit, export, cancel, execute, another
// device, a Triton script, a server that dies. Started by tools/vscode_journey.py with one JSON argument:
// {url, chromium, workspace, pictures, server}; prints one line per step, and ends with 1 at the first that fails.

import { existsSync, readFileSync, readdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";

const { url, chromium: program, workspace, pictures, server, modules } = JSON.parse(process.argv[2]);
const { chromium } = createRequire(join(modules, "x.js"))("playwright-core");
const PATIENCE = 150_000;

const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox"] });
const page = await (await browser.newContext({ viewport: { width: 1560, height: 950 } })).newPage();
page.setDefaultTimeout(PATIENCE);
// Only this machine is asked for anything.
await page.route((address) => address.hostname !== "127.0.0.1", (route) => route.abort());

const panel = () => page.frameLocator("iframe.webview.ready").frameLocator("iframe#active-frame");
const lens = (text) => page.locator(".codelens-decoration", { hasText: text }).first();
const picture = (name) => page.screenshot({ path: join(pictures, `${name}.png`) });
const notice = (text) => page.locator(".notification-toast", { hasText: text }).first();

async function until(what, holds) {
  const end = Date.now() + PATIENCE;
  while (!(await holds())) {
    if (Date.now() > end) throw new Error(`not within ${PATIENCE / 1000} s: ${what}`);
    await page.waitForTimeout(200);
  }
}

async function command(title) {
  await page.keyboard.press("F1");
  await page.locator(".quick-input-widget input").first().fill(`>${title}`);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: title }).first().waitFor();
  await page.keyboard.press("Enter");
}

async function open(file, word = "__global__") {
  await page.keyboard.press("Control+P");
  await page.locator(".quick-input-widget input").first().fill(file);
  await page.locator(".quick-input-list .monaco-list-row", { hasText: file }).first().waitFor();
  await page.keyboard.press("Enter");
  await page.locator(".monaco-editor .view-line", { hasText: word }).first().waitFor();
}

async function replaceLine(number, text) {
  await page.locator(".monaco-editor .view-line", { hasText: "__global__" }).first().click();
  await page.keyboard.press("Control+G");
  await page.locator(".quick-input-widget input").first().fill(`:${number}`);
  await page.keyboard.press("Enter");
  await page.keyboard.press("Home");
  await page.keyboard.press("Shift+End");
  if (text) await page.keyboard.insertText(text);
  else await page.keyboard.press("Delete");
}

async function saved(format) {
  const file = join(workspace, `scale.${format}`);
  await panel().locator(`[data-format=${format}]`).click();
  await page.locator(".quick-input-widget input").first().waitFor();
  await page.waitForTimeout(500); // the dialog lists the folder before it takes the name
  await page.keyboard.press("Enter");
  await until(`${file} exists`, () => existsSync(file) && readFileSync(file).length > 0);
  return readFileSync(file);
}

function expect(holds, what) {
  if (!holds) throw new Error(what);
}

/** The language server's process: started by this VS Code, which names its program. */
function serverProcess() {
  const own = readdirSync("/proc").filter((name) => /^\d+$/.test(name)).filter((pid) => {
    try {
      const words = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0");
      return words.includes(server) && words.includes("lsp");
    } catch {
      return false; // it has ended meanwhile
    }
  });
  return own.map(Number);
}

const steps = {
  async "a prediction stands above the kernel, in a workspace without trust"() {
    await page.goto(url);
    await page.locator(".monaco-workbench").waitFor();
    // Not by name: that needs a program for searches, which the oldest release would download when it is installed.
    await page.locator(".explorer-folders-view .monaco-list-row", { hasText: "scale.hip" }).first().dblclick();
    await page.locator(".monaco-editor .view-line", { hasText: "__global__" }).first().waitFor();
    await page.keyboard.press("Control+B"); // room for the panel
    await lens("predicted").waitFor();
    await page.locator(".statusbar-item", { hasText: "scale:" }).waitFor();
  },
  async "without trust nothing is executed"() {
    await command("hipsynth: Execute and Profile This File");
    await notice("not trusted").waitFor();
    await page.waitForTimeout(1000); // it slides in
    await picture("vscode-untrusted");
    await notice("not trusted").getByText("Manage trust").click();
    await page.getByRole("button", { name: "Trust", exact: true }).first().click();
    await page.keyboard.press("Control+W");
    await open("scale.hip");
    await lens("predicted").waitFor();
  },
  async "the panel shows roofline and metrics"() {
    await command("hipsynth: Show Performance Panel");
    await panel().locator(".roofline .point").first().waitFor();
    await panel().locator("tr.predicted").first().waitFor();
    await picture("vscode-predicted");
  },
  async "points can be reached by keyboard and have names"() {
    await panel().locator(".roofline .point").first().focus();
    await page.keyboard.press("ArrowRight");
    const said = await panel().locator(".roofline .point:focus").getAttribute("aria-label");
    expect(/^scale, .*FLOP\/B/.test(said), `the focused point is called ${said}`);
  },
  async "an edit shows before and after"() {
    await replaceLine(4, "  if (i < n) a[(i * 32) % n] *= 2.0f;");
    await panel().locator("th", { hasText: "saved (predicted)" }).waitFor();
    await panel().locator(".roofline .series-1 .point").first().waitFor();
    await picture("vscode-edited");
  },
  async "text that does not compile keeps the last figures and says so"() {
    await replaceLine(5, "  this is no C");
    await panel().locator("#status", { hasText: "does not compile" }).waitFor();
    await panel().locator("tr.predicted").first().waitFor();
    await replaceLine(5, "");
    await until("the status is empty", async () => !(await panel().locator("#status").textContent()));
  },
  async "roofline and table are exported"() {
    const [svg, png, csv] = [await saved("svg"), await saved("png"), await saved("csv")];
    expect(svg.toString().startsWith("<svg"), "no SVG");
    expect(png.subarray(1, 4).toString() === "PNG" && png.length > 5000, "no PNG");
    expect(/^kernel,metric.*\r\nscale,duration_ns,ns,predicted,\d/.test(csv.toString()), `the CSV begins ${csv.subarray(0, 99)}`);
  },
  async "an execution can be cancelled"() {
    await panel().locator("[data-ask=profile]").click();
    await notice("executing scale.hip").getByText("Cancel").click();
    await page.locator(".statusbar-item", { hasText: "execution cancelled" }).waitFor();
    await until("the status is empty", async () => !(await panel().locator("#status").textContent()));
    expect((await panel().locator("tr.executed").count()) === 0, "a cancelled execution has figures");
  },
  async "executed figures replace predicted ones, with the difference"() {
    await panel().locator("[data-ask=profile]").click();
    await panel().locator("tr.executed").first().waitFor();
    await lens("executed").waitFor();
    await page.locator(".statusbar-item", { hasText: /scale:.*executed/ }).waitFor();
    await panel().locator("th", { hasText: /^predicted$/ }).waitFor();
    await picture("vscode-executed");
  },
  async "another device is chosen"() {
    await panel().locator("#device").click();
    await page.locator(".quick-input-list .monaco-list-row", { hasText: "mi300x" }).first().waitFor();
    await page.locator(".quick-input-widget input").first().fill("mi300x");
    await page.keyboard.press("Enter");
    await panel().locator("#device", { hasText: "mi300x" }).waitFor();
    await panel().locator("tr.predicted").first().waitFor();
  },
  async "a Triton script is predicted above its function"() {
    await page.locator(".monaco-editor .view-line", { hasText: "__global__" }).first().click(); // the panel's group stays as it is
    await open("double.py", "@triton.jit");
    await lens("predicted").waitFor();
    await page.locator(".statusbar-item", { hasText: "double:" }).waitFor();
    await panel().locator("tr.predicted").first().waitFor();
  },
  async "a Triton script is executed"() {
    await panel().locator("[data-ask=profile]").click();
    await lens("executed").waitFor();
    await panel().locator("tr.executed").first().waitFor();
    await picture("vscode-triton");
    await page.locator(".monaco-editor .view-line", { hasText: "@triton.jit" }).first().click();
    await page.keyboard.press("Control+W");
    await page.locator(".monaco-editor .view-line", { hasText: "__global__" }).first().waitFor();
  },
  async "a server that dies is named and started again"() {
    const [pid] = serverProcess();
    process.kill(pid, "SIGKILL");
    await notice("ended; it is started again").waitFor();
    await until("another server runs", () => serverProcess().some((other) => other !== pid));
    await panel().locator("tr.predicted").first().waitFor();
    await lens("predicted").waitFor();
  },
};

try {
  for (const [name, step] of Object.entries(steps)) {
    const start = Date.now();
    await step().catch(async (error) => {
      await picture("failed");
      throw new Error(`${name}: ${error.message}`);
    });
    console.log(`ok  ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  }
} catch (error) {
  console.log(`failed  ${error.message}`);
  process.exitCode = 1;
} finally {
  await browser.close();
}
