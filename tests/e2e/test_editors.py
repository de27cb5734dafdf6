"""The language server in real editors, without a screen: Neovim and Emacs with Eglot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full
DOCUMENTATION = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "editors.md"
SYNTH = Path(sys.executable).with_name("synth")
TEXT = """#include <hip/hip_runtime.h>
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
NEOVIM = """
local uri = vim.uri_from_bufnr(0)
local id = vim.lsp.start_client({ name = 'hipsynth', cmd = COMMAND })
vim.lsp.buf_attach_client(0, id)
local function ask(method, params)
  params.textDocument = { uri = uri }
  local answer = vim.lsp.buf_request_sync(0, method, params, 30000)
  return answer and answer[id] and answer[id].result
end
local function predicted()
  local lenses = ask('textDocument/codeLens', {})
  return lenses and lenses[1] and lenses[1].command.title:find('predicted') ~= nil
end
vim.wait(60000, predicted, 500)
local lenses = ask('textDocument/codeLens', {})
local hover = ask('textDocument/hover', { position = { line = 1, character = 18 } })
io.stdout:write('LENS ' .. lenses[1].command.title .. '\\n')
io.stdout:write('HOVER ' .. hover.contents.value:gsub('\\n.*', '') .. '\\n')
vim.cmd('qa!')
"""
EMACS = """
(require 'eglot)
(setq eglot-sync-connect 60 eglot-connect-timeout 60)
CONFIGURATION
(remove-hook 'c++-mode-hook 'eglot-ensure) ; it waits for a screen
(find-file "FILE")
(apply #'eglot--connect (eglot--guess-contact))
(defun title-of (lenses) (plist-get (plist-get (elt lenses 0) :command) :title))
(let* ((server (eglot-current-server)) (title "") (tries 0)
       (document (list :textDocument (list :uri (eglot--path-to-uri "FILE")))))
  (while (and (< tries 120) (not (string-match "predicted" title)))
    (accept-process-output nil 0.5)
    (setq tries (1+ tries)
          title (title-of (jsonrpc-request server :textDocument/codeLens document))))
  (princ (concat "LENS " title "\\n"))
  (princ (concat "HOVER " (plist-get (plist-get (jsonrpc-request server :textDocument/hover
     (append document (list :position (list :line 1 :character 18)))) :contents) :value) "\\n"))
  (eglot-shutdown server))
"""


def run(tmp_path: Path, *command: str) -> str:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    return done.stdout + done.stderr


def shows_a_prediction(said: str) -> bool:
    return "LENS " in said and "· predicted" in said and "HOVER **scale**" in said


def configuration(language: str) -> str:
    """What the documentation tells users of an editor to write."""
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENTATION.read_text(), re.DOTALL)
    assert found
    return found[1]


def written(tmp_path: Path) -> Path:
    file = tmp_path / "scale.hip"
    file.write_text(TEXT)
    return file


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_neovim(tmp_path: Path) -> None:
    script = tmp_path / "client.lua"
    command = f"{{ '{sys.executable}', '-m', 'hipsynth.cli.main', 'lsp' }}"
    script.write_text(NEOVIM.replace("COMMAND", command))
    said = run(tmp_path, "nvim", "--headless", "--clean", str(written(tmp_path)), "-c", f"luafile {script}")
    assert shows_a_prediction(said), said


@pytest.mark.skipif(shutil.which("emacs") is None, reason="Emacs is not installed")
def test_emacs(tmp_path: Path) -> None:
    script = tmp_path / "client.el"
    own = configuration("elisp").replace('"synth"', f'"{SYNTH}"').replace("gfx90a", "gfx942")
    script.write_text(EMACS.replace("CONFIGURATION", own).replace("FILE", str(written(tmp_path))))
    said = run(tmp_path, "emacs", "--batch", "-f", "package-initialize", "-l", str(script))
    assert shows_a_prediction(said) and "gfx942" in said, said
