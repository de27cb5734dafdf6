// Wires editor, language server, panel and status bar together; what is known of kernels comes from the server.

import * as vscode from "vscode";
import { hasKernel, kernelAt, type Format, type Panel } from "./model";
import { PerformancePanel } from "./panel";
import { LANGUAGES, Server, type State } from "./server";

const WORDS: Record<State, string> = {
  stopped: "the language server does not run",
  starting: "the language server is starting",
  running: "",
  failed: "the language server has failed",
};

export function activate(context: vscode.ExtensionContext): void {
  const known = new Map<string, Panel>();
  const server: Server = new Server(context.extensionPath, (command, args) => carryOut(server, panel, command, args));
  const panel: PerformancePanel = new PerformancePanel(context.extensionUri, (what, uri) => void vscode.commands.executeCommand(`hipsynth.${what}`, uri.toString()));
  const status = vscode.window.createStatusBarItem("hipsynth.status", vscode.StatusBarAlignment.Right, 100);
  status.name = "hipsynth";
  let shown: vscode.TextDocument | undefined;
  let line = 0; // of the cursor in `shown`

  const refresh = (): void => {
    const editor = vscode.window.activeTextEditor;
    if (editor && wanted(editor.document)) shown = editor.document;
    if (!shown) return;
    const found = known.get(shown.uri.toString());
    panel.show(shown.uri, WORDS[server.state], found ?? null);
    if (editor?.document === shown) line = editor.selection.active.line;
    if (editor && editor.document !== shown) status.hide();
    else showStatus(status, server.state, found, line); // without an editor, the panel has the focus
  };
  const look = (document: vscode.TextDocument | undefined): void => {
    if (document && server.state === "stopped" && wanted(document)) void server.start();
  };

  context.subscriptions.push(
    server, panel, status,
    server.onState((state) => {
      if (state !== "running") known.clear();
      refresh();
    }),
    server.onPrediction(({ uri, panel: sent }) => {
      known.set(vscode.Uri.parse(uri).toString(), sent);
      refresh();
    }),
    vscode.window.onDidChangeActiveTextEditor((editor) => { look(editor?.document); refresh(); }),
    vscode.window.onDidChangeTextEditorSelection(refresh),
    vscode.workspace.onDidOpenTextDocument(look),
    vscode.workspace.onDidChangeTextDocument((event) => {
      if (server.state === "stopped" && event.contentChanges.length > 0) look(event.document);
    }),
    vscode.workspace.onDidCloseTextDocument((document) => known.delete(document.uri.toString())),
    vscode.workspace.onDidGrantWorkspaceTrust(() => server.configure()),
    vscode.workspace.onDidChangeConfiguration((event) => {
      if (event.affectsConfiguration("hipsynth.server")) void server.restart();
      else if (event.affectsConfiguration("hipsynth")) void server.configure();
    }),
    vscode.commands.registerCommand("hipsynth.panel", () => { panel.open(); refresh(); }),
    vscode.commands.registerCommand("hipsynth.restart", () => server.restart()),
    vscode.commands.registerCommand("hipsynth.device", () => chooseDevice(server)),
    vscode.commands.registerCommand("hipsynth.flags", () => chooseFlags(server)),
    vscode.commands.registerCommand("hipsynth.export", async (format?: Format) => {
      const chosen = format ?? (await vscode.window.showQuickPick(["svg", "png", "csv"], { title: "Export as" }));
      if (chosen) panel.export(chosen as Format);
    }),
  );
  vscode.workspace.textDocuments.forEach(look);
  refresh();
}

function wanted(document: vscode.TextDocument): boolean {
  return LANGUAGES.includes(document.languageId) && hasKernel(document.getText());
}

function showStatus(item: vscode.StatusBarItem, state: State, found: Panel | undefined, line: number): void {
  const kernel = found && kernelAt(found, line);
  item.text = kernel ? `$(pulse) ${kernel.name}: ${kernel.summary}${found.state ? ` · ${found.state}` : ""}` : `$(pulse) hipsynth${WORDS[state] ? `: ${WORDS[state]}` : ""}`;
  item.command = state === "failed" ? "hipsynth.restart" : "hipsynth.panel";
  item.tooltip = kernel ? `${[...kernel.why, kernel.note].filter(Boolean).join("\n")}\nClick: roofline and metrics` : WORDS[state];
  item.show();
}

/** The server's commands: with the active document if none is named, and an execution with progress and cancel. */
async function carryOut(server: Server, panel: PerformancePanel, command: string, args: unknown[]): Promise<unknown> {
  const uri = typeof args[0] === "string" ? args[0] : vscode.window.activeTextEditor?.document.uri.toString();
  if (command === "hipsynth.targets") return server.command(command, []);
  if (!uri) return undefined;
  const doing = { "hipsynth.profile": "executing", "hipsynth.optimize": "looking for a faster version of" }[command];
  if (!doing) {
    panel.open();
    return server.command(command, [uri]);
  }
  if (!vscode.workspace.isTrusted) return refuse();
  const progress = { location: vscode.ProgressLocation.Notification, title: `hipsynth: ${doing} ${vscode.Uri.parse(uri).path.replace(/.*\//, "")}`, cancellable: true };
  return vscode.window.withProgress(progress, async (_report, token) => {
    try {
      return await server.command(command, [uri], token);
    } catch (error) {
      if (!token.isCancellationRequested) throw error;
      vscode.window.setStatusBarMessage(`hipsynth: ${command === "hipsynth.profile" ? "execution" : "search"} cancelled`, 5000);
      return undefined;
    }
  });
}

async function refuse(): Promise<void> {
  const manage = "Manage trust";
  const chosen = await vscode.window.showWarningMessage("hipsynth: this workspace is not trusted, so its programs are not executed.", manage);
  if (chosen === manage) await vscode.commands.executeCommand("workbench.trust.manage");
}

async function set(values: Record<string, string>): Promise<void> {
  const settings = vscode.workspace.getConfiguration("hipsynth");
  const target = vscode.workspace.workspaceFolders ? vscode.ConfigurationTarget.Workspace : vscode.ConfigurationTarget.Global;
  for (const [name, value] of Object.entries(values)) await settings.update(name, value, target);
}

async function chooseDevice(server: Server): Promise<void> {
  const devices = (await server.targets())?.devices ?? [];
  const rows = devices.map((row) => ({ label: row.name, description: row.title, detail: row.arch }));
  const chosen = await vscode.window.showQuickPick(rows, { title: "Device", matchOnDescription: true });
  if (chosen) await set({ device: chosen.label, arch: chosen.detail });
}

async function chooseFlags(server: Server): Promise<void> {
  const other = "Other flags …";
  const rows = ((await server.targets())?.flags ?? []).map((row) => ({ label: row.flags, detail: row.doc }));
  const chosen = await vscode.window.showQuickPick([...rows, { label: other, detail: "" }], { title: "Compiler flags", matchOnDetail: true });
  const current = vscode.workspace.getConfiguration("hipsynth").get("flags", "");
  const flags = chosen?.label === other ? await vscode.window.showInputBox({ title: "Compiler flags", value: current }) : chosen?.label;
  if (flags) await set({ flags });
}
