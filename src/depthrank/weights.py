"""Rank measures of every weight in a file, beside what untrained weights of its shape would read.

Each array of two or more axes is one layer and one row of the table; an array that cannot be
measured keeps its row, with the reason, and the others go on. Two files of one network compare
layer by layer, the change itself included.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from depthrank import spectra
from depthrank.baselines import baseline, measures_of
from depthrank.checkpoints import read_weights
from depthrank.errors import DepthrankError
from depthrank.reshaping import matrices

__all__ = ["compare_weights", "layer_spectrum", "layer_table", "read_weights", "summary"]


def layer_table(
    weights: Mapping[str, Any],
    *,
    tol: float | None = None,
    out_axis: int = 0,
    conv: str = "flatten",
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
        Axis of the output channels of arrays of more than two axes: 0 is right for PyTorch
        convolutions, −1 for Flax and Keras kernels.
    conv : {"flatten", "slices", "spatial"}
        What becomes of arrays of more than two axes, `depthrank.reshaping`: by default one matrix,
        out × rest. A file does not say which convolutions are grouped or transposed; measuring the
        module does (`depthrank.networks`).

    Returns
    -------
    list of dict
        `name`, `shape`, `matrix_shape` (the two-dimensional shape used), `blocks` (how many of
        them), `max_rank`, `stable_rank`, `effective_rank` (power 1), `effective_rank_power2`,
        `numerical_rank`, each of these four divided by `max_rank` under `normalised`; `baseline`
        (the soft ones of independent Gaussian entries, see `depthrank.baselines`), `ratio` and
        `excess` to it; `tolerance` (relative to s_1), `status` and `reason`. The status is
        "measured"; "skipped" for scalars, vectors, empty arrays and repeated views of weights
        that have a row already (tied); or "failed", as for NaN. Where it is not "measured",
        `reason` says why and the measures are None.

    Raises
    ------
    DepthrankError
        If `tol` or `out_axis` is not valid for any array.
    """
    if tol is not None and not 0 <= tol < 1:
        raise DepthrankError(f"tol is {tol!r}; it is relative to s_1 and must be in [0, 1).")
    rows: list[dict[str, Any]] = []
    owners: dict[Any, str] = {}
    for name, given in weights.items():
        W = np.asarray(given)
        place = (W.__array_interface__["data"][0], W.shape, W.strides)
        owner = owners.setdefault(place, name) if W.size else name
        rows.append(_layer(name, W, tol, out_axis, conv, None if owner == name else owner))
    return rows


_MEASURES = ("stable_rank", "effective_rank", "effective_rank_power2", "numerical_rank")
_SOFT = _MEASURES[:3]


def layer_spectrum(W: Any, *, out_axis: int = 0, conv: str = "flatten") -> np.ndarray:
    """Return the singular values of one layer, descending; of all its blocks together.

    Raises
    ------
    DepthrankError
        As `singular_values` and `depthrank.reshaping.matrices`.
    """
    s = spectra.singular_values(matrices(np.asarray(W), out_axis=out_axis, conv=conv))
    return np.sort(s, axis=None)[::-1]


def _layer(
    name: str, W: np.ndarray, tol: float | None, out_axis: int, conv: str, owner: str | None
) -> dict[str, Any]:
    """Return the row of one array."""
    row: dict[str, Any] = {"name": name, "shape": list(W.shape), "matrix_shape": None}
    row |= {"blocks": None, "max_rank": None, **dict.fromkeys(_MEASURES)}
    row |= dict.fromkeys(("normalised", "baseline", "ratio", "excess", "tolerance"))
    if W.ndim < 2:
        kind = "a vector" if W.ndim == 1 else "a scalar"
        return row | {"status": "skipped", "reason": f"{kind}; rank measures need a matrix"}
    if W.size == 0:
        return row | {"status": "skipped", "reason": "empty; rank measures need entries"}
    if owner is not None:
        return row | {"status": "skipped", "reason": f"tied: the weights of {owner!r} once more"}
    if W.ndim > 2 and not -W.ndim <= out_axis < W.ndim:
        raise DepthrankError(
            f"out_axis is {out_axis}; array {name!r} has {W.ndim} axes (shape {W.shape})."
        )
    stack = matrices(W, out_axis=out_axis if W.ndim > 2 else 0, conv=conv)
    blocks, m, n = stack.shape
    max_rank = blocks * min(m, n)
    row |= {"matrix_shape": [m, n], "blocks": blocks, "max_rank": max_rank}
    try:
        held = stack[0] if blocks == 1 else stack  # a message then names the entry of a matrix
        tolerance = spectra.default_tolerance(held) if tol is None else float(tol)
        s = np.sort(spectra.singular_values(held), axis=None)[::-1]
    except (DepthrankError, np.linalg.LinAlgError) as error:
        return row | {"status": "failed", "reason": str(error)}
    soft, flat = measures_of(s), baseline(m, n, blocks=blocks)
    row |= {key: soft[key] for key in _SOFT}
    row["numerical_rank"] = int(spectra.numerical_rank_of(s, tolerance))
    row["normalised"] = {key: row[key] / max_rank for key in _MEASURES}
    row["baseline"] = {key: flat[key] for key in _SOFT}
    row["ratio"] = {key: row[key] / flat[key] for key in _SOFT}
    row["excess"] = {key: row[key] - flat[key] for key in _SOFT}
    return row | {"tolerance": tolerance, "status": "measured", "reason": None}


def compare_weights(
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    *,
    out_axis: int = 0,
    conv: str = "flatten",
) -> list[dict[str, Any]]:
    """Compare two sets of weights of one network, such as the start and the end of a training.

    Parameters
    ----------
    before, after : mapping of str to array_like
        Named arrays.
    out_axis, conv
        As in `layer_table`.

    Returns
    -------
    list of dict
        A row for every name in either, in the order of `after`: `name`, `status`, `reason`;
        `before` and `after` (the three soft measures of each), `change` (those of after − before,
        the rank of what was learnt), `distance` = ‖after − before‖_F / ‖before‖_F (None if
        before is zero). The status is "measured"; "unmatched" (only one side has the name, or the
        shapes differ); "skipped" or "failed" as in `layer_table`.
    """
    options = {"out_axis": out_axis, "conv": conv}
    first = {row["name"]: row for row in layer_table(before, **options)}  # type: ignore[arg-type]
    rows = []
    for row in layer_table(after, **options):  # type: ignore[arg-type]
        name = row["name"]
        found: dict[str, Any] = {"name": name, "status": row["status"], "reason": row["reason"]}
        found |= dict.fromkeys(("before", "after", "change", "distance"))
        rows.append(found)
        old = first.pop(name, None)
        if old is None or old["shape"] != row["shape"]:
            what = "the first has no such array" if old is None else f"the first has {old['shape']}"
            found |= {"status": "unmatched", "reason": f"{what}, the second {row['shape']}"}
            continue
        if row["status"] != "measured" or old["status"] != "measured":
            worse = row if row["status"] != "measured" else old
            found |= {"status": worse["status"], "reason": worse["reason"]}
            continue
        a = np.asarray(before[name], dtype=np.float64)
        difference = np.asarray(after[name], dtype=np.float64) - a
        size = float(np.linalg.norm(a))
        found["before"] = {key: old[key] for key in _SOFT}
        found["after"] = {key: row[key] for key in _SOFT}
        change = measures_of(layer_spectrum(difference, **options))  # type: ignore[arg-type]
        found["change"] = {key: change[key] for key in _SOFT}
        found["distance"] = float(np.linalg.norm(difference)) / size if size else None
    for name, old in first.items():
        reason = f"the first has {old['shape']}, the second no such array"
        empty = dict.fromkeys(("before", "after", "change", "distance"))
        rows.append({"name": name, "status": "unmatched", "reason": reason, **empty})
    return rows


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
        the four measures averaged over measured layers, `mean_ratio`: the soft ones over their
        baselines; None if there are none. Means over layers of different shapes hide a collapsed
        one: read the rows.
    """
    measured = [row for row in rows if row["status"] == "measured"]
    counts = {
        status: sum(row["status"] == status for row in rows)
        for status in ("measured", "skipped", "failed")
    }
    mean = normalised = ratio = None
    if measured:
        n = len(measured)
        mean = {key: math.fsum(row[key] for row in measured) / n for key in _MEASURES}
        normalised = {
            key: math.fsum(row["normalised"][key] for row in measured) / n for key in _MEASURES
        }
        ratio = {key: math.fsum(row["ratio"][key] for row in measured) / n for key in _SOFT}
    means = {"mean": mean, "mean_normalised": normalised, "mean_ratio": ratio}
    return {"layers": len(rows), **counts, **means}
