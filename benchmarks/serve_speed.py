"""How long a prediction takes in a running `synth serve`: from the last keystroke's request to the figures.

    python benchmarks/serve_speed.py [--json] [--edits N] [--rate PER_MINUTE] [--soak [MINUTES]]

Each edit changes a constant of the kernel, so that nothing is answered from memory or the build cache. The edits of
the first row come one after another; the others at a fixed rate in bursts, as while typing, where newer ones end older
ones. Memory is that of the server and its workers without the stored answers, whose amount has a limit of its own.
--soak types for ten minutes, or as many as given, and ends with 1 if the memory of its last third is more than 5 %
above that of the third before: the first one fills caches.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
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
BURST, BURST_SHARE = 20, 0.75  # edits without a pause, and the share of the time that they take
DOCUMENTS = 4  # edited in turn, a burst each: the last edit of a burst has some seconds to be answered
SAMPLES = 30  # of memory, in a soak
FLAT = 1.05
PAUSE_MS = 40  # that the workbench waits after a keystroke (serving/web/side.js)


class BenchmarkClient:
    def __init__(self, address: dict[str, str]) -> None:
        self.host = address["url"].removeprefix("http://")
        self.headers = {"authorization": f"Bearer {address['token']}", "content-type": "application/json"}

    def predict_edit(self, edit: int) -> tuple[int, float]:
        """Status and seconds of one edit."""
        document = f"bench-{edit // BURST % DOCUMENTS}"
        body = {"source": KERNEL % (edit + 2), "arch": "gfx942", "flags": "-O3", "document": document, "version": edit}
        start = time.perf_counter()
        connection = http.client.HTTPConnection(self.host, timeout=300)
        connection.request("POST", "/v1/predict", json.dumps(body), self.headers)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, time.perf_counter() - start

    def read_stored_mib(self) -> float:
        """What the server keeps of answers, by its own count."""
        connection = http.client.HTTPConnection(self.host, timeout=300)
        connection.request("GET", "/metrics", headers=self.headers)
        lines = connection.getresponse().read().decode().splitlines()
        connection.close()
        return next(float(line.split()[1]) for line in lines if line.startswith("hipsynth_cache_bytes ")) / (1 << 20)


def measure_resident_mib(pid: int) -> float:
    """Resident memory of a server and its workers in MiB, without the compilers that workers start."""
    children = [c for path in Path(f"/proc/{pid}/task").glob("*/children") for c in path.read_text().split()]
    return sum(_read_resident_mib(process_id) for process_id in [str(pid), *children])


def _read_resident_mib(pid: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS"):
                return int(line.split()[1]) / 1024
    return 0.0


def time_edits(client: BenchmarkClient, edits: int) -> list[float]:
    """Seconds of each edit that is answered, one after another, without the first WARM."""
    return [seconds for edit in range(edits) for status, seconds in [client.predict_edit(edit)] if status == 200][WARM:]


def type_edits(client: BenchmarkClient, first: int, edits: int, per_minute: float) -> list[tuple[int, float]]:
    """Status and seconds of edits at a rate, in bursts; an edit does not wait for the answers to earlier ones."""
    step, begin = 60 / per_minute, time.monotonic()
    with ThreadPoolExecutor(64) as pool:
        latencies = []
        for number in range(edits):
            bursts, within = divmod(number, BURST)
            at = begin + step * (bursts * BURST + within * BURST_SHARE)
            time.sleep(max(0.0, at - time.monotonic()))
            latencies.append(pool.submit(client.predict_edit, first + number))
        return [latency.result() for latency in latencies]


@contextlib.contextmanager
def run_server() -> Iterator[tuple[BenchmarkClient, int]]:
    """A server of its own: a client, and its process."""
    command = [sys.executable, "-m", "hipsynth.cli.main", "serve", "--port", "0", "--json", "--quiet"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield BenchmarkClient(json.loads(server.stdout.readline())), server.pid
    finally:
        server.send_signal(signal.SIGTERM)
        server.wait()


def count_answers(answers: list[tuple[int, float]]) -> dict[str, Any]:
    """The part of the document about edits at a rate, from their statuses and seconds."""
    successes = [seconds for status, seconds in answers if status == 200]
    return {
        "typed": len(answers),
        "typed_answered": len(successes),
        "typed_superseded": sum(status == 409 for status, _ in answers),
        "typed_median_ms": 1000 * statistics.median(successes) if successes else None,
    }


def measure_latencies(edits: int, per_minute: float) -> dict[str, Any]:
    with run_server() as (client, pid):
        times = time_edits(client, edits)
        before = measure_resident_mib(pid) - client.read_stored_mib()
        answers = type_edits(client, edits, edits, per_minute)
        after = measure_resident_mib(pid) - client.read_stored_mib()
    median, slow = statistics.median(times), statistics.quantiles(times, n=20)[-1]
    times_ms = {"median_ms": 1000 * median, "p95_ms": 1000 * slow, "with_pause_ms": 1000 * median + PAUSE_MS}
    return {**times_ms, **count_answers(answers), "memory_mib": [before, after]}


def soak_server(minutes: float, per_minute: float) -> dict[str, Any]:
    """Types for some minutes; `flat` says whether memory was the same in the last third as in the one before."""
    edits, answers, memory = round(minutes * per_minute / SAMPLES), [], []
    with run_server() as (client, pid):
        for sample in range(SAMPLES):
            answers += type_edits(client, sample * edits, edits, per_minute)
            memory.append(measure_resident_mib(pid) - client.read_stored_mib())
        stored = client.read_stored_mib()
    third = SAMPLES // 3
    middle, last = (statistics.median(part) for part in (memory[third : 2 * third], memory[2 * third :]))
    wrong = sorted({status for status, _ in answers} - {200, 409})
    summary = {"minutes": minutes, "memory_mib": memory, "stored_mib": stored, "middle_mib": middle, "last_mib": last}
    return {**count_answers(answers), **summary, "other_statuses": wrong, "flat": last <= FLAT * middle}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--edits", type=int, default=60)
    parser.add_argument("--rate", type=float, default=1000.0)
    parser.add_argument("--soak", type=float, nargs="?", const=10.0, metavar="MINUTES")
    options = parser.parse_args()
    summary = (
        soak_server(options.soak, options.rate) if options.soak else measure_latencies(options.edits, options.rate)
    )
    if options.json:
        print(json.dumps(summary, indent=2))
    else:
        print_summary(summary, options.rate)
    return int(not summary.get("flat", True) or bool(summary.get("other_statuses")))


def print_summary(summary: dict[str, Any], rate: float) -> None:
    rows: list[tuple[str, str]] = []
    if "median_ms" in summary:
        rows = [
            ("one edit after another, median", f"{summary['median_ms']:8.0f} ms"),
            ("  95 % are faster than", f"{summary['p95_ms']:8.0f} ms"),
            ("  with the pause of the workbench, median", f"{summary['with_pause_ms']:8.0f} ms"),
        ]
    rows += [
        (f"{rate:g} edits a minute: answered", f"{summary['typed_answered']:8} of {summary['typed']}"),
        ("  ended by a newer one", f"{summary['typed_superseded']:8}"),
    ]
    ends = summary["memory_mib"] if "median_ms" in summary else [summary["middle_mib"], summary["last_mib"]]
    rows.append(
        (
            "memory before and after these" if "median_ms" in summary else "memory, middle and last third",
            f"{ends[0]:8.0f} {ends[1]:.0f} MiB",
        )
    )
    print("\n".join(f"{name:<44} {value}" for name, value in rows))


if __name__ == "__main__":
    sys.exit(main())
