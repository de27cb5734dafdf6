"""A Ray cluster of two nodes on this machine makes the same bytes as local workers, also when workers are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import needs
import pytest

from hipsynth.core.workers import map_unordered

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Two nodes of one processor each: each node has a worker process for each kind of task."""
    pytest.importorskip("ray", reason="ray is not installed")
    needs.simulator()
    from ray.cluster_utils import Cluster

    found = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    found.add_node(num_cpus=1)
    os.environ["RAY_ADDRESS"] = found.address
    yield found
    del os.environ["RAY_ADDRESS"]
    found.shutdown()


def synth(*words: object) -> dict[str, Any]:
    command = [sys.executable, "-m", "hipsynth.cli.main", *map(str, words), "--workers", "2", "--json"]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False, env=environment)
    assert done.returncode == 0, (done.stdout, done.stderr)
    return dict(json.loads(done.stdout))


def content(folder: Path) -> dict[str, bytes]:
    """The files of a folder; a journal has the order in which items finished."""
    files = [path for path in folder.rglob("*") if path.is_file() and "journal" not in path.name]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def test_a_cluster_makes_the_same_bytes(cluster: Any, tmp_path: Path) -> None:
    for engine in ("local", "ray"):
        base = tmp_path / engine
        synth("generate", "--count", 40, "--seed", 5, "--sizes", 1, "--out", base / "programs", "--engine", engine)
    assert content(tmp_path / "local" / "programs") == content(tmp_path / "ray" / "programs")
    few = tmp_path / "few"
    synth("generate", "--count", 4, "--seed", 6, "--sizes", 1, "--out", few)
    for engine in ("local", "ray"):
        base = tmp_path / engine
        made = synth("augment", few, "--copies", 2, "--out", base / "copies", "--engine", engine)
        assert made["programs"] >= 6
        found = synth("profile", few, "--out", base / "corpus", "--flags=-O3", "--arch", "gfx90a", "--engine", engine)
        assert found["measured"] == 4
    assert content(tmp_path / "local" / "copies") == content(tmp_path / "ray" / "copies")
    shards = [
        {
            name: data
            for name, data in content(tmp_path / engine / "corpus").items()
            if name.endswith((".parquet", ".json"))
        }
        for engine in ("local", "ray")
    ]
    assert shards[0] == shards[1] and any(name.endswith(".parquet") for name in shards[0])


def slow_first(folder: str) -> str:
    """Notes its process, and is slow the first time."""
    note = Path(folder) / "pid"
    if note.exists():
        return "second try"
    note.with_suffix(".new").write_text(str(os.getpid()))
    note.with_suffix(".new").rename(note)
    time.sleep(300)
    return "first try"


def test_a_killed_worker_costs_only_its_time(cluster: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    here = Path(__file__).resolve().parent  # Ray's workers import this module by name
    note = tmp_path / "pid"

    def kill() -> None:
        while not note.exists():
            time.sleep(0.05)
        os.kill(int(note.read_text()), signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()
    paths = (ROOT, here, here.parent / "support", os.environ.get("PYTHONPATH", ""))
    environment = {"PYTHONPATH": ":".join(map(str, paths))}
    ray.init(address=cluster.address, runtime_env={"env_vars": environment})
    try:
        outcomes = sorted(map_unordered(slow_first, [str(tmp_path)], 2, "ray"), key=lambda one: one.index)
    finally:
        ray.shutdown()
    assert [one.get() for one in outcomes] == ["second try"]
