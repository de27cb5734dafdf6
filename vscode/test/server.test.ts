import { expect, test, vi } from "vitest";

type Change = { oldState: number; newState: number };
const STOPPED = 1, RUNNING = 2, STARTING = 3;
const fake = vi.hoisted(() => ({ clients: [] as { closed: () => { action: number }; changed: (change: Change) => void }[], said: [] as string[] }));

vi.mock("vscode", () => ({
  EventEmitter: class { event = () => undefined; fire() { /* nobody listens */ } },
  commands: { executeCommand: () => Promise.resolve() },
  window: { showWarningMessage: () => Promise.resolve(), showErrorMessage: (text: string) => { fake.said.push(text); return Promise.resolve(); } },
  workspace: { isTrusted: true, getConfiguration: () => ({ get: (_: string, other: unknown) => other }) },
}));
vi.mock("vscode-languageclient/node", () => ({
  CloseAction: { DoNotRestart: 1, Restart: 2 }, ErrorAction: { Continue: 1 }, State: { Stopped: 1, Running: 2, Starting: 3 },
  LanguageClient: class {
    private readonly listeners = new Set<(change: Change) => void>();
    constructor(_id: string, _name: string, _server: unknown, { errorHandler }: { errorHandler: { closed: () => { action: number } } }) {
      fake.clients.push({ closed: () => errorHandler.closed(), changed: (change) => { for (const listener of this.listeners) listener(change); } });
    }
    onNotification() { /* none comes */ }
    start() { return Promise.resolve(); }
    onDidChangeState(listener: (change: Change) => void) {
      this.listeners.add(listener);
      return { dispose: () => this.listeners.delete(listener) };
    }
  },
}));

test("a server that ends again while it is started again has failed", async () => {
  const { Server } = await import("../src/server");
  const server = new Server("/", () => Promise.resolve());
  for (const survives of [true, false]) {
    await server.start();
    const client = fake.clients.at(-1);
    expect([server.state, client?.closed().action, server.state]).toEqual(["running", 2, "starting"]);
    client?.changed({ oldState: RUNNING, newState: STOPPED });
    client?.changed({ oldState: STOPPED, newState: STARTING });
    expect(server.state).toBe("starting");
    if (!survives) expect(client?.closed().action).toBe(1);
    client?.changed({ oldState: STARTING, newState: survives ? RUNNING : STOPPED });
    expect([server.state, fake.said.length]).toEqual(survives ? ["running", 0] : ["failed", 1]);
  }
  await server.start();
  expect([server.state, fake.clients.length]).toEqual(["running", 2]);
});
