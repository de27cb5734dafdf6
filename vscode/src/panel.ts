// The panel beside the editor: a webview that follows the document in the active editor.

import { randomBytes } from "node:crypto";
import * as vscode from "vscode";
import type { Format, Message, Panel, Request } from "./model";

type Asked = Exclude<Request["type"], "ready" | "line" | "export">;

export class PerformancePanel implements vscode.Disposable {
  private view: vscode.WebviewPanel | undefined;
  private message: Message = { type: "show", file: "", status: "no file with a kernel is open", panel: null };
  private uri: vscode.Uri | undefined;
  private ready = false;
  private waiting: Format | undefined;

  constructor(private readonly root: vscode.Uri, private readonly asked: (what: Asked, uri: vscode.Uri) => void) {}

  open(): void {
    if (this.view) {
      this.view.reveal(undefined, true);
      return;
    }
    const place = { viewColumn: vscode.ViewColumn.Beside, preserveFocus: true };
    const roots = ["out", "media"].map((folder) => vscode.Uri.joinPath(this.root, folder));
    this.view = vscode.window.createWebviewPanel("hipsynth.panel", "hipsynth", place, { enableScripts: true, localResourceRoots: roots });
    this.view.webview.onDidReceiveMessage((request: Request) => {
      this.receive(request).catch((error: unknown) => {
        void vscode.window.showErrorMessage(`hipsynth: ${error instanceof Error ? error.message : String(error)}`);
      });
    });
    this.view.onDidDispose(() => {
      this.view = undefined;
      this.ready = false;
    });
    this.view.webview.html = page(this.view.webview, this.root);
  }

  show(uri: vscode.Uri, status: string, panel: Panel | null): void {
    this.uri = uri;
    this.message = { type: "show", file: vscode.workspace.asRelativePath(uri), status, panel };
    this.send(this.message);
  }

  /** Exports what the panel shows; opens it if need be. */
  export(format: Format): void {
    this.open();
    if (this.ready) this.send({ type: "export", format });
    else this.waiting = format;
  }

  dispose(): void {
    this.view?.dispose();
  }

  private send(message: Message): void {
    if (this.ready) void this.view?.webview.postMessage(message);
  }

  private async receive(request: Request): Promise<void> {
    if (request.type === "ready") {
      this.ready = true;
      this.send(this.message);
      if (this.waiting) this.send({ type: "export", format: this.waiting });
      this.waiting = undefined;
    } else if (!this.uri) return;
    else if (request.type === "export") await save(this.uri, request.format, request.data);
    else if (request.type === "line") await reveal(this.uri, request.line);
    else this.asked(request.type, this.uri);
  }
}

async function save(uri: vscode.Uri, format: Format, data: string): Promise<void> {
  const name = uri.path.replace(/\.[^./]*$/, "") + `.${format}`;
  const to = await vscode.window.showSaveDialog({ defaultUri: uri.with({ scheme: "file", path: name }), filters: { [format.toUpperCase()]: [format] } });
  if (to) await vscode.workspace.fs.writeFile(to, Buffer.from(data, format === "png" ? "base64" : "utf8"));
}

async function reveal(uri: vscode.Uri, line: number): Promise<void> {
  const column = vscode.window.visibleTextEditors.find((editor) => editor.document.uri.toString() === uri.toString())?.viewColumn;
  const selection = new vscode.Range(line, 0, line, 0);
  await vscode.window.showTextDocument(uri, { selection, viewColumn: column ?? vscode.ViewColumn.One });
}

function page(webview: vscode.Webview, root: vscode.Uri): string {
  const nonce = randomBytes(16).toString("hex");
  const path = (...parts: string[]): string => webview.asWebviewUri(vscode.Uri.joinPath(root, ...parts)).toString();
  const policy = `default-src 'none'; img-src data:; style-src ${webview.cspSource}; script-src 'nonce-${nonce}'`;
  return `<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>hipsynth</title>
<meta http-equiv="Content-Security-Policy" content="${policy}">
<link rel="stylesheet" href="${path("media", "panel.css")}"></head>
<body>
<header><h1 id="file"></h1>
<button id="device" data-ask="device" aria-label="Choose the device" aria-describedby="device">device</button>
<button id="flags" data-ask="flags" aria-label="Choose the compiler flags" aria-describedby="flags">flags</button>
<button data-ask="profile">Execute</button><button data-ask="compare">Compare</button>
<button data-format="svg">SVG</button><button data-format="png">PNG</button><button data-format="csv">CSV</button></header>
<p id="status" role="status" aria-live="polite"></p>
<main><fieldset id="levels" hidden><legend>Memory levels</legend></fieldset>
<div id="plot" hidden></div><p id="unplotted"></p><div id="kernels"></div><footer id="model"></footer></main>
<script nonce="${nonce}" src="${path("out", "webview.js")}"></script></body></html>`;
}
