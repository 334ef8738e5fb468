"""Centring and scaling of a table, and undoing both.

A table is written as offsets plus scale times what the factors fit. Offsets are a mean with
shrunken row and column effects; the scale makes the root mean square of what is left 1, so that
a table and its thousandfold are fitted alike.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from depthrank.errors import DepthrankError
from depthrank.observations import Observations

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

OFFSETS = ("none", "rows", "columns", "both")
SCALINGS = ("table", "columns", "none")
SHRINKAGE = 5.0
"""Cells' worth of evidence that pull a row or column effect towards zero."""

COLUMN_RANGE = 1e3
"""Automatic scaling treats columns one by one when their sizes differ by more than this."""

_SWEEPS = 20


@dataclass(frozen=True, eq=False)
class Preparation:
    """What was taken off a table, and what it was divided by.

    Attributes
    ----------
    offsets : str
        "none", "rows", "columns" or "both".
    scaling : str
        "table", "columns" or "none".
    mean : float
        Mean of the observed cells, 0 without offsets. User's units, as the effects.
    row_effects, col_effects : float64 [m], [n]
        Shrunken effects; zero where they are not fitted or nothing is observed.
    scales : float64 [n]
        What each column is divided by, > 0; one number n times unless `scaling` is "columns".
    size_ratio : float
        Root mean square of the largest column over that of the smallest, after offsets.
    """

    offsets: str
    scaling: str
    mean: float
    row_effects: Floats
    col_effects: Floats
    scales: Floats
    size_ratio: float = 1.0

    def base(self, rows: Ints, cols: Ints) -> Floats:
        """Return the offsets of cells, rows and cols broadcast against each other."""
        return np.asarray(self.mean + self.row_effects[rows] + self.col_effects[cols])

    def apply(self, observations: Observations) -> Observations:
        """Return the same cells as the factors see them."""
        rows, cols = observations.rows, observations.cols
        return observations.with_values(
            (observations.values - self.base(rows, cols)) / self.scales[cols]
        )

    def new_row_effect(self, cols: Ints, values: Floats) -> float:
        """Return the shrunken effect of a row that was not there when effects were fitted."""
        if self.offsets not in ("rows", "both") or not len(values):
            return 0.0
        left = values - self.mean - self.col_effects[cols]
        return float(left.sum() / (len(values) + SHRINKAGE))


def prepare(observations: Observations, offsets: str, scaling: str = "auto") -> Preparation:
    """Fit offsets and scales.

    Parameters
    ----------
    observations : Observations
        At least one cell.
    offsets : str
        One of `OFFSETS`. Effects are means of what the mean and the other effects leave, shrunk
        by `SHRINKAGE` cells, alternated until they settle.
    scaling : str
        One of `SCALINGS`, or "auto": by columns if their sizes differ by more than
        `COLUMN_RANGE`, the whole table otherwise.

    Returns
    -------
    Preparation

    Raises
    ------
    DepthrankError
        If a name is not known.
    """
    if offsets not in OFFSETS:
        raise DepthrankError(f"offsets is {offsets!r}; it must be one of {', '.join(OFFSETS)}.")
    if scaling not in (*SCALINGS, "auto"):
        raise DepthrankError(f"scaling is {scaling!r}; it must be auto, {', '.join(SCALINGS)}.")
    mean, row_effects, col_effects = _effects(observations, offsets)
    cols, n = observations.cols, observations.shape[1]
    left = observations.values - (mean + row_effects[observations.rows] + col_effects[cols])
    peak = float(np.abs(left).max(initial=0.0)) or 1.0  # squares of extreme values overflow
    counts = np.bincount(cols, minlength=n)
    squares = np.bincount(cols, (left / peak) ** 2, minlength=n)
    table = peak * float(np.sqrt(squares.sum() / max(counts.sum(), 1))) or 1.0
    columns = peak * np.sqrt(squares / np.maximum(counts, 1))
    sizes = columns[columns > 0]
    ratio = float(sizes.max() / sizes.min()) if sizes.size else 1.0
    if scaling == "auto":
        scaling = "columns" if ratio > COLUMN_RANGE else "table"
    if scaling == "columns":
        scales = np.where(columns > 0, columns, 1.0)
    else:
        scales = np.full(n, table if scaling == "table" else 1.0)
    return Preparation(offsets, scaling, mean, row_effects, col_effects, scales, ratio)


def _effects(observations: Observations, offsets: str) -> tuple[float, Floats, Floats]:
    m, n = observations.shape
    row_effects, col_effects = np.zeros(m), np.zeros(n)
    if offsets == "none" or not observations.n_observed:
        return 0.0, row_effects, col_effects
    mean = float(observations.values.mean())
    rows, cols, left = observations.rows, observations.cols, observations.values - mean
    for _ in range(_SWEEPS):
        before = np.concatenate((row_effects, col_effects))
        if offsets in ("columns", "both"):
            col_effects = _shrunken_means(left - row_effects[rows], cols, n)
        if offsets in ("rows", "both"):
            row_effects = _shrunken_means(left - col_effects[cols], rows, m)
        after = np.concatenate((row_effects, col_effects))
        if np.abs(after - before).max() <= 1e-9 * np.abs(after).max():
            break
    return mean, row_effects, col_effects


def _shrunken_means(values: Floats, groups: NDArray[np.int64], size: int) -> Floats:
    sums = np.bincount(groups, values, minlength=size)
    return np.asarray(sums / (np.bincount(groups, minlength=size) + SHRINKAGE))


@dataclass(frozen=True, eq=False)
class Fallback:
    """What stands where nothing can be estimated: means of the observed cells, user's units.

    Attributes
    ----------
    overall : float
        Mean of all observed cells: a cell in an empty (or unknown) row and column.
    row_means : float64 [m]
        A cell in an empty or unknown column gets its row's mean (overall in an empty row).
    col_means : float64 [n]
        A cell in an empty or unknown row gets its column's mean (overall in an empty column).
    """

    overall: float
    row_means: Floats
    col_means: Floats


def fallback(observations: Observations) -> Fallback:
    """Return the means of all cells, of rows and of columns; at least one cell is needed."""
    m, n = observations.shape
    overall = float(observations.values.mean())

    def means(groups: NDArray[np.int64], size: int) -> Floats:
        counts = np.bincount(groups, minlength=size)
        sums = np.bincount(groups, observations.values, minlength=size)
        return np.where(counts > 0, sums / np.maximum(counts, 1), overall)

    return Fallback(overall, means(observations.rows, m), means(observations.cols, n))
