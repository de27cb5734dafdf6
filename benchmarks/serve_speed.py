"""How long a prediction takes in a running `synth serve`: from the last keystroke's request to the figures.

    python benchmarks/serve_speed.py [--json] [--edits N] [--rate PER_MINUTE]

Each edit changes a constant of the kernel, so that nothing is answered from memory or the build cache. The edits of
the first row come one after another; the others at a fixed rate, as while typing, where newer ones end older ones.
Memory is that of the server and its workers after the first and the last quarter of the edits.
"""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

KERNEL = (
    f"// {time.time_ns()}: no run's sources are those of an earlier one\n"
    + """#include <hip/hip_runtime.h>
__global__ void scale(const float* a, float* b, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) b[i] = %d.0f * a[i];
}
int main() {
  const int n = 1 << 20;
  float *a, *b;
  hipMalloc(&a, n * 4);
  hipMalloc(&b, n * 4);
  scale<<<n / 256, 256>>>(a, b, n);
  hipDeviceSynchronize();
}
"""
)
WARM = 4  # edits before the first that counts: the precompiled header is built at the second
PAUSE_MS = 40  # that the workbench waits after a keystroke (serving/web/side.js)


class Client:
    def __init__(self, address: dict[str, str]) -> None:
        self.host = address["url"].removeprefix("http://")
        self.headers = {"authorization": f"Bearer {address['token']}", "content-type": "application/json"}

    def predict(self, edit: int) -> tuple[int, float]:
        """Status and seconds of one edit."""
        body = {"source": KERNEL % (edit + 2), "arch": "gfx942", "flags": "-O3", "document": "bench", "version": edit}
        start = time.perf_counter()
        connection = http.client.HTTPConnection(self.host, timeout=300)
        connection.request("POST", "/v1/predict", json.dumps(body), self.headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, time.perf_counter() - start


def resident_mib(pid: int) -> float:
    """Resident memory of a process and its descendants in MiB."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
        children = [c for path in Path(f"/proc/{pid}/task").glob("*/children") for c in path.read_text().split()]
    except OSError:
        return 0.0
    own = next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)
    return own + sum(resident_mib(int(child)) for child in children)


def one_by_one(client: Client, edits: int) -> list[float]:
    return [seconds for edit in range(edits) for status, seconds in [client.predict(edit)] if status == 200][WARM:]


def at_a_rate(client: Client, first: int, edits: int, per_minute: float) -> list[tuple[int, float]]:
    done: list[tuple[int, float]] = []
    threads = []
    for edit in range(first, first + edits):
        threads.append(threading.Thread(target=lambda edit=edit: done.append(client.predict(edit))))
        threads[-1].start()
        time.sleep(60 / per_minute)
    for thread in threads:
        thread.join()
    return done


def measure(edits: int, per_minute: float) -> dict[str, Any]:
    command = [sys.executable, "-m", "hipsynth.synth.cli.main", "serve", "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        client = Client(json.loads(server.stdout.readline()))
        times = one_by_one(client, edits)
        before = resident_mib(server.pid)
        typed = at_a_rate(client, edits, edits, per_minute)
        after = resident_mib(server.pid)
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()
    median, slow = statistics.median(times), statistics.quantiles(times, n=10)[-1]
    answered = [seconds for status, seconds in typed if status == 200]
    return {
        "median_ms": 1000 * median,
        "p90_ms": 1000 * slow,
        "with_pause_ms": 1000 * median + PAUSE_MS,
        "typed": len(typed),
        "typed_answered": len(answered),
        "typed_superseded": sum(status == 409 for status, _ in typed),
        "typed_median_ms": 1000 * statistics.median(answered) if answered else None,
        "memory_mib": [before, after],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--edits", type=int, default=60)
    parser.add_argument("--rate", type=float, default=1000.0)
    options = parser.parse_args()
    found = measure(options.edits, options.rate)
    if options.json:
        print(json.dumps(found, indent=2))
        return
    print(f"{'one edit after another, median':<44} {found['median_ms']:8.0f} ms")
    print(f"{'  slowest tenth':<44} {found['p90_ms']:8.0f} ms")
    print(f"{'  with the pause of the workbench':<44} {found['with_pause_ms']:8.0f} ms")
    print(f"{f'{options.rate:g} edits a minute: answered':<44} {found['typed_answered']:8} of {found['typed']}")
    print(f"{'  ended by a newer one':<44} {found['typed_superseded']:8}")
    print(f"{'memory before and after these':<44} {found['memory_mib'][0]:8.0f} {found['memory_mib'][1]:.0f} MiB")


if __name__ == "__main__":
    main()
