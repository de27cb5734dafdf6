"""A journey through the extension in a real VS Code (code-server), in Debian's Chromium.

    .venv/bin/python -m tools.vscode_journey      # a few minutes; 600 MB are fetched once
    .venv/bin/python -m tools.vscode_journey --pictures docs/images
    .venv/bin/python -m tools.vscode_journey --release oldest    # the oldest VS Code that the manifest allows
    .venv/bin/python -m tools.vscode_journey --host              # instead, the tests inside the extension host

Steps: vscode/test/journey.mjs; tests in the host: vscode/test/host.ts. Nothing but loopback is asked, once code-server
is there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import platform
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from tools.build_step import BuildFailure
from tools.screenshots import find_chromium, shrink_picture
from tools.vsix import EXTENSION, ROOT, build_extension, fetch_node, run_npm

# code-server 4.N contains VS Code 1.N.
RELEASES = {"current": "4.139.1", "oldest": "4.100.3"}
PLAYWRIGHT = "1.65.1"
MACHINE = "arm64" if platform.machine() == "aarch64" else "x64"
RIPGREP = f"@vscode/ripgrep-linux-{MACHINE}"  # finds files by name
RIPGREP_VERSION = "1.18.0"
SYNTH = ROOT / ".venv" / "bin" / "synth"
UNUSED = ("@github/copilot*", "@microsoft/mxc-sdk", "@devcontainers")  # of code-server's packages: 230 MB
START_S = 120
PROGRAM = """#include <hip/hip_runtime.h>
__global__ void scale(float* a, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) a[i] *= 2.0f;

}
int main() {
  float* a;
  hipMalloc(&a, 4 << 20);
  scale<<<4096, 256>>>(a, 1 << 20);
  return hipDeviceSynchronize();
}
"""
SCRIPT = """import torch
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + offsets, 2 * tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)


x = torch.ones(1 << 20, device="cuda")
double[(1024,)](x, x.numel(), BLOCK=1024)
"""
SETTINGS = {
    "workbench.startupEditor": "none",
    "telemetry.telemetryLevel": "off",
    "extensions.autoUpdate": False,
    "extensions.autoCheckUpdates": False,
    "chat.disableAIFeatures": True,
    "security.workspace.trust.startupPrompt": "never",
    "security.workspace.trust.banner": "never",
    "files.autoSave": "off",
    "workbench.secondarySideBar.defaultVisibility": "hidden",
    "workbench.reduceMotion": "on",
    "editor.minimap.enabled": False,
}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Tests the extension in a real VS Code.")
    parser.add_argument("--pictures", type=Path, help="folder for the screenshots (default: a temporary one)")
    parser.add_argument("--release", choices=RELEASES, default="current", help="of VS Code (default: current)")
    parser.add_argument("--host", action="store_true", help="run the tests inside the extension host, not the journey")
    options = parser.parse_args(argv)
    if not (browser := find_chromium()):
        print("vscode_journey: chromium is not installed (Debian: apt install chromium)", file=sys.stderr)
        return 4
    try:
        with tempfile.TemporaryDirectory(prefix="hipsynth-vscode-") as folder:
            if options.host:
                return run_host_tests(Path(folder), browser, RELEASES[options.release])
            status = run_journey(Path(folder), browser, options.pictures or Path(folder), RELEASES[options.release])
            if options.pictures and status == 0:
                for picture in options.pictures.glob("vscode-*.png"):
                    shrink_picture(picture)
            return status
    except BuildFailure as error:
        print(f"vscode_journey: {error}", file=sys.stderr)
        return 1


def locate_server(release: str) -> Path:
    return ROOT / ".cache" / "code-server" / release


def fetch_code_server(release: str) -> Path:
    """The folder of code-server's package, fetched if it is not there. Raises BuildFailed."""
    folder = locate_server(release)
    installed, marker = folder / "node_modules" / "code-server", folder / "complete"
    if not marker.exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text('{"private": true}')
        packages = (f"code-server@{release}", f"playwright-core@{PLAYWRIGHT}")
        run_npm("install", "--ignore-scripts", "--omit=dev", *packages, folder=folder)
        inner = installed / "lib" / "vscode"
        run_npm("install", "--ignore-scripts", "--omit=dev", folder=inner)
        for pattern in UNUSED:
            for path in (inner / "node_modules").glob(pattern):
                shutil.rmtree(path)
        ripgrep = inner / "node_modules" / "@vscode" / "ripgrep"
        if ripgrep.exists() and not (ripgrep / "bin").exists():  # the oldest release fetches it at its installation
            run_npm("install", "--ignore-scripts", f"{RIPGREP}@{RIPGREP_VERSION}", folder=folder)
            shutil.copytree(folder / "node_modules" / RIPGREP / "bin", ripgrep / "bin")
        # It hashes passwords, which --auth none has not; the oldest release brings only its source, and loads it.
        if (unbuilt := folder / "node_modules" / "argon2" / "argon2.js").exists():
            unbuilt.write_text("module.exports = {};\n")
        marker.touch()
    return installed


def run_journey(folder: Path, browser: str, pictures: Path, release: str) -> int:
    """Installs the extension in a fresh VS Code below `folder` and runs the steps; 0 if all succeed."""
    vsix = build_extension(folder / "hipsynth.vsix", check=False)
    workspace = write_workspace(folder)
    with run_server(folder, release, workspace, vsix) as url:
        settings = {"workspace": str(workspace), "pictures": str(pictures.resolve()), "server": str(SYNTH)}
        return run_script("journey.mjs", url, browser, release, settings)


def run_host_tests(folder: Path, browser: str, release: str) -> int:
    """Runs vscode/test/host.ts in the extension host of a fresh VS Code; 0 if all tests succeed."""
    build_extension(folder / "hipsynth.vsix", check=False)
    tests = folder / "host.js"
    options = ("--bundle", "--platform=node", "--format=cjs", "--external:vscode", f"--outfile={tests}")
    run_npm("exec", "--", "esbuild", "test/host.ts", *options)
    with run_server(folder, release, write_workspace(folder), trusted=True) as url:
        return run_script("host.mjs", url, browser, release, {"extension": str(EXTENSION), "tests": str(tests)})


def run_script(name: str, url: str, browser: str, release: str, more: Mapping[str, str]) -> int:
    settings = {"url": url, "chromium": browser, "modules": str(locate_server(release)), **more}
    command = [str(fetch_node()), str(EXTENSION / "test" / name), json.dumps(settings)]
    return subprocess.run(command, check=False).returncode


def write_workspace(folder: Path) -> Path:
    """Writes a workspace and the user's settings; the value is the workspace."""
    workspace = folder / "kernels"
    workspace.mkdir()
    (workspace / "scale.hip").write_text(PROGRAM)
    (workspace / "double.py").write_text(SCRIPT)
    for kind in ("User", "Machine"):
        (folder / "user" / kind).mkdir(parents=True)
        settings = {**SETTINGS, "hipsynth.server": str(SYNTH)}
        (folder / "user" / kind / "settings.json").write_text(json.dumps(settings))
    return workspace


@contextlib.contextmanager
def run_server(
    folder: Path, release: str, workspace: Path, vsix: Path | None = None, trusted: bool = False
) -> Iterator[str]:
    """A running code-server, with the extension if `vsix` is given; the value is its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = ["--user-data-dir", str(folder / "user"), "--extensions-dir", str(folder / "extensions")]
    command = [str(fetch_node()), str(fetch_code_server(release)), *places]
    environment = {**os.environ, "HOME": str(folder), "EXTENSIONS_GALLERY": "{}"}
    if vsix:
        # Its complaint about a logger that no install script has built says nothing.
        install = [*command, "--install-extension", str(vsix)]
        subprocess.run(install, env=environment, check=True, capture_output=True)
    quiet = ["--auth", "none", "--disable-telemetry", "--disable-update-check"]
    quiet += ["--disable-workspace-trust"] if trusted else []
    with (folder / "code-server.log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--bind-addr", f"127.0.0.1:{port}", *quiet, str(workspace)],
            env=environment, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
        try:
            wait_for(f"http://127.0.0.1:{port}/healthz", process)
            yield f"http://127.0.0.1:{port}/?folder={workspace}"
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 15)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)


def wait_for(url: str, process: subprocess.Popen[bytes]) -> None:
    """Returns when a page answers; raises BuildFailed if the process ends or takes too long."""
    for _ in range(START_S * 5):
        with contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError):
            urllib.request.urlopen(url, timeout=2).close()
            return
        if process.poll() is not None:
            break
        time.sleep(0.2)
    raise BuildFailure("code-server does not start")


if __name__ == "__main__":
    sys.exit(main())
