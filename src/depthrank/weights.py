"""Rank measures of every weight in a file: safetensors, NPZ or NPY.

Reading needs neither PyTorch nor pickle. Numbers keep their type, except that bfloat16 becomes
float32, exactly. Each array of two or more axes is one layer and one row of the table; an array
that cannot be measured keeps its row, with the reason, and the others go on.
"""

import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from depthrank import spectra
from depthrank.errors import DepthrankError

__all__ = ["layer_table", "read_weights", "summary"]

_PYTORCH = (".pt", ".pth", ".bin", ".ckpt")

# Names of the safetensors format; a type that is missing here is named in the error.
_SAFETENSORS_TYPES = {
    "BOOL": "?", "U8": "<u1", "I8": "<i1", "U16": "<u2", "I16": "<i2", "U32": "<u4", "I32": "<i4",
    "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip


def read_weights(path: str | Path) -> dict[str, np.ndarray]:
    """Read all named arrays of a file.

    Parameters
    ----------
    path : path
        `.safetensors`, `.npz` or `.npy`. A `.npy` file holds one array, named like the file.

    Returns
    -------
    dict of str to ndarray
        In the order in which the file stores them. Arrays of a safetensors file are read from disk
        only where they are used.

    Raises
    ------
    DepthrankError
        If the file is missing, damaged, of another kind (PyTorch files among them), or holds
        Python objects or a number format that is not supported.
    """
    path = Path(path)
    if not path.is_file():
        what = "is a folder" if path.is_dir() else "does not exist"
        raise DepthrankError(f"{path} {what}; give a .safetensors, .npz or .npy file.")
    suffix = path.suffix.lower()
    if suffix in _PYTORCH:
        raise DepthrankError(
            f"{path} is a PyTorch file; reading those belongs to the networks extra, which is not "
            "there yet. Save the weights with safetensors.torch.save_file(model.state_dict(), "
            '"weights.safetensors") and give that file.'
        )
    readers = {".safetensors": _read_safetensors, ".npz": _read_npz, ".npy": _read_npy}
    if suffix not in readers:
        raise DepthrankError(
            f"{path} has the ending {suffix!r}; weights are read from .safetensors, .npz and .npy."
        )
    return readers[suffix](path)


def _read_npy(path: Path) -> dict[str, np.ndarray]:
    try:
        return {path.stem: np.load(path, allow_pickle=False)}
    except (ValueError, EOFError, OSError) as error:
        raise DepthrankError(f"{path} cannot be read as an NPY file of numbers: {error}") from error


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    arrays = {}
    name = None
    try:
        with np.load(path, allow_pickle=False) as archive:
            for name in archive.files:
                arrays[name] = archive[name]
    except (ValueError, EOFError, OSError, TypeError, zipfile.BadZipFile) as error:
        where = "" if name is None else f" (array {name!r})"
        raise DepthrankError(
            f"{path}{where} cannot be read as an NPZ file of numbers: {error}"
        ) from error
    return arrays


def _read_safetensors(path: Path) -> dict[str, np.ndarray]:
    """Map the file and cut the arrays out of it by its header.

    The library checks the file (offsets, sizes, names); the arrays are cut here because it gives
    bfloat16 to NumPy only in some versions.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="numpy"):
            pass
    except (SafetensorError, OSError) as error:
        raise DepthrankError(f"{path} cannot be read as a safetensors file: {error}") from error
    data = np.memmap(path, dtype=np.uint8, mode="r")
    header_size = int(data[:8].view("<u8")[0])
    header = json.loads(data[8 : 8 + header_size].tobytes())
    header.pop("__metadata__", None)
    body = data[8 + header_size :]
    entries = sorted(header.items(), key=lambda entry: entry[1]["data_offsets"])
    return {name: _cut(body, name, entry) for name, entry in entries}


def _cut(body: np.ndarray, name: str, entry: Mapping[str, Any]) -> np.ndarray:
    """Return one array of a safetensors file."""
    begin, end = entry["data_offsets"]
    raw = np.asarray(body[begin:end])
    kind = entry["dtype"]
    if kind == "BF16":
        # the upper half of a float32
        values = (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)
    elif kind in _SAFETENSORS_TYPES:
        values = raw.view(_SAFETENSORS_TYPES[kind])
    else:
        raise DepthrankError(
            f"array {name!r} has the number format {kind}; supported are BF16, "
            f"{', '.join(_SAFETENSORS_TYPES)}."
        )
    return values.reshape(entry["shape"])


def layer_table(
    weights: Mapping[str, Any], *, tol: float | None = None, out_axis: int = 0
) -> list[dict[str, Any]]:
    """Measure every weight: one row of plain Python values per array, in the given order.

    Parameters
    ----------
    weights : mapping of str to array_like
        Named arrays, as `read_weights` returns them.
    tol : float, optional
        Relative tolerance of the numerical rank; by default max(rows, columns)·eps of each array's
        own type (float32 for shorter ones).
    out_axis : int
        Arrays of more than two axes become matrices out × rest: this axis is kept, all others are
        joined. 0 is right for PyTorch convolutions, −1 for Flax and Keras kernels.

    Returns
    -------
    list of dict
        `name`, `shape`, `matrix_shape` (the two-dimensional shape used), `max_rank`,
        `stable_rank`, `effective_rank` (power 1), `effective_rank_power2`, `numerical_rank`, each
        of these four divided by `max_rank` under `normalised`, `tolerance` (relative to s_1),
        `status` and `reason`. The status is "measured"; "skipped" for scalars, vectors and empty
        arrays; or "failed", as for NaN. Where it is not "measured", `reason` says why and the
        measures are None.

    Raises
    ------
    DepthrankError
        If `tol` or `out_axis` is not valid for any array.
    """
    if tol is not None and not 0 <= tol < 1:
        raise DepthrankError(f"tol is {tol!r}; it is relative to s_1 and must be in [0, 1).")
    return [_layer(name, np.asarray(W), tol, out_axis) for name, W in weights.items()]


_MEASURES = ("stable_rank", "effective_rank", "effective_rank_power2", "numerical_rank")


def _layer(name: str, W: np.ndarray, tol: float | None, out_axis: int) -> dict[str, Any]:
    """Return the row of one array."""
    row: dict[str, Any] = {"name": name, "shape": list(W.shape), "matrix_shape": None}
    row |= {"max_rank": None, **dict.fromkeys(_MEASURES), "normalised": None, "tolerance": None}
    if W.ndim < 2:
        kind = "a vector" if W.ndim == 1 else "a scalar"
        return row | {"status": "skipped", "reason": f"{kind}; rank measures need a matrix"}
    if W.size == 0:
        return row | {"status": "skipped", "reason": "empty; rank measures need entries"}
    if W.ndim > 2:
        if not -W.ndim <= out_axis < W.ndim:
            raise DepthrankError(
                f"out_axis is {out_axis}; array {name!r} has {W.ndim} axes (shape {W.shape})."
            )
        W = np.moveaxis(W, out_axis, 0)
        W = W.reshape(W.shape[0], -1)
    max_rank = min(W.shape)
    row |= {"matrix_shape": list(W.shape), "max_rank": max_rank}
    try:
        tolerance = spectra.default_tolerance(W) if tol is None else float(tol)
        s = spectra.singular_values(W)
    except (DepthrankError, np.linalg.LinAlgError) as error:
        return row | {"status": "failed", "reason": str(error)}
    values = (
        float(spectra.stable_rank_of(s)),
        float(spectra.effective_rank_of(s)),
        float(spectra.effective_rank_of(s, power=2)),
        int(spectra.numerical_rank_of(s, tolerance)),
    )
    row |= dict(zip(_MEASURES, values, strict=True))
    row["normalised"] = {key: row[key] / max_rank for key in _MEASURES}
    return row | {"tolerance": tolerance, "status": "measured", "reason": None}


def summary(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return counts and means over a table of layers, to be shown beside it.

    Parameters
    ----------
    rows : list of dict
        What `layer_table` returns.

    Returns
    -------
    dict
        `layers` (arrays in all), `measured`, `skipped`, `failed`; `mean` and `mean_normalised`:
        the four measures averaged over measured layers, None if there are none. Means over layers
        of different shapes hide a collapsed one: read the rows.
    """
    measured = [row for row in rows if row["status"] == "measured"]
    counts = {
        status: sum(row["status"] == status for row in rows)
        for status in ("measured", "skipped", "failed")
    }
    mean = normalised = None
    if measured:
        n = len(measured)
        mean = {key: math.fsum(row[key] for row in measured) / n for key in _MEASURES}
        normalised = {
            key: math.fsum(row["normalised"][key] for row in measured) / n for key in _MEASURES
        }
    return {"layers": len(rows), **counts, "mean": mean, "mean_normalised": normalised}
