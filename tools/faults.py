"""Kills, starves and damages the commands that write folders: nothing may be lost, left over, or differ afterwards.

Each series interrupts a command again and again, then runs it to its end and compares every byte with an undisturbed
run. Everything happens in a temporary folder with a cache of its own.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hipsynth import toolchain
from hipsynth.core.errors import BadInput, HipsynthError
from hipsynth.core.journal import read_records
from hipsynth.core.program import write_programs
from hipsynth.core.scratch import scratch_folder
from hipsynth.core.store import Corpus
from hipsynth.core.store.schema import KINDS
from hipsynth.synth.generate import generate_programs
from hipsynth.synth.generate.problem_sizes import shrink_program

ROOT = Path(__file__).resolve().parents[1]
GRACE_S = 15.0  # how long a process may outlive the killed command: on a busy machine a worker may still be starting
EARLY = 1.5  # kills of the cold series come within this multiple of the time of one program with an empty cache
LIMIT_S = 900  # for a run to its end
FULL, QUICK = (200, 100, 8, 6), (20, 40, 3, 3)  # kills; programs to generate, augment, profile
# Shares of the kills, by series.
SHARES = {"generate": 0.25, "augment": 0.15, "profile, warm": 0.25, "profile, cold": 0.25, "two writers": 0.1}


@dataclass(frozen=True)
class SynthCommand:
    """A command that writes a folder. `list_finished`: keys of the items that the folder holds, `read_files`: the bytes
    that must not differ, by path."""

    name: str
    arguments: tuple[str, ...]
    list_finished: Callable[[Path], set[str]]
    read_files: Callable[[Path], dict[str, bytes]]


@dataclass(frozen=True)
class FaultRow:
    """The result of one series. `lost`: items that a kill or damage lost for good, `left`: files nobody needs."""

    case: str
    faults: int = 0
    survivors: int = 0
    left: int = 0
    lost: int = 0
    identical: bool = True
    note: str = ""

    @property
    def is_clean(self) -> bool:
        return self.identical and not (self.survivors or self.left or self.lost)


@dataclass(frozen=True)
class FaultBench:
    """The temporary folder of a run; `scratch`: the commands' TMPDIR, by whose name their processes are recognised."""

    folder: Path
    rng: random.Random
    quick: bool

    @property
    def scratch(self) -> Path:
        return self.folder / "tmp"

    def start_command(
        self, verb: SynthCommand, out: Path, cache: Path, limit: int | None = None
    ) -> subprocess.Popen[str]:
        """Starts a verb in a process group of its own; `limit`: most bytes of a file that it writes."""

        def set_limit() -> None:
            if limit is not None:
                resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

        command = [sys.executable, "-m", "hipsynth.cli.main", *verb.arguments, "--out", str(out)]
        return subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, "TMPDIR": str(self.scratch), "HIPSYNTH_CACHE": str(cache)}, text=True,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True, preexec_fn=set_limit,
        )  # fmt: skip

    def run_command(self, verb: SynthCommand, out: Path, cache: Path, *, limit: int | None = None) -> tuple[int, str]:
        """Runs a verb to its end: (exit code, stderr)."""
        process = self.start_command(verb, out, cache, limit)
        try:
            _, messages = process.communicate(timeout=LIMIT_S)
        finally:
            end_process(process)
        return process.returncode, messages

    def make_cache(self, name: str) -> Path:
        """A new cache that holds the header tree and nothing else."""
        folder, tree = self.folder / "caches" / name, toolchain.find_toolchain().root
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / tree.name).symlink_to(tree)
        return folder


# --- what a folder holds --------------------------------------------------------------------------------------------


def read_files(folder: Path) -> dict[str, bytes]:
    """Every file except journals and locks, whose content depends on the order of events."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths if "journal" not in path.name}


def read_corpus_files(folder: Path) -> dict[str, bytes]:
    return {
        name: data for name, data in read_files(folder).items() if name.partition("/")[0] in (*KINDS, "manifest.json")
    }


def _read_keys(path: Path, key: str) -> set[str]:
    lines = set()
    for line in path.read_text().splitlines() if path.exists() else ():
        with contextlib.suppress(ValueError):
            lines.add(str(json.loads(line)[key]))
    return lines


def list_generated(folder: Path) -> set[str]:
    return _read_keys(folder / "programs.jsonl", "id") | _read_keys(folder / "programs.jsonl.partial", "id")


def list_augmented(folder: Path) -> set[str]:
    return {str(record["key"]) for _, _, record in read_records(folder / "augment.journal")}


def list_profiled(folder: Path) -> set[str]:
    try:
        corpus = Corpus.open(folder, skip_damaged=True)
    except BadInput:
        return set()
    tables = (corpus.measurements(), corpus.failures())
    return {key for table in tables for key in table["measurement_id"].to_pylist()}


# --- processes ------------------------------------------------------------------------------------------------------


def find_processes(mark: Path) -> list[int]:
    """Living processes whose command line or environment names a folder."""
    processes, name = [], os.fsencode(mark)
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            with contextlib.suppress(OSError):
                state = (process / "stat").read_text().rpartition(")")[2].split()[0]
                texts = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
                if state not in "ZX" and name in texts:
                    processes.append(int(process.name))
    return processes


def end_survivors(mark: Path) -> int:
    """How many processes outlive a killed command by GRACE_S; they are then ended."""
    until = time.monotonic() + GRACE_S
    while (left := find_processes(mark)) and time.monotonic() < until:
        time.sleep(0.05)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return len(left)


def end_process(process: subprocess.Popen[str]) -> None:
    """Kills what is left of a command's process group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def list_leftovers(bench: FaultBench, out: Path, cache: Path) -> list[str]:
    """Files that nobody needs after a complete run, once another process has used the temporary folder."""
    use = [sys.executable, "-c", "from hipsynth.core.scratch import process_folder; process_folder()"]
    subprocess.run(use, cwd=ROOT, env={**os.environ, "TMPDIR": str(bench.scratch)}, check=True)
    waste = [*bench.scratch.iterdir(), *out.rglob("*.partial"), *cache.rglob("*.partial"), *cache.rglob("*.making")]
    return [str(path.relative_to(bench.folder)) for path in waste]


# --- the series -----------------------------------------------------------------------------------------------------


def kill_command(
    bench: FaultBench, case: str, verb: SynthCommand, kills: int, window: float, cold: bool, expected: dict[str, bytes]
) -> FaultRow:
    """Kills a command `kills` times within `window` seconds of its start: the group, or only its first process.

    A run that ends before its kill is compared and the series goes on with an empty folder, if `cold` with an empty
    cache too.
    """
    out, warm = bench.folder / "out" / case, bench.folder / "caches" / "warm"
    cache = bench.make_cache("cold") if cold else warm
    row, finished_before, done_count, complete, empty = FaultRow(case), set[str](), 0, 0, 0
    while row.faults < kills:
        process = bench.start_command(verb, out, cache)
        try:
            process.wait(bench.rng.uniform(0.05, window))
        except subprocess.TimeoutExpired:
            (os.killpg if bench.rng.random() < 0.7 else os.kill)(process.pid, signal.SIGKILL)
            process.wait()
            row = replace(row, faults=row.faults + 1, survivors=row.survivors + end_survivors(bench.scratch))
            now = verb.list_finished(out)
            row, done_count = (
                replace(row, lost=row.lost + len(finished_before - now)),
                done_count + len(now - finished_before),
            )
            empty += not now - finished_before
            finished_before = now
            show_progress(f"{case}: {row.faults} of {kills} kills")
            continue
        finally:
            assert process.stderr is not None
            process.stderr.close()
        row = replace(row, identical=row.identical and process.returncode == 0 and verb.read_files(out) == expected)
        finished_before, complete = set(), complete + 1
        shutil.rmtree(out)
        cache = bench.make_cache("cold") if cold else warm
    row = finish_run(bench, row, verb, out, cache, expected)
    note = (
        f"within {window:.1f} s: {done_count / kills:.1f} items per kill, none in {empty}; {complete} runs ended before"
    )
    return replace(row, note="; ".join(part for part in (note, row.note) if part))


def finish_run(
    bench: FaultBench,
    row: FaultRow,
    verb: SynthCommand,
    out: Path,
    cache: Path,
    expected: dict[str, bytes],
    extra: Sequence[str] = (),
) -> FaultRow:
    """Runs the command to its end and compares."""
    code, messages = bench.run_command(replace(verb, arguments=(*verb.arguments, *extra)), out, cache)
    same = code == 0 and verb.read_files(out) == expected
    left = list_leftovers(bench, out, cache)
    notes = [row.note] if row.note else []
    notes += [] if code == 0 else [f"exit code {code}: {messages.strip()[-200:]}"]
    notes += [f"left: {', '.join(left[:3])}"] if left else []
    return replace(row, identical=row.identical and same, left=row.left + len(left), note="; ".join(notes))


def run_two_writers(
    bench: FaultBench, verb: SynthCommand, kills: int, window: float, expected: dict[str, bytes]
) -> FaultRow:
    """Starts a command twice at once and kills one of them: one is refused or comes after the other."""
    case = f"two writers, {verb.name}"
    out, cache, row = bench.folder / "out" / case, bench.folder / "caches" / "warm", FaultRow(case)
    refused = 0
    while row.faults < kills:
        pair = [bench.start_command(verb, out, cache) for _ in range(2)]
        with contextlib.suppress(subprocess.TimeoutExpired):
            pair[0].wait(bench.rng.uniform(0.05, window))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pair[0].pid, signal.SIGKILL)
        messages = [process.communicate(timeout=LIMIT_S)[1] for process in pair]
        second = pair[1].returncode == 0 or "another command is writing" in messages[1]
        first = pair[0].returncode in (0, -signal.SIGKILL) or "another command is writing" in messages[0]
        refused += sum("another command is writing" in text for text in messages)
        row = replace(
            row, faults=row.faults + 1, survivors=row.survivors + end_survivors(bench.scratch),
            identical=row.identical and first and second,
        )  # fmt: skip
        show_progress(f"{case}: {row.faults} of {kills} kills")
        if row.faults < kills and verb.list_finished(out) and bench.rng.random() < 0.5:
            shutil.rmtree(out)
    return finish_run(bench, replace(row, note=f"{refused} refused"), verb, out, cache, expected)


@contextlib.contextmanager
def mount_small_disk(folder: Path, size: int) -> Iterator[Callable[[int], None] | None]:
    """A file system of `size` bytes at `folder`, and a function that resizes it; None if this user may not mount."""
    folder.mkdir(parents=True)
    command = ["mount", "-t", "tmpfs", "-o"]
    is_mounted = os.geteuid() == 0 and subprocess.run(
        [*command, f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    ).returncode == 0  # fmt: skip

    def resize_disk(bytes_: int) -> None:
        subprocess.run([*command, f"remount,size={bytes_}", str(folder)], check=True)

    try:
        yield resize_disk if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


def fill_disk(bench: FaultBench, verb: SynthCommand, expected: dict[str, bytes]) -> FaultRow:
    """The disk of the output, or without the right to mount the size of a file, ends in the middle of the command."""
    case, cache = f"full disk, {verb.name}", bench.folder / "caches" / "warm"
    show_progress(case)
    row = FaultRow(case)
    sizes = [len(data) for data in expected.values()]
    with mount_small_disk(bench.folder / "disks" / case, max(4096 * len(sizes), sum(sizes)) // 2) as resize:
        out = bench.folder / ("disks" if resize else "out") / case / "out"
        limit = None if resize else max(sizes) // 2
        for _ in range(3):
            code, messages = bench.run_command(verb, out, cache, limit=limit)
            clear = code == 3 and "no space" in messages
            note = "" if clear else f"exit code {code}: {messages.strip()[-200:]}"
            row = replace(row, faults=row.faults + 1, identical=row.identical and clear, note=row.note or note)
        finished = verb.list_finished(out)
        if resize:
            resize(1 << 30)
        else:
            row = replace(row, note="limited file size: this user may not mount")
        row = finish_run(bench, row, verb, out, cache, expected)
        return replace(row, lost=len(finished - verb.list_finished(out)))


def _cut_file(path: Path, rng: random.Random) -> None:
    path.write_bytes(path.read_bytes()[: rng.randrange(path.stat().st_size)])


def _flip_bit(path: Path, rng: random.Random) -> None:
    data = bytearray(path.read_bytes())
    data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    path.write_bytes(bytes(data))


def _remove_file(path: Path, _: random.Random) -> None:
    path.unlink()


DAMAGE: dict[str, tuple[str, Callable[[Path, random.Random], None], tuple[str, ...]]] = {
    "manifest removed": ("manifest.json", _remove_file, ()),
    "manifest cut": ("manifest.json", _cut_file, ()),
    "shard removed": ("*/*.parquet", _remove_file, ("--repair",)),
    "shard cut": ("*/*.parquet", _cut_file, ("--repair",)),
    "bit of a shard flipped": ("*/*.parquet", _flip_bit, ("--repair",)),
    "journal removed": ("journal.log", _remove_file, ()),
    "journal cut": ("journal.log", _cut_file, ()),
    "bit of the journal flipped": ("journal.log", _flip_bit, ("--repair",)),
}


def damage_corpora(
    bench: FaultBench, verb: SynthCommand, times: int, corpora: dict[str, Path], expected: dict[str, bytes]
) -> Iterator[FaultRow]:
    """Damages one file of a corpus, runs the command as its message says, and compares."""
    for name, (pattern, damage, extra) in DAMAGE.items():
        source = corpora["interrupted" if pattern.startswith("journal") else "whole"]
        row = FaultRow(name)
        for _ in range(times):
            out = bench.folder / "out" / "damaged"
            shutil.rmtree(out, ignore_errors=True)
            shutil.copytree(source, out)
            show_progress(f"{name}: {row.faults + 1} of {times}")
            damage(bench.rng.choice(sorted(out.glob(pattern))), bench.rng)
            row = replace(row, faults=row.faults + 1)
            row = finish_run(bench, row, verb, out, bench.folder / "caches" / "warm", expected, extra)
        yield row


# --- the whole ------------------------------------------------------------------------------------------------------


def interrupt_command(bench: FaultBench, verb: SynthCommand, out: Path, cache: Path) -> Path:
    """A corpus whose journal holds finished items: the command is killed as soon as it does."""
    process = bench.start_command(verb, out, cache)
    until = time.monotonic() + LIMIT_S
    while not list_profiled(out) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.01)
    end_process(process)
    end_survivors(bench.scratch)
    if not (out / "journal.log").stat().st_size:
        raise BadInput("the command ended before it could be interrupted", remedy="run it with more programs")
    return out


def time_first_program(bench: FaultBench, profile: SynthCommand) -> float:
    """Seconds until a command with an empty cache has profiled its first program for one set of flags."""
    programs = bench.folder / "programs"
    program = next(path for path in sorted(programs.iterdir()) if path.suffix == ".hip")
    (bench.folder / "first").mkdir()
    shutil.copy(program, bench.folder / "first")
    arguments = ("profile", str(bench.folder / "first"), "--arch", "gfx90a", "--flags=-O3")
    start = time.monotonic()
    bench.run_command(replace(profile, arguments=arguments), bench.folder / "out" / "first", bench.make_cache("cold"))
    return time.monotonic() - start


def list_commands(bench: FaultBench, counts: Sequence[int]) -> dict[str, SynthCommand]:
    """The commands under test; the programs that augment and profile read are generated first."""
    seed = str(bench.rng.randrange(1 << 30))
    for name, count in (("bases", counts[1]), ("programs", counts[2])):
        programs = generate_programs(count, int(seed), runs=8)
        write_programs(bench.folder / name, (shrink_program(program, 2) for program in programs))
    generate = ("generate", "--count", str(counts[0]), "--seed", seed)
    augment = ("augment", str(bench.folder / "bases"))
    cells = ("--arch", "gfx90a", "--flags=-O3", "--flags=-O3 -ffast-math")
    profile = ("profile", str(bench.folder / "programs"), *cells)
    return {
        arguments[0]: SynthCommand(arguments[0], (*arguments, "--workers", "2"), list_finished, read)
        for arguments, list_finished, read in (
            (generate, list_generated, read_files),
            (augment, list_augmented, read_files),
            (profile, list_profiled, read_corpus_files),
        )
    }


def run_series(bench: FaultBench, kills: int, counts: Sequence[int], only: Sequence[str]) -> Iterator[FaultRow]:
    """The rows of the table, in order; `only`: verbs to test, all if empty."""
    warm = bench.make_cache("warm")
    commands = {name: verb for name, verb in list_commands(bench, counts).items() if not only or name in only}
    chosen = {name: part for name, part in SHARES.items() if name.partition(",")[0] in (*commands, "two writers")}
    share = {name: max(1, round(kills * part / sum(chosen.values()))) for name, part in chosen.items()}
    for name, verb in commands.items():
        show_progress(f"{name}: undisturbed")
        seconds, undisturbed_s = 0.0, bench.folder / "out" / f"{name}, undisturbed"
        for _ in range(2):  # the first fills the cache; the second tells how long the command takes with it
            shutil.rmtree(undisturbed_s, ignore_errors=True)
            start = time.monotonic()
            code, messages = bench.run_command(verb, undisturbed_s, warm)
            seconds = time.monotonic() - start
            if code:
                raise BadInput(f"{name} fails undisturbed", cause=messages, remedy="run `synth doctor`")
        expected = verb.read_files(undisturbed_s)
        case = f"{name}, warm" if name == "profile" else name
        yield kill_command(bench, case, verb, share[case], seconds, False, expected)
        if name == "profile":
            early = EARLY * time_first_program(bench, verb)
            yield kill_command(bench, "profile, cold", verb, share["profile, cold"], early, True, expected)
        yield run_two_writers(bench, verb, max(1, share["two writers"] // len(commands)), seconds, expected)
        yield fill_disk(bench, verb, expected)
        if name == "profile":
            stopped = interrupt_command(bench, verb, bench.folder / "out" / "interrupted", warm)
            corpora = {"whole": undisturbed_s, "interrupted": stopped}
            yield from damage_corpora(bench, verb, 1 if bench.quick else 5, corpora, expected)


def show_progress(text: str) -> None:
    """Shows what is being done: on one line of a terminal, else as a line each."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}", end="", file=sys.stderr, flush=True)
    elif text:
        print(text, file=sys.stderr)


HEAD = ("case", "faults", "survivors", "left over", "lost", "identical")


def format_line(row: FaultRow) -> str:
    cells = (row.case, row.faults, row.survivors, row.left, row.lost, "yes" if row.identical else "NO")
    return f"| {' | '.join(str(cell) for cell in cells)} | {row.note} |"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.faults", description=__doc__)
    parser.add_argument("--kills", type=int, help="kills in all  [default: 200; with --quick 20]")
    parser.add_argument("--seed", type=int, default=0, help="of the moments, and of the programs")
    parser.add_argument("--quick", action="store_true", help="fewer kills and programs")
    parser.add_argument("--only", action="append", default=[], choices=("generate", "augment", "profile"))
    options = parser.parse_args(arguments)
    kills, *counts = QUICK if options.quick else FULL
    good = True
    try:
        with scratch_folder("faults-") as folder:
            bench = FaultBench(folder, random.Random(options.seed), options.quick)
            bench.scratch.mkdir()
            print(f"| {' | '.join(HEAD)} | note |\n|{'---|' * (len(HEAD) + 1)}", flush=True)
            try:
                for row in run_series(bench, options.kills or kills, counts, options.only):
                    good = good and row.is_clean
                    show_progress("")
                    print(format_line(row), flush=True)
            finally:
                end_survivors(bench.scratch)
    except (HipsynthError, OSError, subprocess.SubprocessError) as error:
        print(f"faults: {error}", file=sys.stderr)
        return 4
    print("nothing lost, nothing left, nothing different" if good else "FAILED: see the table")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
