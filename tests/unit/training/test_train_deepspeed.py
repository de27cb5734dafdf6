"""DeepSpeed under torchrun on the CPU: slow (it compiles an extension on first use), so part of the full suite."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import needs
import pytest
import training_corpus as made

from hipsynth.training.models.config import CONFIGS
from hipsynth.training.models.train import train_model

pytestmark = pytest.mark.full


@pytest.mark.parametrize(("stage", "processes", "method"), [(2, 2, "full"), (3, 2, "lora"), (2, 1, "lora")])
def test_two_steps_under_torchrun(tmp_path: Path, stage: int, processes: int, method: str) -> None:
    needs.package("deepspeed")
    made.write_corpus(tmp_path / "corpus", made.samples(12, 2))
    base = tmp_path / "base"  # adapters want one that is kept
    train_model(tmp_path / "corpus", made.toy_config(max_steps=1), base)
    recipe = tmp_path / "toy.toml"
    settings = f'method = "{method}"\nlora_r = 2\ndeepspeed = "{CONFIGS / f"zero{stage}.json"}"'
    recipe.write_text(made.TOY.replace('method = "full"', settings))
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", str(processes)]
    command = [*launcher, "-m", "hipsynth.cli.main", "train", str(tmp_path / "corpus")]
    command += [
        "--config",
        str(recipe),
        "--out",
        str(tmp_path / "model"),
        "--base",
        "tiny" if method == "full" else str(base),
    ]
    environment = {**os.environ, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=540, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    record = json.loads((tmp_path / "model" / "hipsynth.json").read_text())
    assert record["steps"] == 2
    assert 0 < record["trained_parameters"] <= record["parameters"]
    from hipsynth.training.models.predict import Predictor

    assert Predictor.load(tmp_path / "model").predict(made.samples(1, 1)[0].text, "gfx90a", "-O3").metrics
