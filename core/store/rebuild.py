"""Lists the shards of a corpus folder: those of its manifest or, if that is lost, those found in the folder.

A shard's name begins with its first id and ends with its hash, so that the folder alone shows which files are ours and
whole. An interrupted rewrite leaves shards that overlap; each item then counts in one of them only.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from hipsynth.core.errors import BadInput
from hipsynth.core.files import PARTIAL
from hipsynth.core.reasons import Reason
from hipsynth.core.store import shards as files
from hipsynth.core.store.schema import KEY, KINDS, SCHEMA_VERSION

Bad = list[tuple[files.Shard, str]]


def read_contents(root: Path) -> tuple[files.Manifest, Bad] | None:
    """The manifest, read or rebuilt, and its damaged shards with the reasons; None if there is neither manifest nor
    shard. Raises BadInput like `read_manifest`, except for a damaged manifest beside shards."""
    for kind in KINDS:
        if (root / kind).is_symlink():
            damage = f"{root / kind}: is a symbolic link"
            raise BadInput(damage, remedy="replace it by the folder that it names", reason=Reason.OUTSIDE)
    problem = None
    try:
        manifest = files.read_manifest(root)
    except BadInput as error:
        if error.reason != Reason.CORRUPT:
            raise
        manifest, problem = None, error
    if manifest is not None:
        return manifest, files.damaged_shards(root, manifest)
    contents = rebuild_manifest(root, f"is damaged ({problem.cause})" if problem else "is missing")
    if contents is None and problem is not None:
        raise problem
    return contents


def rebuild_manifest(root: Path, why: str) -> tuple[files.Manifest, Bad] | None:
    """The manifest of the shards in the folder, and the damaged ones among them; None if there are none."""
    good: dict[str, list[files.Shard]] = {kind: [] for kind in KINDS}
    bad: Bad = []
    metric_ids: list[str] = []
    for kind in KINDS:
        for path in unnamed_files(root, kind, ()):
            if not files.is_shard(kind, path.name):
                continue
            try:
                shard, names = examine_shard(root, kind, path)
            except BadInput as error:
                bad.append((files.Shard(f"{kind}/{path.name}", 0, 0, "", "", ""), error.what))
            else:
                good[kind].append(shard)
                metric_ids += [name for name in names if name not in metric_ids]
    if not any(good.values()) and not bad:
        return None
    shards = {kind: tuple(sorted(good[kind], key=lambda shard: (shard.first, shard.path))) for kind in KINDS}
    return files.Manifest(SCHEMA_VERSION, tuple(metric_ids), shards, why, _latest_shards(root, shards)), bad


def unnamed_files(root: Path, kind: str, named: Iterable[str]) -> Iterator[Path]:
    """The files in the folder of a kind that are not in `named` (paths relative to `root`), except unfinished ones."""
    named_paths = set(named)
    with contextlib.suppress(OSError):
        for path in sorted((root / kind).iterdir()):
            if f"{kind}/{path.name}" not in named_paths and not path.name.endswith(PARTIAL):
                yield path


def examine_shard(root: Path, kind: str, path: Path) -> tuple[files.Shard, list[str]]:
    """The shard in a file, and its metric columns. Raises BadInput, its `what` the reason, if the file is not whole."""
    try:
        if path.is_symlink():
            raise BadInput("is a symbolic link")
        digest = files.file_hash(path)
        if digest[:12] != path.stem.partition("-")[2]:
            raise BadInput("its hash is not the one in its name")
        parquet = pq.ParquetFile(path)
        why = files.column_mismatch(kind, parquet.schema_arrow)
        if why:
            raise BadInput(why)
        ids = parquet.read(columns=[KEY[kind]])[KEY[kind]].to_pylist()
        if not ids or ids != sorted(ids):
            raise BadInput("its rows are not sorted by id")
    except (OSError, TypeError, pa.ArrowException) as error:
        raise BadInput(str(error)) from error
    relative = path.relative_to(root).as_posix()
    shard = files.Shard(relative, len(ids), path.stat().st_size, digest, ids[0], ids[-1])
    return shard, files.metric_columns(kind, parquet.schema_arrow)


def ids_of(root: Path, shard: files.Shard) -> list[str]:
    """The id of each row of a shard."""
    key = KEY[shard.path.partition("/")[0]]
    ids: list[str] = files.read_shard(root, shard, [key])[key].to_pylist()
    return ids


def _latest_shards(root: Path, shards: dict[str, tuple[files.Shard, ...]]) -> dict[tuple[str, str], str]:
    """Of each (kind, id) that several shards have, the one that counts: the largest, which is the latest of a corpus
    that only grows. A measurement replaces a failure of the same item."""
    owners: dict[tuple[str, str], str] = {}
    for kind in KINDS:
        if not _have_overlap(shards[kind]):
            continue
        first: dict[str, str] = {}
        for shard in sorted(shards[kind], key=lambda shard: (-shard.rows, shard.path)):
            for key in set(ids_of(root, shard)):
                if first.setdefault(key, shard.path) != shard.path:
                    owners[kind, key] = first[key]
    failed = {key for shard in shards["failures"] for key in ids_of(root, shard)}
    for shard in shards["measurements"] if failed else ():
        owners |= {("failures", key): "" for key in failed.intersection(ids_of(root, shard))}
    return owners


def _have_overlap(ordered: Sequence[files.Shard]) -> bool:
    """Whether shards, sorted by their first id, have ids in common ranges."""
    return any(after.first <= before.last for before, after in itertools.pairwise(ordered))
