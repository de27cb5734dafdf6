"""The complete pipeline as a demonstration: `make demo`.

Generates programs for two problem sizes each, augments them, simulates their machine code for both architectures and
three flag sets, stores the corpus, fine-tunes the small base that ships, scores it against baselines, predicts one of
the handwritten programs with it, with the shipped predictor and with a model that calls tools, lets Triton's autotuner
choose a kernel's configuration, if Triton is installed, and writes an HTML report. Every stage is one `synth` command,
printed before it runs. When restarted, it skips finished stages and resumes an interrupted one; with other code or
another number of programs it begins anew, in another folder.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import json
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hipsynth.core.errors import MissingDependency
from hipsynth.core.files import write_whole
from hipsynth.simulator.devices import recorded_architectures
from hipsynth.toolchain import sandbox
from tools.code_figures import ROOMS

ROOT = Path(__file__).resolve().parent.parent
SYNTH = Path(sys.executable).with_name("synth")
FLAG_SETS = ("-O3", "-O3 -ffast-math", "-O3 -munsafe-fp-atomics")
HANDWRITTEN = "corpus/handwritten/reduction"  # all of them would take ten minutes
LISTING = "corpus/handwritten/grid_stride/vector_add.hip"
TRITON = "examples/tuned_matmul.py"


@dataclass(frozen=True)
class DemoStage:
    """One `synth` command. `accept`: exit codes after which the demo continues (5: some items failed, all listed)."""

    title: str
    arguments: tuple[str, ...]
    accept: tuple[int, ...] = (0,)


def list_stages(out: Path, programs: int) -> list[DemoStage]:
    """The stages in order, for `programs` base programs: the report is written to `out`, the rest to `own_folder()`."""
    folder = own_folder(out, programs)
    base, varied, corpus, model = (str(folder / name) for name in ("programs", "augmented", "corpus", "model"))
    matrix = [f"--arch={arch}" for arch in recorded_architectures()] + [f"--flags={flags}" for flags in FLAG_SETS]
    return [
        DemoStage(
            "generate base programs",
            ("generate", "--count", str(programs), "--sizes", "2", "--seed", "1", "--out", base),
        ),
        DemoStage(
            "rename and flatten copies", ("augment", base, "--copies", "1", "--seed", "1", "--out", varied), (0, 5)
        ),
        DemoStage("execute and count: base programs", ("profile", base, "--out", corpus, *matrix), (0, 5)),
        DemoStage("execute and count: varied copies", ("profile", varied, "--out", corpus, *matrix), (0, 5)),
        DemoStage(
            "execute and count: handwritten programs",
            ("profile", HANDWRITTEN, "--out", corpus, *matrix),
            (0, 5),
        ),
        DemoStage("what is in the corpus", ("stats", corpus)),
        DemoStage(
            "write training samples",
            ("export", corpus, "--format", "chat-jsonl", "--out", str(folder / "samples.jsonl")),
        ),
        DemoStage(
            "fine-tune the base that ships, with LoRA", ("train", corpus, "--config", "lora-cpu", "--out", model)
        ),
        DemoStage(
            "score it beside baselines",
            ("evaluate", model, corpus, "--out", str(folder / "evaluation")),
        ),
        DemoStage(
            "predict the paper's grid-stride listing",
            ("predict", LISTING, "--arch", "gfx942", "--flags=-O3 -ffast-math", "--model", model),
        ),
        DemoStage(
            "the shipped predictor's answer, beside the executed figures",
            ("predict", LISTING, "--arch", "gfx942", "--flags=-O3 -ffast-math", "--check"),
        ),
        DemoStage(
            "a model that decides which tools to call",
            ("predict", LISTING, "--arch", "gfx942", "--flags=-O3 -ffast-math", "--tools"),
        ),
        DemoStage(
            "a Triton kernel, whose autotuner chooses its blocks in simulated time",
            ("profile", TRITON, "--arch", "gfx942", "--no-counters", "--", "256"),
            (0, MissingDependency.exit_code),
        ),
        DemoStage("write the report", ("report", corpus, "--model", model, "--out", str(out / "report.html"))),
    ]


def own_folder(out: Path, programs: int) -> Path:
    """Where results of this code and number of programs are."""
    return out / f"{programs}-{digest_package()}"


@functools.cache
def digest_package() -> str:
    """A hash of the files that the stages run and read."""
    digest = hashlib.sha256()
    folders = (*ROOMS, "corpus/handwritten", "examples")
    for path in sorted(path for name in folders for path in (ROOT / name).rglob("*")):
        if path.is_file() and path.parent.name != "__pycache__":
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:8]


def hash_stage(stage: DemoStage) -> str:
    return hashlib.sha256("\0".join((digest_package(), *stage.arguments)).encode()).hexdigest()[:16]


def run_stage(stage: DemoStage, number: int, total: int) -> float:
    """Runs one stage; returns its duration in seconds, or exits with its exit code."""
    print(f"\n[{number}/{total}] {stage.title}\n  $ synth {shlex.join(stage.arguments)}", flush=True)
    start = time.monotonic()
    code = subprocess.run([str(SYNTH), *stage.arguments], cwd=ROOT, check=False).returncode
    if code not in stage.accept:
        print(f"\nstopped: `synth {stage.arguments[0]}` ended with exit code {code}.", file=sys.stderr)
        print("Finished work is kept; run `make demo` again to continue.", file=sys.stderr)
        sys.exit(code)
    return time.monotonic() - start


def run_demo(out: Path, programs: int) -> None:
    """Runs every unfinished stage, then prints where the results are."""
    out.mkdir(parents=True, exist_ok=True)
    done_path = out / "demo.json"
    plan = list_stages(out, programs)
    keys = [hash_stage(stage) for stage in plan]
    earlier: dict[str, float] = json.loads(done_path.read_text()) if done_path.exists() else {}
    document = {key: earlier[key] for key in keys if key in earlier}  # a report of others replaces this one
    for number, (stage, key) in enumerate(zip(plan, keys, strict=True), 1):
        if key in document:
            print(f"[{number}/{len(plan)}] {stage.title}: done before ({document[key]:.0f} s)", flush=True)
            continue
        document[key] = run_stage(stage, number, len(plan))
        write_whole(done_path, json.dumps(document, indent=1))
    print(f"\nAll stages done in {sum(document[key] for key in keys):.0f} s of work.")
    print(f"Open {out / 'report.html'} in a browser; the corpus is in {own_folder(out, programs) / 'corpus'}.")
    print(f"Try: {SYNTH} profile {LISTING} --arch gfx942")
    print(f"The workbench in your browser: {SYNTH} serve --open")


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("demo-out"), help="where results go (default: demo-out)")
    parser.add_argument("--programs", type=int, default=30, help="base programs to generate (default: 30)")
    options = parser.parse_args(argv)
    if not sandbox.is_available():  # the demo's programs are our own
        print(f"note: programs run without isolation here ({sandbox.why_unavailable()})", flush=True)
        os.environ["HIPSYNTH_SANDBOX"] = "off"
    try:
        run_demo(options.out, options.programs)
    except KeyboardInterrupt:
        print("\ninterrupted; finished work is kept: run `make demo` again to continue.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
