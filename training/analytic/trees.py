"""Fitted gradient boosting, asked through LightGBM's C interface, and the files that models of it are kept in.

Only fitting needs its Python package, whose import takes seconds: it imports pandas, scipy and scikit-learn.
"""

from __future__ import annotations

import ctypes
import functools
import gzip
import importlib.util
import json
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from hipsynth.core.errors import BadInput, MissingDependency
from hipsynth.core.files import read_regular, replace_atomically

FLOAT64, ROW_MAJOR, NORMAL = 1, 1, 0  # LightGBM's c_api.h
PARAMETERS = b"num_threads=1"
MOST_BYTES = 40 << 20  # of a model's file
Floats = npt.NDArray[np.float64]
M = TypeVar("M")


class Trees:
    """A model in LightGBM's text form; it is parsed when it is first asked."""

    def __init__(self, text: str) -> None:
        self.text = text

    @functools.cached_property
    def _booster_handle(self) -> ctypes.c_void_p:
        handle, rounds = ctypes.c_void_p(), ctypes.c_int()
        _call_library("LGBM_BoosterLoadModelFromString", self.text.encode(), ctypes.byref(rounds), ctypes.byref(handle))
        weakref.finalize(self, _call_library, "LGBM_BoosterFree", handle)
        return handle

    def predict(self, table: Floats) -> Floats:
        """One value per row. Raises ValueError for a damaged model or another number of columns."""
        rows = np.ascontiguousarray(table, dtype=np.float64)
        predictions, length = np.empty(len(rows)), ctypes.c_int64()
        address = [array.ctypes.data_as(ctypes.c_void_p) for array in (rows, predictions)]
        shape = [ctypes.c_int32(size) for size in rows.shape]
        how = [ROW_MAJOR, NORMAL, 0, -1, PARAMETERS]  # all rounds
        wanted = [self._booster_handle, address[0], FLOAT64, *shape, *how, ctypes.byref(length), address[1]]
        _call_library("LGBM_BoosterPredictForMat", *wanted)
        return predictions


def save_model(path: Path, version: int, members: Mapping[str, object]) -> None:
    """Writes a model's members as compressed JSON, with equal bytes for equal members."""
    document = {"version": version, **members}
    with replace_atomically(path) as fresh:
        fresh.write_bytes(gzip.compress(json.dumps(document).encode(), mtime=0))


def load_model(path: Path, version: int, build: Callable[[dict[str, Any]], M]) -> M:
    """Builds a model of what save_model() wrote. Raises BadInput for a file that is damaged or of another version."""
    try:
        document = json.loads(gzip.decompress(read_regular(path, MOST_BYTES)))
        if document["version"] != version:
            raise ValueError(f"version {document['version']}, this program reads {version}")
        return build(document)
    except (OSError, EOFError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{path}: not a usable model", cause=str(error), remedy="train it again") from error


def _call_library(name: str, *values: Any) -> None:
    if getattr(_load_library(), name)(*values):
        raise ValueError(ctypes.string_at(_load_library().LGBM_GetLastError()).decode(errors="replace"))


@functools.cache
def _load_library() -> ctypes.CDLL:
    spec = importlib.util.find_spec("lightgbm")
    if spec is None or spec.origin is None:
        raise MissingDependency("lightgbm is not installed", remedy="run `pip install -e .`")
    library = ctypes.CDLL(str(Path(spec.origin).parent / "lib" / "lib_lightgbm.so"))
    library.LGBM_GetLastError.restype = ctypes.c_void_p
    return library
