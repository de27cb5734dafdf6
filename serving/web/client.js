// Requests to the server. The session cookie, which the printed link left, stands for the token.

export class Refused extends Error {
  constructor(status, problem) {
    super(problem.message ?? `the server answered ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

export async function call(path, { method = "GET", body, signal } = {}) {
  let response;
  try {
    response = await fetch(path, {
      method, signal, headers: body ? { "content-type": "application/json" } : {}, body: body && JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(0, { error: "unreachable", message: "the server does not answer: was it stopped?" });
  }
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refused(response.status, answer);
  return answer;
}

/** The document of a job; `signal` cancels it on the server, too. `note` hears of its state while it runs. */
export async function runJob(path, body, signal, note) {
  const { job } = await call(path, { method: "POST", body, signal });
  const cancel = () => call(`/v1/jobs/${job}`, { method: "DELETE" }).catch(() => {});
  signal.addEventListener("abort", cancel, { once: true });
  try {
    for (;;) {
      const state = await call(`/v1/jobs/${job}?wait_s=1`, { signal });
      if (state.state === "done") return state.document;
      if (state.state === "failed") throw new Refused(200, state.problem);
      if (state.state === "cancelled") throw new DOMException("cancelled", "AbortError");
      note(state);
    }
  } finally {
    signal.removeEventListener("abort", cancel);
  }
}
