"""The corpus: a folder of Parquet shards, a manifest that is written last, and a journal that survives interruptions.

    CORPUS/manifest.json                 schema version, metric columns, every shard with its hash and row count
    CORPUS/programs/<first id>-<hash>.parquet       one row per program, text included
    CORPUS/measurements/<first id>-<hash>.parquet   one row per kernel of a finished item, counters and metrics
    CORPUS/failures/<first id>-<hash>.parquet       one row per item that failed, with its reason
    CORPUS/journal.log                   finished items not yet in shards
    CORPUS/lost/                         damaged shards that a repair set aside

An item is one program on one target. Its id is a hash of everything that determines its result, so the same work is
never stored twice. The bytes of the shards depend only on the set of items, not on the order in which they finished.
"""

from hipsynth.core.store.corpus import Corpus, CorpusWriter
from hipsynth.core.store.schema import SCHEMA_VERSION, CorpusItem, MeasurementKey, Row, StoredRow
from hipsynth.core.store.splits import held_out_device, held_out_family, split_names, splits, splits_of

__all__ = [
    "SCHEMA_VERSION",
    "Corpus",
    "CorpusItem",
    "CorpusWriter",
    "MeasurementKey",
    "Row",
    "StoredRow",
    "held_out_device",
    "held_out_family",
    "split_names",
    "splits",
    "splits_of",
]
