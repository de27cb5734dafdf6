"""A journey through the extension in a real VS Code (code-server), in Debian's Chromium.

    .venv/bin/python -m tools.vscode_journey      # a few minutes; 600 MB are fetched once
    .venv/bin/python -m tools.vscode_journey --pictures docs/images

Steps: vscode/test/journey.mjs. Nothing but loopback is asked, once code-server is there.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

from tools.vsix import ROOT, BuildFailed, build, node, npm

CODE_SERVER, PLAYWRIGHT = "4.139.1", "1.65.1"
FOLDER = ROOT / ".cache" / "code-server" / CODE_SERVER
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
    options = parser.parse_args(argv)
    if not (browser := chromium()):
        print("vscode_journey: chromium is not installed (Debian: apt install chromium)", file=sys.stderr)
        return 4
    try:
        with tempfile.TemporaryDirectory(prefix="hipsynth-vscode-") as folder:
            status = journey(Path(folder), browser, options.pictures or Path(folder))
            if options.pictures and status == 0:
                shrink(options.pictures)
            return status
    except BuildFailed as error:
        print(f"vscode_journey: {error}", file=sys.stderr)
        return 1


def shrink(folder: Path) -> None:
    """Screenshots with 64 colours: a quarter of the bytes."""
    from PIL import Image

    for path in folder.glob("vscode-*.png"):
        with Image.open(path) as picture:
            picture.convert("RGB").quantize(64).save(path, optimize=True)


def chromium() -> str | None:
    return shutil.which("chromium")


def code_server() -> Path:
    """The folder of code-server's package, fetched if it is not there. Raises BuildFailed."""
    installed, done = FOLDER / "node_modules" / "code-server", FOLDER / "complete"
    if not done.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        (FOLDER / "package.json").write_text('{"private": true}')
        packages = (f"code-server@{CODE_SERVER}", f"playwright-core@{PLAYWRIGHT}")
        npm("install", "--ignore-scripts", "--omit=dev", *packages, folder=FOLDER)
        inner = installed / "lib" / "vscode"
        npm("install", "--ignore-scripts", "--omit=dev", folder=inner)
        for pattern in UNUSED:
            for path in (inner / "node_modules").glob(pattern):
                shutil.rmtree(path)
        done.touch()
    return installed


def journey(folder: Path, browser: str, pictures: Path) -> int:
    """Installs the extension in a fresh VS Code below `folder` and runs the steps; 0 if all succeed."""
    vsix = build(folder / "hipsynth.vsix", check=False)
    workspace = folder / "kernels"
    workspace.mkdir()
    (workspace / "scale.hip").write_text(PROGRAM)
    for kind in ("User", "Machine"):
        (folder / "user" / kind).mkdir(parents=True)
        settings = {**SETTINGS, "hipsynth.server": str(SYNTH)}
        (folder / "user" / kind / "settings.json").write_text(json.dumps(settings))
    with served(folder, vsix, workspace) as url:
        asked = {
            "url": url, "chromium": browser, "workspace": str(workspace), "pictures": str(pictures.resolve()),
            "server": str(SYNTH), "modules": str(FOLDER),
        }  # fmt: skip
        script = ROOT / "vscode" / "test" / "journey.mjs"
        return subprocess.run([str(node()), str(script), json.dumps(asked)], check=False).returncode


@contextlib.contextmanager
def served(folder: Path, vsix: Path, workspace: Path) -> Iterator[str]:
    """A running code-server with the extension; the value is its URL."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    places = ["--user-data-dir", str(folder / "user"), "--extensions-dir", str(folder / "extensions")]
    command = [str(node()), str(code_server()), *places]
    environment = {**os.environ, "HOME": str(folder), "EXTENSIONS_GALLERY": "{}"}
    # Its complaint about a logger that no install script has built says nothing.
    install = [*command, "--install-extension", str(vsix)]
    subprocess.run(install, env=environment, check=True, capture_output=True)
    quiet = ["--auth", "none", "--disable-telemetry", "--disable-update-check"]
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
    raise BuildFailed("code-server does not start")


if __name__ == "__main__":
    sys.exit(main())
