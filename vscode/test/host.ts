// Tests inside the extension host, with the true VS Code API: tools/vscode_journey.py --host bundles and runs them. The
// workspace holds scale.hip, which has one kernel.

import assert from "node:assert/strict";
import * as vscode from "vscode";

const PATIENCE_MS = 120_000;

async function until<T>(what: string, found: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const end = Date.now() + PATIENCE_MS;
  for (;;) {
    const value = await found();
    if (value) return value;
    if (Date.now() > end) throw new Error(`not within ${PATIENCE_MS / 1000} s: ${what}`);
    await new Promise((done) => setTimeout(done, 200));
  }
}

function titles(lenses: vscode.CodeLens[]): string[] {
  return lenses.map((lens) => lens.command?.title ?? "");
}

async function predicted(uri: vscode.Uri): Promise<string> {
  return until("a predicted lens", async () => {
    const lenses = await vscode.commands.executeCommand<vscode.CodeLens[]>("vscode.executeCodeLensProvider", uri);
    return titles(lenses).find((title) => title.includes("predicted") && !title.includes("…"));
  });
}

const tests: Record<string, (uri: vscode.Uri) => Promise<void>> = {
  async "a kernel activates the extension"(uri) {
    const document = await vscode.workspace.openTextDocument(uri);
    assert.equal(document.languageId, "hip");
    await vscode.window.showTextDocument(document);
    const extension = vscode.extensions.getExtension("hipsynth.hipsynth");
    assert(extension);
    await until("it is active", () => extension.isActive || undefined);
  },
  async "every command of the manifest exists"() {
    const manifest = vscode.extensions.getExtension("hipsynth.hipsynth")?.packageJSON as { contributes: { commands: { command: string }[] } };
    await until("the server's commands", async () => (await vscode.commands.getCommands(true)).includes("hipsynth.profile") || undefined);
    const known = await vscode.commands.getCommands(true);
    assert.deepEqual(manifest.contributes.commands.map((row) => row.command).filter((name) => !known.includes(name)), []);
  },
  async "lens and hover tell the prediction"(uri) {
    assert.match(await predicted(uri), /(ns|us|ms).*occupancy.*predicted/);
    const hovers = await vscode.commands.executeCommand<vscode.Hover[]>("vscode.executeHoverProvider", uri, new vscode.Position(1, 20));
    const text = hovers.flatMap((hover) => hover.contents.map((part) => (part as vscode.MarkdownString).value)).join("\n");
    assert.match(text, /\*\*scale\*\*[\s\S]*L2_Cache_Hit_Rate/);
  },
  async "an edit is predicted anew, and its figures differ"(uri) {
    const before = await predicted(uri);
    const edit = new vscode.WorkspaceEdit();
    edit.replace(uri, new vscode.Range(3, 0, 3, 99), "  if (i < n) a[(i * 32) % n] *= 2.0f;");
    assert(await vscode.workspace.applyEdit(edit));
    await until("another lens", async () => (await predicted(uri)) !== before || undefined);
    await vscode.commands.executeCommand("undo");
    await until("the first lens", async () => (await predicted(uri)) === before || undefined);
  },
  async "targets come from the server"() {
    const found = await vscode.commands.executeCommand<{ devices: { name: string }[]; flags: { flags: string }[] }>("hipsynth.targets");
    assert(found.devices.some((row) => row.name === "mi300x") && found.flags.some((row) => row.flags === "-O3"));
  },
  async "a setting reaches the server"(uri) {
    const settings = vscode.workspace.getConfiguration("hipsynth");
    await settings.update("codeLens", false, vscode.ConfigurationTarget.Workspace);
    const lenses = (): Thenable<vscode.CodeLens[]> => vscode.commands.executeCommand("vscode.executeCodeLensProvider", uri);
    await until("no lens", async () => (await lenses()).length === 0 || undefined);
    await settings.update("codeLens", undefined, vscode.ConfigurationTarget.Workspace);
    await predicted(uri);
  },
  async "the panel opens once, beside the text, which keeps the focus"() {
    await vscode.commands.executeCommand("hipsynth.panel");
    await vscode.commands.executeCommand("hipsynth.panel");
    const panels = (): vscode.Tab[] => vscode.window.tabGroups.all.flatMap((group) => group.tabs)
      .filter((tab) => tab.input instanceof vscode.TabInputWebview && tab.input.viewType.endsWith("hipsynth.panel"));
    await until("a panel", () => panels().length || undefined);
    assert.equal(panels().length, 1);
    assert.equal(vscode.window.activeTextEditor?.document.languageId, "hip");
  },
  async "a restarted server predicts again"(uri) {
    await vscode.commands.executeCommand("hipsynth.restart");
    await predicted(uri);
  },
};

/** What the extension host calls. Rejects with the name of the first test that fails. */
export async function run(): Promise<void> {
  const folder = vscode.workspace.workspaceFolders?.[0];
  assert(folder);
  const uri = vscode.Uri.joinPath(folder.uri, "scale.hip");
  for (const [name, test] of Object.entries(tests)) {
    const start = Date.now();
    try {
      await test(uri);
    } catch (error) {
      console.log(`failed  ${name}: ${error instanceof Error ? String(error.stack) : String(error)}`);
      throw error;
    }
    console.log(`ok  ${name} (${((Date.now() - start) / 1000).toFixed(1)} s)`);
  }
}
