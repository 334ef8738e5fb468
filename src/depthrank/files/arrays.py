"""NPY, NPZ and Matrix Market to observations."""

import io
import warnings
import zipfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from depthrank import memory
from depthrank.conversion import without_marked
from depthrank.coordinates import Duplicates
from depthrank.errors import DepthrankError
from depthrank.observations import Observations
from depthrank.source import Source

_SPARSE = {"rows", "cols", "values"}
_LABELS = {"row_labels", "col_labels"}


def read_npy(path: Path, *, missing: Any) -> Observations:
    """Read an NPY file as a dense matrix, NaN missing; pickled objects are refused."""
    observations = Observations.from_dense(load_npy(path), missing=missing)
    return replace(observations, source=Source(path=str(path), kind="npy"))


def load_npy(path: Path) -> np.ndarray[Any, Any]:
    """Load the array of an NPY file without unpickling anything."""
    try:
        with path.open("rb") as handle:  # opened here: NumPy leaves its own open on bad files
            return np.asarray(np.load(handle, allow_pickle=False))
    except (ValueError, EOFError, OSError) as error:
        raise DepthrankError(_reason("an NPY file", error)) from None


def read_npz(path: Path, *, missing: Any, duplicates: Duplicates) -> Observations:
    """Read an NPZ file.

    It holds one array (NaN missing); or `matrix` and `mask`; or `rows`, `cols`, `values` and
    perhaps `shape`; or what scipy.sparse.save_npz wrote. `row_labels` and `col_labels` may come
    with any but the last.
    """
    try:
        with path.open("rb") as handle, np.load(handle, allow_pickle=False) as file:
            arrays = {key: file[key] for key in file.files}
    except (ValueError, EOFError, OSError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise DepthrankError(_reason("an NPZ file", error)) from None
    source = Source(path=str(path), kind="npz")
    labels: dict[str, Any] = {key: arrays.pop(key) for key in _LABELS & arrays.keys()}
    if {"format", "shape", "data"} <= arrays.keys():
        import scipy.sparse

        try:
            stored = scipy.sparse.load_npz(path)
        except (ValueError, KeyError) as error:
            raise DepthrankError(_reason("a sparse matrix of scipy", error)) from None
        observations = Observations.from_scipy(stored, duplicates=duplicates)
    elif arrays.keys() in (_SPARSE, _SPARSE | {"shape"}):
        shape = tuple(np.ravel(arrays["shape"]).tolist()) if "shape" in arrays else None
        observations = Observations.from_coordinates(
            arrays["rows"],
            arrays["cols"],
            without_marked(arrays["values"], missing),
            shape,
            duplicates=duplicates,
            **labels,
        )
    elif arrays.keys() == {"matrix", "mask"}:
        seen = Observations.from_mask(arrays["matrix"], arrays["mask"])
        observations = replace(seen, **labels)
    elif len(arrays) == 1:
        (matrix,) = arrays.values()
        observations = Observations.from_dense(matrix, missing=missing, **labels)
    else:
        raise DepthrankError(
            f"the file holds the arrays {', '.join(sorted(arrays)) or '(none)'}; it must hold one "
            "array, or matrix and mask, or rows, cols, values and shape."
        )
    return replace(observations, source=source)


def read_mtx(path: Path, raw: bytes, *, missing: Any, duplicates: Duplicates) -> Observations:
    """Read a Matrix Market file: what is stored is observed, zeros included."""
    import scipy.io

    try:
        m, n, _, layout, field, _ = scipy.io.mminfo(io.BytesIO(raw))
        if field in ("pattern", "complex"):
            raise DepthrankError(
                f"the file holds a {field} matrix; it must be real or integer"
                + (", a pattern has no values." if field == "pattern" else ".")
            )
        if layout == "array":
            memory.require(8 * m * n, f"a dense {m:,} x {n:,} matrix")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # about the class returned
            stored = scipy.io.mmread(io.BytesIO(raw))
    except DepthrankError:
        raise
    except (ValueError, OverflowError, TypeError, OSError) as error:
        raise DepthrankError(_reason("a Matrix Market file", error)) from None
    if isinstance(stored, np.ndarray):
        observations = Observations.from_dense(stored, missing=missing)
    else:
        stored = stored.tocoo()
        observations = Observations.from_coordinates(
            stored.row,
            stored.col,
            without_marked(stored.data, missing),
            stored.shape,
            duplicates=duplicates,
        )
    return replace(observations, source=Source(path=str(path), kind="mtx"))


def _reason(kind: str, error: Exception) -> str:
    if "allow_pickle" in str(error):
        return "the file holds Python objects, which are not read (no pickles); save numbers only."
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return f"this cannot be read as {kind}: {lines[0].rstrip('.')}."
