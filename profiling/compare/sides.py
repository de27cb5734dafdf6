"""What is compared: profile documents in files, and files of git revisions."""

from __future__ import annotations

import json
import os
import subprocess
from collections import deque
from pathlib import Path, PurePosixPath

from hipsynth.core.documents import from_json
from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.files import SOURCE_BYTES, read_regular, write_whole
from hipsynth.core.reasons import Reason
from hipsynth.profiling.reports.documents import ProfileDocument
from hipsynth.source.includes import included_names

DOCUMENT_BYTES = 1 << 30
GIT_SECONDS = 60
MOST_INCLUDES = 1000


def read_profile(path: Path) -> ProfileDocument:
    """The document of `synth profile --json` in a file. Raises BadInput for anything else."""
    remedy = "write one with: synth profile KERNEL.hip --json > FILE.json"
    try:
        document = json.loads(read_regular(path, DOCUMENT_BYTES))
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{path}: is no JSON", cause=str(error), remedy=remedy, reason=Reason.BAD_RECORD) from None
    try:
        return from_json(ProfileDocument, document)
    except (TypeError, ValueError, KeyError) as error:
        problem = f"{path}: is no profile of this version"
        raise BadInput(problem, cause=str(error)[:300], remedy=remedy, reason=Reason.BAD_RECORD) from None


def split_revision(text: str) -> tuple[str, Path] | None:
    """(revision, file) of REV:FILE; None for another text, and for a file that exists under the whole name."""
    revision, colon, name = text.partition(":")
    if not colon or not revision or not name or Path(text).exists():
        return None
    return revision, Path(name)


def checkout_file(revision: str, path: Path, folder: Path) -> Path:
    """Writes a file of a git revision below `folder`, with the headers of the repository that it includes in quotes;
    returns its path there. `path` is as seen from the current folder. Raises BadInput, MissingDependency."""
    top = Path(_run_git("rev-parse", "--show-toplevel").decode().strip())
    try:
        name = PurePosixPath(Path(os.path.normpath(Path.cwd() / path)).relative_to(top.resolve()))
    except ValueError:
        raise BadInput(f"{path}: lies outside the git repository {top}", remedy="give a file of it") from None
    if revision.startswith("-"):
        raise BadInput(f"{revision}: is no revision", remedy="give a commit, branch or tag: REV:FILE")
    commit = _run_git("rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}", unknown=revision).decode().strip()
    waiting, listed = deque([name]), {name}
    while waiting:
        current = waiting.popleft()
        content = _read_blob(commit, current)
        if content is None:
            if current == name:
                raise BadInput(f"{revision}:{path}: no such file in this revision", remedy="git log -- " + str(path))
            continue  # a header of the toolchain, or found by -I
        target = folder / current
        target.parent.mkdir(parents=True, exist_ok=True)
        write_whole(target, content)
        for quoted, included in included_names(content.decode(errors="replace")):
            header = _normalise(current.parent / included) if quoted else None
            if header is not None and header not in listed and len(listed) < MOST_INCLUDES:
                listed.add(header)
                waiting.append(header)
    return folder / name


def _normalise(path: PurePosixPath) -> PurePosixPath | None:
    """The path without "." and ".."; None if it leaves the repository."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            if not parts:
                return None
            parts.pop()
        elif part != ".":
            parts.append(part)
    return None if path.is_absolute() else PurePosixPath(*parts)


def _read_blob(commit: str, name: PurePosixPath) -> bytes | None:
    """The content of a file of a commit; None if it has none of this name, or something else than a file."""
    entry = _run_git("ls-tree", "--full-tree", "-z", "-l", commit, "--", f":(literal){name}").rstrip(b"\0")
    fields = entry.partition(b"\t")[0].split()
    if len(fields) != 4 or fields[1] != b"blob" or fields[0] not in (b"100644", b"100755"):
        return None
    if int(fields[3]) > SOURCE_BYTES:
        raise BadInput(f"{name}: is larger than a source may be", reason=Reason.TOO_LARGE)
    return _run_git("cat-file", "blob", fields[2].decode())


def _run_git(*words: str, unknown: str = "") -> bytes:
    """The output of git. `unknown`: the revision that does not exist if it fails."""
    try:
        process = subprocess.run(["git", *words], capture_output=True, timeout=GIT_SECONDS, check=False)
    except FileNotFoundError:
        raise MissingDependency("git is not installed", remedy="apt-get install git") from None
    except subprocess.TimeoutExpired:
        raise BadInput("git does not answer", remedy="check the repository with git status") from None
    if process.returncode:
        cause = process.stderr.decode(errors="replace").strip()[-300:]
        problem = f"{unknown}: no such revision" if unknown else "git cannot read the file's repository"
        remedy = "give REV:FILE inside a git repository, REV a commit, branch or tag"
        raise BadInput(problem, cause=cause, remedy=remedy)
    return process.stdout
