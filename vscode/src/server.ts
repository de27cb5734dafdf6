// The language server's process: started at the first kernel, named and started again when it dies.

import * as vscode from "vscode";
import { CloseAction, ErrorAction, ExecuteCommandRequest, LanguageClient, State as ClientState, type CloseHandlerResult } from "vscode-languageclient/node";
import { options, Restarts, type Panel, type PredictionNotice, type Targets } from "./model";

export const LANGUAGES = ["hip", "cuda-cpp", "cpp", "python"];
const SECTION = "hipsynth";

export type State = "stopped" | "starting" | "running" | "failed";

export class Server implements vscode.Disposable {
  state: State = "stopped";
  private client: LanguageClient | undefined;
  private readonly restarts = new Restarts();
  private readonly stateChanged = new vscode.EventEmitter<State>();
  private readonly predicted = new vscode.EventEmitter<{ uri: string; panel: Panel }>();
  readonly onState = this.stateChanged.event;
  readonly onPrediction = this.predicted.event;

  /** `run` carries out the server's commands, wherever they come from (lens, palette, code action). */
  constructor(private readonly folder: string, private readonly run: (command: string, args: unknown[]) => Promise<unknown>) {}

  async start(): Promise<void> {
    if (this.client) return;
    this.enter("starting");
    const client = (this.client = this.made());
    client.onNotification("hipsynth/prediction", (sent: PredictionNotice) => { this.predicted.fire(sent); });
    try {
      await client.start();
      if (this.client === client) this.enter("running");
    } catch (error) {
      if (this.client === client) await this.fail(error); // else it was restarted meanwhile
    }
  }

  async restart(): Promise<void> {
    this.restarts.forget();
    await this.stop();
    await this.start();
  }

  /** Sends the settings as they are now. */
  async configure(): Promise<void> {
    if (this.state === "running") await this.client?.sendNotification("workspace/didChangeConfiguration", { settings: this.options() });
  }

  async command(command: string, args: unknown[], token?: vscode.CancellationToken): Promise<unknown> {
    return this.client?.sendRequest(ExecuteCommandRequest.type, { command, arguments: args }, token) as Promise<unknown>;
  }

  async targets(): Promise<Targets | undefined> {
    return (await this.command("hipsynth.targets", [])) as Targets | undefined;
  }

  dispose(): Promise<void> {
    return this.stop();
  }

  private async stop(): Promise<void> {
    const client = this.client;
    this.client = undefined;
    try {
      await client?.dispose();
    } catch {
      // a server that is dead already does not say goodbye
    }
    this.enter("stopped");
  }

  private made(): LanguageClient {
    const command = vscode.workspace.getConfiguration(SECTION).get("server", "synth");
    // Not the workspace as working directory: Python may load modules from there, and an untrusted one must run nothing.
    const server = { command, args: ["lsp"], options: { cwd: this.folder } };
    return new LanguageClient(SECTION, "hipsynth", server, {
      documentSelector: LANGUAGES.flatMap((language) => ["file", "untitled"].map((scheme) => ({ language, scheme }))),
      initializationOptions: () => this.options(),
      errorHandler: { error: () => ({ action: ErrorAction.Continue, handled: true }), closed: () => this.closed() },
      initializationFailedHandler: () => false,
      middleware: { executeCommand: (command, args) => this.run(command, args as unknown[]) },
    });
  }

  private options(): Record<string, unknown> {
    const settings = vscode.workspace.getConfiguration(SECTION);
    return options((name) => settings.get(name), vscode.workspace.isTrusted);
  }

  private closed(): CloseHandlerResult {
    if (this.state === "starting" || !this.client) return { action: CloseAction.DoNotRestart, handled: true };
    if (this.restarts.again(Date.now())) {
      this.enter("starting");
      void vscode.window.showWarningMessage("hipsynth: the language server (`synth lsp`) ended; it is started again.");
      const client = this.client;
      const watch = client.onDidChangeState(({ oldState, newState }) => {
        if (oldState !== ClientState.Starting) return;
        watch.dispose();
        if (this.client !== client) return;
        if (newState === ClientState.Running) this.enter("running");
        else void this.fail("it ended again while it started.");
      });
      return { action: CloseAction.Restart, handled: true };
    }
    void this.fail("it ended five times within three minutes.");
    return { action: CloseAction.DoNotRestart, handled: true };
  }

  private async fail(error: unknown): Promise<void> {
    this.client = undefined;
    this.enter("failed");
    await this.explain(error);
  }

  private async explain(error: unknown): Promise<void> {
    const settings = "Open settings", again = "Restart";
    const said = error instanceof Error ? error.message : String(error);
    const chosen = await vscode.window.showErrorMessage(
      `hipsynth: the language server (\`synth lsp\`) does not run: ${said} Is the setting hipsynth.server the path of \`synth\`? \`synth doctor\` lists what is missing.`,
      settings, again,
    );
    if (chosen === settings) await vscode.commands.executeCommand("workbench.action.openSettings", "hipsynth.server");
    if (chosen === again) await this.restart();
  }

  private enter(state: State): void {
    this.state = state;
    void vscode.commands.executeCommand("setContext", "hipsynth.running", state === "running");
    this.stateChanged.fire(state);
  }
}
